/*
 * The nodes that own sessions, as servers that requests are forwarded to. The store describes an
 * owner by its text, `instance/name/address`; the address is a literal one with a port. Each is an
 * upstream with one server: places, connections and failures are those of any (upstream/).
 */
#ifndef EXCHANGE_OWNER_NODES_H
#define EXCHANGE_OWNER_NODES_H

#include "conf/conf.h"
#include "exchange/owners.h"

struct upstream;

/* A node that sessions are forwarded to. Lives as long as the process. */
struct owner_node {
	struct owner_node *next;
	char text[OWNER_NODE_BYTES];
	char name[CONF_NODE_BYTES];
	char address[64];
	struct conf_server server;
	struct conf_upstream conf;
	struct upstream *upstream;
};

/* The node of this text, made if need be; NULL: it is none, or no memory. Takes owners->lock. */
struct owner_node *owner_node_of(struct owners *owners, const char *text);
/* All workers have ended. */
void owner_nodes_free(struct owners *owners);

/* Closes the idle connections that this worker has to other nodes: it is about to end. */
void owners_close_idle(struct owners *owners, struct worker *worker);

#endif
