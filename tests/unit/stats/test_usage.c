#include "stats/usage_sums.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/suite.h"

/* All zero: there is none. */
static struct usage_row row_of(const struct usage_table *table, uint32_t limit, uint64_t caller)
{
	for (size_t i = 0; i < table->room; i++) {
		const struct usage_row *row = &table->rows[i];
		if (row->is_used && row->limit == limit && row->caller == caller)
			return *row;
	}
	return (struct usage_row){0};
}

static void each_caller_and_limit_has_a_row(void **state)
{
	struct usage_table table = {0};

	(void)state;
	for (uint64_t round = 1; round <= 3; round++) {
		for (uint64_t caller = 1; caller <= 5000; caller++) {
			/* also callers that share their low bits */
			assert_true(usage_table_add(&table, SIZE_MAX, 7, caller, 1, 0));
			assert_true(usage_table_add(&table, SIZE_MAX, 8, caller << 40, 0, round));
		}
	}
	assert_int_equal(table.count, 10000);
	for (uint64_t caller = 1; caller <= 5000; caller++) {
		const struct usage_row one = row_of(&table, 7, caller);
		const struct usage_row other = row_of(&table, 8, caller << 40);
		assert_true(one.is_used && other.is_used);
		assert_int_equal(one.admitted, 3);
		assert_int_equal(one.refused, 0);
		assert_int_equal(other.refused, 6);
	}
	usage_table_clear(&table);
	assert_int_equal(table.count, 0);
}

static void beyond_the_bound_they_are_counted_together(void **state)
{
	struct usage_table table = {0};
	uint64_t admitted = 0;

	(void)state;
	for (uint64_t caller = 1; caller <= 500; caller++)
		assert_true(usage_table_add(&table, 100, (uint32_t)caller % 2, caller, 1, 0));
	assert_int_equal(table.count, 102); /* and the rest of each limit */
	for (size_t i = 0; i < table.room; i++)
		admitted += table.rows[i].is_used ? table.rows[i].admitted : 0;
	assert_int_equal(admitted, 500); /* none is lost */
	assert_int_equal(row_of(&table, 0, 0).admitted, 200);
	/* those that have a row keep it */
	assert_true(usage_table_add(&table, 100, 1, 1, 5, 0));
	assert_int_equal(row_of(&table, 1, 1).admitted, 6);
	usage_table_clear(&table);
}

UNIT_SUITE(test_usage)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_caller_and_limit_has_a_row),
		cmocka_unit_test(beyond_the_bound_they_are_counted_together),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
