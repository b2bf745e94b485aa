/* A worker's part in the fleet: its connection to the store, and the calls that its turns make. */
#ifndef FLEET_FLEET_PART_H
#define FLEET_FLEET_PART_H

#include "fleet/question.h"
#include "worker/worker.h"

extern const struct worker_part fleet_part;

/* Can the store be asked now, and is likely to answer in time? */
bool fleet_can_ask(const struct fleet_worker *fleet);

/* Has the store said since the last loss of the connection which epoch it has? */
bool fleet_knows_epoch(const struct fleet_worker *fleet);

/* A batch for this function that is sent at the end of this round, with room for so many limits;
 * NULL: the store is away, or without memory. */
struct fleet_batch *fleet_filling(
	struct fleet_worker *fleet, enum fleet_function function, unsigned limits);

#endif
