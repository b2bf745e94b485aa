/* What a question about usage adds up: by limit and caller, in order, or not at all. */
#include "stats/usage_sums.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "tests/unit/left_out.h"
#include "tests/unit/suite.h"

static void rows_are_in_order(void **state)
{
	struct usage_sums sums = {.most_rows = 100};

	(void)state;
	for (unsigned round = 0; round < 3; round++) {
		assert_true(usage_sums_add(&sums, "tried", 9, 1, 0));
		assert_true(usage_sums_add(&sums, "calls", UINT64_MAX, 2, 1));
		assert_true(usage_sums_add(&sums, "calls", 0, 0, 5));
		assert_true(usage_sums_add(&sums, "tried", 3, 7, 0));
	}
	usage_sums_sort(&sums);
	assert_int_equal(sums.table.count, 4);
	static const struct {
		const char *limit;
		uint64_t caller, admitted, refused;
	} expected[] = {{"calls", 0, 0, 15}, {"calls", UINT64_MAX, 6, 3}, {"tried", 3, 21, 0},
		{"tried", 9, 3, 0}};
	for (size_t i = 0; i < 4; i++) {
		const struct usage_row *row = &sums.table.rows[i];
		assert_string_equal(usage_sums_limit(&sums, row), expected[i].limit);
		assert_int_equal(row->caller, expected[i].caller);
		assert_int_equal(row->admitted, expected[i].admitted);
		assert_int_equal(row->refused, expected[i].refused);
	}
	usage_sums_clear(&sums);
}

static void nothing_sorts(void **state)
{
	struct usage_sums sums = {.most_rows = 100};

	(void)state;
	usage_sums_sort(&sums);
	assert_int_equal(sums.table.count, 0);
	usage_sums_clear(&sums);
}

static void one_row_too_many_is_a_fault_of_rows(void **state)
{
	struct usage_sums sums = {.most_rows = 1000};

	(void)state;
	for (uint64_t caller = 1; caller <= 1000; caller++)
		assert_true(usage_sums_add(&sums, "calls", caller, 1, 0));
	assert_true(usage_sums_add(&sums, "calls", 1000, 1, 0)); /* it has a row */
	assert_int_equal(sums.fault, USAGE_SUMS_GOOD);
	assert_false(usage_sums_add(&sums, "calls", 1001, 1, 0));
	assert_int_equal(sums.fault, USAGE_SUMS_ROWS);
	usage_sums_clear(&sums);
}

static void one_limit_too_many_is_a_fault_of_limits(void **state)
{
	struct usage_sums sums = {.most_rows = 10000};
	char name[32];

	(void)state;
	for (unsigned round = 0; round < 2; round++) {
		for (unsigned i = 0; i < USAGE_SUMS_LIMITS; i++) {
			snprintf(name, sizeof(name), "limit%u", i);
			assert_true(usage_sums_add(&sums, name, 7, 1, 0));
		}
	}
	assert_int_equal(sums.table.count, USAGE_SUMS_LIMITS);
	assert_false(usage_sums_add(&sums, "one more", 7, 1, 0));
	assert_int_equal(sums.fault, USAGE_SUMS_LIMITS_FULL);
	usage_sums_sort(&sums);
	assert_string_equal(usage_sums_limit(&sums, &sums.table.rows[0]), "limit0");
	assert_string_equal(usage_sums_limit(&sums, &sums.table.rows[4095]), "limit999");
	assert_int_equal(sums.table.rows[4095].admitted, 2);
	usage_sums_clear(&sums);
}

/* Never a sum that lacks some callers, or has them all in one row. */
static void no_memory_is_a_fault_of_its_own(void **state)
{
	struct usage_sums sums = {.most_rows = SIZE_MAX};
	const struct rlimit little = {64 << 20, RLIM_INFINITY};
	struct rlimit before;
	uint64_t caller = 1;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
	assert_int_equal(setrlimit(RLIMIT_AS, &little), 0);
	while (usage_sums_add(&sums, "calls", caller, 1, 0))
		caller++;
	assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
	assert_int_equal(sums.fault, USAGE_SUMS_NO_MEMORY);
	assert_int_equal(sums.table.count, caller - 1);
	usage_sums_sort(&sums);
	assert_int_equal(sums.table.rows[0].caller, 1);
	usage_sums_clear(&sums);
}

UNIT_SUITE(test_usage_sums)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_are_in_order),
		cmocka_unit_test(nothing_sorts),
		cmocka_unit_test(one_row_too_many_is_a_fault_of_rows),
		cmocka_unit_test(one_limit_too_many_is_a_fault_of_limits),
		UNIT_TEST_IF(!UNIT_IS_SANITIZED, no_memory_is_a_fault_of_its_own,
			"sanitizers need more memory"),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
