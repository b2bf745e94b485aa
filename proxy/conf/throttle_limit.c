#include "conf/throttle_limit.h"

#include <string.h>

static enum throttle_kind kind_of(enum conf_limit_algorithm algorithm)
{
	switch (algorithm) {
	case CONF_LIMIT_GCRA:
		return THROTTLE_GCRA;
	case CONF_LIMIT_CALENDAR:
		return THROTTLE_CALENDAR;
	case CONF_LIMIT_CONCURRENCY:
		return THROTTLE_CONCURRENCY;
	case CONF_LIMIT_RING:
	default:
		return THROTTLE_RING;
	}
}

enum throttle_period conf_throttle_period(enum conf_calendar calendar)
{
	switch (calendar) {
	case CONF_CALENDAR_HOUR:
		return THROTTLE_HOUR;
	case CONF_CALENDAR_WEEK:
		return THROTTLE_WEEK;
	case CONF_CALENDAR_MONTH:
		return THROTTLE_MONTH;
	case CONF_CALENDAR_DAY:
	default:
		return THROTTLE_DAY;
	}
}

bool conf_throttle_limit(
	const struct conf_limit *limit, uint64_t guard_ns, struct throttle_limit *out)
{
	const char *zone = limit->time_zone ? limit->time_zone : "";

	if (strlen(limit->name) >= sizeof(out->name) ||
		(limit->was && strlen(limit->was) >= sizeof(out->was)) ||
		strlen(zone) >= sizeof(out->zone))
		return false;
	*out = (struct throttle_limit){
		.kind = kind_of(limit->algorithm),
		.unit = limit->unit == CONF_UNIT_BYTES ? THROTTLE_BYTES : THROTTLE_REQUESTS,
		.quota = limit->amount,
		.window_ns = limit->per_ns,
		.guard_ns = guard_ns,
		.slots = limit->precision == CONF_PRECISION_EXACT ? THROTTLE_EXACT
								  : limit->precision,
		/* conf: 0 is all of the amount at once; the library: 0 is one. */
		.burst = limit->burst > 0 ? limit->burst : limit->amount,
		.period = conf_throttle_period(limit->calendar),
		.mode = limit->shadow ? THROTTLE_SHADOW : THROTTLE_ENFORCE,
		.count_refused = limit->count_refused,
		.delay_max_ns = limit->delay_max_ms * 1000000,
		.ban_count = (uint32_t)limit->ban.count,
		.ban_per_ns = limit->ban.per_ns,
		.ban_for_ns = limit->ban.for_ns,
	};
	strcpy(out->name, limit->name);
	if (limit->was)
		strcpy(out->was, limit->was);
	if (limit->algorithm == CONF_LIMIT_CALENDAR)
		strcpy(out->zone, zone);
	return true;
}
