#include "exchange/owner_nodes.h"

#include <event2/util.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exchange/owner_table.h"
#include "upstream/server_connection.h"
#include "upstream/upstream.h"

enum {
	NODES_MOST = 4096,     /* instances, over the life of the process */
	IN_FLIGHT_MOST = 1024, /* requests at a node, each with a connection */
	IDLE_MOST = 64,        /* connections that a worker keeps */
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
	node->conf = (struct conf_upstream){.name = node->address,
		.servers = &node->server,
		.server_count = 1,
		.max_in_flight = IN_FLIGHT_MOST,
		.quantum = 10,
		.shed_interval_ms = 100,
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

struct owner_node *owner_node_of(struct owners *owners, const char *text)
{
	struct owner_node *node;

	pthread_mutex_lock(&owners->lock);
	for (node = owners->nodes; node && strcmp(node->text, text) != 0; node = node->next)
		;
	if (!node && owners->node_count < NODES_MOST)
		node = make(owners, text);
	pthread_mutex_unlock(&owners->lock);
	return node;
}

void owner_nodes_free(struct owners *owners)
{
	while (owners->nodes) {
		struct owner_node *node = owners->nodes;
		owners->nodes = node->next;
		upstream_free(node->upstream);
		free(node);
	}
}

void owners_close_idle(struct owners *owners, struct worker *worker)
{
	pthread_mutex_lock(&owners->lock);
	for (struct owner_node *node = owners->nodes; node; node = node->next)
		server_close_idle(node->upstream->servers[0].state, worker);
	pthread_mutex_unlock(&owners->lock);
}
