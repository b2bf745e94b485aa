#include "websocket/close.h"

#include <string.h>

#include "record/account.h"
#include "websocket/send.h"
#include "websocket/read_server.h"

static void begin(struct websocket *socket)
{
	if (socket->closing.begun)
		return;
	socket->closing.begun = true;
	socket->closing.since_ms = socket_now_ms(socket);
	socket->again = true;
}

/* What the close frames of our own say. */
static void say(struct websocket *socket, unsigned code, struct slice reason, unsigned server_code,
	const char *why)
{
	struct socket_closing *closing = &socket->closing;
	size_t room = sizeof(closing->reason);

	if (!socket->passage->outcome)
		socket->passage->outcome = why;
	closing->client_code = (uint16_t)code;
	closing->server_code = (uint16_t)server_code;
	closing->reason_len = (uint8_t)(reason.len < room ? reason.len : room);
	memcpy(closing->reason, reason.at, closing->reason_len);
}

/* The close frame that the client is still to get does not say that all was well: its own, or
 * 1001 of a drain, would. One of ours that says something else already stays. */
static void say_failed(
	struct websocket *socket, unsigned code, struct slice reason, const char *why)
{
	struct socket_closing *closing = &socket->closing;

	if (closing->client.told || closing->client.due || closing->failed)
		return;
	closing->failed = true;
	if (closing->finishes)
		closing->client_code = (uint16_t)code; /* the server hears the reason, too */
	else
		say(socket, code, reason, closing->server_code, why);
}

/* One that waits for its turn or its limit is given up: the client learns that no more is taken,
 * and answers that only when nothing of it is under way. */
static void give_up_message(struct websocket *socket, const char *why)
{
	struct exchange *message = socket->last;

	if (!message || !exchange_waits_for_turn(message))
		return;
	message->outcome = why;
	exchange_end(message);
}

void socket_close_behind(struct websocket *socket, unsigned code, struct slice reason,
	unsigned server_code, const char *why)
{
	struct socket_closing *closing = &socket->closing;

	if (closing->begun)
		return;
	begin(socket);
	say(socket, code, reason, server_code, why);
	give_up_message(socket, why);
	closing->client.due = !closing->client.told;
	closing->server.due = !closing->server.told;
}

void socket_close(struct websocket *socket, unsigned code, struct slice reason,
	unsigned server_code, const char *why)
{
	if (socket->closing.begun)
		return;
	socket_close_behind(socket, code, reason, server_code, why);
	socket_clear_sends(socket);
}

void socket_close_failed(
	struct websocket *socket, unsigned code, struct slice reason, const char *why)
{
	if (socket->closing.begun)
		say_failed(socket, code, reason, why);
	else
		socket_close(socket, code, reason, CLOSE_GOING_AWAY, why);
}

void socket_message_lost(struct websocket *socket, const char *why)
{
	say_failed(socket, CLOSE_INTERNAL, slice_of(why), why);
}

void socket_finish(struct websocket *socket, unsigned code, struct slice reason, const char *why)
{
	struct socket_closing *closing = &socket->closing;

	if (closing->begun)
		return;
	begin(socket);
	say(socket, code, reason, code, why);
	closing->finishes = true;
	closing->server.due = true;
}

void socket_hurry(struct websocket *socket, const char *why)
{
	give_up_message(socket, why);
	if (socket->gateway && socket_has_sends(socket)) /* answers may be among them */
		say_failed(socket, CLOSE_TRY_AGAIN, SLICE("slow reader"), "slow reader");
	socket_clear_sends(socket);
	socket->closing.hurries = socket->again = true;
	socket->closing.since_ms = socket_now_ms(socket);
}

void socket_finish_with_session(struct websocket *socket)
{
	socket_finish(
		socket, CLOSE_GOING_AWAY, SLICE(CLIENT_SESSION_CLOSED), CLIENT_SESSION_CLOSED);
}

void socket_refuse_with_session(struct websocket *socket)
{
	if (socket->closing.begun)
		say_failed(socket, CLOSE_GOING_AWAY, SLICE(CLIENT_SESSION_CLOSED),
			CLIENT_SESSION_CLOSED);
	else
		socket_finish_with_session(socket);
}

void socket_client_closes(struct websocket *socket, struct slice payload)
{
	struct socket_closing *closing = &socket->closing;

	begin(socket);
	closing->client.done = true;
	if (!socket->gateway) /* else answers may be among them */
		socket_clear_sends(socket);
	if (!closing->server.told && !closing->server.due)
		socket->server->client_closes(socket, payload);
}

/* Behind what waits for the client already. */
static void keep_for_client(struct socket_closing *closing, struct slice payload)
{
	const uint8_t *at = (const uint8_t *)payload.at;

	closing->client.due = true;
	closing->client_code = CLOSE_NO_CODE;
	closing->reason_len = 0;
	if (payload.len < 2)
		return;
	closing->client_code = (uint16_t)(at[0] << 8 | at[1]);
	closing->reason_len = (uint8_t)(payload.len - 2);
	memcpy(closing->reason, payload.at + 2, closing->reason_len);
}

/* The server takes no more: a message of the client's that has had no turn yet would hold up the
 * close frames. */
static void leave_message(struct websocket *socket)
{
	const char *why = "server closed";

	if (!socket->last || !exchange_waits_for_turn(socket->last))
		return;
	if (socket->closing.finishes)
		socket_message_lost(socket, why);
	give_up_message(socket, why);
}

void socket_server_closes(struct websocket *socket, struct slice payload)
{
	struct socket_closing *closing = &socket->closing;

	begin(socket);
	closing->server.done = true;
	leave_message(socket);
	if (closing->client.told || closing->client.due)
		return;
	if (closing->finishes || closing->failed) {
		closing->client.due = true;
		return;
	}
	if (socket_has_sends(socket)) {
		keep_for_client(closing, payload);
		return;
	}
	closing->client.told = true;
	if (!socket_write_client(socket, FRAME_CLOSE, payload))
		socket_abort(socket, "no memory");
}

void socket_discard_client(struct websocket *socket)
{
	struct socket_closing *closing = &socket->closing;
	bool may_linger = socket->client.listener->conf->max_lingering > 0;

	closing->discards = may_linger;
	closing->client.done = !may_linger;
	if (closing->server.told || closing->server.due)
		return;
	/* A server that has closed first gets its answer from here, as its client sends none. */
	closing->server_code = CLOSE_GOING_AWAY;
	closing->server.due = true;
}

void socket_end_output(struct websocket *socket)
{
	struct passage_way *down = &socket->passage->down;

	if (!socket->closing.discards || !socket->closing.client.told || down->is_over ||
		!flow_is_empty(down->flow))
		return;
	down->is_over = true;
	stream_end_output(down->sink);
}

void socket_client_gone(struct websocket *socket)
{
	struct socket_closing *closing = &socket->closing;
	struct passage_way *up = &socket->passage->up;

	if (closing->client.told && flow_is_empty(socket->passage->down.flow)) {
		closing->client.done = true; /* it has read our close frame, and left */
		return;
	}
	worker_count(socket->worker, STATS_CLIENT_GONE);
	if (!socket->gateway && !closing->server.told && passage_may_send(socket->passage) &&
		socket_write_server(socket, FRAME_CLOSE, 0,
			SLICE("\x03\xe9"
			      "client gone")))
		flow_write(up->flow, up->sink, up->pool, &up->written);
	socket_abort(socket, "client gone");
}

/* The server answers nothing any more: what the client was to get by its close frame. A client that
 * has begun gets a close frame without a code. */
static void tell_client_at_last(struct websocket *socket)
{
	struct socket_closing *closing = &socket->closing;

	socket->again = true;
	if (closing->client.told || closing->client.due)
		return;
	if (!closing->finishes && !closing->failed)
		closing->client_code = CLOSE_NO_CODE;
	closing->client.due = true;
}

/* Those under way, which are not passed on any more. */
static void end_messages(struct websocket *socket, const char *why)
{
	struct passage_way *up = &socket->passage->up;
	struct exchange *message;

	flow_clear(up->flow, up->pool);
	if (socket->client.first)
		socket_message_lost(socket, why);
	while ((message = socket->client.first)) {
		message->outcome = why;
		message->turn.ticket.failed = message->state == EXCHANGE_FORWARDING;
		exchange_end(message);
	}
}

void socket_server_gone(struct websocket *socket, const char *why)
{
	struct socket_closing *closing = &socket->closing;
	bool was_expected = closing->server.done;

	closing->server.done = closing->server.told = true;
	closing->server.due = false;
	if (!socket->gateway) /* else it will see */
		end_messages(socket, why);
	if (!was_expected && !closing->begun) {
		passage_count_failure(socket->passage);
		socket_close(socket, CLOSE_INTERNAL, slice_of(why), CLOSE_NO_CODE, why);
	}
	tell_client_at_last(socket);
}

void socket_session_over(struct websocket *socket)
{
	static const char why[] = "session over";
	struct socket_closing *closing = &socket->closing;

	closing->server.done = closing->server.told = true;
	closing->server.due = false;
	socket_close_failed(socket, CLOSE_RESTART, slice_of(why), why);
	if (!socket->gateway) { /* else it will see */
		end_messages(socket, why);
		stream_discard_untaken(&socket->passage->server);
		stream_close(&socket->passage->server);
	}
	tell_client_at_last(socket);
}

bool socket_waits_to_finish(const struct websocket *socket)
{
	const struct socket_closing *closing = &socket->closing;

	if (closing->hurries)
		return false;
	if (closing->server.due && (socket_first_message(socket) || socket_is_passing(socket)))
		return closing->finishes || socket->gateway;
	return closing->finishes && closing->client.due && socket_may_still_send(socket);
}

void socket_close_late(struct websocket *socket)
{
	struct socket_closing *closing = &socket->closing;

	if (closing->discards && !closing->client.done && closing->server.done &&
		socket->passage->down.is_over) {
		closing->client.done = socket->again = true;
		return;
	}
	/* Each side has one such time, which begins with its close frame. */
	if (!closing->finishes || closing->is_late || closing->client.told) {
		socket_abort(socket, "close timeout");
		return;
	}
	closing->is_late = true;
	closing->since_ms = socket_now_ms(socket);
	if (socket->gateway && socket_has_messages(socket))
		socket_message_lost(socket, "close timeout"); /* of which no answer comes */
	socket_server_gone(socket, "close timeout");
}

bool socket_is_closed(const struct websocket *socket)
{
	const struct socket_closing *closing = &socket->closing;
	const struct passage *passage = socket->passage;

	return closing->client.told && closing->client.done && closing->server.told &&
	       closing->server.done && !socket_first_message(socket) && !socket_has_sends(socket) &&
	       flow_is_empty(passage->down.flow) &&
	       (socket->gateway || flow_is_empty(passage->up.flow));
}

static struct slice payload_of(
	const struct socket_closing *closing, unsigned code, char text[FRAME_CONTROL_BYTES])
{
	return close_payload(code, (struct slice){closing->reason, closing->reason_len}, text);
}

bool socket_tell_client(struct websocket *socket)
{
	struct socket_closing *closing = &socket->closing;
	char text[FRAME_CONTROL_BYTES];

	socket_clear_sends(socket);
	closing->client.due = false;
	closing->client.told = true;
	if (closing->finishes)
		closing->since_ms = socket_now_ms(socket);
	return socket_write_client(
		socket, FRAME_CLOSE, payload_of(closing, closing->client_code, text));
}

struct slice socket_tell_gateway(struct websocket *socket, char text[FRAME_CONTROL_BYTES])
{
	struct socket_closing *closing = &socket->closing;

	closing->server.due = false;
	closing->server.told = true;
	closing->since_ms = socket_now_ms(socket);
	return payload_of(closing, closing->server_code, text);
}

bool socket_tell_server(struct websocket *socket)
{
	struct socket_closing *closing = &socket->closing;
	char text[FRAME_CONTROL_BYTES];

	closing->server.due = false;
	closing->server.told = true;
	if (closing->finishes)
		closing->since_ms = socket_now_ms(socket);
	return socket_write_server(
		socket, FRAME_CLOSE, 0, payload_of(closing, closing->server_code, text));
}
