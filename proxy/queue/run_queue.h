/* run_queue: the sessions that have work for one upstream, in turn.
 *
 *   high lane, then normal, each:
 *   new  [S7][S9]        a session that comes with work after none, for one exchange
 *   old  [S1][S4][S2]    round the circle, quantum * weight exchanges a turn
 *                  `---> dispatched while in_flight < max_in_flight and pace allows
 *
 * Turns are a deficit round-robin (Shreedhar and Varghese, SIGCOMM 1995) in exchanges; the short
 * list of newcomers is RFC 8290's (FQ-CoDel) section 4.2, bounded so that a flood of newcomers
 * starves no session. Sessions whose next ticket is of the high lane go first; of high_burst turns
 * of theirs and one, one is of the normal lane. An idle share is used by any that has work; a lone
 * session is drained in one go.
 *
 * Without bound and pace no ticket ever waits here, and a ticket passes without writing to anything
 * that belongs to the run queue. */
#ifndef SLUICE_QUEUE_RUN_QUEUE_H
#define SLUICE_QUEUE_RUN_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

struct queue;
struct run_queue;

#define RUN_QUEUE_MIN_QUANTUM     10
#define RUN_QUEUE_MAX_QUANTUM     50
#define RUN_QUEUE_DEFAULT_QUANTUM 10

struct run_queue_config {
	uint32_t quantum;       /* exchanges a turn at weight 1; clamped to 10..50, 0: 10 */
	uint32_t max_in_flight; /* over all workers; 0: no bound. With adaptive: where it starts */

	/* max_in_flight = auto: finds the concurrency beyond which latency rises (adapt.h) */
	bool adaptive;
	uint32_t adaptive_min, adaptive_max; /* 0: 4 and 1000 */

	/* Charged once for each dispatched ticket: 0 lets it go, else the ns after which to ask
	 * again. Called with the run queue's lock held, so it must be quick and must not call back.
	 * NULL: no pace. */
	uint64_t (*pace)(void *ctx, uint64_t now_ns);
	void *pace_ctx;

	/* Overload: once the line was not empty for shed_interval_ms, who waited longer than
	 * shed_target_ms is SHED at its turn, so that what is served is fresh (Maurer, "Fail at
	 * Scale", ACM Queue 13(8), 2015, after CoDel, RFC 8289). Target 0: off; interval 0: 100. */
	uint32_t shed_target_ms, shed_interval_ms;

	/* Beside max_in_flight, another thread sets the number of places and the time until which
	 * they are valid (run_queue_set_slots). Before its first call there are none. `lacks` is
	 * called when one has to wait for that: at most once between two calls of
	 * run_queue_read_use that found no waiting ticket. With the run queue's lock held, as
	 * `pace` is. */
	bool takes_slots;
	void (*lacks)(void *ctx);
	void *lacks_ctx;

	/* Beside max_in_flight: how many the servers that are in service take at once, with what
	 * the others still process; UINT32_MAX: no bound. Sets the time at which that changes by
	 * itself, if there is one. Called with the run queue's lock held, whenever that time has
	 * come and by run_queue_refresh. NULL: no such bound. */
	uint32_t (*capacity)(void *ctx, uint64_t now_ns, uint64_t *until_ns);
	void *capacity_ctx;
};

/* Makes the run queue of one upstream, registered with queue for its deadlines. NULL without
 * memory. The configuration is copied. */
struct run_queue *run_queue_create(struct queue *queue, const struct run_queue_config *config);

/* Takes another configuration, while in use: a reload keeps the run queue of an upstream, and with
 * it the count of what is in flight. Waiting tickets that the new one permits are dispatched.
 * Tickets that went while there was no bound are not counted by a later bound. */
void run_queue_configure(
	struct run_queue *run_queue, const struct run_queue_config *config, uint64_t now_ns);

/* The capacity has changed: tickets that the new one permits are dispatched. Any thread. */
void run_queue_refresh(struct run_queue *run_queue, uint64_t now_ns);

/* The places of a run queue that takes slots. */
struct run_queue_slots {
	uint32_t count;    /* of this era: that may be in flight at once, with those that are */
	uint64_t until_ns; /* from then on there are none */
	bool refuses;      /* what waits and what comes is SHED */
};

struct run_queue_use {
	uint32_t in_flight; /* of this era */
	uint32_t peak;      /* the most of that since it was read last */
	uint32_t sessions;  /* in line */
	uint32_t limit;     /* the lower of max_in_flight and capacity; UINT32_MAX: none */
};

/* Tickets that the new ones permit are dispatched; with `refuses` all waiting ones are answered.
 * When it returns, nothing begins any more by the old ones, and `use` has what is in flight then;
 * the peak begins again. Any thread. */
void run_queue_set_slots(struct run_queue *run_queue, const struct run_queue_slots *slots,
	struct run_queue_use *use, uint64_t now_ns);

/* Reads the use and begins another peak. Any thread. */
void run_queue_read_use(struct run_queue *run_queue, struct run_queue_use *use);

/*
 * What is in flight by slots of one kind, when those to come are of another: it needs its own until
 * it has ended. The eras that are over are in the run queue's list until run_queue_end_era; their
 * memory is the caller's, and they may end in any order.
 */
struct run_queue_era {
	struct run_queue_era *next; /* the later one */
	uint32_t number, in_flight; /* read with run_queue_era_in_flight */
};

/* All that is in flight is of `era` or of earlier ones, which this one ends. There are no slots
 * until run_queue_set_slots. Any thread. */
void run_queue_begin_era(struct run_queue *run_queue, struct run_queue_era *era);

/* What is still in flight of it; never more than before. Any thread. */
uint32_t run_queue_era_in_flight(struct run_queue *run_queue, const struct run_queue_era *era);

/* Takes it out of the list. What is still in flight of it belongs to the era that followed it. */
void run_queue_end_era(struct run_queue *run_queue, struct run_queue_era *era);

/* Frees it, at once or when another thread that just serves it is done. No ticket may be queued or
 * in flight for it. NULL is allowed. */
void run_queue_destroy(struct run_queue *run_queue);

/* When a place is likely to be free for one more: what waits here over the rate at which it drained
 * lately. Milliseconds, 1..300000; 1000 as long as no rate is known. */
uint32_t run_queue_retry_after_ms(struct run_queue *run_queue);

struct run_queue_counts {
	uint32_t in_flight, max_in_flight; /* now; the bound in force, 0 for none */
	uint32_t sessions;                 /* in line */
	uint64_t waiting;                  /* tickets queued for this upstream */
	uint64_t dispatched, shed,
		paced;         /* through the bound; shed; times that pace delayed a ticket */
	uint64_t drain_gap_ns; /* mean time between dispatches from the line; 0 unknown */
};
void run_queue_count(struct run_queue *run_queue, struct run_queue_counts *counts);

#endif
