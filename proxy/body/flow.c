#include "body/flow.h"

#include <assert.h>

/* A prefix that outgrows its block doubles, so that many short additions copy each byte a constant
 * number of times. */
static bool make_room(struct flow *flow, struct buffer_pool *pool, size_t bytes)
{
	struct buffer *prefix = &flow->prefix;

	if (!prefix->at && !buffer_acquire(prefix, pool))
		return false;
	if (buffer_room(prefix) >= bytes)
		return true;
	size_t wanted = buffer_used(prefix) + bytes;
	if (wanted > prefix->capacity && wanted < 2 * (size_t)prefix->capacity &&
		prefix->capacity <= UINT32_MAX / 2)
		wanted = 2 * (size_t)prefix->capacity;
	return buffer_reserve(prefix, pool, wanted);
}

/* Body and suffix move behind the prefix, with room for as much as is asked for behind them. */
static bool absorb(struct flow *flow, struct buffer_pool *pool, size_t bytes)
{
	if (!make_room(flow, pool, flow->body.len + flow->suffix.len + bytes))
		return false;
	struct http_out out =
		http_out_over(flow->prefix.at + flow->prefix.end, buffer_room(&flow->prefix));
	http_out_slice(&out, flow->body);
	http_out_slice(&out, flow->suffix);
	flow_commit(flow, &out);
	flow->body = flow->suffix = SLICE_NONE;
	buffer_release(&flow->kept, pool);
	return true;
}

bool flow_reserve(struct flow *flow, struct buffer_pool *pool, size_t bytes, struct http_out *out)
{
	assert(flow_takes_prefix(flow));
	bool clear = flow->body.len == 0 && flow->suffix.len == 0;
	if (clear ? !make_room(flow, pool, bytes) : !absorb(flow, pool, bytes))
		return false;
	*out = http_out_over(flow->prefix.at + flow->prefix.end, buffer_room(&flow->prefix));
	return true;
}

void flow_commit(struct flow *flow, const struct http_out *out)
{
	flow->prefix.end = (uint32_t)(out->at - flow->prefix.at);
}

bool flow_append(struct flow *flow, struct buffer_pool *pool, struct slice bytes)
{
	struct http_out out;

	if (!flow_reserve(flow, pool, bytes.len, &out))
		return false;
	http_out_slice(&out, bytes);
	flow_commit(flow, &out);
	return true;
}

/* Takes `*n` bytes off the front of a slice, as many as there are; the rest stays in `*n`. */
static void advance(struct slice *slice, size_t *n)
{
	size_t step = *n < slice->len ? *n : slice->len;

	if (step == 0)
		return; /* it may be nowhere, from where no pointer leads on */
	slice->at += step;
	slice->len -= step;
	*n -= step;
}

static void clear_runs(struct flow *flow, struct buffer_pool *pool)
{
	buffer_release(&flow->prefix, pool);
	buffer_release(&flow->kept, pool);
	flow->body = flow->suffix = SLICE_NONE;
}

static __attribute__((noinline)) void took_some(
	struct flow *flow, struct buffer_pool *pool, size_t n)
{
	size_t used = buffer_used(&flow->prefix);
	size_t step = n < used ? n : used;

	flow->prefix.start += (uint32_t)step;
	n -= step;
	if (flow->prefix.at && buffer_used(&flow->prefix) == 0)
		buffer_release(&flow->prefix, pool);
	advance(&flow->body, &n);
	advance(&flow->suffix, &n);
	if (flow->kept.at && flow->body.len == 0)
		buffer_release(&flow->kept, pool);
}

static inline void took(struct flow *flow, struct buffer_pool *pool, size_t n)
{
	if (n == flow_bytes(flow))
		clear_runs(flow, pool);
	else
		took_some(flow, pool, n);
}

static void leave_empty_spool(struct flow *flow)
{
	if (spool_bytes(flow->spool) > 0)
		return;
	spool_free(flow->spool);
	flow->spool = NULL;
}

bool flow_spill(struct flow *flow, struct buffer_pool *pool, struct spool_store *store,
	struct spool_limits limits)
{
	size_t spilled = 0;

	if (!flow->spool)
		flow->spool = spool_new(store, limits);
	if (!flow->spool)
		return false;
	const struct slice runs[] = {
		{flow->prefix.at ? buffer_head(&flow->prefix) : NULL, buffer_used(&flow->prefix)},
		flow->body, flow->suffix};
	for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++) {
		size_t n = spool_put(flow->spool, runs[i]);
		spilled += n;
		if (n < runs[i].len)
			break;
	}
	if (spool_is_lost(flow->spool))
		return false;
	took(flow, pool, spilled);
	leave_empty_spool(flow);
	return flow_bytes(flow) == 0;
}

/* OK: there is no spool any more. */
static enum stream_result write_spool(struct flow *flow, struct stream *stream, uint64_t *written)
{
	while (flow->spool) {
		if (spool_is_lost(flow->spool))
			return STREAM_FAILED;
		struct slice run = spool_front(flow->spool);
		struct iovec piece = {(void *)(uintptr_t)run.at, run.len};
		size_t n;
		enum stream_result result = stream_write(stream, &piece, 1, &n);

		*written += n;
		if (!spool_drop(flow->spool, n))
			return STREAM_FAILED;
		leave_empty_spool(flow);
		if (result != STREAM_OK)
			return result;
	}
	return STREAM_OK;
}

enum stream_result flow_write(
	struct flow *flow, struct stream *stream, struct buffer_pool *pool, uint64_t *written)
{
	struct iovec pieces[3];
	int count = 0;
	size_t n;

	if (flow->spool) {
		enum stream_result result = write_spool(flow, stream, written);
		if (result != STREAM_OK)
			return result;
	}
	if (buffer_used(&flow->prefix) > 0)
		pieces[count++] =
			(struct iovec){buffer_head(&flow->prefix), buffer_used(&flow->prefix)};
	if (flow->body.len > 0)
		pieces[count++] = (struct iovec){(void *)(uintptr_t)flow->body.at, flow->body.len};
	if (flow->suffix.len > 0)
		pieces[count++] =
			(struct iovec){(void *)(uintptr_t)flow->suffix.at, flow->suffix.len};
	if (count == 0)
		return STREAM_OK;
	enum stream_result result = stream_write(stream, pieces, count, &n);
	*written += n;
	took(flow, pool, n);
	return result;
}

void flow_truncate(struct flow *flow, size_t bytes)
{
	assert(flow->body.len == 0 && flow->suffix.len == 0);
	assert(bytes <= buffer_used(&flow->prefix));
	flow->prefix.end = flow->prefix.start + (uint32_t)bytes;
}

void flow_clear(struct flow *flow, struct buffer_pool *pool)
{
	clear_runs(flow, pool);
	spool_free(flow->spool);
	flow->spool = NULL;
}
