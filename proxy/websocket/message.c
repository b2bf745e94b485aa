/*
 * A message's exchange: judged and queued as a request of its client, passed on to the socket's own
 * server, over when that connection has taken it.
 *
 *   begin --> turn_begin_message ... exchange_forward --> serve --> written: its end
 *                       `-- refused: dropped, or the socket is closed
 *
 * Those that one turn reads behind it are served with it, as far as nothing else waits (follow.h),
 * and leave in one write: they are over together. One that has to wait is the last that is read.
 */
#include "websocket/message.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "exchange/respond.h"
#include "exchange/turn.h"
#include "exchange/turn_place.h"
#include "http/problem.h"
#include "websocket/close.h"
#include "websocket/read_server.h"

/* ---- its exchange ---------------------------------------------------------------------------- */

/* After a reload the rules are those of the route of that name. */
static void follow_site(struct websocket *socket, struct exchange *message)
{
	const struct passage *passage = socket->passage;
	const struct conf *conf = message->use->site->conf;

	message->route = passage->account.route;
	if (message->use != passage->account.use) {
		message->route = NULL;
		for (size_t i = 0; i < conf->route_count && !message->route; i++) {
			const struct conf_route *route = &conf->routes[i];
			if (strcmp(route->name, passage->account.route->name) == 0 &&
				route->websocket.mode == passage->account.route->websocket.mode)
				message->route = route;
		}
	}
	if (!message->route) {
		site_use_release(message->use);
		message->use = site_use_hold(passage->account.use);
		message->route = passage->account.route;
	}
	message->upstream = message->use->site->upstreams[message->route->upstream->index];
}

static void fill(struct websocket *socket, struct exchange *message)
{
	const struct passage *passage = socket->passage;

	follow_site(socket, message);
	message->request_progress = REQUEST_READ;
	message->request.method = HTTP_METHOD_POST; /* a write, for the order */
	message->facts = passage->request->facts;
	message->facts.method = SLICE("MESSAGE");
	message->tunnel.message_bytes = (uint32_t)buffer_used(&socket->message);
	message->request_id = passage->request->request_id;
}

/* Behind one that is composed it may leave in the same write. */
static void append(struct websocket *socket, struct exchange *message)
{
	if (!socket->last) {
		socket->client.first = socket->last = message;
		return;
	}
	assert(socket->last->state == EXCHANGE_FORWARDING);
	message->tunnel.lead = socket->client.first;
	socket->last->next = message;
	socket->last = message;
}

static void unlink_message(struct websocket *socket, struct exchange *message)
{
	struct exchange **at = &socket->client.first, *before = NULL;

	for (; *at != message; at = &(*at)->next)
		before = *at;
	*at = message->next;
	message->next = NULL;
	if (socket->last == message)
		socket->last = before;
}

void socket_begin_message(struct websocket *socket)
{
	struct exchange *message = exchange_new_message(socket->worker, &socket->client);

	if (!message) {
		socket_abort(socket, "no memory");
		return;
	}
	append(socket, message);
	socket->received.messages++;
	socket->received.bytes += buffer_used(&socket->message);
	fill(socket, message);
	turn_begin_message(message, socket->passage->request);
}

/* ---- what an exchange calls ------------------------------------------------------------------ */

/* Limits in bytes of an authority: one that goes together with it must not find them unspent. */
static void charge_bytes(struct exchange *message)
{
	struct gate_receipt *receipt = &message->gate->receipt;

	if (!gate_receipt_is_empty(receipt) && receipt->in_bytes != 0)
		gate_charge_bytes(message->use->site->gate, receipt, message->up.content_bytes,
			worker_throttle_ns(message->worker));
}

static bool serve(struct client *client, struct exchange *message)
{
	struct websocket *socket = socket_of(client);
	struct buffer *text = &socket->message;
	struct slice payload = SLICE_NONE;

	/* Its place was by slots of a semaphore that may be another node's by now: it takes one
	 * once more. */
	if (!semaphore_slots_let(
		    &message->upstream->state->semaphore, message->turn.ticket.placed_ns)) {
		exchange_try_later(message, 1);
		return false;
	}
	exchange_enter(message, EXCHANGE_CONNECTING);
	exchange_enter(message, EXCHANGE_FORWARDING); /* on the socket's own connection */
	if (socket->closing.server.told) {
		message->outcome = "socket closed";
		exchange_end(message);
		return false;
	}
	if (text->at)
		payload = (struct slice){buffer_head(text), buffer_used(text)};
	message->attempt.reach = REACH_LEFT;
	message->up.content_bytes = payload.len;
	charge_bytes(message);
	if (socket->client.first == message)
		socket->served_ms = socket_now_ms(socket);
	bool is_composed = socket_write_server(
		socket, socket->opcode, socket->compressed ? FRAME_RSV1 : 0, payload);
	buffer_release(text, &socket->worker->blocks);
	if (!is_composed)
		socket_abort(socket, "no memory");
	socket->again = true;
	return false;
}

void socket_messages_written(struct websocket *socket)
{
	struct exchange *message;

	while ((message = socket->client.first) && message->state == EXCHANGE_FORWARDING) {
		message->answer.status = 200;
		follow_count(message);
		exchange_end(message);
	}
	if (message)
		exchange_next(message);
}

void socket_messages_gone(struct websocket *socket)
{
	struct exchange *message = socket->client.first, *next;

	socket->client.first = socket->last = NULL;
	for (; message; message = next) {
		next = message->next;
		message->next = NULL;
		exchange_client_gone(message);
	}
}

static void close_for(
	struct websocket *socket, unsigned status, const char *why, uint64_t retry_after_ms)
{
	bool is_overload = status / 100 == 5;
	char reason[64];
	int len = snprintf(reason, sizeof(reason), "%s", why);

	if (retry_after_ms != HTTP_PROBLEM_NO_RETRY)
		len = snprintf(reason, sizeof(reason), "retry-after-ms=%llu",
			(unsigned long long)retry_after_ms);
	socket_close_failed(socket, is_overload ? CLOSE_TRY_AGAIN : CLOSE_POLICY,
		(struct slice){reason, (size_t)len}, why);
}

/* Where messages may be compressed, as agreed before a reload, the server could not read what
 * follows a dropped one. */
bool socket_drops_message(
	const struct websocket *socket, const struct exchange *message, unsigned status)
{
	return status == 429 && message->route->websocket.on_exceed == CONF_MESSAGE_DROP &&
	       !socket->from_client.deflates;
}

void socket_messages_refused(struct websocket *socket, unsigned count, bool are_dropped,
	unsigned status, const char *why, uint64_t retry_after_ms)
{
	unsigned room = SOCKET_NOTICES - socket->notices;

	socket->verdicts.refused += count;
	if (strcmp(why, CLIENT_SESSION_CLOSED) == 0) /* the socket will learn of it, too */
		socket_refuse_with_session(socket);
	else if (!are_dropped)
		close_for(socket, status, why, retry_after_ms);
	else
		socket->notices += count < room ? count : room;
}

static void refuse(struct client *client, struct exchange *message, unsigned status,
	const char *why, uint64_t retry_after_ms)
{
	struct websocket *socket = socket_of(client);
	bool is_dropped = socket_drops_message(socket, message, status);

	exchange_enter(message, EXCHANGE_REPLYING);
	exchange_end(message);
	socket_messages_refused(socket, 1, is_dropped, status, why, retry_after_ms);
}

static void exchange_ended(struct client *client, struct exchange *message)
{
	struct websocket *socket = socket_of(client);

	unlink_message(socket, message);
	socket->verdicts.delayed += message->gate->delayed;
	socket->heard_ms = socket->active_ms = socket_now_ms(socket); /* silence begins again */
	if (message->attempt.reach != REACH_LEFT) /* else what is there by now is of the next one */
		buffer_release(&socket->message, &socket->worker->blocks);
	socket->again = true;
}

/* The socket continues, which passes the message. */
static void advance(struct client *client)
{
	struct websocket *socket = socket_of(client);

	if (!socket_has_ended(socket))
		passage_run(socket->passage);
}

static void close_client(struct client *client, const char *why)
{
	socket_abort(socket_of(client), why);
}

static uint64_t body_memory(struct client *client)
{
	return socket_of(client)->message.capacity;
}

static void nothing(struct client *client)
{
	(void)client;
}

static bool is_never(struct client *client)
{
	(void)client;
	return false;
}

static bool is_not_last(struct client *client, const struct exchange *message)
{
	(void)client;
	(void)message;
	return false;
}

/* What reads a body or writes a response is no message's. */
const struct client_calls message_client_calls = {
	.advance = advance,
	.watch = nothing,
	.finish = nothing,
	.close = close_client,
	.exchange_ended = exchange_ended,
	.body_memory = body_memory,
	.takes_interim = is_never,
	.is_behind = is_never,
	.is_last = is_not_last,
	.serve = serve,
	.refuse = refuse,
};

/* ---- unfinished ----------------------------------------------------------------------------- */

/* What a short one holds where it rests is a multiple of this. */
#define REST_BYTES 1024

/* So much each socket may hold whatever others do, as it costs no more than the socket itself:
 * otherwise, a few clients that never finish long messages would close everyone else's sockets. */
#define OWN_BYTES 4096

#define WHY "too many unfinished messages"

/* In the node's sum. False: there is no room for it, and nothing has changed. */
static bool count(struct websocket *socket, uint64_t bytes)
{
	struct node_unfinished *all = &socket->worker->node->unfinished;

	if (bytes > socket->gathered) {
		/* Relaxed: a sum, which orders nothing. */
		uint64_t more = bytes - socket->gathered;
		uint64_t most = atomic_load_explicit(&all->most, memory_order_relaxed);
		uint64_t before =
			atomic_fetch_add_explicit(&all->bytes, more, memory_order_relaxed);
		if (most > 0 && bytes > OWN_BYTES && (before >= most || more > most - before)) {
			atomic_fetch_sub_explicit(&all->bytes, more, memory_order_relaxed);
			return false;
		}
	} else if (bytes < socket->gathered) {
		atomic_fetch_sub_explicit(
			&all->bytes, socket->gathered - bytes, memory_order_relaxed);
	}
	socket->gathered = bytes;
	return true;
}

void unfinished_clear(struct websocket *socket)
{
	buffer_release(&socket->message, &socket->worker->blocks);
	count(socket, 0);
}

/* All that it holds, with so many bytes for the message that is gathered, or waits for its turn. */
static uint64_t held(const struct websocket *socket, size_t message_bytes)
{
	return message_bytes + socket->server->held_bytes(socket);
}

static void give_up(struct websocket *socket)
{
	socket->message_began_ms = 0;
	socket_close_failed(socket, CLOSE_TRY_AGAIN, SLICE(WHY), WHY); /* ends one that waits */
	if (!socket->last || !exchange_waits_for_turn(socket->last))
		unfinished_clear(socket);
}

/* Room for so many bytes in all: twice the size each time, and not what the head of its frame
 * promises: that costs its sender nothing. */
static bool make_room(struct websocket *socket, size_t bytes)
{
	struct buffer *message = &socket->message;
	size_t room = bytes > 2ul * message->capacity ? bytes : 2ul * message->capacity;

	if (bytes <= OWN_BYTES && room > OWN_BYTES)
		room = OWN_BYTES;
	if (!count(socket, held(socket, room))) {
		give_up(socket);
		return false;
	}
	if (buffer_reserve(message, &socket->worker->blocks, room))
		return true;
	socket_abort(socket, "no memory");
	return false;
}

bool unfinished_add(struct websocket *socket, struct slice data)
{
	struct buffer *message = &socket->message;

	if (!message->at && !buffer_acquire(message, &socket->worker->blocks)) {
		socket_abort(socket, "no memory");
		return false;
	}
	size_t bytes = buffer_used(message) + data.len;
	if (bytes > message->capacity && !make_room(socket, bytes))
		return false;
	memcpy(message->at + message->end, data.at, data.len);
	message->end += (uint32_t)data.len;
	return true;
}

/* A short one that stays gives its block back: that is large. Without memory it stays there. */
static void shrink(struct websocket *socket)
{
	struct buffer *message = &socket->message, small;
	size_t used = buffer_used(message), room = (used / REST_BYTES + 1) * REST_BYTES;

	if (message->capacity != socket->worker->blocks.block_bytes || room > message->capacity / 2)
		return;
	small = (struct buffer){malloc(room), 0, (uint32_t)used, (uint32_t)room};
	if (!small.at)
		return;
	memcpy(small.at, buffer_head(message), used);
	buffer_release(message, &socket->worker->blocks);
	*message = small;
}

void unfinished_rest(struct websocket *socket)
{
	if (socket->message.at)
		shrink(socket);
	if (!count(socket, held(socket, socket->message.at ? socket->message.capacity : 0)))
		give_up(socket);
}
