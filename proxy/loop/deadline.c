#include "loop/deadline.h"

#include "base/clock.h"

void deadline_arm(struct deadline *deadline, uint64_t now_ms)
{
	uint64_t wait = deadline->at_ms > now_ms ? deadline->at_ms - now_ms : 0;
	struct timeval interval = {
		.tv_sec = (time_t)(wait / 1000), .tv_usec = (suseconds_t)(wait % 1000) * 1000};

	deadline->armed_ms = deadline->at_ms;
	event_add(&deadline->timer, &interval);
}

static void fired(evutil_socket_t fd, short what, void *arg)
{
	struct deadline *deadline = arg;
	uint64_t now_ms = clock_monotonic_ms();

	(void)fd;
	(void)what;
	deadline->armed_ms = DEADLINE_NEVER;
	if (deadline->at_ms == DEADLINE_NEVER)
		return;
	if (deadline->at_ms > now_ms) {
		deadline_arm(deadline, now_ms);
		return;
	}
	deadline->at_ms = DEADLINE_NEVER;
	deadline->passed(deadline);
}

void deadline_init(struct deadline *deadline, struct event_base *base,
	void (*passed)(struct deadline *deadline))
{
	evtimer_assign(&deadline->timer, base, fired, deadline);
	deadline->at_ms = deadline->armed_ms = DEADLINE_NEVER;
	deadline->passed = passed;
}

void deadline_end(struct deadline *deadline)
{
	if (deadline->armed_ms != DEADLINE_NEVER)
		event_del(&deadline->timer);
	deadline->at_ms = deadline->armed_ms = DEADLINE_NEVER;
}
