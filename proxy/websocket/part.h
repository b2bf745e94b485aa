/* The worker's events for its WebSockets. */
#ifndef WEBSOCKET_PART_H
#define WEBSOCKET_PART_H

#include "worker/worker.h"

extern const struct worker_part websockets_part;

#endif
