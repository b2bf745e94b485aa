/*
 * Which primaries a Redis Cluster has, and their slots: one node after the other is asked, those of
 * the configuration and those that it has learned of, until one knows. Nothing stays connected.
 *
 *   scout_ask --> node: CLUSTER INFO, CLUSTER SLOTS --> found(), scout->map
 *                  `-- lost, wrong, or older than what is known --> the next node ... --> failed()
 */
#ifndef STORE_SCOUT_H
#define STORE_SCOUT_H

#include "store/cluster_map.h"
#include "store/redis_peer.h"
#include "store/store_where.h"

struct scout {
	struct redis_peer peer;
	const struct store_where *where; /* not owned */
	struct cluster_map map;          /* the last that was found */
	unsigned next;                   /* node to ask */
	unsigned left;                   /* to ask before it is a failure */
	bool is_asking;
	bool is_late;   /* a node was asked that knew an older epoch */
	uint64_t epoch; /* the highest that a node has known */
	void (*found)(struct scout *scout);
	/* No node knew it; peer.why is of the last. */
	void (*failed)(struct scout *scout);
};

/* Zeroed memory becomes one that does not ask. `first`: which node is asked first; any number. */
void scout_init(struct scout *scout, struct loop *loop, struct names *names, unsigned first,
	void (*found)(struct scout *scout), void (*failed)(struct scout *scout));
/* Asks the nodes of `where`, which must stay until it is closed. Ignored while it asks. */
void scout_ask(struct scout *scout, const struct store_where *where);
/* Stops asking. */
void scout_close(struct scout *scout);
/* Nothing of it is on the loop any more. */
void scout_end(struct scout *scout);

/* Is an epoch that a node knows as high as any that was seen? Notes a higher one. A node that knows
 * a lower one has missed a failover. */
bool scout_knows(struct scout *scout, uint64_t epoch);

#endif
