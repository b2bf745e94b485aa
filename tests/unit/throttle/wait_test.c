/* The wait for the n-th of many, compared with that of n that try again and again. */
#include "fixture.h"
#include "tests/unit/suite.h"

#define MINUTE (60 * SECOND)

/* Tries until it is admitted. Returns the time. */
static uint64_t take_next(struct throttle_table *t, uint64_t now)
{
	struct throttle_outcome o;

	while (!take_one(t, 1, 1, now, &o)) {
		assert_true(o.retry_after_ns > 0 && o.retry_after_ns != THROTTLE_NEVER);
		now += o.retry_after_ns;
	}
	return now;
}

/* `round_ns`: what a round of the quota may take longer than the window. */
static void compare(struct throttle_limit limit, uint64_t round_ns, uint64_t *random)
{
	uint64_t burst = limit.kind == THROTTLE_GCRA ? limit.burst : limit.quota;
	unsigned count = (unsigned)(3 * burst + 2);
	struct throttle_table *t = open_table(NULL, 1, &limit, 1);
	uint64_t now = START, waits[64];

	assert_true(count <= 64);
	for (unsigned n = (unsigned)random_below(random, 2 * burst + 1); n > 0; n--) {
		now += random_below(random, limit.window_ns / burst);
		take_one(t, 1, 1, now, NULL);
	}
	for (unsigned n = 1; n <= count; n++)
		waits[n - 1] = throttle_wait(t, 0, key_of(t, 1), n, now);
	uint64_t at = now;
	for (unsigned n = 1; n <= count; n++) {
		at = take_next(t, at);
		assert_true(now + waits[n - 1] <= at);
		assert_true(at - now - waits[n - 1] <= (1 + (n - 1) / burst) * round_ns);
	}
	throttle_table_close(t);
}

static void test_the_nth_waits_as_long_as_it_takes(void **state)
{
	uint64_t random = random_seed("waits");

	(void)state;
	for (unsigned n = 0; n < 300; n++) {
		uint64_t quota = 1 + random_below(&random, 20);
		struct throttle_limit limit =
			ring("l", quota, SECOND + random_below(&random, MINUTE));
		compare(limit, 32768, &random);
		limit.slots = 1 + (uint32_t)random_below(&random, 8); /* quanta, of fewer slots */
		if (limit.slots < quota)
			compare(limit, 2 * limit.window_ns / limit.slots, &random);
		limit.slots = 0;
		limit.kind = THROTTLE_GCRA;
		limit.burst = 1 + random_below(&random, quota);
		compare(limit, 2 * limit.burst, &random);
	}
}

static void test_the_nth_waits_for_periods_of_the_calendar(void **state)
{
	struct throttle_limit limit = ring("l", 3, 0);
	uint64_t random = random_seed("calendar");

	(void)state;
	limit.kind = THROTTLE_CALENDAR;
	snprintf(limit.zone, sizeof(limit.zone), "Europe/Berlin");
	for (unsigned n = 0; n < 40; n++) {
		limit.period = (enum throttle_period)random_below(&random, 4);
		limit.window_ns = 40 * MINUTE; /* between the first ones */
		compare(limit, 0, &random);
	}
}

static void test_what_never_fits(void **state)
{
	struct throttle_limit limit = {.name = "c", .kind = THROTTLE_CONCURRENCY, .quota = 2};
	struct throttle_table *t = open_table(NULL, 1, &limit, 1);

	(void)state;
	assert_true(throttle_wait(t, 0, key_of(t, 1), 2, START) == 0);
	assert_true(throttle_wait(t, 0, key_of(t, 1), 3, START) == THROTTLE_NEVER);
	assert_true(throttle_wait(t, 9, key_of(t, 1), 3, START) == 0); /* no such limit */
	throttle_table_close(t);
}

UNIT_SUITE(wait_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_nth_waits_as_long_as_it_takes),
		cmocka_unit_test(test_the_nth_waits_for_periods_of_the_calendar),
		cmocka_unit_test(test_what_never_fits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
