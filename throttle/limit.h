/* From a limit as it is written to the shape of its throttles. */
#ifndef THROTTLE_LIMIT_H
#define THROTTLE_LIMIT_H

#include "throttle/entry.h"

#define LIMIT_DEFAULT_SLOTS 20   /* 8 + 4 * 20 bytes, and the index: see section.h */
#define LIMIT_MOST_SLOTS    4095 /* three indexes of 12 bits leave a head 23 for the time */

/* Fills what follows from the limit alone (no zone, epoch, cache, lane). It has been checked. */
void limit_shape(const struct throttle_limit *limit, struct shape *shape);

/* The ring of refusals behind a limit with a ban: `ban_count` per `ban_per_ns`. */
void limit_ban_shape(const struct throttle_limit *limit, struct shape *shape);

const struct form_ops *form_ops_of(const struct shape *shape);

#endif
