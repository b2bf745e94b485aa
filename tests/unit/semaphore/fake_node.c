/* See fake_node.h. */
#include "fake_node.h"

#include <stdio.h>
#include <string.h>

#include "base/container.h"

static struct fake_node *node_of(struct broker *broker)
{
	return CONTAINER_OF(
		CONTAINER_OF(broker, struct fake_broker, broker), struct fake_node, connection);
}

/* ---- the broker hears of it at each call ----------------------------------------------------- */

static const struct broker_calls *inner(struct fake_node *node)
{
	node->heard_ms = node->server->now_ms;
	return &node->calls;
}

static enum broker_result declare(struct broker *broker, const char *queue, enum broker_queue kind)
{
	return inner(node_of(broker))->declare(broker, queue, kind);
}

static enum broker_result look(struct broker *broker, const char *queue)
{
	return inner(node_of(broker))->look(broker, queue);
}

static enum broker_result remove_queue(struct broker *broker, const char *queue)
{
	return inner(node_of(broker))->remove(broker, queue);
}

static enum broker_result probe(
	struct broker *broker, const char *const *queues, size_t count, bool *present)
{
	return inner(node_of(broker))->probe(broker, queues, count, present);
}

static uint64_t now_ms(struct broker *broker)
{
	return node_of(broker)->server->now_ms;
}

static void pause_ms(struct broker *broker, unsigned ms)
{
	node_of(broker)->server->now_ms += ms;
}

/* ---- what the keeper calls ------------------------------------------------------------------- */

static struct broker *connect_node(void *ctx, uint64_t *heartbeat_ms, char *why, size_t why_bytes)
{
	static const struct broker_calls calls = {
		declare, look, remove_queue, probe, now_ms, pause_ms};
	struct fake_node *node = ctx;

	if (!*node->server_is_up) {
		snprintf(why, why_bytes, "no connection can be made");
		return NULL;
	}
	fake_connect(&node->connection, node->server, ++*node->connections);
	node->calls = *node->connection.broker.calls;
	node->connection.broker.calls = &calls;
	node->is_connected = true;
	node->heard_ms = node->server->now_ms;
	*heartbeat_ms = FAKE_HEARTBEAT_MS;
	return &node->connection.broker;
}

static void settle_in(void *ctx)
{
	(void)ctx;
}

static void disconnect_node(void *ctx)
{
	fake_node_cut(ctx);
}

static uint64_t now_ns(void *ctx)
{
	const struct fake_node *node = ctx;

	return node->server->now_ms * 1000000;
}

static uint32_t random_below(void *ctx, uint32_t bound)
{
	const struct fake_node *node = ctx;

	return bound == 0 ? 0 : (uint32_t)(node->server->now_ms * 7919) % bound;
}

static void read_use(void *ctx, struct run_queue_use *use)
{
	struct fake_node *node = ctx;

	*use = (struct run_queue_use){node->in_flight, node->peak, node->waiting, UINT32_MAX};
	node->peak = node->in_flight;
}

static void set(void *ctx, const struct keeper_bound *bound, struct run_queue_use *use)
{
	struct fake_node *node = ctx;

	node->bound = *bound;
	read_use(ctx, use);
}

void fake_node_begin(struct fake_node *node, struct fake_server *server, bool *server_is_up,
	unsigned *connections, const struct keeper_config *config)
{
	static const struct keeper_calls calls = {
		connect_node, settle_in, disconnect_node, now_ns, random_below, set, read_use};

	*node = (struct fake_node){.server = server,
		.server_is_up = server_is_up,
		.connections = connections,
		.config = *config};
	keeper_begin(&node->keeper, &calls, node, config);
}

void fake_node_step(struct fake_node *node)
{
	if (node->stands_still)
		return;
	/* Its thread sees the end of its connection when that comes. */
	if (node->keeper.broker && node->connection.is_lost)
		keeper_lost(&node->keeper, "connection closed");
	node->next_ns = keeper_step(&node->keeper);
}

void fake_node_cut(struct fake_node *node)
{
	if (node->is_connected)
		fake_disconnect(&node->connection);
	node->is_connected = false;
}

void fake_node_expire(struct fake_node *node, uint64_t silence_ms)
{
	if (node->is_connected && node->server->now_ms - node->heard_ms >= silence_ms)
		fake_node_cut(node);
}

bool fake_node_start(struct fake_node *node)
{
	if (node->waiting == 0 || node->stands_still || node->bound.slots.refuses ||
		node->in_flight >= node->bound.slots.count ||
		now_ns(node) >= node->bound.slots.until_ns)
		return false;
	node->waiting--;
	node->in_flight++;
	if (node->in_flight > node->peak)
		node->peak = node->in_flight;
	return true;
}

bool fake_node_enter(struct fake_node *node)
{
	if (node->bound.slots.refuses)
		return false;
	node->waiting++;
	return true;
}

void fake_node_finish(struct fake_node *node)
{
	node->in_flight -= node->in_flight > 0;
}

unsigned fake_node_slots(const struct fake_node *node)
{
	unsigned found = 0;

	for (size_t i = 0; node->is_connected && i < node->server->count; i++) {
		const struct fake_queue *queue = &node->server->queues[i];
		char name[96];
		size_t len = strlen(queue->name);
		if (queue->owner != node->connection.id || queue->name[len - 1] != 'B')
			continue;
		snprintf(name, sizeof(name), "%s", queue->name);
		name[len - 1] = 'A';
		found += fake_has(node->server, name);
	}
	return found;
}
