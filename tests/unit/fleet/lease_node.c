#include "tests/unit/fleet/lease_node.h"

#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/container.h"
#include "fleet/fleet.h"
#include "fleet/fleet_ask.h"
#include "fleet/fleet_part.h"
#include "fleet/ladder.h"

static struct lease_node *node_of(const struct fleet_worker *fleet)
{
	return CONTAINER_OF((struct fleet_worker *)(uintptr_t)fleet, struct lease_node, fleet);
}

void lease_node_init(struct lease_node *node, size_t hands, struct stats_block *stats)
{
	struct worker *worker = calloc(1, sizeof(*worker));

	assert(worker);
	worker->memory[PART_FLEET] = &node->fleet;
	worker->stats = stats;
	worker->loop.now_known = true;
	node->fleet.worker = worker;
	node->fleet.authority = &node->authority;
	node->nodes = 1;
	if (!hands_init(&node->hands, hands))
		abort();
	leases_init(&node->fleet.leases, &node->fleet, &node->hands);
}

static void free_batch(struct fleet_batch *batch)
{
	batch_free(&batch->batch);
	free(batch->parts);
	free(batch);
}

void lease_node_end(struct lease_node *node)
{
	if (node->filling)
		free_batch(node->filling);
	while (node->spare) {
		struct fleet_batch *batch = node->spare;
		node->spare = batch->next;
		free_batch(batch);
	}
	leases_end(&node->fleet.leases);
	hands_end(&node->hands);
	free(node->fleet.worker);
}

void lease_node_set_time(struct lease_node *node, uint64_t now_ns)
{
	node->now_ns = now_ns;
	node->fleet.worker->loop.now_ns = now_ns;
	node->fleet.worker->loop.now_ms = now_ns / CLOCK_NS_PER_MS;
}

bool lease_node_is_due(const struct lease_node *node)
{
	return node->fleet.leases.timer.at_ms <= node->now_ns / CLOCK_NS_PER_MS;
}

void lease_node_run_timer(struct lease_node *node)
{
	struct deadline *timer = &node->fleet.leases.timer;

	timer->at_ms = timer->armed_ms = DEADLINE_NEVER;
	timer->passed(timer);
}

struct fleet_batch *lease_node_take_batch(struct lease_node *node)
{
	struct fleet_batch *batch = node->filling;

	node->filling = NULL;
	return batch;
}

void lease_node_put_batch(struct lease_node *node, struct fleet_batch *batch)
{
	batch->next = node->spare;
	node->spare = batch;
}

/* ---- in the place of fleet_part.c and fleet.c ------------------------------------------------ */

bool fleet_can_ask(const struct fleet_worker *fleet, struct throttle_key caller)
{
	(void)caller;
	return !node_of(fleet)->is_away && !node_of(fleet)->is_slow;
}

struct fleet_batch *fleet_filling(struct fleet_worker *fleet, enum fleet_function function,
	struct throttle_key caller, unsigned limits)
{
	struct lease_node *node = node_of(fleet);

	(void)caller;
	assert(function == FLEET_LEASE);
	if (node->is_away)
		return NULL;
	if (node->filling) {
		assert(batch_has_room(&node->filling->batch, limits));
		return node->filling;
	}
	struct fleet_batch *batch = node->spare;
	if (batch) {
		node->spare = batch->next;
	} else {
		batch = calloc(1, sizeof(*batch));
		assert(batch);
		batch->parts = calloc(LEASE_PARTS_MOST, sizeof(*batch->parts));
		assert(batch->parts);
	}
	batch->worker = fleet;
	batch->function = function;
	batch->next = NULL;
	batch->part_count = 0;
	batch_begin(&batch->batch, &batch_lease, "", 0);
	return node->filling = batch;
}

bool ladder_lacks_memory(const struct fleet_worker *fleet, struct throttle_key caller,
	const struct rule *rule, enum fleet_function function)
{
	(void)caller;
	(void)rule;
	assert(function == FLEET_LEASE);
	return node_of(fleet)->lacks_memory;
}

void ladder_keep_to_share(struct fleet_worker *fleet, struct throttle_key caller)
{
	(void)caller;
	node_of(fleet)->kept_to_share++;
}

void fleet_go_on(struct fleet_worker *fleet, struct question *question, bool answered)
{
	struct lease_node *node = node_of(fleet);

	node->went_on(node, question, answered);
}

struct members *fleet_members(struct authority *authority)
{
	struct lease_node *node = CONTAINER_OF(authority, struct lease_node, authority);
	static struct members members; /* of the node that asks, for as long as it looks */

	atomic_store_explicit(&members.count, node->nodes, memory_order_relaxed);
	return &members;
}

/* ---- in the place of clocks ------------------------------------------------------------------ */

uint64_t __wrap_worker_throttle_ns(struct worker *worker);
uint64_t __wrap_worker_throttle_ns(struct worker *worker)
{
	return node_of(worker_fleet(worker))->now_ns;
}
