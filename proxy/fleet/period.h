/*
 * When hours, days, weeks and months of time zones begin, for the store, which has no zones: of
 * each the times at which the period before, that of now, and the next one begin, and when that
 * ends (calendar.lua). All of it belongs to a worker's thread; time is passed in.
 */
#ifndef FLEET_PERIOD_H
#define FLEET_PERIOD_H

#include <stdint.h>

#include "conf/conf.h"
#include "fleet/rule.h"

struct period;

/* The edges of a calendar limit's periods about `now_us`, microseconds since 1970 by the store's
 * clock, as far as that is known. They stay until periods_free, and follow the time with each call.
 * `periods`: those that are known, NULL at first. NULL without memory, or the zone can't be read.
 */
const uint64_t *period_edges(
	struct period **periods, const struct conf_limit *limit, uint64_t now_us);
void periods_free(struct period *periods);

#endif
