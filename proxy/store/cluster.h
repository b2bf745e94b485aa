/*
 * A Redis Cluster as a worker's store: a connection to each primary, and each call to the primary
 * that serves its slot. Reads are never from replicas. All of it belongs to the worker's thread.
 *
 *   scout.h: CLUSTER SLOTS --> owners of slots --> cluster_send: the owner's store_server
 *        ^                        ^                                 | an error in place of an
 * answer |                        +-- MOVED: to the new owner <-----+ | ASK: there once, behind
 * ASKING |                            TRYAGAIN: again in a moment
 *        `-- a primary is lost, MOVED, a slot that nobody serves
 *
 * Primaries are connected in steps, so many at a time; a call waits for its primary's first
 * connection. A call that was redirected has not been done, so it is sent again, for at most as
 * long as a request waits. One whose answer is lost is not. CLUSTERDOWN is as a lost connection.
 *
 * A primary is known by its address. Which node serves a slot is believed from the node with the
 * highest configuration epoch that was seen: one that has missed a failover (it stood still) gets
 * no calls.
 */
#ifndef STORE_CLUSTER_H
#define STORE_CLUSTER_H

#include <stdint.h>
#include <stdio.h>

#include "store/cluster_map.h"
#include "store/scout.h"
#include "store/store_server.h"

/* ---- backoff -------------------------------------------------------------------------------- */

/* How long to wait before something that failed is tried again: half of a time that doubles, and a
 * random part of the other half. So nodes that lost the store at once do not come back at once. */

struct backoff {
	unsigned failures; /* in a row */
	uint64_t random;   /* not 0 */
};

/* Counts a failure. Returns milliseconds. */
uint64_t backoff_next_ms(struct backoff *backoff);

/* ---- cluster -------------------------------------------------------------------------------- */

struct cluster;

struct cluster_primary {
	struct store_server server;
	struct cluster *cluster;
	struct cluster_node node;
	unsigned place;        /* in cluster.primaries */
	unsigned slots;        /* that it serves */
	struct deadline timer; /* to connect again */
	struct backoff backoff;
	bool was_lost; /* since it was named, or was last ready: no call waits for it */
	struct store_call *waiting, **waiting_end; /* for its first connection */
};

struct cluster {
	void *whose; /* its owner's own */
	struct loop *loop;
	struct names *names;
	struct store_where *where; /* not owned */
	struct scout scout;
	struct deadline timer; /* to ask for the slots again */
	struct backoff backoff;
	bool is_due; /* the slots: another look, after the one that is under way */
	struct cluster_primary **primaries; /* NULL: a free place */
	unsigned count;                     /* places */
	uint16_t owners[SLOTS];             /* 1 + place; 0: nobody */
	unsigned unserved;                  /* slots of nobody */
	struct deadline delay;              /* of `delayed`: calls to send again */
	struct store_call *delayed, **delayed_end;
	/* A primary is ready or lost, or slots have other owners. `why`: something has failed, for
	 * the first time in a row; else NULL. */
	void (*changed)(struct cluster *cluster, const char *why);
	/* A node has said so in place of an answer. */
	void (*redirected)(struct cluster *cluster, enum redirect_kind kind);
	/* As that of store_server.h; the owner sets it, NULL: no receiver. */
	void (*refused)(struct cluster *cluster, struct trouble_mark *mark, const char *why);
};

/* One that has not asked yet. `seed`: of the jitter. NULL without memory. */
struct cluster *cluster_new(struct loop *loop, struct names *names, uint64_t seed,
	void (*changed)(struct cluster *cluster, const char *why),
	void (*redirected)(struct cluster *cluster, enum redirect_kind kind));
/* NULL is ignored. */
void cluster_free(struct cluster *cluster);
/* Looks for its primaries, by `where`, which must stay until it is closed. */
void cluster_open(struct cluster *cluster, struct store_where *where);
/* Cuts all connections: all calls get NULL. */
void cluster_close(struct cluster *cluster);

/* Is a primary ready? */
bool cluster_has_any(const struct cluster *cluster);
/* Are those of all slots? */
bool cluster_has_all(const struct cluster *cluster);
/* May calls for the slot be sent: its primary is ready, or is connected for the first time? */
bool cluster_has(const struct cluster *cluster, uint16_t slot);

/* As those of store_server.h. */
bool cluster_send(struct cluster *cluster, struct store_call *call);
void cluster_flush(struct cluster *cluster);
/* When the oldest call that a slot's primary has not answered was sent; UINT64_MAX: there is none.
 */
uint64_t cluster_oldest_ms(const struct cluster *cluster, uint16_t slot);
/* Of all primaries. */
uint64_t cluster_oldest_of_all_ms(const struct cluster *cluster);
/* Cuts the connections to primaries that have not answered what was sent then, or before. */
void cluster_drop_silent(struct cluster *cluster, uint64_t before_ms, const char *why);

/* Writes a line for each primary: its address, how many slots it has, "ready" or "away". */
void cluster_describe(const struct cluster *cluster, FILE *out);

#endif
