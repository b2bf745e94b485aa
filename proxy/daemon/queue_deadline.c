#include "daemon/queue_deadline.h"

#include "base/clock.h"
#include "daemon/daemon.h"

void queue_deadline_note(void *ctx, uint64_t deadline_ns)
{
	struct daemon *daemon = ctx;
	uint64_t known = atomic_load(&daemon->queue_deadline.at_ns);

	while (deadline_ns < known) {
		if (atomic_compare_exchange_weak(
			    &daemon->queue_deadline.at_ns, &known, deadline_ns)) {
			loop_wake(&daemon->node.loop);
			return;
		}
	}
}

void queue_deadline_arm(struct daemon *daemon)
{
	uint64_t deadline = atomic_load(&daemon->queue_deadline.at_ns), now = clock_monotonic_ns();

	if (deadline == QUEUE_NEVER)
		return;
	uint64_t wait_us = deadline > now ? (deadline - now) / 1000 + 1 : 0;
	struct timeval interval = {
		.tv_sec = (time_t)(wait_us / 1000000), .tv_usec = (suseconds_t)(wait_us % 1000000)};
	if (event_add(daemon->queue_deadline.timer, &interval) != 0)
		loop_hurry(&daemon->node.loop); /* the next turn arms it */
}

static void on_queue_timer(evutil_socket_t fd, short what, void *arg)
{
	struct daemon *daemon = arg;

	(void)fd;
	(void)what;
	/* Cleared first: a deadline noted from now on is armed at the end of the turn. */
	atomic_store(&daemon->queue_deadline.at_ns, QUEUE_NEVER);
	uint64_t next = queue_expire(daemon->node.queue, clock_monotonic_ns());
	queue_deadline_note(daemon, next);
}

bool queue_deadline_begin(struct daemon *daemon)
{
	atomic_init(&daemon->queue_deadline.at_ns, QUEUE_NEVER);
	daemon->queue_deadline.timer = evtimer_new(daemon->node.loop.base, on_queue_timer, daemon);
	return daemon->queue_deadline.timer != NULL;
}

void queue_deadline_end(struct daemon *daemon)
{
	if (daemon->queue_deadline.timer)
		event_free(daemon->queue_deadline.timer);
}
