#include "http1/linger.h"

#include "base/list.h"
#include "http1/downstream_inside.h"
#include "listen/listener.h"

#define SILENT_MS       5000 /* a client that sends nothing for so long has stopped */
#define DRAIN_SILENT_MS 1000
#define SLOW_MS         2000 /* in all, for one that was too slow already */

/* This worker's part of the listener's bound. */
static unsigned bound_of(const struct listener *listener)
{
	unsigned workers = listener->worker->node->worker_count;

	return (listener->conf->max_lingering + workers - 1) / workers;
}

static void join(struct downstream *d)
{
	struct listener *listener = d->client.listener;

	LIST_APPEND(listener->oldest_lingering, listener->newest_lingering, d, older, newer);
	listener->lingering++;
}

void linger_leave(struct downstream *d)
{
	struct listener *listener = d->client.listener;

	if (d->state != DOWNSTREAM_LINGERING)
		return;
	LIST_REMOVE(listener->oldest_lingering, listener->newest_lingering, d, older, newer);
	listener->lingering--;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Each byte prolongs it, up to linger_timeout; a drain shortens it. */
static void watch(struct downstream *d)
{
	struct worker *worker = d->worker;
	uint64_t now_ms = worker_now_ms(worker);
	uint64_t end_ms = d->lingers_since_ms + d->client.listener->conf->linger_timeout_ms;
	uint64_t silent_ms = SILENT_MS;

	if (d->was_slow)
		end_ms = least(end_ms, d->lingers_since_ms + SLOW_MS);
	if (worker->draining) {
		/* The shutdown's end would count as a cut. */
		uint64_t shutdown_ms = site_part(worker)->use->site->conf->shutdown_timeout_ms;
		end_ms = least(end_ms, worker->drain_began_ms + shutdown_ms / 2);
		silent_ms = DRAIN_SILENT_MS;
	}
	wait_for(&d->wait, WAIT_LINGER, 2 * d->lingered_bytes + worker->draining,
		least(end_ms, now_ms + silent_ms), now_ms);
}

void linger_drain(struct downstream *d)
{
	if (d->state == DOWNSTREAM_LINGERING)
		watch(d);
}

void linger_begin(struct downstream *d)
{
	d->lingers_since_ms = worker_now_ms(d->worker);
	join(d);
}

bool linger_is_full(const struct listener *listener)
{
	return listener->lingering > bound_of(listener);
}

bool linger_run(struct downstream *d)
{
	struct buffer_pool *pool = &d->worker->blocks;
	uint64_t max_bytes = d->client.listener->conf->linger_bytes;

	d->yields = false;
	d->lingered_bytes += buffer_used(&d->in);
	d->in.start = d->in.end = 0;
	while (stream_may_have_more(&d->stream) && !d->stream.read_ended &&
		d->lingered_bytes < max_bytes && downstream_may_work(d)) {
		if (!d->in.at && !buffer_acquire(&d->in, pool))
			break;
		d->client.work++;
		if (stream_read(&d->stream, &d->in) != STREAM_OK)
			break;
		d->lingered_bytes += buffer_used(&d->in);
		d->in.start = d->in.end = 0;
	}
	buffer_release(&d->in, pool);
	if (d->stream.read_ended || d->lingered_bytes >= max_bytes)
		return false;
	watch(d);
	if (d->yields && d->stream.readable)
		stream_yield(&d->stream);
	return true;
}
