/*
 * This node's shares of limits with `fleet = split`: for each limit, by its number in the node's
 * table, so many units of the quota until a time. One thread sets them (split.h), all read them
 * without a lock. Private to the fleet; it knows no store, and time is passed in: that of
 * worker_throttle_ns, which continues while the process stands still.
 */
#ifndef FLEET_SHARES_H
#define FLEET_SHARES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "throttle/throttle.h"

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

#endif
