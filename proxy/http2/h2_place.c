#include "http2/h2_place.h"

#include <string.h>

#include "base/list.h"
#include "exchange/exchange.h"
#include "exchange/outgoing.h"
#include "http/parser.h"
#include "http2/h2_fields.h"
#include "http2/h2_output.h"

/* Heads that were not read yet: of a server that sends more interim ones than its client takes. */
#define HEADS_BYTES_MOST (256 * 1024)
/* As in HTTP/1: http1/http1_server.c. */
static const struct http_parser_limits limits = {256 * 1024, 0, 512};

static struct h2_place *of_source(struct h2_source *source)
{
	return CONTAINER_OF(source, struct h2_place, source);
}

static struct h2_place *of_sink(struct h2_sink *sink)
{
	return CONTAINER_OF(sink, struct h2_place, sink);
}

static const struct h2_place *as_place(const struct server_connection *connection)
{
	return (const struct h2_place *)connection;
}

/* NULL: it has lost its connection. */
static struct h2_server *server_of(const struct h2_place *place)
{
	struct server_connection *carrier = place->connection.carrier;

	return carrier ? h2_server_of(carrier) : NULL;
}

/* Its session, if that knows the stream. */
static nghttp2_session *session_of(const struct h2_place *place)
{
	struct h2_server *server = server_of(place);

	return server && place->id > 0 && !place->closed ? server->link.session : NULL;
}

/* ---- events ---------------------------------------------------------------------------------- */

static struct h2_ready *list_of(const struct h2_place *place)
{
	struct h2_server *server = server_of(place);

	return server ? &server->ready : &h2_part(place->connection.worker)->lost;
}

void h2_place_run_later(struct h2_place *place)
{
	struct h2_server *server = server_of(place);
	struct h2_ready *list = list_of(place);

	if (!place->ready) {
		place->ready = true;
		place->next_ready = NULL;
		*list->last = place;
		list->last = &place->next_ready;
	}
	if (server)
		h2_server_write_later(server);
}

static void leave_ready(struct h2_place *place)
{
	struct h2_ready *list = list_of(place);
	struct h2_place **at;

	if (!place->ready)
		return;
	for (at = &list->first; *at != place; at = &(*at)->next_ready)
		;
	*at = place->next_ready;
	if (!*at)
		list->last = at;
	place->ready = false;
}

void h2_place_run_ready(struct h2_ready *ready)
{
	struct h2_place *place;

	while ((place = ready->first) != NULL) {
		leave_ready(place);
		if (place->connection.state == SERVER_CONNECTION_BUSY)
			place->connection.events->event(place->connection.exchange);
	}
}

static void reset(struct h2_place *place, uint32_t error_code)
{
	nghttp2_session *session = session_of(place);

	if (!session)
		return;
	nghttp2_submit_rst_stream(session, NGHTTP2_FLAG_NONE, place->id, error_code);
	h2_server_write_later(server_of(place));
}

/* The text is kept until its exchange has read it, and needs it no more. */
static bool keep_head(struct h2_place *place, struct slice text)
{
	struct buffer_pool *blocks = &place->connection.worker->blocks;
	struct buffer *heads = &place->heads;

	if (!heads->at && !buffer_acquire(heads, blocks))
		return false;
	if (buffer_used(heads) == 0)
		heads->start = heads->end = 0;
	if (buffer_room(heads) < text.len &&
		!buffer_reserve(heads, blocks, 2 * (buffer_used(heads) + text.len)))
		return false;
	if (place->head_read > 0)
		place->response->base = buffer_head(heads); /* an interim one that is held */
	memcpy(heads->at + heads->end, text.at, text.len);
	heads->end += (uint32_t)text.len;
	return true;
}

static void read_trailers(struct h2_place *place, struct h2_head *head)
{
	struct slice lines = h2_head_finish(head, false);

	if (!lines.at || !h2_source_put_trailers(&place->source, lines))
		reset(place, NGHTTP2_PROTOCOL_ERROR);
}

void h2_place_head(struct h2_place *place, bool is_end)
{
	struct h2_head *head = &server_of(place)->head;

	if (head->kind == H2_HEAD_TRAILERS) {
		read_trailers(place, head);
	} else {
		struct slice status = {head->text.at + head->status.at, head->status.len};
		bool is_interim = status.len == 3 && status.at[0] == '1';
		struct slice text = h2_head_finish(head, !is_end && !is_interim);
		place->has_final_head |= !is_interim;
		if (text.at && buffer_used(&place->heads) + text.len > HEADS_BYTES_MOST)
			text = SLICE_NONE;
		place->head_bytes += text.len;
		place->is_bad |= !text.at;
		place->lacks_memory |= text.at && !keep_head(place, text);
		if (place->is_bad)
			reset(place, NGHTTP2_PROTOCOL_ERROR);
	}
	if (is_end)
		place->source.came_whole = true;
	h2_place_run_later(place);
}

void h2_place_body(struct h2_place *place, const uint8_t *bytes, size_t len)
{
	if (!h2_source_put(&place->source, bytes, len)) {
		place->lacks_memory = true;
		reset(place, NGHTTP2_INTERNAL_ERROR);
	}
	h2_place_run_later(place);
}

void h2_place_ended(struct h2_place *place)
{
	place->source.came_whole = true;
	h2_place_run_later(place);
}

void h2_place_head_sent(struct h2_place *place, size_t bytes, bool is_end)
{
	place->sink.head_due = false;
	place->sink.sent += H2_FRAME_HEAD + bytes;
	place->sink.has_ended |= is_end;
	h2_place_run_later(place);
}

/* No more comes of it, whatever is missing. */
static void end_both(struct h2_place *place)
{
	place->closed = true;
	place->source.is_cut = !place->source.came_whole;
	place->sink.has_failed = !place->sink.has_ended;
	h2_place_run_later(place);
}

void h2_place_reset_sent(struct h2_place *place)
{
	struct h2_server *server = server_of(place);

	if (!place->is_stopped || place->stopped_at != 0)
		return;
	h2_server_ping(server);
	place->stopped_at = server->pings;
}

void h2_place_closed(struct h2_place *place, uint32_t error_code)
{
	if (place->stopped_at != 0) {
		place->closed = true; /* the rest is for the PING behind it */
		return;
	}
	if (!place->source.came_whole) {
		/* It has decided to: that it was about to close the connection is no excuse. */
		place->connection.reused = false;
		place->connection.why = nghttp2_http2_strerror(error_code);
	}
	if (error_code == NGHTTP2_REFUSED_STREAM && place->head_bytes == 0)
		h2_place_refused(place);
	end_both(place);
}

void h2_place_refused(struct h2_place *place)
{
	place->connection.is_refused = true;
	place->connection.why = "refused by the server";
	h2_place_run_later(place);
}

void h2_place_ponged(struct h2_place *place, uint64_t number)
{
	if (place->stopped_at != 0 && place->stopped_at <= number)
		end_both(place);
}

/* ---- its source and its sink ----------------------------------------------------------------- */

static void credit(struct h2_source *source, size_t bytes)
{
	struct h2_place *place = of_source(source);
	nghttp2_session *session = session_of(place);

	if (!session)
		return;
	nghttp2_session_consume_stream(session, place->id, bytes);
	h2_server_write_later(server_of(place));
}

static void resume(struct h2_sink *sink)
{
	nghttp2_session *session = session_of(of_sink(sink));

	if (session)
		nghttp2_session_resume_data(session, sink->id);
}

static void look_later(struct h2_sink *sink)
{
	h2_place_run_later(of_sink(sink));
}

/* ---- the request ----------------------------------------------------------------------------- */

static struct body_sink *open_request(
	struct server_connection *connection, struct http_head *response)
{
	struct h2_place *place = h2_place_of(connection);

	place->response = response;
	return &place->sink.sink;
}

/* The method and the target, behind the fields that are composed: their bytes stay there. */
static bool put_pseudo(struct h2_fields *fields, const struct outgoing_request *request)
{
	const struct exchange *x = request->exchange;
	const struct http_head *head = &x->request;
	struct slice authority = request->authority, target = http_head_target(head);
	bool is_https = x->connection->tls != NULL;

	if (!request->names_host) /* it was set, or removed, by the configuration */
		authority = SLICE_NONE;
	if (!request->keeps_target) {
		char *at = fields->sink.out.at;
		outgoing_put_target(&fields->sink.out, x);
		target = (struct slice){at, (size_t)(fields->sink.out.at - at)};
		fields->sink.out.at = at;
		at += target.len;
		fields->sink.out =
			http_out_over(at, (size_t)(fields->text.at + fields->text.capacity - at));
		fields->lines = at;
	}
	return h2_fields_put(
		       fields, SLICE(":method"), (struct slice){head->base, head->target_at - 1}) &&
	       h2_fields_put(fields, SLICE(":scheme"), is_https ? SLICE("https") : SLICE("http")) &&
	       (authority.len == 0 || h2_fields_put(fields, SLICE(":authority"), authority)) &&
	       h2_fields_put(fields, SLICE(":path"), target);
}

/* Does the client take trailers (RFC 9110 section 10.1.4)? The server learns of no other coding. */
static bool takes_trailers(const struct http_head *head)
{
	struct slice value = http_head_find(head, HTTP_FIELD_TE);

	return value.len > 0 && slice_list_has(value, SLICE("trailers"));
}

static bool compose(struct h2_fields *fields, struct exchange *x)
{
	struct outgoing_request request;

	outgoing_request_make(&request, x);
	if (!h2_fields_open(fields, request.bytes) || !put_pseudo(fields, &request))
		return false;
	field_pass(&fields->sink, &x->request, http_head_fields_at(&x->request), &request.omitted);
	outgoing_request_put(&fields->sink, &request);
	if (takes_trailers(&x->request))
		field_put(&fields->sink, SLICE("te"), SLICE("trailers"));
	if (x->framing.has_length && x->framing.body != HTTP_BODY_CHUNKED)
		field_put_number(&fields->sink, SLICE("content-length"), x->framing.length);
	return h2_fields_close(fields);
}

/* One that has lost its connection meanwhile was certainly not sent. */
static bool write_request(struct server_connection *connection, struct exchange *x)
{
	struct h2_place *place = h2_place_of(connection);
	struct h2_server *server = server_of(place);
	nghttp2_data_provider provider = {{.ptr = &place->sink}, h2_output_read_data};
	bool has_body = x->framing.body != HTTP_BODY_NONE;
	struct h2_fields fields;
	int32_t id = 0;

	if (!server || !server->link.session) {
		place->sink.has_failed = true;
		return true;
	}
	h2_fields_begin(&fields, connection->worker);
	if (compose(&fields, x))
		id = nghttp2_submit_request(server->link.session, NULL, fields.h2->fields,
			fields.count, has_body ? &provider : NULL, place);
	h2_fields_free(&fields);
	if (id == NGHTTP2_ERR_STREAM_ID_NOT_AVAILABLE) {
		place->sink.has_failed = true;
		return true;
	}
	if (id <= 0)
		return false;
	place->id = place->sink.id = id;
	place->sink.head_due = true;
	place->sink.is_last = !has_body;
	h2_server_write_later(server);
	return true;
}

/* The server learns that the rest of it never comes, and its answer is of no interest. That it has
 * is shown by a PING, which nghttp2 would send before a reset that still waits. One that it got
 * nothing of learns nothing. */
static void stop_request(struct server_connection *connection)
{
	struct h2_place *place = h2_place_of(connection);
	nghttp2_session *session = session_of(place);
	bool has_begun = session && nghttp2_session_find_stream(session, place->id);

	place->is_stopped = has_begun;
	reset(place, NGHTTP2_CANCEL);
	if (has_begun)
		return;
	if (session)
		nghttp2_session_set_stream_user_data(session, place->id, NULL);
	end_both(place);
}

static void spoil_request(struct server_connection *connection)
{
	(void)connection; /* what ends early is reset */
}

static uint64_t bytes_taken(const struct server_connection *connection)
{
	return as_place(connection)->sink.sent;
}

/* ---- the response ---------------------------------------------------------------------------- */

static void expect_head(struct server_connection *connection, struct http_head *response)
{
	struct h2_place *place = h2_place_of(connection);

	place->response = response;
	place->heads.start += place->head_read;
	place->head_read = 0;
}

static void fetch(struct server_connection *connection)
{
	(void)connection;
}

static struct slice unread_heads(const struct h2_place *place)
{
	const struct buffer *heads = &place->heads;

	return heads->at ? (struct slice){buffer_head(heads) + place->head_read,
				   buffer_used(heads) - place->head_read}
			 : SLICE_NONE;
}

static enum server_head read_head(struct server_connection *connection)
{
	struct h2_place *place = h2_place_of(connection);
	struct slice text = unread_heads(place);

	if (place->lacks_memory)
		return SERVER_HEAD_NO_MEMORY;
	if (text.len > 0) {
		if (!http_read_response(place->response, text, &limits))
			return SERVER_HEAD_BAD;
		place->head_read = place->response->len;
		return SERVER_HEAD_READ;
	}
	if (place->is_bad)
		return SERVER_HEAD_BAD;
	if (connection->is_refused)
		return SERVER_HEAD_REFUSED;
	return !connection->carrier || place->source.is_cut ? SERVER_HEAD_ENDED : SERVER_HEAD_NONE;
}

/* Its end is the stream's: what has none in HTTP/1 has a length here, or ends with END_STREAM. */
static bool frame_response(struct server_connection *connection, struct http_head *response,
	enum http_method method, struct http_framing *framing)
{
	const struct h2_place *place = as_place(connection);

	if (!http_frame_response(response, method, framing))
		return false;
	response->major = 2;
	response->minor = 0;
	framing->keep_alive = true;
	if (framing->body == HTTP_BODY_UNTIL_CLOSE) {
		framing->body = HTTP_BODY_NONE;
		framing->has_length = place->source.came_whole;
		framing->length = 0;
	}
	return response->status != 101; /* RFC 9113 section 8.6 */
}

static bool has_bytes(const struct server_connection *connection)
{
	const struct h2_place *place = as_place(connection);

	return unread_heads(place).len > 0 || place->source.here > 0;
}

static struct body_source *open_response(
	struct server_connection *connection, const struct http_framing *framing)
{
	return h2_source_open(&h2_place_of(connection)->source, framing->body == HTTP_BODY_LENGTH,
		framing->length);
}

static uint64_t bytes_sent(const struct server_connection *connection)
{
	return as_place(connection)->head_bytes + as_place(connection)->source.total;
}

/* What comes wakes it. */
static void read_again(struct server_connection *connection)
{
	(void)connection;
}

static void look_again(struct server_connection *connection)
{
	h2_place_run_later(h2_place_of(connection));
}

/* ---- its end --------------------------------------------------------------------------------- */

static bool finish(struct server_connection *connection, struct buffer *kept)
{
	struct h2_place *place = h2_place_of(connection);

	if (kept)
		h2_source_give(&place->source, kept);
	return place->closed;
}

/* A stream that is not over is reset: without an error where only the request was not whole, and
 * the response is (RFC 9113 section 8.1). */
static void end(struct server_connection *connection)
{
	struct h2_place *place = h2_place_of(connection);
	struct h2_server *server = server_of(place);

	leave_ready(place);
	if (session_of(place)) {
		reset(place, place->source.came_whole ? NGHTTP2_NO_ERROR : NGHTTP2_CANCEL);
		nghttp2_session_set_stream_user_data(server->link.session, place->id, NULL);
	}
	if (server)
		CHAIN_REMOVE(server->places, place, prev, next);
	h2_sink_end(&place->sink);
	h2_source_end(&place->source);
	buffer_release(&place->heads, &connection->worker->blocks);
}

void h2_place_begin(struct h2_server *server, struct server_connection *connection)
{
	struct h2_place *place = h2_place_of(connection);

	h2_source_init(&place->source, &connection->worker->blocks, credit);
	h2_sink_init(&place->sink, &server->link, 0);
	place->sink.resume = resume;
	place->sink.look_later = look_later;
	CHAIN_PUSH(server->places, place, prev, next);
}

void h2_place_lose(struct h2_place *place, const char *why)
{
	struct h2_server *server = server_of(place);

	leave_ready(place);
	CHAIN_REMOVE(server->places, place, prev, next);
	place->sink.link = &h2_part(place->connection.worker)->no_link;
	place->closed = true;
	place->source.is_cut = !place->source.came_whole;
	place->sink.has_failed = !place->sink.has_ended;
	server_place_lost(&place->connection, why);
}

const struct server_calls h2_place_calls = {
	.bytes = sizeof(struct h2_place),
	.many = &h2_server_many,
	.open_request = open_request,
	.write_request = write_request,
	.stop_request = stop_request,
	.spoil_request = spoil_request,
	.bytes_taken = bytes_taken,
	.expect_head = expect_head,
	.fetch = fetch,
	.read_head = read_head,
	.frame_response = frame_response,
	.has_bytes = has_bytes,
	.open_response = open_response,
	.bytes_sent = bytes_sent,
	.read_again = read_again,
	.read_next_turn = look_again,
	.expect_input = look_again,
	.finish = finish,
	.end = end,
};
