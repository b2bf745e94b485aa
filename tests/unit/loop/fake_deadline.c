/*
 * Deadlines without a loop: a test reads `armed_ms` and calls `passed` itself. In the place of
 * those of loop/deadline.h (by $(fake_deadline_wraps): Makefile.inc).
 */
#include "fake_deadline.h"

#include <stddef.h>

void (*fake_deadline_made)(struct deadline *deadline);

void __wrap_deadline_init(struct deadline *deadline, struct event_base *base,
	void (*passed)(struct deadline *deadline));
void __wrap_deadline_init(struct deadline *deadline, struct event_base *base,
	void (*passed)(struct deadline *deadline))
{
	(void)base;
	deadline->at_ms = deadline->armed_ms = DEADLINE_NEVER;
	deadline->passed = passed;
	if (fake_deadline_made != NULL)
		fake_deadline_made(deadline);
}

void __wrap_deadline_arm(struct deadline *deadline, uint64_t now_ms);
void __wrap_deadline_arm(struct deadline *deadline, uint64_t now_ms)
{
	(void)now_ms;
	deadline->armed_ms = deadline->at_ms;
}

void __wrap_deadline_end(struct deadline *deadline);
void __wrap_deadline_end(struct deadline *deadline)
{
	deadline->at_ms = deadline->armed_ms = DEADLINE_NEVER;
}
