/* The fleet: its store, and the nodes that share it. */
#include "config.h"

#ifdef HAVE_REDIS

#include <stdlib.h>
#include <string.h>

#include "admin/handlers.h"
#include "admin/json_text.h"
#include "admin/request.h"
#include "base/clock.h"
#include "daemon/daemon.h"
#include "fleet/fleet.h"
#include "fleet/hand.h"
#include "fleet/health.h"
#include "fleet/ladder.h"
#include "fleet/split.h"
#include "store/store_server.h"

/* Of join.lua's lines: those whose lease has not ended since. */
static json_t *list_nodes(const struct fleet_nodes *nodes)
{
	json_t *list = json_array();
	char *rest = nodes->lines, *line;

	while (rest && (line = strsep(&rest, "\n"))) {
		char *name = strsep(&line, " ");
		uint64_t left_ms = line ? strtoull(line, NULL, 10) : 0;
		if (left_ms <= nodes->age_ms)
			continue;
		json_array_append_new(
			list, json_pack("{s:o, s:I, s:b}", "name", admin_json_text(name),
				      "lease_ms", (json_int_t)(left_ms - nodes->age_ms), "self",
				      strcmp(name, nodes->name) == 0));
	}
	return list;
}

/* Of cluster_describe's lines. */
static json_t *list_primaries(const struct fleet_nodes *nodes)
{
	json_t *list = json_array();
	char *rest = nodes->primaries, *line;

	while (rest && (line = strsep(&rest, "\n"))) {
		char *address = strsep(&line, " "), *slots = line ? strsep(&line, " ") : NULL;
		if (!line)
			continue;
		json_array_append_new(
			list, json_pack("{s:o, s:I, s:b}", "address", admin_json_text(address),
				      "slots", (json_int_t)strtoul(slots, NULL, 10), "connected",
				      strcmp(line, "ready") == 0));
	}
	return list;
}

static const char *const downs[] = {[CONF_STORE_DOWN_LOCAL] = "local",
	[CONF_STORE_DOWN_STRICT] = "strict",
	[CONF_STORE_DOWN_REFUSE] = "refuse",
	[CONF_STORE_DOWN_ADMIT] = "admit"};

/* Those of the fleet that the store judges, each with its rung. */
static json_t *list_limits(const struct daemon *daemon)
{
	const struct conf *conf = daemon->site->conf;
	uint64_t now_ms = clock_monotonic_ns() / CLOCK_NS_PER_MS;
	json_t *list = json_array();

	for (size_t i = 0; i < conf->limit_count; i++) {
		const struct conf_limit *limit = &conf->limits[i];
		if (!ladder_has(limit))
			continue;
		struct ladder_sight sight =
			ladder_look(daemon->node.fleet, &daemon->node, conf, limit, now_ms);
		json_array_append_new(
			list, json_pack("{s:s, s:s, s:s, s:I, s:I}", "name", limit->name,
				      "store_down", downs[sight.down], "rung",
				      rung_name(sight.rung), "quota", (json_int_t)limit->amount,
				      "share", (json_int_t)rung_share(limit->amount, sight.nodes)));
	}
	return list;
}

/* Of limits that are divided: what this node holds. */
static json_t *list_shares(const struct daemon *daemon)
{
	static const char *const judges[] = {
		[SHARE_NONE] = "nobody", [SHARE_UNITS] = "node", [SHARE_EXACT] = "store"};
	const struct shares *shares = fleet_shares(daemon->node.fleet);
	const struct conf *conf = daemon->site->conf;
	uint64_t now_ns = clock_anchor_time(&daemon->node.anchor, clock_boot_ns());
	json_t *list = json_array();

	for (size_t i = 0; i < conf->limit_count; i++) {
		const struct conf_limit *limit = &conf->limits[i];
		if (!limit->of_fleet || limit->fleet_way != CONF_FLEET_SPLIT)
			continue;
		uint32_t number = gate_limit_number(daemon->site->gate, limit);
		const struct share_cell *cell = shares_cell(shares, number);
		struct share share = shares_read(shares, number, limit->amount, now_ns);
		uint64_t left_ns = share.until_ns > now_ns ? share.until_ns - now_ns : 0;
		json_array_append_new(
			list, json_pack("{s:s, s:s, s:I, s:I, s:I, s:I}", "limit", limit->name,
				      "judged_by", judges[share.kind], "units",
				      (json_int_t)share.units, "quota", (json_int_t)limit->amount,
				      "nodes", (json_int_t)(cell ? atomic_load(&cell->nodes) : 0),
				      "held_ms", (json_int_t)(left_ns / CLOCK_NS_PER_MS)));
	}
	return list;
}

/* What this node has of callers' quotas, with fleet = lease. */
static json_t *describe_leases(const struct daemon *daemon)
{
	uint64_t now_ns = clock_anchor_time(&daemon->node.anchor, clock_boot_ns());
	struct hands_sight sight = hands_look(fleet_hands(daemon->node.fleet), hand_ms(now_ns));

	return json_pack("{s:I, s:I}", "callers", (json_int_t)sight.callers, "units",
		(json_int_t)sight.units);
}

static json_t *list_replicas(const struct health_sight *sight)
{
	json_t *list = json_array();

	for (unsigned i = 0; i < sight->count; i++) {
		const struct health_replica *replica = &sight->replicas[i];
		json_array_append_new(
			list, json_pack("{s:s, s:b, s:I, s:I}", "address", replica->address,
				      "online", replica->is_online, "behind_bytes",
				      (json_int_t)replica->behind_bytes, "silent_s",
				      (json_int_t)replica->silent_s));
	}
	return list;
}

/* Null until the store has answered about itself. */
static json_t *describe_health(const struct health_sight *sight)
{
	if (!sight->primary[0])
		return json_null();
	uint64_t age_ns = clock_monotonic_ns() - sight->answered_ns;
	return json_pack("{s:s, s:I, s:I, s:I}", "primary", sight->primary, "answered_ms",
		(json_int_t)(age_ns / CLOCK_NS_PER_MS), "round_trip_us",
		(json_int_t)(sight->round_trip_ns / 1000), "replicas",
		(json_int_t)sight->connected);
}

/* Null while the store answers, as far as the workers know. */
static json_t *describe_trouble(const struct daemon *daemon)
{
	struct trouble_sight sight;
	uint64_t now_ns = clock_monotonic_ns();

	trouble_look(fleet_trouble(daemon->node.fleet), &sight);
	if (sight.count == 0)
		return json_null();
	uint64_t lasts_ns = now_ns > sight.since_ns ? now_ns - sight.since_ns : 0;
	return json_pack("{s:s, s:I}", "why", sight.why, "lasts_ms",
		(json_int_t)(lasts_ns / CLOCK_NS_PER_MS));
}

void admin_get_fleet(struct admin_request *request)
{
	struct daemon *daemon = request->daemon;
	const struct conf_fleet *conf = &daemon->site->conf->fleet;
	struct fleet_nodes nodes;
	struct health_sight sight;

	if (!conf->store.text) {
		admin_respond_problem(request, 404, "There is no [fleet].");
		return;
	}
	fleet_look(daemon->node.fleet, &nodes);
	health_look(fleet_health(daemon->node.fleet), &sight);
	admin_respond_json(request, 200,
		json_pack("{s:s, s:s, s:I, s:I, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}",
			"store", conf->store.text, "node", nodes.name, "connected_workers",
			(json_int_t)atomic_load(&daemon->node.store_links), "workers",
			(json_int_t)daemon->node.worker_count, "store_down",
			downs[conf->store_down], "trouble", describe_trouble(daemon), "eviction",
			sight.eviction[0] ? json_string(sight.eviction) : json_null(), "health",
			describe_health(&sight), "leases", describe_leases(daemon), "replicas",
			list_replicas(&sight), "limits", list_limits(daemon), "nodes",
			list_nodes(&nodes), "shares", list_shares(daemon), "primaries",
			list_primaries(&nodes)));
	free(nodes.lines);
	free(nodes.primaries);
}

#endif
