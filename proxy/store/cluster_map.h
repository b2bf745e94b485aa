/* The nodes of a Redis Cluster and the slots that they serve, as reported by one node. Private to
 * the fleet; it knows no connections. */
#ifndef STORE_CLUSTER_MAP_H
#define STORE_CLUSTER_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/redis_peer.h"
#include "store/slot.h"

#define CLUSTER_NODES_MOST 4000

struct redisReply;

struct cluster_node {
	char host[REDIS_HOST_BYTES];
	uint16_t port;
};

struct cluster_map {
	struct cluster_node *nodes; /* primaries and replicas */
	unsigned count, size;
	uint16_t owners[SLOTS]; /* 1 + the place of the primary; 0: no node serves it */
};

/* Zeroed memory is an empty map. */
void cluster_map_clear(struct cluster_map *map);

/* Reads the answer to CLUSTER SLOTS that the node at `host` gave: a node without a host of its own
 * is there, too. False: it is no such answer, there are too many nodes, or no memory; the map is
 * empty then. */
bool cluster_map_read(struct cluster_map *map, const struct redisReply *answer, const char *host);

/* Reads the answer to CLUSTER INFO: `*is_up`, the cluster serves requests at this node; `*epoch`,
 * the highest configuration epoch that it knows, which grows with each failover. */
void cluster_map_read_info(const char *info, bool *is_up, uint64_t *epoch);

#endif
