/* What a connection waits for: progress gives a peer its time again, never more than there is. */
#include "worker/wait.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/clock.h"
#include "tests/unit/suite.h"

struct peer {
	struct wait wait;
	unsigned passed;
};

static void on_passed(struct deadline *deadline)
{
	struct peer *peer = (struct peer *)((char *)deadline - offsetof(struct peer, wait));

	peer->passed++;
}

/* As a client that lingers: a byte each turn, and an end that no byte moves. The loop was held up
 * past that end. */
static void progress_does_not_renew_a_time_that_is_over(void **state)
{
	struct event_base *base = event_base_new();
	uint64_t now_ms = clock_monotonic_ms(), end_ms = now_ms - 50;
	struct peer peer = {.passed = 0};

	(void)state;
	wait_init(&peer.wait, base, on_passed);
	wait_for(&peer.wait, WAIT_LINGER, 1, end_ms, now_ms);
	event_base_loop(base, EVLOOP_ONCE);
	assert_int_equal(peer.passed, 1);
	wait_end(&peer.wait);
	event_base_free(base);
}

/* Its time passes in a turn that takes 50 ms. Has it ended? Else it has time once more. */
static bool ends_in_a_long_turn(enum wait_reason reason, uint64_t progress)
{
	struct event_base *base = event_base_new();
	uint64_t now_ms = clock_monotonic_ms() - 50;
	struct peer peer = {.passed = 0};

	wait_init(&peer.wait, base, on_passed);
	wait_for(&peer.wait, reason, progress, now_ms + 1, now_ms);
	event_base_loop(base, EVLOOP_ONCE);
	assert_int_equal(peer.passed == 0, peer.wait.deadline.at_ms > now_ms + 50 &&
						   peer.wait.deadline.at_ms != DEADLINE_NEVER);
	wait_end(&peer.wait);
	event_base_free(base);
	return peer.passed == 1;
}

static void a_held_up_loop_excuses_a_peer(void **state)
{
	(void)state;
	assert_false(ends_in_a_long_turn(WAIT_BODY, 1));
}

/* A connection that waits to be used again is nobody's to be late with. */
static void our_own_time_is_not_prolonged(void **state)
{
	(void)state;
	assert_true(ends_in_a_long_turn(WAIT_REUSE, 0));
}

UNIT_SUITE(test_wait)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(progress_does_not_renew_a_time_that_is_over),
		cmocka_unit_test(a_held_up_loop_excuses_a_peer),
		cmocka_unit_test(our_own_time_is_not_prolonged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
