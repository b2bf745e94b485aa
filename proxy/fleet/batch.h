/*
 * The arguments and the answer of one call of the store's function: the verdicts that a worker's
 * turn has requested, and the charges that are returned. Composed as it comes; no memory is taken
 * once the texts have grown to their size.
 *
 *   batch_ask, batch_give, batch_charge ... --> batch_compose --> store
 *   store --> answer_begin, then answer_verdict for each batch_ask in its order
 */
#ifndef FLEET_BATCH_H
#define FLEET_BATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/integers.h"
#include "fleet/rule.h"
#include "store/cluster_map.h"
#include "throttle/throttle.h"

/* Callers in one call, each of one limit, and rules. */
#define BATCH_KEYS_MOST  512
#define BATCH_RULES_MOST 64
#define BATCH_RUN_LIMITS 8
#define BATCH_PLACES     2048 /* to find keys by; a power of two */

struct batch_text {
	char *at;
	size_t len, size;
};

/* A function of the store, and where it keeps its values. */
struct batch_function {
	const char *name;
	const char *suffix;   /* of its callers' keys; the number is the layout's, not the name's */
	const char *kinds[4]; /* more of the suffix, by enum rule_kind */
	bool has_runs;        /* of requests by the same limits; its answer has doubles */
};

extern const struct batch_function batch_judge, batch_lease; /* judge.lua, lease.lua */

/* Requests in a row by the same limits, each of callers that the batch has not named before. */
struct batch_run {
	uint32_t limits, requests; /* 0: there is none */
	uint32_t first_key;        /* its number; those of all requests follow each other */
	uint32_t rules[BATCH_RUN_LIMITS];
	uint64_t costs[BATCH_RUN_LIMITS];
};

struct batch {
	const struct batch_function *function;
	const char *prefix;      /* of all keys; not owned */
	unsigned part;           /* that all callers belong to (cluster_map.h) */
	struct batch_text keys;  /* as they are sent */
	struct batch_text words; /* operations, in integers */
	struct batch_text all;   /* what is sent */
	uint32_t key_count, word_count, rule_count;
	uint32_t key_at[BATCH_KEYS_MOST]; /* where each begins */
	uint16_t places[BATCH_PLACES];    /* numbers of keys by their hash; 0: free */
	struct batch_run run;             /* not in `words` yet */
	struct rule rules[BATCH_RULES_MOST];
	bool has_ban[BATCH_KEYS_MOST]; /* the next key is of the caller's refusals */
	uint64_t known_epoch, holder, lease_us;
	bool failed; /* memory ran out */
};

/* A caller of a limit. */
struct batch_charge {
	const struct rule *rule;
	const char *limit; /* its name */
	struct throttle_key caller;
	uint64_t cost;
};

/* Empties it for a next call. Zeroed memory is a batch that was never begun. `part`: that all its
 * callers belong to; 0 where the store is no cluster. */
void batch_begin(struct batch *batch, const struct batch_function *function, const char *prefix,
	unsigned part);
void batch_free(struct batch *batch);

/* Has it room for an operation with so many limits? */
bool batch_has_room(const struct batch *batch, unsigned limits);
static inline bool batch_is_empty(const struct batch *batch)
{
	return batch->word_count == 0 && batch->run.requests == 0;
}

/* ---- of judge.lua ---- */

/* Judges by so many limits, all or none; `takes`: and charges them. Without memory these do nothing
 * but note it for batch_compose. */
void batch_ask(struct batch *batch, const struct batch_charge *charges, unsigned count, bool takes);
/* Gives back `charge->cost` of what was charged in that slot of that epoch. */
void batch_give(
	struct batch *batch, const struct batch_charge *charge, uint64_t slot, uint64_t epoch);
/* Charges `charge->cost`, whether it fits or not. */
void batch_charge(struct batch *batch, const struct batch_charge *charge);
/* Says that the holder holds so many of the caller's, before this batch's next operation on it;
 * `is_settled`: it waits for no answer about more. */
void batch_hold(
	struct batch *batch, const struct batch_charge *charge, uint64_t held, bool is_settled);
/* Forgets what the caller has used, and its ban; not what it has in flight. */
void batch_forget(struct batch *batch, const struct batch_charge *charge);

/* ---- of lease.lua ---- */

/* What a node says of a lease, and wants: a new one, of `want` units and what it keeps of that one,
 * that ends `term_us` after the store has the request. */
struct batch_lease {
	uint64_t slot, epoch; /* that it has; slot 0: none */
	uint64_t units, used, keep;
	uint64_t want, term_us;
};

/* Judges by so many limits, all or none; `leases`: one for each. */
void batch_ask_lease(struct batch *batch, const struct batch_charge *charges,
	const struct batch_lease *leases, unsigned count);
/* Gives back `charge->cost` of what the store charged in that epoch, at its time `since_us` or
 * later; it does nothing when that is a window ago. */
void batch_give_lease(
	struct batch *batch, const struct batch_charge *charge, uint64_t epoch, uint64_t since_us);

/* ---- of both ---- */

/* The epoch of the store that this node knows, 0: none. Rules that wait are full when the store has
 * forgotten since (epoch.lua). */
void batch_know(struct batch *batch, uint64_t epoch);
/* Who holds what is in flight (holders.lua), a number below 2^53, and for how long nodes may be
 * silent, microseconds. */
void batch_hold_as(struct batch *batch, uint64_t holder, uint64_t lease_us);

/* The whole command in Redis's protocol, in memory of the batch's until it is begun again; false:
 * memory ran out. */
bool batch_compose(struct batch *batch, const char **command, size_t *len);

/* ---- the answer ------------------------------------------------------------------------------ */

struct answer {
	struct integers numbers;
	uint64_t now_us, epoch;
};

/* One limit's. */
struct answer_limit {
	uint64_t used;   /* with this charge, if it was taken */
	uint64_t slot;   /* 0: nothing was charged */
	int64_t time_us; /* judge.lua: until it fits (-1: never), something or all is free */
	bool fits, is_banned;
};

/* Of this function. False when the bytes are no answer. */
bool answer_begin(struct answer *answer, const struct batch_function *function, const void *bytes,
	size_t len);
/* One limit's of lease.lua. */
struct answer_lease {
	uint64_t used;      /* or on lease */
	uint64_t slot;      /* of the lease; 0: none */
	uint64_t kept, got; /* units in it */
	int64_t time_us;    /* lease.lua */
	bool fits;          /* the cost; charged, if it was admitted */
};

/* The next verdict's of lease.lua, as answer_verdict. */
bool answer_leases(
	struct answer *answer, unsigned count, bool *admitted, struct answer_lease *limits);

/* The next verdict's, over limits by these rules; `*admitted` is whether all was charged. False
 * when the answer is wrong. */
bool answer_verdict(struct answer *answer, const struct rule *const *rules, unsigned count,
	bool *admitted, struct answer_limit *limits);

#endif
