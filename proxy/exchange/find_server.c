/*
 * A server for an exchange whose turn has come, and a connection to it: one that is idle, one of
 * its session's own, or a new one.
 */
#include "exchange/find_server.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/container.h"
#include "base/log.h"
#include "exchange/report.h"
#include "exchange/exchange.h"
#include "exchange/forward.h"
#include "exchange/hop.h"
#include "exchange/pin.h"
#include "http/forwarded.h"
#include "exchange/reply.h"
#include "exchange/seek.h"
#include "exchange/switched.h"
#include "exchange/turn.h"
#include "exchange/turn_ask.h"
#include "exchange/turn_limits.h"
#include "http/problem.h"
#include "site/spare.h"
#include "upstream/server_connection.h"
#include "upstream/server.h"
#include "upstream/server_pool.h"

static const struct server_events events;
static void connection_is_free(struct pool_line *line);

void find_server_log_failure(struct exchange *x, const char *why)
{
	unsigned unlogged;
	char more[64] = "";

	server_state_note_failure(x->server->state, why, worker_now_ms(x->worker));
	if (!server_may_log(x->server, worker_now_ms(x->worker), &unlogged)) {
		node_note_failure(x->worker->node);
		return;
	}
	if (unlogged > 0)
		snprintf(more, sizeof(more), "; %u more failures since the last line", unlogged);
	log_info("upstream %s: server %s: %s (%.*s %.*s)%s", x->upstream->conf->name,
		x->server->conf->address.text, why, SLICE_ARGS(x->facts.method),
		SLICE_ARGS(x->facts.path), more);
}

/* No connection to x->server could be made. */
static void blame(struct exchange *x, enum connect_fault fault, const char *why)
{
	struct worker *worker = x->worker;

	if (fault == CONNECT_SERVER)
		server_failed(x->server, why, worker_now_ms(worker));
	if (fault == CONNECT_SERVER || x->attempt.search == SEARCH_AGAIN)
		x->attempt.tried |= 1ULL << x->server->index;
	if (fault != CONNECT_LOCAL && fault != CONNECT_NO_DESCRIPTOR)
		report_failure(x);
	find_server_log_failure(x, why);
}

/* No connection could be made: may it try another one? One that looks again asks each server once,
 * and as often as it looks: it must not lose what it waits for by that. */
static bool may_try_another(struct exchange *x)
{
	if (x->attempt.search != SEARCH_AGAIN && x->attempt.tries++ >= x->upstream->conf->retries)
		return false;
	worker_count(x->worker, STATS_RETRIES);
	return true;
}

/* The servers that an exchange may be forwarded to, if all of them have bounds: others would have a
 * place and a connection for it. 0 too when all are out of use. */
static uint64_t bounded_servers(const struct exchange *x)
{
	uint64_t servers =
		upstream_serving(x->upstream, x->attempt.tried, worker_now_ms(x->worker));

	for (size_t i = 0; i < x->upstream->server_count; i++) {
		const struct server *server = &x->upstream->servers[i];
		/* relaxed: a setting */
		if (servers >> i & 1 && server->conf->max_in_flight == 0 &&
			atomic_load_explicit(
				&server->state->max_connections, memory_order_relaxed) == 0)
			return 0;
	}
	return servers;
}

/* Nothing wakes those that wait when a server that was left out, or disabled, may serve again, when
 * a reload has brought another, or when those that they wait for are taken out of use: they look
 * for that so often. */
#define LOOK_AGAIN_MS 200

/*
 * In line for a place and a connection at one of these servers. Its place at the upstream stays its
 * own, so that few wait here and most in their turn; but where sessions have connections of their
 * own, the free places are for those that have one. Such a session waits with one request at a
 * time: the connection that this one gets serves the others, too. If they waited as well, their
 * session would keep that connection and never be idle, and some such sessions would keep all
 * connections.
 *
 * False: one has become free meanwhile.
 */
static bool await_connection(struct exchange *x, uint64_t servers)
{
	struct queue *queue = x->worker->node->queue;

	if (x->attempt.search == SEARCH_FIRST)
		x->attempt.line.number = 0;
	switch (pool_wait(&x->attempt.line, x->worker, x->upstream, servers, connection_is_free)) {
	case POOL_WAITS:
		if (exchange_has_affinity(x))
			x->turn.aside |=
				queue_yield_place(queue, &x->turn.ticket, worker_now_ns(x->worker));
		exchange_await_turn(x);
		if (x->attempt.search != SEARCH_FIRST)
			x->attempt.search = SEARCH_WOKEN;
		exchange_look_again(x, LOOK_AGAIN_MS);
		return true;
	case POOL_HAS_ONE:
		return false;
	case POOL_NO_MEMORY:
		exchange_reply(x, 503, "no memory", 1000);
		return true;
	}
	return true;
}

/* Until the idle connections of other workers have given one up. False: they have none. */
static bool await_descriptor(struct exchange *x)
{
	if (!spare_ask(x->worker, &x->attempt.spare))
		return false;
	exchange_await_turn(x);
	x->attempt.search = SEARCH_SPARE;
	exchange_look_again(x, SPARE_LOOK_MS);
	return true;
}

/* No server is left to try, but these, which have no place or no connection for it now. */
static bool none_left(struct exchange *x, uint64_t full)
{
	bool never_tried = x->attempt.tried == 0;

	if (full != 0)
		return await_connection(x, full);
	exchange_reply(x, never_tried ? 503 : 502, never_tried ? "no server" : "servers failed",
		never_tried ? 1000 : HTTP_PROBLEM_NO_RETRY);
	return true;
}

/* x->server has no connection for it. True: it waits, or is answered. */
static bool go_without(
	struct exchange *x, enum connect_fault fault, const char *why, uint64_t *full)
{
	bool waits = fault == CONNECT_NO_DESCRIPTOR && await_descriptor(x);

	if (fault == CONNECT_FULL)
		*full |= 1ULL << x->server->index;
	else if (!waits)
		blame(x, fault, why);
	server_done(x->server);
	x->server = NULL;
	if (waits || fault == CONNECT_FULL)
		return waits;
	if (fault == CONNECT_LOCAL || fault == CONNECT_NO_DESCRIPTOR) {
		exchange_reply(x, 503, why, 1000);
		return true;
	}
	if (may_try_another(x))
		return false;
	exchange_reply(x, 502, why, HTTP_PROBLEM_NO_RETRY);
	return true;
}

/* Takes the next server and a connection to it, answers, or waits. False: none of these yet, as a
 * connection could not be made and another one may be tried. */
/* From an address as sockets have it. One of another kind leaves the end as it is. */
static void set_end(struct proxy_end *end, const struct sockaddr_storage *from, socklen_t len)
{
	struct forwarded_peer peer;
	const struct conf_cidrs none = {0};

	forwarded_peer_init(&peer, (const struct sockaddr *)from, len, &none);
	if (peer.is_unix)
		return;
	memcpy(end->address, peer.address, sizeof(end->address));
	end->port = peer.port;
}

/* The caller, whom a trusted proxy may report, has a port only where it is the peer itself. */
static void know_client(const struct exchange *x, struct server_client *known)
{
	static const uint8_t none[16], no_ipv4[16] = {[10] = 0xff, 0xff};
	const struct forwarded_peer *peer = x->client->peer;
	const uint8_t *address = x->facts.address;
	bool is_peer = memcmp(address, peer->address, sizeof(peer->address)) == 0;
	struct sockaddr_storage local;

	*known = (struct server_client){
		.is_known = !peer->is_unproven && memcmp(address, none, sizeof(none)) != 0};
	memcpy(known->address.address, address, sizeof(known->address.address));
	known->address.port = is_peer ? peer->port : 0;
	memcpy(known->reached.address, memcmp(address, no_ipv4, 12) == 0 ? no_ipv4 : none,
		sizeof(known->reached.address));
	/* The stream of a request from another node is not its client's. */
	if (x->client->stream && !hop_is_from_node(x->client))
		set_end(&known->reached, &local, stream_local(x->client->stream, &local));
}

static bool try_next(struct exchange *x, bool fresh, uint64_t *full)
{
	struct upstream *upstream = x->upstream;
	struct worker *worker = x->worker;
	uint64_t now_ms = worker_now_ms(worker);
	const char *why = NULL;
	enum connect_fault fault;

	uint64_t serving = upstream_serving(upstream, x->attempt.tried, now_ms);
	x->server =
		upstream_pick(upstream, worker->index, serving & ~*full, x->attempt.hash, now_ms);
	if (!x->server) {
		bool is_over = none_left(x, serving);
		*full = 0;
		return is_over;
	}
	struct server_user user = {x, &events, x->attempt.hash, NULL};
	struct server_client client;
	if (upstream->conf->send_proxy != CONF_SEND_PROXY_OFF && x->client) {
		know_client(x, &client);
		user.client = &client;
	}
	x->connection = server_connection_get(worker, x->server, user, fresh, &why, &fault);
	if (x->connection)
		return true;
	return go_without(x, fault, why, full);
}

/* Its connection is there. */
static void start(struct exchange *x)
{
	if (exchange_is_elsewhere(x) && !seek_is_connected(x))
		return;
	if (!x->gate->judged_late || turn_is_confirmed(x))
		forward_start(x);
}

void find_server(struct exchange *x, bool fresh)
{
	uint64_t full = 0;

	x->attempt.line.has_connection = false;
	/* A connection in the pool may carry another client's login. */
	fresh |= exchange_has_affinity(x);
	if (pool_has_waiters(x->upstream->state) && x->attempt.search == SEARCH_FIRST) {
		uint64_t servers = bounded_servers(x);
		if (servers != 0 && await_connection(x, servers))
			return; /* behind those that wait already */
	}
	while (!try_next(x, fresh, &full))
		;
	if (!x->connection)
		return;
	if (server_is_connected(x->connection)) {
		start(x);
	} else {
		turn_doubt(x);
		server_await(x->connection, WAIT_CONNECT, 0, x->upstream->conf->connect_timeout_ms);
	}
}

/* On the connection that its session has, if it has one. */
static bool try_pin(struct exchange *x)
{
	bool waits = false;

	while (!waits) {
		uint64_t full = 0;
		switch (pin_take(x, &events, &full)) {
		case PIN_TAKEN:
			start(x);
			return true;
		case PIN_FULL:
			x->attempt.line.has_connection = true;
			waits = await_connection(x, full);
			break;
		case PIN_NONE:
			return false;
		}
	}
	return true;
}

void exchange_forward(struct exchange *x)
{
	const struct conf_upstream *conf = x->route->upstream;

	if (x->owner.use.session && !exchange_is_message(x) && !seek_at_turn(x))
		return;
	x->times.started_ns = worker_now_ns(x->worker);
	if (exchange_is_message(x) && !client_serve(x->client, x))
		return;
	if (!exchange_open_response(x) ||
		(exchange_opens_gateway(x) && !exchange_part(x->worker)->switched->open(x))) {
		exchange_reply(x, 503, "no memory", 1000);
		return;
	}
	x->attempt.hash = x->gate->verdict.session.hi;
	if (conf->balance == CONF_BALANCE_HASH && conf->hash_key)
		x->attempt.hash = exchange_hash_key(x, conf->hash_key);
	exchange_enter(x, EXCHANGE_CONNECTING);
	if (exchange_has_affinity(x) && try_pin(x))
		return;
	find_server(x, exchange_is_elsewhere(x) && seek_is_lost(x));
}

/* A reload has changed its upstream: takes the servers of the new site. Its route, and what that
 * says of its request, stay those it came under. */
static void follow_site(struct exchange *x, struct upstream *upstream)
{
	if (x->server_use)
		site_use_release(x->server_use);
	x->server_use = site_use_hold(site_part(x->worker)->use);
	x->upstream = upstream;
}

/* One that was sent already looks for no other server: where it has been is not tried again. */
static bool has_another(struct exchange *x, const struct upstream *upstream)
{
	if (x->attempt.reach != REACH_NONE)
		return false;
	return upstream != x->upstream ||
	       upstream_has_another(
		       x->upstream, pool_waits_for(&x->attempt.line), worker_now_ms(x->worker));
}

/* It was in line for a connection, and is no more. */
static void search(struct exchange *x, enum server_search why)
{
	struct client *client = x->client;
	struct upstream_state *upstream = x->upstream->state;
	struct site_use *use = site_use_hold(x->use); /* has the state, should it end here */

	x->attempt.search = why;
	if (x->turn.aside || x->gate->judged_late || turn_is_old(x)) {
		exchange_admit(x); /* for a place first, or a verdict */
	} else {
		deadline_clear(&x->turn.deadline);
		exchange_enter(x, EXCHANGE_CONNECTING);
		find_server(x, false);
	}
	pool_pass_on(upstream);
	site_use_release(use);
	if (client)
		client_advance(client);
}

void find_server_again(struct exchange *x)
{
	struct upstream *upstream =
		site_upstream_of(site_part(x->worker)->use->site, x->upstream->state);
	bool is_in_line = x->attempt.line.waiter != NULL;

	if (!upstream)
		upstream = x->upstream;
	if (is_in_line && !has_another(x, upstream) &&
		upstream_has_enabled(x->upstream, pool_waits_for(&x->attempt.line))) {
		exchange_look_again(x, LOOK_AGAIN_MS);
		return;
	}
	pool_leave(&x->attempt.line);
	if (x->attempt.reach == REACH_NONE) {
		if (upstream != x->upstream)
			follow_site(x, upstream);
		x->attempt.tried = 0; /* what could not be connected to may be up again */
	}
	search(x, is_in_line ? SEARCH_AGAIN : SEARCH_SPARE);
}

static void connection_is_free(struct pool_line *line)
{
	search(CONTAINER_OF(line, struct exchange, attempt.line), SEARCH_WOKEN);
}

/* A connection that was being made could not be. */
void find_server_connect_failed(struct exchange *x, const char *why, int error, unsigned status)
{
	enum connect_fault fault = server_connection_failed(x->connection, error);

	blame(x, fault, why);
	if (error == EPROTO) /* the connection has its text, which is not for clients */
		why = "TLS handshake failed";
	exchange_drop_connection(x);
	if (!x->client)
		exchange_end(x);
	else if (fault == CONNECT_LOCAL)
		exchange_reply(x, 503, why, 1000);
	else if (may_try_another(x))
		find_server(x, false);
	else
		exchange_reply(x, status, why, HTTP_PROBLEM_NO_RETRY);
}

static void connected(struct exchange *x, int error, const char *why)
{
	struct client *client = x->client;

	if (error != 0)
		find_server_connect_failed(x, why, error, 502);
	else
		start(x);
	if (client)
		client_advance(client);
}

static const struct server_events events = {
	.connected = connected,
	.event = forward_event,
	.send_request = forward_send,
	.timeout = forward_timeout,
	.make_room = spare_own,
};
