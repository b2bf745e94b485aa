#include "http1/read_requests.h"

#include <string.h>

#include "base/log.h"
#include "base/log_pace.h"
#include "exchange/exchange.h"
#include "exchange/judge.h"
#include "exchange/reply.h"
#include "exchange/respond.h"
#include "listen/listener.h"

void read_requests_discard_head(struct downstream *d)
{
	struct exchange *exchange = d->reading;

	if (d->input != INPUT_HEAD)
		return;
	downstream_set_input(d, INPUT_NONE, NULL);
	exchange_client_gone(exchange);
}

/* Empty lines before a request are skipped (RFC 9112 section 2.2). */
static void skip_empty_lines(struct buffer *in)
{
	while (buffer_used(in) >= 2 && buffer_head(in)[0] == '\r' && buffer_head(in)[1] == '\n')
		in->start += 2;
}

static bool may_begin_request(struct downstream *d)
{
	if (d->state != DOWNSTREAM_OPEN || d->input != INPUT_NONE ||
		d->exchange_count >= d->client.listener->conf->pipeline_depth)
		return false;
	d->stalled = read_requests_are_stalled(d);
	return !d->stalled && downstream_may_work(d);
}

#define TLS_LINE_MS 60000

/* The begin of a record of TLS with a handshake (RFC 8446 section 5.1): the listener lacks a
 * certificate, or the client has the wrong port. */
static void note_tls(struct downstream *d)
{
	const struct buffer *in = &d->in;
	unsigned unlogged;

	if (buffer_used(in) < 3 || memcmp(buffer_head(in), "\x16\x03", 2) != 0 ||
		!log_pace_may_log_each(&d->worker->node->tls_on_plain, TLS_LINE_MS,
			worker_now_ms(d->worker), &unlogged))
		return;
	log_warn("listener %s: %.*s speaks TLS, and the listener has no certificate; %u others "
		 "since the last line",
		d->client.listener->conf->name, SLICE_ARGS(forwarded_peer_text(&d->peer)),
		unlogged);
}

/* More bytes for a head into the buffer. PAUSED with `*more` false: none now. */
static enum read_requests read_more(struct downstream *d, size_t head_max, bool *more)
{
	struct buffer *in = &d->in;
	struct buffer_pool *pool = &d->worker->blocks;

	*more = false;
	bool within_head = d->input == INPUT_HEAD;
	if (!(within_head ? stream_may_have_more(&d->stream) : d->stream.readable))
		return READ_REQUESTS_PAUSED;
	d->client.work++;
	if (!in->at && !buffer_acquire(in, pool))
		return READ_REQUESTS_NO_MEMORY;
	if (buffer_used(in) == 0)
		in->start = in->end = 0;
	if (buffer_room(in) == 0) {
		/* Move the beginning of a head to the front, or get it a block that holds it. */
		size_t wanted = in->start > 0 ? in->capacity : head_max + 1;
		if (!buffer_reserve(in, pool, wanted))
			return READ_REQUESTS_NO_MEMORY;
	}
	switch (stream_read(&d->stream, in)) {
	case STREAM_OK:
		*more = true;
		return READ_REQUESTS_PAUSED;
	case STREAM_AGAIN:
		return READ_REQUESTS_PAUSED;
	case STREAM_END:
	case STREAM_FAILED:
		break;
	}
	return d->stream.failed ? READ_REQUESTS_RESET : READ_REQUESTS_ENDED;
}

static bool begin_head(struct downstream *d)
{
	const struct conf_listener *conf = d->client.listener->conf;
	struct http_parser_limits limits = {
		conf->max_header_bytes, conf->max_uri_bytes, conf->max_fields};

	struct exchange *exchange = exchange_new(d->worker, &d->client);
	if (!exchange)
		return false;
	downstream_set_input(d, INPUT_HEAD, exchange);
	http_parser_begin_request(&d->parser, &exchange->request, &limits);
	return true;
}

static inline void append(struct downstream *d)
{
	struct exchange *exchange = d->reading;

	exchange->next = NULL;
	if (d->last)
		d->last->next = exchange;
	else
		d->client.first = exchange;
	d->last = exchange;
	d->exchange_count++;
	d->begun++;
	d->client.work++;
	d->source.is_open = false;
	downstream_set_input(d, INPUT_BODY, exchange);
}

void read_requests_append(struct downstream *d)
{
	append(d);
}

enum read_requests read_requests(struct downstream *d)
{
	enum read_requests result = READ_REQUESTS_PAUSED;

	while (may_begin_request(d) || (d->state == DOWNSTREAM_OPEN && d->input == INPUT_HEAD)) {
		struct buffer *in = &d->in;
		if (d->input == INPUT_NONE)
			skip_empty_lines(in);
		bool fresh = in->at &&
			     buffer_used(in) > (d->input == INPUT_HEAD ? d->parser.fed : 0) &&
			     !(buffer_used(in) == 1 && buffer_head(in)[0] == '\r');
		if (!fresh) {
			bool more;
			result = read_more(d, d->client.listener->conf->max_header_bytes, &more);
			if (!more)
				break;
			continue;
		}
		if (d->input == INPUT_NONE && !begin_head(d))
			return READ_REQUESTS_NO_MEMORY;
		struct exchange *exchange = d->reading;
		switch (http_parser_head(&d->parser, buffer_head(in), buffer_used(in))) {
		case HTTP_PARSE_MORE:
			continue;
		case HTTP_PARSE_BAD:
			append(d);
			if (!d->client.tls)
				note_tls(d);
			exchange_reject(exchange, d->parser.error_status, "malformed head");
			return READ_REQUESTS_PAUSED;
		case HTTP_PARSE_DONE:
			append(d);
			in->start += exchange->request.len;
			downstream_judge_peer(d);
			exchange_begin(exchange, exchange->request.base);
			break;
		}
	}
	if (d->in.at && buffer_used(&d->in) == 0 && d->state != DOWNSTREAM_CLOSED &&
		!(d->reading && d->reading->up.source))
		buffer_release(&d->in, &d->worker->blocks);
	return result;
}
