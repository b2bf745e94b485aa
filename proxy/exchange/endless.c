#include "exchange/endless.h"

#include "exchange/exchange.h"
#include "exchange/reply.h"

/* Without its parameters. */
static struct slice media_type(const struct http_head *head)
{
	struct slice value = http_head_find_name(head, SLICE("content-type"));
	const char *semicolon = value.len > 0 ? memchr(value.at, ';', value.len) : NULL;

	if (semicolon)
		value.len = (size_t)(semicolon - value.at);
	return slice_trim(value);
}

static bool is_streams_type(struct slice type, const struct conf_text_list *types)
{
	for (size_t i = 0; i < types->count; i++) {
		if (slice_equal_nocase(type, slice_of(types->items[i])))
			return true;
	}
	return slice_equal_nocase(type, SLICE("text/event-stream"));
}

bool endless_is_events(const struct exchange *x)
{
	/* One whose length is known ends. So the usual response costs no look at its fields. */
	if (!http_framing_is_open(&x->response_framing))
		return false;
	return is_streams_type(media_type(x->response), &x->route->upstream->stream_types);
}

bool endless_begin(struct exchange *x)
{
	struct upstream_state *state = x->upstream->state;
	uint32_t most = x->upstream->conf->max_streams;

	/* relaxed: a count; nothing is read by it */
	if (atomic_fetch_add_explicit(&state->streams, 1, memory_order_relaxed) >= most &&
		most > 0) {
		atomic_fetch_sub_explicit(&state->streams, 1, memory_order_relaxed);
		exchange_drop_connection(x);
		worker_count(x->worker, STATS_SHED);
		exchange_reply(x, 503, "too many streams", 1000);
		return false;
	}
	x->attempt.endless = x->server->state;
	atomic_fetch_add_explicit(&x->attempt.endless->streams, 1, memory_order_relaxed);
	/* The queue's place promises one at a server, so that one is given back first. */
	server_done(x->server);
	if (exchange_is_queued(x))
		queue_give_place(x->worker->node->queue, &x->turn.ticket, worker_now_ns(x->worker));
	return true;
}
