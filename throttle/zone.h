/*
 * Time zones, for calendar quotas: when does an hour, a day, a week, a month begin and end there?
 *
 * Read from the system's zoneinfo files (RFC 8536) with the rule in their footer for the years
 * beyond the table. A zone is immutable once loaded: any thread may ask, there is no global state,
 * and libc's TZ isn't touched.
 */
#ifndef THROTTLE_ZONE_H
#define THROTTLE_ZONE_H

#include <stdbool.h>
#include <stdint.h>

#include "throttle/throttle.h"

struct zone;

/* The IANA zone `name`; "" and "UTC" need no file. NULL with errno: EINVAL (not a name), ENOENT (no
 * such zone), EBADMSG (not a zoneinfo file), ENOMEM. */
struct zone *zone_load(const char *name);
void zone_free(struct zone *zone);
bool zone_is_same(const struct zone *a, const struct zone *b);

/* Seconds east of UTC at a time (seconds since 1970). */
int32_t zone_offset(const struct zone *zone, int64_t time);

/*
 * The period that `time` is in: [*begin, *end). A day begins at the first instant whose local date
 * is that day, also where midnight is skipped or comes twice. A week begins on Monday. Hours that
 * the clock passes twice are two hours.
 */
void zone_period(const struct zone *zone, enum throttle_period period, int64_t time, int64_t *begin,
	int64_t *end);

#endif
