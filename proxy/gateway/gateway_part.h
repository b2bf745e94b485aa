/* The worker's events for its gateways, and what exchanges and passages call of WebSockets. */
#ifndef GATEWAY_GATEWAY_PART_H
#define GATEWAY_GATEWAY_PART_H

#include "worker/worker.h"

extern const struct worker_part gateways_part;

#endif
