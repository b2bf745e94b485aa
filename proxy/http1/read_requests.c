#include "http1/read_requests.h"

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

/* The client will send no more. What it asked for is still answered: it may have closed only its
 * half. */
static void input_ended(struct downstream *d)
{
	if (d->stream.failed)
		downstream_close(d, "connection reset");
	else
		downstream_finish(d);
}

/* More bytes for a head into the buffer. False: none now, or the connection is gone. */
static bool read_more(struct downstream *d, size_t head_max)
{
	struct buffer *in = &d->in;
	struct buffer_pool *pool = &d->worker->blocks;

	bool within_head = d->input == INPUT_HEAD;
	if (!(within_head ? stream_may_have_more(&d->stream) : d->stream.readable))
		return false;
	d->client.work++;
	if (!in->at && !buffer_acquire(in, pool)) {
		downstream_close(d, "no memory");
		return false;
	}
	if (buffer_used(in) == 0)
		in->start = in->end = 0;
	if (buffer_room(in) == 0) {
		/* Move the beginning of a head to the front, or get it a block that holds it. */
		size_t wanted = in->start > 0 ? in->capacity : head_max + 1;
		if (!buffer_reserve(in, pool, wanted)) {
			downstream_close(d, "no memory");
			return false;
		}
	}
	switch (stream_read(&d->stream, in)) {
	case STREAM_OK:
		return true;
	case STREAM_AGAIN:
		break;
	case STREAM_END:
	case STREAM_FAILED:
		input_ended(d);
		break;
	}
	return false;
}

static bool begin_head(struct downstream *d)
{
	const struct conf_listener *conf = d->client.listener->conf;
	struct http_parser_limits limits = {
		conf->max_header_bytes, conf->max_uri_bytes, conf->max_fields};

	struct exchange *exchange = exchange_new(d->worker, &d->client);
	if (!exchange) {
		downstream_close(d, "no memory");
		return false;
	}
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
	downstream_set_input(d, INPUT_BODY, exchange);
}

void read_requests_append(struct downstream *d)
{
	append(d);
}

void read_requests(struct downstream *d)
{
	while (may_begin_request(d) || (d->state == DOWNSTREAM_OPEN && d->input == INPUT_HEAD)) {
		struct buffer *in = &d->in;
		if (d->input == INPUT_NONE)
			skip_empty_lines(in);
		bool fresh = in->at &&
			     buffer_used(in) > (d->input == INPUT_HEAD ? d->parser.fed : 0) &&
			     !(buffer_used(in) == 1 && buffer_head(in)[0] == '\r');
		if (!fresh) {
			if (!read_more(d, d->client.listener->conf->max_header_bytes))
				break;
			continue;
		}
		if (d->input == INPUT_NONE && !begin_head(d))
			break;
		struct exchange *exchange = d->reading;
		switch (http_parser_head(&d->parser, buffer_head(in), buffer_used(in))) {
		case HTTP_PARSE_MORE:
			continue;
		case HTTP_PARSE_BAD:
			append(d);
			exchange_reject(exchange, d->parser.error_status, "malformed head");
			return;
		case HTTP_PARSE_DONE:
			append(d);
			in->start += exchange->request.len;
			downstream_judge_peer(d);
			exchange_begin(exchange, exchange->request.base);
			break;
		}
	}
	if (d->in.at && buffer_used(&d->in) == 0 && d->state != DOWNSTREAM_CLOSED &&
		!(d->reading && d->reading->up.in))
		buffer_release(&d->in, &d->worker->blocks);
}
