/*
 * Asks about locks (lock.h) on their way to the store: what is asked in a turn is one call for each
 * part of the store, of at most LOCKS_AT_ONCE locks.
 *
 *   locks_ask --> waits --locks_send, at the turn's end--> store --> ask->done()
 *                                                           `-- silent: LOCK_UNKNOWN
 *
 * All of it belongs to one thread. It stands on a connection that its owner has opened: a worker's
 * (fleet_part.h), or a command's.
 */
#ifndef STORE_LOCKS_H
#define STORE_LOCKS_H

#include "store/lock.h"
#include "store/cluster_map.h"
#include "store/store_link.h"
#include "loop/deadline.h"

#define LOCKS_AT_ONCE 64 /* in a call, which holds the store up for some 0.7 ms */

struct lock_call;

struct locks {
	struct loop *loop;
	struct store_link *store;
	const char *prefix;  /* of the store's keys; its owner's, while anything is asked */
	uint64_t silence_ms; /* so long the store may leave a call unanswered */
	uint64_t watched_ms; /* when the call was sent that `silence` is set for */
	struct lock_ask *first, **end; /* not sent yet */
	struct lock_call *filling[LOCK_KINDS][1 + SLOT_PARTS];
	struct lock_call *ready, **ready_end; /* in the order of their first asks */
	struct lock_call *sent;
	struct deadline silence;
};

/* `loop` and `store` outlive it. */
void locks_init(struct locks *locks, struct loop *loop, struct store_link *store);
/* Pending questions are dropped. The store must be closed. */
void locks_end(struct locks *locks);

/* Asks; ask->done is called once, later and never from within. What it borrows, and `ask` itself,
 * must stay until then, or until locks_cancel. A caller that got LOCK_UNKNOWN asks again after a
 * while, not from within done. */
void locks_ask(struct locks *locks, struct lock_ask *ask);
/* Done is not called any more; the store may do it all the same. */
void locks_cancel(struct locks *locks, struct lock_ask *ask);
/* Is anything asked that is not done? */
static inline bool locks_are_asked(const struct locks *locks)
{
	return locks->first || locks->sent;
}
/* Sends what was asked: at the end of each turn. Questions that can't be sent are answered
 * LOCK_UNKNOWN. False: there was nothing. store_link_flush is the owner's. */
bool locks_send(struct locks *locks);

#endif
