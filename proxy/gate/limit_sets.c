#include "gate/limit_sets.h"

#include <assert.h>
#include <errno.h>
#include <search.h>
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

static bool is_leased(const struct conf_limit *limit)
{
	return limit->of_fleet && limit->fleet_way == CONF_FLEET_LEASE &&
	       conf_limit_is_plain(limit);
}

/* A limit that both the route and the plan name is charged once. */
static int add_limit(struct limit_set *set, uint64_t cost, const struct conf_limit *limit,
	const struct throttle_table *throttles)
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
	set->costs[set->count] = by_cost ? cost : !in_bytes;
	set->in_bytes |= (uint32_t)in_bytes << set->count;
	set->in_flight |= (uint32_t)(limit->algorithm == CONF_LIMIT_CONCURRENCY) << set->count;
	set->by_cost |= (uint32_t)by_cost << set->count;
	set->shared_keys |= (uint32_t)limit->of_fleet << set->keys_of[set->count];
	set->leased = (set->count == 0 || set->leased) && is_leased(limit);
	set->count++;
	return 0;
}

static int add_limits(struct limit_set *set, uint64_t cost, const struct conf_limit *const *limits,
	size_t count, const struct throttle_table *throttles)
{
	int error = 0;

	for (size_t i = 0; i < count && error == 0; i++)
		error = add_limit(set, cost, limits[i], throttles);
	return error;
}

/* What a key of the route names, with the plan's among them. `plan`: NULL for none. */
static int add_named(struct limit_set *set, uint64_t cost, const struct conf_limits *named,
	const struct conf_plan *plan, const struct throttle_table *throttles)
{
	size_t before = named->plan ? named->plan_position : named->count;
	int error = add_limits(set, cost, named->items, before, throttles);

	if (error == 0 && named->plan && plan)
		error = add_limits(set, cost, plan->limits.items, plan->limits.count, throttles);
	if (error == 0 && named->count > before)
		error = add_limits(
			set, cost, named->items + before, named->count - before, throttles);
	return error;
}

static int fill(struct limit_set *set, enum gate_kind kind, const struct conf_route *route,
	const struct conf_plan *plan, const struct throttle_table *throttles)
{
	const struct conf_websocket *websocket = &route->websocket;
	int error;

	*set = (struct limit_set){0};
	add_key(set, route->sessions.key);
	if (kind == GATE_MESSAGE)
		error = add_named(set, 1, &websocket->limits, plan, throttles);
	else
		error = add_named(set, route->cost, &route->limits, plan, throttles);
	if (error == 0 && kind == GATE_HANDSHAKE && websocket->max_sockets)
		error = add_limit(set, 1, websocket->max_sockets, throttles);
	set->first_key = set->count > 0 ? set->keys_of[0] : 0;
	return error;
}

static int fill_route(struct limit_sets *sets, enum gate_kind kind, const struct conf *conf,
	size_t route, const struct throttle_table *throttles)
{
	struct limit_set *first = &sets->of[kind][route * sets->per_route];
	int error = 0;

	for (size_t i = 0; i < sets->per_route && error == 0; i++)
		error = fill(&first[i], kind, &conf->routes[route],
			i < conf->plan_count ? &conf->plans[i] : NULL, throttles);
	return error;
}

static bool reads_websockets(const struct conf_route *route)
{
	return route->websocket.mode != CONF_WEBSOCKET_TUNNEL;
}

/* ---- waiting --------------------------------------------------------------------------------- */

static bool may_delay(const struct limit_set *set)
{
	for (unsigned i = 0; i < set->count; i++) {
		if (set->limits[i]->delay_max_ms > 0)
			return true;
	}
	return false;
}

/* Those of a client's session may be of different plans and kinds, and any of them may wait behind
 * any other. */
static void mark_at_turn(struct limit_sets *sets, const struct conf_route *route)
{
	size_t kinds = reads_websockets(route) ? sets->kinds : 1;
	bool at_turn = reads_websockets(route) && route->websocket.on_exceed == CONF_MESSAGE_DELAY;

	for (size_t kind = 0; kind < kinds && !at_turn; kind++) {
		for (size_t plan = 0; plan < sets->per_route && !at_turn; plan++)
			at_turn = may_delay(
				limit_sets_get(sets, (enum gate_kind)kind, route->index, plan));
	}
	for (size_t kind = 0; kind < kinds; kind++) {
		for (size_t plan = 0; plan < sets->per_route; plan++)
			sets->of[kind][route->index * sets->per_route + plan].at_turn = at_turn;
	}
}

/* ---- conditions ------------------------------------------------------------------------------ */

static size_t find_when(const struct limit_variants *variants, const struct conf_when *when)
{
	size_t i = 0;

	while (i < variants->when_count && !conf_when_equal(&variants->whens[i], when))
		i++;
	return i;
}

/* The limits of `set` that apply when the conditions have this outcome. The caller that logs name
 * stays the same. */
static void fill_variant(struct limit_set *variant, const struct limit_set *set,
	const struct limit_variants *variants, size_t outcome,
	const struct throttle_table *throttles)
{
	*variant = (struct limit_set){.at_turn = set->at_turn};
	add_key(variant, set->keys[0]);
	variant->first_key = add_key(variant, set->keys[set->first_key]);
	for (unsigned i = 0; i < set->count; i++) {
		const struct conf_limit *limit = set->limits[i];
		bool applies = !conf_when_is_set(&limit->when) ||
			       (outcome >> find_when(variants, &limit->when) & 1);
		if (applies)
			add_limit(variant, set->costs[i], limit, throttles);
	}
}

static size_t outcomes_of(const struct limit_variants *variants)
{
	return (size_t)1 << variants->when_count;
}

/* 0, or ENOMEM. */
static int add_variants(struct limit_sets *sets, struct limit_set *set,
	const struct limit_variants *found, const struct throttle_table *throttles)
{
	struct limit_variants *variants =
		calloc(1, sizeof(*variants) + outcomes_of(found) * sizeof(*variants->sets));

	if (!variants)
		return ENOMEM;
	*variants = *found;
	for (size_t i = 0; i < outcomes_of(variants); i++)
		fill_variant(&variants->sets[i], set, variants, i, throttles);
	variants->next = sets->variants;
	sets->variants = set->variants = variants;
	return 0;
}

static struct limit_variants find_whens(const struct limit_set *set)
{
	struct limit_variants found = {0};

	for (unsigned i = 0; i < set->count; i++) {
		const struct conf_when *when = &set->limits[i]->when;
		if (!conf_when_is_set(when) || find_when(&found, when) < found.when_count)
			continue;
		assert(found.when_count < WHENS_MOST); /* the configuration was checked */
		found.whens[found.when_count++] = *when;
	}
	return found;
}

/* By all that variants are made of. For tsearch(3). */
static int compare_sets(const void *a, const void *b)
{
	const struct limit_set *one = a, *other = b;
	int order = one->count - other->count;

	if (order == 0)
		order = one->at_turn - other->at_turn;
	if (order == 0)
		order = one->first_key - other->first_key;
	if (order == 0)
		order = memcmp(one->numbers, other->numbers, one->count * sizeof(*one->numbers));
	if (order == 0)
		order = memcmp(one->costs, other->costs, one->count * sizeof(*one->costs));
	if (order == 0) /* the limits' keys follow from the limits */
		order = strcmp(one->keys[0]->text, other->keys[0]->text);
	return order;
}

/* 0, or ENOMEM. `known` is of tsearch(3), by compare_sets. */
static int share_variants(struct limit_sets *sets, struct limit_set *set, void **known,
	const struct throttle_table *throttles)
{
	struct limit_variants found = find_whens(set);

	if (found.when_count == 0)
		return 0;
	struct limit_set *const *same = tsearch(set, known, compare_sets);
	if (!same)
		return ENOMEM;
	set->variants = (*same)->variants;
	return set->variants ? 0 : add_variants(sets, set, &found, throttles);
}

static void forget(void *set)
{
	(void)set; /* is not the tree's */
}

static size_t set_count(const struct limit_sets *sets)
{
	return sets->kinds * sets->route_count * sets->per_route;
}

int limit_sets_init(
	struct limit_sets *sets, const struct conf *conf, const struct throttle_table *throttles)
{
	void *known = NULL;
	int error = 0;

	sets->plan_count = conf->plan_count;
	sets->per_route = conf->plan_count + 1;
	sets->route_count = conf->route_count;
	sets->kinds = 1;
	for (size_t i = 0; i < conf->route_count; i++) {
		if (reads_websockets(&conf->routes[i]))
			sets->kinds = GATE_KINDS;
	}
	sets->sets =
		calloc(sets->kinds * conf->route_count * sets->per_route + 1, sizeof(*sets->sets));
	if (!sets->sets)
		return ENOMEM;
	for (size_t i = 0; i < sets->kinds; i++)
		sets->of[i] = sets->sets + i * sets->route_count * sets->per_route;
	for (size_t i = 0; i < conf->route_count && error == 0; i++) {
		error = fill_route(sets, GATE_REQUEST, conf, i, throttles);
		for (unsigned kind = GATE_REQUEST + 1; kind < GATE_KINDS && error == 0; kind++) {
			if (reads_websockets(&conf->routes[i]))
				error = fill_route(sets, (enum gate_kind)kind, conf, i, throttles);
		}
	}
	for (size_t i = 0; i < conf->route_count && error == 0; i++)
		mark_at_turn(sets, &conf->routes[i]);
	for (size_t i = 0; i < set_count(sets) && error == 0; i++)
		error = share_variants(sets, &sets->sets[i], &known, throttles);
	tdestroy(known, forget);
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

/* False: it has another authority. */
static bool use_authority(
	struct limit_set *set, const struct conf_limit *limit, struct authority *authority)
{
	if (!has_limit(set, limit))
		return true;
	if (set->authority && set->authority != authority)
		return false;
	set->authority = authority;
	return true;
}

bool limit_sets_use(
	struct limit_sets *sets, const struct conf_limit *limit, struct authority *authority)
{
	bool good = true;

	for (size_t i = 0; i < set_count(sets) && good; i++)
		good = use_authority(&sets->sets[i], limit, authority);
	for (struct limit_variants *at = sets->variants; at && good; at = at->next) {
		for (size_t i = 0; i < outcomes_of(at) && good; i++)
			good = use_authority(&at->sets[i], limit, authority);
	}
	return good;
}

void limit_sets_free(struct limit_sets *sets)
{
	struct limit_variants *next;

	for (struct limit_variants *at = sets->variants; at; at = next) {
		next = at->next;
		free(at);
	}
	free(sets->sets);
	sets->sets = NULL;
}
