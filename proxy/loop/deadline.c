#include "loop/deadline.h"

#include "base/clock.h"

/* A timer that fires so late found its loop held up: the process was stopped or had no processor,
 * a disk or a turn took long. */
#define LATE_MS 10

/* So long is waited for a peer afterwards at least, if its deadline passed meanwhile. What came is
 * read by then. A turn that was held up took its time at its beginning: a deadline that was set in
 * it comes too early by as much. */
#define LEAST_AFTERWARDS_MS 1000

void deadline_arm(struct deadline *deadline, uint64_t now_ms)
{
	uint64_t wait = deadline->at_ms > now_ms ? deadline->at_ms - now_ms : 0;
	struct timeval interval = {
		.tv_sec = (time_t)(wait / 1000), .tv_usec = (suseconds_t)(wait % 1000) * 1000};

	/* Without memory for more timers than ever before, the next deadline_set arms it. */
	deadline->armed_ms =
		event_add(&deadline->timer, &interval) == 0 ? deadline->at_ms : DEADLINE_NEVER;
}

static void fired(evutil_socket_t fd, short what, void *arg)
{
	struct deadline *deadline = arg;
	uint64_t now_ms = clock_monotonic_ms(), late_ms;

	(void)fd;
	(void)what;
	deadline->armed_ms = DEADLINE_NEVER;
	if (deadline->at_ms == DEADLINE_NEVER)
		return;
	if (deadline->at_ms > now_ms) {
		deadline_arm(deadline, now_ms);
		return;
	}
	late_ms = now_ms - deadline->at_ms;
	if (deadline->is_patient && late_ms >= LATE_MS) {
		deadline->is_patient = false;
		deadline->at_ms =
			now_ms + (late_ms > LEAST_AFTERWARDS_MS ? late_ms : LEAST_AFTERWARDS_MS);
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
	deadline->is_patient = false;
}

void deadline_end(struct deadline *deadline)
{
	if (deadline->armed_ms != DEADLINE_NEVER)
		event_del(&deadline->timer);
	deadline->at_ms = deadline->armed_ms = DEADLINE_NEVER;
}
