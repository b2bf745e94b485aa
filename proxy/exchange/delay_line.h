/*
 * Those that wait because of a limit (on_exceed = delay), by the limit and caller that they wait
 * for, in the order in which they came.
 *
 *   judged, to be delayed --> in line --> waits (DELAYED) --its time, or woken--> judged again
 *        behind others: their costs count, too    ^
 *   what frees capacity: a refund, a reset, another limit; one that leaves the line -- wakes the
 *   first that waits
 *
 * The first is enough: if it is admitted it leaves, and wakes the next. Any thread may wake; all
 * else is of the exchange's worker.
 */
#ifndef EXCHANGE_DELAY_LINE_H
#define EXCHANGE_DELAY_LINE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "gate/gate.h"
#include "worker/node.h"

struct delay_line;
struct delay_lines;
struct worker;

/* An exchange's place in a line; `line`, `worker` and `go_on` are set while it is in one. */
struct delay_place {
	struct delay_line *line;
	struct worker *worker;
	void (*go_on)(struct delay_place *place); /* it was woken; on its worker's thread */
	struct delay_place *prev, *next;
	struct delay_place *prev_woken, *next_woken; /* guarded by its worker's lock */
	uint64_t cost;
	uint64_t before;  /* the costs of those that were in line when it joined */
	uint32_t changes; /* of the node, when its caller was determined; its worker's */
	bool waits;
	bool is_woken;   /* on its worker's list, until that has read it */
	bool has_looked; /* since it was the first that waits; its worker's */
	bool has_missed; /* it was woken, and could not look; its worker's */
	bool asks_twice; /* it was woken: what became free may reach the authority behind the
			  * question, by another connection; its worker's */
};

/* NULL without memory. */
struct delay_lines *delay_lines_new(unsigned workers);
/* Nobody is in line. NULL is ignored. */
void delay_lines_free(struct delay_lines *lines);

/* Fills the costs of those that are in line for each of the identity's limits that delay, before
 * one that comes now. False: there are none. */
bool delay_ahead(struct delay_lines *lines, const struct gate_identity *identity,
	uint64_t ahead[static GATE_LIMITS_MAX]);

/* Its verdict delays it: it is in line from now on for the limit that it waits longest for, at the
 * end, unless it is in that already (is_in_line). Is it? Without memory it is not, or where no
 * limit was violated: it waits for its time only. */
bool delay_join(struct delay_place *place, bool is_in_line, struct worker *worker,
	const struct gate_identity *identity, const struct gate_verdict *verdict,
	void (*go_on)(struct delay_place *place));

/* It has just joined. Did others join since delay_ahead, or since `ahead` was cleared? Then these
 * are in `ahead`, too, by which it is to be judged once more. */
bool delay_was_passed(const struct delay_place *place, const struct gate_identity *identity,
	uint64_t ahead[static GATE_LIMITS_MAX]);

/* It waits for its time, or to be woken. True: it is to look at its limits once more now, because
 * it is the first, and what became free before this call may have woken nobody. */
bool delay_wait(struct delay_place *place);

/* It was woken, and could not look, as it asks an authority: delay_take_missed is true once. */
void delay_miss(struct delay_place *place);
bool delay_take_missed(struct delay_place *place);

/* It is no longer in line. */
void delay_leave(struct delay_place *place);

/* Have callers, plans or limits changed since its caller was determined? Then that is done again.
 */
bool delay_has_changed(struct delay_place *place);

/* A number that differs when capacity of the identity's limits that delay, which an authority
 * judges, has become free, or all have changed: one that asks is not in line yet, and is not woken.
 */
uint32_t delay_frees(struct delay_lines *lines, const struct gate_identity *identity);

/* Capacity of these limits may be free. Any thread. */
void delay_freed(struct delay_lines *lines, const struct gate_identity *identity);

/* The same of all limits: they, callers or plans have changed. Any thread. */
void delay_changed(struct delay_lines *lines);

/* WORKER_DELAYED: those of this worker that were woken. */
void delay_run(struct worker *worker);

static inline struct delay_lines *node_delays(const struct node *node)
{
	return node->shared[NODE_DELAYS];
}

#endif
