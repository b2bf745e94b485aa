/* The client's side: messages are gathered, control frames passed on. */
#include "websocket/read_client.h"

#include "websocket/close.h"
#include "websocket/times.h"
#include "websocket/message.h"

/* ---- control frames -------------------------------------------------------------------------- */

/* False: there were too many of them, and the socket is closed. */
static bool count_control(struct websocket *socket)
{
	uint64_t second = socket_now_ms(socket) / 1000;

	if (socket->controls.second != second) {
		socket->controls.second = second;
		socket->controls.count = 0;
	}
	if (++socket->controls.count <= SOCKET_CONTROLS_A_SECOND)
		return true;
	socket_close(socket, CLOSE_POLICY, SLICE("too many control frames"), CLOSE_GOING_AWAY,
		"too many control frames");
	socket_discard_client(socket);
	return false;
}

static void pass_control(struct websocket *socket, const struct message_event *event)
{
	if (!count_control(socket))
		return;
	socket->server->take_control(socket, event);
}

static bool answers_our_ping(struct websocket *socket, struct slice payload)
{
	if (!socket->ping.is_open || !slice_equal(payload, (struct slice){socket->ping.payload,
								   sizeof(socket->ping.payload)}))
		return false;
	socket->ping.is_open = false;
	return true;
}

/* ---- messages -------------------------------------------------------------------------------- */

static void take_data(struct websocket *socket, const struct message_event *event)
{
	bool is_empty = event->piece.frame.length == 0 && !event->ends;

	if (is_empty && !count_control(socket))
		return;
	if (socket->closing.begun)
		return; /* too late for it */
	if (event->begins) {
		socket->opcode = event->opcode;
		socket->compressed = event->compressed;
		socket->message_began_ms = socket_now_ms(socket);
	}
	if (event->piece.data.len > 0 && !unfinished_add(socket, event->piece.data))
		return;
	socket->active_ms = socket_now_ms(socket);
	if (!event->ends)
		return;
	socket->message_began_ms = 0;
	socket->server->begin_message(socket);
}

static void act_on(struct websocket *socket, const struct message_event *event)
{
	switch (event->kind) {
	case MESSAGE_MORE:
		break;
	case MESSAGE_DATA:
		take_data(socket, event);
		break;
	case MESSAGE_PONG:
		if (answers_our_ping(socket, event->payload))
			break;
		pass_control(socket, event);
		break;
	case MESSAGE_PING:
		pass_control(socket, event);
		break;
	case MESSAGE_CLOSE:
		socket_client_closes(socket, event->payload);
		break;
	case MESSAGE_BROKEN:
		worker_count(socket->worker, STATS_MALFORMED);
		socket_close(
			socket, event->code, event->reason, CLOSE_GOING_AWAY, event->reason.at);
		socket_discard_client(socket);
		break;
	case MESSAGE_NO_MEMORY:
		socket_abort(socket, "no memory");
		break;
	}
}

/* False: nothing now, or it has ended. */
static bool fetch(struct websocket *socket)
{
	struct passage_way *up = &socket->passage->up;

	switch (socket_fetch(socket, up->source, up->in)) {
	case STREAM_OK:
		socket->heard_ms = socket_now_ms(socket);
		socket->ping.is_sent = false;
		return true;
	case STREAM_AGAIN:
		return false;
	case STREAM_END:
	case STREAM_FAILED:
		socket_client_gone(socket);
		return false;
	}
	return false;
}

/* Thrown away, within the bounds of an upload that was refused. */
static void discard(struct websocket *socket)
{
	struct passage_way *up = &socket->passage->up;
	struct socket_closing *closing = &socket->closing;
	uint64_t most = socket->client.listener->conf->linger_bytes;

	while (!socket_has_ended(socket) && !closing->client.done) {
		if (!socket_may_work(socket, &socket->client_work)) {
			stream_yield(up->source);
			return;
		}
		if (!up->in->at && !fetch(socket))
			return;
		closing->discarded_bytes += buffer_used(up->in);
		buffer_release(up->in, &socket->worker->blocks);
		if (closing->discarded_bytes >= most)
			closing->client.done = socket->again = true;
	}
}

/* It closed its half while it is not read. Whether it has left, TCP does not tell before it is sent
 * something: a client that has left answers a ping with a reset. */
static void probe(struct websocket *socket)
{
	bool is_asked = socket->ping.is_due || socket->ping.is_sent;

	if (socket->passage->up.source->peer_closed && !is_asked && !socket->closing.client.done &&
		!socket->closing.client.told) {
		socket_ask_client(socket);
		socket->ping.hurries = true; /* the server's message may never end */
	}
}

static void read_frames(struct websocket *socket)
{
	while (socket_reads_client(socket)) {
		struct passage_way *up = &socket->passage->up;
		struct slice input = SLICE_NONE;
		struct message_event event;
		if (!socket_may_work(socket, &socket->client_work)) {
			stream_yield(up->source);
			return;
		}
		if (up->in->at)
			input = (struct slice){buffer_head(up->in), buffer_used(up->in)};
		size_t before = input.len;
		message_read(&socket->all->frames, &socket->from_client, &input, &event);
		if (before > 0)
			socket_took(socket, up->in, before - input.len);
		if (event.kind == MESSAGE_MORE && !fetch(socket))
			return;
		if (event.kind == MESSAGE_DATA)
			socket->client_work += (unsigned)(event.piece.data.len / SOCKET_WORK_BYTES);
		act_on(socket, &event);
	}
	if (!socket_has_ended(socket))
		probe(socket);
}

void socket_read_client(struct websocket *socket)
{
	read_frames(socket);
	if (!socket_has_ended(socket) && socket->closing.discards)
		discard(socket);
	if (socket_has_ended(socket))
		return;
	if (socket->message.at || socket->gathered > 0 || socket->server->held_bytes(socket) > 0)
		unfinished_rest(socket);
}
