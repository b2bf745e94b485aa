/*
 * `fleet = split`: a limit is divided among the live nodes, and each judges by its own share
 * (reserve.h), without asking. Private to the fleet.
 *
 *   worker 0 --holds so much--> store (split.lua) --so much, for a membership lease--> split.h
 *   ask --> shares_read --+-- UNITS: judged by the node's table, the rest of the quota reserved
 *                         +-- EXACT: more nodes than units; as fleet = exact
 *                         `-- NONE: the store did not answer in time; store_down decides
 *
 * The promise: never more than L over all nodes in any window W. Why it holds:
 *  1. What a node admits in a trailing window is at most the share that it had at the last
 *     admission in it (reserve.h): at most the largest share it had in the last W, `most`.
 *  2. The store counts each node with at least its `most`. A share is counted while it is held: the
 *     node measures that time from before it asked, by a clock that goes on while it stands still,
 *     less a sixteenth; so it ends at the node before it ends at the store. From its end, or from
 *     when the node has said that it uses less, it is counted for W and 200 ms more: a verdict that
 *     is older than 100 ms when its request leaves is asked for again (exchange/turn_ask.c).
 *  3. A node that asks says what it uses at most until it is answered; the store counts the larger
 *     of that and of what it answers. Answers that are lost, calls that come twice or late (they
 *     are numbered) and nodes that stop anywhere therefore leave the store counting too much, never
 *     too little.
 *  4. The store gives a node at most the quota less what it counts of all others, in one step. So
 *     the sum of all `most` is at most L.
 * tests/model/split.pml searches this exhaustively. It holds as long as the store keeps its memory
 * and its clock does not step forward. A store that is found to have lost its memory gives nobody
 * more than it holds until all that it has forgotten is over; it is found when a node says since
 * when the store should remember. One that is empty may have lost it as well: for two leases after
 * the first call nobody gets more than it holds, in which all nodes that remember have called.
 *
 * What follows: a joiner has nothing until the others have said that they use less and W has
 * passed, or until the lease of those who do not say so and W have passed. A node that stood still,
 * or that the store does not answer, has nothing from the end of its membership lease on. One that
 * is replaced (restart, upgrade) leaves and joins. A limit that is reloaded with a smaller quota
 * has a smaller share at once.
 */
#ifndef FLEET_SPLIT_H
#define FLEET_SPLIT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "fleet/reserve.h"
#include "fleet/rule.h"
#include "store/store_link.h"
#include "throttle/throttle.h"

/* ---- shares --------------------------------------------------------------------------------- */

/*
 * This node's shares of limits with `fleet = split`: for each limit, by its number in the node's
 * table, so many units of the quota until a time. One thread sets them (split.h), all read them
 * without a lock. Private to the fleet; it knows no store, and time is passed in: that of
 * worker_throttle_ns, which continues while the process stands still.
 */

#define SHARES_MOST 4096 /* numbers of limits; those beyond have no share */

enum share_kind {
	SHARE_NONE,  /* none is held: there was no answer of the store in time */
	SHARE_UNITS, /* this node may use so many, 0 included */
	SHARE_EXACT, /* there are more nodes than units: the store judges each request */
};

struct share {
	enum share_kind kind;
	uint64_t units;
	uint64_t until_ns; /* held until then; 0: never held */
	uint64_t grows_ns; /* when the store may give more; 0: unknown */
	uint64_t quota;    /* of which these are a part */
};

/* A limit's share, as one thread sets it and others read it. */
struct share_cell {
	_Atomic uint64_t word; /* units, or SHARES_EXACT_WORD */
	_Atomic uint64_t until_ns, grows_ns, quota;
	_Atomic uint32_t changes;       /* of `word` and `quota`; counted before each is stored */
	char name[THROTTLE_NAME_BYTES]; /* of the limit; set before others see the cell */
	_Atomic uint32_t nodes;         /* among which it is divided */
};

struct shares {
	_Atomic(struct share_cell *) all[SHARES_MOST];
};

void shares_init(struct shares *shares);
void shares_end(struct shares *shares);

/* ---- of the thread that sets them ---- */

/* Makes room for a limit. False without memory, or beyond SHARES_MOST. */
bool shares_add(struct shares *shares, uint32_t number, const char *name, uint64_t quota);
/* The share held at that time: kind, units; NONE once its time is over. */
struct share shares_held(const struct shares *shares, uint32_t number, uint64_t now_ns);
/* In force as soon as this returns, except for a request that is being judged. */
void shares_set(struct shares *shares, uint32_t number, const struct share *share, uint32_t nodes);
/* The limit's quota has changed: of a smaller one the share is as much smaller, at once. */
void shares_scale(struct shares *shares, uint32_t number, uint64_t quota);

/* ---- any thread ---- */

/* This node's share of a limit with this quota; of a smaller quota than it was given for, it is as
 * much smaller. */
struct share shares_read(
	const struct shares *shares, uint32_t number, uint64_t quota, uint64_t now_ns);
/* The cell of a number, for lists; NULL: none. */
const struct share_cell *shares_cell(const struct shares *shares, uint32_t number);

/* ---- split ---------------------------------------------------------------------------------- */

struct worker;

/* One limit, as the first worker speaks of it with the store. */
struct split_limit {
	char name[THROTTLE_NAME_BYTES];
	uint32_t number; /* in the node's table */
	uint64_t quota, window_us;
	uint64_t since;    /* as the store has told it; 0: never */
	uint64_t since_ns; /* when it was told so */
	struct share held; /* in the call that is on its way */
};

/* The first worker's part: one call at a time. */
struct splitting {
	struct worker *worker;
	struct shares *shares;
	struct store_link *store;
	struct store_call call;
	struct deadline timer;
	struct split_limit *limits;
	size_t count;
	char *command;
	const char *prefix; /* of the store's keys; not owned */
	char name[65];      /* this node's */
	uint64_t process;   /* tells apart processes of a name */
	uint64_t number;    /* of the last call */
	uint64_t lease_ms, patience_ms;
	uint64_t asked_ns; /* when the call was sent; 0: none is on its way */
	bool has_changed;  /* the site, since then */
};

/* The worker's loop, `shares` and `store` outlive it. */
void splitting_init(struct splitting *splitting, struct worker *worker, struct shares *shares,
	struct store_link *store);
/* The store is READY, or the worker has taken a site: asks for shares of the site's limits as the
 * node of this name, and continues as long as the store is READY. `prefix` stays until the store is
 * closed. */
void splitting_begin(struct splitting *splitting, const char *prefix, const char *name);
/* Gives up its shares, and reports that as far as the store can be reached. */
void splitting_leave(struct splitting *splitting);
void splitting_end(struct splitting *splitting);

/* ---- any worker ---- */

/* How a request is judged by a limit with this number: NONE, EXACT, or UNITS with a reserve. */
enum share_kind split_judge(const struct shares *shares, uint32_t number, const struct rule *rule,
	uint64_t now_ns, struct reserve *reserve);

#endif
