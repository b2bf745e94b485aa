/*
 * What nodes of a fleet admit of one caller with store_down = strict while they lose the store and
 * find it again, each at its own time, while the store loses its memory, and while nodes are
 * killed: by the proxy's own rung.h, strict.h, debts and tables, and a list of nodes as strict.lua
 * has it. Calls and their answers take a while; those of a lost connection may be executed much
 * later.
 *
 *   strict [--seed N] [--schedules N] [--without wait | quota | debts | echo | memory | young]
 *
 * Held against the promise: no window has more than L, ever; windows are shorter than W by the time
 * that an answer may take, as the store charges earlier than the node admits. Exit status 1: some
 * schedule broke it.
 * `--without` leaves a part of the rule out, which must then be found.
 */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fleet/debts.h"
#include "fleet/reserve.h"
#include "fleet/rung.h"
#include "fleet/strict.h"
#include "throttle/throttle.h"

#include "../unit/random.h"
#include "schedules.h"

enum {
	NODES_MOST = 5,
	MOST_DEBTS = 1000,
	ENTRIES_MOST = 64,
	CALLS_MOST = 512,
	END_MS = 60000,
	ADMITTED_MOST = 1 << 16,
	TIMEOUT_MS = 100,
	DELAY_MS = 20, /* of a call or its answer, at most */
	MS = 1000000,
};

#define BEGIN_NS UINT64_C(1800000000000000000)
#define NEVER    UINT64_MAX

enum part { NONE, WAIT, QUOTA, DEBTS, ECHO, MEMORY, YOUNG };

/* strict.lua's, in ms; of a process. */
struct entry {
	unsigned process;
	uint64_t number, divisor, live_ms, ends_ms;
};

struct list {
	uint64_t since_ms, forgot_ms, young_ms; /* since_ms 0: there is none */
	bool is_noticed;                        /* a node has come that knew the one before */
	struct entry all[ENTRIES_MOST];
	unsigned count;
};

/* On its way to the store, and back. */
struct call {
	unsigned node, process, connection;
	bool is_judge, is_executed;
	uint64_t sent_ms, executes_ms, answers_ms;
	/* of judge: */
	uint64_t quota, late_ns;
	bool fits;
	/* of the list: */
	uint64_t number, held, echo_ms, known_ms, debt;
	uint64_t now_ms, since_ms, given, lost;
};

struct node {
	struct throttle_table *table;
	struct debts debts;
	struct strict strict;
	unsigned process, connection;
	bool has_store, knows_memory, is_asking;
	uint64_t number, echo_ms, since_ms, calls_ms, last_ms;
	uint64_t changes_ms;
};

struct world {
	struct random random;
	enum part without;
	unsigned nodes, processes;
	uint64_t quota, now_ms, forgot_ms, forgets_ms, kills_ms, pace;
	struct strict_times times;
	struct node all[NODES_MOST];
	struct list list;
	struct call calls[CALLS_MOST];
	unsigned call_count;
	uint64_t store[ADMITTED_MOST], admitted[ADMITTED_MOST];
	size_t store_count, store_first, admitted_count;
};

static const struct throttle_key caller = {1, UINT64_C(1) << 40};

static uint64_t now_ns(const struct world *world)
{
	return BEGIN_NS + world->now_ms * MS;
}

/* ---- the store ------------------------------------------------------------------------------- */

/* What the epoch says in the proxy (judge.lua); here since when the list is kept. */
static struct rung_facts memory_of(const struct world *world)
{
	const struct list *list = &world->list;
	bool is_young = list->since_ms != 0 && !list->is_noticed && world->without != YOUNG;

	return (struct rung_facts){
		.now_ms = world->now_ms,
		.has_forgotten = list->is_noticed,
		.forgot_ms = list->since_ms,
		.young_ms = is_young ? list->since_ms + 2 * world->times.lease_ms : 0,
	};
}

static bool store_take(struct world *world, uint64_t quota)
{
	struct rung_facts memory = memory_of(world);

	if (rung_lacks_memory(&memory, world->times.window_ms))
		return false;
	while (world->store_first < world->store_count &&
		world->store[world->store_first] + world->times.window_ms <= world->now_ms)
		world->store_first++;
	if (world->store_count - world->store_first >= quota || world->store_count == ADMITTED_MOST)
		return false;
	world->store[world->store_count++] = world->now_ms;
	return true;
}

static void store_charge(struct world *world, uint64_t cost)
{
	while (cost-- > 0 && world->store_count < ADMITTED_MOST)
		world->store[world->store_count++] = world->now_ms;
}

static struct entry *entry_of(struct list *list, unsigned process)
{
	for (unsigned i = 0; i < list->count; i++) {
		if (list->all[i].process == process)
			return &list->all[i];
	}
	if (list->count == ENTRIES_MOST)
		abort();
	list->all[list->count] = (struct entry){.process = process};
	return &list->all[list->count++];
}

static void drop_old(struct list *list, uint64_t now_ms)
{
	for (unsigned i = 0; i < list->count;) {
		if (list->all[i].ends_ms <= now_ms)
			list->all[i] = list->all[--list->count];
		else
			i++;
	}
}

static double sum(const struct list *list, uint64_t now_ms, bool live)
{
	double all = 0;

	for (unsigned i = 0; i < list->count; i++) {
		const struct entry *entry = &list->all[i];
		if (entry->divisor > 0 && (entry->live_ms > now_ms) == live)
			all += 1 / (double)entry->divisor;
	}
	return all;
}

static uint64_t list_give(struct list *list, struct entry *own, uint64_t held, uint64_t now_ms)
{
	own->divisor = 0;
	double left = 1 - sum(list, now_ms, true) - sum(list, now_ms, false);
	uint64_t given = 0;

	if (now_ms < list->young_ms || now_ms < list->forgot_ms) {
		given = held > 0 && 1 / (double)held <= left + 1e-6 ? held : 0;
	} else if (left > 1e-6) {
		given = (uint64_t)ceil(1 / left - 1e-9);
		given = given > list->count ? given : list->count;
	}
	own->divisor = held > 0 && (given == 0 || held < given) ? held : given;
	return given;
}

static void list_hear(struct world *world, struct call *call)
{
	struct list *list = &world->list;
	struct entry *own = entry_of(list, call->process);
	uint64_t lease_ms = world->times.lease_ms;

	if (call->number <= own->number)
		return;
	bool knew_another = call->known_ms != 0 && call->known_ms != list->since_ms;
	list->is_noticed |= knew_another;
	if (knew_another)
		list->forgot_ms =
			world->without == MEMORY ? 0 : world->now_ms + world->times.kept_ms;
	else if (world->without == ECHO)
		own->live_ms = world->now_ms + 2 * lease_ms;
	else if (call->echo_ms != 0 && call->echo_ms + 2 * lease_ms > own->live_ms)
		own->live_ms = call->echo_ms + 2 * lease_ms;
	own->ends_ms = world->now_ms + world->times.kept_ms;
	own->number = call->number;
	call->given = list_give(list, own, call->held, world->now_ms);
}

/* The rule holds as long as a node that remembers calls while the store is young: one that was
 * never killed, and knew the list before. */
static void bring_witness(struct world *world)
{
	struct node *node = &world->all[world->nodes - 1];
	uint64_t lease_ms = world->times.lease_ms;

	if (node->has_store)
		node->changes_ms = world->now_ms + 2 * lease_ms;
	else
		node->changes_ms = world->now_ms + random_below(&world->random, lease_ms);
}

static void list_execute(struct world *world, struct call *call)
{
	struct list *list = &world->list;

	store_charge(world, call->debt);
	if (list->since_ms == 0 && world->forgot_ms != 0)
		bring_witness(world);
	if (list->since_ms == 0)
		*list = (struct list){.since_ms = world->now_ms,
			.young_ms = world->now_ms + 2 * world->times.lease_ms};
	drop_old(list, world->now_ms);
	list_hear(world, call);
	bool is_young = world->now_ms < list->young_ms && world->without != YOUNG;
	double lost = world->now_ms < list->forgot_ms || is_young
			      ? 1 - sum(list, world->now_ms, true)
			      : sum(list, world->now_ms, false);
	call->lost = lost <= 0 ? 0 : (uint64_t)ceil(lost * (double)STRICT_PARTS);
	call->lost = call->lost > STRICT_PARTS ? STRICT_PARTS : call->lost;
	call->now_ms = world->now_ms;
	call->since_ms = list->since_ms;
}

static void forget(struct world *world)
{
	world->list = (struct list){0};
	world->store_first = world->store_count;
	world->forgot_ms = world->now_ms;
	world->call_count = 0; /* all connections are lost (change_all) */
}

/* ---- calls ----------------------------------------------------------------------------------- */

/* Those of a connection are executed in their order. */
static struct call *new_call(struct world *world, unsigned i)
{
	struct node *node = &world->all[i];
	struct call *call;
	uint64_t at_ms = world->now_ms + 1 + random_below(&world->random, DELAY_MS);

	if (world->call_count == CALLS_MOST)
		return NULL;
	node->last_ms = at_ms > node->last_ms ? at_ms : node->last_ms;
	call = &world->calls[world->call_count++];
	*call = (struct call){.node = i,
		.process = node->process,
		.connection = node->connection,
		.sent_ms = world->now_ms,
		.executes_ms = node->last_ms,
		.answers_ms = node->last_ms + 1 + random_below(&world->random, DELAY_MS)};
	return call;
}

static bool sum_debt(void *whose, const struct debt *debt, uint64_t cost)
{
	(void)debt;
	*(uint64_t *)whose += cost;
	return true;
}

static void call_list(struct world *world, unsigned i)
{
	struct node *node = &world->all[i];
	struct strict_view view = strict_look(&node->strict);
	struct call *call = new_call(world, i);

	if (!call)
		return;
	debts_pay(&node->debts, now_ns(world), sum_debt, &call->debt);
	if (world->without == DEBTS)
		call->debt = 0;
	call->number = ++node->number;
	call->held = strict_held(&view, world->times.kept_ms, now_ns(world));
	call->echo_ms = node->echo_ms;
	call->known_ms = node->since_ms;
	node->is_asking = true;
}

static void adopt(struct world *world, struct node *node, const struct call *call)
{
	struct strict_view view = {.asked_ns = BEGIN_NS + call->sent_ms * MS,
		.answered_ns = now_ns(world),
		.divisor = call->given,
		.lost = call->lost};

	debts_paid(&node->debts, true, now_ns(world));
	strict_set(&node->strict, &view);
	if (node->since_ms != call->since_ms)
		node->echo_ms = 0;
	node->since_ms = call->since_ms;
	if (debts_is_clear(&node->debts))
		node->echo_ms = call->now_ms;
	node->is_asking = false;
	node->knows_memory = true;
	node->calls_ms = world->now_ms + world->times.lease_ms / 3;
}

static void admit(struct world *world)
{
	if (world->admitted_count < ADMITTED_MOST)
		world->admitted[world->admitted_count++] = world->now_ms;
}

static void answer(struct world *world, const struct call *call)
{
	struct node *node = &world->all[call->node];
	struct rung_facts memory = memory_of(world);

	if (call->connection != node->connection || call->process != node->process)
		return;
	if (!call->is_judge)
		adopt(world, node, call);
	else if (call->fits && world->now_ms <= call->sent_ms + TIMEOUT_MS &&
		 now_ns(world) < call->late_ns &&
		 !rung_lacks_memory(&memory, world->times.window_ms))
		admit(world);
}

static void run_calls(struct world *world)
{
	for (unsigned i = 0; i < world->call_count;) {
		struct call *call = &world->calls[i];
		if (!call->is_executed && call->executes_ms <= world->now_ms) {
			call->is_executed = true;
			if (call->is_judge)
				call->fits = store_take(world, call->quota);
			else
				list_execute(world, call);
		}
		if (call->is_executed && call->answers_ms <= world->now_ms) {
			struct call done = *call;
			*call = world->calls[--world->call_count];
			answer(world, &done);
			continue;
		}
		i++;
	}
}

/* ---- nodes ----------------------------------------------------------------------------------- */

static void node_open(struct world *world, struct node *node)
{
	struct throttle_limit limit = {.name = "it",
		.quota = world->quota,
		.window_ns = world->times.window_ms * MS,
		.slots = 0};
	struct throttle_table_options options = {.now_ns = BEGIN_NS};

	*node = (struct node){.has_store = true,
		.process = ++world->processes,
		.calls_ms = world->now_ms,
		.changes_ms = world->now_ms + random_below(&world->random, 20000)};
	node->table = throttle_table_open(&options, &limit, 1, NULL);
	if (!node->table)
		abort();
	debts_init(&node->debts);
	strict_init(&node->strict);
}

static void node_close(struct node *node)
{
	debts_end(&node->debts);
	throttle_table_close(node->table);
}

/* What it has sent is lost, or executed when nobody expects it. */
static void lose(struct world *world, unsigned i)
{
	struct node *node = &world->all[i];
	uint64_t later_ms = random_below(&world->random, 2) * random_below(&world->random, 20000);

	for (unsigned c = 0; c < world->call_count; c++) {
		struct call *call = &world->calls[c];
		if (call->node == i && call->connection == node->connection && !call->is_executed)
			call->executes_ms += later_ms;
	}
	if (node->is_asking)
		debts_paid(&node->debts, false, now_ns(world));
	node->is_asking = node->has_store = node->knows_memory = false;
	node->connection++;
	node->last_ms = 0;
	node->changes_ms = world->now_ms + 50 + random_below(&world->random, 25000);
}

static void find(struct world *world, struct node *node)
{
	node->has_store = true;
	node->calls_ms = world->now_ms;
	node->changes_ms = world->now_ms + 1000 + random_below(&world->random, 20000);
}

/* All know a list when the store forgets it, and one that remembers it is not killed
 * (fleet/strict.h). */
static void put_off(struct world *world)
{
	bool is_unnoticed = world->forgot_ms != 0 && !world->list.is_noticed;

	for (unsigned i = 0; i < world->nodes; i++) {
		if (world->now_ms == world->forgets_ms && world->all[i].since_ms == 0)
			world->forgets_ms++;
	}
	if (world->now_ms == world->kills_ms && is_unnoticed && world->nodes == 1)
		world->kills_ms++;
}

static void change_all(struct world *world)
{
	put_off(world);
	for (unsigned i = 0; i < world->nodes; i++) {
		struct node *node = &world->all[i];
		bool is_lost = world->now_ms == world->forgets_ms;
		if (node->has_store && (is_lost || node->changes_ms <= world->now_ms))
			lose(world, i);
		else if (!node->has_store && node->changes_ms <= world->now_ms)
			find(world, node);
	}
	if (world->now_ms == world->forgets_ms)
		forget(world);
	if (world->now_ms == world->kills_ms) {
		node_close(&world->all[0]);
		node_open(world, &world->all[0]);
	}
}

static enum strict_state state_of(const struct world *world, const struct strict_view *view)
{
	enum strict_state state = strict_state_of(view, &world->times, now_ns(world));

	if (world->without == WAIT && state == STRICT_WAITS && view->divisor > 0 &&
		now_ns(world) > view->answered_ns + (world->times.window_ms + 1) * MS)
		return STRICT_USES;
	return state;
}

static bool use_share(struct world *world, struct node *node, uint64_t divisor)
{
	struct throttle_charge charge = {0, caller, 1};
	struct reserve reserve = {
		.units = world->quota - rung_share(world->quota, (unsigned)divisor)};
	struct throttle_verdict verdict;
	struct throttle_receipt receipt;
	struct debt debt = {.caller = caller,
		.rule = {.quota = world->quota, .window_us = world->times.window_ms * 1000},
		.limit = "it"};

	if (reserve.units == world->quota)
		return false;
	reserve_take(node->table, &charge, &reserve, 1, now_ns(world), &verdict, &receipt);
	return verdict.admitted &&
	       debts_add(&node->debts, &debt, 1, MOST_DEBTS, now_ns(world), NULL);
}

static void judge(struct world *world, unsigned i)
{
	struct node *node = &world->all[i];
	struct strict_view view = strict_look(&node->strict);
	struct rung_facts facts = memory_of(world);

	facts.has_store = node->has_store;
	facts.strict = state_of(world, &view);
	facts.tail_ms = world->times.tail_ms;
	facts.knows_memory = node->knows_memory;
	facts.has_rest = strict_quota(world->quota, view.lost) > 0;
	enum rung rung = rung_of(CONF_STORE_DOWN_STRICT, &facts, world->times.window_ms);
	struct call *call = rung == RUNG_STORE ? new_call(world, i) : NULL;

	if (call) {
		call->is_judge = true;
		call->quota = world->without == QUOTA ? world->quota
						      : strict_quota(world->quota, view.lost);
		call->late_ns = strict_late_ns(&view, &world->times);
	} else if (rung == RUNG_SHARE && use_share(world, node, view.divisor)) {
		admit(world);
	}
}

/* ---- a run ----------------------------------------------------------------------------------- */

static void world_open(struct world *world)
{
	world->now_ms = 1;
	world->nodes = 1 + (unsigned)random_below(&world->random, NODES_MOST);
	world->quota = 1 + random_below(&world->random, 60);
	world->pace = 1 + random_below(&world->random, 15);
	world->times = (struct strict_times){
		.lease_ms = 300 + random_below(&world->random, 1000),
		.kept_ms = 15000 + random_below(&world->random, 40000),
		.tail_ms = strict_tail_ms(TIMEOUT_MS, 0),
		.window_ms = 500 + random_below(&world->random, 4000),
	};
	world->forgets_ms =
		random_below(&world->random, 2) ? random_below(&world->random, END_MS) : NEVER;
	world->kills_ms =
		random_below(&world->random, 3) ? NEVER : random_below(&world->random, END_MS);
	if (world->kills_ms != NEVER && world->forgets_ms != NEVER)
		world->kills_ms = world->forgets_ms + 1 + random_below(&world->random, 1000);
	for (unsigned i = 0; i < world->nodes; i++)
		node_open(world, &world->all[i]);
}

static void step(struct world *world)
{
	change_all(world);
	run_calls(world);
	for (unsigned i = 0; i < world->nodes; i++) {
		struct node *node = &world->all[i];
		if (node->has_store && !node->is_asking && node->calls_ms <= world->now_ms)
			call_list(world, i);
		if (random_below(&world->random, world->pace) == 0)
			judge(world, i);
	}
}

static uint64_t most(const struct world *world)
{
	uint64_t found = 0, window_ms = world->times.window_ms - DELAY_MS;

	for (size_t i = 0, first = 0; i < world->admitted_count; i++) {
		while (world->admitted[first] + window_ms <= world->admitted[i])
			first++;
		found = i + 1 - first > found ? i + 1 - first : found;
	}
	return found;
}

static bool run(void *own, uint64_t seed, unsigned without)
{
	(void)own;
	struct world *world = calloc(1, sizeof(*world));

	if (!world)
		abort();
	world->random = (struct random){seed};
	world->without = (enum part)without;
	world_open(world);
	for (; world->now_ms < END_MS; world->now_ms++)
		step(world);
	bool holds = most(world) <= world->quota;
	for (unsigned i = 0; i < world->nodes; i++)
		node_close(&world->all[i]);
	free(world);
	return holds;
}

int main(int argc, char **argv)
{
	static const struct schedules schedules = {
		.name = "strict",
		.count = 300,
		.parts = {[WAIT] = "wait",
			[QUOTA] = "quota",
			[DEBTS] = "debts",
			[ECHO] = "echo",
			[MEMORY] = "memory",
			[YOUNG] = "young"},
		.run = run,
	};

	return schedules_main(&schedules, argc, argv);
}
