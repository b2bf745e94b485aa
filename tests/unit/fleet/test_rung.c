/* What decides a limit of the fleet, by what is known of the store; and among how many a node
 * divides it. */
#include "fleet/rung.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include "fleet/members.h"
#include "tests/unit/suite.h"

#define WINDOW_MS 60000

static const struct rung_facts well = {.now_ms = 500000, .has_store = true, .has_share = true};

static enum rung with(enum conf_store_down down, struct rung_facts facts)
{
	return rung_of(down, &facts, WINDOW_MS);
}

static void the_store_while_it_is_there(void **state)
{
	(void)state;
	assert_int_equal(with(CONF_STORE_DOWN_LOCAL, well), RUNG_STORE);
	assert_int_equal(with(CONF_STORE_DOWN_REFUSE, well), RUNG_STORE);
	assert_int_equal(with(CONF_STORE_DOWN_ADMIT, well), RUNG_STORE);
}

static void what_store_down_says(void **state)
{
	struct rung_facts away = well;

	(void)state;
	away.has_store = false;
	assert_int_equal(with(CONF_STORE_DOWN_LOCAL, away), RUNG_SHARE);
	assert_int_equal(with(CONF_STORE_DOWN_REFUSE, away), RUNG_REFUSE);
	assert_int_equal(with(CONF_STORE_DOWN_ADMIT, away), RUNG_ADMIT);
	away.has_share = false;
	assert_int_equal(with(CONF_STORE_DOWN_LOCAL, away), RUNG_REFUSE);
}

static void both_for_a_while_after_a_loss(void **state)
{
	struct rung_facts back = well;

	(void)state;
	back.back_ms = back.now_ms - RUNG_RETURN_MS + 1;
	assert_int_equal(with(CONF_STORE_DOWN_LOCAL, back), RUNG_RETURNING);
	assert_int_equal(with(CONF_STORE_DOWN_REFUSE, back), RUNG_STORE);
	assert_int_equal(with(CONF_STORE_DOWN_ADMIT, back), RUNG_STORE);
	back.has_share = false;
	assert_int_equal(with(CONF_STORE_DOWN_LOCAL, back), RUNG_REFUSE);
	back.back_ms--;
	assert_int_equal(with(CONF_STORE_DOWN_LOCAL, back), RUNG_STORE);
}

static void both_until_the_window_of_what_was_forgotten_is_over(void **state)
{
	struct rung_facts lost = well;

	(void)state;
	lost.has_forgotten = true;
	lost.forgot_ms = lost.now_ms - WINDOW_MS + 1;
	assert_int_equal(with(CONF_STORE_DOWN_LOCAL, lost), RUNG_RETURNING);
	lost.forgot_ms--;
	assert_int_equal(with(CONF_STORE_DOWN_LOCAL, lost), RUNG_STORE);
}

static void strict_by_what_it_knows_of_the_others(void **state)
{
	struct rung_facts facts = well;

	(void)state;
	facts.strict = STRICT_ASKS;
	facts.knows_memory = facts.has_rest = true;
	facts.tail_ms = 1200;
	assert_int_equal(with(CONF_STORE_DOWN_STRICT, facts), RUNG_STORE);
	facts.has_rest = false;
	assert_int_equal(with(CONF_STORE_DOWN_STRICT, facts), RUNG_WAIT);
	facts.has_rest = true;
	facts.knows_memory = false;
	assert_int_equal(with(CONF_STORE_DOWN_STRICT, facts), RUNG_WAIT);
	facts.knows_memory = true;
	facts.has_forgotten = true;
	facts.forgot_ms = facts.now_ms - WINDOW_MS - 1199;
	assert_int_equal(with(CONF_STORE_DOWN_STRICT, facts), RUNG_WAIT);
	facts.forgot_ms--;
	assert_int_equal(with(CONF_STORE_DOWN_STRICT, facts), RUNG_STORE);
	facts.strict = STRICT_WAITS;
	assert_int_equal(with(CONF_STORE_DOWN_STRICT, facts), RUNG_WAIT);
	facts.strict = STRICT_USES;
	assert_int_equal(with(CONF_STORE_DOWN_STRICT, facts), RUNG_SHARE);
	facts.strict = STRICT_ASKS;
	facts.has_store = false;
	assert_int_equal(with(CONF_STORE_DOWN_STRICT, facts), RUNG_WAIT);
}

static void shares_add_up_to_the_quota_at_most(void **state)
{
	(void)state;
	assert_int_equal(rung_share(100, 3), 33);
	assert_int_equal(rung_share(2, 3), 0);
	assert_int_equal(rung_share(100, 0), 0);
}

/* ---- standing -------------------------------------------------------------------------------- */

#define LEASE_MS 3000

static void the_only_node_has_all(void **state)
{
	struct standing standing = {0};

	(void)state;
	assert_int_equal(standing_note(&standing, 1000, LEASE_MS, 1), 1);
}

static void a_joiner_has_none_until_the_others_know(void **state)
{
	struct standing joiner = {0}, other = {0};

	(void)state;
	standing_note(&other, 1000, LEASE_MS, 1);
	assert_int_equal(standing_note(&joiner, 1500, LEASE_MS, 2), 0);
	assert_int_equal(standing_note(&other, 2000, LEASE_MS, 2), 2);
	assert_int_equal(standing_note(&joiner, 2500, LEASE_MS, 2), 0);
	assert_int_equal(standing_note(&joiner, 3500, LEASE_MS, 2), 0);
	assert_int_equal(standing_note(&joiner, 4500, LEASE_MS, 2), 2);
}

static void who_was_away_keeps_what_it_knew(void **state)
{
	struct standing standing = {0};

	(void)state;
	for (uint64_t at_ms = 1000; at_ms <= 4000; at_ms += 1000)
		standing_note(&standing, at_ms, LEASE_MS, 3);
	assert_int_equal(standing.nodes, 3);
	assert_int_equal(
		standing_note(&standing, 50000, LEASE_MS, 1), 3); /* the first that is back */
	assert_int_equal(standing_note(&standing, 51000, LEASE_MS, 4), 4);
	assert_int_equal(standing_note(&standing, 52000, LEASE_MS, 2), 4);
	assert_int_equal(standing_note(&standing, 53000, LEASE_MS, 2), 4); /* fewer since now */
	assert_int_equal(standing_note(&standing, 53000 + LEASE_MS, LEASE_MS, 2), 2);
}

UNIT_SUITE(test_rung)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_store_while_it_is_there),
		cmocka_unit_test(what_store_down_says),
		cmocka_unit_test(both_for_a_while_after_a_loss),
		cmocka_unit_test(both_until_the_window_of_what_was_forgotten_is_over),
		cmocka_unit_test(strict_by_what_it_knows_of_the_others),
		cmocka_unit_test(shares_add_up_to_the_quota_at_most),
		cmocka_unit_test(the_only_node_has_all),
		cmocka_unit_test(a_joiner_has_none_until_the_others_know),
		cmocka_unit_test(who_was_away_keeps_what_it_knew),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
