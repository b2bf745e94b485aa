#include "fleet/rule.h"

#include <stdlib.h>
#include <string.h>

#include "conf/throttle_limit.h"
#include "throttle/throttle.h"

enum { SLOTS_DEFAULT = 31, SLOTS_MOST = 255, TERM_MOST_MS = 30000 };

#define COST_MOST    UINT64_C(1000000000) /* the largest amount of requests (conf/value_limit.c) */
#define TEN_YEARS_US (UINT64_C(3653) * 86400 * 1000000)

static uint64_t us_of(uint64_t ns)
{
	return ns / 1000 + (ns % 1000 != 0);
}

static enum rule_kind kind_of(enum conf_limit_algorithm algorithm)
{
	switch (algorithm) {
	case CONF_LIMIT_GCRA:
		return RULE_GCRA;
	case CONF_LIMIT_CALENDAR:
		return RULE_CALENDAR;
	case CONF_LIMIT_CONCURRENCY:
		return RULE_HOLDERS;
	case CONF_LIMIT_RING:
	default:
		return RULE_RING;
	}
}

/* So that a window has at least so many slots, and less than twice as many. A power of two, so that
 * of two rules that nodes have of a limit during a reload one quantum divides the other: the store
 * rounds a caller's times to that of each call, and they would grow with each, else. */
static uint64_t quantum_of(uint64_t quota, uint64_t window_us, uint64_t slots)
{
	uint64_t parts = slots > 1 ? slots - 1 : 1, quantum_us = 1;

	while (quota > slots && 2 * quantum_us <= window_us / parts)
		quantum_us *= 2;
	return quantum_us;
}

struct rule rule_of(const struct conf_limit *limit)
{
	uint64_t slots = limit->precision == CONF_PRECISION_EXACT ? SLOTS_MOST
			 : limit->precision > 0                   ? limit->precision
								  : SLOTS_DEFAULT;
	uint64_t window_us = us_of(limit->per_ns);

	return (struct rule){
		.kind = kind_of(limit->algorithm),
		.shadow = limit->shadow,
		.counts_refused = limit->count_refused,
		.ban_count = (unsigned)limit->ban.count,
		.ban_per_us = us_of(limit->ban.per_ns),
		.ban_for_us = us_of(limit->ban.for_ns),
		.quota = limit->amount,
		.window_us = window_us,
		.quantum_us = quantum_of(limit->amount, window_us, slots),
		.burst = limit->burst > 0 ? limit->burst : limit->amount,
	};
}

uint64_t rule_cost_most(const struct rule *rule)
{
	if (rule->kind != RULE_GCRA)
		return COST_MOST;
	unsigned __int128 drained =
		(unsigned __int128)TEN_YEARS_US * rule->quota / rule->window_us + rule->burst;
	return drained < COST_MOST ? (uint64_t)drained : COST_MOST;
}

uint64_t rule_term_ms(const struct rule *rule)
{
	uint64_t term_ms = rule->window_us / 4000;

	return term_ms < TERM_MOST_MS ? term_ms : TERM_MOST_MS;
}

void rule_set_waits(struct rule *rule, enum conf_store_down down, bool knows_epoch)
{
	rule->waits_young = down == CONF_STORE_DOWN_REFUSE || down == CONF_STORE_DOWN_STRICT;
	rule->waits = rule->waits_young || (down == CONF_STORE_DOWN_LOCAL && !knows_epoch);
}

bool rule_is_same(const struct rule *a, const struct rule *b)
{
	return a->quota == b->quota && a->window_us == b->window_us &&
	       a->quantum_us == b->quantum_us && a->kind == b->kind && a->shadow == b->shadow &&
	       a->waits == b->waits && a->waits_young == b->waits_young && a->burst == b->burst &&
	       a->edges == b->edges && a->counts_refused == b->counts_refused &&
	       a->ban_count == b->ban_count && a->ban_per_us == b->ban_per_us &&
	       a->ban_for_us == b->ban_for_us;
}

struct rule rule_of_ban(const struct rule *rule)
{
	return (struct rule){
		.quota = rule->ban_count,
		.window_us = rule->ban_per_us,
		.quantum_us = quantum_of(rule->ban_count, rule->ban_per_us, SLOTS_DEFAULT),
	};
}

/* ---- period --------------------------------------------------------------------------------- */

#define US_PER_S UINT64_C(1000000)

struct period {
	struct period *next;
	enum throttle_period unit;
	struct throttle_zone *zone;
	uint64_t edges[RULE_EDGES];
	char name[];
};

static struct period *add(struct period **periods, const char *name, enum throttle_period unit)
{
	size_t bytes = strlen(name) + 1;
	struct period *made = calloc(1, sizeof(*made) + bytes);

	if (!made)
		return NULL;
	made->zone = throttle_zone_open(name);
	if (!made->zone) {
		free(made);
		return NULL;
	}
	memcpy(made->name, name, bytes);
	made->unit = unit;
	made->next = *periods;
	*periods = made;
	return made;
}

static void follow(struct period *period, uint64_t now_us)
{
	int64_t edges[RULE_EDGES];

	throttle_zone_period(
		period->zone, period->unit, (int64_t)(now_us / US_PER_S), &edges[1], &edges[2]);
	throttle_zone_period(period->zone, period->unit, edges[1] - 1, &edges[0], &edges[1]);
	throttle_zone_period(period->zone, period->unit, edges[2], &edges[2], &edges[3]);
	for (int i = 0; i < RULE_EDGES; i++)
		period->edges[i] = edges[i] > 0 ? (uint64_t)edges[i] * US_PER_S : 0;
}

const uint64_t *period_edges(
	struct period **periods, const struct conf_limit *limit, uint64_t now_us)
{
	enum throttle_period unit = conf_throttle_period(limit->calendar);
	struct period *period = *periods;

	while (period && (period->unit != unit || strcmp(period->name, limit->time_zone) != 0))
		period = period->next;
	if (!period)
		period = add(periods, limit->time_zone, unit);
	if (!period)
		return NULL;
	if (now_us < period->edges[1] || now_us >= period->edges[2])
		follow(period, now_us);
	return period->edges;
}

void periods_free(struct period *periods)
{
	while (periods) {
		struct period *next = periods->next;
		throttle_zone_close(periods->zone);
		free(periods);
		periods = next;
	}
}
