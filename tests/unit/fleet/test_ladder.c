/* What a node knows of its store, which limit is on which rung by it, and what the log says of
 * that: without a store and a clock. The rungs themselves: test_rung. */
#include "fleet/ladder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "store/cluster.h"
#include "fleet/fleet.h"
#include "fleet/question.h"
#include "tests/unit/exchange/fakes/lines.h"
#include "tests/unit/fleet/fake_store.h"
#include "tests/unit/suite.h"
#include "worker/node.h"

enum { BEGIN_MS = 1000000, WINDOW_MS = 60000, NODES = 3, QUOTA = 30, LEASE_MS = 5000 };
enum { LIMITS = 12, KEPT_MS = 3600000, TIMEOUT_MS = 20, TAIL_MS = TIMEOUT_MS + 200 };

static struct {
	struct node node;
	struct fleet_worker fleet;
	struct conf_limit limits[LIMITS];
	char names[LIMITS][8];
	struct account account;
	bool may_ask;
	struct cluster cluster;
} world;

/* ---- in the place of the store --------------------------------------------------------------- */

bool __real_fleet_can_ask(const struct fleet_worker *fleet, struct throttle_key caller);
bool __wrap_fleet_can_ask(const struct fleet_worker *fleet, struct throttle_key caller);
bool __wrap_fleet_can_ask(const struct fleet_worker *fleet, struct throttle_key caller)
{
	if (!unit_runs("test_ladder"))
		return __real_fleet_can_ask(fleet, caller);
	assert_ptr_equal(fleet, &world.fleet);
	return world.may_ask;
}

/* ---- what a test does ------------------------------------------------------------------------ */

static struct ladder *ladder(void)
{
	return fleet_ladder(world.fleet.authority);
}

static int begin(void **state)
{
	(void)state;
	memset(&world, 0, sizeof(world));
	fake_store_begin(BEGIN_MS);
	lines_clear();
	world.fleet.authority = fleet_new(NULL);
	assert_non_null(world.fleet.authority);
	world.fleet.worker = &fake_store.worker;
	world.node.worker_count = 2;
	atomic_store(&world.node.store_links, 2);
	fake_store.worker.node = &world.node;
	fake_store.conf.fleet = (struct conf_fleet){.store_down = CONF_STORE_DOWN_LOCAL,
		.membership_lease_ms = LEASE_MS,
		.store_timeout_ms = TIMEOUT_MS,
		.lost_share_ms = KEPT_MS};
	fake_store.conf.limits = world.limits;
	atomic_store(&ladder()->nodes, NODES);
	world.may_ask = true;
	return 0;
}

static int end(void **state)
{
	(void)state;
	fleet_free(world.fleet.authority);
	return 0;
}

static struct conf_limit *add(enum conf_store_down down)
{
	size_t i = fake_store.conf.limit_count++;
	struct conf_limit *limit = &world.limits[i];

	snprintf(world.names[i], sizeof(world.names[i]), "l%zu", i);
	*limit = (struct conf_limit){.name = world.names[i],
		.of_fleet = true,
		.fleet_way = CONF_FLEET_EXACT,
		.amount = QUOTA,
		.per_ns = WINDOW_MS * FAKE_STORE_MS,
		.store_down = down};
	return limit;
}

static struct ladder_sight look(const struct conf_limit *limit)
{
	return ladder_look(world.fleet.authority, &world.node, &fake_store.conf, limit,
		fake_store.now_ns / FAKE_STORE_MS);
}

static void looks(const struct conf_limit *limit, enum rung rung)
{
	assert_string_equal(rung_name(look(limit).rung), rung_name(rung));
}

static struct account_charge *climb(enum conf_store_down down, bool may_ask)
{
	struct account_charge *charge = &world.account.charges[0];

	world.account.worker = &world.fleet;
	world.account.count = 1;
	*charge = (struct account_charge){.caller = {1, 1 << 8},
		.way = way_of(CONF_FLEET_EXACT),
		.down = down,
		.quota = QUOTA,
		.rule = {.quota = QUOTA, .window_us = WINDOW_MS * 1000}};
	ladder_climb(&world.account, may_ask);
	if (may_ask && world.may_ask)
		assert_int_equal(ladder_is_first(&world.account),
			charge->rung == RUNG_STORE && down != CONF_STORE_DOWN_STRICT);
	return charge;
}

static void climbs(enum conf_store_down down, enum rung rung)
{
	assert_string_equal(rung_name(climb(down, true)->rung), rung_name(rung));
}

/* ---- what a limit says ----------------------------------------------------------------------- */

static void its_own_word_is_before_that_of_the_fleet(void **state)
{
	(void)state;
	struct conf_limit *limit = add(CONF_STORE_DOWN_UNSET);
	assert_int_equal(ladder_down(&fake_store.conf, limit), CONF_STORE_DOWN_LOCAL);
	limit->store_down = CONF_STORE_DOWN_ADMIT;
	assert_int_equal(ladder_down(&fake_store.conf, limit), CONF_STORE_DOWN_ADMIT);
}

static void what_shares_cannot_divide_refuses(void **state)
{
	(void)state;
	for (enum conf_store_down down = CONF_STORE_DOWN_LOCAL; down <= CONF_STORE_DOWN_ADMIT;
		down++) {
		bool divides = down == CONF_STORE_DOWN_LOCAL || down == CONF_STORE_DOWN_STRICT;
		struct conf_limit *limit = add(down);
		assert_int_equal(ladder_down(&fake_store.conf, limit), down);
		limit->algorithm = CONF_LIMIT_GCRA;
		assert_int_equal(ladder_down(&fake_store.conf, limit),
			divides ? CONF_STORE_DOWN_REFUSE : down);
		limit->algorithm = CONF_LIMIT_RING;
		limit->fleet_way = CONF_FLEET_SPLIT;
		assert_int_equal(ladder_down(&fake_store.conf, limit),
			divides ? CONF_STORE_DOWN_REFUSE : down);
		assert_false(ladder_has(limit));
		limit->fleet_way = CONF_FLEET_RELAXED;
		limit->algorithm = CONF_LIMIT_CALENDAR; /* its own table has that, too */
		assert_int_equal(ladder_down(&fake_store.conf, limit),
			down == CONF_STORE_DOWN_STRICT ? CONF_STORE_DOWN_REFUSE : down);
		assert_true(ladder_has(limit));
		limit->of_fleet = false;
		assert_false(ladder_has(limit));
	}
}

static void a_site_has_strict_if_a_limit_is(void **state)
{
	(void)state;
	add(CONF_STORE_DOWN_LOCAL);
	assert_false(ladder_has_strict(&fake_store.conf));
	struct conf_limit *limit = add(CONF_STORE_DOWN_STRICT);
	assert_true(ladder_has_strict(&fake_store.conf));
	limit->algorithm = CONF_LIMIT_GCRA;
	assert_false(ladder_has_strict(&fake_store.conf));
	limit->algorithm = CONF_LIMIT_RING;
	limit->of_fleet = false;
	assert_false(ladder_has_strict(&fake_store.conf));
}

/* ---- a request's rungs ----------------------------------------------------------------------- */

static void a_request_is_on_the_rung_of_its_worker(void **state)
{
	(void)state;
	climbs(CONF_STORE_DOWN_LOCAL, RUNG_STORE);
	assert_int_equal(world.account.charges[0].share, QUOTA / NODES);
	world.may_ask = false;
	climbs(CONF_STORE_DOWN_LOCAL, RUNG_SHARE);
	climbs(CONF_STORE_DOWN_REFUSE, RUNG_REFUSE);
	climbs(CONF_STORE_DOWN_ADMIT, RUNG_ADMIT);
	world.may_ask = true;
	assert_int_equal(climb(CONF_STORE_DOWN_LOCAL, false)->rung, RUNG_SHARE);
	world.account.charges[0].way = NULL; /* of this node */
	world.account.charges[0].rung = RUNG_STORE;
	ladder_climb(&world.account, false);
	assert_int_equal(world.account.charges[0].rung, RUNG_STORE);
}

static void without_members_there_is_no_share(void **state)
{
	(void)state;
	world.may_ask = false;
	atomic_store(&ladder()->nodes, 0);
	climbs(CONF_STORE_DOWN_LOCAL, RUNG_REFUSE);
	assert_int_equal(world.account.charges[0].share, 0);
	fake_store.conf.fleet.nodes = 5; /* says the operator */
	climbs(CONF_STORE_DOWN_LOCAL, RUNG_SHARE);
	assert_int_equal(world.account.charges[0].share, QUOTA / 5);
}

static void after_a_loss_both_judge_for_a_while(void **state)
{
	(void)state;
	ladder_back(ladder(), 0, BEGIN_MS);
	climbs(CONF_STORE_DOWN_LOCAL, RUNG_RETURNING);
	fake_store_at(BEGIN_MS + RUNG_RETURN_MS - 1);
	climbs(CONF_STORE_DOWN_LOCAL, RUNG_RETURNING);
	fake_store_at(BEGIN_MS + RUNG_RETURN_MS);
	climbs(CONF_STORE_DOWN_LOCAL, RUNG_STORE);
}

/* A slow store: the answer to a request that the share has admitted may bring a lease. */
static void a_caller_that_a_share_admitted_keeps_to_it(void **state)
{
	(void)state;
	struct conf_limit *limit = add(CONF_STORE_DOWN_LOCAL);
	const struct throttle_key caller = {1, 1 << 8}, other = {1, 1 << 9};

	assert_true(ladder_share(ladder(), other, BEGIN_MS));
	climbs(CONF_STORE_DOWN_LOCAL, RUNG_STORE);
	assert_false(ladder_share(ladder(), caller, BEGIN_MS));
	climbs(CONF_STORE_DOWN_LOCAL, RUNG_RETURNING);
	looks(limit, RUNG_RETURNING);
	climbs(CONF_STORE_DOWN_REFUSE, RUNG_STORE);
	assert_true(climb(CONF_STORE_DOWN_LOCAL, false)->is_shared);
	fake_store_at(BEGIN_MS + RUNG_SHARED_MS - 1);
	climbs(CONF_STORE_DOWN_LOCAL, RUNG_RETURNING);
	fake_store_at(BEGIN_MS + RUNG_SHARED_MS);
	climbs(CONF_STORE_DOWN_LOCAL, RUNG_STORE);
	looks(limit, RUNG_STORE);
}

/* Shares admit most callers then, and the store learns of that later. */
static void a_store_that_is_mostly_late_admits_only_within_shares(void **state)
{
	(void)state;
	struct conf_limit *limit = add(CONF_STORE_DOWN_LOCAL),
			  *relaxed = add(CONF_STORE_DOWN_LOCAL);

	relaxed->fleet_way = CONF_FLEET_RELAXED;
	for (int i = 0; i < 5; i++)
		assert_false(ladder_time(ladder(), 0, true, BEGIN_MS));
	climbs(CONF_STORE_DOWN_LOCAL, RUNG_STORE);
	looks(limit, RUNG_STORE);
	assert_true(ladder_time(ladder(), 0, true, BEGIN_MS));
	climbs(CONF_STORE_DOWN_LOCAL, RUNG_RETURNING);
	assert_true(world.account.charges[0].is_shared);
	looks(limit, RUNG_RETURNING);
	looks(relaxed, RUNG_STORE);
	ladder_climb_one(&world.account, &world.account.charges[0], true);
	assert_int_equal(world.account.charges[0].rung, RUNG_STORE);
	climbs(CONF_STORE_DOWN_REFUSE, RUNG_STORE);
	for (int i = 1; i < 1000; i++)
		assert_false(ladder_time(ladder(), 0, i % 4 != 0, BEGIN_MS));
	for (int i = 0; i < 8; i++)
		ladder_time(ladder(), 0, false, BEGIN_MS);
	climbs(CONF_STORE_DOWN_LOCAL, RUNG_RETURNING); /* what shares have admitted is owed */
	assert_false(world.account.charges[0].is_shared);
	fake_store_at(BEGIN_MS + RUNG_RETURN_MS);
	climbs(CONF_STORE_DOWN_LOCAL, RUNG_STORE);
	looks(limit, RUNG_STORE);
	for (int i = 0; i < 1000; i++)
		assert_false(ladder_time(ladder(), 0, i % 4 == 0, BEGIN_MS));
}

static void learns(unsigned part, uint64_t epoch, uint64_t store_us, uint64_t now_ms)
{
	const struct ladder_memory memory = {epoch, store_us, 500};

	ladder_learn(ladder(), part, &memory, now_ms);
}

/* An odd epoch: of a store that has lost its memory; the number is when it began again. */
static void a_store_that_forgot_is_doubted_for_a_window(void **state)
{
	const uint64_t store_us = UINT64_C(1800000000000000);

	(void)state;
	learns(0, store_us - 10000000, store_us, BEGIN_MS); /* even */
	climbs(CONF_STORE_DOWN_LOCAL, RUNG_STORE);
	learns(0, (store_us - 10000000) | 1, store_us, BEGIN_MS);
	climbs(CONF_STORE_DOWN_LOCAL, RUNG_RETURNING);
	fake_store_at(BEGIN_MS - 10000 + WINDOW_MS - 1);
	climbs(CONF_STORE_DOWN_LOCAL, RUNG_RETURNING);
	fake_store_at(BEGIN_MS - 10000 + WINDOW_MS + 1);
	climbs(CONF_STORE_DOWN_LOCAL, RUNG_STORE);
	learns(0, (store_us + 5000000) | 1, store_us, BEGIN_MS + WINDOW_MS);
	climbs(CONF_STORE_DOWN_LOCAL, RUNG_RETURNING); /* its clock was set back: now */
	learns(0, 2, store_us, BEGIN_MS + WINDOW_MS);
	climbs(CONF_STORE_DOWN_LOCAL, RUNG_STORE);
	learns(0, 1, store_us, 5); /* longer ago than this clock goes */
	assert_int_equal(atomic_load(&ladder()->parts[0].forgot_ms), 1);
}

/* For two leases from its first call on, an empty store may have forgotten what others remember. */
static void a_young_store_is_not_trusted(void **state)
{
	const uint64_t store_us = UINT64_C(1800000000000000);

	(void)state;
	learns(0, store_us - 999000, store_us, BEGIN_MS);
	assert_int_equal(atomic_load(&ladder()->parts[0].young_ms), BEGIN_MS + 1);
	climbs(CONF_STORE_DOWN_LOCAL, RUNG_STORE);
	learns(0, store_us - 1000000, store_us, BEGIN_MS);
	assert_int_equal(atomic_load(&ladder()->parts[0].young_ms), 0);
}

/* Of a cluster a caller's part counts; people see the part that is worst off. */
static void parts_of_a_cluster_are_apart(void **state)
{
	(void)state;
	struct conf_limit *limit = add(CONF_STORE_DOWN_LOCAL);
	unsigned part = slot_part_of((struct throttle_key){1, 1 << 8});
	world.fleet.store.cluster = &world.cluster;
	fake_store.conf.fleet.cluster = true;
	ladder_back(ladder(), part == 7 ? 8 : 7, BEGIN_MS);
	climbs(CONF_STORE_DOWN_LOCAL, RUNG_STORE);
	looks(limit, RUNG_RETURNING);
	ladder_back(ladder(), part, BEGIN_MS);
	climbs(CONF_STORE_DOWN_LOCAL, RUNG_RETURNING);
	fake_store_at(BEGIN_MS + RUNG_RETURN_MS);
	looks(limit, RUNG_STORE);
	learns(SLOT_PARTS, 11, 20, BEGIN_MS + RUNG_RETURN_MS); /* the last */
	looks(limit, RUNG_RETURNING);
	fake_store.conf.fleet.cluster = false; /* a reload: what parts have does not count */
	looks(limit, RUNG_STORE);
}

/* ---- strict ---------------------------------------------------------------------------------- */

/* The list of nodes was asked for now: lost nodes have `lost` parts. */
static void hear_list(uint64_t lost, uint64_t divisor)
{
	struct strict_view view = {.asked_ns = fake_store.now_ns,
		.answered_ns = fake_store.now_ns,
		.lost = lost,
		.divisor = divisor};

	strict_set(&ladder()->strict, &view);
}

static void strict_waits_until_it_knows_the_list_and_the_memory(void **state)
{
	(void)state;
	climbs(CONF_STORE_DOWN_STRICT, RUNG_WAIT);
	hear_list(0, NODES);
	climbs(CONF_STORE_DOWN_STRICT, RUNG_WAIT);
	world.fleet.parts[0].knows_epoch = true;
	climbs(CONF_STORE_DOWN_STRICT, RUNG_STORE);
	assert_int_equal(world.account.charges[0].late_ns,
		(BEGIN_MS + LEASE_MS + TIMEOUT_MS) * FAKE_STORE_MS);
	fake_store_at(BEGIN_MS + LEASE_MS);
	climbs(CONF_STORE_DOWN_STRICT, RUNG_WAIT);
}

static void strict_leaves_lost_nodes_their_shares(void **state)
{
	(void)state;
	world.fleet.parts[0].knows_epoch = true;
	hear_list(STRICT_PARTS / 3 + 1, 4);
	climbs(CONF_STORE_DOWN_STRICT, RUNG_STORE);
	assert_int_equal(world.account.charges[0].rule.quota, QUOTA - QUOTA / 3);
	assert_int_equal(world.account.charges[0].share, QUOTA / 4);
	hear_list(STRICT_PARTS, 4);
	climbs(CONF_STORE_DOWN_STRICT, RUNG_WAIT);
	assert_int_equal(world.account.charges[0].rule.quota, 0);
}

static void strict_uses_its_share_when_no_window_has_another_one(void **state)
{
	const uint64_t lost_ms = 3 * LEASE_MS + TAIL_MS;
	const uint64_t begins_ms = BEGIN_MS + lost_ms + lost_ms / 16 + WINDOW_MS;

	(void)state;
	struct conf_limit *limit = add(CONF_STORE_DOWN_STRICT);
	hear_list(0, 4);
	looks(limit, RUNG_STORE);
	assert_int_equal(look(limit).nodes, 4);
	world.may_ask = false;
	atomic_store(&world.node.store_links, 0);
	fake_store_at(begins_ms);
	climbs(CONF_STORE_DOWN_STRICT, RUNG_WAIT);
	looks(limit, RUNG_WAIT);
	fake_store_at(begins_ms + 1);
	climbs(CONF_STORE_DOWN_STRICT, RUNG_SHARE);
	looks(limit, RUNG_SHARE);
	assert_int_equal(world.account.charges[0].share, QUOTA / 4);
}

/* Of leases the tail is their term, if that is longer. */
static void a_lease_of_strict_has_a_longer_tail(void **state)
{
	(void)state;
	hear_list(0, 4);
	climb(CONF_STORE_DOWN_STRICT, true);
	uint64_t late_ns = world.account.charges[0].late_ns;
	world.account.charges[0].way = way_of(CONF_FLEET_LEASE);
	ladder_climb(&world.account, true);
	assert_int_equal(world.account.charges[0].late_ns - late_ns,
		(WINDOW_MS / 4 - TIMEOUT_MS) * FAKE_STORE_MS);
}

/* ---- for people ------------------------------------------------------------------------------ */

static void a_limit_is_well_when_all_workers_are(void **state)
{
	(void)state;
	struct conf_limit *limit = add(CONF_STORE_DOWN_UNSET);
	looks(limit, RUNG_STORE);
	assert_int_equal(look(limit).nodes, NODES);
	assert_int_equal(look(limit).down, CONF_STORE_DOWN_LOCAL);
	atomic_store(&world.node.store_links, 1);
	looks(limit, RUNG_SHARE);
	ladder_back(ladder(), 0, BEGIN_MS);
	atomic_store(&world.node.store_links, 2);
	looks(limit, RUNG_RETURNING);
}

static bool note(void)
{
	return ladder_note(world.fleet.authority, &world.node, &fake_store.conf,
		fake_store.now_ns / FAKE_STORE_MS);
}

static void the_log_says_what_two_looks_have_found(void **state)
{
	(void)state;
	add(CONF_STORE_DOWN_LOCAL);
	add(CONF_STORE_DOWN_REFUSE);
	add(CONF_STORE_DOWN_LOCAL)->fleet_way = CONF_FLEET_SPLIT; /* has no rung */
	assert_true(note());
	assert_false(note());
	assert_string_equal(lines.text, ""); /* it begins well */
	atomic_store(&world.node.store_links, 1);
	assert_true(note());
	assert_string_equal(lines.text, ""); /* it may be over soon */
	assert_true(note());
	assert_string_equal(lines.text, "warn limits of the fleet: share (l0), refuse (l1)\n");
	assert_true(note());
	atomic_store(&world.node.store_links, 2);
	assert_true(note());
	atomic_store(&world.node.store_links, 1);
	assert_true(note()); /* it was well for one look */
	assert_true(note());
	assert_string_equal(lines.text, "warn limits of the fleet: share (l0), refuse (l1)\n");
	lines_clear();
	atomic_store(&world.node.store_links, 2);
	assert_true(note());
	assert_false(note());
	assert_string_equal(lines.text, "info limits of the fleet: store (l0, l1)\n");
}

static void a_short_change_is_not_said(void **state)
{
	(void)state;
	add(CONF_STORE_DOWN_LOCAL);
	note();
	note();
	atomic_store(&world.node.store_links, 0);
	assert_true(note());
	atomic_store(&world.node.store_links, 2);
	assert_false(note());
	assert_false(note());
	assert_string_equal(lines.text, "");
}

static void a_node_that_begins_without_its_store_says_so(void **state)
{
	(void)state;
	add(CONF_STORE_DOWN_REFUSE);
	atomic_store(&world.node.store_links, 0);
	note();
	note();
	assert_string_equal(lines.text, "warn limits of the fleet: refuse (l0)\n");
}

static void a_line_names_so_many_limits(void **state)
{
	(void)state;
	for (unsigned i = 0; i < LIMITS; i++)
		add(i < 9 ? CONF_STORE_DOWN_ADMIT : CONF_STORE_DOWN_REFUSE);
	atomic_store(&world.node.store_links, 0);
	note();
	note();
	assert_string_equal(lines.text, "warn limits of the fleet: refuse (l9, l10, l11), "
					"admit (l0, l1, l2, l3, l4, l5, l6, l7, ...)\n");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

UNIT_SUITE(test_ladder)
{
	const struct CMUnitTest tests[] = {
		TEST(its_own_word_is_before_that_of_the_fleet),
		TEST(what_shares_cannot_divide_refuses),
		TEST(a_site_has_strict_if_a_limit_is),
		TEST(a_request_is_on_the_rung_of_its_worker),
		TEST(without_members_there_is_no_share),
		TEST(after_a_loss_both_judge_for_a_while),
		TEST(a_store_that_forgot_is_doubted_for_a_window),
		TEST(a_young_store_is_not_trusted),
		TEST(a_caller_that_a_share_admitted_keeps_to_it),
		TEST(a_store_that_is_mostly_late_admits_only_within_shares),
		TEST(parts_of_a_cluster_are_apart),
		TEST(strict_waits_until_it_knows_the_list_and_the_memory),
		TEST(strict_leaves_lost_nodes_their_shares),
		TEST(strict_uses_its_share_when_no_window_has_another_one),
		TEST(a_lease_of_strict_has_a_longer_tail),
		TEST(a_limit_is_well_when_all_workers_are),
		TEST(the_log_says_what_two_looks_have_found),
		TEST(a_short_change_is_not_said),
		TEST(a_node_that_begins_without_its_store_says_so),
		TEST(a_line_names_so_many_limits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
