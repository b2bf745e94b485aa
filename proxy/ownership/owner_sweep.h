/* Time, and what becomes of all sessions of the table of owners (owners.h). The first two are for
 * one worker. */
#ifndef OWNERSHIP_OWNER_SWEEP_H
#define OWNERSHIP_OWNER_SWEEP_H

#include "ownership/owners.h"

/* Renews, gives up, looks after and forgets what is due; some of it at a time. Returns when it is
 * to be called again: milliseconds, 0: nothing is there. */
uint64_t owners_sweep(struct owners *owners, struct worker *worker);
/* From the next sweep on those that are to be given up at once are, if they are unused; what is in
 * use is when that ends. Any thread, as of the next two. */
void owners_yield(struct owners *owners);
/* This process is about to end: all is to be given up. `is_replaced`: another one has its address,
 * and is forwarded to from now on. May be called again. */
void owners_drain(struct owners *owners, bool is_replaced);
/* Is the process there still whose address this one has? What that owns is waited for, and what
 * other nodes forward for it, too. */
void owners_set_predecessor(struct owners *owners, bool is_there);
/* Gives up all that is owned here, before the process ends. */
void owners_leave(struct owners *owners, struct worker *worker);

#endif
