#include "http1/http1_sink.h"

#include <assert.h>
#include <stddef.h>
#include <stdio.h>

static const struct slice crlf = SLICE("\r\n");
static const struct slice crlf_last_chunk = SLICE("\r\n0\r\n\r\n");

static const struct http1_sink *as(const struct body_sink *sink)
{
	return (const struct http1_sink *)sink;
}

/* A chunk's size before a run, its end behind it, and the last chunk. */
static __attribute__((noinline)) bool put_chunk(
	struct http1_sink *s, struct slice run, bool is_last)
{
	struct http_out out;
	char size[24];
	int len = snprintf(size, sizeof(size), "%zx\r\n", run.len);

	if (!flow_reserve(s->flow, s->pool, (size_t)len, &out))
		return false;
	http_out_slice(&out, (struct slice){size, (size_t)len});
	flow_commit(s->flow, &out);
	s->flow->suffix = is_last ? crlf_last_chunk : crlf;
	return true;
}

static bool push(struct body_sink *sink, struct slice run, bool is_last)
{
	struct http1_sink *s = http1_sink_of(sink);

	assert(s->flow->body.len == 0);
	if (s->chunked && !put_chunk(s, run, is_last))
		return false;
	s->flow->body = run;
	return true;
}

static bool end(struct body_sink *sink, const struct body_end *end)
{
	struct http1_sink *s = http1_sink_of(sink);
	struct http_out out;

	if (!s->chunked)
		return true;
	if (!flow_reserve(s->flow, s->pool, end->trailers.len + 8, &out))
		return false;
	http_out_slice(&out, SLICE("0\r\n"));
	http_trailers_put(&out, end->trailers, &end->rules);
	http_out_slice(&out, crlf);
	flow_commit(s->flow, &out);
	return true;
}

static enum body_flush flush(struct body_sink *sink, uint64_t *written)
{
	struct http1_sink *s = http1_sink_of(sink);

	if (flow_is_empty(s->flow))
		return BODY_EMPTY;
	if (flow_is_lost(s->flow))
		return BODY_LOST;
	if (!s->stream->writable)
		return BODY_FULL;
	switch (flow_write(s->flow, s->stream, s->pool, written)) {
	case STREAM_OK:
		return BODY_EMPTY;
	case STREAM_AGAIN:
		return BODY_FULL;
	case STREAM_END:
	case STREAM_FAILED:
		break;
	}
	return flow_is_lost(s->flow) ? BODY_LOST : BODY_FAILED;
}

static bool is_empty(const struct body_sink *sink)
{
	return flow_is_empty(as(sink)->flow);
}

static enum body_flush spill(struct body_sink *sink, struct spool_store *store,
	struct spool_limits limits, uint64_t left)
{
	struct flow *flow = as(sink)->flow;
	uint64_t space = flow->spool ? spool_space(flow->spool) : limits.memory + limits.file;

	if (left > 0 && left + flow_bytes(flow) > space)
		return BODY_FULL;
	if (flow_spill(flow, as(sink)->pool, store, limits))
		return BODY_EMPTY;
	return flow_is_lost(flow) ? BODY_LOST : BODY_FULL;
}

static bool has_spilled(const struct body_sink *sink)
{
	return as(sink)->flow->spool != NULL;
}

static struct buffer *keeper(struct body_sink *sink)
{
	struct flow *flow = as(sink)->flow;

	return flow->body.len > 0 ? &flow->kept : NULL;
}

static void wake(struct body_sink *sink)
{
	stream_wake(as(sink)->stream);
}

void http1_sink_init(
	struct http1_sink *s, struct stream *stream, struct flow *flow, struct buffer_pool *pool)
{
	static const struct body_sink_calls calls = {
		push, end, flush, is_empty, spill, has_spilled, keeper, wake};

	_Static_assert(offsetof(struct http1_sink, sink) == 0, "it begins with its sink");
	*s = (struct http1_sink){{&calls}, stream, flow, pool, false, false};
}
