/* Counters: names keep their rows, sums are of all workers, the table of metrics fits its slots. */
#include "stats/stats.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/suite.h"

/* Every slot of every scope belongs to exactly one metric. */
static void the_table_covers_each_slot_once(void **state)
{
	(void)state;
	for (unsigned scope = 0; scope < STATS_SCOPES; scope++) {
		unsigned char owners[STATS_ROUTE_SLOTS] = {0};
		for (size_t i = 0; i < stats_metric_count; i++) {
			const struct stats_metric *metric = &stats_metrics[i];
			if (metric->scope != scope)
				continue;
			assert_true(
				metric->slot + stats_metric_slots(metric) <= stats_slots[scope]);
			for (unsigned slot = 0; slot < stats_metric_slots(metric); slot++)
				owners[metric->slot + slot]++;
		}
		for (unsigned slot = 0; slot < stats_slots[scope]; slot++)
			assert_int_equal(owners[slot], 1);
	}
	for (unsigned i = 1; i < STATS_BOUNDS; i++)
		assert_true(stats_bounds_ns[i - 1] < stats_bounds_ns[i]);
}

/* By comparing with each bound, around all bounds and powers of two. */
static unsigned bucket_by_search(uint64_t ns)
{
	unsigned bucket = 0;

	while (bucket < STATS_BOUNDS && ns > stats_bounds_ns[bucket])
		bucket++;
	return bucket;
}

static void a_duration_finds_its_bucket(void **state)
{
	(void)state;
	for (unsigned i = 0; i < STATS_BOUNDS; i++) {
		for (uint64_t ns = stats_bounds_ns[i] - 1; ns <= stats_bounds_ns[i] + 1; ns++)
			assert_int_equal(stats_bucket(ns), bucket_by_search(ns));
		assert_int_equal(stats_bucket(stats_bounds_ns[i]), i);
		assert_int_equal(stats_bucket(stats_bounds_ns[i] + 1), i + 1);
	}
	for (unsigned power = 0; power < 64; power++) {
		uint64_t ns = UINT64_C(1) << power;
		assert_int_equal(stats_bucket(ns), bucket_by_search(ns));
		assert_int_equal(stats_bucket(ns - 1), bucket_by_search(ns - 1));
	}
	assert_int_equal(stats_bucket(UINT64_MAX), STATS_BOUNDS);
}

static void a_name_keeps_its_row(void **state)
{
	struct stats *stats = stats_new(2);

	(void)state;
	assert_non_null(stats);
	assert_int_equal(stats_row_count(stats, STATS_ROUTE), 1);
	assert_string_equal(stats_row_name(stats, STATS_ROUTE, 0), STATS_OTHER);
	assert_int_equal(stats_register(stats, STATS_ROUTE, "api"), 1);
	assert_int_equal(stats_register(stats, STATS_LIMIT, "api"), 1);
	assert_int_equal(stats_register(stats, STATS_ROUTE, "www"), 2);
	assert_int_equal(stats_register(stats, STATS_ROUTE, "api"), 1);
	assert_int_equal(stats_register(stats, STATS_ROUTE, STATS_OTHER), 0);
	assert_int_equal(stats_row_count(stats, STATS_ROUTE), 3);
	stats_free(stats);
}

/* Names beyond the last row share row 0. */
static void rows_are_bounded(void **state)
{
	struct stats *stats = stats_new(1);
	char name[16];

	(void)state;
	/* Looking a name up compares it with all before it: a few chunks by registering ... */
	for (unsigned i = 1; i < 3 * STATS_CHUNK_ROWS; i++) {
		snprintf(name, sizeof(name), "n%u", i);
		assert_int_equal(stats_register(stats, STATS_PLAN, name), i);
		stats_add(stats_row(stats_block(stats, 0), STATS_PLAN, i), i);
	}
	uint64_t slots[STATS_PLAN_SLOTS];
	stats_sum(stats, STATS_PLAN, 2 * STATS_CHUNK_ROWS + 5, slots);
	assert_int_equal(slots[0], 2 * STATS_CHUNK_ROWS + 5);
	/* ... and all of them. */
	for (unsigned i = 3 * STATS_CHUNK_ROWS; i < STATS_ROWS; i++) {
		snprintf(name, sizeof(name), "n%u", i);
		assert_int_equal(stats_register(stats, STATS_PLAN, name), i);
	}
	assert_int_equal(stats_register(stats, STATS_PLAN, "one too many"), 0);
	assert_int_equal(stats_register(stats, STATS_PLAN, "n7"), 7);
	stats_free(stats);
}

static void a_duration_falls_into_its_bucket(void **state)
{
	struct stats *stats = stats_new(1);
	_Atomic uint64_t *row = stats_row(stats_block(stats, 0), STATS_ROUTE, 0);
	uint64_t slots[STATS_ROUTE_SLOTS];

	(void)state;
	for (unsigned i = 0; i < STATS_BOUNDS; i++) {
		stats_observe(&row[STATS_QUEUE_WAIT], stats_bounds_ns[i]);
		stats_observe(&row[STATS_QUEUE_WAIT], stats_bounds_ns[i] + 1);
	}
	stats_observe(&row[STATS_QUEUE_WAIT], 0);
	stats_sum(stats, STATS_ROUTE, 0, slots);
	uint64_t sum = STATS_BOUNDS;
	for (unsigned i = 0; i < STATS_BOUNDS; i++) {
		assert_int_equal(slots[STATS_QUEUE_WAIT + i], 2);
		sum += 2 * stats_bounds_ns[i];
	}
	assert_int_equal(slots[STATS_QUEUE_WAIT + STATS_BOUNDS], 1);
	assert_int_equal(slots[STATS_QUEUE_WAIT + STATS_BOUNDS + 1], sum);
	assert_int_equal(slots[STATS_REQUEST_DURATION], 0);
	stats_free(stats);
}

#define WORKERS 3
#define ADDS    100000

static void *add_many(void *arg)
{
	_Atomic uint64_t *row = stats_row(arg, STATS_LIMIT, 1);

	for (unsigned i = 0; i < ADDS; i++)
		stats_add(&row[STATS_LIMIT_REFUSED], 1);
	return NULL;
}

/* Workers count while another thread registers and sums: sums only grow, and end exact. */
static void sums_are_of_all_workers(void **state)
{
	struct stats *stats = stats_new(WORKERS);
	pthread_t threads[WORKERS];
	uint64_t slots[STATS_LIMIT_SLOTS], last = 0;

	(void)state;
	assert_int_equal(stats_register(stats, STATS_LIMIT, "burst"), 1);
	for (unsigned i = 0; i < WORKERS; i++)
		pthread_create(&threads[i], NULL, add_many, stats_block(stats, i));
	for (unsigned i = 0; i < 200; i++) {
		char name[16];
		snprintf(name, sizeof(name), "limit%u", i);
		assert_int_equal(stats_register(stats, STATS_LIMIT, name), i + 2);
		stats_sum(stats, STATS_LIMIT, 1, slots);
		assert_true(slots[STATS_LIMIT_REFUSED] >= last);
		last = slots[STATS_LIMIT_REFUSED];
	}
	for (unsigned i = 0; i < WORKERS; i++)
		pthread_join(threads[i], NULL);
	stats_sum(stats, STATS_LIMIT, 1, slots);
	assert_int_equal(slots[STATS_LIMIT_REFUSED], WORKERS * ADDS);
	assert_int_equal(slots[STATS_LIMIT_ADMITTED], 0);
	stats_free(stats);
}

UNIT_SUITE(test_stats)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_table_covers_each_slot_once),
		cmocka_unit_test(a_duration_finds_its_bucket),
		cmocka_unit_test(a_name_keeps_its_row),
		cmocka_unit_test(rows_are_bounded),
		cmocka_unit_test(a_duration_falls_into_its_bucket),
		cmocka_unit_test(sums_are_of_all_workers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
