/* Status, health and metrics. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "admin/certificate_facts.h"
#include "admin/handlers.h"
#include "admin/json_text.h"
#include "admin/request.h"
#include "base/clock.h"
#include "config.h"
#include "daemon/daemon.h"
#include "fleet/fleet.h"
#include "fleet/split.h"
#ifdef HAVE_REDIS
#include "fleet/hand.h"
#include "fleet/health.h"
#include "fleet/ladder.h"
#endif
#include "stats/exposition.h"
#include "throttle/throttle.h"
#include "channels/publish.h"

void admin_get_status(struct admin_request *request)
{
	struct daemon *daemon = request->daemon;
	const struct conf *conf = daemon->site->conf;
	char started[CLOCK_ISO_BYTES];
	struct clock_cache cache = {0};
	uint64_t up_ns = clock_monotonic_ns() - daemon->started_ns;

	clock_format_iso(&cache, clock_wall_ns() - up_ns, started);
	admin_respond_json(request, 200,
		json_pack("{s:s, s:o, s:I, s:s, s:I, s:I, s:I, s:o, s:b, s:o}", "version",
			PACKAGE_VERSION, "configuration", admin_json_text(conf->path), "pid",
			(json_int_t)getpid(), "started", started, "uptime_ms",
			(json_int_t)(up_ns / CLOCK_NS_PER_MS), "workers",
			(json_int_t)daemon->node.worker_count, "client_connections",
			(json_int_t)atomic_load(&daemon->node.clients), "queue",
			admin_json_queue(daemon->node.queue), "draining", daemon->node.stopping,
			"certificates", certificate_facts_json(daemon->site)));
}

static void respond_text(struct admin_request *request, unsigned status, const char *text)
{
	request->status = status;
	request->media_type = "text/plain; charset=utf-8";
	request->text = strdup(text);
	request->text_bytes = request->text ? strlen(text) : 0;
}

/* The process answers: that is all. */
void admin_get_health(struct admin_request *request)
{
	respond_text(request, 200, "ok\n");
}

/* New requests are welcome: it serves and does not drain. */
void admin_get_ready(struct admin_request *request)
{
	struct daemon *daemon = request->daemon;

	if (daemon->node.stopping)
		respond_text(request, 503, "draining\n");
	else if (atomic_load(&daemon->listening.deaf) > 0)
		respond_text(request, 503, "not listening\n");
	else if (daemon->site->conf->fleet.store_required &&
		 atomic_load(&daemon->node.store_links) != daemon->node.worker_count)
		respond_text(request, 503, "no store\n");
	else
		respond_text(request, 200, "ready\n");
}

/* ---- metrics --------------------------------------------------------------------------------- */

/* The text while it is written. */
struct page {
	FILE *out;
	enum exposition_format format;
};

static void put_one(
	struct page *page, const char *name, bool counter, const char *help, double value)
{
	exposition_family(page->out, page->format, name, counter, help);
	exposition_sample(page->out, name, NULL, value);
}

static void put_labelled(
	struct page *page, const char *name, const char *label, const char *word, uint64_t value)
{
	const char *const labels[] = {label, word, NULL};

	exposition_sample(page->out, name, labels, (double)value);
}

static void put_queue(struct page *page, struct queue *queue)
{
	struct queue_counts counts;

	queue_count(queue, &counts);
	put_one(page, "sluice_sessions", false, "Sessions in memory.", (double)counts.sessions);
	put_one(page, "sluice_queued_requests", false, "Requests that wait for their turn.",
		(double)counts.queued);
	put_one(page, "sluice_queued_bytes", false, "Memory that waiting requests hold.",
		(double)counts.queued_bytes);
	put_one(page, "sluice_in_flight_requests", false,
		"Requests in flight: those that have had their turn and have not ended.",
		(double)counts.in_flight);
}

/* One family of the limits' tables, over all limits. */
static void put_table(struct page *page, const struct daemon *daemon, const char *name,
	bool counter, const char *help, size_t offset)
{
	const struct conf *conf = daemon->site->conf;

	exposition_family(page->out, page->format, name, counter, help);
	for (size_t i = 0; i < conf->limit_count; i++) {
		const char *limit = conf->limits[i].name;
		const char *const labels[] = {"limit", limit, NULL};
		struct throttle_counters counters;
		int number = throttle_table_find(daemon->node.throttles, limit);
		if (number >= 0 && throttle_table_counters(daemon->node.throttles, (uint32_t)number,
					   &counters) == 0)
			exposition_sample(page->out, name, labels,
				(double)*(uint64_t *)((char *)&counters + offset));
	}
}

static void put_tables(struct page *page, const struct daemon *daemon)
{
	put_table(page, daemon, "sluice_limit_callers", false,
		"Callers for whom the limit has a throttle.",
		offsetof(struct throttle_counters, entries));
	put_table(page, daemon, "sluice_limit_capacity", false,
		"Callers for whom the limit has room.",
		offsetof(struct throttle_counters, capacity));
	put_table(page, daemon, "sluice_limit_evictions_total", true,
		"Throttles with an empty window whose place was given to another caller.",
		offsetof(struct throttle_counters, evicted));
	put_table(page, daemon, "sluice_limit_overflows_total", true,
		"Verdicts by a throttle that several callers share because the table was full.",
		offsetof(struct throttle_counters, overflowed));
}

/* This node's shares of limits that are divided. */
static void put_shares(struct page *page, const struct daemon *daemon)
{
#ifdef HAVE_REDIS
	const char *name = "sluice_fleet_share";
	const struct conf *conf = daemon->site->conf;
	uint64_t now_ns = clock_anchor_time(&daemon->node.anchor, clock_boot_ns());

	exposition_family(page->out, page->format, name, false,
		"Units that this node may admit in a window of limits with fleet = split.");
	for (size_t i = 0; i < conf->limit_count; i++) {
		const struct conf_limit *limit = &conf->limits[i];
		const char *const labels[] = {"limit", limit->name, NULL};
		if (!limit->of_fleet || limit->fleet_way != CONF_FLEET_SPLIT)
			continue;
		struct share share = shares_read(fleet_shares(daemon->node.fleet),
			gate_limit_number(daemon->site->gate, limit), limit->amount, now_ns);
		exposition_sample(page->out, name, labels, (double)share.units);
	}
#else
	(void)page;
	(void)daemon;
#endif
}

static double server_up(struct server *server)
{
	return server_may_serve(server, clock_monotonic_ms()) &&
	       server_mode(server) == SERVER_ENABLED;
}

static double server_in_flight(struct server *server)
{
	return (double)atomic_load(&server->state->in_flight);
}

static double server_connections(struct server *server)
{
	return (double)atomic_load(&server->state->connections);
}

static void put_servers(struct page *page, const struct daemon *daemon, const char *name,
	const char *help, double (*value_of)(struct server *server))
{
	const struct site *site = daemon->site;

	exposition_family(page->out, page->format, name, false, help);
	for (size_t i = 0; i < site->conf->upstream_count; i++) {
		struct upstream *upstream = site->upstreams[i];
		for (size_t j = 0; j < upstream->server_count; j++) {
			struct server *server = &upstream->servers[j];
			const char *const labels[] = {"upstream", upstream->conf->name, "server",
				server->conf->address.text, NULL};
			exposition_sample(page->out, name, labels, value_of(server));
		}
	}
}

static double slots_held(const struct semaphore_shown *shown)
{
	return atomic_load(&shown->held);
}

static double slots_wanted(const struct semaphore_shown *shown)
{
	return atomic_load(&shown->wanted);
}

static double slots_bound(const struct semaphore_shown *shown)
{
	return atomic_load(&shown->bound);
}

static double slots_connected(const struct semaphore_shown *shown)
{
	unsigned state = atomic_load(&shown->state);

	return state == SEMAPHORE_HOLDS || state == SEMAPHORE_RETURNS;
}

/* Of upstreams that have a semaphore. */
static void put_slots(struct page *page, const struct daemon *daemon, const char *name,
	const char *help, double (*value_of)(const struct semaphore_shown *shown))
{
	const struct site *site = daemon->site;
	bool has_family = false;

	for (size_t i = 0; i < site->conf->upstream_count; i++) {
		const struct upstream *upstream = site->upstreams[i];
		const char *const labels[] = {"upstream", upstream->conf->name, NULL};
		if (!upstream->conf->semaphore)
			continue;
		if (!has_family)
			exposition_family(page->out, page->format, name, false, help);
		has_family = true;
		exposition_sample(
			page->out, name, labels, value_of(&upstream->state->semaphore.shown));
	}
}

static void put_semaphores(struct page *page, const struct daemon *daemon)
{
	put_slots(page, daemon, "sluice_semaphore_slots_held",
		"Slots of its semaphore that this node holds for the upstream.", slots_held);
	put_slots(page, daemon, "sluice_semaphore_slots_wanted",
		"Slots that it would hold if they were free.", slots_wanted);
	put_slots(page, daemon, "sluice_semaphore_bound",
		"Largest number of requests at the upstream, by slots, or by the share while the "
		"broker is unavailable.",
		slots_bound);
	put_slots(page, daemon, "sluice_semaphore_connected",
		"1: connected to the semaphore's broker; 0: not connected.", slots_connected);
}

/* ---- health checks --------------------------------------------------------------------------- */

static double probes_sent(struct upstream_state *state, const struct probes_sight *sight)
{
	(void)sight;
	return (double)atomic_load(&state->probes_sent);
}

static double probes_shared(struct upstream_state *state, const struct probes_sight *sight)
{
	(void)state;
	return sight->role == PROBES_PROBER || sight->role == PROBES_FOLLOWER;
}

static double probes_own(struct upstream_state *state, const struct probes_sight *sight)
{
	(void)state;
	return sight->role == PROBES_PROBER;
}

static double probes_age(struct upstream_state *state, const struct probes_sight *sight)
{
	(void)state;
	if (sight->heard_ms == 0)
		return -1;
	return (double)(clock_monotonic_ms() - sight->heard_ms) / 1e3;
}

struct probes_family {
	const char *name, *help;
	bool is_counter, of_shared; /* of upstreams with health_shared only */
	/* Negative: none. */
	double (*value_of)(struct upstream_state *state, const struct probes_sight *sight);
};

static void put_probes_of(
	struct page *page, const struct daemon *daemon, const struct probes_family *family)
{
	const struct site *site = daemon->site;
	bool has_family = false;

	for (size_t i = 0; i < site->conf->upstream_count; i++) {
		const struct upstream *upstream = site->upstreams[i];
		struct probes_sight sight;
		probes_shown_read(&upstream->state->probes, &sight);
		const char *const labels[] = {"upstream", upstream->conf->name,
			family->of_shared && *sight.prober ? "prober" : NULL, sight.prober, NULL};
		double value = family->value_of(upstream->state, &sight);
		if (!upstream->conf->health_path || value < 0 ||
			(family->of_shared && sight.role == PROBES_UNSHARED))
			continue;
		if (!has_family)
			exposition_family(page->out, page->format, family->name, family->is_counter,
				family->help);
		has_family = true;
		exposition_sample(page->out, family->name, labels, value);
	}
}

static void put_probes(struct page *page, const struct daemon *daemon)
{
	static const struct probes_family families[] = {
		{"sluice_health_probes_total", "Health checks that this node has made.", true,
			false, probes_sent},
		{"sluice_health_shared",
			"1: one node makes the health checks, the label prober names it; 0: this "
			"node makes its own.",
			false, true, probes_shared},
		{"sluice_health_prober", "1: this node makes the health checks of the fleet.",
			false, true, probes_own},
		{"sluice_health_age_seconds",
			"Time since the results of the health checks were published.", false, true,
			probes_age},
	};

	for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
		put_probes_of(page, daemon, &families[i]);
}

/* What is kept of bodies, and how often there was no room for more. */
static void put_buffering(struct page *page, const struct spool_store *store)
{
	static const char *const uses[SPOOL_USES] = {[SPOOL_REQUEST] = "request",
		[SPOOL_RESPONSE] = "response",
		[SPOOL_GATEWAY] = "gateway"};
	static const char *const bounds[STORE_BOUNDS] = {
		[STORE_MEMORY] = "memory", [STORE_DISK] = "disk", [STORE_FILES] = "files"};
	const char *name = "sluice_buffered_bytes";

	exposition_family(page->out, page->format, name, false,
		"Bytes that request_buffering, response_buffering and answers for gateways use "
		"in memory and on disk.");
	for (int use = 0; use < SPOOL_USES; use++) {
		const char *const memory[] = {"body", uses[use], "in", "memory", NULL};
		const char *const file[] = {"body", uses[use], "in", "file", NULL};
		exposition_sample(
			page->out, name, memory, (double)atomic_load(&store->uses[use].memory));
		exposition_sample(
			page->out, name, file, (double)atomic_load(&store->uses[use].disk));
	}
	put_one(page, "sluice_buffering_files", false,
		"Open temporary files of request_buffering and response_buffering.",
		atomic_load(&store->files));
	name = "sluice_buffers_filled_total";
	exposition_family(page->out, page->format, name, true,
		"Bodies that exceeded request_buffering or response_buffering.");
	for (int use = 0; use < SPOOL_USES; use++)
		put_labelled(page, name, "body", uses[use], atomic_load(&store->uses[use].filled));
	name = "sluice_buffering_refused_total";
	exposition_family(page->out, page->format, name, true,
		"Bodies kept only in part because buffering_memory, buffering_disk or the number "
		"of files had reached its bound.");
	for (int bound = 0; bound < STORE_BOUNDS; bound++)
		put_labelled(
			page, name, "bound", bounds[bound], atomic_load(&store->refused[bound]));
}

static void put_sockets(struct page *page, const struct node *node)
{
	put_one(page, "sluice_sockets", false, "Open WebSockets whose messages are read.",
		(double)atomic_load(&node->sockets));
	put_one(page, "sluice_socket_queue_bytes", false,
		"Memory of messages that wait to be sent to the clients of WebSockets.",
		(double)atomic_load(&node->sends.bytes));
	put_one(page, "sluice_socket_gathered_bytes", false,
		"Memory of messages from the clients of WebSockets that have not been passed on "
		"yet.",
		(double)atomic_load(&node->unfinished.bytes));
}

/* GRIP's channels, and what is published to them. */
static void put_channels(struct page *page, const struct publishing *publishing)
{
#ifdef HAVE_WEBSOCKET
	put_one(page, "sluice_channels", false, "Channels that WebSockets are subscribed to.",
		(double)publishing_count(publishing, PUBLISH_CHANNELS));
	put_one(page, "sluice_channel_subscriptions", false,
		"Subscriptions of WebSockets to channels.",
		(double)publishing_count(publishing, PUBLISH_SUBSCRIPTIONS));
	put_one(page, "sluice_published_items_total", true, "Items published to channels.",
		(double)publishing_count(publishing, PUBLISH_ITEMS));
	put_one(page, "sluice_published_deliveries_total", true,
		"Items added to send queues of WebSockets, counted for each socket.",
		(double)publishing_count(publishing, PUBLISH_DELIVERIES));
	put_one(page, "sluice_refused_controls_total", true,
		"Control messages of backends that were invalid, or exceeded channels or "
		"socket_channels.",
		(double)publishing_count(publishing, PUBLISH_CONTROLS_REFUSED));
#else
	(void)page;
	(void)publishing;
#endif
}

/* The store itself, and what the node has from it. */
static void put_store(struct page *page, const struct daemon *daemon)
{
#ifdef HAVE_REDIS
	const char *name = "sluice_fleet_replica_behind_bytes";
	uint64_t now_ns = clock_anchor_time(&daemon->node.anchor, clock_boot_ns());
	struct hands_sight leases;
	struct health_sight sight;

	if (!daemon->site->conf->fleet.store.text)
		return;
	leases = hands_look(fleet_hands(daemon->node.fleet), hand_ms(now_ns));
	health_look(fleet_health(daemon->node.fleet), &sight);
	put_one(page, "sluice_fleet_nodes", false, "Nodes in the last answer of the store.",
		(double)atomic_load(&fleet_members(daemon->node.fleet)->count));
	put_one(page, "sluice_fleet_lease_callers", false,
		"Callers for whom this node has leased units.", (double)leases.callers);
	put_one(page, "sluice_fleet_lease_units", false,
		"Units that this node may admit from its leases now.", (double)leases.units);
	if (!sight.primary[0])
		return;
	put_one(page, "sluice_fleet_store_age_seconds", false,
		"Time since the store last answered about itself.",
		(double)(clock_monotonic_ns() - sight.answered_ns) / 1e9);
	put_one(page, "sluice_fleet_store_round_trip_seconds", false, "Duration of that answer.",
		(double)sight.round_trip_ns / 1e9);
	put_one(page, "sluice_fleet_replicas", false, "Replicas of the store.",
		(double)sight.connected);
	exposition_family(page->out, page->format, name, false,
		"Bytes that the primary has written and the replica has not confirmed.");
	for (unsigned i = 0; i < sight.count; i++)
		put_labelled(page, name, "replica", sight.replicas[i].address,
			sight.replicas[i].behind_bytes);
#else
	(void)page;
	(void)daemon;
#endif
}

/* How many limits of the fleet are on each rung. */
static void put_rungs(struct page *page, const struct daemon *daemon)
{
#ifdef HAVE_REDIS
	static const char name[] = "sluice_fleet_limits";
	const struct conf *conf = daemon->site->conf;
	uint64_t now_ms = clock_monotonic_ns() / CLOCK_NS_PER_MS;
	uint64_t counts[RUNGS] = {0};

	if (!conf->fleet.store.text)
		return;
	for (size_t i = 0; i < conf->limit_count; i++) {
		if (ladder_has(&conf->limits[i]))
			counts[ladder_look(
				daemon->node.fleet, &daemon->node, conf, &conf->limits[i], now_ms)
					.rung]++;
	}
	exposition_family(page->out, page->format, name, false,
		"Limits of the fleet, by the rule that decides them now.");
	for (enum rung rung = 0; rung < RUNGS; rung++)
		put_labelled(page, name, "rung", rung_name(rung), counts[rung]);
#else
	(void)page;
	(void)daemon;
#endif
}

/* Those of a Redis Cluster. */
static void put_primaries(struct page *page, const struct daemon *daemon)
{
#ifdef HAVE_REDIS
	static const char name[] = "sluice_store_primaries";
	struct fleet_nodes nodes;
	uint64_t ready = 0, away = 0;

	if (!daemon->site->conf->fleet.cluster)
		return;
	fleet_look(daemon->node.fleet, &nodes);
	for (char *rest = nodes.primaries, *line; rest && (line = strsep(&rest, "\n"));) {
		const char *state = strrchr(line, ' ');
		ready += state && strcmp(state, " ready") == 0;
		away += state && strcmp(state, " away") == 0;
	}
	exposition_family(page->out, page->format, name, false,
		"Primaries of the Redis Cluster that have slots, by whether they are connected.");
	put_labelled(page, name, "state", "ready", ready);
	put_labelled(page, name, "state", "away", away);
	free(nodes.lines);
	free(nodes.primaries);
#else
	(void)page;
	(void)daemon;
#endif
}

static void put_process(struct page *page, const struct daemon *daemon)
{
	const char *const build[] = {"version", PACKAGE_VERSION, NULL};
	double uptime_s = (double)(clock_monotonic_ns() - daemon->started_ns) / 1e9;
	struct rusage usage;

	exposition_family(page->out, page->format, "sluice_build_info", false,
		"The version, as a label; the value is always 1.");
	exposition_sample(page->out, "sluice_build_info", build, 1);
	put_one(page, "sluice_uptime_seconds", false, "Time since the start.", uptime_s);
	put_one(page, "sluice_workers", false, "Worker threads.", daemon->node.worker_count);
	if (daemon->site->conf->fleet.store.text)
		put_one(page, "sluice_store_connections", false,
			"Workers that are connected to the fleet's store.",
			atomic_load(&daemon->node.store_links));
	put_rungs(page, daemon);
	put_store(page, daemon);
	put_primaries(page, daemon);
	put_one(page, "sluice_client_connections", false, "Open connections of clients.",
		atomic_load(&daemon->node.clients));
	put_one(page, "sluice_reloads_total", true, "Configurations that took effect by a reload.",
		(double)atomic_load(&daemon->reloads));
	put_one(page, "sluice_log_dropped_lines_total", true,
		"Log lines dropped because the log writer was behind.",
		(double)log_dropped(daemon->node.log));
	if (getrusage(RUSAGE_SELF, &usage) == 0)
		put_one(page, "sluice_processor_seconds_total", true,
			"Processor time of the process, user and system.",
			(double)usage.ru_utime.tv_sec + (double)usage.ru_stime.tv_sec +
				(double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6);
}

void admin_get_metrics(struct admin_request *request)
{
	const struct daemon *daemon = request->daemon;
	struct page page = {.format = strstr(request->accept, "application/openmetrics-text")
					      ? EXPOSITION_OPENMETRICS
					      : EXPOSITION_PROMETHEUS};

	page.out = open_memstream(&request->text, &request->text_bytes);
	if (!page.out) {
		admin_respond_problem(request, 503, "No memory.");
		return;
	}
	exposition_counters(page.out, page.format, daemon->node.stats);
	put_queue(&page, daemon->node.queue);
	put_tables(&page, daemon);
	if (daemon->site->conf->fleet.store.text)
		put_shares(&page, daemon);
	put_servers(&page, daemon, "sluice_server_up",
		"1: the server may be chosen; 0: it is ejected, drained or disabled.", server_up);
	put_servers(&page, daemon, "sluice_server_in_flight_requests", "Requests at the server.",
		server_in_flight);
	put_servers(&page, daemon, "sluice_server_connections",
		"Open connections to the server, without those of health checks.",
		server_connections);
	put_semaphores(&page, daemon);
	put_probes(&page, daemon);
	put_buffering(&page, &daemon->node.store);
	put_sockets(&page, &daemon->node);
	put_channels(&page, node_publishing(&daemon->node));
	put_process(&page, daemon);
	certificate_facts_put(page.out, page.format, daemon->site);
	exposition_end(page.out, page.format);
	fclose(page.out);
	request->status = 200;
	request->media_type = exposition_media_type(page.format);
}
