/* What a node asks the store of a lease, and what it makes of the answers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lease_asks.h"
#include "store/integers.h"
#include "tests/unit/suite.h"

/* ---- what has leases ------------------------------------------------------------------------- */

static void small_quotas_have_no_hand(void **state)
{
	struct account_charge *charge = lease_charge(1);

	(void)state;
	node.nodes = 5;
	assert_int_equal(lease_take(), WAY_ASK);
	assert_non_null(charge->hand);
	node.nodes = 6;
	assert_int_equal(lease_take(), WAY_ASK);
	assert_null(charge->hand);
	node.nodes = 0;
	lease_take();
	assert_non_null(charge->hand);
	charge->rule.window_us = 999999;
	lease_take();
	assert_null(charge->hand);
	charge->rule.window_us = 1000000;
	lease_take();
	assert_non_null(charge->hand);
	charge->cost = HAND_UNITS_MOST + 1ull;
	lease_take();
	assert_null(charge->hand);
	/* without one the store judges, and leases nothing */
	charge->cost = 1;
	charge->hand = NULL;
	lease_ask_it();
	assert_int_equal(lease_asked().words[4], 1);
	assert_int_equal(lease_asked().words[5], 0);
	assert_int_equal(lease_asked().words[9], 0);
	lease_answer_it(1, true, &(struct said){1, 0, 0, 0, 0, 1});
	assert_int_equal(charge->said, WAY_TAKEN);
}

static void callers_limits_and_quotas_have_their_own(void **state)
{
	struct account_charge *charge = lease_charge(1);

	(void)state;
	lease_take();
	struct hand *hand = charge->hand;
	lease_name_limit(charge, "other");
	lease_take();
	assert_ptr_not_equal(charge->hand, hand);
	lease_name_limit(charge, "it");
	charge->caller.hi++;
	lease_take();
	assert_ptr_not_equal(charge->hand, hand);
	charge->caller.hi--;
	lease_take();
	assert_ptr_equal(charge->hand, hand);
	charge->rule.quota--; /* by a reload */
	lease_take();
	assert_ptr_not_equal(charge->hand, hand);
}

/* ---- a lease --------------------------------------------------------------------------------- */

static void a_lease_comes_with_the_first_answer(void **state)
{
	struct account_charge *charge = &account.charges[0];

	(void)state;
	epoch_said = 0;
	assert_int_equal(lease_take(), WAY_ASK);
	lease_ask_it();
	ASKED(1, 0, 0, 0, 0, 7); /* one in the first eighth of a term is 7 in a term */
	assert_false(hand_lock(charge->hand));
	lease_answer_it(1, true, &(struct said){8, 5, 0, 7, 3000000, 1});
	assert_int_equal(went_on, 1);
	assert_true(was_answered);
	assert_int_equal(charge->said, WAY_TAKEN);
	assert_int_equal(charge->slot, 1);
	assert_int_equal(charge->epoch, 9);
	assert_int_equal(charge->outcome.quota, 100);
	assert_int_equal(charge->outcome.remaining, 99);
	assert_false(charge->outcome.violated);
	assert_int_equal(charge->outcome.retry_after_ns, 0);
	assert_int_equal(charge->outcome.reset_ns, 3000000000);
	assert_true(hand_lock(charge->hand));
	hand_unlock(charge->hand);
	/* it ends a sixteenth earlier than the store's */
	assert_int_equal(hand_time_left(charge->hand, BEGIN_MS), (TERM_MS - TERM_MS / 16) | 1);
	lease_charge(1);
	assert_int_equal(lease_take(), WAY_TAKEN);
	assert_int_equal(charge->outcome.remaining, 6 + 92);
	assert_true(charge->slot > 1);
	assert_int_equal(charge->taken_ns, (uint64_t)BEGIN_MS * MS);
	assert_null(node.filling);
	assert_int_equal(lease_counted(STATS_LEASE_TAKEN), 1);
	assert_int_equal(lease_counted(STATS_LEASE_REFUSED), 0);
	assert_int_equal(lease_counted(STATS_STORE_LEASED), 7);
}

/* A store that was flushed gives leases of what may be in use already. */
static void a_strict_limit_takes_none_of_a_store_without_memory(void **state)
{
	struct account_charge *charge = lease_charge(1);

	(void)state;
	charge->down = CONF_STORE_DOWN_STRICT;
	node.lacks_memory = true;
	assert_int_equal(lease_take(), WAY_ASK);
	lease_ask_it();
	lease_answer_it(1, true, &(struct said){8, 5, 0, 7, 3000000, 1});
	assert_int_equal(lease_in_hand(), 0);
	charge = lease_charge(1);
	charge->down = CONF_STORE_DOWN_LOCAL; /* its share decides from then on */
	assert_int_equal(lease_take(), WAY_ASK);
	lease_ask_it();
	lease_answer_it(1, true, &(struct said){8, 5, 0, 7, 3000000, 1});
	assert_int_equal(lease_in_hand(), 7);
}

/* Its requests are decided by what is in hand, and none waits for the store; but those on other
 * nodes may, and be admitted by their shares. */
static void a_late_renewal_keeps_its_caller_to_the_share(void **state)
{
	static const struct said given = {8, 5, 0, 7, 3000000, 1};
	struct account_charge *charge = lease_charge(1);

	(void)state;
	charge->down = CONF_STORE_DOWN_LOCAL;
	assert_int_equal(lease_take(), WAY_ASK);
	lease_ask_it();
	lease_answer_it(1, true, &given);
	assert_int_equal(node.kept_to_share, 0);
	const enum conf_store_down downs[] = {
		CONF_STORE_DOWN_LOCAL, CONF_STORE_DOWN_REFUSE, CONF_STORE_DOWN_LOCAL};
	for (int i = 0; i < 3; i++) {
		while (!node.filling) {
			charge = lease_charge(1);
			charge->down = downs[i];
			assert_int_equal(lease_take(), WAY_TAKEN);
		}
		node.filling->is_late = i < 2;
		lease_answer_it(1, true, &given);
		assert_int_equal(node.kept_to_share, 1);
	}
	while (!node.filling) {
		charge = lease_charge(1);
		charge->down = CONF_STORE_DOWN_LOCAL;
		assert_int_equal(lease_take(), WAY_TAKEN);
	}
	node.filling->is_late = true;
	lease_lose_answer();
	assert_int_equal(node.kept_to_share, 1); /* ladder_back, when it is found again */
}

static void a_caller_without_demand_gets_none(void **state)
{
	(void)state;
	epoch_said = 0;
	lease_charge(1);
	lease_take();
	lease_at(BEGIN_MS + 1000); /* one in half a term */
	lease_ask_it();
	ASKED(1, 0, 0, 0, 0, 0);
	lease_answer_it(1, true, &(struct said){1, 0, 0, 0, 0, 1});
	assert_int_equal(node.fleet.leases.count, 0);
}

static void a_lease_is_at_most_the_share(void **state)
{
	(void)state;
	epoch_said = 0;
	node.nodes = 4;
	lease_charge(1);
	for (int i = 0; i < 50; i++)
		lease_take();
	lease_ask_it();
	ASKED(1, 0, 0, 0, 0, 25);
	lease_lose_answer();
}

static void it_is_renewed_before_it_is_used_up(void **state)
{

	(void)state;
	lease_get(8, 9);
	for (unsigned left = 7; left > 2; left--) {
		lease_charge(1);
		assert_int_equal(lease_take(), WAY_TAKEN);
		assert_null(node.filling);
	}
	lease_charge(1);
	assert_int_equal(lease_take(), WAY_TAKEN); /* two are left: a quarter */
	/* seven were asked for in no time, which is 55 in a term; two are kept */
	ASKED(0, 5, 8, 6, 2, 53);
	lease_charge(1);
	assert_int_equal(lease_take(), WAY_TAKEN); /* once is enough */
	assert_int_equal(lease_asked().count, 12);
	lease_answer_it(1, true, &(struct said){40, 6, 2, 30, 0, 1});
	assert_int_equal(went_on, 1);
	assert_int_equal(lease_in_hand(), 31);
	assert_int_equal(node.fleet.leases.count, 1);
}

static void it_is_renewed_before_it_ends(void **state)
{
	(void)state;
	lease_get(80, 81);
	lease_at(BEGIN_MS + 1374);
	lease_charge(1);
	assert_int_equal(lease_take(), WAY_TAKEN);
	assert_null(node.filling);
	lease_at(BEGIN_MS + 1375); /* a quarter of a term is left */
	lease_charge(1);
	assert_int_equal(lease_take(), WAY_TAKEN);
	assert_int_equal(lease_asked().count, 12);
	lease_lose_answer();
}

/* It may have been given while the store had more to give (strict.h). */
static void strict_keeps_nothing_of_a_lease(void **state)
{
	(void)state;
	lease_get(8, 9);
	lease_charge(6)->down = CONF_STORE_DOWN_STRICT;
	assert_int_equal(lease_take(), WAY_TAKEN);
	ASKED(0, 5, 8, 6, 0, 55);
	lease_lose_answer();
}

static void nothing_is_renewed_on_other_rungs(void **state)
{
	static const enum rung rungs[] = {RUNG_WAIT, RUNG_SHARE};

	(void)state;
	lease_get(4, 5);
	for (unsigned i = 0; i < 2; i++) {
		lease_charge(i == 0 ? 3 : 1)->rung = rungs[i];
		assert_int_equal(lease_take(), WAY_TAKEN);
		assert_null(node.filling);
	}
}

static void nothing_is_renewed_where_the_store_cannot_be_asked(void **state)
{
	(void)state;
	lease_get(4, 5);
	node.is_slow = true;
	for (int i = 0; i < 3; i++) {
		lease_charge(1);
		assert_int_equal(lease_take(), WAY_TAKEN);
	}
	assert_null(node.filling);
	node.is_slow = false;
	node.is_away = true;
	lease_charge(1);
	assert_int_equal(lease_take(), WAY_TAKEN);
	node.is_away = false;
	assert_true(hand_lock(account.charges[0].hand));
	hand_unlock(account.charges[0].hand);
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void what_the_store_refuses_is_closed(void **state)
{
	struct account_charge *charge = &account.charges[0];

	(void)state;
	assert_int_equal(lease_take(), WAY_ASK);
	lease_ask_it();
	lease_answer_it(1, false, &(struct said){100, 0, 0, 0, 3000000, 0});
	assert_int_equal(charge->said, WAY_UNTAKEN);
	assert_int_equal(charge->slot, 0);
	assert_true(account.refused);
	assert_true(charge->outcome.violated);
	assert_int_equal(charge->outcome.remaining, 0);
	assert_int_equal(charge->outcome.retry_after_ns, 3000000000);
	lease_charge(1);
	assert_int_equal(lease_take(), WAY_UNTAKEN);
	assert_true(charge->outcome.violated);
	assert_int_equal(charge->outcome.remaining, 0);
	assert_int_equal(charge->outcome.retry_after_ns, 3001000000);
	assert_int_equal(charge->outcome.more_ns, 3001000000);
	assert_int_equal(lease_counted(STATS_LEASE_REFUSED), 1);
	lease_charge(101);
	assert_int_equal(lease_take(), WAY_UNTAKEN);
	assert_true(charge->outcome.retry_after_ns == THROTTLE_NEVER);
	lease_at(BEGIN_MS + TERM_MS / 4); /* then it is asked again */
	lease_charge(1);
	assert_int_equal(lease_take(), WAY_ASK);
}

static void a_cost_that_never_fits_closes_nothing(void **state)
{
	struct account_charge *charge = lease_charge(200);

	(void)state;
	assert_int_equal(lease_take(), WAY_ASK);
	lease_ask_it();
	lease_answer_it(1, false, &(struct said){100, 0, 0, 0, UINT64_MAX, 0});
	assert_true(charge->outcome.retry_after_ns == THROTTLE_NEVER);
	lease_charge(1);
	assert_int_equal(lease_take(), WAY_ASK);
}

static void it_opens_again_with_what_is_free(void **state)
{
	(void)state;
	assert_int_equal(lease_take(), WAY_ASK);
	lease_ask_it();
	lease_answer_it(1, false, &(struct said){100, 0, 0, 0, 3000000, 0});
	lease_at(BEGIN_MS + 500);
	lease_charge(1);
	assert_int_equal(lease_take(), WAY_ASK);
	lease_ask_it();
	lease_answer_it(1, true, &(struct said){99, 0, 0, 0, 3000000, 1});
	lease_charge(1);
	assert_int_equal(lease_take(), WAY_ASK); /* and not UNTAKEN */
}

static void what_was_not_charged_does_not_go_back(void **state)
{
	struct account_charge *charge = &account.charges[0];

	(void)state;
	charge->rule.shadow = true;
	assert_int_equal(lease_take(), WAY_ASK);
	lease_ask_it();
	lease_answer_it(1, true, &(struct said){100, 0, 0, 0, 3000000, 0});
	assert_int_equal(charge->said, WAY_UNTAKEN);
	assert_int_equal(charge->slot, 0);
	assert_true(charge->outcome.violated);
	charge = lease_charge(0);
	charge->caller.hi++;
	assert_int_equal(lease_take(), WAY_ASK);
	lease_ask_it();
	lease_answer_it(1, true, &(struct said){0, 0, 0, 0, 0, 1});
	assert_int_equal(charge->said, WAY_UNTAKEN);
	assert_int_equal(charge->slot, 0);
}

static void what_another_limit_refuses_is_looked_at(void **state)
{
	struct account_charge *charge = &account.charges[0];

	(void)state;
	lease_get(8, 9);
	lease_charge(3);
	charge->hand = NULL;
	assert_int_equal(lease_way.look(&account, charge), WAY_UNTAKEN);
	assert_int_equal(charge->outcome.remaining, 8 + 91);
	assert_false(charge->outcome.violated);
	hand_close(charge->hand, BEGIN_MS, 100, 300);
	charge->cost = 8;
	lease_way.look(&account, charge);
	assert_false(charge->outcome.violated);
	charge->cost = 9;
	assert_int_equal(lease_way.look(&account, charge), WAY_UNTAKEN);
	assert_true(charge->outcome.violated);
	assert_int_equal(charge->outcome.retry_after_ns, 300000000);
}

/* ---- failures -------------------------------------------------------------------------------- */

static void a_lost_answer_leaves_the_lease_to_its_end(void **state)
{
	struct account_charge *charge = &account.charges[0];

	(void)state;
	lease_get(4, 5);
	lease_charge(4);
	assert_int_equal(lease_take(), WAY_TAKEN);
	assert_int_equal(lease_asked().count, 12);
	lease_lose_answer();
	assert_int_equal(went_on, 1);
	assert_int_equal(charge->hand->slot, 0);
	assert_true(hand_lock(charge->hand));
	hand_unlock(charge->hand);
	assert_int_equal(lease_in_hand(), 0);
	lease_charge(1);
	assert_int_equal(lease_take(), WAY_ASK);
	lease_ask_it();
	assert_int_equal(lease_asked().words[5], 0); /* of no lease */
	lease_lose_answer();
	assert_int_equal(went_on, 2);
	assert_false(was_answered);
}

static void an_answer_that_is_cut_is_none(void **state)
{
	uint8_t bytes[64];
	struct account_charge *charge = &account.charges[0];

	(void)state;
	assert_int_equal(lease_take(), WAY_ASK);
	lease_ask_it();
	struct fleet_batch *batch = lease_node_take_batch(&node);
	size_t len = integers_head(bytes, 3);
	for (int i = 0; i < 3; i++)
		len += integers_put(bytes + len, 1);
	lease_answer(batch, (const char *)bytes, len);
	lease_node_put_batch(&node, batch);
	assert_false(was_answered);
	assert_int_equal(charge->said, WAY_ASK);
	assert_true(hand_lock(charge->hand));
	hand_unlock(charge->hand);
}

UNIT_SUITE(test_lease)
{
	const struct CMUnitTest tests[] = {
		LEASE_TEST(small_quotas_have_no_hand),
		LEASE_TEST(callers_limits_and_quotas_have_their_own),
		LEASE_TEST(a_lease_comes_with_the_first_answer),
		LEASE_TEST(a_strict_limit_takes_none_of_a_store_without_memory),
		LEASE_TEST(a_late_renewal_keeps_its_caller_to_the_share),
		LEASE_TEST(a_caller_without_demand_gets_none),
		LEASE_TEST(a_lease_is_at_most_the_share),
		LEASE_TEST(it_is_renewed_before_it_is_used_up),
		LEASE_TEST(it_is_renewed_before_it_ends),
		LEASE_TEST(strict_keeps_nothing_of_a_lease),
		LEASE_TEST(nothing_is_renewed_on_other_rungs),
		LEASE_TEST(nothing_is_renewed_where_the_store_cannot_be_asked),
		LEASE_TEST(what_the_store_refuses_is_closed),
		LEASE_TEST(a_cost_that_never_fits_closes_nothing),
		LEASE_TEST(it_opens_again_with_what_is_free),
		LEASE_TEST(what_was_not_charged_does_not_go_back),
		LEASE_TEST(what_another_limit_refuses_is_looked_at),
		LEASE_TEST(a_lost_answer_leaves_the_lease_to_its_end),
		LEASE_TEST(an_answer_that_is_cut_is_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
