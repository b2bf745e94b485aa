#include "gate/limit_sets.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static uint8_t add_key(struct limit_set *set, const struct conf_key *key)
{
	for (uint8_t i = 0; i < set->key_count; i++) {
		if (strcmp(set->keys[i]->text, key->text) == 0)
			return i;
	}
	set->keys[set->key_count] = key;
	return set->key_count++;
}

/* A limit that both the route and the plan name is charged once. */
static int add_limit(struct limit_set *set, const struct conf_route *route,
	const struct conf_limit *limit, const struct throttle_table *throttles)
{
	for (unsigned i = 0; i < set->count; i++) {
		if (set->limits[i] == limit)
			return 0;
	}
	assert(set->count < GATE_LIMITS_MAX); /* the configuration was checked */
	int number = throttle_table_number(throttles, limit->name);
	if (number < 0)
		return ENOENT;
	bool in_bytes = limit->unit == CONF_UNIT_BYTES;
	bool by_cost = !in_bytes && limit->algorithm != CONF_LIMIT_CONCURRENCY;
	set->limits[set->count] = limit;
	set->numbers[set->count] = (uint32_t)number;
	set->keys_of[set->count] = add_key(set, limit->key);
	/* Bytes are charged as they pass; before, it is only asked whether there are any left. One
	 * exchange is one in flight, whatever it costs. */
	set->costs[set->count] = by_cost ? route->cost : !in_bytes;
	set->in_bytes |= (uint32_t)in_bytes << set->count;
	set->in_flight |= (uint32_t)(limit->algorithm == CONF_LIMIT_CONCURRENCY) << set->count;
	set->by_cost |= (uint32_t)by_cost << set->count;
	set->count++;
	return 0;
}

static int add_limits(struct limit_set *set, const struct conf_route *route,
	const struct conf_limit *const *limits, size_t count,
	const struct throttle_table *throttles)
{
	int error = 0;

	for (size_t i = 0; i < count && error == 0; i++)
		error = add_limit(set, route, limits[i], throttles);
	return error;
}

static int fill(struct limit_set *set, const struct conf_route *route, const struct conf_plan *plan,
	const struct throttle_table *throttles)
{
	size_t before = route->plan_limits ? route->plan_position : route->limit_count;

	*set = (struct limit_set){0};
	add_key(set, route->sessions.key);
	int error = add_limits(set, route, route->limits, before, throttles);
	if (error == 0 && route->plan_limits && plan)
		error = add_limits(set, route, plan->limits, plan->limit_count, throttles);
	if (error == 0)
		error = add_limits(
			set, route, route->limits + before, route->limit_count - before, throttles);
	set->first_key = set->count > 0 ? set->keys_of[0] : 0;
	return error;
}

int limit_sets_init(
	struct limit_sets *sets, const struct conf *conf, const struct throttle_table *throttles)
{
	int error = 0;

	sets->plan_count = conf->plan_count;
	sets->per_route = conf->plan_count + 1;
	sets->sets = calloc(conf->route_count * sets->per_route + 1, sizeof(*sets->sets));
	if (!sets->sets)
		return ENOMEM;
	for (size_t i = 0; i < conf->route_count && error == 0; i++) {
		for (size_t j = 0; j < sets->per_route && error == 0; j++) {
			error = fill(&sets->sets[i * sets->per_route + j], &conf->routes[i],
				j < conf->plan_count ? &conf->plans[j] : NULL, throttles);
		}
	}
	return error;
}

static bool has_limit(const struct limit_set *set, const struct conf_limit *limit)
{
	for (unsigned i = 0; i < set->count; i++) {
		if (set->limits[i] == limit)
			return true;
	}
	return false;
}

bool limit_sets_use(struct limit_sets *sets, size_t route_count, const struct conf_limit *limit,
	struct authority *authority)
{
	for (size_t i = 0; i < route_count * sets->per_route; i++) {
		struct limit_set *set = &sets->sets[i];
		if (!has_limit(set, limit))
			continue;
		if (set->authority && set->authority != authority)
			return false;
		set->authority = authority;
	}
	return true;
}

void limit_sets_free(struct limit_sets *sets)
{
	free(sets->sets);
	sets->sets = NULL;
}
