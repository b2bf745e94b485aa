/* Pace: what is charged when a request is dispatched, when it is sent late, and when it is sent
 * again. Windows of an hour, so that no test waits for one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/clock.h"
#include "upstream/pace.h"
#include "tests/unit/suite.h"

#define HOUR_NS (3600ull * CLOCK_NS_PER_S)

/* How many are released at once. */
static unsigned admitted(struct pace *pace)
{
	unsigned count = 0;

	while (count < 1000 && pace_charge(pace, 0) == 0)
		count++;
	return count;
}

/* In no danger of being late, however slow this machine is. */
static uint64_t in_time(void)
{
	return clock_monotonic_ns() + HOUR_NS;
}

static void change(struct pace *pace, uint64_t amount, uint64_t per_ns)
{
	struct pace_change *change = pace_prepare(pace, amount, per_ns);

	assert_non_null(change);
	pace_commit(pace, change);
}

static void no_more_than_its_amount(void **state)
{
	struct pace *pace = pace_new(5, HOUR_NS);

	(void)state;
	assert_int_equal(admitted(pace), 5);
	uint64_t wait_ns = pace_charge(pace, 0);
	assert_true(wait_ns > HOUR_NS / 2 && wait_ns <= HOUR_NS + HOUR_NS / 50);
	pace_free(pace);
}

static void who_is_sent_late_counts_once_more(void **state)
{
	struct pace *pace = pace_new(5, HOUR_NS);

	(void)state;
	assert_int_equal(pace_charge(pace, 0), 0);
	pace_sent(pace, in_time(), false);
	assert_int_equal(pace_charge(pace, 0), 0);
	pace_sent(pace, clock_monotonic_ns() - CLOCK_NS_PER_S, false);
	/* of five, two charges and one more when it was sent */
	assert_int_equal(admitted(pace), 2);
	pace_free(pace);
}

static void who_is_sent_again_counts_again(void **state)
{
	struct pace *pace = pace_new(5, HOUR_NS);

	(void)state;
	assert_int_equal(pace_charge(pace, 0), 0);
	pace_sent(pace, in_time(), true);
	assert_int_equal(admitted(pace), 3);
	/* When nothing is free, the next ones wait for it: two more are owed, and ten an hour are
	 * five used, two owed, and three. */
	pace_sent(pace, in_time(), true);
	pace_sent(pace, in_time(), true);
	assert_true(pace_charge(pace, 0) > 0);
	change(pace, 10, HOUR_NS);
	assert_int_equal(admitted(pace), 3);
	pace_collect(pace);
	pace_free(pace);
}

static void a_change_keeps_what_went(void **state)
{
	struct pace *pace = pace_new(20, HOUR_NS);

	(void)state;
	assert_int_equal(admitted(pace), 20);
	change(pace, 30, HOUR_NS);
	assert_int_equal(admitted(pace), 10);
	change(pace, 10, HOUR_NS);
	assert_int_equal(admitted(pace), 0);
	pace_free(pace);
}

UNIT_SUITE(test_pace)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_more_than_its_amount),
		cmocka_unit_test(who_is_sent_late_counts_once_more),
		cmocka_unit_test(who_is_sent_again_counts_again),
		cmocka_unit_test(a_change_keeps_what_went),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
