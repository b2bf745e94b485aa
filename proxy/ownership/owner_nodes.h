/*
 * The nodes that own sessions, as servers that requests are forwarded to. The store describes an
 * owner by its text, `instance/name/address`; the address is a literal one with a port. Each is an
 * upstream with one server: places, connections and failures are those of any (upstream/).
 *
 *   got --> held by sessions --> held by none for OWNER_NODE_UNUSED_MS: taken out of the table
 *       --> each worker has seen that none of its uses has it, and closed its connections --> freed
 *
 * So a request that is forwarded counts nothing; and a process sees any number of nodes come and
 * go, each start of which is another one.
 */
#ifndef OWNERSHIP_OWNER_NODES_H
#define OWNERSHIP_OWNER_NODES_H

#include "conf/conf.h"
#include "ownership/owners.h"

struct upstream;

/* Longer than its idle connections are kept. */
#define OWNER_NODE_UNUSED_MS 60000

/* A node that sessions are forwarded to. */
struct owner_node {
	struct owner_node *next;
	atomic_uint holders; /* sessions that it owns, and calls that have just found it */
	uint64_t unused_ns;  /* since when it was seen to have none, by CLOCK_BOOTTIME; 0: it has */
	bool is_leaving;     /* nobody gets it any more */
	char text[OWNER_NODE_BYTES];
	char name[CONF_NODE_BYTES];
	char address[64];
	struct conf_server server;
	struct conf_upstream conf;
	struct upstream *upstream;
};

/* The node of this text, made if need be, and held once; NULL: it is none, or no memory. Takes
 * owners->lock. Any thread. */
struct owner_node *owner_node_get(struct owners *owners, const char *text);
/* One more holder of one that is held. Any thread. */
void owner_node_hold(struct owner_node *node);
/* NULL is ignored. Any thread. */
void owner_node_drop(struct owner_node *node);

/* Takes out those unused, and frees those that left. Of the worker that sweeps the table. */
void owner_nodes_sweep(struct owners *owners, struct worker *worker, uint64_t now_ns);
/* WORKER_OWNERS: has this worker to do with nodes that leave? */
void owner_nodes_look(struct owners *owners, struct worker *worker);
/* All workers have ended. */
void owner_nodes_free(struct owners *owners);

/* Closes the idle connections that this worker has to other nodes: it is about to end. */
void owners_close_idle(struct owners *owners, struct worker *worker);

#endif
