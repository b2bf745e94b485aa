/*
 * Keeps as many slots of a semaphore as an upstream needs: what is decided, without a thread, a
 * clock or sockets of its own (keeper_thread.h has these).
 *
 *   run queue: in flight, peak, who waits --> need, of the last `idle` --> take | give back
 *   broker: which slots are there, held ----> usable ---------------------> bound of the run queue
 *
 *   CONNECTING --> HOLDS <--> AWAY --> RETURNS --> HOLDS
 *
 * HOLDS: as many may be in flight as there are usable slots, half more than were at once lately. A
 * slot is given back when what is in flight needs it no more: first the bound is lowered, then what
 * it leaves over is deleted. While another waits that has less than its share, what is more than
 * ours is given back; where there are more nodes than slots, they take turns at each slot.
 *
 * Slots are used for a lease: since a call to the broker began that it answered, 1.5 heartbeats, 5
 * s at most. The broker frees what a silent connection has after two to three of them, so a node
 * that stands still finds its lease over before another can have its slots. When the connection
 * ends before that, the bound is 0 at once; what began by an earlier connection (`since_ns`) and
 * was not sent must begin again.
 *
 * Slots end with their connection. When what comes is to go by another (a reload has changed the
 * broker, or the semaphore), this one drains: it takes none, and gives each back when what is in
 * flight by them needs it no more. It does not count as a node.
 *
 * AWAY: the share of this node, by what was known last, or nothing. RETURNS: the broker is back,
 * and the others may not have seen that yet. For some seconds each takes slots only for its share
 * and what it has in flight, so that none takes those that another is using by its share; and uses
 * no more of its share than it has slots.
 */
#ifndef SEMAPHORE_KEEPER_H
#define SEMAPHORE_KEEPER_H

#include "queue/run_queue.h"
#include "semaphore/holder.h"
#include "upstream/semaphore_slots.h"

/* A lease lasts heartbeat * 3 / 2, as the broker waits for 2 heartbeats at least, and so long at
 * most. */
#define KEEPER_LEASE_MS 5000

/* A try to connect may take so long, and has ended KEEPER_AWAY_MS after the one before began. A
 * share is used for so long after a try that failed began: then a node that stood still looks
 * first whether the broker is back. */
#define KEEPER_CONNECT_MS 2000
#define KEEPER_AWAY_MS    5000

/* How long RETURNS lasts: until every node has seen that the broker is back, and until no lease
 * from before and no share is used any more, by one that stands still either. */
#define KEEPER_RETURN_MS 5500

/* The bound of the run queue. */
struct keeper_bound {
	struct run_queue_slots slots;
	uint64_t since_ns; /* what was placed before that began by other slots */
};

/* For people. */
struct keeper_view {
	enum semaphore_state state;
	uint32_t bound;  /* that may be in flight */
	uint32_t held;   /* slots, removed ones included */
	uint32_t wanted; /* slots */
	uint32_t max;    /* slots that there are, as known last; 0: none */
	uint32_t nodes;  /* that use the semaphore; 0: unknown */
	bool refuses;
	bool is_barred;    /* the broker does not let this node hold a slot: `why` */
	uint64_t messages; /* to the broker so far */
};

struct keeper_calls {
	/* Connects, and sets the heartbeat that was agreed on. NULL when that fails. Until
	 * `settle_in`, this and the calls to the broker together take KEEPER_CONNECT_MS at most;
	 * one that takes longer is BROKER_LOST. */
	struct broker *(*reach)(void *ctx, uint64_t *heartbeat_ms, char *why, size_t why_bytes);
	/* From now on each answer may take its usual time. */
	void (*settle_in)(void *ctx);
	void (*disconnect)(void *ctx);
	uint64_t (*now_ns)(void *ctx); /* monotonic */
	uint32_t (*random_below)(void *ctx, uint32_t bound);
	/* As run_queue_set_slots and run_queue_read_use. */
	void (*set)(void *ctx, const struct keeper_bound *bound, struct run_queue_use *use);
	void (*read)(void *ctx, struct run_queue_use *use);
};

struct keeper_config {
	const char *name; /* of the semaphore; borrowed, as all of it */
	uint32_t size;    /* slots, as long as none were counted */
	uint32_t nodes;   /* 0: as many as were seen */
	uint64_t idle_ms; /* slots that were not needed for so long are given back */
	bool refuses;     /* while the broker is away; else by shares */
};

#define KEEPER_WINDOWS 5

struct keeper {
	const struct keeper_calls *calls;
	void *ctx;
	struct keeper_config config;
	enum semaphore_state state;
	struct broker *broker; /* NULL: not connected */
	struct holder holder;
	struct crowd crowd;
	struct keeper_bound bound; /* in force */
	uint64_t heartbeat_ms, heard_ns;
	uint64_t next_connect_ns, next_check_ns, next_search_ns, next_count_ns, return_ends_ns;
	uint32_t connect_pause_ms, search_pause_ms;
	uint32_t needs[KEEPER_WINDOWS]; /* the most of each part of `idle_ms`, newest first */
	uint64_t window_ends_ns;
	uint32_t wanted;        /* slots */
	uint32_t share;         /* of the last state AWAY */
	uint32_t cap;           /* others wait: no more than so many, */
	uint64_t cap_ends_ns;   /* until then */
	uint64_t turn_began_ns; /* the first slot was taken, after none */
	bool has_known;         /* slots were counted once: */
	uint32_t known;         /* so many, last */
	uint32_t nodes;         /* most that were seen of late; 0: unknown */
	bool has_first_count;   /* they were counted once: the next count is as good */
	uint64_t nodes_seen_ns, joined_ns;
	bool has_looked; /* in the state RETURNS, it was lost, and connected to at once */
	bool is_barred;  /* the last search ended with BROKER_REFUSED */
	bool drains, is_drained;
	char why[512]; /* of the last failure */
};

/* Nothing is done yet, and nothing may be in flight. `calls` and what is in `config` are borrowed.
 */
void keeper_begin(struct keeper *keeper, const struct keeper_calls *calls, void *ctx,
	const struct keeper_config *config);

/* Does what is due, and returns when to call it again at the latest (monotonic, ns); sooner when a
 * request waits for a slot, or the broker has sent something. It may wait for the broker. */
uint64_t keeper_step(struct keeper *keeper);

/* The connection has ended, as was seen between two steps. */
void keeper_lost(struct keeper *keeper, const char *why);

/* Another configuration, from the next step on. */
void keeper_configure(struct keeper *keeper, const struct keeper_config *config);

/* It drains from the next step on: nothing begins by its slots, and `read` has what is in flight by
 * them. */
void keeper_drain(struct keeper *keeper);

/* Nothing is in flight by its slots any more, or it has lost them. */
bool keeper_is_drained(const struct keeper *keeper);

/* Gives all up: the connection ends, and nothing may begin any more. */
void keeper_end(struct keeper *keeper);

void keeper_look(const struct keeper *keeper, struct keeper_view *view);

#endif
