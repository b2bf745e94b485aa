/*
 * What nodes of a fleet admit of one caller while they lose the store and find it again, at random
 * times: the rungs, debts, reserves and tables as the proxy has them, and a store that is a list.
 *
 *   ladder [--seed N] [--schedules N] [--without returning | debts | own]
 *
 * Held against store_down = local (proxy/fleet/rung.h): no window has more than L and the shares of
 * all nodes but one, and none more than L unless it overlaps a change: a moment at which a node
 * loses the store, or the time in which one lacks it while another has had it for longer than
 * RUNG_RETURN_MS. Exit status 1: some schedule broke this. `--without` leaves a part of the rule
 * out, which must then be found.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fleet/debts.h"
#include "fleet/reserve.h"
#include "fleet/rung.h"
#include "throttle/throttle.h"

#include "../unit/random.h"
#include "schedules.h"

enum { NODES_MOST = 5, MOST_DEBTS = 1000, END_MS = 90000, ADMITTED_MOST = 1 << 17, MS = 1000000 };

#define BEGIN_NS UINT64_C(1800000000000000000)

enum part { NONE, RETURNING, DEBTS, OWN };

struct node {
	struct throttle_table *table;
	struct debts debts;
	bool has_store;
	uint64_t back_ms, changes_ms; /* when its connection is lost or found next */
};

/* One run. */
struct world {
	struct random random;
	enum part without;
	unsigned nodes;
	uint64_t quota, window_ms, now_ms, forgot_ms;
	bool has_forgotten, together;
	uint64_t back_ms, forgets_ms; /* of an outage of all */
	uint64_t pace;                /* a request in so many ms, on average */
	unsigned busy;                /* the node that they come to; from nodes on: any */
	struct node all[NODES_MOST];
	uint64_t *store; /* when each of its charges was made, in order */
	size_t store_count, store_first;
	uint64_t *admitted; /* when, in order */
	size_t admitted_count;
	bool *is_change; /* of each ms */
};

static const struct throttle_key caller = {1, UINT64_C(1) << 40};

static uint64_t now_ns(const struct world *world)
{
	return BEGIN_NS + world->now_ms * MS;
}

/* ---- the store ------------------------------------------------------------------------------- */

static bool store_fits(struct world *world)
{
	while (world->store_first < world->store_count &&
		world->store[world->store_first] + world->window_ms <= world->now_ms)
		world->store_first++;
	return world->store_count - world->store_first < world->quota;
}

static void store_charge(struct world *world, uint64_t cost)
{
	while (cost-- > 0 && world->store_count < ADMITTED_MOST)
		world->store[world->store_count++] = world->now_ms;
}

static void store_forget(struct world *world)
{
	world->store_first = world->store_count;
	world->has_forgotten = true;
	world->forgot_ms = world->now_ms;
}

/* ---- a node ---------------------------------------------------------------------------------- */

static void node_open(struct world *world, struct node *node)
{
	struct throttle_limit limit = {.name = "it",
		.quota = world->quota,
		.window_ns = world->window_ms * MS,
		.slots = 0};
	struct throttle_table_options options = {.now_ns = BEGIN_NS};

	*node = (struct node){.has_store = true};
	node->table = throttle_table_open(&options, &limit, 1, NULL);
	if (!node->table)
		abort();
	debts_init(&node->debts);
	node->changes_ms = random_below(&world->random, END_MS);
}

static enum rung rung_of_node(const struct world *world, const struct node *node)
{
	struct rung_facts facts = {
		.now_ms = world->now_ms,
		.has_store = node->has_store,
		.back_ms = world->without == RETURNING ? 0 : node->back_ms,
		.has_forgotten = world->has_forgotten && world->without != RETURNING,
		.forgot_ms = world->forgot_ms,
		.has_share = true,
	};

	return rung_of(CONF_STORE_DOWN_LOCAL, &facts, world->window_ms);
}

static bool take_share(struct world *world, struct node *node, struct throttle_receipt *receipt)
{
	struct throttle_charge charge = {0, caller, 1};
	struct reserve reserve = {.units = world->quota - rung_share(world->quota, world->nodes)};
	struct throttle_verdict verdict;

	if (reserve.units == world->quota)
		return false;
	reserve_take(node->table, &charge, &reserve, 1, now_ns(world), &verdict, receipt);
	return verdict.admitted;
}

static void count_own(struct world *world, struct node *node)
{
	struct throttle_receipt receipt = {.count = 1};

	receipt.held[0] = (struct throttle_held){.limit = 0, .caller = caller};
	if (world->without != OWN)
		throttle_settle(node->table, &receipt, 0, 1, now_ns(world));
}

static bool owe(struct world *world, struct node *node)
{
	struct debt debt = {.caller = caller,
		.rule = {.quota = world->quota, .window_us = world->window_ms * 1000},
		.limit = "it"};

	return world->without == DEBTS ||
	       debts_add(&node->debts, &debt, 1, MOST_DEBTS, now_ns(world), NULL);
}

static bool judge(struct world *world, struct node *node)
{
	struct throttle_receipt receipt;

	switch (rung_of_node(world, node)) {
	case RUNG_STORE:
		if (!store_fits(world))
			return false;
		store_charge(world, 1);
		count_own(world, node);
		return true;
	case RUNG_RETURNING:
		if (!take_share(world, node, &receipt))
			return false;
		if (!store_fits(world)) {
			throttle_refund_all(node->table, &receipt, now_ns(world));
			return false;
		}
		store_charge(world, 1);
		return true;
	case RUNG_SHARE:
	case RUNG_WAIT:
	case RUNG_REFUSE:
	case RUNG_ADMIT:
	case RUNGS:
		return take_share(world, node, &receipt) && owe(world, node);
	}
	return false;
}

static bool pay(void *whose, const struct debt *debt, uint64_t cost)
{
	(void)debt;
	store_charge(whose, cost);
	return true;
}

static void node_change(struct world *world, struct node *node)
{
	node->has_store = !node->has_store;
	if (!node->has_store)
		return;
	debts_pay(&node->debts, now_ns(world), pay, world);
	debts_paid(&node->debts, true, now_ns(world));
	node->back_ms = world->now_ms;
}

/* ---- a run ----------------------------------------------------------------------------------- */

/* All lose the store at nearly the same time, and find it within the time of a return. */
static void plan_outage(struct world *world)
{
	uint64_t at_ms = world->now_ms + random_below(&world->random, 20000);

	for (unsigned i = 0; i < world->nodes; i++)
		world->all[i].changes_ms = at_ms + random_below(&world->random, 500);
}

/* After a change. In an outage of all each node comes back once. */
static void plan_next(struct world *world, struct node *node)
{
	if (world->together)
		node->changes_ms = node->has_store
					   ? UINT64_MAX
					   : world->back_ms + random_below(&world->random, 9000);
	else
		node->changes_ms = world->now_ms + 1000 * node->has_store +
				   random_below(&world->random, 30000);
}

static void note_change(struct world *world, bool is_loss)
{
	bool has_lost = false, has_free = false;

	for (unsigned i = 0; i < world->nodes; i++) {
		const struct node *node = &world->all[i];
		has_lost |= !node->has_store;
		has_free |= node->has_store &&
			    (node->back_ms == 0 || world->now_ms >= node->back_ms + RUNG_RETURN_MS);
	}
	world->is_change[world->now_ms] = is_loss || (has_lost && has_free);
}

/* The most in a window, of all or of those that overlap no change. */
static uint64_t most(const struct world *world, bool calm)
{
	uint64_t found = 0, last_change = 0;
	size_t first = 0;

	for (size_t i = 0, at = 0; i < world->admitted_count; i++) {
		for (; at <= world->admitted[i]; at++)
			last_change = world->is_change[at] ? at + 1 : last_change;
		while (world->admitted[first] + world->window_ms <= world->admitted[i])
			first++;
		size_t from = first;
		while (calm && from <= i && world->admitted[from] < last_change)
			from++;
		found = i + 1 - from > found ? i + 1 - from : found;
	}
	return found;
}

static void world_open(struct world *world)
{
	bool forgets;

	world->nodes = 1 + (unsigned)random_below(&world->random, NODES_MOST);
	world->quota = 1 + random_below(&world->random, 120);
	world->window_ms = 1000 + random_below(&world->random, 20000);
	world->pace = 1 + random_below(&world->random, 4);
	world->store = calloc(ADMITTED_MOST, sizeof(*world->store));
	world->admitted = calloc(ADMITTED_MOST, sizeof(*world->admitted));
	world->is_change = calloc(END_MS + 1, sizeof(*world->is_change));
	if (!world->store || !world->admitted || !world->is_change)
		abort();
	for (unsigned i = 0; i < world->nodes; i++)
		node_open(world, &world->all[i]);
	world->together = random_below(&world->random, 2) == 0;
	forgets = random_below(&world->random, 2) == 0;
	if (!world->together)
		return;
	plan_outage(world);
	world->back_ms = 21000 + random_below(&world->random, 30000);
	world->forgets_ms = forgets ? world->back_ms - 1 : UINT64_MAX;
}

static void world_close(struct world *world)
{
	for (unsigned i = 0; i < world->nodes; i++) {
		debts_end(&world->all[i].debts);
		throttle_table_close(world->all[i].table);
	}
	free(world->store);
	free(world->admitted);
	free(world->is_change);
}

/* A request comes to one of the nodes, or to one that is busy for a while. */
static void ask_some_node(struct world *world)
{
	unsigned i = world->busy;

	if (random_below(&world->random, 3000) == 0)
		world->busy = (unsigned)random_below(&world->random, world->nodes + 1);
	if (random_below(&world->random, world->pace) != 0)
		return;
	if (i >= world->nodes)
		i = (unsigned)random_below(&world->random, world->nodes);
	if (judge(world, &world->all[i]) && world->admitted_count < ADMITTED_MOST)
		world->admitted[world->admitted_count++] = world->now_ms;
}

static void step(struct world *world)
{
	bool is_loss = false;

	if (world->together && world->now_ms == world->forgets_ms)
		store_forget(world);
	for (unsigned i = 0; i < world->nodes; i++) {
		struct node *node = &world->all[i];
		if (node->changes_ms > world->now_ms)
			continue;
		is_loss |= node->has_store;
		node_change(world, node);
		plan_next(world, node);
	}
	note_change(world, is_loss);
	ask_some_node(world);
}

/* What was found, in thousandths of the quota: in any window, and where nothing changes. */
struct found {
	uint64_t all, calm;
	bool holds;
};

static struct found run(uint64_t seed, enum part without)
{
	struct world world = {.random = {seed}, .without = without};
	struct found found;

	world_open(&world);
	for (; world.now_ms < END_MS; world.now_ms++)
		step(&world);
	found.all = most(&world, false);
	found.calm = most(&world, true);
	found.holds = found.all <= world.quota + (world.nodes - 1) *
							 rung_share(world.quota, world.nodes) &&
		      found.calm <= world.quota;
	found.all = found.all * 1000 / world.quota;
	found.calm = found.calm * 1000 / world.quota;
	world_close(&world);
	return found;
}

static bool run_one(void *own, uint64_t seed, unsigned without)
{
	struct found *worst = own, found = run(seed, (enum part)without);

	worst->all = found.all > worst->all ? found.all : worst->all;
	worst->calm = found.calm > worst->calm ? found.calm : worst->calm;
	return found.holds;
}

int main(int argc, char **argv)
{
	struct found worst = {0};
	struct schedules schedules = {
		.name = "ladder",
		.count = 1000,
		.parts = {[RETURNING] = "returning", [DEBTS] = "debts", [OWN] = "own"},
		.run = run_one,
		.own = &worst,
	};
	int status = schedules_main(&schedules, argc, argv);

	printf("# at most %.3f of the quota in a window, %.3f where nothing changes\n",
		(double)worst.all / 1000, (double)worst.calm / 1000);
	return status;
}
