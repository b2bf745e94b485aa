/* What works on a worker's thread: the list that every worker is made with. */
#ifndef RELAY_WORKER_PARTS_H
#define RELAY_WORKER_PARTS_H

#include "relay/worker.h"

extern const struct worker_part *const worker_parts[];

#endif
