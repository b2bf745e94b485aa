/*
 * Deadlines that cost nothing until they pass: moving one later, or clearing it, only stores a
 * number. The libevent timer behind it is armed again only when the deadline comes nearer than
 * what is armed, and when it fires early it looks at the number and sleeps on. A request thus
 * adds and deletes no timers.
 *
 * A patient deadline is about a peer. When its loop was held up past it (the process was stopped,
 * or had no processor for a while), it passes later, once by as much as it was late and by a second
 * at least: what came meanwhile is looked at first, and may move it.
 */
#ifndef LOOP_DEADLINE_H
#define LOOP_DEADLINE_H

#include <event2/event.h>
#include <event2/event_struct.h>
#include <stdbool.h>
#include <stdint.h>

#define DEADLINE_NEVER UINT64_MAX

struct deadline {
	struct event timer;
	uint64_t at_ms;    /* when it passes, DEADLINE_NEVER: not at all */
	uint64_t armed_ms; /* when the timer fires, DEADLINE_NEVER: not armed */
	void (*passed)(struct deadline *deadline);
	bool is_patient; /* set by its owner, for the next time that it would pass */
};

/* `passed` is called once at or after at_ms (monotonic milliseconds), from the loop of `base`. */
void deadline_init(struct deadline *deadline, struct event_base *base,
	void (*passed)(struct deadline *deadline));

/* Of deadline_set only: the timer is to fire at at_ms. */
void deadline_arm(struct deadline *deadline, uint64_t now_ms);

/* Passes at `at_ms` instead of when it would have; now_ms is the time by the same clock. */
static inline void deadline_set(struct deadline *deadline, uint64_t at_ms, uint64_t now_ms)
{
	deadline->at_ms = at_ms;
	if (at_ms < deadline->armed_ms)
		deadline_arm(deadline, now_ms);
}

static inline void deadline_clear(struct deadline *deadline)
{
	deadline->at_ms = DEADLINE_NEVER;
}
/* Before its memory is freed. */
void deadline_end(struct deadline *deadline);

#endif
