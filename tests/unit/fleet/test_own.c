/* What a node counts of its own admissions, what its share admits, and what it then owes: with a
 * real table, without a store and a clock. */
#include "fleet/own.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "fleet/debts.h"
#include "fleet/fleet.h"
#include "fleet/question.h"
#include "tests/unit/fleet/fake_store.h"
#include "worker/node.h"
#include "tests/unit/suite.h"

enum { QUOTA = 12, NODES = 3, SHARE = QUOTA / NODES, WINDOW_MS = 1000, BEGIN_MS = 1000000 };
enum { FIRST, SECOND, SHADOW, LIMITS };

static const char *const names[LIMITS] = {"first", "second", "shadow"};

static struct {
	struct node node;
	struct fleet_worker fleet;
	struct account account;
	size_t paid;
	uint64_t paid_cost;
	bool paid_leased;
} world;

/* ---- what a test does ------------------------------------------------------------------------ */

static int begin(void **state)
{
	struct throttle_limit limits[LIMITS];
	struct throttle_table_options options = {
		.callers = 100, .now_ns = BEGIN_MS * FAKE_STORE_MS};

	(void)state;
	memset(&world, 0, sizeof(world));
	fake_store_begin(BEGIN_MS);
	for (int i = 0; i < LIMITS; i++) {
		limits[i] = (struct throttle_limit){.kind = THROTTLE_RING,
			.quota = QUOTA,
			.window_ns = WINDOW_MS * FAKE_STORE_MS,
			.mode = i == SHADOW ? THROTTLE_SHADOW : THROTTLE_ENFORCE};
		strcpy(limits[i].name, names[i]);
	}
	world.node.throttles = throttle_table_open(&options, limits, LIMITS, NULL);
	assert_non_null(world.node.throttles);
	world.fleet.authority = fleet_new(world.node.throttles);
	assert_non_null(world.fleet.authority);
	world.fleet.worker = &fake_store.worker;
	fake_store.worker.node = &world.node;
	return 0;
}

static int end(void **state)
{
	(void)state;
	fleet_free(world.fleet.authority);
	throttle_table_close(world.node.throttles);
	return 0;
}

static struct throttle_key caller_of(unsigned limit)
{
	return (struct throttle_key){limit + 1, (limit + 1) << 8};
}

/* A request of no limit yet. */
static struct account *request(void)
{
	memset(&world.account, 0, sizeof(world.account));
	world.account.worker = &world.fleet;
	world.account.now_ns = fake_store.now_ns;
	return &world.account;
}

/* One more of its limits, which is to be asked about, on this rung. */
static struct account_charge *add(unsigned limit, uint64_t cost, enum rung rung)
{
	struct account_charge *charge = &world.account.charges[world.account.count++];

	*charge = (struct account_charge){
		.caller = caller_of(limit),
		.own_caller = caller_of(limit),
		.number = limit,
		.limit = names[limit],
		.way = way_of(CONF_FLEET_EXACT),
		.rule = {.quota = QUOTA, .window_us = WINDOW_MS * 1000, .quantum_us = 1},
		.cost = cost,
		.quota = QUOTA,
		.share = SHARE,
		.slot = 5,
		.down = CONF_STORE_DOWN_LOCAL,
		.rung = rung,
		.said = WAY_ASK,
		.local = -1,
		.own = -1,
	};
	return charge;
}

static struct account *request_of(unsigned limit, uint64_t cost, enum rung rung)
{
	request();
	add(limit, cost, rung);
	return &world.account;
}

static uint64_t used_of(unsigned limit)
{
	struct throttle_outcome outcome;

	if (!throttle_explain(
		    world.node.throttles, limit, caller_of(limit), fake_store.now_ns, &outcome))
		return 0;
	return outcome.quota - outcome.remaining;
}

static bool on_debt(void *whose, const struct debt *debt, uint64_t cost)
{
	assert_ptr_equal(whose, &world);
	world.paid++;
	world.paid_cost += cost;
	world.paid_leased = debt->is_leased;
	assert_string_equal(debt->limit, names[debt->caller.hi - 1]);
	return true;
}

/* All of what is owed, which stays so. */
static uint64_t owed(void)
{
	struct debts *debts = fleet_debts(world.fleet.authority);

	world.paid = world.paid_cost = 0;
	debts_pay(debts, fake_store.now_ns, on_debt, &world);
	debts_paid(debts, false, fake_store.now_ns);
	return world.paid_cost;
}

/* ---- while the store is well ----------------------------------------------------------------- */

static void what_is_admitted_is_counted_once(void **state)
{
	(void)state;
	struct account *account = request_of(FIRST, 3, RUNG_STORE);
	add(SECOND, 2, RUNG_STORE);
	own_count(account);
	assert_int_equal(used_of(FIRST), 3);
	assert_int_equal(used_of(SECOND), 2);
	own_count(account);
	assert_int_equal(used_of(FIRST), 3);
	own_give_back(account);
	assert_int_equal(used_of(FIRST), 0);
	assert_int_equal(used_of(SECOND), 0);
	assert_int_equal(account->charges[0].own, -1);
	assert_int_equal(account->own.count, 0);
}

static void only_limits_with_local_are_counted(void **state)
{
	(void)state;
	struct account *account = request();
	add(FIRST, 3, RUNG_STORE)->down = CONF_STORE_DOWN_REFUSE;
	add(SECOND, 3, RUNG_STORE)->way = NULL; /* of this node */
	add(SHADOW, 0, RUNG_STORE);
	add(SHADOW, 2, RUNG_STORE);
	own_count(account);
	assert_int_equal(used_of(FIRST) + used_of(SECOND), 0);
	assert_int_equal(used_of(SHADOW), 2);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(account->charges[i].own, -1);
	assert_int_equal(account->charges[3].own, 0);
}

/* By its clock some of what the table holds is over. The table remembers no more than the quota. */
static void what_the_store_admits_counts_also_where_the_table_is_full(void **state)
{
	(void)state;
	own_count(request_of(FIRST, QUOTA - 1, RUNG_STORE));
	struct account *account = request_of(FIRST, 3, RUNG_STORE);
	add(SECOND, 1, RUNG_STORE);
	own_count(account);
	assert_true(account->charges[0].own >= 0 && account->charges[1].own >= 0);
	assert_int_equal(used_of(SECOND), 1);
	assert_int_equal(used_of(FIRST), QUOTA);
	own_give_back(account);
	assert_int_equal(used_of(FIRST), QUOTA - 3);
	assert_int_equal(used_of(SECOND), 0);
}

static void a_shadow_limit_that_is_full_gives_nothing_back(void **state)
{
	(void)state;
	own_count(request_of(SHADOW, QUOTA, RUNG_STORE));
	struct account *account = request_of(SHADOW, 1, RUNG_STORE);
	add(FIRST, 1, RUNG_STORE);
	own_count(account);
	assert_int_equal(used_of(FIRST), 1);
	own_give_back(account);
	assert_int_equal(used_of(SHADOW), QUOTA);
	assert_int_equal(used_of(FIRST), 0);
}

/* ---- shares ---------------------------------------------------------------------------------- */

static void a_share_admits_its_part_and_no_more(void **state)
{
	(void)state;
	for (unsigned i = 1; i <= SHARE; i++) {
		assert_true(own_take_share(request_of(FIRST, 1, RUNG_SHARE), RUNG_SHARE));
		assert_false(world.account.refused);
		assert_int_equal(world.account.charges[0].said, WAY_ASK);
		assert_int_equal(world.account.charges[0].outcome.remaining, SHARE - i);
		assert_int_equal(used_of(FIRST), i);
	}
	assert_false(own_take_share(request_of(FIRST, 1, RUNG_SHARE), RUNG_SHARE));
	assert_true(world.account.refused);
	assert_int_equal(world.account.charges[0].said, WAY_UNTAKEN);
	assert_true(world.account.charges[0].outcome.violated);
	assert_true(
		world.account.charges[0].outcome.retry_after_ns <= (WINDOW_MS + 1) * FAKE_STORE_MS);
	assert_true(world.account.charges[0].outcome.retry_after_ns > 0);
	assert_int_equal(used_of(FIRST), SHARE);
	fake_store_at(BEGIN_MS + WINDOW_MS + 1);
	assert_true(own_take_share(request_of(FIRST, SHARE, RUNG_SHARE), RUNG_SHARE));
}

static void what_the_store_admitted_is_of_the_share(void **state)
{
	(void)state;
	own_count(request_of(FIRST, SHARE - 1, RUNG_STORE));
	assert_false(own_take_share(request_of(FIRST, 2, RUNG_SHARE), RUNG_SHARE));
	assert_true(own_take_share(request_of(FIRST, 1, RUNG_SHARE), RUNG_SHARE));
}

static void of_several_limits_all_or_none_are_taken(void **state)
{
	(void)state;
	own_take_share(request_of(SECOND, SHARE, RUNG_SHARE), RUNG_SHARE);
	struct account *account = request_of(FIRST, 1, RUNG_SHARE);
	add(SECOND, 1, RUNG_SHARE);
	assert_false(own_take_share(account, RUNG_SHARE));
	assert_int_equal(used_of(FIRST), 0);
	assert_false(account->charges[0].outcome.violated);
	assert_true(account->charges[1].outcome.violated);
	assert_int_equal(account->own.count, 0);
}

static void only_those_of_the_rung_that_are_asked_about_are_taken(void **state)
{
	(void)state;
	own_take_share(request_of(FIRST, SHARE, RUNG_SHARE), RUNG_SHARE);
	assert_true(own_take_share(request_of(FIRST, 1, RUNG_RETURNING), RUNG_SHARE));
	assert_true(own_take_share(request_of(FIRST, 1, RUNG_STORE), RUNG_SHARE));
	request_of(FIRST, 1, RUNG_SHARE)->charges[0].said = WAY_TAKEN; /* by its lease */
	assert_true(own_take_share(&world.account, RUNG_SHARE));
	request_of(FIRST, 1, RUNG_SHARE)->charges[0].own = 0; /* is counted */
	assert_true(own_take_share(&world.account, RUNG_SHARE));
	request_of(FIRST, 1, RUNG_SHARE)->charges[0].way = NULL;
	assert_true(own_take_share(&world.account, RUNG_SHARE));
	assert_int_equal(used_of(FIRST), SHARE);
	assert_false(own_take_share(request_of(FIRST, 1, RUNG_RETURNING), RUNG_RETURNING));
}

/* What is returning is taken before the store is asked, and is not counted a second time. */
static void a_returning_limit_is_counted_once(void **state)
{
	(void)state;
	struct account *account = request_of(FIRST, 1, RUNG_RETURNING);
	assert_true(own_take_share(account, RUNG_RETURNING));
	own_count(account); /* the store has admitted it */
	assert_int_equal(used_of(FIRST), 1);
	assert_true(own_owe(account));
	assert_int_equal(owed(), 0); /* the store knows */
	own_give_back(account);
	assert_int_equal(used_of(FIRST), 0);
}

/* ---- debts ----------------------------------------------------------------------------------- */

static void what_a_share_admits_is_owed(void **state)
{
	(void)state;
	struct account *account = request_of(FIRST, 2, RUNG_SHARE);
	add(SECOND, 1, RUNG_STORE);
	add(SHADOW, 1, RUNG_SHARE)->said = WAY_TAKEN;
	assert_true(own_take_share(account, RUNG_SHARE) && own_owe(account));
	assert_int_equal(account->charges[0].said, WAY_TAKEN);
	assert_int_equal(account->charges[0].slot, 0); /* of the store: nothing */
	assert_int_equal(account->charges[1].slot, 5);
	assert_false(account->charges[1].is_owed || account->charges[2].is_owed);
	assert_int_equal(owed(), 2);
	assert_int_equal(world.paid, 1);
	assert_false(world.paid_leased);
	own_give_back(account);
	assert_int_equal(owed(), 0);
	assert_int_equal(used_of(FIRST), 0);
	assert_false(account->charges[0].is_owed); /* it is given back once */
}

/* The window of what is given back is over: what is owed is of another request. */
static void what_comes_back_late_leaves_others_owed(void **state)
{
	(void)state;
	struct account *account = request_of(FIRST, 2, RUNG_SHARE);
	assert_true(own_take_share(account, RUNG_SHARE) && own_owe(account));
	struct account late = *account;
	fake_store.now_ns += 2 * WINDOW_MS * FAKE_STORE_MS;
	account = request_of(FIRST, 3, RUNG_SHARE);
	assert_true(own_take_share(account, RUNG_SHARE) && own_owe(account));
	own_give_back(&late);
	assert_int_equal(owed(), 3);
	assert_int_equal(used_of(FIRST), 3);
}

static void a_leased_limit_is_owed_as_one(void **state)
{
	(void)state;
	request_of(FIRST, 2, RUNG_SHARE)->charges[0].way = way_of(CONF_FLEET_LEASE);
	assert_true(own_take_share(&world.account, RUNG_SHARE) && own_owe(&world.account));
	assert_int_equal(owed(), 2);
	assert_true(world.paid_leased);
}

static void where_no_more_can_be_owed_nothing_is_admitted(void **state)
{
	(void)state;
	fake_store.conf.totals.callers = 0;
	struct account *account = request_of(FIRST, 1, RUNG_SHARE);
	assert_true(own_take_share(account, RUNG_SHARE));
	assert_false(own_owe(account));
	assert_false(account->charges[0].is_owed);
	own_give_back(account);
	assert_int_equal(used_of(FIRST), 0);
}

/* ---- the true cost --------------------------------------------------------------------------- */

static void a_lower_cost_is_given_back_here_and_there(void **state)
{
	(void)state;
	struct account *account = request_of(FIRST, 3, RUNG_SHARE);
	assert_true(own_take_share(account, RUNG_SHARE) && own_owe(account));
	own_settle(account, &account->charges[0], 1);
	assert_int_equal(used_of(FIRST), 1);
	assert_int_equal(owed(), 1);
}

static void a_higher_cost_is_charged_here_and_there(void **state)
{
	(void)state;
	struct account *account = request_of(FIRST, 3, RUNG_SHARE);
	assert_true(own_take_share(account, RUNG_SHARE) && own_owe(account));
	own_settle(account, &account->charges[0], 3);
	assert_int_equal(owed(), 3);
	own_settle(account, &account->charges[0], SHARE + 2); /* whether it fits or not */
	assert_int_equal(used_of(FIRST), SHARE + 2);
	assert_int_equal(owed(), SHARE + 2);
	assert_false(own_take_share(request_of(FIRST, 1, RUNG_SHARE), RUNG_SHARE));
}

static void what_the_store_has_counted_is_corrected_here_alone(void **state)
{
	(void)state;
	struct account *account = request_of(FIRST, 3, RUNG_STORE);
	own_count(account);
	own_settle(account, &account->charges[0], 1);
	assert_int_equal(used_of(FIRST), 1);
	assert_int_equal(owed(), 0);
	account = request_of(SECOND, 3, RUNG_STORE); /* is not counted */
	own_settle(account, &account->charges[0], 5);
	assert_int_equal(used_of(SECOND), 0);
	assert_int_equal(owed(), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

UNIT_SUITE(test_own)
{
	const struct CMUnitTest tests[] = {
		TEST(what_is_admitted_is_counted_once),
		TEST(only_limits_with_local_are_counted),
		TEST(what_the_store_admits_counts_also_where_the_table_is_full),
		TEST(a_shadow_limit_that_is_full_gives_nothing_back),
		TEST(a_share_admits_its_part_and_no_more),
		TEST(what_the_store_admitted_is_of_the_share),
		TEST(of_several_limits_all_or_none_are_taken),
		TEST(only_those_of_the_rung_that_are_asked_about_are_taken),
		TEST(a_returning_limit_is_counted_once),
		TEST(what_a_share_admits_is_owed),
		TEST(what_comes_back_late_leaves_others_owed),
		TEST(a_leased_limit_is_owed_as_one),
		TEST(where_no_more_can_be_owed_nothing_is_admitted),
		TEST(a_lower_cost_is_given_back_here_and_there),
		TEST(a_higher_cost_is_charged_here_and_there),
		TEST(what_the_store_has_counted_is_corrected_here_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
