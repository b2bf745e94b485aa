/*
 * A node that keeps slots of a semaphore: a keeper, and in the place of its run queue what is in
 * flight and who waits. All nodes of a test are at one fake server, whose time is theirs; it frees
 * what a connection has that was silent for two to three heartbeats, as RabbitMQ does.
 */
#ifndef TESTS_FAKE_NODE_H
#define TESTS_FAKE_NODE_H

#include "fake_broker.h"
#include "semaphore/keeper.h"

enum { FAKE_HEARTBEAT_MS = 8000 };

struct fake_node {
	struct keeper keeper;
	struct keeper_config config;
	struct fake_server *server;
	struct fake_broker connection;
	bool is_connected;     /* the broker has its connection */
	uint64_t heard_ms;     /* by the broker, last */
	bool *server_is_up;    /* of the test */
	unsigned *connections; /* of the test: the last id */
	bool stands_still;
	uint64_t next_ns; /* of its keeper */
	struct keeper_bound bound;
	uint32_t in_flight, peak, waiting;
	struct broker_calls calls;
};

void fake_node_begin(struct fake_node *node, struct fake_server *server, bool *server_is_up,
	unsigned *connections, const struct keeper_config *config);

/* Its keeper does what is due, unless the node stands still. */
void fake_node_step(struct fake_node *node);

/* The connection ends, by whatever. */
void fake_node_cut(struct fake_node *node);

/* The broker frees what is a silent connection's. */
void fake_node_expire(struct fake_node *node, uint64_t silence_ms);

/* One more request: begins, or waits; false: it was refused. */
bool fake_node_enter(struct fake_node *node);

/* One that waits begins, if it may now. */
bool fake_node_start(struct fake_node *node);

/* One that is in flight ends. */
void fake_node_finish(struct fake_node *node);

/* Slots of which the B is this node's, and the A is there. */
unsigned fake_node_slots(const struct fake_node *node);

#endif
