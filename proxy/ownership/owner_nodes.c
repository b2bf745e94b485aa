#include "ownership/owner_nodes.h"

#include <event2/util.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ownership/owner_table.h"
#include "ownership/owner_use.h"
#include "upstream/server_connection.h"
#include "upstream/upstream.h"
#include "worker/worker.h"

enum {
	NODES_MOST = 4096, /* instances, those that leave included */
	IDLE_MOST = 64,    /* connections that a worker keeps */
	CONNECT_MS = 1000,
	SEND_MS = 60000,
	IDLE_MS = 50000,        /* less than the other node leaves it open */
	LONG_MS = 24 * 3600000, /* the other node bounds what it does with the request */
};

/* The parts of the text, into the node. */
static bool split(struct owner_node *node)
{
	const char *name = strchr(node->text, '/');
	const char *address = name ? strchr(name + 1, '/') : NULL;

	if (!address || (size_t)(address - name) > sizeof(node->name) ||
		strlen(address) > sizeof(node->address))
		return false;
	memcpy(node->name, name + 1, (size_t)(address - name - 1));
	snprintf(node->address, sizeof(node->address), "%s", address + 1);
	return true;
}

static bool describe(struct owner_node *node)
{
	struct conf_address *address = &node->server.address;
	int len = sizeof(address->socket);

	if (!split(node) || evutil_parse_sockaddr_port(
				    node->address, (struct sockaddr *)&address->socket, &len) != 0)
		return false;
	address->kind = CONF_ADDRESS_INET;
	address->text = address->host = node->address;
	address->socket_len = (socklen_t)len;
	node->server.weight = 1;
	/* No bound of its own: that of the route's upstream, at the other node, is the one. */
	node->conf = (struct conf_upstream){.name = node->address,
		.servers = &node->server,
		.server_count = 1,
		.quantum = 10,
		.shed.interval_ms = 100,
		.connect_timeout_ms = CONNECT_MS,
		.send_timeout_ms = SEND_MS,
		.first_byte_timeout_ms = LONG_MS,
		.idle_timeout_ms = LONG_MS,
		.tunnel_timeout_ms = LONG_MS,
		.keepalive = IDLE_MOST,
		.keepalive_timeout_ms = IDLE_MS,
		.fail_timeout_ms = 100,
		.fail_timeout_max_ms = 100};
	return true;
}

static struct owner_node *make(struct owners *owners, const char *text)
{
	struct owner_node *node = calloc(1, sizeof(*node));

	if (!node)
		return NULL;
	snprintf(node->text, sizeof(node->text), "%s", text);
	if (describe(node))
		node->upstream = upstream_new(owners->states, &node->conf);
	if (!node->upstream) {
		free(node);
		return NULL;
	}
	upstream_commit(node->upstream);
	node->upstream->is_node = true;
	node->next = owners->nodes;
	owners->nodes = node;
	owners->node_count++;
	return node;
}

struct owner_node *owner_node_get(struct owners *owners, const char *text)
{
	struct owner_node *node;

	pthread_mutex_lock(&owners->lock);
	for (node = owners->nodes; node && strcmp(node->text, text) != 0; node = node->next)
		;
	if (!node && owners->node_count < NODES_MOST)
		node = make(owners, text);
	if (node)
		owner_node_hold(node);
	pthread_mutex_unlock(&owners->lock);
	return node;
}

void owner_node_hold(struct owner_node *node)
{
	/* relaxed: by one that holds it, or with owners->lock */
	atomic_fetch_add_explicit(&node->holders, 1, memory_order_relaxed);
}

void owner_node_drop(struct owner_node *node)
{
	if (node)
		/* relaxed: a number alone; what workers have to do with it they say by
		 * owner_nodes_look */
		atomic_fetch_sub_explicit(&node->holders, 1, memory_order_relaxed);
}

static void free_all(struct owner_node *node)
{
	while (node) {
		struct owner_node *next = node->next;
		upstream_free(node->upstream);
		free(node);
		node = next;
	}
}

void owner_nodes_free(struct owners *owners)
{
	free_all(owners->nodes);
	free_all(owners->leaving.first);
}

/* ---- leaving ----------------------------------------------------------------------------------
 */

/* With the lock: unused for long enough? */
static bool is_unused(struct owner_node *node, uint64_t now_ns)
{
	if (atomic_load_explicit(&node->holders, memory_order_relaxed) > 0)
		node->unused_ns = 0;
	else if (node->unused_ns == 0)
		node->unused_ns = now_ns;
	return node->unused_ns != 0 &&
	       now_ns >= node->unused_ns + OWNER_NODE_UNUSED_MS * CLOCK_NS_PER_MS;
}

/* With the lock. */
static void take_out_unused(struct owners *owners, uint64_t now_ns)
{
	struct owner_node **at = &owners->nodes, *node;

	while ((node = *at) != NULL) {
		if (!is_unused(node, now_ns)) {
			at = &node->next;
			continue;
		}
		*at = node->next;
		node->is_leaving = true;
		node->next = owners->leaving.first;
		owners->leaving.first = node;
	}
	if (owners->leaving.first) {
		owners->leaving.number++;
		owners->leaving.confirmed = 0;
	}
}

/* With the lock: another process at the same address has its state, and connections. */
static bool shares_state(const struct owners *owners, const struct owner_node *node)
{
	const struct owner_node *other = owners->nodes;

	while (other && other->upstream->state != node->upstream->state)
		other = other->next;
	return other != NULL;
}

/* With the lock: what waited at its run queue may have moved to another node in its turn. */
static bool is_in_queue(const struct owner_node *node)
{
	struct run_queue_counts counts;

	run_queue_count(node->upstream->state->run_queue, &counts);
	return counts.in_flight > 0 || counts.waiting > 0;
}

/* With the lock: no worker has to do with them. */
static void free_leaving(struct owners *owners)
{
	struct owner_node **at = &owners->leaving.first, *node;

	while ((node = *at) != NULL) {
		if (is_in_queue(node) && !shares_state(owners, node)) {
			at = &node->next;
			continue;
		}
		*at = node->next;
		node->next = NULL;
		free_all(node);
		owners->node_count--;
	}
}

void owner_nodes_sweep(struct owners *owners, struct worker *worker, uint64_t now_ns)
{
	if (now_ns < owners->leaving.looked_ns + CLOCK_NS_PER_S)
		return;
	owners->leaving.looked_ns = now_ns;
	pthread_mutex_lock(&owners->lock);
	if (!owners->leaving.first)
		take_out_unused(owners, now_ns);
	else if (owners->leaving.confirmed == worker->node->worker_count)
		free_leaving(owners);
	bool asks = owners->leaving.first && owners->leaving.confirmed < worker->node->worker_count;
	pthread_mutex_unlock(&owners->lock);
	if (asks)
		node_command_workers(worker->node, WORKER_OWNERS);
}

static bool is_leaving(const struct owner_node *node)
{
	return node && node->is_leaving;
}

static bool has_leaving(const struct worker *worker)
{
	for (const struct owner_use *use = ownership_part(worker)->uses; use; use = use->next) {
		if (is_leaving(use->node) || is_leaving(use->seen.node))
			return true;
	}
	return false;
}

void owner_nodes_look(struct owners *owners, struct worker *worker)
{
	pthread_mutex_lock(&owners->lock);
	struct owner_node *node = owners->leaving.first;
	bool confirms = node && ownership_part(worker)->confirmed != owners->leaving.number &&
			!has_leaving(worker);
	for (; confirms && node; node = node->next) {
		if (!shares_state(owners, node))
			server_close_idle(node->upstream->servers[0].state, worker);
	}
	if (confirms) {
		ownership_part(worker)->confirmed = owners->leaving.number;
		owners->leaving.confirmed++;
	}
	pthread_mutex_unlock(&owners->lock);
}

static void close_idle(struct owner_node *node, struct worker *worker)
{
	for (; node; node = node->next)
		server_close_idle(node->upstream->servers[0].state, worker);
}

void owners_close_idle(struct owners *owners, struct worker *worker)
{
	pthread_mutex_lock(&owners->lock);
	close_idle(owners->nodes, worker);
	close_idle(owners->leaving.first, worker);
	pthread_mutex_unlock(&owners->lock);
}
