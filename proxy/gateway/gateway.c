#include "gateway/gateway.h"

#include <assert.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/list.h"
#include "exchange/forward.h"
#include "exchange/hop.h"
#include "exchange/turn_place.h"
#include "upstream/server.h"
#include "upstream/server_connection.h"
#include "websocket/close.h"
#include "websocket/grip.h"
#include "websocket/state.h"

#define INTERIMS_A_TURN 16

/* ---- texts ----------------------------------------------------------------------------------- */

void gateway_text_free(struct gateway_text *text)
{
	free(text->at);
	*text = (struct gateway_text){NULL, 0};
}

void gateway_text_fit(struct gateway_text *text)
{
	char *at = text->len > 0 ? realloc(text->at, text->len) : NULL;

	if (at)
		text->at = at;
}

/* ---- its beginning and end ------------------------------------------------------------------- */

/* A random UUID (RFC 9562 section 5.4): nobody can guess another's. */
static bool draw_id(char id[static GATEWAY_ID_BYTES])
{
	static const char digits[] = "0123456789abcdef";
	uint8_t bytes[16];
	unsigned n = 0;

	if (getentropy(bytes, sizeof(bytes)) != 0)
		return false;
	bytes[6] = (uint8_t)((bytes[6] & 0x0f) | 0x40);
	bytes[8] = (uint8_t)((bytes[8] & 0x3f) | 0x80);
	for (unsigned i = 0; i < sizeof(bytes); i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			id[n++] = '-';
		id[n++] = digits[bytes[i] >> 4];
		id[n++] = digits[bytes[i] & 15];
	}
	assert(n == GATEWAY_ID_BYTES);
	return true;
}

static void enlist(struct gateway *gateway)
{
	struct gateways *all = gateways_of(gateway->worker);

	CHAIN_PUSH(all->first, gateway, prev, next);
}

static void delist(struct gateway *gateway)
{
	CHAIN_REMOVE(gateways_of(gateway->worker)->first, gateway, prev, next);
}

/* The one that the client has connected to, perhaps at another node. */
static bool hold_listener(struct gateway *gateway, const struct exchange *handshake)
{
	const struct client *client = handshake->client;
	struct site_use *use = hop_is_from_node(client) ? handshake->use : client->listener->use;

	gateway->listener = shared_listener_hold(
		&websockets_of(gateway->worker)->listeners, client_listener(client), use);
	return gateway->listener;
}

/* Its session is another node's: nothing more may reach the server. Its socket learns of it for
 * itself. */
static void on_owner_changed(struct owner_use *use)
{
	struct gateway *gateway = CONTAINER_OF(use, struct gateway, owner);

	if (!gateway->opening)
		gateway_abort(gateway, "session over");
}

static bool has_untaken(const struct gateway *gateway)
{
	const struct exchange *x = gateway->client.first;

	while (x && !(x->connection && server_has_untaken(x->connection)))
		x = x->next;
	return x;
}

static void on_owner_lapsed(struct owner_use *use)
{
	struct gateway *gateway = CONTAINER_OF(use, struct gateway, owner);
	struct websocket *socket = gateway->socket;

	if (gateway->opening || !has_untaken(gateway))
		return;
	if (socket && !socket_has_ended(socket))
		socket_session_over(socket);
	gateway_abort(gateway, "session over");
	if (socket && !socket_has_ended(socket))
		passage_run(socket->passage);
}

static void share_owner(struct gateway *gateway, const struct exchange *handshake)
{
	gateway->owner.changed = on_owner_changed;
	gateway->owner.lapsed = on_owner_lapsed;
	if (handshake->owner.use.session)
		owner_share(
			node_owners(gateway->worker->node), &gateway->owner, &handshake->owner.use);
}

bool gateway_is_over(const struct gateway *gateway)
{
	return gateway->owner.session &&
	       !owner_is_valid(node_owners(gateway->worker->node), &gateway->owner);
}

struct gateway *gateway_new(struct exchange *handshake)
{
	struct gateway *gateway = calloc(1, sizeof(*gateway));
	const struct client *client = handshake->client;

	if (gateway)
		gateway->worker = handshake->worker;
	/* Its requests are of no session of its client's: they must leave when that is closed,
	 * too. */
	if (!gateway || !draw_id(gateway->id) ||
		getentropy(&gateway->event_session, sizeof(gateway->event_session)) != 0 ||
		!hold_listener(gateway, handshake)) {
		free(gateway);
		return NULL;
	}
	gateway->opening = handshake;
	gateway->use = site_use_hold(handshake->use);
	gateway->route = handshake->route;
	gateway->peer = *client->peer;
	memcpy(gateway->address, handshake->facts.address, sizeof(gateway->address));
	gateway->client = (struct client){
		.calls = &gateway_client_calls,
		.listener = &gateway->listener->listener,
		.peer = &gateway->peer,
		.forwarding = &gateway->forwarding,
	};
	gateway->server_is_done = true;
	share_owner(gateway, handshake);
	enlist(gateway);
	return gateway;
}

static void free_gateway(struct deferred_free *item)
{
	struct gateway *gateway = CONTAINER_OF(item, struct gateway, deferred);

	gateway_text_free(&gateway->head);
	gateway_text_free(&gateway->path);
	gateway_text_free(&gateway->answer);
	replay_clear(&gateway->replay);
	free(gateway->passing.bytes);
	meta_clear(&gateway->meta);
	forwarding_clear(&gateway->forwarding);
	free(gateway);
}

static void end(struct gateway *gateway)
{
	assert(!gateway->client.first && !gateway->socket);
	gateway->ended = true;
	delist(gateway);
	owner_end(node_owners(gateway->worker->node), &gateway->owner);
	site_use_release(gateway->use);
	shared_listener_release(&websockets_of(gateway->worker)->listeners, gateway->listener);
	loop_free_later(&gateway->worker->loop, &gateway->deferred, free_gateway);
}

/* Its socket is gone and no request is under way: it informs the server, then ends. */
static void end_in_order(struct gateway *gateway)
{
	bool closes = gateway->close_is_queued;

	if (gateway->ended || gateway->socket || gateway->opening || gateway->client.first)
		return;
	if (gateway->server_is_done || gateway->worker->stopping) {
		end(gateway);
		return;
	}
	gateway->server_is_done = true; /* what becomes of this is of no matter any more */
	if (closes)
		gateway_send_close(
			gateway, (struct slice){gateway->close.text, gateway->close.len});
	else
		gateway_send_disconnect(gateway);
	if (!gateway->client.first && !gateway->ended)
		end(gateway);
}

/* ---- its requests ---------------------------------------------------------------------------- */

static bool has_not_left(const struct exchange *x)
{
	return x->state != EXCHANGE_RELAYING &&
	       !(x->state == EXCHANGE_FORWARDING && x->attempt.request_started);
}

/* What tells the server of the end stays: nothing else would. Was a message of the client's among
 * them? */
static bool drop(
	struct gateway *gateway, bool (*is_dropped)(const struct exchange *x), const char *why)
{
	struct exchange *x = gateway->client.first, *next;
	bool was_message = false;

	for (; x; x = next) {
		next = x->next;
		if (x->kind == EXCHANGE_DISCONNECT || !is_dropped(x))
			continue;
		was_message |= !exchange_is_event(x);
		gateway_end_message(x, why);
	}
	return was_message;
}

void gateway_drop_waiting(struct gateway *gateway, const char *why)
{
	drop(gateway, has_not_left, why);
}

void gateway_detach(struct gateway *gateway)
{
	gateway->server_is_done = true;
	gateway->keep_alive_ms = 0;
	gateway_drop_waiting(gateway, "detached");
}

void gateway_abort(struct gateway *gateway, const char *why)
{
	gateway->server_is_done = true;
	while (gateway->client.first)
		gateway_end_message(gateway->client.first, why);
	end_in_order(gateway);
}

/*
 * Its socket never opened. Does the server know otherwise, or may it? The client may have left
 * while the request that opens was under way: that is followed to its answer
 * (exchange_client_gone), so that DISCONNECT never comes before it, and is due only if the answer
 * was events. Where no answer came, as the connection was lost or too slow, the server may have
 * opened it.
 */
static bool may_be_open(const struct gateway *gateway, const struct exchange *handshake)
{
	unsigned status = handshake->answer.upstream_status;

	if (handshake->attempt.reach != REACH_LEFT || (status != 0 && status != 200))
		return false;
	return status == 0 || gateway->answer.at;
}

/* Nobody is there for the rest of an answer, whose message is over then. */
static void drop_passing(struct gateway *gateway)
{
	struct exchange *x = gateway->passing.message;

	if (!gateway->passing.bytes || gateway->passing.is_busy)
		return; /* it sees for itself */
	free(gateway->passing.bytes);
	gateway->passing = (struct gateway_passing){0};
	if (x)
		gateway_end_message(x, NULL);
}

void gateway_leave(struct gateway *gateway, const struct exchange *handshake)
{
	if (gateway->opening)
		gateway->server_is_done = !may_be_open(gateway, handshake);
	gateway->opening = NULL;
	gateway->socket = NULL;
	if (gateway->worker->stopping) {
		gateway_abort(gateway, "shutdown");
		return;
	}
	drop_passing(gateway);
	if (!gateway->close_is_queued)
		gateway_drop_waiting(gateway, "client gone");
	gateway_run(gateway);
}

/* Is no message passed on that has had no turn yet? Where the client has closed, or the session
 * drains, it is. */
static bool gives_up(const struct websocket *socket)
{
	const struct socket_closing *closing = &socket->closing;

	return closing->hurries ||
	       (!closing->finishes && !gateway_of(socket->gateway)->close_is_queued);
}

/* The socket closes: behind the messages that wait its server is told; one that has closed, or
 * failed, gets no more of them. */
static void follow_closing(struct gateway *gateway)
{
	struct websocket *socket = gateway->socket;
	char text[FRAME_CONTROL_BYTES];
	struct slice payload;

	if (!socket || socket_has_ended(socket) || !socket->closing.begun)
		return;
	if (socket->closing.server.done)
		gateway_drop_waiting(gateway, "socket closed");
	else if (!gives_up(socket))
		gateway_drop_keep_alive(gateway);
	else if (drop(gateway, exchange_waits_for_turn, "socket closed"))
		socket_close_failed(socket, CLOSE_GOING_AWAY, SLICE("going away"), "drained");
	if (!socket->closing.server.due || socket->closing.server.told || gateway->client.first ||
		gateway->passing.bytes)
		return;
	payload = socket_tell_gateway(socket, text);
	if (gateway->close_is_queued)
		payload = (struct slice){gateway->close.text, gateway->close.len};
	if (socket->grip.is_detached)
		socket_server_closes(socket, payload); /* in its place */
	else
		gateway_send_close(gateway, payload);
}

static void run_first(struct gateway *gateway)
{
	struct exchange *first = gateway->client.first;

	if (!first || gateway->passing.bytes)
		return;
	if (first->state == EXCHANGE_HELD)
		exchange_next(first);
	else if (first->state == EXCHANGE_FORWARDING || first->state == EXCHANGE_RELAYING)
		exchange_run(first);
	if (gateway->client.first == first && first->state == EXCHANGE_ASKING)
		gateway_renew_riders(gateway);
}

static void refresh(struct gateway *gateway)
{
	const struct websocket *socket = gateway->socket;

	if (!gateway->grip.refreshes || gateway->client.first || gateway->passing.bytes)
		return;
	gateway->grip.refreshes = false;
	if (socket && !socket_has_ended(socket) && !socket->closing.begun)
		gateway_send_keep_alive(gateway);
}

void gateway_run(struct gateway *gateway)
{
	if (gateway->busy || gateway->ended) {
		gateway->client.again = true;
		return;
	}
	gateway->busy = true;
	do {
		gateway->client.again = false;
		follow_closing(gateway);
		run_first(gateway);
		refresh(gateway);
	} while (gateway->client.again && gateway->client.first);
	gateway->busy = false;
	end_in_order(gateway);
}

/* ---- what its exchanges call ----------------------------------------------------------------- */

static void advance(struct client *client)
{
	struct gateway *gateway = gateway_of(client);

	gateway_run(gateway);
	if (!gateway->ended && gateway->socket && !socket_has_ended(gateway->socket))
		passage_run(gateway->socket->passage);
}

static void close_client(struct client *client, const char *why)
{
	struct gateway *gateway = gateway_of(client);

	while (client->first)
		gateway_end_message(client->first, why);
	if (gateway->socket)
		socket_abort(gateway->socket, why);
	else
		end_in_order(gateway);
}

/* One that rides with another is in no list. */
static void unlink_exchange(struct gateway *gateway, const struct exchange *exchange)
{
	struct exchange *before = NULL;

	for (struct exchange *at = gateway->client.first; at; before = at, at = at->next) {
		if (at != exchange)
			continue;
		if (before)
			before->next = at->next;
		else
			gateway->client.first = at->next;
		if (gateway->last == at)
			gateway->last = before;
		return;
	}
}

static void exchange_ended(struct client *client, struct exchange *exchange)
{
	struct gateway *gateway = gateway_of(client);
	struct websocket *socket = gateway->socket;
	uint64_t now_ms = worker_now_ms(gateway->worker);

	unlink_exchange(gateway, exchange);
	if (gateway->passing.message == exchange)
		gateway->passing.message = NULL;
	gateway->waiting--;
	gateway->waiting_bytes -= exchange->tunnel.message_bytes;
	gateway->silent_ms = now_ms;
	client->again = true;
	if (!socket || socket_has_ended(socket))
		return;
	socket->heard_ms = now_ms; /* its client may not have been read until now */
	if (!exchange_is_event(exchange)) {
		socket->active_ms = now_ms;
		socket->verdicts.delayed += exchange->gate->delayed;
	}
	socket->again = true;
}

static uint64_t body_memory(struct client *client)
{
	return gateway_of(client)->arriving_bytes;
}

static void nothing(struct client *client)
{
	(void)client;
}

static void reads_nothing(struct client *client, struct exchange *exchange, bool upgrades)
{
	(void)client;
	(void)exchange;
	(void)upgrades;
}

static enum client_interim knows_no_interim(
	struct client *client, struct exchange *exchange, bool is_own)
{
	(void)client;
	(void)exchange;
	(void)is_own;
	return CLIENT_INTERIM_UNKNOWN;
}

/* A server may send interim responses without end: some are read in a turn. */
static bool takes_interim(struct client *client)
{
	struct gateway *gateway = gateway_of(client);
	uint64_t now_ns = worker_now_ns(gateway->worker);

	if (gateway->interims.turn_ns != now_ns)
		gateway->interims.count = 0;
	gateway->interims.turn_ns = now_ns;
	if (++gateway->interims.count <= INTERIMS_A_TURN)
		return true;
	if (client->first && client->first->connection)
		server_read_next_turn(client->first->connection);
	return false;
}

static bool is_never(struct client *client)
{
	(void)client;
	return false;
}

static bool is_not_last(struct client *client, const struct exchange *exchange)
{
	(void)client;
	(void)exchange;
	return false;
}

/* No response is written to it: all are collected. */
const struct client_calls gateway_client_calls = {
	.advance = advance,
	.watch = nothing,
	.finish = nothing,
	.close = close_client,
	.exchange_ended = exchange_ended,
	.request_read = reads_nothing,
	.body_memory = body_memory,
	.interim = knows_no_interim,
	.takes_interim = takes_interim,
	.is_behind = is_never,
	.is_last = is_not_last,
	.serve = gateway_serve,
	.retry = gateway_retry,
	.part = gateway_part,
	.refuse = gateway_refuse,
};

/* ---- what its socket calls ------------------------------------------------------------------- */

static void run(struct websocket *socket)
{
	struct gateway *gateway = gateway_of(socket->gateway);

	gateway_pass_on(gateway);
	gateway_run(gateway);
}

static void begin_message(struct websocket *socket)
{
	gateway_begin_message(gateway_of(socket->gateway));
}

/* To the client, sluice is the server: it answers pings (RFC 6455 section 5.5.2). */
static void take_control(struct websocket *socket, const struct message_event *event)
{
	if (event->kind == MESSAGE_PING && !socket->closing.client.told)
		gateway_deliver(gateway_of(socket->gateway), SEND_HIGH, FRAME_PONG, event->payload);
}

/* Messages that the client sent before may still wait: the server is informed behind them. */
static void client_closes(struct websocket *socket, struct slice payload)
{
	struct gateway *gateway = gateway_of(socket->gateway);

	memcpy(gateway->close.text, payload.at, payload.len);
	gateway->close.len = (uint8_t)payload.len;
	gateway->close_is_queued = true;
	socket->closing.server.due = true;
}

static bool takes_message(const struct websocket *socket)
{
	const struct gateway *gateway = gateway_of(socket->gateway);

	return !gateway->passing.bytes &&
	       gateway->waiting <= socket_conf(socket)->gateway.waiting &&
	       gateway->waiting_bytes < socket_conf(socket)->gateway.waiting_bytes &&
	       flow_bytes(socket->passage->down.flow) < SOCKET_AHEAD_BYTES;
}

static bool is_passing(const struct websocket *socket)
{
	return gateway_of(socket->gateway)->passing.bytes;
}

static uint64_t held_bytes(const struct websocket *socket)
{
	const struct gateway *gateway = gateway_of(socket->gateway);

	return gateway->waiting_bytes + gateway->replay.bytes;
}

static uint64_t request_due_ms(const struct gateway *gateway)
{
	if (gateway->client.first || gateway->passing.bytes || gateway->keep_alive_ms == 0)
		return UINT64_MAX;
	return gateway->silent_ms + gateway->keep_alive_ms;
}

static uint64_t due_ms(const struct websocket *socket)
{
	uint64_t request_ms = request_due_ms(gateway_of(socket->gateway));
	uint64_t message_ms = socket_keep_alive_ms(socket);

	return request_ms < message_ms ? request_ms : message_ms;
}

static void run_due(struct websocket *socket)
{
	struct gateway *gateway = gateway_of(socket->gateway);
	uint64_t now_ms = socket_now_ms(socket);

	if (socket_keep_alive_ms(socket) <= now_ms)
		socket_send_keep_alive(socket);
	if (!socket_has_ended(socket) && request_due_ms(gateway) <= now_ms)
		gateway_send_keep_alive(gateway);
}

static void abort_requests(struct websocket *socket, const char *why)
{
	gateway_abort(gateway_of(socket->gateway), why);
}

static void detach(struct websocket *socket)
{
	gateway_detach(gateway_of(socket->gateway));
}

static void ask_refresh(struct websocket *socket)
{
	gateway_of(socket->gateway)->grip.refreshes = true;
	stream_wake(socket->passage->down.sink);
}

static void describe(const struct websocket *socket, struct socket_server_facts *facts)
{
	const struct gateway *gateway = gateway_of(socket->gateway);

	*facts = (struct socket_server_facts){
		.connection_id = {gateway->id, GATEWAY_ID_BYTES}, .meta = &gateway->meta};
}

static void leave(struct websocket *socket)
{
	gateway_leave(gateway_of(socket->gateway), NULL);
}

const struct socket_server gateway_server = {
	.run = run,
	.begin_message = begin_message,
	.take_control = take_control,
	.client_closes = client_closes,
	.takes_message = takes_message,
	.is_passing = is_passing,
	.held_bytes = held_bytes,
	.due_ms = due_ms,
	.run_due = run_due,
	.abort = abort_requests,
	.detach = detach,
	.refresh = ask_refresh,
	.describe = describe,
	.leave = leave,
};
