#include "http1/idle_wait.h"

#include "exchange/hop.h"
#include "http1/downstream_inside.h"
#include "listen/listener.h"

#define DRAIN_STALL_MS 5000 /* in a drain: how long a client may take nothing of what there is */
/* A client takes as much at once, if it takes anything (RFC 6928: the first ten segments). */
#define LITTLE_BYTES 14600
#define LOOK_MOST_MS 1000

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t timeout_ms(const struct downstream *d)
{
	uint64_t idle_ms = d->client.listener->conf->idle_timeout_ms;

	if (hop_is_unproven(&d->client))
		idle_ms = least(idle_ms, HOP_SILENCE_MS);
	/* The shutdown's end would count as a cut. */
	return d->worker->draining
		       ? least(least(idle_ms, DRAIN_IDLE_MS),
				 site_part(d->worker)->use->site->conf->shutdown_timeout_ms / 2)
		       : idle_ms;
}

static uint64_t look_ms(const struct downstream *d)
{
	return least(timeout_ms(d) / 4 + 1, LOOK_MOST_MS);
}

void idle_wait(struct downstream *d)
{
	uint64_t progress = 2 * d->begun + d->worker->draining; /* a drain shortens it */
	uint64_t now_ms = worker_now_ms(d->worker);

	if (d->wait.reason == WAIT_IDLE && d->wait.progress == progress)
		return;
	bool much = d->stream.sent - d->idle_wait.sent > LITTLE_BYTES;
	d->idle_wait = (struct idle_wait){.sent = d->stream.sent, .takes = much};
	wait_for(&d->wait, WAIT_IDLE, progress, now_ms + (much ? look_ms(d) : timeout_ms(d)),
		now_ms);
	idle_list_put(&d->client.listener->idle, &d->idle, now_ms);
}

/* Takes it nothing any more of what the system has for it? */
static bool is_stalled(struct downstream *d, uint64_t taken, uint64_t now_ms)
{
	struct idle_wait *wait = &d->idle_wait;
	uint64_t stall_ms = d->client.listener->conf->send_timeout_ms;

	if (wait->taken_ms == 0 || taken > wait->taken) {
		wait->taken = taken;
		wait->taken_ms = now_ms;
	}
	if (d->worker->draining)
		stall_ms = least(stall_ms, DRAIN_STALL_MS);
	return now_ms >= wait->taken_ms + stall_ms;
}

/* Is the time over that a drain has for clients that still take? */
static bool drain_ends(const struct downstream *d, uint64_t now_ms)
{
	uint64_t shutdown_ms = site_part(d->worker)->use->site->conf->shutdown_timeout_ms;

	return d->worker->draining &&
	       now_ms >= d->worker->drain_began_ms + shutdown_ms - shutdown_ms / 8;
}

const char *idle_wait_is_over(struct downstream *d)
{
	uint64_t now_ms = worker_now_ms(d->worker), taken = stream_taken(&d->stream);
	const char *why = d->worker->draining ? "drained" : "idle";
	bool all = taken == d->stream.sent;

	if (all && !d->idle_wait.takes)
		return why;
	if (drain_ends(d, now_ms))
		return why;
	if (!all && is_stalled(d, taken, now_ms))
		return d->worker->draining ? why : "send timeout";
	d->idle_wait.takes = !all;
	idle_list_put(&d->client.listener->idle, &d->idle, now_ms); /* idle since now at most */
	d->wait.deadline.is_patient = true;
	deadline_set(&d->wait.deadline, now_ms + (all ? timeout_ms(d) : look_ms(d)), now_ms);
	return NULL;
}
