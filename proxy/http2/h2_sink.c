#include "http2/h2_sink.h"

#include <stdlib.h>
#include <string.h>

#include "http2/h2_output.h"

static struct h2_sink *of(struct body_sink *sink)
{
	_Static_assert(offsetof(struct h2_sink, sink) == 0, "it begins with its sink");
	return (struct h2_sink *)sink;
}

static const struct h2_sink *as(const struct body_sink *sink)
{
	return (const struct h2_sink *)sink;
}

static bool push(struct body_sink *sink, struct slice run, bool is_last)
{
	struct h2_sink *s = of(sink);

	s->run = run;
	s->is_last = is_last;
	s->resume(s);
	return true;
}

static bool keep_trailers(struct h2_sink *s, const struct body_end *end)
{
	if (end->trailers.len == 0)
		return true;
	s->trailers = malloc(end->trailers.len);
	if (!s->trailers)
		return false;
	struct http_out out = http_out_over(s->trailers, end->trailers.len);
	http_trailers_put(&out, end->trailers, &end->rules);
	s->trailers_len = (uint32_t)(out.at - s->trailers);
	return true;
}

static bool end(struct body_sink *sink, const struct body_end *end)
{
	struct h2_sink *s = of(sink);

	if (!keep_trailers(s, end))
		return false;
	s->is_last = true;
	s->resume(s);
	return true;
}

/* So much of the run is not needed any more. */
static void drop_run(struct h2_sink *s, size_t bytes)
{
	s->run.at += bytes;
	s->run.len -= bytes;
	if (s->run.len == 0)
		buffer_release(&s->kept, &s->link->worker->blocks);
}

static void leave_empty_spool(struct h2_sink *s)
{
	if (!s->spool || spool_is_lost(s->spool) || spool_bytes(s->spool) > 0)
		return;
	spool_free(s->spool);
	s->spool = NULL;
}

static bool is_lost(const struct h2_sink *s)
{
	return s->spool && spool_is_lost(s->spool);
}

static bool is_empty(const struct body_sink *sink)
{
	return !h2_sink_has_output(as(sink));
}

static enum body_flush flush(struct body_sink *sink, uint64_t *written)
{
	struct h2_sink *s = of(sink);

	if (h2_sink_has_output(s) && !s->has_failed)
		h2_output_send(s->link);
	*written += s->sent - s->reported;
	s->reported = s->sent;
	if (is_lost(s))
		return BODY_LOST;
	if (s->has_failed)
		return BODY_FAILED;
	return h2_sink_has_output(s) ? BODY_FULL : BODY_EMPTY;
}

static enum body_flush spill(struct body_sink *sink, struct spool_store *store,
	struct spool_limits limits, uint64_t left)
{
	struct h2_sink *s = of(sink);
	uint64_t space = s->spool ? spool_space(s->spool) : limits.memory + limits.file;

	if (left > 0 && left + s->run.len > space)
		return BODY_FULL;
	if (!s->spool)
		s->spool = spool_new(store, limits);
	if (!s->spool)
		return BODY_FULL;
	drop_run(s, spool_put(s->spool, s->run));
	leave_empty_spool(s);
	if (is_lost(s))
		return BODY_LOST;
	return s->run.len == 0 ? BODY_EMPTY : BODY_FULL;
}

static bool has_spilled(const struct body_sink *sink)
{
	return as(sink)->spool != NULL;
}

static struct buffer *keeper(struct body_sink *sink)
{
	return of(sink)->run.len > 0 ? &of(sink)->kept : NULL;
}

static void wake(struct body_sink *sink)
{
	of(sink)->look_later(of(sink));
}

void h2_sink_init(struct h2_sink *s, struct h2_link *link, int32_t id)
{
	static const struct body_sink_calls calls = {
		push, end, flush, is_empty, spill, has_spilled, keeper, wake};

	*s = (struct h2_sink){.sink.calls = &calls, .link = link, .id = id};
}

void h2_sink_end(struct h2_sink *s)
{
	spool_free(s->spool);
	s->spool = NULL;
	s->run = SLICE_NONE;
	buffer_release(&s->kept, &s->link->worker->blocks);
	free(s->trailers);
	s->trailers = NULL;
}

struct slice h2_sink_front(const struct h2_sink *s)
{
	return s->spool ? spool_front(s->spool) : s->run;
}

void h2_sink_took(struct h2_sink *s, size_t bytes)
{
	if (!s->spool) {
		drop_run(s, bytes);
		return;
	}
	spool_drop(s->spool, bytes);
	leave_empty_spool(s);
}
