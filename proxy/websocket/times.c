/*
 * A socket's times. One deadline runs, the earliest of those that apply:
 *
 *   closing, unless a message  since the first close frame            close_timeout, and in a
 *     goes before it                                                  drain not to its end
 *   a message goes before it:  since the drain began                  3/4 of shutdown_timeout
 *   the client is read:        since a byte of it came                ping_interval, ping_timeout
 *                              since a ping waits for a message       ping_timeout
 *                              since its message began                message_timeout
 *   a message is written:      since it was passed on                 message_timeout
 *   bytes wait for the client: since it took some, or none waited     send_timeout
 *   a backend asked for it:    since the last message to the client   its keep-alive
 *   no message waits:          since a byte of one, either way        socket_idle_timeout
 *                              since the gateway's last request       what its server has asked for
 *   always                     since it was opened, or in a drain     ends_ms
 *
 * While a message of the client's waits for its turn, the client is not read, and its silence says
 * nothing.
 */
#include "websocket/times.h"

#include <string.h>

#include "listen/listener.h"
#include "websocket/close.h"
#include "websocket/send.h"

#define NEVER_MS UINT64_MAX

/* Nothing waits without end: what has no other deadline is looked at so often. */
#define LOOK_MS (3600 * 1000)

enum time_kind {
	TIME_CLOSING,
	TIME_PING,
	TIME_PONG,
	TIME_MESSAGE,
	TIME_SERVED,
	TIME_TAKEN,
	TIME_SERVER,
	TIME_IDLE,
	TIME_END,
	TIME_KINDS,
};

static void draw_ping(struct websocket *socket)
{
	uint64_t number = websockets_random_below(socket->all, UINT64_MAX);

	memcpy(socket->ping.payload, &number, sizeof(socket->ping.payload));
}

void socket_ask_client(struct websocket *socket)
{
	socket->ping.is_due = true;
	socket->ping.since_ms = socket_now_ms(socket);
	draw_ping(socket);
}

void socket_times_begin(struct websocket *socket)
{
	uint64_t now_ms = socket_now_ms(socket);
	uint64_t lifetime_ms = socket_conf(socket)->lifetime_ms;

	socket->opened_ms = socket->heard_ms = socket->active_ms = socket->taking.since_ms = now_ms;
	socket->ends_ms = NEVER_MS;
	if (lifetime_ms > 0)
		socket->ends_ms = now_ms + lifetime_ms -
				  websockets_random_below(socket->all, lifetime_ms / 10 + 1);
	draw_ping(socket);
	if (socket->worker->draining)
		socket_drain(socket);
}

/* A drain's time, by sixteenths of shutdown_timeout since it began. What ends later than a process
 * that stops would be cut. */
#define DRAIN_PARTS     16
#define DRAIN_SPREAD    8  /* sockets begin to end within so many */
#define DRAIN_HAND_OVER 4  /* and so much later where another process serves: there is no hurry */
#define DRAIN_MOVE      1  /* but for those whose session that process waits for */
#define DRAIN_HURRY     12 /* no message waits for its turn any longer */
#define DRAIN_ANSWER    13 /* nor for an answer; then the client gets its close frame */
#define DRAIN_CLOSE     14 /* the rest is for servers that learn of the end */

static uint64_t drain_part_ms(const struct websocket *socket, unsigned part)
{
	const struct worker *worker = socket->worker;

	return worker->drain_began_ms +
	       site_part(worker)->use->site->conf->shutdown_timeout_ms * part / DRAIN_PARTS;
}

/* From 1001 on clients come back, to others: not all of them at once. One that opens late has what
 * is left of that time. */
void socket_drain(struct websocket *socket)
{
	bool moves = socket->all->is_handed_over && socket->passage->owner.session;
	unsigned first = socket->all->is_handed_over && !moves ? DRAIN_HAND_OVER : 0;
	unsigned spread = moves ? DRAIN_MOVE : DRAIN_SPREAD;
	uint64_t from_ms = drain_part_ms(socket, first), now_ms = socket_now_ms(socket);
	uint64_t to_ms = drain_part_ms(socket, first + spread);
	uint64_t at_ms;

	if (from_ms < now_ms)
		from_ms = now_ms;
	if (to_ms < from_ms)
		to_ms = from_ms;
	at_ms = from_ms + websockets_random_below(socket->all, to_ms - from_ms + 1);
	if (at_ms < socket->ends_ms)
		socket->ends_ms = at_ms;
}

static uint64_t after(uint64_t since_ms, uint64_t timeout_ms)
{
	return timeout_ms > 0 ? since_ms + timeout_ms : NEVER_MS;
}

/* Do bytes wait for the client? */
static bool is_behind(const struct websocket *socket)
{
	const struct passage_way *down = &socket->passage->down;

	return !flow_is_empty(down->flow) || (socket_has_sends(socket) && !down->sink->writable);
}

/* When the client took bytes last, or the first of those that wait for it came. */
static void note_taken(struct websocket *socket)
{
	const struct passage_way *down = &socket->passage->down;
	bool waits = is_behind(socket);

	if (waits && socket->taking.waited && socket->taking.bytes == down->written)
		return;
	socket->taking.waited = waits;
	socket->taking.bytes = down->written;
	socket->taking.since_ms = socket_now_ms(socket);
}

/* Neither a server nor a client that never answers holds up a process that ends: the client still
 * learns of it, and there is time left for servers that do. */
static uint64_t closing_ends_ms(const struct websocket *socket)
{
	const struct socket_closing *closing = &socket->closing;
	uint64_t timeout_ms = socket_conf(socket)->close_timeout_ms;
	uint64_t at_ms = closing->since_ms + timeout_ms;
	bool is_servers = closing->finishes && !closing->is_late && !closing->client.told;
	uint64_t last_ms = drain_part_ms(socket, is_servers ? DRAIN_ANSWER : DRAIN_CLOSE);

	if (closing->discards && closing->server.done) {
		/* Each byte prolongs it. */
		uint64_t end_ms =
			closing->since_ms + socket->client.listener->conf->linger_timeout_ms;
		uint64_t heard_ms = socket->heard_ms + timeout_ms;
		if (at_ms < heard_ms && at_ms < end_ms)
			at_ms = heard_ms < end_ms ? heard_ms : end_ms;
	}
	return socket->worker->draining && last_ms < at_ms ? last_ms : at_ms;
}

static void list_times(struct websocket *socket, uint64_t at_ms[static TIME_KINDS])
{
	const struct conf_websocket *conf = socket_conf(socket);
	const struct exchange *message = socket_first_message(socket);
	bool is_served = !socket->gateway && message && message->state == EXCHANGE_FORWARDING;

	for (unsigned i = 0; i < TIME_KINDS; i++)
		at_ms[i] = NEVER_MS;
	note_taken(socket);
	if (is_served)
		at_ms[TIME_SERVED] = socket->served_ms + conf->message_timeout_ms;
	if (is_behind(socket))
		at_ms[TIME_TAKEN] =
			socket->taking.since_ms + socket->client.listener->conf->send_timeout_ms;
	if (socket->closing.begun) {
		if (!socket_waits_to_finish(socket))
			at_ms[TIME_CLOSING] = closing_ends_ms(socket);
		else if (socket->worker->draining)
			at_ms[TIME_END] = drain_part_ms(socket, DRAIN_HURRY);
		return;
	}
	if (!message)
		at_ms[TIME_IDLE] = after(socket->active_ms, conf->idle_timeout_ms);
	at_ms[TIME_SERVER] = socket->server->due_ms(socket);
	at_ms[TIME_END] = socket->ends_ms;
	if (!socket_reads_client(socket))
		return;
	if (socket->ping.is_sent)
		at_ms[TIME_PONG] = socket->ping.since_ms + conf->ping_timeout_ms;
	else if (!socket->ping.is_due)
		at_ms[TIME_PING] = after(socket->heard_ms, conf->ping_interval_ms);
	else if (socket->from_server.opcode && !socket->ping.hurries)
		at_ms[TIME_PING] = socket->ping.since_ms + conf->ping_timeout_ms;
	if (socket->message_began_ms > 0)
		at_ms[TIME_MESSAGE] = socket->message_began_ms + conf->message_timeout_ms;
}

void socket_watch(struct websocket *socket)
{
	uint64_t at_ms[TIME_KINDS], now_ms = socket_now_ms(socket), next_ms = now_ms + LOOK_MS;
	bool is_ours;

	list_times(socket, at_ms);
	for (unsigned i = 0; i < TIME_KINDS; i++)
		if (at_ms[i] < next_ms)
			next_ms = at_ms[i];
	is_ours = at_ms[TIME_END] == next_ms ||
		  (socket->worker->draining && at_ms[TIME_CLOSING] == next_ms);
	passage_await(socket->passage, next_ms, is_ours);
}

static void pass(struct websocket *socket, enum time_kind kind)
{
	switch (kind) {
	case TIME_CLOSING:
		socket_close_late(socket);
		break;
	case TIME_PING:
		socket->ping.hurries = socket->ping.is_due;
		if (!socket->ping.is_due)
			socket_ask_client(socket);
		break;
	case TIME_PONG:
		socket_abort(socket, "ping timeout");
		break;
	case TIME_MESSAGE:
		socket_close(socket, CLOSE_POLICY, SLICE("message timeout"), CLOSE_GOING_AWAY,
			"message timeout");
		break;
	case TIME_SERVED:
		socket_server_gone(socket, "server takes no message");
		break;
	case TIME_TAKEN:
		socket_abort(socket, "send timeout");
		break;
	case TIME_SERVER:
		socket->server->run_due(socket);
		break;
	case TIME_IDLE:
		/* What others have sent may wait for a slow reader. */
		socket_close_behind(
			socket, CLOSE_GOING_AWAY, SLICE("idle"), CLOSE_GOING_AWAY, "idle");
		break;
	case TIME_END:
		if (socket->closing.begun)
			socket_hurry(socket, "drained");
		else if (socket->worker->draining)
			socket_finish(socket, CLOSE_GOING_AWAY, SLICE("going away"), "drained");
		else
			socket_finish(socket, CLOSE_GOING_AWAY, SLICE("lifetime"), "lifetime");
		break;
	case TIME_KINDS:
		break;
	}
}

void socket_look_at_times(struct websocket *socket)
{
	uint64_t at_ms[TIME_KINDS], now_ms = socket_now_ms(socket);

	wait_none(&socket->passage->wait); /* so that it is set again */
	list_times(socket, at_ms);
	for (unsigned i = 0; i < TIME_KINDS && !socket_has_ended(socket); i++)
		if (at_ms[i] <= now_ms)
			pass(socket, (enum time_kind)i);
}
