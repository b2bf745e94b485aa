/*
 * Checks of limits after the whole file has been read: keys that exclude each other, what the
 * library that counts would refuse, and whether a route's can all be asked and ever be met.
 */
#include <string.h>

#include "conf/build.h"
#include "conf/throttle_limit.h"

enum { MOST_SLOTS = 4095, MOST_LIMITS = THROTTLE_MAX_CHARGES };

/* A key that means nothing with the kind of limit that this is. */
static void check_not(struct build *build, const struct instance *instance, const char *key,
	const char *why, const char *expected)
{
	const struct setting *setting = instance_setting(instance, key);

	if (setting)
		build_fail(
			build, instance, setting->line, "%s: %s; expected %s", key, why, expected);
}

/* Is something in a line of this section wrong already? Then what follows from it is not told. */
static bool is_wrong(const struct build *build, const struct instance *instance)
{
	for (const struct setting *setting = instance->settings; setting; setting = setting->next)
		for (size_t i = 0; i < build->errors->count; i++)
			if (build->errors->items[i].line == setting->line)
				return true;
	return false;
}

/* Rejects what libthrottle refuses, once all of the limit could be read. */
static void check_by_library(struct build *build, const struct instance *instance)
{
	const struct conf_limit *limit = instance->object;
	const struct setting *precision = instance_setting(instance, "precision");
	struct throttle_limit made;
	char why[256];

	if (limit->amount == 0 || is_wrong(build, instance) ||
		(limit->time_zone && !build->names_files))
		return;
	if (precision && limit->algorithm == CONF_LIMIT_RING &&
		limit->precision == CONF_PRECISION_EXACT && limit->amount > MOST_SLOTS) {
		build_fail(build, instance, precision->line,
			"precision: exact remembers each of at most %d, the rate has %llu; "
			"expected a number of times, 1 to %d, or auto",
			MOST_SLOTS, (unsigned long long)limit->amount, MOST_SLOTS);
		return;
	}
	if (!conf_throttle_limit(limit, 0, &made))
		build_fail(build, instance, instance->line,
			"has a name or a time zone's that is too long; expected at most %d and %d "
			"characters",
			THROTTLE_NAME_BYTES - 1, THROTTLE_ZONE_BYTES - 1);
	else if (throttle_limit_check(&made, why, sizeof(why)) != 0)
		build_fail(build, instance, instance->line, "can't be kept: %s", why);
}

/* Is the key one of addresses? Nothing else is known of a connection. */
static bool is_of_address(const struct conf_key *key)
{
	for (size_t i = 0; i < key->alternative_count; i++) {
		for (size_t j = 0; j < key->alternatives[i].part_count; j++) {
			enum key_part_kind kind = key->alternatives[i].parts[j].kind;
			if (kind != KEY_IP && kind != KEY_IP_PREFIX && kind != KEY_ALL)
				return false;
		}
	}
	return true;
}

static void check_limit_of_connections(struct build *build, const struct instance *instance)
{
	struct conf_limit *limit = instance->object;
	const struct setting *key = instance_setting(instance, "key");

	if (limit->unit == CONF_UNIT_BYTES)
		check_not(build, instance, "rate", "connections are counted, not their bytes",
			"a number of connections such as 20 per 1s");
	if (key && !key->wrong && limit->key && !is_of_address(limit->key))
		build_fail(build, instance, key->line,
			"key: only the address is known of a connection; expected ip, ip/BITS or "
			"all");
	if (limit->delay_max_ms > 0)
		check_not(build, instance, "on_exceed", "connections are not delayed",
			"reject, or none");
	if (limit->of_fleet)
		check_not(build, instance, "scope",
			"connections are counted by each node for itself", "node, or none");
	limit->of_fleet = false; /* what follows from it is not reported */
}

void check_limit(struct build *build, const struct instance *instance)
{
	struct conf_limit *limit = instance->object;
	const struct setting *rate = instance_setting(instance, "rate");
	const struct setting *concurrency = instance_setting(instance, "concurrency");

	if (strcmp(limit->name, "plan") == 0)
		build_fail(build, instance, instance->line,
			"invalid name: \"plan\" is reserved for the limits of a caller's plan; "
			"expected another");
	if (instance_lacks(instance, "rate") && instance_lacks(instance, "concurrency"))
		build_fail(build, instance, instance->line,
			"has no rate; expected rate = AMOUNT per PERIOD, or concurrency = NUMBER");
	if (rate && concurrency) {
		const struct setting *second = rate->line > concurrency->line ? rate : concurrency;

		build_fail(build, instance, second->line,
			"%s: the limit has a %s too, in %s; expected one of them",
			second->option->name, second == rate ? "concurrency" : "rate",
			build_where(build, second == rate ? concurrency->line : rate->line,
				second->line));
	}
	if (limit->time_zone) {
		limit->algorithm = CONF_LIMIT_CALENDAR;
		check_not(build, instance, "algorithm",
			"a rate by the calendar has a kind of its own",
			"a period such as 24h, or no algorithm");
	} else if (concurrency && !rate) {
		limit->algorithm = CONF_LIMIT_CONCURRENCY;
		check_not(
			build, instance, "algorithm", "it has no effect with concurrency", "none");
		check_not(build, instance, "on_exceed",
			"it has no effect with concurrency, as the time at which a place becomes "
			"free is unknown",
			"none");
		check_not(build, instance, "count_refused",
			"it has no effect with concurrency, as a refused request holds no place",
			"none");
	}
	if (limit->of_connections)
		check_limit_of_connections(build, instance);
	if (limit->algorithm != CONF_LIMIT_GCRA)
		check_not(build, instance, "burst", "only gcra has one",
			"algorithm = gcra with it, or no burst");
	if (limit->algorithm != CONF_LIMIT_RING)
		check_not(build, instance, "precision", "only a ring has one",
			"algorithm = ring and no calendar, or no precision");
	check_when(build, instance, "when", &limit->when);
	check_limit_of_fleet(build, instance);
	check_by_library(build, instance);
}

/* ---- of routes ---- */

bool check_limits_have(const struct conf_limits *limits, const struct conf_limit *limit)
{
	for (size_t i = 0; i < limits->count; i++)
		if (limits->items[i] == limit)
			return true;
	return false;
}

/* All limits that judge a request or message: those of a key, of a plan, and a further one, each
 * once. NULL: none. */
static size_t count_limits(const struct conf_limits *limits, const struct conf_plan *plan,
	const struct conf_limit *further)
{
	size_t count = limits->count;

	for (size_t i = 0; plan && i < plan->limits.count; i++)
		count += !check_limits_have(limits, plan->limits.items[i]);
	return count + (further && !check_limits_have(limits, further) &&
			       !(plan && check_limits_have(&plan->limits, further)));
}

/* Adds the condition of a limit to the different ones. */
static unsigned add_when(
	const struct conf_when **whens, unsigned count, const struct conf_limit *limit)
{
	bool is_known = !conf_when_is_set(&limit->when) || count > WHENS_MOST;

	for (unsigned i = 0; i < count && !is_known; i++)
		is_known = conf_when_equal(whens[i], &limit->when);
	if (!is_known)
		whens[count++] = &limit->when;
	return count;
}

/* Different conditions among the limits that judge a request: as count_limits. */
static unsigned count_conditions(const struct conf_limits *limits, const struct conf_plan *plan,
	const struct conf_limit *further)
{
	const struct conf_when *whens[WHENS_MOST + 1];
	unsigned count = 0;

	for (size_t i = 0; i < limits->count; i++)
		count = add_when(whens, count, limits->items[i]);
	for (size_t i = 0; plan && i < plan->limits.count; i++)
		count = add_when(whens, count, plan->limits.items[i]);
	return further ? add_when(whens, count, further) : count;
}

/* Rejects a cost that no limit of the route could ever admit. */
static void check_cost(
	struct build *build, const struct instance *instance, const struct conf_limits *limits)
{
	const struct conf_route *route = instance->object;
	const struct setting *cost = instance_setting(instance, "cost");

	for (size_t i = 0; cost && i < limits->count; i++) {
		const struct conf_limit *limit = limits->items[i];
		uint64_t most = limit->algorithm == CONF_LIMIT_GCRA && limit->burst > 0
					? limit->burst
					: limit->amount;
		if (limit->shadow || limit->unit == CONF_UNIT_BYTES || most == 0 ||
			limit->algorithm == CONF_LIMIT_CONCURRENCY || route->cost <= most)
			continue;
		build_fail(build, instance, cost->line,
			"cost: %llu never fits in [limit %s], which has %llu; expected at most "
			"that",
			(unsigned long long)route->cost, limit->name, (unsigned long long)most);
		return;
	}
}

static void check_costs(struct build *build)
{
	for (const struct instance *instance = build->source->instances; instance;
		instance = instance->next) {
		const struct conf_route *route = instance->object;

		if (instance->section->id != SECTION_ROUTE)
			continue;
		if (!instance_setting(instance, "cost"))
			continue;
		check_cost(build, instance, &route->limits);
		for (size_t i = 0; i < build->conf->plan_count && route->limits.plan; i++)
			check_cost(build, instance, &build->conf->plans[i].limits);
	}
}

/* Counters have one heir, and no limit of their own. */
static void check_former_names(struct build *build)
{
	for (const struct instance *instance = build->source->instances; instance;
		instance = instance->next) {
		const struct conf_limit *limit = instance->object, *other;
		const struct setting *was = instance_setting(instance, "was");

		if (instance->section->id != SECTION_LIMIT || !was || !limit->was)
			continue;
		for (size_t i = 0; i < build->conf->limit_count; i++) {
			other = &build->conf->limits[i];
			if (strcmp(other->name, limit->was) == 0 ||
				(other != limit && other->line < limit->line && other->was &&
					strcmp(other->was, limit->was) == 0)) {
				build_fail(build, instance, was->line,
					"was: [limit %s] %s; expected the name that this one had, "
					"and no other",
					other->name,
					strcmp(other->name, limit->was) == 0 ? "is there"
									     : "was that");
				break;
			}
		}
	}
}

static void check_conditions(struct build *build, const struct instance *instance,
	const struct setting *setting, const struct conf_limits *limits,
	const struct conf_limit *further)
{
	const struct conf *conf = build->conf;
	bool is_over = count_conditions(limits, NULL, further) > WHENS_MOST;

	for (size_t i = 0; i < conf->plan_count && limits->plan; i++)
		is_over |= count_conditions(limits, &conf->plans[i], further) > WHENS_MOST;
	if (is_over)
		build_fail(build, instance, setting->line,
			"%s: the limits have more than %d different conditions (when); expected "
			"fewer, as a match that joins some",
			setting->option->name, WHENS_MOST);
}

static void check_limit_count(struct build *build, const struct instance *instance, const char *key,
	const struct conf_limits *limits, const struct conf_limit *further)
{
	const struct conf *conf = build->conf;
	const struct setting *setting = instance_setting(instance, key);
	size_t count = count_limits(limits, NULL, further);

	if (!setting)
		return;
	check_conditions(build, instance, setting, limits, further);
	if (count > MOST_LIMITS) {
		build_fail(build, instance, setting->line, "%s: there are %zu; expected at most %d",
			key, count, MOST_LIMITS);
		return;
	}
	for (size_t i = 0; i < conf->plan_count && limits->plan; i++) {
		count = count_limits(limits, &conf->plans[i], further);
		if (count > MOST_LIMITS)
			build_fail(build, instance, setting->line,
				"%s: there are %zu with those of [plan %s]; expected at most %d "
				"together",
				key, count, conf->plans[i].name, MOST_LIMITS);
	}
}

/* A request is judged by so many at once. */
static void check_limit_counts(struct build *build)
{
	const struct conf *conf = build->conf;

	for (const struct instance *instance = build->source->instances; instance;
		instance = instance->next) {
		const struct conf_route *route = instance->object;

		if (instance->section->id != SECTION_ROUTE)
			continue;
		check_max_sockets(build, instance);
		check_limit_count(
			build, instance, "limits", &route->limits, route->websocket.max_sockets);
		check_limit_count(
			build, instance, "message_limits", &route->websocket.limits, NULL);
	}
	if (conf->limit_count > THROTTLE_MAX_LIMITS)
		conf_errors_add(build->errors, build->name, conf->limits[THROTTLE_MAX_LIMITS].line,
			"there are %zu limits; expected at most %d", conf->limit_count,
			THROTTLE_MAX_LIMITS);
}

static void mark_named(bool *named, const struct conf_limits *limits)
{
	for (size_t i = 0; i < limits->count; i++)
		named[limits->items[i]->index] = true;
}

/* Has a plan an effect on routes that do not name its limits? */
static bool plans_do_more(const struct conf *conf)
{
	for (size_t i = 0; i < conf->plan_count; i++) {
		if (conf->plans[i].lane == CONF_LANE_HIGH || conf->plans[i].weight > 1)
			return true;
	}
	for (size_t i = 0; i < conf->route_count; i++) {
		if (conf->routes[i].unknown == CONF_UNKNOWN_REFUSE)
			return true;
	}
	return conf->unknown == CONF_UNKNOWN_REFUSE;
}

/* Limits of connections are for listeners, and all others are not. */
static void check_unit(struct build *build, const struct instance *instance, const char *key,
	const struct conf_limits *limits, bool of_connections)
{
	for (size_t i = 0; i < limits->count; i++) {
		if (limits->items[i]->of_connections == of_connections)
			continue;
		build_fail(build, instance, instance_setting_line(instance, key),
			"%s: [limit %s] counts %s; expected a limit of %s", key,
			limits->items[i]->name, of_connections ? "requests" : "connections",
			of_connections ? "connections (unit = connections)" : "requests");
	}
}

static void check_limits_of_listener(struct build *build, const struct instance *instance)
{
	const struct conf_listener *listener = instance->object;

	check_unit(build, instance, "limits", &listener->limits, true);
	if (listener->limits.count > MOST_LIMITS)
		build_fail(build, instance, instance_setting_line(instance, "limits"),
			"limits: there are %zu; expected at most %d", listener->limits.count,
			MOST_LIMITS);
}

static void check_condition_of_connections(struct build *build, const struct instance *instance)
{
	const struct conf_limit *limit = instance->object;
	uint64_t bits = limit->when.holds | limit->when.fails;

	for (unsigned i = 0; limit->of_connections && i < build->conf->matches.count; i++) {
		if (bits >> i & 1 && build->conf->matches.items[i].reads_more)
			build_fail(build, instance, instance_setting_line(instance, "when"),
				"when: [match %s] tests more than the address, and nothing else is "
				"known of a connection; expected tests of ip only",
				build->conf->matches.items[i].name);
	}
}

static void check_units_of_route(struct build *build, const struct instance *instance)
{
	const struct conf_route *route = instance->object;
	const struct conf_limit *sockets[] = {route->websocket.max_sockets};
	const struct conf_limits of_sockets = {.items = sockets, .count = sockets[0] != NULL};

	check_unit(build, instance, "limits", &route->limits, false);
	check_unit(build, instance, "message_limits", &route->websocket.limits, false);
	check_unit(build, instance, "max_sockets", &of_sockets, false);
}

static void check_units(struct build *build)
{
	for (const struct instance *instance = build->source->instances; instance;
		instance = instance->next) {
		const struct conf_plan *plan = instance->object;

		if (instance->section->id == SECTION_LISTENER)
			check_limits_of_listener(build, instance);
		else if (instance->section->id == SECTION_LIMIT)
			check_condition_of_connections(build, instance);
		else if (instance->section->id == SECTION_PLAN)
			check_unit(build, instance, "limits", &plan->limits, false);
		else if (instance->section->id == SECTION_ROUTE)
			check_units_of_route(build, instance);
	}
}

/* An operator who defines a limit and forgets to name it believes to be protected. */
static void warn_of_unnamed(struct build *build)
{
	const struct conf *conf = build->conf;
	bool *named = arena_alloc(build->arena, conf->limit_count * sizeof(*named));
	bool plans_named = plans_do_more(conf);

	for (size_t i = 0; i < conf->route_count; i++) {
		const struct conf_route *route = &conf->routes[i];
		const struct conf_limits *of_messages = &route->websocket.limits;
		mark_named(named, &route->limits);
		mark_named(named, of_messages);
		if (route->websocket.max_sockets)
			named[route->websocket.max_sockets->index] = true;
		plans_named = plans_named || route->limits.plan || of_messages->plan;
	}
	for (size_t i = 0; i < conf->plan_count; i++)
		mark_named(named, &conf->plans[i].limits);
	for (size_t i = 0; i < conf->listener_count; i++)
		mark_named(named, &conf->listeners[i].limits);
	for (const struct instance *instance = build->source->instances; instance;
		instance = instance->next) {
		const struct conf_limit *limit = instance->object;

		if (instance->section->id == SECTION_LIMIT && !named[limit->index])
			build_warn(build, instance, instance->line,
				limit->of_connections
					? "has no effect: no listener names it in its limits"
					: "has no effect: no route and no plan names it in its "
					  "limits");
		if (instance->section->id == SECTION_PLANS && !plans_named)
			build_warn(build, instance, instance->line,
				"has no effect: no route has \"plan\" in its limits");
	}
}

void check_limits_of_routes(struct build *build)
{
	warn_of_unnamed(build);
	check_units(build);
	check_former_names(build);
	check_limit_counts(build);
	check_costs(build);
}
