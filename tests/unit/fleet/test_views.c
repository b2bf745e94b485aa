/* What a worker knows of callers that nodes publish: found again, bounded, and due in their order.
 */
#include "fleet/relaxed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "../random.h"
#include "tests/unit/suite.h"

#define MOST 5000 /* callers that the node remembers */

static const char *const names[] = {"one", "two", "three"};

static struct throttle_key caller_of(uint64_t number)
{
	return (struct throttle_key){number * 7, number << 4};
}

static struct views *make(void)
{
	struct views *views = malloc(sizeof(*views));

	assert_non_null(views);
	assert_true(views_init(views));
	return views;
}

static void drop(struct views *views)
{
	views_end(views);
	free(views);
}

static void each_caller_of_a_limit_has_one(void **state)
{
	struct random random = random_begin("views");
	struct views *views = make();
	int64_t known[500][3] = {0};

	(void)state;
	for (int step = 0; step < 20000; step++) {
		size_t caller = random_below(&random, 500), name = random_below(&random, 3);
		struct view *view = views_find(views, caller_of(caller), names[name], MOST);
		assert_non_null(view);
		assert_int_equal(view->fresh, known[caller][name]);
		view->fresh = known[caller][name] = (int64_t)random_below(&random, 1000) - 100;
	}
	drop(views);
}

static void what_is_due_comes_once_in_its_order(void **state)
{
	struct views *views = make();
	struct view *first = views_find(views, caller_of(1), names[0], MOST);
	struct view *second = views_find(views, caller_of(2), names[0], MOST);

	(void)state;
	assert_null(views_take_due(views));
	views_put_due(views, first);
	views_put_due(views, second);
	views_put_due(views, first);
	assert_ptr_equal(views_take_due(views), first);
	views_put_due(views, first);
	assert_ptr_equal(views_take_due(views), second);
	assert_ptr_equal(views_take_due(views), first);
	assert_null(views_take_due(views));
	drop(views);
}

static void the_longest_unused_is_used_again(void **state)
{
	struct views *views = make();

	(void)state;
	for (uint64_t i = 0; i < MOST; i++)
		views_find(views, caller_of(i), names[0], MOST)->fresh = 1;
	assert_null(views_find(views, caller_of(MOST), names[0], MOST));
	views_find(views, caller_of(0), names[0], MOST);
	struct view *oldest = views_find(views, caller_of(1), names[0], MOST);
	for (uint64_t i = 2; i < MOST; i++)
		views_find(views, caller_of(i), names[0], MOST);
	views_find(views, caller_of(0), names[0], MOST);
	assert_null(views_find(views, caller_of(MOST), names[0], MOST));
	oldest->fresh = 0;
	oldest->is_away = true;
	assert_null(views_find(views, caller_of(MOST), names[0], MOST));
	oldest->is_away = false;
	views_put_due(views, oldest);
	assert_null(views_find(views, caller_of(MOST), names[0], MOST));
	assert_ptr_equal(views_take_due(views), oldest);
	assert_ptr_equal(views_find(views, caller_of(MOST), names[0], MOST), oldest);
	assert_int_equal(views->hashed.count, MOST);
	assert_int_equal(views_find(views, caller_of(2), names[0], MOST)->fresh, 1);
	drop(views);
}

/* What a caller costs is the same when none has room, and for callers whose names anybody could
 * choose so that a hash without a secret brings them together. */
static void each_caller_costs_the_same(void **state)
{
	struct views *views = make();
	uint64_t half, full, before;

	(void)state;
	for (uint64_t i = 0; i < MOST / 2; i++)
		views_find(views, (struct throttle_key){i, 0}, names[0], MOST);
	before = views->hashed.steps;
	for (uint64_t i = MOST / 2; i < MOST; i++)
		views_find(views, (struct throttle_key){i, 0}, names[0], MOST);
	half = views->hashed.steps - before;
	before = views->hashed.steps;
	for (uint64_t i = MOST; i < 2 * MOST; i++)
		assert_non_null(views_find(views, (struct throttle_key){i, 0}, names[0], MOST));
	full = (views->hashed.steps - before) / 2;
	assert_int_equal(views->hashed.count, MOST);
	assert_true(full <= 4 * half && half <= 4 * MOST);
	drop(views);
}

UNIT_SUITE(test_views)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_caller_of_a_limit_has_one),
		cmocka_unit_test(what_is_due_comes_once_in_its_order),
		cmocka_unit_test(the_longest_unused_is_used_again),
		cmocka_unit_test(each_caller_costs_the_same),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
