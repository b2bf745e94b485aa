/* Which node probes: nodes with clocks of the test's and a store in memory that has lock.lua's
 * rules. */
#include "fleet/probing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/unit/random.h"
#include "tests/unit/suite.h"

#define NODES    5
#define LEASE_MS 3000

static const struct probing_terms terms = {
	.lease_ms = LEASE_MS, .interval_ms = 1000, .timeout_ms = 500};

/* ---- a store --------------------------------------------------------------------------------- */

static struct world {
	uint64_t now_ms;
	bool is_away;
	char session[LOCK_SESSION_BYTES]; /* "": nobody has the lock */
	uint64_t fence, ends_ms;
	char value[256];
	size_t value_len;
	uint64_t publications;
} world;

static void set_value(const struct lock_ask *ask)
{
	struct findings_reader reader;
	struct findings_head head;

	if (!ask->value)
		return;
	assert_true(ask->value_len < sizeof(world.value));
	memcpy(world.value, ask->value, ask->value_len);
	world.value_len = ask->value_len;
	assert_true(findings_read_head(&reader, world.value, world.value_len, &head));
	assert_true(head.fence == world.fence); /* nobody publishes by another's fence */
	world.publications++;
}

static enum lock_status hold(const struct lock_ask *ask)
{
	uint64_t ends_ms = world.now_ms + ask->lease_ms;

	world.ends_ms = ends_ms > world.ends_ms ? ends_ms : world.ends_ms;
	set_value(ask);
	return LOCK_HELD;
}

static enum lock_status run(const struct lock_ask *ask)
{
	bool is_own = strcmp(world.session, ask->session) == 0;

	switch (ask->verb) {
	case LOCK_TAKE:
		assert_true(ask->number == LOCK_BORN_ANY && !ask->value);
		if (!is_own && *world.session && world.ends_ms > world.now_ms)
			return LOCK_BUSY;
		if (!is_own) {
			snprintf(world.session, sizeof(world.session), "%s", ask->session);
			world.fence++;
			world.ends_ms = 0;
		}
		return hold(ask);
	case LOCK_USE:
		return is_own && ask->number == world.fence ? hold(ask) : LOCK_OVER;
	case LOCK_RELEASE:
		if (!is_own || ask->number != world.fence)
			return LOCK_OVER;
		world.session[0] = '\0';
		return LOCK_FREE;
	case LOCK_LOOK:
		return !*world.session                ? LOCK_FREE
		       : world.ends_ms > world.now_ms ? LOCK_BUSY
						      : LOCK_LAPSED;
	case LOCK_END:
		break;
	}
	fail();
	return LOCK_UNKNOWN;
}

static void forget_all(void)
{
	world.session[0] = '\0';
	world.fence += 1000; /* as the store's time does */
	world.ends_ms = 0;
	world.value_len = 0;
}

/* ---- nodes ----------------------------------------------------------------------------------- */

struct probing_node {
	struct probing probing;
	char self[24];
	uint64_t last_fence; /* of what it has heard */
};

static struct probing_node nodes[NODES];

static void begin(unsigned count)
{
	memset(&world, 0, sizeof(world));
	world.now_ms = 100000;
	world.fence = 5;
	for (unsigned i = 0; i < count; i++) {
		snprintf(nodes[i].self, sizeof(nodes[i].self), "n%u/%x", i, i);
		nodes[i].last_fence = 0;
		probing_begin(&nodes[i].probing, &terms, nodes[i].self, world.now_ms);
	}
}

/* One question and its answer. `is_lost`: the store does it, and the answer does not come. */
static enum probing_outcome talk_once(struct probing_node *node, bool is_lost)
{
	struct lock_ask ask = {
		.session = node->self, .lease_ms = LEASE_MS, .asked_ms = world.now_ms};
	struct lock_answer answer = {.status = LOCK_UNKNOWN};
	struct findings_head head;
	struct findings_reader reader;
	char text[128];
	struct findings_writer writer = {.at = text, .size = sizeof(text)};

	if (probing_ask(&node->probing, &ask, &head)) {
		assert_true(findings_begin(&writer, &head));
		ask.value = text;
		ask.value_len = writer.len;
	}
	if (!world.is_away) {
		answer.status = run(&ask);
		answer.fence = world.fence;
		answer.left_ms = world.ends_ms > world.now_ms ? world.ends_ms - world.now_ms : 0;
		snprintf(answer.session, sizeof(answer.session), "%s", world.session);
		answer.value = world.value;
		answer.value_len =
			ask.verb == LOCK_TAKE || ask.verb == LOCK_LOOK ? world.value_len : 0;
	}
	if (is_lost)
		answer = (struct lock_answer){.status = LOCK_UNKNOWN};
	enum probing_outcome outcome = probing_take(&node->probing, &ask, &answer, &reader);
	if (outcome == PROBING_HEARD) {
		assert_true(node->probing.heard_fence >=
			    node->last_fence); /* never an older prober's */
		node->last_fence = node->probing.heard_fence;
	}
	return outcome;
}

/* As the daemon does: at once again after an election, and when a session is over. */
static void talk(unsigned i)
{
	for (unsigned tries = 0; tries < 3; tries++) {
		enum probing_outcome outcome = talk_once(&nodes[i], false);
		if (outcome != PROBING_ELECTED && outcome != PROBING_OVER)
			return;
	}
}

static enum probes_role role(unsigned i)
{
	return probing_role(&nodes[i].probing, world.now_ms, !world.is_away);
}

static void pass(uint64_t ms, unsigned awake)
{
	uint64_t period_ms = probing_period_ms(&terms);

	for (uint64_t end_ms = world.now_ms + ms; world.now_ms < end_ms;) {
		world.now_ms += period_ms;
		for (unsigned i = 0; i < NODES; i++) {
			if (awake >> i & 1)
				talk(i);
		}
	}
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void one_probes_and_the_others_follow(void **state)
{
	char node[PROBE_NODE_BYTES];

	(void)state;
	begin(3);
	assert_int_equal(role(1), PROBES_WAITING);
	talk(1);
	talk(0);
	talk(2);
	assert_int_equal(role(1), PROBES_PROBER);
	assert_int_equal(role(0), PROBES_FOLLOWER);
	assert_int_equal(role(2), PROBES_FOLLOWER);
	probing_node_of(nodes[0].probing.prober, node);
	assert_string_equal(node, "n1");
	assert_true(probing_is_mine(&nodes[1].probing, 0, false, world.now_ms, true));
	assert_false(probing_is_mine(&nodes[0].probing, world.now_ms, false, world.now_ms, true));
	pass(60000, 7);
	assert_int_equal(role(1), PROBES_PROBER);
	assert_int_equal(role(0), PROBES_FOLLOWER);
	assert_true(world.publications > 100);
}

/* A server that the prober does not know, or whose finding has grown old, is probed by each. */
static void servers_of_a_follower(void **state)
{
	const struct probing *probing = &nodes[1].probing;
	uint64_t bound_ms = probing_bound_ms(&terms);

	(void)state;
	begin(2);
	pass(2 * bound_ms, 3);
	assert_int_equal(role(1), PROBES_FOLLOWER);
	uint64_t now_ms = world.now_ms;
	assert_true(probing_is_mine(probing, now_ms, true, now_ms, true));
	assert_false(probing_is_mine(probing, now_ms - bound_ms, false, now_ms, true));
	assert_true(probing_is_mine(probing, now_ms - bound_ms - 1, false, now_ms, true));
}

static void a_dead_prober_is_followed_by_another(void **state)
{
	(void)state;
	begin(3);
	pass(1000, 7);
	assert_int_equal(role(0), PROBES_PROBER);
	uint64_t fence = world.fence;
	pass(LEASE_MS - 1000, 6);
	assert_int_equal(role(1), PROBES_FOLLOWER); /* the last state is kept */
	pass(1500, 6);
	assert_int_equal(role(1), PROBES_PROBER);
	assert_int_equal(role(2), PROBES_FOLLOWER);
	assert_true(world.fence > fence);
}

/* It neither probes nor publishes before the store has said that it still may. */
static void a_paused_prober_returns(void **state)
{
	(void)state;
	begin(2);
	pass(1000, 3);
	pass(2 * LEASE_MS, 2);
	assert_int_equal(role(1), PROBES_PROBER);
	uint64_t fence = world.fence;
	assert_int_equal(role(0), PROBES_FOLLOWER);
	assert_false(probing_is_mine(&nodes[0].probing, world.now_ms, false, world.now_ms, true));
	uint64_t before = world.publications;
	assert_int_equal(talk_once(&nodes[0], false), PROBING_OVER);
	assert_true(world.publications == before);
	assert_int_equal(talk_once(&nodes[0], false), PROBING_HEARD);
	assert_int_equal(role(0), PROBES_FOLLOWER);
	assert_true(world.fence == fence && nodes[0].probing.heard_fence == fence);
}

/* Nobody took the lock meanwhile: it continues. */
static void a_paused_prober_that_nobody_missed(void **state)
{
	(void)state;
	begin(1);
	pass(1000, 1);
	world.now_ms += 2 * LEASE_MS;
	assert_int_equal(role(0), PROBES_FOLLOWER);
	talk(0);
	assert_int_equal(role(0), PROBES_PROBER);
}

static void without_a_store(void **state)
{
	(void)state;
	begin(2);
	pass(1000, 3);
	world.is_away = true;
	pass(LEASE_MS - 500, 3);
	assert_int_equal(role(1), PROBES_FOLLOWER);
	pass(1000, 3);
	assert_int_equal(role(0), PROBES_ALONE); /* at once: nobody else can have been elected */
	pass(probing_bound_ms(&terms), 3);
	assert_int_equal(role(1), PROBES_ALONE);
	world.is_away = false;
	forget_all();
	talk(1);
	talk(0);
	assert_int_equal(role(1), PROBES_PROBER);
	assert_int_equal(role(0), PROBES_FOLLOWER);
}

static void a_start_without_a_store(void **state)
{
	(void)state;
	begin(1);
	world.is_away = true;
	world.now_ms += 2000;
	talk(0);
	assert_int_equal(role(0), PROBES_WAITING);
	world.now_ms += 1;
	assert_int_equal(role(0), PROBES_ALONE);
}

/* What its predecessor has published under the lock is not the new prober's. */
static void elected_and_silent(void **state)
{
	(void)state;
	begin(3);
	pass(1000, 1);
	nodes[0].probing.is_leaving = true;
	talk(0);
	assert_int_equal(talk_once(&nodes[1], false), PROBING_ELECTED);
	assert_int_equal(talk_once(&nodes[2], false), PROBING_NOTHING);
	assert_int_equal(role(2), PROBES_WAITING);
	assert_int_equal(talk_once(&nodes[1], false), PROBING_NOTHING);
	assert_int_equal(talk_once(&nodes[2], false), PROBING_HEARD);
	assert_int_equal(talk_once(&nodes[2], false), PROBING_NOTHING); /* it has learned of that */
}

static void one_that_leaves(void **state)
{
	(void)state;
	begin(2);
	pass(1000, 3);
	probing_leave(&nodes[0].probing);
	talk(0);
	assert_string_equal(world.session, "");
	talk(0);
	assert_string_equal(world.session, ""); /* it takes it no more, */
	talk(1);
	assert_int_equal(role(1), PROBES_PROBER); /* another does at once, */
	pass(1000, 3);
	assert_int_equal(role(0), PROBES_FOLLOWER); /* and is followed */
	assert_true(nodes[0].probing.heard_fence == world.fence);
}

static void a_lost_answer(void **state)
{
	(void)state;
	begin(2);
	talk_once(&nodes[0], true);
	assert_string_equal(world.session, nodes[0].self);
	assert_int_equal(role(0), PROBES_WAITING);
	talk(1);
	talk(0);
	assert_int_equal(role(0), PROBES_PROBER);
}

static unsigned probers_now(void)
{
	unsigned count = 0;

	for (unsigned i = 0; i < NODES; i++)
		count += role(i) == PROBES_PROBER;
	return count;
}

/* Nodes that stand still, leave and begin again, answers that are lost, a store that is away or
 * forgets: never do two believe to be the prober, and soon after all is well one is. */
static void any_history(struct random *random)
{
	begin(NODES);
	for (unsigned step = 0; step < 400; step++) {
		unsigned i = (unsigned)random_below(random, NODES);
		size_t what = random_below(random, 100);
		if (what < 80)
			talk_once(&nodes[i], random_below(random, 10) == 0);
		else if (what < 92)
			world.now_ms += random_below(random, LEASE_MS / 2);
		else if (what < 94)
			world.now_ms += random_below(random, 3 * LEASE_MS);
		else if (what < 97)
			world.is_away = !world.is_away;
		else if (what < 98)
			probing_leave(&nodes[i].probing);
		else if (what < 99)
			probing_begin(&nodes[i].probing, &terms, nodes[i].self, world.now_ms);
		else
			forget_all();
		if (what < 98)
			assert_true(probers_now() <= 1);
		else
			world.now_ms += 2 * LEASE_MS; /* what the lost one said is over */
	}
	world.is_away = false;
	for (unsigned i = 0; i < NODES; i++)
		nodes[i].probing.is_leaving = false;
	pass(2 * LEASE_MS, (1u << NODES) - 1);
	assert_int_equal(probers_now(), 1);
	for (unsigned i = 0; i < NODES; i++)
		assert_true(role(i) == PROBES_PROBER || role(i) == PROBES_FOLLOWER);
}

static void histories(void **state)
{
	struct random random = random_begin("probing");

	(void)state;
	for (unsigned i = 0; i < 300; i++)
		any_history(&random);
}

static void times(void **state)
{
	static const struct {
		struct probing_terms terms;
		uint64_t period_ms, bound_ms;
	} rows[] = {
		{{10000, 5000, 2000}, 1000, 31000},
		{{1000, 5000, 2000}, 333, 22000},
		{{10000, 100, 10}, 50, 10330},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_true(probing_period_ms(&rows[i].terms) == rows[i].period_ms);
		assert_true(probing_bound_ms(&rows[i].terms) == rows[i].bound_ms);
	}
}

UNIT_SUITE(test_probing)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_probes_and_the_others_follow),
		cmocka_unit_test(servers_of_a_follower),
		cmocka_unit_test(a_dead_prober_is_followed_by_another),
		cmocka_unit_test(a_paused_prober_returns),
		cmocka_unit_test(a_paused_prober_that_nobody_missed),
		cmocka_unit_test(without_a_store),
		cmocka_unit_test(a_start_without_a_store),
		cmocka_unit_test(elected_and_silent),
		cmocka_unit_test(one_that_leaves),
		cmocka_unit_test(a_lost_answer),
		cmocka_unit_test(histories),
		cmocka_unit_test(times),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
