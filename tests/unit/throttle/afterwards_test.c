/* What comes after a verdict, by the numbers: refunds, true costs, resets; and pacing's burst. */
#include "fixture.h"
#include "tests/unit/suite.h"

#define DAY (86400 * SECOND)

static uint64_t used(struct throttle_table *t, uint64_t now)
{
	struct throttle_outcome o;

	throttle_explain(t, 0, key_of(t, 1), now, &o);
	return o.quota - o.remaining;
}

/* A reset is one: no charge of its own, nothing that comes back, nothing that is subtracted later.
 */
static void test_reset(void **state)
{
	struct throttle_limit limits[] = {ring("short", 10, 10 * SECOND),
		ring("divided", 100, 10 * SECOND), ring("exact", 100, 10 * SECOND),
		ring("paced", 10, 10 * SECOND), ring("day", 10, 10 * SECOND)};

	(void)state;
	limits[2].slots = THROTTLE_EXACT;
	limits[3].kind = THROTTLE_GCRA;
	limits[3].burst = 10;
	limits[4].kind = THROTTLE_CALENDAR;
	limits[4].period = THROTTLE_DAY;
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		struct throttle_table *t = open_table(NULL, 1, &limits[i], 1);
		uint64_t now = START, since = 0, quota = limits[i].quota;

		for (uint64_t n = 0; n < quota; n++)
			assert_true(take_one(t, 1, 1, now += 9 * SECOND / quota, NULL) || i == 3);
		assert_true(throttle_reset(t, 0, key_of(t, 1), now));
		for (int again = 0; again < 20; again++)
			throttle_reset(t, 0, key_of(t, 1), now);
		assert_int_equal(used(t, now), 0);
		for (uint64_t end = now + 9 * SECOND; now < end; now += 100 * MS)
			since += take_until_refused(t, 1, now);
		if (i == 3)
			assert_in_range(since, quota, quota + 9);
		else
			assert_int_equal(since, quota);
		throttle_table_close(t);
	}
}

static void burst_of(uint64_t quota, uint64_t window, uint64_t burst, uint64_t least)
{
	struct throttle_limit limit = ring("paced", quota, window);
	struct throttle_table *t;

	limit.kind = THROTTLE_GCRA;
	limit.burst = burst;
	t = open_table(NULL, 1, &limit, 1);
	assert_in_range(take_until_refused(t, 1, START), least, burst);
	assert_false(take_one(t, 2, burst + 1, START, NULL));
	assert_true(take_one(t, 2, burst, START, NULL));
	assert_false(take_one(t, 2, 1, START, NULL));
	throttle_table_close(t);
}

/* At once, in one piece or in many: the burst, no less and no more. */
static void test_burst(void **state)
{
	(void)state;
	burst_of(1000000, SECOND, 1000000, 1000000);
	burst_of(10, SECOND, 3, 3);
	burst_of(7, SECOND, 7, 7);
	burst_of(999983, SECOND, 999983, 999983);
	burst_of(3, SECOND, 1000000, 1000000);
	burst_of(3000000, SECOND, 2000000, 1990000);
}

/* Nothing in it: refused. */
static struct throttle_receipt take(struct throttle_table *t, uint64_t cost, uint64_t now)
{
	struct throttle_charge charge = {.caller = key_of(t, 1), .cost = cost};
	struct throttle_receipt receipt;
	struct throttle_verdict v;

	throttle_take(t, &charge, 1, now, &v, &receipt);
	return receipt;
}

/* The true cost may be told more than once, and all of it is given back: of pacing, what can't have
 * drained by any thread's clock. */
static void test_settle_again(void **state)
{
	struct throttle_limit limits[] = {ring("short", 20, 10 * SECOND),
		ring("divided", 1000, 10 * SECOND), ring("exact", 100, 10 * SECOND),
		ring("paced", 20, 10 * SECOND), ring("day", 20, 10 * SECOND)};

	(void)state;
	limits[2].slots = THROTTLE_EXACT;
	limits[3].kind = THROTTLE_GCRA;
	limits[3].burst = 20;
	limits[4].kind = THROTTLE_CALENDAR;
	limits[4].period = THROTTLE_DAY;
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		static const uint64_t costs[] = {8, 8, 12, 3, 3, 9, 0, 7, 15, 4};
		struct throttle_table *t = open_table(NULL, 1, &limits[i], 1);
		uint64_t now = START;
		struct throttle_receipt receipt = take(t, 4, now);

		assert_int_equal(receipt.count, 1);
		for (size_t n = 0; n < sizeof(costs) / sizeof(costs[0]); n++) {
			throttle_settle(t, &receipt, 0, costs[n], now += MS);
			assert_in_range(used(t, now), costs[n], costs[n] + (i == 3));
		}
		throttle_settle(t, &receipt, 0, 11, now += MS);
		throttle_refund_all(t, &receipt, now += MS);
		assert_in_range(used(t, now), 0, i == 3);
		throttle_table_close(t);
	}
}

#define PACED 60

struct paced {
	struct throttle_receipt receipt;
	uint64_t at;
};

/* What was taken and not given back, in any time: the burst and what drains in it. */
static void check_paced(const struct paced *charges, unsigned count, uint64_t burst)
{
	for (unsigned first = 0; first < count; first++) {
		uint64_t sum = 0;

		for (unsigned i = first; i < count; i++) {
			uint64_t span = charges[i].at - charges[first].at;

			sum += charges[i].receipt.count > 0 ? charges[i].receipt.held[0].cost : 0;
			assert_true(sum * SECOND <= burst * SECOND + span);
		}
	}
}

/* Pacing forgives nothing, in whatever order and how partly refunds come: also where a later charge
 * comes to the same time as one before it. */
static void test_paced_refunds(void **state)
{
	struct throttle_limit limit = ring("paced", 10, 10 * SECOND);
	uint64_t random = random_seed("paced refunds");
	static struct paced charges[PACED];

	(void)state;
	limit.kind = THROTTLE_GCRA;
	limit.burst = 4;
	for (uint64_t round = 0; round < steps_or(3000); round++) {
		struct throttle_table *t = open_table(NULL, 1, &limit, 1);
		uint64_t now = START;
		unsigned count = 0;

		while (count < PACED) {
			struct paced *any = &charges[random_below(&random, count + 1)];

			now += random_below(&random, 3) == 0 ? random_below(&random, SECOND) : 0;
			now += random_below(&random, 9) == 0 ? SECOND : 0;
			charges[count].receipt = take(t, 1 + random_below(&random, 2), now);
			charges[count++].at = now;
			if (any->receipt.count == 0 || any == &charges[count - 1])
				continue;
			if (random_below(&random, 3) == 0)
				throttle_settle(t, &any->receipt, 0, 1, now);
			else if (random_below(&random, 2) == 0)
				throttle_refund(t, &any->receipt, 0, now);
		}
		check_paced(charges, count, limit.burst);
		throttle_table_close(t);
	}
}

/* An outage of a paced limit's server: many are on their way at a time, all are given back. */
static void test_paced_outage(void **state)
{
	struct throttle_limit limit = ring("paced", 10, 10 * SECOND);
	struct throttle_receipt on_way[3];
	struct throttle_table *t;
	uint64_t now = START;

	(void)state;
	limit.kind = THROTTLE_GCRA;
	limit.burst = 10;
	t = open_table(NULL, 1, &limit, 1);
	memset(on_way, 0, sizeof(on_way));
	for (unsigned i = 0; i < 10000; i++) {
		throttle_refund_all(t, &on_way[i % 3], now += MS);
		on_way[i % 3] = take(t, 1, now += MS);
		assert_int_equal(on_way[i % 3].count, 1);
	}
	throttle_table_close(t);
}

/* An outage: all is given back, for hours. It leaves no trace: what is charged afterwards counts as
 * of then, and what was before it leaves the window when it should. */
static void test_refunds_leave_time(void **state)
{
	static const struct {
		uint64_t quota, window, rest;
	} rings[] = {{20, 30 * DAY, 100 * MS}, {20, DAY, 5 * MS}, {31, 3600 * SECOND, MS},
		{3, 10 * SECOND, MS / 10}};

	(void)state;
	for (size_t i = 0; i < sizeof(rings) / sizeof(rings[0]); i++) {
		struct throttle_limit limit = ring("r", rings[i].quota, rings[i].window);
		struct throttle_table *t;
		uint64_t now = START;
		struct throttle_outcome o;

		limit.slots = THROTTLE_EXACT;
		t = open_table(NULL, 1, &limit, 1);
		assert_true(take_one(t, 1, 1, now, NULL));
		for (int n = 0; n < 40000; n++) {
			struct throttle_receipt receipt = take(t, 1, now += rings[i].rest);

			assert_int_equal(receipt.count, 1);
			throttle_refund_all(t, &receipt, now);
		}
		now += SECOND;
		assert_int_equal(used(t, now), now < START + rings[i].window);
		assert_true(take_one(t, 1, 1, now, &o));
		assert_true(o.at_ns <= now);
		assert_int_equal(used(t, START + limit.window_ns + limit.window_ns / 10000), 1);
		throttle_table_close(t);
	}
}

/* The same where many are on their way at a time, and come back in any order. */
static void test_refunds_in_any_order(void **state)
{
	static const struct {
		uint64_t quota, window;
	} rings[] = {{20, 30 * DAY}, {4000, DAY}, {40, DAY}, {7, 3600 * SECOND}};
	uint64_t random = random_seed("refunds in any order");
	struct throttle_receipt on_way[6];

	(void)state;
	for (size_t i = 0; i < sizeof(rings) / sizeof(rings[0]); i++) {
		struct throttle_limit limit = ring("r", rings[i].quota, rings[i].window);
		struct throttle_table *t;
		struct throttle_outcome o;
		uint64_t now = START;

		limit.slots = THROTTLE_EXACT;
		t = open_table(NULL, 1, &limit, 1);
		memset(on_way, 0, sizeof(on_way));
		assert_true(take_one(t, 1, 1, now, NULL));
		for (uint64_t n = 0; n < steps_or(100000); n++) {
			struct throttle_receipt *any = &on_way[random_below(&random, 6)];

			now += random_below(&random, 2 * MS);
			throttle_refund_all(t, any, now);
			*any = take(t, 1, now);
			assert_int_equal(any->count, 1);
		}
		for (int n = 0; n < 6; n++)
			throttle_refund_all(t, &on_way[n], now);
		assert_int_equal(used(t, now), 1);
		assert_true(take_one(t, 1, 1, now, &o));
		assert_true(o.at_ns <= now + limit.window_ns / 65536);
		assert_int_equal(used(t, START + limit.window_ns + 60 * SECOND), 1);
		throttle_table_close(t);
	}
}

/* However many: refunds continue working, also in rings whose time runs ahead by them. */
static void test_refunds_go_on(void **state)
{
	static const uint64_t quotas[] = {1, 20, 32, 4095};

	(void)state;
	for (size_t i = 0; i < sizeof(quotas) / sizeof(quotas[0]); i++) {
		struct throttle_limit limit = ring("r", quotas[i], 30 * DAY);
		struct throttle_table *t;
		uint64_t now = START;

		limit.slots = THROTTLE_EXACT;
		t = open_table(NULL, 1, &limit, 1);
		for (int n = 0; n < 20000; n++) {
			struct throttle_receipt receipt = take(t, 1, now += 1000);

			assert_int_equal(receipt.count, 1);
			throttle_refund_all(t, &receipt, now);
		}
		assert_int_equal(used(t, now), 0);
		assert_int_equal(take_until_refused(t, 1, now), quotas[i]);
		throttle_table_close(t);
	}
}

/* What is left of an addition counts from when that was made, however often the true cost is less.
 */
static void test_settled_down(void **state)
{
	struct throttle_limit limit = ring("r", 100, 60 * SECOND);
	struct throttle_receipt receipt;
	struct throttle_table *t;

	(void)state;
	t = open_table(NULL, 1, &limit, 1);
	receipt = take(t, 1, START);
	throttle_settle(t, &receipt, 0, 10, START + SECOND);
	assert_int_equal(used(t, START + 30 * SECOND), 10);
	throttle_settle(t, &receipt, 0, 5, START + 30 * SECOND);
	assert_int_equal(used(t, START + 30 * SECOND), 5);
	assert_int_equal(used(t, START + 75 * SECOND), 0);
	throttle_table_close(t);
}

/* What was charged in an earlier period of the calendar is not taken from the count of this one. */
static void test_refund_of_an_earlier_period(void **state)
{
	struct throttle_limit limit = ring("day", 3, 0);
	struct throttle_receipt receipt;
	struct throttle_table *t;

	(void)state;
	limit.kind = THROTTLE_CALENDAR;
	limit.period = THROTTLE_DAY;
	t = open_table(NULL, 1, &limit, 1);
	receipt = take(t, 1, START);
	assert_int_equal(receipt.count, 1);
	assert_int_equal(take_until_refused(t, 1, START + DAY), 3);
	throttle_refund_all(t, &receipt, START + DAY);
	assert_int_equal(take_until_refused(t, 1, START + DAY), 0);
	throttle_table_close(t);
}

/* Of all limits that count requests in flight, also where several are charged. */
static void test_release_of_several(void **state)
{
	struct throttle_limit limits[3] = {ring("a", 1, 0), ring("b", 1, 0), ring("c", 1, 0)};
	struct throttle_charge charges[3];
	struct throttle_receipt receipt;
	struct throttle_verdict verdict;
	struct throttle_table *t;

	(void)state;
	for (uint32_t i = 0; i < 3; i++)
		limits[i].kind = THROTTLE_CONCURRENCY;
	t = open_table(NULL, 1, limits, 3);
	for (uint32_t i = 0; i < 3; i++)
		charges[i] = (struct throttle_charge){i, key_of(t, 1), 1};
	for (int n = 0; n < 3; n++) {
		throttle_take(t, charges, 3, START, &verdict, &receipt);
		assert_true(verdict.admitted);
		throttle_release(t, &receipt, START);
	}
	throttle_table_close(t);
}

/* One caller by one limit twice: the second charge finds another head than it was judged by. */
static void test_same_limit_twice(void **state)
{
	struct throttle_limit limit = ring("r", 10, 60 * SECOND);
	struct throttle_charge charges[2];
	struct throttle_verdict verdict;
	struct throttle_table *t = open_table(NULL, 1, &limit, 1);

	(void)state;
	charges[0] = charges[1] = (struct throttle_charge){.caller = key_of(t, 1), .cost = 1};
	for (uint64_t n = 1; n <= 5; n++) {
		throttle_take(t, charges, 2, START, &verdict, NULL);
		assert_true(verdict.admitted);
		assert_int_equal(used(t, START), 2 * n);
	}
	throttle_table_close(t);
}

UNIT_SUITE(afterwards_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reset),
		cmocka_unit_test(test_burst),
		cmocka_unit_test(test_settle_again),
		cmocka_unit_test(test_paced_refunds),
		cmocka_unit_test(test_paced_outage),
		cmocka_unit_test(test_refunds_leave_time),
		cmocka_unit_test(test_refunds_in_any_order),
		cmocka_unit_test(test_refunds_go_on),
		cmocka_unit_test(test_settled_down),
		cmocka_unit_test(test_refund_of_an_earlier_period),
		cmocka_unit_test(test_release_of_several),
		cmocka_unit_test(test_same_limit_twice),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
