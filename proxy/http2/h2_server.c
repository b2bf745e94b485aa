#include "http2/h2_server.h"

#include <errno.h>
#include <string.h>

#include "base/list.h"
#include "net/dial.h"
#include "http2/h2_output.h"
#include "http2/h2_place.h"
#include "upstream/server_pool.h"

/* Places of a server of which no SETTINGS were seen yet, and at most: beyond that, more connections
 * serve better than more streams of one. */
#define PLACES_FIRST 100
#define PLACES_MOST  256
/* Of each stream, which bounds memory; and of all of a connection, which no stream holds back. */
#define STREAM_WINDOW     (256 * 1024)
#define CONNECTION_WINDOW (16 * 1024 * 1024)
#define PROGRESS_BYTES    (16 * 1024) /* a frame of DATA at its usual most */
#define HEAD_BYTES_MOST   (256 * 1024)
/* Ids end at 2^31 - 1. */
#define LAST_ID (1u << 30)
/* So long a server with requests may be silent before it is asked for a sign of life. */
#define QUIET_MS 10000
/* And again, while nothing but its answer has come: gRPC's servers end a connection that asks more
 * often than every five minutes. */
#define QUIET_STILL_MS 310000
/* How often one connection runs its places and writes, before it is the others' turn. */
#define ROUNDS_MOST 16
#define READS_MOST  32
#define ACKS_MOST   200

static void give_up(struct h2_server *s, int error, const char *why);
static void close_server(struct h2_server *s, const char *why);

/* ---- what comes ------------------------------------------------------------------------------ */

static struct h2_place *place_of(nghttp2_session *session, int32_t id)
{
	return nghttp2_session_get_stream_user_data(session, id);
}

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
	struct h2_server *s = h2_server_of_link(user);
	const struct h2_place *place = place_of(session, frame->hd.stream_id);

	h2_head_begin(&s->head, &s->link.worker->blocks, HEAD_BYTES_MOST,
		place && place->has_final_head ? H2_HEAD_TRAILERS : H2_HEAD_RESPONSE);
	return 0;
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
	size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags, void *user)
{
	(void)session;
	(void)frame;
	(void)flags;
	h2_head_add(&h2_server_of_link(user)->head, (struct slice){(const char *)name, name_len},
		(struct slice){(const char *)value, value_len});
	return 0;
}

/* nghttp2 would leave the field out: with it the response is malformed (RFC 9113 section 8.2.1). */
static int on_invalid_header(nghttp2_session *session, const nghttp2_frame *frame,
	const uint8_t *name, size_t name_len, const uint8_t *value, size_t value_len, uint8_t flags,
	void *user)
{
	(void)session;
	(void)frame;
	(void)name;
	(void)name_len;
	(void)value;
	(void)value_len;
	(void)flags;
	h2_server_of_link(user)->head.is_bad = true;
	return 0;
}

static int on_invalid_frame(
	nghttp2_session *session, const nghttp2_frame *frame, int error, void *user)
{
	struct h2_place *place = place_of(session, frame->hd.stream_id);

	(void)error;
	(void)user;
	if (place)
		place->is_bad = true;
	return 0;
}

static void read_settings(struct h2_server *s)
{
	uint32_t most = nghttp2_session_get_remote_settings(
		s->link.session, NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS);

	/* With none, a request waits until there is one. */
	most = most == 0 ? 1 : most;
	most = most < PLACES_MOST ? most : PLACES_MOST;
	s->is_greeted = true;
	/* relaxed: a guess for the next connection */
	atomic_store_explicit(&s->connection.known->places, most, memory_order_relaxed);
	if (!s->connection.is_retired)
		pool_set_places(&s->connection, most);
}

/* A PING is acknowledged; so are those before it. */
static void ponged(struct h2_server *s, const uint8_t *opaque)
{
	struct h2_place *next;
	uint64_t number;

	memcpy(&number, opaque, sizeof(number));
	if (number <= s->pongs || number > s->pings)
		return;
	s->pongs = number;
	s->received_at_pong = s->connection.stream.received;
	for (struct h2_place *place = s->places; place; place = next) {
		next = place->next;
		h2_place_ponged(place, number);
	}
}

static void end_headers(struct h2_server *s, const nghttp2_frame *frame)
{
	struct h2_place *place = place_of(s->link.session, frame->hd.stream_id);

	if (place)
		h2_place_head(place, frame->hd.flags & NGHTTP2_FLAG_END_STREAM);
	h2_head_end(&s->head);
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
	struct h2_server *s = h2_server_of_link(user);
	struct h2_place *place;

	switch (frame->hd.type) {
	case NGHTTP2_HEADERS:
		end_headers(s, frame);
		break;
	case NGHTTP2_DATA:
		place = place_of(session, frame->hd.stream_id);
		if (place && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM))
			h2_place_ended(place);
		break;
	case NGHTTP2_SETTINGS:
		if (!(frame->hd.flags & NGHTTP2_FLAG_ACK))
			read_settings(s);
		break;
	case NGHTTP2_PING:
		if (frame->hd.flags & NGHTTP2_FLAG_ACK)
			ponged(s, frame->ping.opaque_data);
		break;
	case NGHTTP2_GOAWAY:
		/* nghttp2 closes the streams beyond the last as refused (RFC 9113 section 6.8). */
		pool_retire(&s->connection);
		break;
	default:
		break;
	}
	return 0;
}

static int on_data(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *bytes,
	size_t len, void *user)
{
	struct h2_place *place = place_of(session, id);

	(void)flags;
	(void)user;
	/* The connection's window is no stream's to hold back. */
	nghttp2_session_consume_connection(session, len);
	if (place)
		h2_place_body(place, bytes, len);
	return 0;
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t error_code, void *user)
{
	struct h2_place *place = place_of(session, id);

	(void)user;
	if (place)
		h2_place_closed(place, error_code);
	return 0;
}

/* ---- what leaves ----------------------------------------------------------------------------- */

static int on_sent(nghttp2_session *session, const nghttp2_frame *frame, void *user)
{
	struct h2_place *place = place_of(session, frame->hd.stream_id);
	bool is_end = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;

	(void)user;
	if (!place)
		return 0;
	if (frame->hd.type == NGHTTP2_RST_STREAM)
		h2_place_reset_sent(place);
	if (frame->hd.type == NGHTTP2_HEADERS && place->sink.head_due) {
		h2_place_head_sent(place, frame->hd.length, is_end);
	} else if (frame->hd.type <= NGHTTP2_HEADERS && is_end) {
		place->sink.has_ended = true;
		h2_place_run_later(place);
	}
	return 0;
}

/* A request's head is not sent: as its exchange has given it up, when it is not ours any more; or
 * as the server takes none any more. */
static int on_not_sent(nghttp2_session *session, const nghttp2_frame *frame, int error, void *user)
{
	struct h2_place *place = place_of(session, frame->hd.stream_id);

	(void)user;
	if (frame->hd.type != NGHTTP2_HEADERS || !place || !place->sink.head_due)
		return 0;
	if (error == NGHTTP2_ERR_STREAM_CLOSING)
		nghttp2_session_set_stream_user_data(session, frame->hd.stream_id, NULL);
	else
		h2_place_refused(place);
	return 0;
}

/* ---- the session ----------------------------------------------------------------------------- */

static bool make_callbacks(struct h2_worker *h2)
{
	if (nghttp2_session_callbacks_new(&h2->server_callbacks) != 0)
		return false;
	nghttp2_session_callbacks *calls = h2->server_callbacks;
	nghttp2_session_callbacks_set_on_begin_headers_callback(calls, on_begin_headers);
	nghttp2_session_callbacks_set_on_header_callback(calls, on_header);
	nghttp2_session_callbacks_set_on_invalid_header_callback(calls, on_invalid_header);
	nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(calls, on_invalid_frame);
	nghttp2_session_callbacks_set_on_frame_recv_callback(calls, on_frame);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(calls, on_data);
	nghttp2_session_callbacks_set_on_stream_close_callback(calls, on_close);
	nghttp2_session_callbacks_set_on_frame_send_callback(calls, on_sent);
	nghttp2_session_callbacks_set_on_frame_not_send_callback(calls, on_not_sent);
	nghttp2_session_callbacks_set_send_data_callback(calls, h2_output_send_data);
	nghttp2_session_callbacks_set_data_source_read_length_callback(
		calls, h2_output_most_of_frame);
	return true;
}

static bool begin_session(struct h2_server *s)
{
	static const nghttp2_settings_entry settings[] = {
		{NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
		{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, STREAM_WINDOW},
		{NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, HEAD_BYTES_MOST},
	};
	struct h2_worker *h2 = h2_part(s->link.worker);

	if (nghttp2_session_client_new2(
		    &s->link.session, h2->server_callbacks, &s->link, h2->option) != 0) {
		s->link.session = NULL;
		return false;
	}
	return nghttp2_submit_settings(s->link.session, NGHTTP2_FLAG_NONE, settings,
		       sizeof(settings) / sizeof(settings[0])) == 0 &&
	       nghttp2_session_set_local_window_size(
		       s->link.session, NGHTTP2_FLAG_NONE, 0, CONNECTION_WINDOW) == 0;
}

/* ---- deadlines ------------------------------------------------------------------------------- */

void h2_server_ping(struct h2_server *s)
{
	uint8_t opaque[8];

	if (s->pings == s->pongs)
		s->received_at_ping = s->connection.stream.received;
	s->pings++;
	memcpy(opaque, &s->pings, sizeof(opaque));
	nghttp2_submit_ping(s->link.session, NGHTTP2_FLAG_NONE, opaque);
	h2_server_write_later(s);
}

/* How far it has come towards the acknowledgment of a PING: what the server had sent before stands
 * in front of that, which is at most a window, and comes in more than a few bytes at a time. */
static uint64_t ping_progress(const struct h2_server *s)
{
	uint64_t received = s->connection.stream.received - s->received_at_ping;

	if (received > CONNECTION_WINDOW)
		received = CONNECTION_WINDOW;
	return s->pongs * (CONNECTION_WINDOW / PROGRESS_BYTES + 1) + received / PROGRESS_BYTES;
}

static void wait_on(struct h2_server *s)
{
	struct wait *wait = &s->connection.wait;
	uint64_t now_ms = worker_now_ms(s->link.worker);
	bool pings = s->pings > s->pongs;
	uint64_t received = s->connection.stream.received;
	uint64_t quiet_ms = received == s->received_at_pong ? QUIET_STILL_MS : QUIET_MS;

	if (s->link.block.at || s->link.held_bytes > 0)
		wait_for(wait, WAIT_TAKE, s->connection.stream.sent, now_ms + s->send_timeout_ms,
			now_ms);
	else if (pings || s->connection.places_used > 0)
		wait_for(wait, WAIT_PING, pings ? 2 * ping_progress(s) + 1 : 2 * received,
			now_ms + (pings ? s->connect_timeout_ms : quiet_ms), now_ms);
	else
		wait_for(wait, WAIT_REUSE, s->connection.requests, now_ms + s->keepalive_timeout_ms,
			now_ms);
}

static void on_deadline(struct deadline *deadline)
{
	struct wait *wait = CONTAINER_OF(deadline, struct wait, deadline);
	struct server_connection *connection = CONTAINER_OF(wait, struct server_connection, wait);
	struct h2_server *s = h2_server_of(connection);

	switch ((int)wait->reason) {
	case WAIT_CONNECT:
		give_up(s, ETIMEDOUT, "connect timeout");
		break;
	case WAIT_TAKE:
		stream_reset_at_close(&connection->stream);
		close_server(s, "send timeout");
		break;
	case WAIT_PING:
		if (s->pings > s->pongs)
			close_server(s, "no answer to PING");
		else
			h2_server_ping(s);
		break;
	default:
		server_connection_close(connection);
		break;
	}
}

/* ---- the life of a connection ---------------------------------------------------------------- */

void h2_server_write_later(struct h2_server *s)
{
	struct h2_worker *h2 = h2_part(s->link.worker);

	if (s->unflushed || s->connection.state == SERVER_CONNECTION_CLOSED)
		return;
	s->unflushed = true;
	s->next_unflushed = NULL;
	*h2->last_unflushed_server = s;
	h2->last_unflushed_server = &s->next_unflushed;
}

static void take_conf(struct h2_server *s, const struct conf_upstream *conf)
{
	s->connect_timeout_ms = conf->connect_timeout_ms;
	s->send_timeout_ms = conf->send_timeout_ms;
	s->keepalive_timeout_ms = conf->keepalive_timeout_ms;
}

static bool flush_all(struct loop_stage *stage);

/* The first connection registers the stage: a worker that has none pays for none. */
static void await_writes(struct h2_worker *h2)
{
	if (h2->server_stage.run)
		return;
	h2->server_stage.run = flush_all;
	loop_add_stage(&h2->worker->loop, LOOP_WRITE, &h2->server_stage);
}

static void begin(struct server_connection *connection, const struct conf_upstream *conf)
{
	struct h2_server *s = h2_server_of(connection);
	uint64_t now_ms = worker_now_ms(connection->worker);

	s->link.worker = connection->worker;
	s->link.stream = &connection->stream;
	s->ready.last = &s->ready.first;
	wait_init(&connection->wait, connection->worker->loop.base, on_deadline);
	take_conf(s, conf);
	wait_for(&connection->wait, WAIT_CONNECT, 0, now_ms + s->connect_timeout_ms, now_ms);
	await_writes(h2_part(connection->worker));
	CHAIN_PUSH(h2_part(connection->worker)->servers, s, prev, next);
	/* relaxed: a guess, as above */
	uint32_t places = atomic_load_explicit(&connection->known->places, memory_order_relaxed);
	pool_set_places(connection, places > 0 ? places : PLACES_FIRST);
}

static const char *open_session(struct server_connection *connection)
{
	struct h2_server *s = h2_server_of(connection);
	const char *name = connection->tls ? stream_protocol(&connection->stream) : "h2";

	if (!name || strcmp(name, "h2") != 0)
		return "it does not speak HTTP/2";
	if (!begin_session(s))
		return "no memory";
	h2_server_write_later(s);
	return NULL;
}

static void place_taken(struct server_connection *connection, struct server_connection *place,
	const struct conf_upstream *conf)
{
	struct h2_server *s = h2_server_of(connection);
	uint64_t now_ms = worker_now_ms(connection->worker);

	s->connect_timeout_ms = conf->connect_timeout_ms;
	s->send_timeout_ms = conf->send_timeout_ms;
	s->keepalive_timeout_ms = conf->keepalive_timeout_ms;
	if (connection->state == SERVER_CONNECTION_CONNECTING)
		wait_for(
			&connection->wait, WAIT_CONNECT, 0, now_ms + s->connect_timeout_ms, now_ms);
	else
		h2_server_write_later(s);
	h2_place_begin(s, place);
}

static void place_given(struct server_connection *connection)
{
	if (connection->state == SERVER_CONNECTION_BUSY)
		h2_server_write_later(h2_server_of(connection));
}

static bool is_over(const struct server_connection *connection)
{
	const struct h2_server *s = (const struct h2_server *)connection;

	if (connection->state == SERVER_CONNECTION_CONNECTING)
		return false;
	return connection->state != SERVER_CONNECTION_BUSY || connection->stream.failed ||
	       connection->stream.read_ended ||
	       !nghttp2_session_check_request_allowed(s->link.session) ||
	       (uint32_t)nghttp2_session_get_next_stream_id(s->link.session) > LAST_ID;
}

/* Says so to a server that listens. */
static void say_goodbye(struct h2_server *s)
{
	if (!s->link.session || s->connection.stream.failed)
		return;
	nghttp2_session_terminate_session(s->link.session, NGHTTP2_NO_ERROR);
	h2_output_send(&s->link);
	h2_output_write(&s->link);
}

static void end(struct server_connection *connection)
{
	struct h2_server *s = h2_server_of(connection);

	say_goodbye(s);
	nghttp2_session_del(s->link.session);
	s->link.session = NULL;
	h2_head_end(&s->head);
	buffer_release(&s->link.block, &s->link.worker->blocks);
	s->link.held_bytes = 0;
	CHAIN_REMOVE(h2_part(s->link.worker)->servers, s, prev, next);
}

static void tell(struct server_connection *place, int error, const char *why)
{
	if (place->state != SERVER_CONNECTION_CONNECTING)
		place->events->event(place->exchange);
	else if (error == ETIMEDOUT)
		place->events->timeout(place->exchange);
	else
		place->events->connected(place->exchange, error, why);
}

/* Its exchanges learn of it; not before it is off the pool's list, as they may look for another. */
static void give_up(struct h2_server *s, int error, const char *why)
{
	struct h2_place *place;

	pool_retire(&s->connection);
	s->connection.places_used++; /* it stays until all know */
	while ((place = s->places) != NULL) {
		h2_place_lose(place, error == 0 ? why : NULL);
		s->connection.places_used--;
		tell(&place->connection, error, why);
	}
	s->connection.places_used--;
	server_connection_close(&s->connection);
}

static void close_server(struct h2_server *s, const char *why)
{
	bool is_greeted = s->connection.state != SERVER_CONNECTION_CONNECTING;

	give_up(s, is_greeted ? 0 : EPROTONOSUPPORT, why);
}

/* Its connection is made: the server's SETTINGS come next. */
static void connected(struct h2_server *s)
{
	struct server_connection *connection = &s->connection;
	const char *why = NULL;
	int error = dial_progress(&connection->stream, &why);

	if (error == EINPROGRESS)
		return;
	if (error == 0 && (why = open_session(connection)) != NULL)
		error = EPROTONOSUPPORT;
	if (error != 0)
		give_up(s, error, why);
	else if (s->places)
		server_warn_of_expiry(s->places->connection.server);
}

/* The one that has waited longest for the connection. */
static struct h2_place *find_waiting(const struct h2_server *s)
{
	struct h2_place *found = NULL;

	for (struct h2_place *place = s->places; place; place = place->next) {
		if (place->connection.state == SERVER_CONNECTION_CONNECTING)
			found = place;
	}
	return found;
}

/* The server's SETTINGS are known: so many requests begin as they allow, the others look for
 * another connection. */
static void greeted(struct h2_server *s)
{
	struct server_connection *connection = &s->connection;
	uint32_t left = connection->is_retired ? 0 : connection->places;
	struct h2_place *place;

	connection->state = SERVER_CONNECTION_BUSY;
	server_addresses_connected(
		&connection->known->addresses, connection->slot, connection->address_id);
	connection->places_used++; /* it stays until all know */
	while ((place = find_waiting(s)) != NULL) {
		place->connection.state = SERVER_CONNECTION_BUSY;
		if (left == 0) {
			place->connection.is_refused = true;
			h2_place_lose(place, "more requests than streams");
			connection->places_used--;
		} else {
			left--;
		}
		place->connection.events->connected(place->connection.exchange, 0, NULL);
	}
	pool_give_place(connection, UINT32_MAX);
}

/* ---- reading and writing --------------------------------------------------------------------- */

/* False: the session is beyond use; a GOAWAY is composed where it can be. */
static bool receive(struct h2_server *s, const struct buffer *in)
{
	size_t len = buffer_used(in);

	s->link.receiving = true;
	ssize_t read =
		nghttp2_session_mem_recv(s->link.session, (const uint8_t *)buffer_head(in), len);
	s->link.receiving = false;
	if (read < 0)
		nghttp2_session_terminate_session(s->link.session, NGHTTP2_INTERNAL_ERROR);
	return read >= 0;
}

/* Reads once. False: nothing more now. */
static bool read_once(struct h2_server *s)
{
	struct buffer_pool *blocks = &s->link.worker->blocks;
	struct buffer in = {0};
	bool goes_on = false;

	if (!buffer_acquire(&in, blocks)) {
		close_server(s, "no memory");
		return false;
	}
	enum stream_result result = stream_read(&s->connection.stream, &in);
	if (result == STREAM_OK)
		goes_on = receive(s, &in);
	buffer_release(&in, blocks);
	return goes_on;
}

static void read_more(struct h2_server *s)
{
	struct stream *stream = &s->connection.stream;
	uint64_t now_ns = worker_now_ns(s->link.worker);

	if (s->turn.ns != now_ns)
		s->turn = (struct h2_turn){.ns = now_ns};
	while (stream->readable && nghttp2_session_want_read(s->link.session)) {
		if (s->turn.work++ >= READS_MOST) {
			stream_yield(stream);
			return;
		}
		if (!read_once(s))
			return;
	}
}

/* All is done that can be now. */
static void settle(struct h2_server *s)
{
	struct server_connection *connection = &s->connection;
	bool is_over = !nghttp2_session_want_read(s->link.session) && !h2_link_has_output(&s->link);

	if (connection->stream.failed || connection->stream.read_ended || is_over)
		close_server(s, is_over ? "HTTP/2 error" : "closed by the server");
	else if (connection->is_retired && connection->places_used == 0)
		server_connection_close(connection);
	else if (connection->state == SERVER_CONNECTION_BUSY)
		wait_on(s);
}

/* Runs its places and writes, until nothing changes. */
static void run(struct h2_server *s)
{
	unsigned rounds = 0;

	do {
		h2_place_run_ready(&s->ready);
		if (!s->link.session)
			return;
		do {
			h2_output_send(&s->link);
			h2_output_write(&s->link);
		} while (!s->link.block.at && !s->connection.stream.failed &&
			 h2_link_has_output(&s->link) && ++rounds < ROUNDS_MOST);
	} while (s->ready.first && ++rounds < ROUNDS_MOST);
	if (s->ready.first || (!s->link.block.at && h2_link_has_output(&s->link)))
		stream_yield(&s->connection.stream);
	settle(s);
}

static void on_event(struct stream *stream)
{
	struct server_connection *connection =
		CONTAINER_OF(stream, struct server_connection, stream);
	struct h2_server *s = h2_server_of(connection);

	if (!s->link.session && connection->state == SERVER_CONNECTION_CONNECTING)
		connected(s);
	if (s->link.session)
		read_more(s);
	if (s->is_greeted && connection->state == SERVER_CONNECTION_CONNECTING)
		greeted(s);
	if (s->link.session)
		run(s);
}

static const struct stream_calls stream_calls = {NULL, on_event};

const struct server_many h2_server_many = {
	.bytes = sizeof(struct h2_server),
	.stream_calls = &stream_calls,
	.begin = begin,
	.open = open_session,
	.place_taken = place_taken,
	.place_given = place_given,
	.is_over = is_over,
	.end = end,
};

/* ---- the worker ------------------------------------------------------------------------------ */

static bool flush_all(struct loop_stage *stage)
{
	struct h2_worker *h2 = CONTAINER_OF(stage, struct h2_worker, server_stage);
	struct h2_server *s;

	if (!h2->unflushed_servers && !h2->lost.first)
		return false;
	h2_place_run_ready(&h2->lost);
	while ((s = h2->unflushed_servers) != NULL) {
		h2->unflushed_servers = s->next_unflushed;
		if (!h2->unflushed_servers)
			h2->last_unflushed_server = &h2->unflushed_servers;
		s->unflushed = false;
		if (s->link.session)
			run(s);
	}
	return true;
}

bool h2_servers_make(struct worker *worker)
{
	struct h2_worker *h2 = h2_part(worker);

	h2->no_link.worker = worker;
	h2->lost.last = &h2->lost.first;
	h2->last_unflushed_server = &h2->unflushed_servers;
	return make_callbacks(h2);
}

void h2_servers_end(struct worker *worker)
{
	struct h2_worker *h2 = h2_part(worker);
	struct h2_server *next;

	for (struct h2_server *s = h2->servers; s; s = next) {
		next = s->next;
		close_server(s, "shutdown");
	}
}
