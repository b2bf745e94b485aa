/* The edges of periods that are sent to the store. */
#include "fleet/rule.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "tests/unit/suite.h"

#define HOUR_US UINT64_C(3600000000)
#define NOON    UINT64_C(1800014400000000) /* 2027-01-15 12:00 UTC */

static void a_day_and_its_neighbours(void **state)
{
	struct conf_limit limit = {.calendar = CONF_CALENDAR_DAY, .time_zone = "UTC"};
	struct period *periods = NULL;
	const uint64_t *edges = period_edges(&periods, &limit, NOON);

	(void)state;
	assert_non_null(edges);
	for (unsigned i = 0; i < RULE_EDGES; i++)
		assert_int_equal(edges[i], NOON + 24 * HOUR_US * i - 36 * HOUR_US);
	/* they follow the time, in their place */
	assert_ptr_equal(period_edges(&periods, &limit, NOON + 12 * HOUR_US), edges);
	assert_int_equal(edges[1], NOON + 12 * HOUR_US);
	assert_ptr_equal(period_edges(&periods, &limit, NOON - 13 * HOUR_US), edges);
	assert_int_equal(edges[2], NOON - 12 * HOUR_US);
	periods_free(periods);
}

static void limits_with_the_same_periods_share_them(void **state)
{
	struct conf_limit hour = {.calendar = CONF_CALENDAR_HOUR, .time_zone = "UTC"};
	struct conf_limit other = hour, day = hour;
	struct period *periods = NULL;

	(void)state;
	day.calendar = CONF_CALENDAR_DAY;
	const uint64_t *edges = period_edges(&periods, &hour, NOON);
	assert_ptr_equal(period_edges(&periods, &other, NOON), edges);
	assert_ptr_not_equal(period_edges(&periods, &day, NOON), edges);
	other.time_zone = "No/Such_Zone";
	assert_null(period_edges(&periods, &other, NOON));
	periods_free(periods);
	periods_free(NULL);
}

UNIT_SUITE(test_period)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_day_and_its_neighbours),
		cmocka_unit_test(limits_with_the_same_periods_share_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
