/* A reserve beside a node's own use, by a plain account of what was admitted. */
#include "fleet/reserve.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "../random.h"
#include "tests/unit/suite.h"

#define MS      UINT64_C(1000000)
#define BEGIN   (UINT64_C(1800000000) * 1000 * MS)
#define WINDOW  (1000 * MS)
#define QUOTA   20
#define CHARGES 4096
#define SLACK   (3 * 4000) /* three ticks: throttle.h */

static const struct throttle_key caller = {7, 7 << 4};

static struct throttle_table *open_table(uint64_t quota, enum throttle_mode mode)
{
	struct throttle_limit limits[2] = {{.name = "it",
						   .kind = THROTTLE_RING,
						   .quota = quota,
						   .window_ns = WINDOW,
						   .mode = mode},
		{.name = "other", .kind = THROTTLE_RING, .quota = 3, .window_ns = WINDOW}};
	struct throttle_table_options options = {.callers = 100, .now_ns = BEGIN};
	struct throttle_table *table = throttle_table_open(&options, limits, 2, NULL);

	assert_non_null(table);
	return table;
}

/* What was admitted, and when. */
struct admitted {
	uint64_t at_ns[CHARGES], cost[CHARGES];
	size_t count;
};

static uint64_t used_at(const struct admitted *admitted, uint64_t now_ns)
{
	uint64_t used = 0;

	for (size_t i = 0; i < admitted->count; i++)
		used += admitted->at_ns[i] + WINDOW > now_ns ? admitted->cost[i] : 0;
	return used;
}

/* The table may count what ends now for some ticks more. */
static bool is_near_an_end(const struct admitted *admitted, uint64_t now_ns)
{
	for (size_t i = 0; i < admitted->count; i++) {
		uint64_t free_ns = admitted->at_ns[i] + WINDOW;
		if (free_ns <= now_ns && now_ns - free_ns <= SLACK)
			return true;
	}
	return false;
}

/* Until `cost` fits beside the reserve, by that account. */
static uint64_t wait_of(
	const struct admitted *admitted, uint64_t now_ns, uint64_t cost, uint64_t reserve)
{
	for (size_t i = 0; i < admitted->count; i++) {
		uint64_t free_ns = admitted->at_ns[i] + WINDOW;
		if (free_ns > now_ns && used_at(admitted, free_ns) + cost + reserve <= QUOTA)
			return free_ns - now_ns;
	}
	return 0;
}

static void take(struct throttle_table *table, uint64_t cost, struct reserve reserve,
	uint64_t now_ns, struct throttle_verdict *verdict, struct throttle_receipt *receipt)
{
	struct throttle_charge charge = {0, caller, cost};

	reserve_take(table, &charge, &reserve, 1, now_ns, verdict, receipt);
}

static void it_fits_beside_the_reserve_or_not(void **state)
{
	struct random random = random_begin("reserve");
	struct throttle_table *table = open_table(QUOTA, THROTTLE_ENFORCE);
	static struct admitted admitted;
	uint64_t now_ns = BEGIN;

	(void)state;
	admitted.count = 0;
	for (int step = 0; step < 4000 && admitted.count < CHARGES; step++) {
		now_ns += 1 + random_below(&random, 100 * MS);
		if (is_near_an_end(&admitted, now_ns))
			continue;
		uint64_t reserve = random_below(&random, QUOTA + 1);
		uint64_t cost = 1 + random_below(&random, random_below(&random, 10) == 0 ? 22 : 3);
		struct throttle_verdict verdict;
		struct throttle_receipt receipt;
		uint64_t used = used_at(&admitted, now_ns);
		take(table, cost, (struct reserve){reserve, 5, 0}, now_ns, &verdict, &receipt);
		bool fits = used + cost + reserve <= QUOTA;
		assert_int_equal(verdict.admitted, fits);
		const struct throttle_outcome *outcome = &verdict.outcome[0];
		assert_int_equal(outcome->quota, QUOTA);
		uint64_t left = used + reserve < QUOTA ? QUOTA - used - reserve : 0;
		assert_int_equal(outcome->remaining, fits ? left - cost : left);
		if (!fits && cost > QUOTA) {
			assert_true(outcome->retry_after_ns == THROTTLE_NEVER);
		} else if (!fits && cost + reserve > QUOTA) {
			assert_int_equal(outcome->retry_after_ns, 5);
		} else if (!fits) {
			uint64_t wait_ns = wait_of(&admitted, now_ns, cost, reserve);
			assert_true(outcome->retry_after_ns >= wait_ns);
			assert_true(outcome->retry_after_ns <= wait_ns + SLACK);
		} else if (random_below(&random, 4) == 0) {
			throttle_refund_all(table, &receipt, now_ns);
		} else {
			admitted.at_ns[admitted.count] = now_ns;
			admitted.cost[admitted.count++] = cost;
		}
	}
	throttle_table_close(table);
}

static void limits_of_a_request_are_all_or_none(void **state)
{
	struct throttle_table *table = open_table(QUOTA, THROTTLE_ENFORCE);
	struct throttle_charge charges[2] = {{0, caller, 1}, {1, caller, 1}};
	struct reserve reserves[2] = {{QUOTA - 2, 5, 0}, {0, 0, 0}};
	struct throttle_verdict verdict;
	struct throttle_receipt receipt;

	(void)state;
	for (int i = 0; i < 2; i++) {
		reserve_take(table, charges, reserves, 2, BEGIN, &verdict, &receipt);
		assert_true(verdict.admitted);
		assert_int_equal(receipt.count, 2);
		assert_int_equal(verdict.outcome[0].remaining, 1 - i);
	}
	reserve_take(table, charges, reserves, 2, BEGIN, &verdict, &receipt);
	assert_false(verdict.admitted);
	assert_int_equal(receipt.count, 0);
	assert_true(verdict.outcome[0].violated);
	assert_false(verdict.outcome[1].violated);
	assert_int_equal(verdict.outcome[1].remaining, 1); /* nothing of it was taken */
	reserves[0].units = 0;
	reserve_take(table, charges, reserves, 2, BEGIN, &verdict, &receipt);
	assert_true(verdict.admitted);
	reserve_take(table, charges, reserves, 2, BEGIN, &verdict, &receipt);
	assert_false(verdict.admitted);
	assert_true(verdict.outcome[1].violated);
	assert_int_equal(verdict.outcome[0].remaining, QUOTA - 3);
	throttle_table_close(table);
}

static void a_shadow_limit_reports_its_reserve(void **state)
{
	struct throttle_table *table = open_table(QUOTA, THROTTLE_SHADOW);
	struct throttle_verdict verdict;
	struct throttle_receipt receipt;

	(void)state;
	for (int i = 0; i < 4; i++) {
		take(table, 1, (struct reserve){QUOTA - 2, 5, 0}, BEGIN, &verdict, &receipt);
		assert_true(verdict.admitted);
		assert_int_equal(verdict.outcome[0].violated, i >= 2);
	}
	throttle_table_close(table);
}

static void a_cost_of_nothing_asks_whether_anything_is_free(void **state)
{
	struct throttle_table *table = open_table(QUOTA, THROTTLE_ENFORCE);
	struct throttle_verdict verdict;
	struct throttle_receipt receipt;

	(void)state;
	take(table, 0, (struct reserve){QUOTA - 1, 5, 0}, BEGIN, &verdict, &receipt);
	assert_true(verdict.admitted);
	throttle_charge(table, &receipt, 0, 1, BEGIN);
	take(table, 0, (struct reserve){QUOTA - 1, 5, 0}, BEGIN, &verdict, &receipt);
	assert_false(verdict.admitted);
	take(table, 0, (struct reserve){QUOTA, 5, 0}, BEGIN, &verdict, &receipt);
	assert_false(verdict.admitted);
	take(table, 0, (struct reserve){0, 0, 0}, BEGIN, &verdict, &receipt);
	assert_true(verdict.admitted);
	throttle_table_close(table);
}

/* A reload has given the table another quota; this thread does not know it yet. */
static void another_quota_adds_nothing_to_this_nodes_part(void **state)
{
	static const uint64_t quotas[] = {1000, QUOTA + 1, QUOTA, QUOTA - 1, 6, 5};

	(void)state;
	for (size_t i = 0; i < sizeof(quotas) / sizeof(quotas[0]); i++) {
		struct throttle_table *table = open_table(quotas[i], THROTTLE_ENFORCE);
		struct throttle_verdict verdict;
		struct throttle_receipt receipt;
		for (uint64_t left = 5; left > 0; left--) {
			take(table, 1, (struct reserve){QUOTA - 5, 5, QUOTA}, BEGIN, &verdict,
				&receipt);
			assert_true(verdict.admitted);
			assert_int_equal(verdict.outcome[0].remaining, left - 1);
		}
		take(table, 1, (struct reserve){QUOTA - 5, 5, QUOTA}, BEGIN, &verdict, &receipt);
		assert_false(verdict.admitted);
		take(table, 1, (struct reserve){0, 0, 5}, BEGIN, &verdict, &receipt);
		assert_false(verdict.admitted);
		throttle_table_close(table);
	}
}

/* ---- threads --------------------------------------------------------------------------------- */

struct taker {
	struct throttle_table *table;
	unsigned admitted;
};

static void *take_many(void *arg)
{
	struct taker *taker = arg;
	struct throttle_verdict verdict;
	struct throttle_receipt receipt;

	for (int i = 0; i < 20000; i++) {
		take(taker->table, 1, (struct reserve){500, 5, 0}, BEGIN, &verdict, &receipt);
		taker->admitted += verdict.admitted;
	}
	return NULL;
}

static void threads_leave_the_reserve_alone(void **state)
{
	struct throttle_table *table = open_table(1000, THROTTLE_ENFORCE);
	struct taker takers[4];
	pthread_t threads[4];
	unsigned admitted = 0;

	(void)state;
	for (int i = 0; i < 4; i++) {
		takers[i] = (struct taker){table, 0};
		assert_int_equal(pthread_create(&threads[i], NULL, take_many, &takers[i]), 0);
	}
	for (int i = 0; i < 4; i++) {
		pthread_join(threads[i], NULL);
		admitted += takers[i].admitted;
	}
	assert_int_equal(admitted, 500);
	throttle_table_close(table);
}

UNIT_SUITE(test_reserve)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_fits_beside_the_reserve_or_not),
		cmocka_unit_test(limits_of_a_request_are_all_or_none),
		cmocka_unit_test(a_shadow_limit_reports_its_reserve),
		cmocka_unit_test(a_cost_of_nothing_asks_whether_anything_is_free),
		cmocka_unit_test(another_quota_adds_nothing_to_this_nodes_part),
		cmocka_unit_test(threads_leave_the_reserve_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
