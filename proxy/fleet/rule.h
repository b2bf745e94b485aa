/*
 * A limit as the store's function (judge.lua) takes it: in microseconds, and with the grain in
 * which it remembers times.
 */
#ifndef FLEET_RULE_H
#define FLEET_RULE_H

#include <stdbool.h>
#include <stdint.h>

#include "conf/conf.h"

struct rule {
	uint64_t quota;
	uint64_t window_us, quantum_us;
	bool shadow;
	bool waits; /* full for a window when the store has forgotten (judge.lua) */
};

/* Of a limit by a rate in requests; as throttle/throttle.h has it, a quota up to the slots is
 * exact, a larger one is late by a slot at most. */
struct rule rule_of(const struct conf_limit *limit);

#endif
