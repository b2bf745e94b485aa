/* Limits that a node decides and limits that the store is asked about, in one request. */
#include "fleet/way.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "fleet/exact.h"
#include "fleet/question.h"
#include "tests/unit/suite.h"

/* A way that has `charge->slot` units in hand. */
static enum way_verdict look(struct account *account, struct account_charge *charge)
{
	(void)account;
	charge->outcome = (struct throttle_outcome){.quota = charge->rule.quota,
		.remaining = charge->slot,
		.violated = charge->slot < charge->cost};
	return WAY_UNTAKEN;
}

static enum way_verdict take(struct account *account, struct account_charge *charge)
{
	look(account, charge);
	if (charge->outcome.violated)
		return WAY_UNTAKEN;
	charge->slot -= charge->cost;
	charge->outcome.remaining -= charge->cost;
	return WAY_TAKEN;
}

static void give(struct account *account, struct account_charge *charge, uint64_t cost)
{
	(void)account;
	charge->slot += cost;
}

static const struct way in_hand = {.take = take, .look = look, .give = give, .add = NULL};

static struct account account_of(unsigned first, unsigned second)
{
	struct account account = {.count = 4};

	account.charges[0] = (struct account_charge){.way = &in_hand, .slot = first, .cost = 1};
	account.charges[1] = (struct account_charge){.way = NULL};
	account.charges[2] = (struct account_charge){.way = &exact_way, .cost = 1};
	account.charges[3] = (struct account_charge){.way = &in_hand, .slot = second, .cost = 1};
	return account;
}

static void what_fits_is_taken(void **state)
{
	struct account account = account_of(5, 1);

	(void)state;
	assert_int_equal(ways_take(&account), 1);
	assert_false(account.refused);
	assert_int_equal(account.charges[0].slot, 4);
	assert_int_equal(account.charges[2].said, WAY_ASK);
	assert_int_equal(account.charges[3].said, WAY_TAKEN);
	assert_int_equal(account.charges[3].outcome.remaining, 0);
	ways_take_back(&account);
	ways_take_back(&account);
	assert_int_equal(account.charges[0].slot, 5);
	assert_int_equal(account.charges[3].slot, 1);
	assert_false(account.charges[3].outcome.violated);
	assert_int_equal(account.charges[3].outcome.remaining, 1);
}

static void all_or_none(void **state)
{
	struct account account = account_of(1, 0);

	(void)state;
	assert_int_equal(ways_take(&account), 1);
	assert_true(account.refused);
	assert_int_equal(account.charges[0].slot, 1);
	assert_false(account.charges[0].outcome.violated);
	assert_true(account.charges[3].outcome.violated);
}

static void refused_before_it_is_asked(void **state)
{
	struct account account = account_of(1, 1);

	(void)state;
	account.refused = true;
	assert_int_equal(ways_take(&account), 1);
	assert_int_equal(account.charges[0].slot, 1);
	assert_int_equal(account.charges[0].said, WAY_UNTAKEN);
	assert_false(account.charges[0].outcome.violated);
}

static void a_shadow_refuses_nothing(void **state)
{
	struct account account = account_of(0, 1);

	(void)state;
	account.charges[0].rule.shadow = true;
	ways_take(&account);
	assert_false(account.refused);
	assert_int_equal(account.charges[3].said, WAY_TAKEN);
}

/* Leases are of requests over a sliding window; what else there is, the store judges. */
static void a_kind_without_leases_is_judged_exactly(void **state)
{
	struct conf_limit limit = {
		.fleet_way = CONF_FLEET_LEASE, .amount = 5, .per_ns = 1000000000};

	(void)state;
	assert_ptr_equal(way_for(&limit), &lease_way);
	for (int i = 0; i < 5; i++) {
		struct conf_limit other = limit;
		other.algorithm = i == 0   ? CONF_LIMIT_GCRA
				  : i == 1 ? CONF_LIMIT_CALENDAR
				  : i == 2 ? CONF_LIMIT_CONCURRENCY
					   : CONF_LIMIT_RING;
		other.unit = i == 3 ? CONF_UNIT_BYTES : CONF_UNIT_REQUESTS;
		other.ban.count = i == 4;
		assert_ptr_equal(way_for(&other), &exact_way);
	}
	limit.count_refused = true;
	assert_ptr_equal(way_for(&limit), &exact_way);
}

UNIT_SUITE(test_way)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_fits_is_taken),
		cmocka_unit_test(all_or_none),
		cmocka_unit_test(refused_before_it_is_asked),
		cmocka_unit_test(a_shadow_refuses_nothing),
		cmocka_unit_test(a_kind_without_leases_is_judged_exactly),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
