#include "http1/http1_client.h"

#include "exchange/exchange.h"
#include "http1/downstream.h"
#include "http1/http1_response.h"
#include "tunnel/passage.h"

/* A server may send interim responses without end: no more are composed than this. */
#define INTERIM_BYTES (16 * 1024)

/* A body up to this is cheaper to read than a new connection. */
#define DISCARD_BYTES (64 * 1024)

static bool is_here_in_chunks(const struct http1_source *source, struct http_chunked_extent *extent)
{
	const struct buffer *in = source->in;

	return in->at && buffer_used(in) > 0 &&
	       http_chunked_is_whole(buffer_head(in), buffer_used(in), extent);
}

bool http1_body_is_whole(struct http1_source *source, struct exchange *x)
{
	uint64_t most = x->route->max_body_bytes;
	struct http_chunked_extent extent;

	if (x->framing.body == HTTP_BODY_LENGTH)
		return source->in->at && buffer_used(source->in) >= x->framing.length;
	if (!is_here_in_chunks(source, &extent))
		return false;
	/* One that is longer than its route allows, or malformed, is refused later. */
	if (!extent.has_trailers && (most == 0 || extent.content_bytes <= most) &&
		http1_source_unchunk(source)) {
		gather_know_length(x, extent.content_bytes);
		if (extent.content_bytes == 0)
			exchange_request_read(x);
	}
	return true;
}

bool http1_body_is_short(const struct http1_source *source, const struct exchange *x)
{
	struct http_chunked_extent extent;

	if (x->framing.body == HTTP_BODY_LENGTH)
		return x->framing.length <= DISCARD_BYTES;
	return !source->is_open && is_here_in_chunks(source, &extent);
}

static void advance(struct client *client)
{
	downstream_advance(downstream_of(client));
}

static void watch(struct client *client)
{
	downstream_watch(downstream_of(client));
}

static void finish(struct client *client)
{
	downstream_finish(downstream_of(client));
}

static void close_client(struct client *client, const char *why)
{
	downstream_close(downstream_of(client), why);
}

static void exchange_ended(struct client *client, struct exchange *exchange)
{
	downstream_exchange_ended(downstream_of(client), exchange);
}

static unsigned frame_request(struct client *client, struct exchange *exchange)
{
	(void)client;
	return http_frame_request(&exchange->request, &exchange->framing);
}

static void request_read(struct client *client, struct exchange *exchange, bool upgrades)
{
	struct downstream *d = downstream_of(client);

	if (!upgrades)
		downstream_leave_input(d, exchange);
	else if (d->reading == exchange)
		downstream_set_input(d, INPUT_UPGRADE, exchange);
}

static bool begin_tunnel(struct client *client, struct exchange *exchange)
{
	struct downstream *d = downstream_of(client);

	if (!http1_switch(&downstream_of(client)->sink, exchange))
		return false;
	downstream_set_input(d, INPUT_TUNNEL, exchange);
	downstream_finish(d);
	return true;
}

static bool become_tunnel(struct client *client, struct exchange *exchange, bool is_read)
{
	(void)client;
	return passage_begin(exchange, is_read);
}

static void leave(struct client *client, struct client_rest *rest)
{
	downstream_leave(downstream_of(client), rest);
}

static struct slice body_here(struct client *client)
{
	const struct buffer *in = &downstream_of(client)->in;

	return in->at ? (struct slice){buffer_head(in), buffer_used(in)} : SLICE_NONE;
}

static void take_body(struct client *client, uint32_t bytes)
{
	downstream_of(client)->in.start += bytes;
}

static uint64_t body_memory(struct client *client)
{
	const struct buffer *in = &downstream_of(client)->in;

	return in->at ? in->capacity : 0;
}

static struct body_source *open_body(struct client *client, struct exchange *exchange)
{
	struct http1_source *source = &downstream_of(client)->source;

	return source->is_open ? &source->source : http1_source_open(source, &exchange->framing);
}

static bool body_is_whole(struct client *client, struct exchange *exchange)
{
	return http1_body_is_whole(&downstream_of(client)->source, exchange);
}

static bool body_is_short(struct client *client, const struct exchange *exchange)
{
	return http1_body_is_short(&downstream_of(client)->source, exchange);
}

static enum client_interim interim(struct client *client, struct exchange *exchange, bool is_own)
{
	return http1_interim(&downstream_of(client)->sink, exchange, is_own);
}

static enum pump_result head(struct client *client, struct exchange *exchange)
{
	return http1_head(&downstream_of(client)->sink, exchange);
}

static bool takes_reply(const struct client *client)
{
	return flow_takes_prefix(&((const struct downstream *)client)->out);
}

static bool reply(struct client *client, struct exchange *exchange)
{
	return http1_reply(&downstream_of(client)->sink, exchange);
}

static struct body_sink *open_response(struct client *client)
{
	return &downstream_of(client)->sink.sink;
}

static bool takes_interim(struct client *client)
{
	struct downstream *d = downstream_of(client);

	d->stalled |= buffer_used(&d->out.prefix) >= INTERIM_BYTES;
	return !d->stalled && downstream_may_work(d);
}

static bool is_behind(struct client *client)
{
	return downstream_is_behind(downstream_of(client));
}

static bool is_last(struct client *client, const struct exchange *exchange)
{
	return downstream_is_last(downstream_of(client), exchange);
}

const char http1_plain_answer[] =
	"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: 25\r\n"
	"Cache-Control: no-store\r\nConnection: close\r\n\r\nThis port expects HTTPS.\n";

_Static_assert(offsetof(struct downstream, client) == 0, "a client is its connection");

const struct client_calls http1_client_calls = {
	.advance = advance,
	.watch = watch,
	.finish = finish,
	.close = close_client,
	.exchange_ended = exchange_ended,
	.frame_request = frame_request,
	.request_read = request_read,
	.begin_tunnel = begin_tunnel,
	.become_tunnel = become_tunnel,
	.leave = leave,
	.body_here = body_here,
	.take_body = take_body,
	.body_memory = body_memory,
	.open_body = open_body,
	.body_is_whole = body_is_whole,
	.body_is_short = body_is_short,
	.interim = interim,
	.head = head,
	.takes_reply = takes_reply,
	.reply = reply,
	.open_response = open_response,
	.takes_interim = takes_interim,
	.is_behind = is_behind,
	.is_last = is_last,
};
