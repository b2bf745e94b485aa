/* A worker's part in the fleet: its connection to the store, and the calls that its turns make. */
#ifndef FLEET_FLEET_PART_H
#define FLEET_FLEET_PART_H

#include "fleet/question.h"
#include "worker/worker.h"

extern const struct worker_part fleet_part;

/* Has the caller's part of the store said since the last loss of the connection which epoch it has?
 */
bool fleet_knows_epoch(const struct fleet_worker *fleet, struct throttle_key caller);

/* The way to the store's locks on a worker's thread, which has begun. While there is no store, all
 * is LOCK_UNKNOWN. When the worker ends, what waits there is not done any more. */
struct locks *fleet_locks(struct worker *worker);

#endif
