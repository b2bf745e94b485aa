/* Nodes that keep slots, under random loads, with nodes that stand still, connections that are cut,
 * a broker that ends and an administrator, beside plain oracles. SEED=n repeats a run; RUNS=n for
 * more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../random.h"
#include "fake_broker.h"
#include "fake_node.h"
#include "tests/unit/suite.h"

enum { NODES = 3, SLOTS_BEGUN = 8, SLOTS_LIMIT = 20, STEPS = 4000 };
enum { LATE_MS = 5000, CHECK_MS = 2000 }; /* a lease; between two looks of a keeper */

struct trial {
	struct fake_server server;
	struct fake_node nodes[NODES];
	unsigned busy[NODES]; /* of 16, how likely a request comes */
	unsigned connections, slots;
	bool is_up;
	uint64_t removed_ms; /* when slots were removed last; 0: never */
	uint64_t back_ms;    /* when the broker is started again */
	uint64_t ended_ms;   /* when it ended last */
	uint64_t still_until_ms[NODES];
	uint64_t started;    /* requests */
	unsigned old[NODES]; /* in flight since before the broker ended, at most */
};

static void name_slot(char name[32], unsigned number)
{
	snprintf(name, 32, "s-%u-A", number);
}

static void begin(struct trial *trial, const struct keeper_config *config)
{
	char name[32];

	memset(trial, 0, sizeof(*trial));
	trial->is_up = true;
	trial->server.now_ms = 1000;
	for (trial->slots = 0; trial->slots < SLOTS_BEGUN;) {
		name_slot(name, ++trial->slots);
		fake_put(&trial->server, name, true, FAKE_NOBODY);
	}
	for (unsigned i = 0; i < NODES; i++)
		fake_node_begin(&trial->nodes[i], &trial->server, &trial->is_up,
			&trial->connections, config);
}

/* All Bs of its connection, those of removed slots, too. */
static unsigned count_held(const struct fake_node *node)
{
	unsigned found = 0;

	for (size_t i = 0; node->is_connected && i < node->server->count; i++) {
		const struct fake_queue *queue = &node->server->queues[i];
		found += queue->owner == node->connection.id && strchr(queue->name, 'B') != NULL;
	}
	return found;
}

/* Does nobody hold a slot for more than it has in flight? */
static bool nobody_begins(const struct trial *trial)
{
	for (unsigned i = 0; i < NODES; i++)
		if (count_held(&trial->nodes[i]) > trial->nodes[i].in_flight)
			return false;
	return true;
}

/* May the node use slots that were removed? Its lease may have begun up to a check after that:
 * where it stood still then, it has not looked since. */
static bool may_use_removed(const struct trial *trial, unsigned i)
{
	bool stood_still = trial->still_until_ms[i] > trial->removed_ms;
	uint64_t most_ms = LATE_MS + (stood_still ? CHECK_MS : 0);

	return trial->removed_ms != 0 && trial->server.now_ms < trial->removed_ms + most_ms;
}

/* One has just begun at a node that refuses without the broker: it has a slot for each. The lease
 * of one that stood still may continue after the broker has ended, while nobody else takes
 * slots. */
static void check_slots(const struct trial *trial, const struct fake_node *node)
{
	if (!node->is_connected && nobody_begins(trial) &&
		trial->server.now_ms < trial->ended_ms + KEEPER_LEASE_MS)
		return;
	bool is_late = may_use_removed(trial, (unsigned)(node - trial->nodes));
	unsigned slots = is_late ? count_held(node) : fake_node_slots(node);

	if (node->in_flight > slots)
		fail_msg("%u in flight by %u slots", node->in_flight, slots);
}

/* Without those that ran when the broker ended: shares are used beside them. */
static unsigned count_in_flight(const struct trial *trial)
{
	unsigned sum = 0;

	for (unsigned i = 0; i < NODES; i++)
		sum += trial->nodes[i].in_flight - trial->old[i];
	return sum;
}

static void finish(struct trial *trial, unsigned i)
{
	fake_node_finish(&trial->nodes[i]);
	trial->old[i] -= trial->old[i] > 0;
}

static void serve(struct trial *trial, struct random *random, unsigned i, bool checks_slots)
{
	struct fake_node *node = &trial->nodes[i];

	if (node->in_flight > 0 && random_below(random, 4) == 0)
		finish(trial, i);
	if (random_below(random, 16) < trial->busy[i] && node->waiting < 20)
		fake_node_enter(node);
	if (node->bound.slots.refuses)
		node->waiting = 0;
	while (fake_node_start(node)) {
		trial->started++;
		if (checks_slots)
			check_slots(trial, node);
	}
}

static void step_nodes(struct trial *trial, struct random *random, bool checks_slots)
{
	for (unsigned i = 0; i < NODES; i++) {
		struct fake_node *node = &trial->nodes[i];
		uint64_t now_ns = trial->server.now_ms * 1000000;
		node->stands_still = trial->server.now_ms < trial->still_until_ms[i];
		fake_node_expire(node, 2 * FAKE_HEARTBEAT_MS);
		if (now_ns >= node->next_ns || random_below(random, 4) == 0) {
			/* Of those that continue, some look at their requests first. */
			if (random_below(random, 2))
				serve(trial, random, i, checks_slots);
			fake_node_step(node);
		}
		serve(trial, random, i, checks_slots);
	}
	trial->server.now_ms += random_below(random, 40);
}

static void administer(struct trial *trial, struct random *random)
{
	bool adds = trial->slots < 2 || (trial->slots < SLOTS_LIMIT && random_below(random, 2));
	char name[32];

	if (adds) {
		name_slot(name, ++trial->slots);
		fake_put(&trial->server, name, true, FAKE_NOBODY);
		return;
	}
	name_slot(name, trial->slots--);
	fake_take(&trial->server, name);
	trial->removed_ms = trial->server.now_ms;
}

static void end_broker(struct trial *trial, struct random *random)
{
	trial->is_up = false;
	trial->ended_ms = trial->server.now_ms;
	trial->back_ms = trial->server.now_ms + 500 + random_below(random, 20000);
	for (unsigned i = 0; i < NODES; i++) {
		trial->old[i] = trial->nodes[i].in_flight;
		trial->nodes[i].stands_still = trial->server.now_ms < trial->still_until_ms[i];
		fake_node_cut(&trial->nodes[i]);
		fake_node_step(&trial->nodes[i]);
	}
}

static void disturb(struct trial *trial, struct random *random)
{
	unsigned i = (unsigned)random_below(random, NODES);

	switch (random_below(random, 8)) {
	case 0:
		trial->still_until_ms[i] = trial->server.now_ms + random_below(random, 40000);
		break;
	case 1:
		/* One that stands still would learn of it a moment too late. */
		if (trial->server.now_ms >= trial->still_until_ms[i]) {
			trial->nodes[i].stands_still = false;
			fake_node_cut(&trial->nodes[i]);
			fake_node_step(&trial->nodes[i]);
		}
		break;
	case 2:
		trial->nodes[i].connection.calls_left = 1 + (unsigned)random_below(random, 30);
		trial->nodes[i].connection.loses_request = random_below(random, 2);
		break;
	case 3:
		if (trial->is_up)
			end_broker(trial, random);
		break;
	case 4:
	case 5:
		administer(trial, random);
		break;
	default:
		trial->busy[i] = (unsigned)random_below(random, 17);
		break;
	}
}

/* However it went: a node that is alone and busy gets every slot within 5 s, once the broker knows
 * the dead nodes. */
static void every_slot_is_usable(struct trial *trial, struct random *random, uint64_t within_ms)
{
	trial->is_up = true;
	for (unsigned i = 0; i < NODES; i++) {
		trial->busy[i] = trial->old[i] = 0;
		trial->nodes[i].in_flight = trial->nodes[i].waiting = 0;
		trial->nodes[i].connection.calls_left = 0;
		trial->still_until_ms[i] = 0;
	}
	trial->nodes[0].stands_still = false;
	for (uint64_t end = trial->server.now_ms + 20000; trial->server.now_ms < end;)
		step_nodes(trial, random, false);
	for (uint64_t end = trial->server.now_ms + within_ms; trial->server.now_ms < end;) {
		trial->nodes[0].waiting = SLOTS_LIMIT + 5;
		step_nodes(trial, random, false);
		if (fake_node_slots(&trial->nodes[0]) == trial->slots)
			return;
	}
	fail_msg("%u of %u slots are usable", fake_node_slots(&trial->nodes[0]), trial->slots);
}

static unsigned count_runs(void)
{
	const char *given = getenv("RUNS");

	return given ? (unsigned)atoi(given) : 20;
}

static void nothing_begins_without_a_slot(void **state)
{
	static const struct keeper_config refusing = {
		.name = "s", .size = SLOTS_BEGUN, .idle_ms = 2000, .refuses = true};
	struct random random = random_begin("nodes that refuse without a broker");
	static struct trial trial;
	uint64_t started = 0;

	(void)state;
	for (unsigned run = count_runs(); run > 0; run--) {
		begin(&trial, &refusing);
		for (unsigned i = 0; i < STEPS; i++) {
			if (!trial.is_up && trial.server.now_ms >= trial.back_ms)
				trial.is_up = true;
			if (random_below(&random, 60) == 0)
				disturb(&trial, &random);
			step_nodes(&trial, &random, true);
		}
		every_slot_is_usable(&trial, &random, 5000);
		started += trial.started;
	}
	assert_true(started > 0);
}

/* All lose the broker at once, and find it again one by one: shares and slots together are never
 * more than there are slots. Nodes stand still meanwhile. */
static void shares_and_slots_are_never_too_many(void **state)
{
	static const struct keeper_config local = {
		.name = "s", .size = SLOTS_BEGUN, .nodes = NODES, .idle_ms = 2000};
	struct random random = random_begin("nodes with shares without a broker");
	static struct trial trial;
	uint64_t started = 0;

	(void)state;
	for (unsigned run = count_runs(); run > 0; run--) {
		begin(&trial, &local);
		for (unsigned i = 0; i < STEPS; i++) {
			if (!trial.is_up && trial.server.now_ms >= trial.back_ms)
				trial.is_up = true;
			unsigned what = (unsigned)random_below(&random, 200);
			unsigned which = (unsigned)random_below(&random, NODES);
			if (what == 0 && trial.is_up)
				end_broker(&trial, &random);
			else if (what == 1 && !trial.is_up)
				trial.still_until_ms[which] =
					trial.server.now_ms + random_below(&random, 30000);
			else if (what < 6)
				trial.busy[which] = (unsigned)random_below(&random, 17);
			step_nodes(&trial, &random, false);
			if (count_in_flight(&trial) > SLOTS_BEGUN)
				fail_msg("%u in flight", count_in_flight(&trial));
		}
		every_slot_is_usable(&trial, &random, 5000);
		started += trial.started;
	}
	assert_true(started > 0);
}

UNIT_SUITE(test_keeper_random)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_begins_without_a_slot),
		cmocka_unit_test(shares_and_slots_are_never_too_many),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
