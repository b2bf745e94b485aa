/*
 * The quick ways to a verdict (quick.c, ring_short.h, window.h) say what the general one says
 * (take.c), to the nanosecond: throttle_peek is asked before each take, which always goes that way.
 */
#include "fixture.h"
#include "tests/unit/suite.h"

#define LIMITS 7

/* None so large that closing a quantum rounds what is in it up to a grain: a look closes nothing.
 */
static const uint64_t quotas[LIMITS] = {1, 5, 20, 31, 29, 1000, 3000000};

static void assert_same(const struct throttle_verdict *a, const struct throttle_verdict *b)
{
	assert_int_equal(a->admitted, b->admitted);
	assert_int_equal(a->delay, b->delay);
	assert_int_equal(a->count, b->count);
	assert_int_equal(a->violated, b->violated);
	assert_int_equal(a->shadowed, b->shadowed);
	assert_int_equal(a->retry_after_ns, b->retry_after_ns);
	for (uint32_t i = 0; i < a->count; i++) {
		const struct throttle_outcome *x = &a->outcome[i], *y = &b->outcome[i];

		assert_int_equal(x->quota, y->quota);
		assert_int_equal(x->violated, y->violated);
		assert_int_equal(x->remaining, y->remaining);
		assert_int_equal(x->more_ns, y->more_ns);
		assert_int_equal(x->reset_ns, y->reset_ns);
		assert_int_equal(x->retry_after_ns, y->retry_after_ns);
		assert_false(x->shadow || x->banned || x->overflow || x->absent);
		assert_false(y->shadow || y->banned || y->overflow || y->absent);
	}
}

/* Mostly bursts within a tick or a quantum; sometimes on by some of a window, or far beyond it; and
 * sometimes a little back, as another thread's clock is. */
static uint64_t next_time(uint64_t *random, uint64_t now, uint64_t window)
{
	switch (random_below(random, 16)) {
	case 0:
		return now + random_below(random, window);
	case 1:
		return now + window / 28 + random_below(random, 3);
	case 2:
		return random_below(random, 30) == 0 ? now + random_below(random, 300 * window)
						     : now + window;
	case 3:
		return now - random_below(random, 10000);
	case 4:
	case 5:
	case 6:
		return now + random_below(random, window / 20 + 1);
	default:
		return now + random_below(random, 5000);
	}
}

static void one_history(uint64_t *random)
{
	/* The last is longer than a new table's time. */
	const uint64_t windows[] = {5 * MS, 3500 * MS, 140 * SECOND};
	const uint64_t window = windows[random_below(random, 3)];
	struct throttle_limit limits[LIMITS] = {0};
	struct throttle_charge charges[LIMITS];
	struct throttle_verdict before, verdict;
	struct throttle_receipt receipt;
	struct throttle_table *table;
	uint64_t now = START, admitted = 0, refused = 0;

	for (uint32_t i = 0; i < LIMITS; i++) {
		char name[8];

		snprintf(name, sizeof(name), "%u", i);
		limits[i] = ring(name, quotas[i], window);
	}
	table = open_table(NULL, 100, limits, LIMITS);
	/* Both callers are to be there for each limit: of one that isn't, peek says less. */
	for (uint32_t i = 0; i < 2 * LIMITS; i++) {
		charges[0] = (struct throttle_charge){
			.limit = i / 2, .caller = key_of(table, i % 2), .cost = 1};
		throttle_take(table, charges, 1, now, &verdict, NULL);
		assert_true(verdict.admitted);
	}
	for (int step = 0; step < 4000; step++) {
		size_t count = 1 + random_below(random, 2) * random_below(random, 4);
		uint32_t first = (uint32_t)random_below(random, LIMITS);

		for (size_t i = 0; i < count; i++)
			charges[i] = (struct throttle_charge){
				.limit = (first + (uint32_t)i * 3) % LIMITS,
				.caller = key_of(table, random_below(random, 2)),
				.cost = random_below(random, 12) == 0 ? random_below(random, 40)
								      : 1,
			};
		now = next_time(random, now, window);
		assert_int_equal(throttle_peek(table, charges, count, now, &before), 0);
		assert_int_equal(throttle_take(table, charges, count, now, &verdict, &receipt), 0);
		assert_int_equal(receipt.count, verdict.admitted ? count : 0);
		assert_same(&before, &verdict);
		admitted += verdict.admitted;
		refused += !verdict.admitted;
		for (uint32_t i = 0; i < receipt.count; i++) {
			assert_int_equal(receipt.held[i].at_ns, verdict.outcome[i].at_ns);
			assert_int_equal(receipt.held[i].limit, charges[i].limit);
			assert_int_equal(receipt.held[i].cost, charges[i].cost);
		}
		if (random_below(random, 20) == 0)
			throttle_refund_all(table, &receipt, now);
	}
	assert_true(admitted > 200 && refused > 200);
	throttle_table_close(table);
}

static void test_same_as_the_general_way(void **state)
{
	uint64_t random = random_seed("quick");

	(void)state;
	for (uint64_t steps = steps_or(200000); steps > 0; steps -= steps < 4000 ? steps : 4000)
		one_history(&random);
}

#define MANY 4000 /* more than there are places for in the smallest table */

/* A caller that is in another's first place, or found another in its own, is charged for itself
 * alone; one without any place gets that answer. */
static void test_each_its_own(void **state)
{
	uint64_t random = random_seed("own"), own = 0, overflowed = 0;
	struct throttle_limit limits[2] = {
		ring("short", 31, SECOND), ring("divided", 1000, SECOND)};
	struct throttle_table *table;
	struct throttle_verdict verdict;
	static uint64_t taken[MANY];

	(void)state;
	limits[0].slots = THROTTLE_EXACT;
	table = open_table(NULL, 1, limits, 2);
	memset(taken, 0, sizeof(taken));
	for (unsigned n = 0; n < 6 * MANY; n++) {
		uint64_t caller = random_below(&random, MANY), now = START + n * 30000;
		struct throttle_charge charges[2] = {
			{.limit = 0, .caller = key_of(table, caller), .cost = 1},
			{.limit = 1, .caller = key_of(table, caller), .cost = 1},
		};

		/* Both at once, or one after the other. */
		if (n % 2 == 0) {
			throttle_take(table, charges, 2, now, &verdict, NULL);
		} else {
			throttle_take(table, &charges[1], 1, now, &verdict, NULL);
			throttle_take(table, &charges[0], 1, now, &verdict, NULL);
		}
		if (verdict.outcome[0].overflow) {
			assert_int_equal(taken[caller], 0); /* nobody's place is taken away */
			overflowed++;
			continue;
		}
		own += taken[caller]++ > 0;
		assert_int_equal(verdict.outcome[0].remaining, 31 - taken[caller]);
		throttle_peek(table, charges, 2, now, &verdict);
		assert_int_equal(verdict.outcome[0].remaining, 30 - taken[caller]);
		assert_int_equal(verdict.outcome[1].remaining, 999 - taken[caller]);
	}
	assert_true(own > MANY && overflowed > 100);
	throttle_table_close(table);
}

static void test_no_charges(void **state)
{
	struct throttle_limit limit = ring("five", 5, SECOND);
	struct throttle_table *table = open_table(NULL, 100, &limit, 1);
	struct throttle_verdict verdict = {.count = 7, .violated = 7};
	struct throttle_receipt receipt = {.count = 7};

	(void)state;
	assert_int_equal(throttle_take(table, NULL, 0, START, &verdict, &receipt), 0);
	assert_true(verdict.admitted);
	assert_int_equal(verdict.count + verdict.violated + receipt.count, 0);
	throttle_table_close(table);
}

/* Keys whose part that is kept in the table would be 0, which there means nobody. */
static void test_keys_of_nobody(void **state)
{
	const uint64_t keys[] = {0, UINT64_C(1) << 56, UINT64_C(0xc8) << 56};
	struct throttle_limit limit = ring("five", 5, SECOND);
	struct throttle_table *table = open_table(NULL, 100, &limit, 1);
	struct throttle_verdict verdict;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		struct throttle_charge charge = {.caller = {.lo = keys[i]}, .cost = 1};

		for (unsigned n = 0; n < 12; n++) {
			uint64_t now = START + i * 10 * SECOND + n * 100 * MS;

			throttle_take(table, &charge, 1, now, &verdict, NULL);
			/* Five, then none until the first has left the window. */
			assert_int_equal(verdict.admitted, n < 5 || n > 10);
		}
	}
	throttle_table_close(table);
}

UNIT_SUITE(quick_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_each_its_own),
		cmocka_unit_test(test_no_charges),
		cmocka_unit_test(test_keys_of_nobody),
		cmocka_unit_test(test_same_as_the_general_way),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
