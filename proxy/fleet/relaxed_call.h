/* A call of the store's function for limits with fleet = relaxed (relaxed.lua). Private to the
 * fleet. */
#ifndef FLEET_RELAXED_CALL_H
#define FLEET_RELAXED_CALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fleet/rule.h"
#include "throttle/throttle.h"

#define RELAXED_AT_ONCE 256 /* callers in a call */

/* All that counts is at most as much. */
#define RELAXED_ALL (UINT64_C(1) << 53)

/* One caller of a limit; all in a call differ. */
struct relaxed_part {
	struct throttle_key caller; /* as all nodes name it */
	const char *limit;
	const struct rule *rule;
	uint64_t more, less; /* admitted, and given back; both 0: it only asks */
};

/* Composes a call of 1 to RELAXED_AT_ONCE parts; the answer has two integers for each: what counts,
 * and in how many microseconds the oldest of that counts no more. The caller frees `*command`.
 * False without memory. */
bool relaxed_compose(const struct relaxed_part *parts, unsigned count, const char *prefix,
	char **command, size_t *len);

#endif
