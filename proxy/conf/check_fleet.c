/* Checks of the fleet's limits after the whole file has been read. */
#include "config.h"

#include <string.h>

#include "base/clock.h"
#include "conf/build.h"

/* Slots of a caller at the store at most: it reads and writes them all. */
enum { MOST_SLOTS = 255, LONGEST_NAME = 64 };

static void refuse_key(struct build *build, const struct instance *instance, const char *key,
	const char *why, const char *expected)
{
	const struct setting *setting = instance_setting(instance, key);

	if (setting && !setting->wrong)
		build_fail(build, instance, setting->line,
			"%s: not supported with scope = fleet, as %s; expected %s", key, why,
			expected);
}

static void refuse_way(struct build *build, const struct instance *instance, const char *key,
	const char *why, const char *expected)
{
	const struct conf_limit *limit = instance->object;
	const struct setting *setting = instance_setting(instance, key);

	if (setting && !setting->wrong)
		build_fail(build, instance, setting->line,
			"%s: not supported with fleet = %s, as %s; expected %s", key,
			limit->fleet_way == CONF_FLEET_SPLIT ? "split" : "relaxed", why, expected);
}

/* Rejects options that a node's part of the limit, or a part that changes, can't keep. */
static void check_reserved(struct build *build, const struct instance *instance)
{
	const struct conf_limit *limit = instance->object;

	if (limit->algorithm == CONF_LIMIT_CONCURRENCY)
		refuse_way(build, instance, "concurrency",
			"requests in flight end at no known time, so a share can't move", "a rate");
	if (limit->algorithm == CONF_LIMIT_GCRA)
		refuse_way(
			build, instance, "algorithm", "the pace of gcra cannot be divided", "ring");
	if (limit->algorithm == CONF_LIMIT_CALENDAR)
		refuse_way(build, instance, "rate",
			"shares move only at the end of a calendar period", "a period such as 24h");
	if (limit->count_refused)
		refuse_way(build, instance, "count_refused",
			"a node does not count the requests that it refuses because of the other "
			"nodes",
			"off");
	if (limit->ban.count > 0)
		refuse_way(build, instance, "ban",
			"a node does not count the requests that it refuses because of the other "
			"nodes",
			"off");
	if (limit->store_down == CONF_STORE_DOWN_STRICT)
		refuse_way(build, instance, "store_down",
			"strict needs the store's or a lease's verdicts", "refuse or admit");
	if (limit->store_down == CONF_STORE_DOWN_LOCAL && limit->fleet_way == CONF_FLEET_SPLIT)
		refuse_way(build, instance, "store_down",
			"a node's share ends with its lease, and local has no other share",
			"refuse or admit");
	if (limit->was)
		refuse_way(build, instance, "was",
			"the nodes keep their shares under the limit's name", "none");
}

/* Times that leave nothing of what a key promises. */
static void warn_of_times(struct build *build, const struct instance *instance)
{
	const struct conf_limit *limit = instance->object;
	const struct conf_fleet *fleet = &build->conf->fleet;
	const struct setting *down = instance_setting(instance, "store_down");
	const struct setting *scope = instance_setting(instance, "scope");
	bool is_strict = (limit->store_down == CONF_STORE_DOWN_UNSET
					 ? fleet->store_down
					 : limit->store_down) == CONF_STORE_DOWN_STRICT;
	uint64_t window_ms = limit->per_ns / CLOCK_NS_PER_MS;

	/* A share is used from a window after the loss until a window before it ends (less a
	 * sixteenth of its time). */
	if (limit->fleet_way != CONF_FLEET_SPLIT && limit->fleet_way != CONF_FLEET_RELAXED &&
		is_strict && conf_limit_is_plain(limit) &&
		2 * window_ms >= fleet->lost_share_ms - fleet->lost_share_ms / 16)
		build_warn(build, instance, down ? down->line : scope->line,
			"store_down: with strict a node that loses the store never has its share, "
			"as lost_share in [fleet] is shorter than two windows");
	if (limit->fleet_way == CONF_FLEET_RELAXED && window_ms <= fleet->publish_interval_ms)
		build_warn(build, instance, scope->line,
			"fleet: with relaxed each node admits the whole amount, as "
			"publish_interval "
			"in [fleet] is not shorter than a window");
}

static void check_precision(struct build *build, const struct instance *instance)
{
	const struct conf_limit *limit = instance->object;

	if (limit->precision == CONF_PRECISION_EXACT ? limit->amount > MOST_SLOTS
						     : limit->precision > MOST_SLOTS)
		refuse_key(build, instance, "precision", "the store remembers at most 255 times",
			"at most that, or auto");
}

/* Rejects kinds of limits that the store can't count. */
static void check_kind(struct build *build, const struct instance *instance)
{
	const struct conf_limit *limit = instance->object;

	check_precision(build, instance);
	if (!conf_limit_is_plain(limit) && limit->store_down == CONF_STORE_DOWN_LOCAL)
		refuse_key(build, instance, "store_down",
			"local divides only requests by a trailing window", "refuse or admit");
	if (!conf_limit_is_plain(limit) && limit->store_down == CONF_STORE_DOWN_STRICT)
		refuse_key(build, instance, "store_down",
			"strict divides only requests by a trailing window", "refuse or admit");
	if (limit->was)
		refuse_key(build, instance, "was",
			"the store keeps its counters under the limit's name", "none");
}

void check_limit_of_fleet(struct build *build, const struct instance *instance)
{
	const struct conf_limit *limit = instance->object;
	const struct setting *scope = instance_setting(instance, "scope");
	const struct setting *way = instance_setting(instance, "fleet");
	const struct setting *down = instance_setting(instance, "store_down");

	if (!limit->of_fleet)
		return;
	if (limit->fleet_way == CONF_FLEET_SPLIT || limit->fleet_way == CONF_FLEET_RELAXED)
		check_reserved(build, instance);
	else
		check_kind(build, instance);
	if (limit->fleet_way == CONF_FLEET_RELAXED)
		check_precision(build, instance);
	warn_of_times(build, instance);
	if (limit->store_down == CONF_STORE_DOWN_STRICT && build->conf->fleet.cluster)
		build_fail(build, instance, down->line,
			"store_down: strict is not supported with cluster = on; expected local, "
			"refuse or admit");
	if (limit->fleet_way == CONF_FLEET_RELAXED && build->conf->fleet.cluster)
		build_fail(build, instance, way->line,
			"fleet: relaxed is not supported with cluster = on; expected lease, exact "
			"or "
			"split");
	if (!name_index_find(&build->names, SECTION_FLEET, SLICE("")) && !build->incomplete)
		build_fail(build, instance, scope->line,
			"scope: fleet needs a store to share the limit; expected [fleet] with "
			"store = redis://HOST:PORT");
}

void check_session_scope(struct build *build, const struct instance *instance)
{
	const struct conf_route *route = instance->object;
	const struct conf_fleet *fleet = &build->conf->fleet;
	const struct setting *scope = instance_setting(instance, "session_scope");

	if (!route->sessions.of_fleet)
		return;
	if ((!fleet->bind || fleet->secret.len == 0) && !build->incomplete)
		build_fail(build, instance, scope->line,
			"session_scope: fleet needs nodes that reach each other; expected [fleet] "
			"with bind = ADDRESS:PORT and secret = file:PATH");
}

void check_health_shared(struct build *build, const struct instance *instance)
{
	const struct conf_upstream *upstream = instance->object;
	const struct setting *shared = instance_setting(instance, "health_shared");

	if (!shared || !upstream->health_shared)
		return;
	if (!name_index_find(&build->names, SECTION_FLEET, SLICE("")) && !build->incomplete)
		build_fail(build, instance, shared->line,
			"health_shared: on needs a store to share what is found; expected [fleet] "
			"with store = redis://HOST:PORT");
}

#ifdef HAVE_REDIS
static void check_stores(struct build *build, const struct instance *instance)
{
	const struct conf_fleet *fleet = &build->conf->fleet;
	const struct setting *store = instance_setting(instance, "store");
	const struct setting *password = instance_setting(instance, "password");

	if (store && !store->wrong && fleet->store.count > 1 && !fleet->sentinel && !fleet->cluster)
		build_fail(build, instance, store->line,
			"store: there are several; expected one, or sentinel = NAME or "
			"cluster = on with them");
	if (store && !store->wrong && fleet->store.user && !fleet->store.password && !password)
		build_fail(build, instance, store->line,
			"store: there is a user without a password; expected USER:PASSWORD@ before "
			"the host, or password = file:PATH");
}

/* A cluster has one database. */
static void check_cluster(struct build *build, const struct instance *instance)
{
	const struct conf_fleet *fleet = &build->conf->fleet;
	const struct setting *store = instance_setting(instance, "store");
	const struct setting *cluster = instance_setting(instance, "cluster");

	if (!fleet->cluster)
		return;
	if (fleet->sentinel)
		build_fail(build, instance, cluster->line,
			"cluster: on with sentinel, too; expected one of them, as a cluster fails "
			"over by itself");
	if (store && !store->wrong && fleet->store.database != 0)
		build_fail(build, instance, store->line,
			"store: database %u with cluster = on; expected none, as a Redis Cluster "
			"has only database 0",
			fleet->store.database);
	if (fleet->store_down == CONF_STORE_DOWN_STRICT)
		build_fail(build, instance, instance_setting_line(instance, "store_down"),
			"store_down: strict is not supported with cluster = on; expected local, "
			"refuse or admit");
}

static void check_length(
	struct build *build, const struct instance *instance, const char *key, const char *text)
{
	if (text && strlen(text) > LONGEST_NAME)
		build_fail(build, instance, instance_setting_line(instance, key),
			"%s: the value has %zu characters; expected at most %d", key, strlen(text),
			LONGEST_NAME);
}
#endif

void check_fleet(struct build *build, const struct instance *instance)
{
#ifndef HAVE_REDIS
	build_fail(build, instance, instance->line,
		"needs Redis; this sluice was built without it (configure --without-redis)");
#else
	const struct conf_fleet *fleet = &build->conf->fleet;
	const struct setting *password = instance_setting(instance, "password");

	check_stores(build, instance);
	check_cluster(build, instance);
	check_tls_effects(build, instance, &fleet->tls, fleet->store.has_tls,
		"store = rediss://HOST", "the store");
	check_length(build, instance, "prefix", fleet->prefix);
	check_length(build, instance, "node", fleet->node);
	if (fleet->links.certificate && !instance_setting(instance, "ca"))
		build_fail(build, instance, instance_setting_line(instance, "certificate"),
			"certificate: nodes verify each other's; expected ca = FILE with the "
			"authorities that sign them");
	if (password && fleet->store.password)
		build_fail(build, instance, password->line,
			"password: the store's URL has one too; expected one of them");
#endif
}
