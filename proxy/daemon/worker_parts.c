#include "config.h"

#include "daemon/worker_parts.h"

#include <stdlib.h>

#include "base/container.h"
#include "base/log.h"
#include "daemon/growth.h"
#include "daemon/manager.h"
#include "daemon/daemon.h"
#include "daemon/reload.h"
#include "daemon/usage.h"
#include "daemon/wait_check.h"
#include "exchange/delay_line.h"
#include "exchange/exchange.h"
#include "ownership/owner_nodes.h"
#include "ownership/owner_sweep.h"
#include "ownership/owner_use.h"
#include "ownership/parting.h"
#include "tunnel/passage.h"
#include "exchange/turn_ask.h"
#include "fleet/fleet_part.h"
#include "http1/downstream.h"
#include "http1/http1_client.h"
#include "http1/http1_server.h"
#include "http1/idle.h"
#ifdef HAVE_HTTP2
#include "http2/h2_connection.h"
#include "http2/h2_place.h"
#endif
#include "listen/give_way.h"
#include "listen/listener.h"
#include "site/spare.h"
#include "stats/busiest.h"
#include "stats/stats.h"
#include "upstream/server.h"
#include "upstream/server_pool.h"
#include "websocket/socket.h"
#include "channels/channels_part.h"
#include "gateway/gateway_part.h"

#define SPARE_BLOCKS 64

/* ---- what it writes to and counts in --------------------------------------------------------- */

static bool make_memory(struct worker *worker, void *start)
{
	const struct site *site = start;

	buffer_pool_init(&worker->blocks, site->conf->buffer_bytes, SPARE_BLOCKS);
	worker->route_scratch = route_scratch_new();
	worker->stats = stats_block(worker->node->stats, worker->index);
	worker->usage = usage_counts_of(daemon_of(worker), worker->index);
	worker->busiest = calloc(1, sizeof(*worker->busiest));
	return worker->route_scratch && worker->busiest;
}

static void attach_log(struct worker *worker)
{
	log_thread_attach(worker->node->log, worker->index + 1);
}

static void free_memory(struct worker *worker)
{
	loop_finish_turn(&worker->loop);
	exchange_part_clear(exchange_part(worker));
	route_scratch_free(worker->route_scratch);
	buffer_pool_clear(&worker->blocks);
	if (worker->busiest)
		busiest_rows_clear(worker->busiest);
	free(worker->busiest);
}

static const struct worker_part memory = {
	.make = make_memory, .begin = attach_log, .free = free_memory};

/* ---- the main thread's questions ------------------------------------------------------------- */

static void answer_main(struct worker *worker, unsigned commands)
{
	if (commands & (WORKER_SITE | WORKER_SEEN))
		reload_seen(worker);
	if (commands & WORKER_PING)
		manager_answer(worker);
}

static const struct worker_part answers = {.command = answer_main};

/* The last one lets the main thread end: its loop must notice. */
static void tell_end(struct worker *worker)
{
	loop_finish_turn(&worker->loop);
	manager_answer_all(worker);
	atomic_fetch_sub_explicit(&worker->node->running, 1, memory_order_acq_rel);
	daemon_tell_main(daemon_of(worker));
	log_thread_attach(NULL, 0);
}

static const struct worker_part last = {.end = tell_end};

/* ---- connections and exchanges --------------------------------------------------------------- */

static void each_server(
	struct worker *worker, void (*visit)(struct server_state *server, struct worker *worker))
{
	const struct site *site = site_part(worker)->use->site;

	for (size_t i = 0; i < site->conf->upstream_count; i++) {
		struct upstream *upstream = site->upstreams[i];
		for (size_t j = 0; j < upstream->server_count; j++)
			visit(upstream->servers[j].state, worker);
	}
}

static void share_connections(struct worker *worker)
{
	each_server(worker, pool_share);
}

static void run_pool(struct worker *worker, unsigned commands)
{
	if (commands & WORKER_CONNECTIONS)
		pool_run(worker);
	if (commands & WORKER_SPARE)
		spare_answer(worker);
	if (commands & WORKER_DELAYED)
		delay_run(worker);
	if (commands & WORKER_ADDRESSES)
		each_server(worker, pool_close_left);
}

static const struct worker_part pool = {.memory = PART_UPSTREAM,
	.bytes = sizeof(struct upstream_part),
	.begin = share_connections,
	.take_site = share_connections,
	.command = run_pool,
	.end = spare_end,
	.free = pool_end};

static const struct protocol http1 = {
	.name = "http/1.1",
	.bit = CONF_PROTOCOL_HTTP1,
	.plain_answer = http1_plain_answer,
	.take_client = downstream_accept,
	.take_begun = downstream_accept_begun,
	.give_way = downstream_give_way,
	.find_idle = idle_find,
	.close_idle = idle_close,
};

#ifdef HAVE_HTTP2
static const struct protocol http2 = {
	.name = "h2",
	.bit = CONF_PROTOCOL_HTTP2,
	.take_client = h2_connection_accept,
	.take_plain = h2_connection_accept_plain,
	.give_way = h2_give_way,
	.find_idle = h2_find_idle,
	.close_idle = h2_close_idle,
};

static const struct protocol *const protocols[] = {&http1, &http2, NULL};
const char *const worker_protocol_names[] = {"h2", "http/1.1", NULL};
#else
static const struct protocol *const protocols[] = {&http1, NULL};
const char *const worker_protocol_names[] = {"http/1.1", NULL};
#endif

static void update_listeners(struct worker *worker)
{
	listeners_update(worker, protocols);
}

static void command_listeners(struct worker *worker, unsigned commands)
{
	if (commands & WORKER_LISTEN)
		update_listeners(worker);
	if (commands & WORKER_GIVE_WAY)
		give_way_answer(worker);
	if (commands & WORKER_ACCEPT)
		listeners_resume(worker);
	if (commands & WORKER_HAND_OVER)
		listeners_hand_over(worker);
	if (commands & WORKER_DRAIN)
		listeners_retire(worker);
	if (commands & WORKER_STOP)
		listeners_close(worker);
}

static const struct worker_part listeners = {.memory = PART_LISTEN,
	.bytes = sizeof(struct listen_part),
	.take_site = update_listeners,
	.command = command_listeners,
	.is_done = listeners_are_closed,
	.work = "open listeners",
	.end = listeners_close,
	.free = listeners_free};

static void command_clients(struct worker *worker, unsigned commands)
{
	struct downstream *next;

	for (struct downstream *d = http1_part(worker)->downstreams; commands & WORKER_DRAIN && d;
		d = next) {
		next = d->next;
		downstream_drain(d);
	}
	while (commands & WORKER_STOP && http1_part(worker)->downstreams)
		downstream_close(http1_part(worker)->downstreams, "shutdown");
}

static bool has_no_clients(const struct worker *worker)
{
	return !http1_part(worker)->downstreams && worker->streams.leaving_count == 0;
}

static const struct worker_part clients = {.memory = PART_HTTP1,
	.bytes = sizeof(struct http1_part),
	.command = command_clients,
	.is_done = has_no_clients,
	.work = "connections of clients"};

#ifdef HAVE_HTTP2
static bool make_http2(struct worker *worker, void *site)
{
	(void)site;
	return h2_worker_make(worker);
}

static const struct worker_part http2_clients = {.memory = PART_HTTP2,
	.bytes = sizeof(struct h2_worker),
	.make = make_http2,
	.command = h2_worker_command,
	.is_done = h2_worker_is_empty,
	.work = "connections of clients by HTTP/2",
	.free = h2_worker_free};

static const struct worker_part http2_servers = {.end = h2_servers_end};
#endif

/* A drain leaves them alone: they end with their peers, or when it stops. */
static void command_passages(struct worker *worker, unsigned commands)
{
	while (commands & WORKER_STOP && tunnel_part(worker)->passages)
		passage_end(tunnel_part(worker)->passages, "shutdown");
	if (commands & WORKER_STOP)
		partings_end(worker);
}

static bool has_no_passages(const struct worker *worker)
{
	return !tunnel_part(worker)->passages && !ownership_part(worker)->partings;
}

static const struct worker_part passages = {.memory = PART_TUNNEL,
	.bytes = sizeof(struct tunnel_part),
	.command = command_passages,
	.is_done = has_no_passages,
	.work = "tunnels"};

/* Writes what the round has composed. */
static bool write_all(struct loop_stage *stage)
{
	struct worker *worker = CONTAINER_OF(stage, struct worker, write_stage);

	if (!upstream_part(worker)->unsent && !http1_part(worker)->unflushed)
		return false;
	server_send_all(worker);
	downstream_flush_all(worker);
	return true;
}

static bool make_write_stage(struct worker *worker, void *site)
{
	(void)site;
	upstream_part(worker)->unsent_end = &upstream_part(worker)->unsent;
	http1_part(worker)->unflushed_end = &http1_part(worker)->unflushed;
	worker->write_stage.run = write_all;
	loop_add_stage(&worker->loop, LOOP_WRITE, &worker->write_stage);
	return true;
}

/* Exchanges whose client left may still be under way; they are finished as long as any client is
 * left anywhere that may be waiting behind them. */
static bool has_no_exchanges(const struct worker *worker)
{
	return exchange_part(worker)->count == 0 || worker->stopping ||
	       atomic_load(&worker->node->clients) == 0;
}

static bool make_exchanges(struct worker *worker, void *site)
{
	upstream_part(worker)->calls = &http1_server_calls;
#ifdef HAVE_HTTP2
	upstream_part(worker)->http2_calls = &h2_place_calls;
#endif
	questions_init(&worker->questions, &worker->loop, turn_answered);
	return make_write_stage(worker, site);
}

static void end_questions(struct worker *worker)
{
	questions_end(&worker->questions);
}

static void end_orphans(struct worker *worker)
{
	while (exchange_part(worker)->orphans)
		exchange_end(exchange_part(worker)->orphans);
	partings_end(worker);
	if (node_owners(worker->node))
		owners_close_idle(node_owners(worker->node), worker);
}

static void command_exchanges(struct worker *worker, unsigned commands)
{
	struct owners *owners = node_owners(worker->node);

	if (!owners)
		return;
	if (commands & WORKER_HAND_OVER)
		owners_drain(owners, true);
	if (commands & (WORKER_OWNERS | WORKER_HAND_OVER)) {
		owners_look_at_uses(owners, worker);
		owner_nodes_look(owners, worker);
	}
}

static const struct worker_part ownership = {.memory = PART_OWNERSHIP,
	.bytes = sizeof(struct ownership_part),
	.give_up = partings_give_up};

static const struct worker_part exchanges = {.memory = PART_EXCHANGE,
	.bytes = sizeof(struct exchange_part),
	.command = command_exchanges,
	.make = make_exchanges,
	.is_done = has_no_exchanges,
	.work = "requests",
	.end = end_orphans,
	.free = end_questions};

/* ---- at the end of each turn ----------------------------------------------------------------- */

static bool make_check(struct worker *worker, void *site)
{
	(void)site;
	worker->checks_waits = wait_check_wanted();
	return true;
}

static void check_waits(struct worker *worker)
{
	if (worker->checks_waits)
		wait_check(worker);
}

static const struct worker_part growth = {.end_turn = growth_look};
static const struct worker_part checks = {.make = make_check, .end_turn = check_waits};

/* Each after those that it needs. */
const struct worker_part *const worker_parts[] = {&memory, &site_use_part, &answers, &listeners,
	&pool, &ownership, &clients,
#ifdef HAVE_HTTP2
	&http2_clients,
#endif
	&passages, &exchanges,
#ifdef HAVE_HTTP2
	&http2_servers,
#endif
#ifdef HAVE_WEBSOCKET
	&channels_part, &websockets_part, &gateways_part,
#endif
#ifdef HAVE_REDIS
	&fleet_part,
#endif
	&growth, &checks, &last, NULL};
