#include "fleet/period.h"

#include <stdlib.h>
#include <string.h>

#include "conf/throttle_limit.h"
#include "throttle/throttle.h"

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
