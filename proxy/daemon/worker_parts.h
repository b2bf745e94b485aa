/* The parts that work on a worker's thread: the list that every worker is made with. */
#ifndef DAEMON_WORKER_PARTS_H
#define DAEMON_WORKER_PARTS_H

#include "worker/worker.h"

extern const struct worker_part *const worker_parts[];

/* The names of the protocols of clients in ALPN, ended by NULL. */
extern const char *const worker_protocol_names[];

#endif
