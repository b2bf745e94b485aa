/* When a node with store_down = strict asks the store, waits, or uses its share; and what the store
 * may admit meanwhile. */
#include "fleet/strict.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "base/clock.h"

#include "../random.h"
#include "tests/unit/suite.h"

#define BEGIN_MS UINT64_C(1800000000000)

static const struct strict_times times = {
	.lease_ms = 1000, .kept_ms = 160000, .tail_ms = 1200, .window_ms = 2000};

static const struct strict_view view = {.asked_ns = BEGIN_MS * CLOCK_NS_PER_MS,
	.answered_ns = (BEGIN_MS + 10) * CLOCK_NS_PER_MS,
	.divisor = 3};

static enum strict_state after(uint64_t ms, const struct strict_view *of)
{
	return strict_state_of(of, &times, (BEGIN_MS + ms) * CLOCK_NS_PER_MS);
}

static void a_node_that_was_never_answered_waits(void **state)
{
	static const struct strict_view none = {0};

	(void)state;
	assert_int_equal(after(0, &none), STRICT_WAITS);
	assert_int_equal(after(1000000, &none), STRICT_WAITS);
}

static void the_store_for_a_lease_after_it_was_asked(void **state)
{
	(void)state;
	assert_int_equal(after(999, &view), STRICT_ASKS);
	assert_int_equal(after(1000, &view), STRICT_WAITS);
}

/* D is 4200 ms and a sixteenth. */
static void its_share_after_the_window_and_as_long_as_it_is_kept(void **state)
{
	(void)state;
	assert_int_equal(after(10 + 4462 + 2000, &view), STRICT_WAITS);
	assert_int_equal(after(10 + 4462 + 2001, &view), STRICT_USES);
	assert_int_equal(after(150000 - 3201, &view), STRICT_USES);
	assert_int_equal(after(150000 - 3200, &view), STRICT_WAITS);
}

static void without_a_share_it_waits(void **state)
{
	struct strict_view none = view;

	(void)state;
	none.divisor = 0;
	assert_int_equal(after(999, &none), STRICT_ASKS);
	assert_int_equal(after(10000, &none), STRICT_WAITS);
}

static void a_share_that_others_may_have_is_not_held(void **state)
{
	(void)state;
	assert_int_equal(strict_held(&view, 160000, (BEGIN_MS + 149999) * CLOCK_NS_PER_MS), 3);
	assert_int_equal(strict_held(&view, 160000, (BEGIN_MS + 150000) * CLOCK_NS_PER_MS), 0);
}

static void an_answer_is_late_before_its_head_would_be(void **state)
{
	(void)state;
	assert_int_equal(strict_late_ns(&view, &times), (BEGIN_MS + 2000) * CLOCK_NS_PER_MS);
	assert_int_equal(strict_tail_ms(1000, 0), 1200);
	assert_int_equal(strict_tail_ms(20, 15000), 15200);
}

/* strict.lua rounds the sum of 1/d up. */
static void the_rest_and_lost_shares_are_at_most_the_quota(void **state)
{
	struct random random = random_begin("quotas");

	(void)state;
	assert_int_equal(strict_quota(60, 0), 60);
	assert_int_equal(strict_quota(60, STRICT_PARTS), 0);
	assert_int_equal(strict_quota(60, STRICT_PARTS / 3 + 1), 40);
	for (int n = 0; n < 100000; n++) {
		uint64_t quota = random_next(&random) >> (11 + random_below(&random, 50));
		uint64_t nodes = 1 + random_below(&random, 100);
		uint64_t lost = random_below(&random, nodes + 1);
		uint64_t parts = (lost * STRICT_PARTS + nodes - 1) / nodes;
		uint64_t rest = strict_quota(quota, parts);
		assert_true(rest + lost * (quota / nodes) <= quota);
	}
}

static void what_was_set_is_seen(void **state)
{
	struct strict strict;
	struct strict_view seen;

	(void)state;
	strict_init(&strict);
	seen = strict_look(&strict);
	assert_int_equal(seen.asked_ns, 0);
	strict_set(&strict, &view);
	seen = strict_look(&strict);
	assert_memory_equal(&seen, &view, sizeof(seen));
}

UNIT_SUITE(test_strict)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_node_that_was_never_answered_waits),
		cmocka_unit_test(the_store_for_a_lease_after_it_was_asked),
		cmocka_unit_test(its_share_after_the_window_and_as_long_as_it_is_kept),
		cmocka_unit_test(without_a_share_it_waits),
		cmocka_unit_test(a_share_that_others_may_have_is_not_held),
		cmocka_unit_test(an_answer_is_late_before_its_head_would_be),
		cmocka_unit_test(the_rest_and_lost_shares_are_at_most_the_quota),
		cmocka_unit_test(what_was_set_is_seen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
