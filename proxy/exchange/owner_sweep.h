/* Time, for the table of owners (owners.h): one worker calls. */
#ifndef EXCHANGE_OWNER_SWEEP_H
#define EXCHANGE_OWNER_SWEEP_H

#include "exchange/owners.h"

/* Renews, gives up, looks after and forgets what is due; some of it at a time. Returns when it is
 * to be called again: milliseconds, 0: nothing is there. `draining`: idle ones go at once. */
uint64_t owners_sweep(struct owners *owners, struct worker *worker, bool draining);
/* Gives up all that is owned here, before the process ends. */
void owners_leave(struct owners *owners, struct worker *worker);

#endif
