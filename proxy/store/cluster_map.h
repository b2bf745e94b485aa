/* The nodes of a Redis Cluster and the slots that they serve, as reported by one node. Private to
 * the fleet; it knows no connections. */
#ifndef STORE_CLUSTER_MAP_H
#define STORE_CLUSTER_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/redis_peer.h"
#include "throttle/throttle.h"

/* ---- slot ----------------------------------------------------------------------------------- */

/*
 * The hash slots of a Redis Cluster (redis.io/docs/latest/operate/oss_and_stack/reference/
 * cluster-spec), and how callers are spread over them. Pure; private to the fleet.
 *
 * A call of a function may only have keys of one slot. So callers are divided into parts: all keys
 * of a part have its number in braces, the hash tag, and so lie in one slot; the part's epoch
 * (judge.lua) is one of them. Part 0 is all callers, of a store that is no cluster.
 */

#define SLOTS      16384
#define SLOT_PARTS 1024 /* their numbers are 1 to this */

/* The slot of a key: of the text between its first '{' and the next '}', if there is any. */
uint16_t slot_of_key(const char *key, size_t len);

/* The part that a caller belongs to. */
static inline unsigned slot_part_of(struct throttle_key caller)
{
	return 1 + (unsigned)((caller.lo >> 8 ^ caller.hi) % SLOT_PARTS);
}

#define SLOT_TAG_BYTES 4 /* with its NUL */

/* Writes the tag of a part, without braces. */
void slot_write_tag(unsigned part, char tag[SLOT_TAG_BYTES]);
/* The slot of a part, 0 of part 0. */
uint16_t slot_of_part(unsigned part);

/* ---- cluster map ---------------------------------------------------------------------------- */

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

/* ---- redirect ------------------------------------------------------------------------------- */

/*
 * The error of a node of a Redis Cluster when a call is not for it, or cannot be served now. In all
 * of these cases it has not done the call. Pure; private to the fleet.
 */

enum redirect_kind {
	REDIRECT_NONE,     /* another error */
	REDIRECT_MOVED,    /* another node has the slot: now, and from now on */
	REDIRECT_ASK,      /* another node has these keys: once, behind ASKING */
	REDIRECT_LATER,    /* TRYAGAIN: keys of one call are on two nodes while a slot moves */
	REDIRECT_UNSERVED, /* CLUSTERDOWN: no node has the slot */
	REDIRECT_DOWN,     /* CLUSTERDOWN: the cluster serves nothing at this node */
};

struct redirect {
	enum redirect_kind kind;
	uint16_t slot; /* of MOVED and ASK, as the next two */
	char host[REDIS_HOST_BYTES];
	uint16_t port;
};

/* Reads an error's text. A redirect without a host is to `host`, the node that said it. False: it
 * is none of them. */
bool redirect_read(struct redirect *redirect, const char *error, const char *host);

#endif
