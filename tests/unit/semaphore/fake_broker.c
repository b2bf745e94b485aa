/* See fake_broker.h. */
#include "fake_broker.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/container.h"

static const struct fake_queue *find(const struct fake_server *server, const char *name)
{
	for (size_t i = 0; i < server->count; i++)
		if (strcmp(server->queues[i].name, name) == 0)
			return &server->queues[i];
	return NULL;
}

bool fake_has(const struct fake_server *server, const char *name)
{
	return find(server, name) != NULL;
}

void fake_put(struct fake_server *server, const char *name, bool is_durable, unsigned owner)
{
	struct fake_queue *queue = &server->queues[server->count];

	assert(server->count < FAKE_QUEUES_MOST && !find(server, name));
	server->count++;
	*queue = (struct fake_queue){.is_durable = is_durable, .owner = owner};
	snprintf(queue->name, sizeof(queue->name), "%s", name);
}

bool fake_take(struct fake_server *server, const char *name)
{
	const struct fake_queue *queue = find(server, name);

	if (queue)
		server->queues[queue - server->queues] = server->queues[--server->count];
	return queue != NULL;
}

static enum broker_result say(
	struct fake_broker *connection, enum broker_result result, const char *why)
{
	snprintf(connection->broker.why, sizeof(connection->broker.why), "%s", why);
	return result;
}

void fake_disconnect(struct fake_broker *connection)
{
	struct fake_server *server = connection->server;

	connection->is_lost = true;
	for (size_t i = server->count; i-- > 0;)
		if (server->queues[i].owner == connection->id)
			server->queues[i] = server->queues[--server->count];
}

/* Is the connection there for one more call? Sets whether it ends with it. */
static bool begin(struct fake_broker *connection, bool *ends)
{
	*ends = connection->calls_left == 1;
	if (connection->calls_left > 0)
		connection->calls_left--;
	if (*ends && connection->loses_request && !connection->is_lost)
		fake_disconnect(connection);
	return !connection->is_lost;
}

/* Did the answer come? */
static enum broker_result end(
	struct fake_broker *connection, bool ends, enum broker_result result, const char *why)
{
	if (ends && !connection->is_lost)
		fake_disconnect(connection);
	return connection->is_lost ? say(connection, BROKER_LOST, "connection closed")
				   : say(connection, result, why);
}

static struct fake_broker *connection_of(struct broker *broker)
{
	return CONTAINER_OF(broker, struct fake_broker, broker);
}

static enum broker_result fake_declare(
	struct broker *broker, const char *name, enum broker_queue kind)
{
	struct fake_broker *connection = connection_of(broker);
	bool exclusive = kind == BROKER_EXCLUSIVE, ends;

	if (!begin(connection, &ends))
		return end(connection, ends, BROKER_LOST, "");
	connection->server->declares++;
	if (connection->may_not_configure)
		return end(connection, ends, BROKER_REFUSED, "ACCESS_REFUSED");
	const struct fake_queue *queue = find(connection->server, name);
	if (!queue) {
		fake_put(connection->server, name, !exclusive,
			exclusive ? connection->id : FAKE_NOBODY);
		return end(connection, ends, BROKER_DONE, "");
	}
	if (queue->owner != (exclusive ? connection->id : FAKE_NOBODY))
		return end(connection, ends, BROKER_LOCKED, "RESOURCE_LOCKED");
	if (queue->is_durable != !exclusive)
		return end(connection, ends, BROKER_REFUSED, "PRECONDITION_FAILED");
	return end(connection, ends, BROKER_DONE, "");
}

static enum broker_result fake_look(struct broker *broker, const char *name)
{
	struct fake_broker *connection = connection_of(broker);
	bool ends;

	if (!begin(connection, &ends))
		return end(connection, ends, BROKER_LOST, "");
	const struct fake_queue *queue = find(connection->server, name);
	if (!queue)
		return end(connection, ends, BROKER_MISSING, "NOT_FOUND");
	if (queue->owner != FAKE_NOBODY && queue->owner != connection->id)
		return end(connection, ends, BROKER_LOCKED, "RESOURCE_LOCKED");
	return end(connection, ends, BROKER_DONE, "");
}

static enum broker_result fake_remove(struct broker *broker, const char *name)
{
	struct fake_broker *connection = connection_of(broker);
	bool ends;

	if (!begin(connection, &ends))
		return end(connection, ends, BROKER_LOST, "");
	connection->server->removes++;
	if (connection->may_not_configure)
		return end(connection, ends, BROKER_REFUSED, "ACCESS_REFUSED");
	const struct fake_queue *queue = find(connection->server, name);
	if (queue && queue->owner != FAKE_NOBODY && queue->owner != connection->id)
		return end(connection, ends, BROKER_LOCKED, "RESOURCE_LOCKED");
	fake_take(connection->server, name);
	return end(connection, ends, BROKER_DONE, "");
}

static enum broker_result fake_probe(
	struct broker *broker, const char *const *queues, size_t count, bool *present)
{
	struct fake_broker *connection = connection_of(broker);
	bool ends;

	assert(count <= BROKER_BATCH_MOST);
	if (!begin(connection, &ends))
		return end(connection, ends, BROKER_LOST, "");
	connection->server->probes++;
	enum broker_result result = end(connection, ends, BROKER_DONE, "");
	for (size_t i = 0; result == BROKER_DONE && i < count; i++)
		present[i] = fake_has(connection->server, queues[i]);
	return result;
}

static uint64_t fake_now_ms(struct broker *broker)
{
	return connection_of(broker)->server->now_ms;
}

static void fake_pause(struct broker *broker, unsigned ms)
{
	struct fake_server *server = connection_of(broker)->server;

	server->now_ms += ms;
	server->pauses++;
	if (server->on_pause)
		server->on_pause(server, server->user);
}

void fake_connect(struct fake_broker *connection, struct fake_server *server, unsigned id)
{
	static const struct broker_calls calls = {
		fake_declare, fake_look, fake_remove, fake_probe, fake_now_ms, fake_pause};

	*connection = (struct fake_broker){.broker.calls = &calls, .server = server, .id = id};
}
