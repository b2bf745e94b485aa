#include "http1/http1_response.h"

#include "exchange/exchange.h"
#include "http1/compose.h"
#include "http1/http1_sink.h"

enum client_interim http1_interim(struct http1_sink *sink, struct exchange *x, bool is_own)
{
	struct flow *out = sink->flow;

	if (x->request.minor == 0 && !is_own)
		return CLIENT_INTERIM_UNKNOWN;
	if (!exchange_is_first(x) || !flow_takes_prefix(out))
		return CLIENT_INTERIM_EARLY;
	bool is_composed = is_own ? flow_append(out, &x->worker->blocks,
					    SLICE("HTTP/1.1 100 Continue\r\n\r\n"))
				  : compose_response(x, out, false, true);
	return is_composed ? CLIENT_INTERIM_PASSED : CLIENT_INTERIM_NO_MEMORY;
}

bool http1_switch(struct http1_sink *sink, struct exchange *x)
{
	return compose_response(x, sink->flow, false, false);
}

/* As much as waits for one write: a block of the usual size has room for a head behind it. */
#define JOIN_BYTES (11 * 1024)

/* A short response that is here whole waits in the client's flow for the turn's end: others of this
 * turn are written with it, those of pipelined requests on its own connection in one piece. */
static bool may_join(const struct exchange *x, const struct flow *out)
{
	return x->down.ended && !x->down.end_due && !x->down.spool &&
	       buffer_used(&out->prefix) + out->body.len + out->suffix.len <= JOIN_BYTES;
}

enum pump_result http1_head(struct http1_sink *sink, struct exchange *x)
{
	enum http_body body = x->response_framing.body;
	bool has_no_length = body == HTTP_BODY_CHUNKED || body == HTTP_BODY_UNTIL_CLOSE;
	bool by_close = has_no_length && x->request.minor == 0;
	size_t unsent = flow_bytes(sink->flow);
	enum pump_result result;

	if (by_close)
		x->close_client = true; /* an HTTP/1.0 client sees the end by the close */
	bool chunked = has_no_length && !by_close;
	sink->chunked = chunked;
	if (!compose_response(x, sink->flow, chunked, false))
		return PUMP_NO_MEMORY;
	/* The part of the body that is here already leaves with the head. */
	result = pump_fill_first(&x->down);
	if (result == PUMP_NO_MEMORY)
		return result;
	if (result == PUMP_SOURCE_BROKEN) {
		flow_truncate(sink->flow, unsent);
		return result;
	}
	sink->by_close = by_close;
	if (may_join(x, sink->flow))
		x->answer.progress = ANSWER_JOINED;
	return result;
}

bool http1_reply(struct http1_sink *sink, struct exchange *x)
{
	return compose_reply(x, sink->flow);
}
