/* Leases of several limits, what comes back of them, and how they end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lease_asks.h"
#include "store/integers.h"
#include "tests/unit/suite.h"

/* ---- several limits -------------------------------------------------------------------------- */

static void charge_two(void)
{
	lease_charge(1);
	account.charges[1] = (struct account_charge){.way = NULL, .said = WAY_ASK};
	account.charges[2] = account.charges[0];
	account.charges[3] = account.charges[0]; /* of an account before */
	lease_name_limit(&account.charges[2], "other");
	account.count = 3;
	lease_take_of(&account.charges[0]);
	lease_take_of(&account.charges[2]);
}

static void several_limits_are_one_operation(void **state)
{
	(void)state;
	charge_two();
	lease_ask_it();
	struct asked got = lease_asked();
	assert_int_equal(got.count, 2 + 2 * 10);
	assert_int_equal(got.words[1], 2);
	assert_int_not_equal(got.words[2], got.words[12]);
	lease_answer_it(2, false,
		(const struct said[]){{1, 5, 0, 7, 1000000, 1}, {100, 0, 0, 0, 2000000, 0}});
	assert_int_equal(went_on, 1);
	assert_int_equal(account.charges[0].said, WAY_UNTAKEN);
	assert_int_equal(account.charges[1].said, WAY_ASK);
	assert_int_equal(account.charges[3].said, WAY_ASK);
	assert_false(account.charges[0].outcome.violated);
	assert_int_equal(account.charges[0].outcome.retry_after_ns, 0);
	assert_true(account.charges[2].outcome.violated);
	assert_true(hand_closed(account.charges[2].hand, BEGIN_MS) > 0);
	assert_int_equal(hand_closed(account.charges[0].hand, BEGIN_MS), 0);
	assert_int_equal(hand_time_left(account.charges[0].hand, BEGIN_MS), TERM_MS - TERM_MS / 16);
}

static void what_is_in_hand_is_not_asked_about(void **state)
{
	(void)state;
	lease_get(8, 9);
	charge_two();
	account.charges[0].said = WAY_TAKEN;
	lease_ask_it();
	assert_int_equal(lease_asked().count, 12);
	lease_answer_it(1, true, &(struct said){8, 5, 0, 7, 0, 1});
	assert_int_equal(account.charges[0].said, WAY_TAKEN);
	assert_true(account.charges[0].slot > 1);
	assert_int_equal(account.charges[2].slot, 1);
}

static void a_refused_request_charges_nothing(void **state)
{
	(void)state;
	charge_two();
	account.refused = true;
	lease_ask_it();
	assert_int_equal(lease_asked().words[4], 0);
	assert_int_equal(lease_asked().words[9], 0);
	assert_true(hand_lock(account.charges[0].hand) || account.charges[0].hand == NULL);
	lease_answer_it(2, true, (const struct said[]){{1, 0, 0, 0, 0, 1}, {1, 0, 0, 0, 0, 1}});
	assert_int_equal(account.charges[0].said, WAY_UNTAKEN);
	assert_int_equal(account.charges[2].said, WAY_UNTAKEN);
	assert_true(account.refused);
}

static void a_hand_that_another_speaks_for_is_left_alone(void **state)
{
	struct account_charge *charge = &account.charges[0];

	(void)state;
	lease_take();
	assert_true(hand_lock(charge->hand));
	lease_ask_it();
	assert_int_equal(lease_asked().words[4], 1);
	assert_int_equal(lease_asked().words[9], 0);
	lease_answer_it(1, true, &(struct said){1, 0, 0, 0, 0, 1});
	assert_int_equal(charge->said, WAY_TAKEN);
}

/* ---- what comes back ------------------------------------------------------------------------- */

static void what_was_taken_goes_back(void **state)
{
	struct account_charge *charge = &account.charges[0];

	(void)state;
	lease_get(8, 9);
	lease_charge(3);
	lease_take();
	lease_way.give(&account, charge, 2);
	assert_int_equal(lease_in_hand(), 7);
	assert_null(node.filling);
	lease_way.give(&account, charge, 0);
	assert_null(node.filling);
	/* when its use is reported, to the store */
	hand_report(charge->hand, BEGIN_MS, false);
	lease_way.give(&account, charge, 1);
	struct asked got = lease_asked();
	assert_int_equal(got.count, 6);
	assert_int_equal(got.words[0], 2);
	assert_int_equal(got.words[3], 1);
	assert_int_equal(got.words[4], 9);
	assert_int_equal(got.words[5], 1000); /* the store's time when it leased this */
}

static void what_the_store_charged_goes_back_while_it_counts(void **state)
{
	struct account_charge *charge = &account.charges[0];

	(void)state;
	assert_int_equal(lease_take(), WAY_ASK);
	lease_ask_it();
	lease_at(BEGIN_MS + 20); /* the store may have charged it at any time since */
	lease_answer_it(1, true, &(struct said){9, 5, 0, 8, 0, 1});
	lease_at(BEGIN_MS + WINDOW_MS - WINDOW_MS / 64);
	lease_way.give(&account, charge, 1);
	assert_null(node.filling);
	lease_at(BEGIN_MS + WINDOW_MS - WINDOW_MS / 64 - 1);
	lease_way.give(&account, charge, HAND_UNITS_MOST + 1ull);
	assert_null(node.filling);
	node.is_away = true;
	lease_way.give(&account, charge, 1);
	node.is_away = false;
	assert_null(node.filling);
	lease_way.give(&account, charge, 1);
	assert_int_equal(lease_asked().words[0], 2);
	assert_int_equal(lease_asked().words[5], 1000); /* when it charged this */
	charge->slot = 0;
	lease_node_put_batch(&node, lease_node_take_batch(&node));
	lease_way.give(&account, charge, 1);
	assert_null(node.filling);
}

/* Else a node that turns requests away once it has charged them seems to need more than others. */
static void what_is_given_back_was_no_demand(void **state)
{
	struct account_charge *charge = lease_charge(1);

	(void)state;
	lease_get(10, 10);
	for (unsigned i = 0; i < 8; i++) {
		charge->slot = 0;
		assert_int_equal(lease_take(), WAY_TAKEN);
		lease_way.give(&account, charge, 1);
	}
	assert_int_equal(atomic_load(&charge->hand->uses), 1); /* get_lease's */
	/* nor what the store has charged by itself */
	charge->slot = 1;
	lease_way.give(&account, charge, 1);
	assert_int_equal(atomic_load(&charge->hand->uses), 0);
}

static void more_is_taken_in_hand_or_charged(void **state)
{
	struct account_charge *charge = &account.charges[0];

	(void)state;
	lease_get(8, 9);
	lease_way.add(&account, charge, 3);
	assert_int_equal(lease_in_hand(), 5);
	assert_null(node.filling);
	lease_way.add(&account, charge, 6);
	assert_int_equal(lease_asked().count, 4);
	assert_int_equal(lease_asked().words[0], 3);
	assert_int_equal(lease_asked().words[3], 6);
	lease_node_put_batch(&node, lease_node_take_batch(&node));
	node.is_away = true;
	lease_way.add(&account, charge, 6);
	node.is_away = false;
	charge->hand = NULL;
	lease_way.add(&account, charge, 1);
	assert_int_equal(lease_asked().words[3], 1);
}

/* ---- a hand that was given to another caller ------------------------------------------------- */

/* The caller's lease is over and returned; then others take all hands there are. */
static void give_hand_away(void)
{
	struct account_charge mine = account.charges[0];

	lease_at(BEGIN_MS + TERM_MS);
	lease_node_run_timer(&node);
	lease_answer_it(1, true, &(struct said){1, 0, 0, 0, 0, 1});
	lease_node_run_timer(&node);
	assert_int_equal(node.fleet.leases.count, 0);
	for (unsigned i = 1; i <= 4; i++) {
		struct account_charge *charge = lease_charge(1);
		charge->caller.hi += i;
		lease_get(20, 21);
		assert_true(i < 4 || charge->hand == mine.hand);
	}
	account.charges[0] = mine;
}

static void more_is_not_taken_from_another_callers_lease(void **state)
{
	struct account_charge *charge = &account.charges[0];

	(void)state;
	lease_get(8, 9);
	give_hand_away();
	lease_way.add(&account, charge, 3);
	assert_int_equal(lease_in_hand(), 80);
	assert_int_equal(lease_asked().count, 4);
	assert_int_equal(lease_asked().words[0], 3);
	assert_int_equal(lease_asked().words[3], 3);
}

/* Found before another part of the store was asked, say. */
static void no_lease_is_asked_for_another_callers_hand(void **state)
{
	struct account_charge *charge = &account.charges[0];

	(void)state;
	lease_get(8, 9);
	give_hand_away();
	charge->said = WAY_ASK;
	lease_ask_it();
	assert_int_equal(lease_asked().words[4], 1);
	assert_int_equal(lease_asked().words[5], 0);
	assert_int_equal(lease_asked().words[9], 0);
	lease_answer_it(1, true, &(struct said){9, 0, 0, 0, 0, 1});
	assert_int_equal(charge->said, WAY_TAKEN);
	assert_int_equal(lease_in_hand(), 80);
}

/* Milliseconds of 32 bits begin again after 49 days. */
static void a_lease_is_over_for_good(void **state)
{
	(void)state;
	lease_get(8, 9);
	lease_charge(6);
	assert_int_equal(lease_take(), WAY_TAKEN);
	lease_lose_answer();
	assert_int_equal(lease_in_hand(), 2);
	lease_at(BEGIN_MS + TERM_MS);
	lease_node_run_timer(&node);
	assert_int_equal(node.fleet.leases.count, 0);
	lease_at(BEGIN_MS + (UINT64_C(1) << 32));
	lease_charge(1);
	assert_int_equal(lease_take(), WAY_ASK);
}

/* ---- what cannot be -------------------------------------------------------------------------- */

static void a_lease_is_never_more_than_a_hand_can_hold(void **state)
{
	struct account_charge *charge = &account.charges[0];

	(void)state;
	assert_int_equal(lease_take(), WAY_ASK);
	lease_ask_it();
	lease_answer_it(1, true, &(struct said){9, 5, 0, HAND_UNITS_MOST + 1ull, 0, 1});
	assert_false(was_answered);
	assert_int_equal(charge->said, WAY_ASK);
	assert_int_equal(lease_in_hand(), 0);
	assert_int_equal(lease_take(), WAY_ASK);
	lease_ask_it();
	lease_answer_it(1, true, &(struct said){9, 5, UINT64_MAX, 2, 0, 1});
	assert_false(was_answered);
	assert_int_equal(lease_in_hand(), 0);
	assert_true(hand_lock(charge->hand));
}

/* ---- its end --------------------------------------------------------------------------------- */

static void what_is_over_is_returned(void **state)
{
	struct account_charge *charge = &account.charges[0];

	(void)state;
	lease_get(8, 9);
	assert_int_equal(node.fleet.leases.count, 1);
	assert_int_equal(node.fleet.leases.timer.at_ms, BEGIN_MS + 25);
	lease_at(BEGIN_MS + 1000);
	assert_true(lease_node_is_due(&node));
	lease_node_run_timer(&node);
	assert_null(node.filling);
	assert_int_equal(node.fleet.leases.timer.at_ms, BEGIN_MS + 1025);
	lease_charge(3);
	lease_take();
	lease_at(BEGIN_MS + TERM_MS);
	lease_node_run_timer(&node);
	ASKED(0, 5, 8, 3, 0, 0);
	lease_node_run_timer(&node); /* it is on its way */
	assert_int_equal(lease_asked().count, 12);
	lease_answer_it(1, true, &(struct said){3, 0, 0, 0, 1000000, 1});
	assert_int_equal(node.fleet.leases.count, 1);
	lease_node_run_timer(&node);
	assert_int_equal(node.fleet.leases.count, 0);
	assert_true(node.fleet.leases.timer.at_ms == DEADLINE_NEVER);
	assert_false(atomic_load(&charge->hand->listed));
	/* and the next one is watched again */
	lease_charge(1);
	assert_int_equal(lease_take(), WAY_ASK);
	lease_ask_it();
	lease_answer_it(1, true, &(struct said){12, 6, 0, 8, 0, 1});
	assert_int_equal(node.fleet.leases.count, 1);
	assert_false(lease_node_is_due(&node));
}

static void what_cannot_be_returned_stays_listed(void **state)
{
	(void)state;
	lease_get(8, 9);
	lease_at(BEGIN_MS + TERM_MS);
	node.is_away = true;
	lease_node_run_timer(&node);
	assert_int_equal(node.fleet.leases.count, 1);
	assert_true(hand_lock(account.charges[0].hand));
	hand_unlock(account.charges[0].hand);
	node.is_away = false;
	lease_node_run_timer(&node);
	assert_int_equal(lease_asked().count, 12);
	lease_lose_answer(); /* the store counts it to its end; nothing more is said of it */
	lease_node_run_timer(&node);
	assert_int_equal(node.fleet.leases.count, 0);
}

static void a_node_that_leaves_returns_all(void **state)
{
	(void)state;
	lease_get(8, 9);
	struct hand *hand = account.charges[0].hand;
	leases_return(&node.fleet.leases);
	ASKED(0, 5, 8, 0, 0, 0);
	assert_int_equal(node.fleet.leases.count, 0);
	assert_false(atomic_load(&hand->listed));
	assert_int_equal(hand_time_left(hand, BEGIN_MS), 0);
	lease_answer_it(1, true, &(struct said){1, 0, 0, 0, 0, 1});
	lease_get(8, 9);
	node.is_away = true;
	leases_return(&node.fleet.leases);
	assert_true(hand_lock(account.charges[0].hand));
	assert_true(node.fleet.leases.timer.at_ms == DEADLINE_NEVER);
}

/* Of 3,000 callers a turn of the timer looks at 256. */
static void many_leases_take_many_turns(void **state)
{
	(void)state;
	lease_node_end(&node);
	node = (struct lease_node){.went_on = lease_went_on};
	lease_node_init(&node, 16384, stats_block(stats, 0));
	node.hands.multiplier = UINT64_C(0x9e3779b97f4a7c15); /* some secrets fill a set */
	lease_at(BEGIN_MS);
	for (uint64_t i = 0; i < 3000; i++) {
		struct account_charge *charge = lease_charge(1);
		charge->caller = (struct throttle_key){i, i << 10};
		assert_int_equal(lease_take(), WAY_ASK);
		assert_non_null(charge->hand);
		lease_ask_it();
		lease_answer_it(1, true, &(struct said){8, 5, 0, 7, 0, 1});
	}
	assert_int_equal(node.fleet.leases.count, 3000);
	lease_at(BEGIN_MS + TERM_MS);
	for (unsigned turn = 0; turn < 12; turn++) {
		lease_node_run_timer(&node);
		assert_true(node.filling->part_count <= 256);
		lease_lose_answer();
	}
	for (unsigned turn = 0; turn < 24 && node.fleet.leases.count > 0; turn++) {
		lease_node_run_timer(&node);
		if (node.filling)
			lease_lose_answer();
	}
	assert_int_equal(node.fleet.leases.count, 0);
}

UNIT_SUITE(test_lease_back)
{
	const struct CMUnitTest tests[] = {
		LEASE_TEST(what_is_given_back_was_no_demand),
		LEASE_TEST(several_limits_are_one_operation),
		LEASE_TEST(what_is_in_hand_is_not_asked_about),
		LEASE_TEST(a_refused_request_charges_nothing),
		LEASE_TEST(a_hand_that_another_speaks_for_is_left_alone),
		LEASE_TEST(what_was_taken_goes_back),
		LEASE_TEST(what_the_store_charged_goes_back_while_it_counts),
		LEASE_TEST(more_is_taken_in_hand_or_charged),
		LEASE_TEST(more_is_not_taken_from_another_callers_lease),
		LEASE_TEST(no_lease_is_asked_for_another_callers_hand),
		LEASE_TEST(a_lease_is_over_for_good),
		LEASE_TEST(a_lease_is_never_more_than_a_hand_can_hold),
		LEASE_TEST(what_is_over_is_returned),
		LEASE_TEST(what_cannot_be_returned_stays_listed),
		LEASE_TEST(a_node_that_leaves_returns_all),
		LEASE_TEST(many_leases_take_many_turns),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
