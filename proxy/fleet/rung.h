/*
 * The ladder that a limit of the fleet goes down when the store does not answer, and up again.
 * Pure: it knows neither a store nor a clock. Private to the fleet.
 *
 *   STORE --lost--> leases in hand, until they end --> what store_down says:
 *     ^               local:  SHARE at once, with what this node admitted recently counted
 *     |               refuse: REFUSE             admit: ADMIT
 *     |               strict: WAIT, then SHARE
 *     `-- local: RETURNING: the store and the share must both admit <-- the store is back
 *
 * Why this holds what store_down promises, of a quota of L and n nodes. The store never admits more
 * than L in any window; a share is L/n, and the node's table counts all that the node has admitted
 * in the trailing window, by the store, from leases or by the share (own.h).
 *
 *  - local, at any time: the store's admissions are at most L in a window, those by shares at most
 *    n L/n. So no window holds more than 2 L, whichever nodes have lost the store, and when.
 *    A node's share counts what the store admitted by it, so it is 2 L less a share at most.
 *  - local, when all have lost it, and no window reaches back before that: only shares admit, L.
 *  - local, returning: what the share has admitted is charged to the store with the node's next
 *    message about itself (debts.h), at the latest when that is first answered. For
 *    RUNG_RETURN_MS after a loss each request must fit into the share as well, so that nodes which
 *    come back later, within that time, still find the rest free: shares admit at most L until the
 *    last of them has charged its own, and from then on the store knows of all.
 *  - local, with a store that is slow: a request whose answer is late is judged by the share, and
 *    the answer may bring a lease all the same. For a window after the last late answer about a
 *    caller it is RETURNING: what leases and the store admit must fit into the share as well, so
 *    that the two never add up. A late answer that only renews a lease counts, too: other nodes'
 *    shares may admit the caller then, and charge that later. While the store mostly answers late,
 *    all callers are, and for RUNG_RETURN_MS after that.
 *  - A store that has lost its memory has forgotten what it admitted: RETURNING lasts until a
 * window after it began again.
 *
 * Two things belong to "a window that overlaps the change" and may reach 2 L: a node that is cut
 * off while the others reach the store, for as long as it is; and one that finds the store later
 * than RUNG_RETURN_MS after the others. tests/model/ladder.c holds random schedules against this.
 * strict has neither: strict.h.
 */
#ifndef FLEET_RUNG_H
#define FLEET_RUNG_H

#include <stdbool.h>
#include <stdint.h>

#include "conf/conf.h"
#include "fleet/strict.h"

/* How long a node that has the store back keeps to its share: longer than the longest pause between
 * two attempts to connect (store_link.c), and the time that these take. */
#define RUNG_RETURN_MS 10000

/* How long a caller keeps to the share that has admitted it, where its window is no shorter: what
 * is on lease then ends within this time (rule_term_ms), and is not kept. */
#define RUNG_SHARED_MS 30000

enum rung {
	RUNG_STORE,     /* the store judges, or leases that it gave */
	RUNG_RETURNING, /* the same, and the node's share must have room */
	RUNG_SHARE,     /* the node's share alone */
	RUNG_WAIT,      /* 503, until the store may be asked or the share may be used */
	RUNG_REFUSE,    /* 503 */
	RUNG_ADMIT,     /* nothing is judged, nor charged */
	RUNGS,
};

/* The name of a rung. */
const char *rung_name(enum rung rung);

/* Times in ms, monotonic. Of strict also what strict.h says, of this limit. */
struct rung_facts {
	uint64_t now_ms;
	bool has_store;     /* it can be asked, and is likely to answer in time */
	bool is_slow;       /* most of its last answers were late (of local) */
	uint64_t back_ms;   /* since when this node has it back after a loss; 0: it lost it never */
	bool has_forgotten; /* it lost its memory while some node knew it, */
	uint64_t forgot_ms; /* which began again then */
	uint64_t young_ms;  /* until then its memory is young (epoch.lua); 0: it is not */
	uint64_t shared_ms; /* when the share last judged the caller, or an answer was late; 0:
			     * never, as far as counts */
	bool has_share;     /* it is known how many nodes divide the limit */
	enum strict_state strict;
	uint64_t tail_ms;  /* of strict: strict_tail_ms */
	bool knows_memory; /* of strict: since it was found, it has said whether it has forgotten */
	bool has_rest;     /* of strict: lost nodes leave something of the quota */
};

/* The rung of a limit with this window. */
enum rung rung_of(enum conf_store_down down, const struct rung_facts *facts, uint64_t window_ms);

/* With `local`: must leases fit into the share, too, because the store was late about the caller
 * recently, or is late about most callers? */
bool rung_is_shared(const struct rung_facts *facts, uint64_t window_ms);

/* Of strict: may the store not know yet what was admitted in the last window, and the tail? */
bool rung_lacks_memory(const struct rung_facts *facts, uint64_t window_ms);

/* The part of a quota that is this node's; 0: none. */
static inline uint64_t rung_share(uint64_t quota, unsigned nodes)
{
	return nodes > 0 ? quota / nodes : 0;
}

#endif
