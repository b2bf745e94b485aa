#include "http2/h2_stream.h"

#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/log.h"
#include "exchange/exchange.h"
#include "exchange/forward.h"
#include "exchange/judge.h"
#include "exchange/reply.h"
#include "exchange/respond.h"
#include "exchange/turn_place.h"
#include "http2/h2_output.h"
#include "http2/h2_response.h"

#define SPARE_STREAMS 256
/* What a stream's client may send at once from when its body is read. */
#define BODY_WINDOW (128 * 1024)
/* How long the rest of a request may come behind its response before its stream is reset without an
 * error (RFC 9113 section 8.1). Clients lose a response that comes together with a reset: curl 7.88
 * is one. */
#define LINGER_MS 1000

static void on_deadline(struct deadline *deadline);

/* ---- birth and end --------------------------------------------------------------------------- */

static struct h2_stream *of_source(struct h2_source *source)
{
	return CONTAINER_OF(source, struct h2_stream, source);
}

static struct h2_stream *of_sink(struct h2_sink *sink)
{
	return CONTAINER_OF(sink, struct h2_stream, sink);
}

/* The exchange has taken so much: the client may send as much again. */
static void credit(struct h2_source *source, size_t bytes)
{
	struct h2_stream *stream = of_source(source);

	if (stream->closed || !stream->connection->link.session)
		return;
	nghttp2_session_consume_stream(stream->connection->link.session, stream->id, bytes);
	h2_write_later(stream->connection);
}

static void resume(struct h2_sink *sink)
{
	struct h2_stream *stream = of_sink(sink);

	if (stream->has_responded && !stream->closed && stream->connection->link.session)
		nghttp2_session_resume_data(stream->connection->link.session, stream->id);
}

static void look_later(struct h2_sink *sink)
{
	h2_run_later(of_sink(sink));
}

void h2_stream_reset(struct h2_stream *stream, uint32_t error_code)
{
	struct h2_connection *c = stream->connection;

	if (stream->closed || stream->was_reset || !c->link.session)
		return;
	stream->was_reset = true;
	nghttp2_submit_rst_stream(c->link.session, NGHTTP2_FLAG_NONE, stream->id, error_code);
	h2_write_later(c);
}

static struct h2_stream *take_spare(struct h2_worker *h2)
{
	struct h2_stream *stream = h2->spare;

	if (!stream)
		return malloc(sizeof(*stream));
	h2->spare = stream->next;
	h2->spare_count--;
	return stream;
}

struct h2_stream *h2_stream_new(struct h2_connection *c, int32_t id)
{
	struct h2_stream *stream = take_spare(c->h2);

	if (!stream)
		return NULL;
	memset(stream, 0, sizeof(*stream));
	stream->h2 = c->h2;
	stream->connection = c;
	stream->id = id;
	stream->client.calls = &h2_client_calls;
	stream->client.listener = c->listener;
	stream->client.peer = &c->peer;
	stream->client.forwarding = &c->forwarding;
	stream->client.tls = c->tls;
	stream->client.stream = &c->stream;
	wait_init(&stream->wait, c->worker->loop.base, on_deadline);
	h2_source_init(&stream->source, &c->worker->blocks, credit);
	h2_sink_init(&stream->sink, &c->link, id);
	stream->sink.resume = resume;
	stream->sink.look_later = look_later;
	CHAIN_PUSH(c->streams, stream, prev, next);
	c->stream_count++;
	c->begun++;
	return stream;
}

static void free_stream(struct deferred_free *item)
{
	struct h2_stream *stream = CONTAINER_OF(item, struct h2_stream, deferred);
	struct h2_worker *h2 = stream->h2; /* the connection may be gone by now */

	if (h2->spare_count >= SPARE_STREAMS) {
		free(stream);
		return;
	}
	stream->next = h2->spare;
	h2->spare = stream;
	h2->spare_count++;
}

void h2_streams_free_spare(struct h2_worker *h2)
{
	while (h2->spare) {
		struct h2_stream *stream = h2->spare;
		h2->spare = stream->next;
		free(stream);
	}
}

static void drop_response(struct h2_stream *stream)
{
	h2_sink_end(&stream->sink);
	stream->sink.is_last = stream->sink.has_ended = true;
	free(stream->reply);
	stream->reply = NULL;
}

/* It is over, and on none of its connection's lists any more. */
static void end_stream(struct h2_stream *stream)
{
	struct h2_connection *c = stream->connection;

	wait_end(&stream->wait);
	drop_response(stream);
	h2_source_end(&stream->source);
	CHAIN_REMOVE(c->streams, stream, prev, next);
	c->stream_count--;
	loop_free_later(&c->worker->loop, &stream->deferred, free_stream);
}

static void leave_exchange(struct h2_stream *stream)
{
	struct exchange *x = stream->client.first;

	stream->client.first = NULL;
	drop_response(stream);
	if (x)
		exchange_client_gone(x);
}

void h2_stream_cut(struct h2_stream *stream)
{
	stream->closed = true;
	leave_exchange(stream);
	end_stream(stream);
}

/* ---- the request ----------------------------------------------------------------------------- */

static unsigned status_of(const struct h2_head *head)
{
	if (head->is_too_large)
		return 431;
	return head->lacks_memory ? 503 : 400;
}

/* For the log, and for forwarding fields. The connection owns the text. */
static void name_version(struct exchange *x, struct slice text)
{
	static const char old[] = "HTTP/1.1", version[] = "HTTP/2.0";
	char *at = (char *)(uintptr_t)text.at + x->request.target_at + x->request.target_len + 1;

	if (memcmp(at, old, sizeof(old) - 1) == 0)
		memcpy(at, version, sizeof(version) - 1);
	x->request.major = 2;
	x->request.minor = 0;
}

/* Reads the head's text. 0, or the status that it is refused with. */
static unsigned read_head(struct h2_stream *stream, struct exchange *x, struct slice text)
{
	const struct conf_listener *conf = stream->client.listener->conf;
	struct http_parser *parser = &stream->connection->h2->parser;
	struct http_parser_limits limits = {
		conf->max_header_bytes, conf->max_uri_bytes, conf->max_fields};
	unsigned status = 0;

	http_parser_begin_request(parser, &x->request, &limits);
	if (!text.at)
		return status_of(&stream->connection->head);
	switch (http_parser_head(parser, text.at, text.len)) {
	case HTTP_PARSE_DONE:
		break;
	case HTTP_PARSE_BAD:
		status = parser->error_status;
		break;
	case HTTP_PARSE_MORE:
		status = 400;
		break;
	}
	http_parser_end(parser);
	if (status == 0 && x->request.len != text.len)
		status = 400;
	if (status == 0)
		name_version(x, text);
	return status;
}

/* By the trusted_proxies that are in force now. */
static void judge_peer(struct h2_connection *c)
{
	uint64_t serial = site_part(c->worker)->use->site->serial;

	if (c->judged_by == serial)
		return;
	forwarded_peer_judge(&c->peer, &c->listener->conf->trusted_proxies);
	c->judged_by = serial;
}

void h2_stream_begin(struct h2_stream *stream, bool is_end)
{
	struct h2_connection *c = stream->connection;
	struct slice text = h2_head_finish(&c->head, !is_end);
	struct exchange *x = exchange_new(c->worker, &stream->client);

	stream->source.came_whole = is_end;
	if (!x) {
		h2_stream_reset(stream, NGHTTP2_REFUSED_STREAM);
		return;
	}
	c->turn.work++;
	worker_count(c->worker, STATS_REQUESTS_HTTP2);
	x->next = NULL;
	stream->client.first = x;
	judge_peer(c);
	stream->busy = true; /* what the exchange has changed is looked at behind this frame */
	unsigned status = read_head(stream, x, text);
	if (status != 0)
		exchange_reject(x, status, "malformed head");
	else
		exchange_begin(x, text.at);
	stream->busy = false;
	h2_run_later(stream);
}

void h2_stream_body(struct h2_stream *stream, const uint8_t *bytes, size_t len)
{
	if (!stream->client.first || stream->was_reset)
		return;
	if (!h2_source_put(&stream->source, bytes, len))
		h2_stream_reset(stream, NGHTTP2_INTERNAL_ERROR);
	h2_run_later(stream);
}

void h2_stream_trailers(struct h2_stream *stream)
{
	struct slice lines = h2_head_finish(&stream->connection->head, false);

	if (!lines.at || !h2_source_put_trailers(&stream->source, lines))
		h2_stream_reset(stream, NGHTTP2_PROTOCOL_ERROR);
	else
		h2_stream_body_ended(stream);
}

void h2_stream_body_ended(struct h2_stream *stream)
{
	stream->source.came_whole = true;
	h2_run_later(stream);
}

/* ---- the response ---------------------------------------------------------------------------- */

void h2_stream_response_ended(struct h2_stream *stream)
{
	stream->sink.has_ended = true;
	h2_run_later(stream);
}

void h2_stream_closed(struct h2_stream *stream)
{
	stream->closed = true;
	stream->source.is_cut = !stream->source.came_whole;
	stream->sink.has_failed = !stream->sink.has_ended;
	h2_run_later(stream);
}

/* ---- deadlines ------------------------------------------------------------------------------- */

/* Is it the client that keeps its request's body from continuing, and not the server? */
static bool wants_body(const struct exchange *x)
{
	const struct pump *up = &x->up;

	if (exchange_has_request(x) || exchange_awaits_continue(x))
		return false;
	if (x->gathering == GATHERING_READY && !up->sink)
		return false; /* as much as is kept of it is here: it waits for its turn */
	return up->source && (!up->sink || body_sink_is_empty(up->sink));
}

static void watch(struct h2_stream *stream)
{
	struct worker *worker = stream->connection->worker;
	const struct conf_listener *conf = stream->client.listener->conf;
	const struct exchange *x = stream->client.first;
	uint64_t now_ms = worker_now_ms(worker);

	if (stream->sink.has_ended && !stream->source.came_whole)
		wait_for(&stream->wait, WAIT_LINGER, 0, now_ms + LINGER_MS, now_ms);
	else if (stream->has_responded && h2_sink_has_output(&stream->sink))
		wait_for(&stream->wait, WAIT_TAKE, stream->sink.sent,
			now_ms + conf->send_timeout_ms, now_ms);
	else if (x && wants_body(x))
		wait_for(&stream->wait, WAIT_BODY, stream->source.total,
			now_ms + conf->body_timeout_ms, now_ms);
	else
		wait_none(&stream->wait);
}

static void close_stream(struct h2_stream *stream, uint32_t error_code, const char *why)
{
	log_debug("client %.*s: stream %d: closed: %s",
		SLICE_ARGS(forwarded_peer_text(&stream->connection->peer)), (int)stream->id, why);
	h2_stream_reset(stream, error_code);
	leave_exchange(stream);
	h2_run_later(stream);
}

static void on_deadline(struct deadline *deadline)
{
	struct h2_stream *stream =
		CONTAINER_OF(CONTAINER_OF(deadline, struct wait, deadline), struct h2_stream, wait);
	struct exchange *x = stream->client.first;

	if (stream->wait.reason == WAIT_LINGER) {
		h2_stream_reset(stream, NGHTTP2_NO_ERROR);
		return;
	}
	if (stream->wait.reason == WAIT_BODY && x) {
		exchange_reject(x, 408, "body timeout");
		h2_stream_advance(stream);
		return;
	}
	if (x && !x->outcome)
		x->outcome = "send timeout";
	close_stream(stream, NGHTTP2_CANCEL, "send timeout");
}

/* ---- all that can be done -------------------------------------------------------------------- */

void h2_stream_advance(struct h2_stream *stream)
{
	struct client *client = &stream->client;
	struct exchange *x;

	if (stream->busy) {
		client->again = true;
		return;
	}
	stream->busy = true;
	do {
		client->again = false;
		x = client->first;
		if (x && stream->closed && !stream->sink.has_ended) {
			worker_count(x->worker, STATS_CLIENT_GONE);
			leave_exchange(stream);
			break;
		}
		if (x)
			exchange_next(x);
		if (x && client->first == x)
			exchange_run(x);
	} while (client->again && client->first);
	stream->busy = false;
	if (!h2_stream_is_over(stream))
		watch(stream);
	else if (!stream->ready)
		end_stream(stream);
}

/* ---- what its exchange calls ----------------------------------------------------------------- */

static void advance(struct client *client)
{
	h2_run_later(h2_stream_of(client));
}

static void watch_client(struct client *client)
{
	watch(h2_stream_of(client));
}

/* There are other streams. */
static void finish(struct client *client)
{
	(void)client;
}

static void close_client(struct client *client, const char *why)
{
	close_stream(h2_stream_of(client), NGHTTP2_INTERNAL_ERROR, why);
}

/* Its response is whole in the session's hands or the sink's, or never will be. */
static void exchange_ended(struct client *client, struct exchange *exchange)
{
	struct h2_stream *stream = h2_stream_of(client);

	(void)exchange;
	client->first = NULL;
	if (!stream->has_responded || !stream->sink.is_last) {
		h2_stream_reset(stream, NGHTTP2_INTERNAL_ERROR);
		drop_response(stream);
	}
	h2_source_end(&stream->source);
	h2_run_later(stream);
}

/* By the head as HTTP/1 would have it, which says whether a body comes (h2_head_finish). */
static unsigned frame_request(struct client *client, struct exchange *exchange)
{
	(void)client;
	return http_frame_request(&exchange->request, &exchange->framing);
}

static void request_read(struct client *client, struct exchange *exchange, bool upgrades)
{
	(void)client;
	(void)exchange;
	(void)upgrades;
}

/* HTTP/2 has no 101 (RFC 9113 section 8.6). */
static bool begin_tunnel(struct client *client, struct exchange *exchange)
{
	(void)client;
	(void)exchange;
	return false;
}

static struct slice body_here(struct client *client)
{
	(void)client;
	return SLICE_NONE;
}

static void take_body(struct client *client, uint32_t bytes)
{
	(void)client;
	(void)bytes;
}

static uint64_t body_memory(struct client *client)
{
	return h2_stream_of(client)->source.here;
}

/* From now on it is read: the client may send more at once. */
static struct body_source *open_body(struct client *client, struct exchange *exchange)
{
	struct h2_stream *stream = h2_stream_of(client);

	if (stream->source.is_open)
		return &stream->source.source;
	if (!stream->source.came_whole && !stream->closed)
		nghttp2_session_set_local_window_size(stream->connection->link.session,
			NGHTTP2_FLAG_NONE, stream->id, BODY_WINDOW);
	h2_write_later(stream->connection);
	return h2_source_open(&stream->source, exchange->framing.body == HTTP_BODY_LENGTH,
		exchange->framing.length);
}

static bool body_is_whole(struct client *client, struct exchange *exchange)
{
	const struct h2_source *source = &h2_stream_of(client)->source;

	if (!source->came_whole)
		return false;
	/* Its server gets a length, as many read nothing of a body without. */
	if (http_framing_is_open(&exchange->framing) && source->trailers_len == 0 &&
		(exchange->route->max_body_bytes == 0 ||
			source->here <= exchange->route->max_body_bytes)) {
		gather_know_length(exchange, source->here);
		if (source->here == 0)
			exchange_request_read(exchange);
	}
	return true;
}

/* The stream ends with its response: nothing needs to be read to continue. */
static bool body_is_short(struct client *client, const struct exchange *exchange)
{
	(void)client;
	(void)exchange;
	return false;
}

/* It is the only one on its stream. */
static bool takes_reply(const struct client *client)
{
	(void)client;
	return true;
}

static struct body_sink *open_response(struct client *client)
{
	return &h2_stream_of(client)->sink.sink;
}

/* Has it left something untaken that was sent to it? */
static bool is_unread(const struct h2_connection *c)
{
	return !c->stream.writable;
}

static bool takes_interim(struct client *client)
{
	struct h2_stream *stream = h2_stream_of(client);
	struct h2_connection *c = stream->connection;
	bool has_time = h2_turn(c)->interims < H2_TURN_INTERIMS;

	if (has_time && !is_unread(c)) {
		h2_turn(c)->interims++;
		return true;
	}
	stream->has_interim = c->has_interims = true;
	if (!is_unread(c))
		stream_yield(&c->stream);
	return false;
}

static bool is_behind(struct client *client)
{
	return is_unread(h2_stream_of(client)->connection);
}

static bool is_last(struct client *client, const struct exchange *exchange)
{
	(void)client;
	(void)exchange;
	return false; /* a GOAWAY announces the end */
}

const struct client_calls h2_client_calls = {
	.advance = advance,
	.watch = watch_client,
	.finish = finish,
	.close = close_client,
	.exchange_ended = exchange_ended,
	.frame_request = frame_request,
	.request_read = request_read,
	.begin_tunnel = begin_tunnel,
	.body_here = body_here,
	.take_body = take_body,
	.body_memory = body_memory,
	.open_body = open_body,
	.body_is_whole = body_is_whole,
	.body_is_short = body_is_short,
	.interim = h2_interim,
	.head = h2_head_out,
	.takes_reply = takes_reply,
	.reply = h2_reply,
	.open_response = open_response,
	.takes_interim = takes_interim,
	.is_behind = is_behind,
	.is_last = is_last,
};
