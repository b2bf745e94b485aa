/* Deadlines that a test passes by itself, in programs linked with $(fake_deadline_wraps). */
#ifndef TESTS_UNIT_LOOP_FAKE_DEADLINE_H
#define TESTS_UNIT_LOOP_FAKE_DEADLINE_H

#include "loop/deadline.h"

/* Called for each new deadline; may be NULL. */
extern void (*fake_deadline_made)(struct deadline *deadline);

#endif
