/*
 * A limit as the store's functions (judge.lua, lease.lua) take it: in microseconds, and of a ring
 * with the grain in which it remembers times.
 */
#ifndef FLEET_RULE_H
#define FLEET_RULE_H

#include <stdbool.h>
#include <stdint.h>

#include "conf/conf.h"

/* By the numbers that judge.lua has. */
enum rule_kind { RULE_RING, RULE_GCRA, RULE_CALENDAR, RULE_HOLDERS };

#define RULE_EDGES 4

struct rule {
	enum rule_kind kind;
	bool shadow, counts_refused;
	bool waits;         /* full for a window when the store has forgotten (epoch.lua) */
	bool waits_young;   /* full while the store is young (epoch.lua) */
	uint32_t ban_count; /* 0: no bans */
	uint64_t ban_per_us, ban_for_us; /* of bans */
	uint64_t quota;
	uint64_t window_us;    /* of ring and gcra */
	uint64_t quantum_us;   /* of ring */
	uint64_t burst;        /* of gcra */
	const uint64_t *edges; /* of calendar: rule.h; RULE_EDGES, as long as the worker */
};

/* As throttle/throttle.h has it: of a ring, a quota up to the slots is exact, a larger one is late
 * by a slot at most. A calendar's edges are not set. */
struct rule rule_of(const struct conf_limit *limit);

/* How much fits at once: what a verdict reports as the quota. */
static inline uint64_t rule_most(const struct rule *rule)
{
	return rule->kind == RULE_GCRA ? rule->burst : rule->quota;
}

/* The largest true cost that is charged of it; a larger one is this. A response may say any number,
 * and the store's have 53 bits. It is no less than any quota, and of gcra ten years and the burst.
 */
uint64_t rule_cost_most(const struct rule *rule);

/* How long a lease of it lasts (fleet = lease). */
uint64_t rule_term_ms(const struct rule *rule);
static inline uint64_t rule_term_us(const struct rule *rule)
{
	return rule_term_ms(rule) * 1000;
}

/* Sets whether it waits. `knows_epoch`: the store has said which epoch it has. Until then nothing
 * is known of its memory, and local waits too. */
void rule_set_waits(struct rule *rule, enum conf_store_down down, bool knows_epoch);

bool rule_is_same(const struct rule *a, const struct rule *b);

/* The ring of a ban's refusals. */
struct rule rule_of_ban(const struct rule *rule);

/* ---- period --------------------------------------------------------------------------------- */

/*
 * When hours, days, weeks and months of time zones begin, for the store, which has no zones: of
 * each the times at which the period before, that of now, and the next one begin, and when that
 * ends (calendar.lua). All of it belongs to a worker's thread; time is passed in.
 */

struct period;

/* The edges of a calendar limit's periods about `now_us`, microseconds since 1970 by the store's
 * clock, as far as that is known. They stay until periods_free, and follow the time with each call.
 * `periods`: those that are known, NULL at first. NULL without memory, or the zone can't be read.
 */
const uint64_t *period_edges(
	struct period **periods, const struct conf_limit *limit, uint64_t now_us);
void periods_free(struct period *periods);

#endif
