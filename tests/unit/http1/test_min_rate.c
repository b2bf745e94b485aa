/* A minimum rate: the credit that waiting spends and bytes pay back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../random.h"
#include "base/clock.h"
#include "http1/min_rate.h"
#include "tests/unit/suite.h"

#define MS CLOCK_NS_PER_MS
#define S  CLOCK_NS_PER_S

/* 100 bytes a second after ten seconds; we wait from `now_ns` on. */
static struct min_rate waiting(uint64_t now_ns)
{
	struct min_rate rate;

	min_rate_begin(&rate, 100, 10000, 0);
	assert_int_equal(min_rate_look(&rate, 0, now_ns), 10 * S);
	return rate;
}

static void silence_lasts_as_long_as_the_grace(void **state)
{
	struct min_rate rate = waiting(5 * S);

	(void)state;
	assert_int_equal(min_rate_look(&rate, 0, 15 * S - 1), 1);
	assert_int_equal(min_rate_look(&rate, 0, 15 * S), 0);
}

static void too_slow_stays_so(void **state)
{
	struct min_rate rate = waiting(S);

	(void)state;
	assert_int_equal(min_rate_look(&rate, 0, 12 * S), 0);
	assert_int_equal(min_rate_look(&rate, 1000000, 12 * S + 1), 0);
}

static void just_the_rate_goes_on_for_ever(void **state)
{
	struct min_rate rate = waiting(S);

	(void)state;
	for (uint64_t byte = 1; byte <= 100000; byte++)
		assert_int_equal(min_rate_look(&rate, byte, S + byte * 10 * MS), 10 * S);
}

static void half_the_rate_ends_after_twice_the_grace(void **state)
{
	struct min_rate rate = waiting(S);

	(void)state;
	for (uint64_t byte = 1; byte < 1000; byte++)
		assert_int_not_equal(min_rate_look(&rate, byte, S + byte * 20 * MS), 0);
	assert_int_equal(min_rate_look(&rate, 999, S + 20 * S), 0);
}

static void haste_buys_no_more_than_the_grace(void **state)
{
	struct min_rate rate = waiting(S);

	(void)state;
	assert_int_equal(min_rate_look(&rate, UINT64_MAX / 2, 2 * S), 10 * S);
	assert_int_equal(min_rate_look(&rate, UINT64_MAX / 2, 12 * S), 0);
}

/* The loop was held up for longer than the grace: what came meanwhile is found at once. */
static void a_late_look_counts_all_that_came(void **state)
{
	struct min_rate rate = waiting(S);

	(void)state;
	assert_int_equal(min_rate_look(&rate, 2500, 26 * S), 10 * S);
	assert_int_equal(min_rate_look(&rate, 2500 + 2400, 51 * S), 9 * S);
	assert_int_equal(min_rate_look(&rate, 4900 + 100000, 91 * S), 10 * S);
	assert_int_equal(min_rate_look(&rate, 104900 + 2999, 131 * S + S / 100), 0);
}

static void pauses_cost_nothing(void **state)
{
	struct min_rate rate = waiting(S);

	(void)state;
	min_rate_pause(&rate, 0, 5 * S);
	min_rate_pause(&rate, 0, 900 * S);
	assert_int_equal(min_rate_look(&rate, 0, 1000 * S), 6 * S);
	assert_int_equal(min_rate_look(&rate, 0, 1006 * S), 0);
}

static void a_count_that_begins_again_pays_nothing(void **state)
{
	struct min_rate rate = waiting(S);

	(void)state;
	assert_int_equal(min_rate_look(&rate, 50, 2 * S), 95 * S / 10);
	assert_int_equal(min_rate_look(&rate, 0, 3 * S), 85 * S / 10);
	assert_int_equal(min_rate_look(&rate, 50, 3 * S), 9 * S);
}

static void a_day_of_grace_at_any_rate_does_not_overflow(void **state)
{
	static const uint64_t rates[] = {1, 3, 1000, 1ULL << 30};

	(void)state;
	for (size_t i = 0; i < sizeof(rates) / sizeof(rates[0]); i++) {
		struct min_rate rate;
		min_rate_begin(&rate, rates[i], 86400000, 0);
		min_rate_look(&rate, 0, 1);
		assert_int_equal(min_rate_look(&rate, UINT64_MAX, 2), 86400 * S);
	}
}

/* In any stretch of waiting of length T, per_second * (T - grace) bytes at least, and one whose
 * stretches all have these is allowed to continue: held to a plain count over all stretches. */
static void any_stretch_holds_the_promise(void **state)
{
	enum { LOOKS = 60 };

	(void)state;
	struct random random = random_begin("looks");
	for (unsigned round = 0; round < 2000; round++) {
		uint64_t at[LOOKS], bytes[LOOKS];
		struct min_rate rate;
		bool slow = false;
		min_rate_begin(&rate, 100, 1000, 0);
		at[0] = S;
		bytes[0] = 0;
		min_rate_look(&rate, 0, S);
		for (unsigned i = 1; i < LOOKS && !slow; i++) {
			at[i] = at[i - 1] + random_below(&random, 800) * MS;
			bytes[i] = bytes[i - 1] + random_below(&random, 90);
			slow = min_rate_look(&rate, bytes[i], at[i]) == 0;
			bool missed = false;
			for (unsigned from = 0; from < i; from++)
				missed |= at[i] - at[from] >=
					  S + (bytes[i] - bytes[from]) * (S / 100);
			assert_int_equal(slow, missed);
		}
	}
}

UNIT_SUITE(test_min_rate)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(silence_lasts_as_long_as_the_grace),
		cmocka_unit_test(too_slow_stays_so),
		cmocka_unit_test(just_the_rate_goes_on_for_ever),
		cmocka_unit_test(half_the_rate_ends_after_twice_the_grace),
		cmocka_unit_test(haste_buys_no_more_than_the_grace),
		cmocka_unit_test(a_late_look_counts_all_that_came),
		cmocka_unit_test(pauses_cost_nothing),
		cmocka_unit_test(a_count_that_begins_again_pays_nothing),
		cmocka_unit_test(a_day_of_grace_at_any_rate_does_not_overflow),
		cmocka_unit_test(any_stretch_holds_the_promise),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
