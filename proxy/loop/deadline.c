#include "loop/deadline.h"

#include "base/clock.h"
#include "loop/loop.h"

/* A timer that fires so late found its loop held up: the process was stopped or had no processor,
 * or a turn took long. */
#define LATE_MS 10

/* Then turns are waited for in which all is looked at that came meanwhile: two, since epoll_wait is
 * cut short by the signal that ends a stop, signal(7), and until one finds nothing; but no more
 * than MOST_LOOKS, as there may always be something. libevent asks for more events in each. */
#define LOOKS      2
#define MOST_LOOKS 8

void deadline_arm(struct deadline *deadline, uint64_t now_ms)
{
	uint64_t wait = deadline->at_ms > now_ms ? deadline->at_ms - now_ms : 0;
	struct timeval interval = {
		.tv_sec = (time_t)(wait / 1000), .tv_usec = (suseconds_t)(wait % 1000) * 1000};

	deadline->armed_ms = deadline->at_ms;
	event_add(&deadline->timer, &interval);
}

/* `looks`: in so many turns it was looked already. */
static bool looks_again(const struct deadline *deadline, uint64_t now_ms, uint64_t looks)
{
	const struct loop *loop = loop_current();

	if (looks == 0)
		return deadline->looks_first && now_ms - deadline->at_ms >= LATE_MS;
	return looks < LOOKS || (looks < MOST_LOOKS && loop && loop->worked);
}

static void fired(evutil_socket_t fd, short what, void *arg)
{
	struct deadline *deadline = arg;
	uint64_t now_ms = clock_monotonic_ms();
	/* So early a time counts the looks. */
	uint64_t looks = deadline->armed_ms <= MOST_LOOKS ? deadline->armed_ms : 0;

	(void)fd;
	(void)what;
	deadline->armed_ms = DEADLINE_NEVER;
	if (deadline->at_ms == DEADLINE_NEVER)
		return;
	if (deadline->at_ms > now_ms) {
		deadline_arm(deadline, now_ms);
		return;
	}
	if (looks_again(deadline, now_ms, looks)) {
		event_add(&deadline->timer, &(struct timeval){0}); /* in the next turn */
		deadline->armed_ms = looks + 1;
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
	deadline->looks_first = false;
}

void deadline_end(struct deadline *deadline)
{
	if (deadline->armed_ms != DEADLINE_NEVER)
		event_del(&deadline->timer);
	deadline->at_ms = deadline->armed_ms = DEADLINE_NEVER;
}
