/* The parts that work on a worker's thread: the list that every worker is made with. */
#ifndef DAEMON_WORKER_PARTS_H
#define DAEMON_WORKER_PARTS_H

#include "worker/worker.h"

extern const struct worker_part *const worker_parts[];

#endif
