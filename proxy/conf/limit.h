/*
 * [limit NAME] and [plan NAME]. Of a snapshot (conf.h).
 */
#ifndef CONF_LIMIT_H
#define CONF_LIMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conf/key.h"
#include "conf/match.h"
#include "conf/terms.h"

enum conf_limit_algorithm {
	CONF_LIMIT_RING,
	CONF_LIMIT_GCRA,
	CONF_LIMIT_CALENDAR,
	CONF_LIMIT_CONCURRENCY
};
enum conf_limit_unit { CONF_UNIT_REQUESTS, CONF_UNIT_BYTES };
enum conf_calendar {
	CONF_CALENDAR_HOUR,
	CONF_CALENDAR_DAY,
	CONF_CALENDAR_WEEK,
	CONF_CALENDAR_MONTH
};

#define CONF_PRECISION_EXACT UINT32_MAX

/* How a limit of the fleet is judged. */
enum conf_fleet_way {
	CONF_FLEET_NONE,
	CONF_FLEET_EXACT,
	CONF_FLEET_LEASE,
	CONF_FLEET_SPLIT,
	CONF_FLEET_RELAXED
};

/* The behaviour of a limit of the fleet when the store does not answer. */
enum conf_store_down {
	CONF_STORE_DOWN_UNSET, /* on a limit: the value in [fleet] */
	CONF_STORE_DOWN_LOCAL,
	CONF_STORE_DOWN_STRICT,
	CONF_STORE_DOWN_REFUSE,
	CONF_STORE_DOWN_ADMIT
};

/* ban = 10 per 1m for 5m; 0: none */
struct conf_ban {
	uint64_t count, per_ns, for_ns;
};

struct conf_limit {
	const char *name;
	unsigned line;
	unsigned index;  /* in conf.limits */
	const char *was; /* the name that it had before; NULL: none */
	const struct conf_key *key;
	struct conf_when when;               /* it applies only then */
	enum conf_limit_algorithm algorithm; /* algorithm = ring | gcra; calendar follows from the
						rate; concurrency = N instead of rate */
	enum conf_limit_unit unit;
	uint64_t amount; /* L: requests, bytes, or in flight */
	uint64_t per_ns; /* W; 0 for calendar and concurrency */
	enum conf_calendar calendar;
	const char *time_zone; /* IANA name, "UTC" by default */
	uint64_t burst;        /* gcra: 0 means L */
	uint32_t precision;    /* slots; 0: what fits 128 bytes a caller; CONF_PRECISION_EXACT */
	bool of_fleet;         /* scope = fleet: of all nodes together */
	enum conf_fleet_way fleet_way;
	enum conf_store_down store_down;
	bool of_connections;   /* unit = connections: counts those of listeners */
	bool refuses_by_close; /* refuse_by = close, of those; else by a reset */
	bool shadow;           /* mode = shadow */
	bool count_refused;
	uint64_t delay_max_ms; /* on_exceed = delay 2s; 0: reject */
	struct conf_ban ban;
};

/* Requests and their costs over a sliding window, of which no refusal leaves a trace: what leases
 * and shares of a fleet can count. */
static inline bool conf_limit_is_plain(const struct conf_limit *limit)
{
	return limit->algorithm == CONF_LIMIT_RING && limit->unit == CONF_UNIT_REQUESTS &&
	       !limit->of_connections && !limit->count_refused && limit->ban.count == 0;
}

enum conf_lane { CONF_LANE_NORMAL, CONF_LANE_HIGH };

/* The treatment of callers whose key has no plan. */
enum conf_unknown { CONF_UNKNOWN_INHERIT, CONF_UNKNOWN_DEFAULT, CONF_UNKNOWN_REFUSE };

/* The limits that a key of a route or plan names. In a route's, the plan's may be among them. */
struct conf_limits {
	const struct conf_limit **items;
	size_t count;
	bool plan;            /* the word `plan` is among them */
	size_t plan_position; /* how many of the items go before the plan's */
};

struct conf_plan {
	const char *name;
	unsigned line;
	struct conf_limits limits;
	struct conf_when when; /* of callers on no list: those of whose requests this holds */
	enum conf_lane lane;
	uint32_t weight;          /* its callers' share at a busy upstream, 1 */
	const char *callers_path; /* file: one key a line; NULL for the default plan */
	struct conf_text_list
		callers; /* what the file held, '#' comments and empty lines left out */
};

#endif
