/* Upstreams and their servers, taking a server out of use, and its weight. */
#include <string.h>

#include "admin/handlers.h"
#include "admin/json_text.h"
#include "admin/request.h"
#include "admin/revise.h"
#include "base/clock.h"
#include "base/log.h"
#include "daemon/daemon.h"
#include "net/tls_client.h"

static json_int_t ms_since(uint64_t then_ms, uint64_t now_ms)
{
	return (json_int_t)(now_ms > then_ms ? now_ms - then_ms : 0);
}

/* The last health check of a server; null: there was none. */
static json_t *check_of(struct server *server, uint64_t now_ms)
{
	struct server_finding finding;

	server_state_read_finding(server->state, &finding);
	if (!finding.is_known)
		return json_null();
	return json_pack("{s:b, s:o, s:I, s:I, s:o}", "up", finding.is_up, "saw",
		admin_json_text(finding.saw), "for_ms",
		ms_since(finding.since_ms, clock_wall_ns() / CLOCK_NS_PER_MS), "age_ms",
		ms_since(finding.checked_ms, now_ms), "by",
		*finding.by ? admin_json_text(finding.by) : json_null());
}

/* Who makes an upstream's health checks; null: there are none. */
static json_t *health_of(const struct upstream *upstream, uint64_t now_ms)
{
	struct upstream_state *state = upstream->state;
	struct probes_sight sight;

	if (!upstream->conf->health_path)
		return json_null();
	probes_shown_read(&state->probes, &sight);
	return json_pack("{s:s, s:o, s:o, s:o, s:I, s:I}", "role", probes_role_name(sight.role),
		"prober", *sight.prober ? admin_json_text(sight.prober) : json_null(), "age_ms",
		sight.heard_ms > 0 ? json_integer(ms_since(sight.heard_ms, now_ms)) : json_null(),
		"store",
		sight.role == PROBES_UNSHARED
			? json_null()
			: json_string(sight.is_store_there ? "ready" : "away"),
		"fence", (json_int_t)sight.fence, "probes",
		(json_int_t)atomic_load(&state->probes_sent));
}

/* The last failure of an exchange; null: there was none. */
static json_t *failure_of(struct server *server, uint64_t now_ms)
{
	struct server_failure failure;

	server_state_read_failure(server->state, &failure);
	if (failure.at_ms == 0)
		return json_null();
	return json_pack("{s:o, s:I}", "why", admin_json_text(failure.why), "age_ms",
		ms_since(failure.at_ms, now_ms));
}

/* null: without TLS. */
static json_t *tls_of(const struct server *server)
{
	int64_t expires_s = server->tls ? tls_client_expires(server->tls) : 0;

	if (!server->tls)
		return json_null();
	return json_pack("{s:b, s:o}", "verified", server->upstream->conf->tls.verifies,
		"certificate_expires", expires_s != 0 ? json_integer(expires_s) : json_null());
}

static json_t *server_of(struct server *server, uint64_t now_ms)
{
	return json_pack("{s:o, s:s, s:b, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o}",
		"address", admin_json_text(server->conf->address.text), "mode",
		server_mode_name(server_mode(server)), "up", server_may_serve(server, now_ms),
		"failed_checks", atomic_load(&server->state->unhealthy), "in_flight",
		(json_int_t)atomic_load(&server->state->in_flight), "connections",
		(json_int_t)atomic_load(&server->state->connections), "streams",
		(json_int_t)atomic_load(&server->state->streams), "failures_in_a_row",
		(json_int_t)atomic_load(&server->state->fails), "responses",
		(json_int_t)atomic_load(&server->state->responses), "failures",
		(json_int_t)atomic_load(&server->state->failures), "weight",
		(json_int_t)server_weight(server), "check", check_of(server, now_ms),
		"last_failure", failure_of(server, now_ms), "tls", tls_of(server));
}

/* Of its semaphore; null without one. */
static json_t *semaphore_of(const struct upstream *upstream)
{
	const struct semaphore_shown *shown = &upstream->state->semaphore.shown;
	enum semaphore_state state = atomic_load(&shown->state);

	if (!upstream->conf->semaphore || state == SEMAPHORE_NONE)
		return json_null();
	return json_pack("{s:s, s:s, s:b, s:I, s:I, s:I, s:I, s:I, s:I}", "name",
		upstream->conf->semaphore->name, "state", semaphore_state_name(state), "refuses",
		atomic_load(&shown->refuses), "bound", (json_int_t)atomic_load(&shown->bound),
		"held", (json_int_t)atomic_load(&shown->held), "wanted",
		(json_int_t)atomic_load(&shown->wanted), "slots",
		(json_int_t)atomic_load(&shown->max), "nodes",
		(json_int_t)atomic_load(&shown->nodes), "messages",
		(json_int_t)atomic_load(&shown->messages));
}

static json_t *upstream_of(const struct daemon *daemon, size_t index)
{
	const struct upstream *upstream = daemon->site->upstreams[index];
	uint64_t slots[STATS_UPSTREAM_SLOTS], now_ms = clock_monotonic_ms();
	json_t *servers = json_array();
	struct run_queue_counts line;

	run_queue_count(upstream->state->run_queue, &line);
	for (size_t i = 0; i < upstream->server_count; i++)
		json_array_append_new(servers, server_of(&upstream->servers[i], now_ms));
	stats_sum(daemon->node.stats, STATS_UPSTREAM, daemon->site->rows.upstreams[index], slots);
	return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:o}", "name",
		upstream->conf->name, "responses", (json_int_t)slots[STATS_UPSTREAM_REQUESTS],
		"failures", (json_int_t)slots[STATS_UPSTREAM_FAILURES], "max_in_flight",
		(json_int_t)line.max_in_flight, "queued", (json_int_t)line.waiting,
		"sessions_queued", (json_int_t)line.sessions, "queue_wait_ms",
		(json_int_t)(line.waiting * line.drain_gap_ns / CLOCK_NS_PER_MS), "shed",
		(json_int_t)line.shed, "semaphore", semaphore_of(upstream), "health",
		health_of(upstream, now_ms), "servers", servers);
}

void admin_get_upstreams(struct admin_request *request)
{
	const struct daemon *daemon = request->daemon;
	json_t *list = json_array();

	for (size_t i = 0; i < daemon->site->conf->upstream_count; i++)
		json_array_append_new(list, upstream_of(daemon, i));
	admin_respond_json(request, 200, json_pack("{s:o}", "upstreams", list));
}

#define WEIGHT_MAX 1000 /* of the file's, too (conf/options_upstream.c) */

/* ---- modes ----------------------------------------------------------------------------------- */

/* `NAME/servers/ADDRESS/OPERATION`; an address may hold '/'. */
struct server_path {
	struct slice upstream, address;
	const char *operation;
};

static bool split_path(const char *tail, struct server_path *path)
{
	static const char middle[] = "/servers/";
	const char *at = strstr(tail, middle), *last = strrchr(tail, '/');

	if (!at)
		return false;
	path->upstream = (struct slice){tail, (size_t)(at - tail)};
	path->address.at = at + strlen(middle);
	if (last <= path->address.at)
		return false;
	path->address.len = (size_t)(last - path->address.at);
	path->operation = last + 1;
	return true;
}

static void set_mode(struct server *server, unsigned mode)
{
	if (server_mode(server) != mode)
		log_info("upstream %s: server %s: %s by the admin interface",
			server->upstream->conf->name, server->conf->address.text,
			server_mode_name(mode));
	server_set_mode(server, mode);
}

static void set_weight(struct server *server, unsigned weight)
{
	server_set_weight(server, weight);
	log_info("upstream %s: server %s: weight %u by the admin interface",
		server->upstream->conf->name, server->conf->address.text, server_weight(server));
}

/* Of each server at the address. Returns how many there are. */
static unsigned set_each(const struct daemon *daemon, const struct server_path *path,
	void (*set)(struct server *server, unsigned value), unsigned value)
{
	const struct site *site = daemon->site;
	unsigned found = 0;

	for (size_t i = 0; i < site->conf->upstream_count; i++) {
		struct upstream *upstream = site->upstreams[i];
		if (!slice_equal(slice_of(upstream->conf->name), path->upstream))
			continue;
		for (size_t j = 0; j < upstream->server_count; j++) {
			struct server *server = &upstream->servers[j];
			if (!slice_equal(slice_of(server->conf->address.text), path->address))
				continue;
			set(server, value);
			found++;
		}
	}
	return found;
}

void admin_post_server(struct admin_request *request)
{
	static const char *const operations[SERVER_MODES] = {
		[SERVER_ENABLED] = "enable",
		[SERVER_DRAINING] = "drain",
		[SERVER_DISABLED] = "disable",
	};
	struct server_path path;
	unsigned mode = 0;

	if (admin_is_leaving(request))
		return;
	if (!split_path(request->tail, &path)) {
		admin_respond_problem(request, 404,
			"A server's path is upstreams/NAME/servers/ADDRESS, then /drain, /disable "
			"or /enable.");
		return;
	}
	while (mode < SERVER_MODES && strcmp(path.operation, operations[mode]) != 0)
		mode++;
	if (mode == SERVER_MODES)
		admin_respond_problem(
			request, 404, "The operations are drain, disable and enable.");
	else if (set_each(request->daemon, &path, set_mode, mode) == 0)
		admin_respond_problem(
			request, 404, "There is no server of this address in this upstream.");
	else
		admin_respond_json(
			request, 200, json_pack("{s:s}", "mode", server_mode_name(mode)));
}

/* {"weight": N}, or null for the weight in the file. -1 with the problem sent. */
static long read_weight(struct admin_request *request)
{
	json_t *body = admin_object(request);
	const json_t *value = json_object_get(body, "weight");
	json_int_t weight = json_integer_value(value);

	if (!body)
		return -1;
	bool good = json_object_size(body) == 1 &&
		    (json_is_null(value) ||
			    (json_is_integer(value) && weight >= 1 && weight <= WEIGHT_MAX));
	json_decref(body);
	if (good)
		return (long)weight;
	admin_respond_problem(request, 400,
		"Expected {\"weight\": N}, a number from 1 to 1000, or null for the weight in the "
		"file.");
	return -1;
}

void admin_put_server(struct admin_request *request)
{
	struct server_path path;

	if (admin_is_leaving(request))
		return;
	if (!split_path(request->tail, &path) || strcmp(path.operation, "weight") != 0) {
		admin_respond_problem(
			request, 404, "A weight's path is upstreams/NAME/servers/ADDRESS/weight.");
		return;
	}
	long weight = read_weight(request);
	if (weight < 0)
		return;
	if (set_each(request->daemon, &path, set_weight, (unsigned)weight) == 0)
		admin_respond_problem(
			request, 404, "There is no server of this address in this upstream.");
	else
		admin_respond_json(request, 200,
			json_pack("{s:o}", "weight",
				weight > 0 ? json_integer(weight) : json_null()));
}
