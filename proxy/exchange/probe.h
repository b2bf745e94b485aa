/*
 * /healthz and /readyz on a listener that has `health = on`: for load balancers that can look only
 * where clients connect. The first says that sluice turns; the second, that it takes new requests.
 */
#ifndef EXCHANGE_PROBE_H
#define EXCHANGE_PROBE_H

#include <stdbool.h>

struct exchange;

/* Answers a probe and returns true; anything else passes. Before routes, limits and queues. */
bool probe_answered(struct exchange *exchange);

#endif
