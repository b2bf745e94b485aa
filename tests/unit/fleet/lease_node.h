/*
 * A node's leases (lease.c, hand.c, batch.c) without its surroundings: no store, no loop and no
 * clock. What the rest of the fleet does for them is replaced here, and --wrap (Makefile.inc) takes
 * the clock and the timers out.
 *
 *   lease_way.take, lease_ask --> node->filling --> the owner of the node answers: lease_answer
 *   lease_answer --> node->went_on, for each question
 */
#ifndef TESTS_UNIT_FLEET_LEASE_NODE_H
#define TESTS_UNIT_FLEET_LEASE_NODE_H

#include "fleet/question.h"
#include "worker/worker.h"

struct lease_node {
	struct fleet_worker fleet;
	struct authority authority;
	struct hands hands;
	uint64_t now_ns;             /* by its clock */
	unsigned nodes;              /* that it knows to live */
	bool is_away;                /* the store is */
	bool is_slow;                /* it does not answer in time */
	bool lacks_memory;           /* as ladder_lacks_memory says */
	unsigned kept_to_share;      /* so many callers, or the same so often */
	struct fleet_batch *filling; /* asks the store next; NULL: nothing yet */
	struct fleet_batch *spare;   /* batches */
	void (*went_on)(struct lease_node *node, struct question *question, bool answered);
};

/* Zeroed memory becomes a node with so many hands (hands_init), which counts in `stats`. */
void lease_node_init(struct lease_node *node, size_t hands, struct stats_block *stats);
void lease_node_end(struct lease_node *node);
void lease_node_set_time(struct lease_node *node, uint64_t now_ns);
/* Its timer is set, and due. */
bool lease_node_is_due(const struct lease_node *node);
/* Runs it. */
void lease_node_run_timer(struct lease_node *node);
/* Takes what asks the store; NULL: nothing does. */
struct fleet_batch *lease_node_take_batch(struct lease_node *node);
/* An answered batch is used again. */
void lease_node_put_batch(struct lease_node *node, struct fleet_batch *batch);

#endif
