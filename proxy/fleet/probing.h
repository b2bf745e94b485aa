/*
 * Which node probes an upstream's servers for the fleet (health_shared): one node's part for one
 * upstream, by its own clock and the store's answers. Pure; time is passed in.
 *
 *               lease running: HELD                 lost: OVER, or its own clock says so
 *   WAITING ---> PROBER ----------------------------------> FOLLOWER <--- BUSY, with a publication
 *      |                                                      |
 *      `---- 2 s ----> ALONE <---- nothing heard for probing_bound_ms ----'
 *
 * ALONE becomes PROBER or FOLLOWER again by the same answers.
 *
 * The prober is the session that has the lock (lock.h). It renews the lock and publishes what it
 * found (probing.h) in one use, so that a prober whose session is over publishes nothing any more.
 * Others try to take the lock; the answer to that has what the holder has published.
 *
 * A node whose lease has ended by its own clock does not probe for others until the store has said
 * that the lock is still its own. While the store is away each node probes for itself.
 */
#ifndef FLEET_PROBING_H
#define FLEET_PROBING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/lock.h"
#include "upstream/probes_shown.h"
#include "base/slice.h"

/* ---- findings ------------------------------------------------------------------------------- */

/*
 * The results that the prober of an upstream publishes (probing.h): the value of its lock, as text.
 * Pure.
 *
 *   1 FENCE NUMBER LEASE
 *   STATE SINCE CHECKED ADDRESSES LENGTH LENGTH ADDRESS SAW      a line for each server
 *
 * Times are how long ago it was when this was written, in milliseconds, as nodes' clocks differ.
 * The fence is the prober's: what another fence published is not of the lock's holder.
 */

struct findings_head {
	uint64_t fence;    /* of the prober's lock */
	uint64_t number;   /* grows with each publication by the fence */
	uint64_t lease_ms; /* that publishing renewed the lock by */
};

struct findings_line {
	bool is_known; /* the prober has probed it; else is_up and the times mean nothing */
	bool is_up;
	uint64_t since_ago_ms, checked_ago_ms;
	uint64_t addresses_id; /* server_addresses_sum */
	struct slice address;  /* as the configuration has it */
	struct slice saw;
};

/* Memory of the caller's that it is written to. */
struct findings_writer {
	char *at;
	size_t size, len;
};

/* Begins again. False: no room. */
bool findings_begin(struct findings_writer *writer, const struct findings_head *head);
/* Adds a server. False: no room; nothing of it was written. */
bool findings_add(struct findings_writer *writer, const struct findings_line *line);

/* What is left of a text, which stays its owner's. */
struct findings_reader {
	const char *at, *end;
};

/* False: this is no such text, or one of another version. */
bool findings_read_head(
	struct findings_reader *reader, const char *text, size_t len, struct findings_head *head);
/* The next server; its slices point into the text. False: there is none, or what is left is no
 * server. */
bool findings_read_line(struct findings_reader *reader, struct findings_line *line);

/* ---- probing -------------------------------------------------------------------------------- */

struct probing_terms {
	uint64_t lease_ms;    /* of the lock */
	uint64_t interval_ms; /* between probes of a server */
	uint64_t timeout_ms;  /* of a probe */
};

struct probing {
	struct probing_terms terms;
	const char *self;                   /* this node's session; not owned */
	uint64_t begun_ms;                  /* monotonic, as all times here */
	uint64_t fence, held_until_ms;      /* its lock, by its own clock; 0: it has none */
	uint64_t number;                    /* of its last publication */
	uint64_t heard_fence, heard_number; /* the last that it has received; 0: of none */
	uint64_t heard_ms;                  /* when that was published, at the latest */
	bool is_leaving;                    /* it takes the lock no more */
	char prober[LOCK_SESSION_BYTES];    /* the session that probes; "": none is known */
};

enum probing_outcome {
	PROBING_NOTHING, /* nothing to do */
	PROBING_ELECTED, /* this node has taken the lock: it is to publish soon */
	PROBING_HEARD,   /* the answer's value has a publication that it has not received before */
	PROBING_OVER,    /* its session is over: it is to ask again at once */
};

/* `self` outlives it. */
void probing_begin(struct probing *probing, const struct probing_terms *terms, const char *self,
	uint64_t now_ms);

/* How often the store is asked: twice an interval, thrice a lease, and once a second at least. */
uint64_t probing_period_ms(const struct probing_terms *terms);
/* Older results are not used: the lease, and thrice the time in which a probe is due and ends.
 */
uint64_t probing_bound_ms(const struct probing_terms *terms);

/* Never PROBES_UNSHARED. */
enum probes_role probing_role(const struct probing *probing, uint64_t now_ms, bool is_store_there);

/* Is a server this node's to probe? `checked_ms`: its last probe by any node, 0: there was none;
 * `is_unshared`: the prober does not know it. */
bool probing_is_mine(const struct probing *probing, uint64_t checked_ms, bool is_unshared,
	uint64_t now_ms, bool is_store_there);

/* The next question to the store: verb and number. True: it is a use, whose value is what this node
 * publishes, by *head. */
bool probing_ask(struct probing *probing, struct lock_ask *ask, struct findings_head *head);

/* The store's answer to that. With PROBING_HEARD, `reader` has the publication's servers. */
enum probing_outcome probing_take(struct probing *probing, const struct lock_ask *ask,
	const struct lock_answer *answer, struct findings_reader *reader);

/* It is to give the lock up, and not to take it again. */
void probing_leave(struct probing *probing);

/* `node/instance` -> node */
void probing_node_of(const char *session, char node[static PROBE_NODE_BYTES]);

#endif
