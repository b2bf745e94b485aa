/*
 * Tables that grow: each caller has a throttle of its own whenever it comes, what was counted
 * continues over growth, reload and reopening, memory follows the callers, and a growth that finds
 * no room changes nothing.
 */
#include "fixture.h"

#include <errno.h>
#include <sys/resource.h>
#include <unistd.h>

#include "tests/unit/suite.h"

#define HOUR    (3600 * SECOND)
#define ROOM    200000
#define CALLERS 40000

static struct throttle_table *open_growing(
	const char *folder, const struct throttle_limit *limits, size_t count)
{
	/* Always the same callers in the same buckets. */
	static const struct throttle_seed seed = {1, 2};
	struct throttle_table_options options = {
		.folder = folder, .callers = ROOM, .now_ns = START, .grows = true, .seed = &seed};
	struct throttle_report report;
	struct throttle_table *t = throttle_table_open(&options, limits, count, &report);

	assert_non_null(t);
	return t;
}

static void grow_if_wanted(struct throttle_table *t)
{
	if (!throttle_table_wants_growth(t))
		return;
	assert_int_equal(throttle_table_grow(t), 0);
	throttle_table_collect(t);
}

static void come(struct throttle_table *t, uint64_t from, uint64_t to)
{
	for (uint64_t caller = from; caller < to; caller++) {
		assert_true(take_one(t, caller, 1, START, NULL));
		grow_if_wanted(t);
	}
}

static void expect_all_counted(struct throttle_table *t, uint64_t callers)
{
	struct throttle_counters counters;

	for (uint64_t caller = 0; caller < callers; caller++)
		assert_false(take_one(t, caller, 2, START, NULL));
	throttle_table_counters(t, 0, &counters);
	/* By bad luck a bucket is full a moment before the next level is ready. */
	assert_true(counters.overflowed <= callers / 5000 * 2);
	assert_in_range(counters.entries, callers - counters.overflowed, callers);
}

/* Nearly nobody shares an overflow below the capacity, and what is reserved follows the callers. */
static void test_callers_come(void **state)
{
	struct throttle_limit limit = ring("x", 2, HOUR);
	struct throttle_table *t = open_growing(NULL, &limit, 1);
	struct throttle_counters counters;
	uint64_t before;

	(void)state;
	throttle_table_counters(t, 0, &counters);
	before = counters.bytes;
	for (uint64_t callers = 0; callers < CALLERS; callers += CALLERS / 8) {
		come(t, callers, callers + CALLERS / 8);
		expect_all_counted(t, callers + CALLERS / 8);
		throttle_table_counters(t, 0, &counters);
		if (callers == 0)
			assert_true(counters.bytes < ROOM * throttle_limit_bytes(&limit) / 2);
	}
	assert_true(counters.bytes > before);
	throttle_table_close(t);
}

/* With receipts and in flight: what was taken before growth is given back after it. */
static void test_receipts(void **state)
{
	static struct throttle_receipt receipts[CALLERS];
	struct throttle_limit limits[2] = {
		ring("x", 2, HOUR), {.name = "c", .kind = THROTTLE_CONCURRENCY, .quota = 2}};
	struct throttle_table *t = open_growing(NULL, limits, 2);
	struct throttle_verdict verdict;

	(void)state;
	for (uint64_t caller = 0; caller < CALLERS; caller++) {
		struct throttle_charge charges[2] = {
			{.limit = 0, .cost = 2}, {.limit = 1, .cost = 2}};

		charges[0].caller = charges[1].caller = key_of(t, caller);
		throttle_take(t, charges, 2, START, &verdict, &receipts[caller]);
		assert_true(verdict.admitted);
		grow_if_wanted(t);
	}
	for (uint64_t caller = 0; caller < CALLERS; caller++)
		throttle_refund_all(t, &receipts[caller], START);
	for (uint64_t caller = 0; caller < CALLERS; caller++)
		assert_true(take_one(t, caller, 2, START, NULL));
	throttle_table_close(t);
}

/* Over other limits, also in the middle of a level, and over an opening. */
static void test_reload_and_reopen(void **state)
{
	char folder[] = "throttle-growth-XXXXXX", path[64];
	struct throttle_limit limit = ring("x", 2, HOUR);
	struct throttle_table *t;

	(void)state;
	assert_non_null(mkdtemp(folder));
	t = open_growing(folder, &limit, 1);
	for (unsigned round = 1; round <= 6; round++) {
		come(t, (round - 1) * 1500, round * 1500);
		limit.delay_max_ns = round * MS;
		assert_int_equal(throttle_table_apply(t, &limit, 1, 0, START, NULL), 0);
		throttle_table_collect(t);
		if (round % 2 == 0) {
			throttle_table_close(t);
			t = open_growing(folder, &limit, 1);
		}
		for (uint64_t caller = 0; caller < round * 1500; caller++)
			assert_false(take_one(t, caller, 2, START, NULL));
	}
	/* Without growth all of the capacity is there, and they are in it. */
	throttle_table_close(t);
	t = open_table(folder, ROOM, &limit, 1);
	for (uint64_t caller = 0; caller < 9000; caller++)
		assert_false(take_one(t, caller, 2, START, NULL));
	throttle_table_close(t);
	snprintf(path, sizeof(path), "%s/throttle.table", folder);
	unlink(path);
	rmdir(folder);
}

/* No memory: all continues as it was, and when there is some it grows. */
static void test_no_room(void **state)
{
	struct throttle_limit limit = ring("x", 2, HOUR);
	struct throttle_table *t = open_growing(NULL, &limit, 1);
	struct rlimit all, none;
	uint64_t caller = 0;
	int result, error;

	(void)state;
	for (; !throttle_table_wants_growth(t); caller++)
		assert_true(take_one(t, caller, 1, START, NULL));
	assert_int_equal(getrlimit(RLIMIT_DATA, &all), 0);
	none = all;
	none.rlim_cur = 4096;
	assert_int_equal(setrlimit(RLIMIT_DATA, &none), 0);
	result = throttle_table_grow(t);
	error = errno;
	assert_int_equal(setrlimit(RLIMIT_DATA, &all), 0);
	assert_int_equal(result, -1);
	assert_int_equal(error, ENOMEM);
	for (uint64_t i = 0; i < caller; i++)
		assert_false(take_one(t, i, 2, START, NULL));
	/* Those who find no place share one, until there is room. */
	for (; !throttle_table_wants_growth(t); caller++)
		take_one(t, caller, 1, START, NULL);
	assert_int_equal(throttle_table_grow(t), 0);
	throttle_table_collect(t);
	for (uint64_t i = 0; i < caller; i++)
		assert_false(take_one(t, i, 2, START, NULL));
	throttle_table_close(t);
}

UNIT_SUITE(growth_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_callers_come),
		cmocka_unit_test(test_receipts),
		cmocka_unit_test(test_reload_and_reopen),
		cmocka_unit_test(test_no_room),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
