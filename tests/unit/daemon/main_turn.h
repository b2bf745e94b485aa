/* The main thread's loop of a stage, turn by turn. */
#ifndef TESTS_DAEMON_MAIN_TURN_H
#define TESTS_DAEMON_MAIN_TURN_H

#include "tests/unit/exchange/fakes/flight.h"

/* One turn, which does not sleep: the loop is woken before. */
static inline void main_turn(struct stage *stage)
{
	struct loop *loop = &stage->relay.node.loop;

	loop_enter(loop);
	loop_wake(loop);
	assert_int_equal(loop_run_turn(loop), 0);
	loop_enter(&stage->worker->loop);
}

/* Turns until the log has this, which waits for no longer than a timer takes that is its subject.
 */
static inline void main_turn_until(struct stage *stage, const char *line)
{
	struct loop *loop = &stage->relay.node.loop;

	loop_enter(loop);
	while (!strstr(lines.text, line))
		assert_int_equal(loop_run_turn(loop), 0);
	loop_enter(&stage->worker->loop);
}

#endif
