#include "tests/simulation/simulation.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/container.h"

enum { HANDS = 4096 };

/* A batch on its way. */
struct call {
	struct call *next;
	struct simulated_node *node;
	struct fleet_batch *batch; /* NULL: it has failed */
	bool is_lost;              /* no event names it any more */
	const char *command;
	size_t len;
	uint64_t sent_us, life;
	char *answer;
	size_t answer_len;
};

static struct simulated_node *node_of(struct store_server *server)
{
	return CONTAINER_OF(
		CONTAINER_OF(server, struct store_link, server), struct simulated_node, link);
}

void simulated_node_set_time(struct simulated_node *node)
{
	double now_us = (double)node->simulation->now_us * node->speed;

	lease_node_set_time(&node->lease, ((uint64_t)now_us + node->offset_us) * 1000);
}

/* ---- timers ---------------------------------------------------------------------------------- */

static void run_timer(struct deadline *timer, uint64_t now_ms)
{
	if (timer->at_ms > now_ms)
		return;
	timer->at_ms = timer->armed_ms = DEADLINE_NEVER;
	timer->passed(timer);
}

static void on_timers(struct simulation *simulation, void *arg, uint64_t number)
{
	struct simulated_node *node = arg;

	(void)simulation;
	(void)number;
	node->timer_us = UINT64_MAX;
	if (node->link.state == STORE_OFF)
		return; /* it is gone */
	simulated_node_set_time(node);
	run_timer(&node->link.timer, node->lease.now_ns / 1000000);
	run_timer(&node->lease.fleet.leases.timer, node->lease.now_ns / 1000000);
	simulated_node_end_turn(node);
}

static void watch_timers(struct simulated_node *node)
{
	uint64_t at_ms = node->link.timer.at_ms, leases_ms = node->lease.fleet.leases.timer.at_ms;

	if (leases_ms < at_ms)
		at_ms = leases_ms;
	if (at_ms == DEADLINE_NEVER)
		return;
	double at_us = (double)(at_ms * 1000 - node->offset_us) / node->speed + 2;
	uint64_t next_us = (uint64_t)at_us;
	if (next_us <= node->simulation->now_us)
		next_us = node->simulation->now_us + 1;
	if (next_us >= node->timer_us)
		return;
	node->timer_us = next_us;
	simulation_at(node->simulation, next_us, on_timers, node, 0);
}

/* ---- calls ----------------------------------------------------------------------------------- */

static void take_out(struct call *call)
{
	struct call **at = &call->node->in_flight;

	while (*at != call)
		at = &(*at)->next;
	*at = call->next;
	if (call->node->in_flight_end == &call->next)
		call->node->in_flight_end = at;
}

static void finish(struct call *call, const char *bytes, size_t len)
{
	struct fleet_batch *batch = call->batch;

	call->batch = NULL;
	lease_answer(batch, bytes, len);
	lease_node_put_batch(&call->node->lease, batch);
}

static void fail_calls(struct simulated_node *node)
{
	struct call *failed = node->in_flight, *next;

	node->in_flight = NULL;
	node->in_flight_end = &node->in_flight;
	for (; failed; failed = next) {
		next = failed->next;
		finish(failed, NULL, 0);
		if (failed->is_lost)
			free(failed);
	}
}

static void on_answered(struct simulation *simulation, void *arg, uint64_t number)
{
	struct call *call = arg;
	struct simulated_node *node = call->node;

	(void)simulation;
	(void)number;
	if (call->batch && call->life == node->life) {
		simulated_node_set_time(node);
		take_out(call);
		finish(call, call->answer, call->answer_len);
		simulated_node_end_turn(node);
	}
	free(call->answer);
	free(call);
}

static uint64_t later(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* The store runs it, even when its node does not wait for it any more. */
static void on_arrived(struct simulation *simulation, void *arg, uint64_t number)
{
	struct call *call = arg;
	struct simulated_node *node = call->node;

	(void)number;
	if (!call->batch) {
		free(call);
		return;
	}
	if (simulation_store_is_away(simulation)) {
		call->is_lost = true; /* its connection is left after a while */
		return;
	}
	const char *answer = store_call(
		simulation->store, call->command, call->len, simulation->now_us, &call->answer_len);
	if (!answer)
		exit(1);
	call->answer = malloc(call->answer_len);
	assert(call->answer);
	memcpy(call->answer, answer, call->answer_len);
	uint64_t at_us = simulation->now_us + simulation_draw_way(simulation);
	node->answered_us = at_us = later(at_us, node->answered_us);
	simulation_at(simulation, at_us, on_answered, call, 0);
}

/* The store has one thread: calls wait for it. */
static void on_reached(struct simulation *simulation, void *arg, uint64_t number)
{
	uint64_t service_us = (uint64_t)simulation->settings.service_us;

	(void)number;
	simulation->store_free_us = later(simulation->store_free_us, simulation->now_us);
	simulation->store_free_us += service_us;
	simulation->store_busy_us += service_us;
	simulation_at(simulation, simulation->store_free_us, on_arrived, arg, 0);
}

static void on_silence(struct simulation *simulation, void *arg, uint64_t life)
{
	struct simulated_node *node = arg;

	if (node->life != life || !node->in_flight)
		return;
	uint64_t silent_us = simulation->now_us - node->in_flight->sent_us;
	if (silent_us < SILENCE_US) {
		simulation_at(
			simulation, node->in_flight->sent_us + SILENCE_US, on_silence, node, life);
		return;
	}
	simulated_node_set_time(node);
	redis_peer_drop(&node->link.server.peer, "no answer in time");
	simulated_node_end_turn(node);
}

static void send_call(struct simulated_node *node, struct fleet_batch *batch)
{
	struct simulation *simulation = node->simulation;
	struct call *call = calloc(1, sizeof(*call));
	bool is_first = !node->in_flight;

	assert(call);
	*call = (struct call){
		.node = node, .batch = batch, .sent_us = simulation->now_us, .life = node->life};
	if (!batch_compose(&batch->batch, &call->command, &call->len))
		abort();
	*node->in_flight_end = call;
	node->in_flight_end = &call->next;
	simulation_bucket(simulation)->calls++;
	uint64_t at_us = simulation->now_us + simulation_draw_way(simulation);
	node->sent_us = at_us = later(at_us, node->sent_us);
	simulation_at(simulation, at_us, on_reached, call, 0);
	if (is_first)
		simulation_at(simulation, call->sent_us + SILENCE_US, on_silence, node, node->life);
}

void simulated_node_end_turn(struct simulated_node *node)
{
	struct fleet_batch *batch = lease_node_take_batch(&node->lease);

	if (batch && batch->batch.word_count > 0 && node->link.state == STORE_READY)
		send_call(node, batch);
	else if (batch) {
		lease_answer(batch, NULL, 0);
		lease_node_put_batch(&node->lease, batch);
	}
	node->lease.is_away = node->link.state != STORE_READY;
	node->lease.is_slow =
		node->in_flight && node->simulation->now_us - node->in_flight->sent_us >
					   node->simulation->settings.timeout_us;
	watch_timers(node);
}

/* ---- the connection -------------------------------------------------------------------------- */

static void on_connected(struct simulation *simulation, void *arg, uint64_t life)
{
	struct simulated_node *node = arg;
	struct store_server *server = &node->link.server;

	if (node->life != life || !server->peer.is_open)
		return;
	simulated_node_set_time(node);
	server->is_ready = !simulation_store_is_away(simulation);
	if (server->is_ready) {
		simulation->connected++;
		server->changed(server);
	} else {
		redis_peer_drop(&server->peer, "no answer to a connection");
	}
	simulated_node_end_turn(node);
}

/* What store_link.c calls; --wrap has put it here. */

struct names *__wrap_names_new(struct event_base *base);
struct names *__wrap_names_new(struct event_base *base)
{
	static int some;

	(void)base;
	return (struct names *)(void *)&some;
}

struct store_where *__wrap_store_where_new(const struct conf_fleet *conf, struct tls_client *tls);
struct store_where *__wrap_store_where_new(const struct conf_fleet *conf, struct tls_client *tls)
{
	(void)tls;
	static char name[] = "store";
	static struct store_host host = {name, 1};
	static struct store_where where = {.hosts = &host, .host_count = 1};

	(void)conf;
	return &where;
}

void __wrap_store_server_init(struct store_server *server, struct loop *loop, struct names *names,
	void (*changed)(struct store_server *server));
void __wrap_store_server_init(struct store_server *server, struct loop *loop, struct names *names,
	void (*changed)(struct store_server *server))
{
	(void)loop;
	(void)names;
	*server = (struct store_server){.changed = changed};
}

/* TCP's handshake, and one round trip for what is said first. */
void __wrap_store_server_open(struct store_server *server, const char *host, uint16_t port,
	const struct store_where *where);
void __wrap_store_server_open(struct store_server *server, const char *host, uint16_t port,
	const struct store_where *where)
{
	struct simulated_node *node = node_of(server);
	struct simulation *simulation = node->simulation;
	uint64_t takes_us = CONNECT_US;

	(void)host;
	(void)port;
	(void)where;
	server->peer.is_open = true;
	node->life++;
	if (!simulation_store_is_away(simulation)) {
		takes_us = 0;
		for (int i = 0; i < 4; i++)
			takes_us += simulation_draw_way(simulation);
	}
	simulation_at(simulation, simulation->now_us + takes_us, on_connected, node, node->life);
}

void __wrap_redis_peer_drop(struct redis_peer *peer, const char *why);
void __wrap_redis_peer_drop(struct redis_peer *peer, const char *why)
{
	struct store_server *server = CONTAINER_OF(peer, struct store_server, peer);
	struct simulated_node *node = node_of(server);

	(void)why;
	if (!peer->is_open)
		return;
	node->simulation->connected -= server->is_ready;
	server->is_ready = peer->is_open = false;
	node->life++;
	server->changed(server);
	fail_calls(node);
}

/* Sentinels: there are none. */
void __wrap_sentinel_init(struct sentinel *sentinel, struct loop *loop, struct names *names,
	void (*found)(struct sentinel *sentinel), void (*failed)(struct sentinel *sentinel));
void __wrap_sentinel_init(struct sentinel *sentinel, struct loop *loop, struct names *names,
	void (*found)(struct sentinel *sentinel), void (*failed)(struct sentinel *sentinel))
{
	(void)loop;
	(void)names;
	*sentinel = (struct sentinel){.found = found, .failed = failed};
}

/* ---- its life -------------------------------------------------------------------------------- */

static void on_link_changed(struct store_link *link, bool failed)
{
	(void)link;
	(void)failed;
}

static void on_link_redirected(struct store_link *link, enum redirect_kind kind)
{
	(void)link;
	(void)kind;
}

struct simulated_node *simulated_node_new(struct simulation *simulation, struct stats_block *stats,
	void (*went_on)(struct lease_node *node, struct question *question, bool answered))
{
	struct simulated_node *node = calloc(1, sizeof(*node));
	static const struct conf_fleet conf;

	assert(node);
	node->simulation = simulation;
	node->speed = 1 + (draw_unit(&simulation->random) - 0.5) / 2500; /* 200 ppm */
	node->offset_us = 1000000 + random_below(&simulation->random, 1200000000);
	node->timer_us = UINT64_MAX;
	node->in_flight_end = &node->in_flight;
	lease_node_init(&node->lease, HANDS, stats);
	node->lease.went_on = went_on;
	node->lease.is_away = true;
	node->lease.nodes = simulation->settings.nodes;
	simulated_node_set_time(node);
	if (!store_link_init(&node->link, &node->lease.fleet.worker->loop,
		    random_next(&simulation->random), on_link_changed, on_link_redirected) ||
		!store_link_open(&node->link, &conf, NULL))
		abort();
	simulated_node_end_turn(node);
	return node;
}

void simulated_node_kill(struct simulated_node *node)
{
	struct store_server *server = &node->link.server;

	simulated_node_set_time(node);
	node->simulation->connected -= server->is_ready;
	server->is_ready = server->peer.is_open = false;
	node->life++;
	node->link.state = STORE_OFF;
	fail_calls(node);
	deadline_clear(&node->link.timer);
	deadline_clear(&node->lease.fleet.leases.timer);
	lease_node_end(&node->lease);
	node->next = node->simulation->dead; /* events may name it */
	node->simulation->dead = node;
}
