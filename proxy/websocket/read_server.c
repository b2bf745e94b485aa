/* The server's side: its frames are passed on as they come. */
#include "websocket/read_server.h"

#include "record/account.h"
#include "websocket/close.h"
#include "websocket/message.h"
#include "websocket/grip.h"
#include "websocket/send.h"

static void pass_data(struct websocket *socket, const struct message_event *event)
{
	if (socket->closing.client.told)
		return; /* nothing may follow a close frame */
	socket->active_ms = socket_now_ms(socket);
	if (event->begins) {
		socket->sent.messages++;
		passage_count(socket->passage, STATS_SERVER_MESSAGES, 1);
	}
	socket->sent.bytes += event->piece.data.len;
	socket_note_passed(socket, event->piece.data.len);
	passage_count(socket->passage, STATS_SERVER_MESSAGE_BYTES, event->piece.data.len);
	if (!socket_pass_to_client(socket, &event->piece))
		socket_abort(socket, "no memory");
}

static void act_on(struct websocket *socket, const struct message_event *event)
{
	switch (event->kind) {
	case MESSAGE_MORE:
		break;
	case MESSAGE_DATA:
		pass_data(socket, event);
		break;
	case MESSAGE_PING:
	case MESSAGE_PONG:
		if (!socket->closing.client.told &&
			!socket_write_client(socket,
				event->kind == MESSAGE_PING ? FRAME_PING : FRAME_PONG,
				event->payload))
			socket_abort(socket, "no memory");
		break;
	case MESSAGE_CLOSE:
		socket_server_closes(socket, event->payload);
		break;
	case MESSAGE_BROKEN:
		socket_server_gone(socket, "malformed frame of the server");
		break;
	case MESSAGE_NO_MEMORY:
		socket_abort(socket, "no memory");
		break;
	}
}

static bool may_read(const struct websocket *socket)
{
	if (socket_has_ended(socket) || socket->closing.server.done)
		return false;
	return socket_takes_frame(socket) && !socket_sends_go_first(socket) &&
	       flow_bytes(socket->passage->down.flow) < SOCKET_AHEAD_BYTES;
}

static bool fetch(struct websocket *socket)
{
	struct passage_way *down = &socket->passage->down;

	switch (socket_fetch(socket, down->source, down->in)) {
	case STREAM_OK:
		return true;
	case STREAM_AGAIN:
		return false;
	case STREAM_END:
	case STREAM_FAILED:
		socket_server_gone(socket, "server gone");
		return false;
	}
	return false;
}

static void read_server(struct websocket *socket)
{
	while (may_read(socket)) {
		struct passage_way *down = &socket->passage->down;
		struct slice input = SLICE_NONE;
		struct message_event event;
		if (!socket_may_work(socket, &socket->server_work)) {
			stream_yield(down->source);
			return;
		}
		if (down->in->at)
			input = (struct slice){buffer_head(down->in), buffer_used(down->in)};
		size_t before = input.len;
		message_read(&socket->all->frames, &socket->from_server, &input, &event);
		if (before > 0)
			socket_took(socket, down->in, before - input.len);
		if (event.kind == MESSAGE_MORE && !fetch(socket))
			return;
		if (event.kind == MESSAGE_DATA)
			socket->server_work += (unsigned)(event.piece.data.len / SOCKET_WORK_BYTES);
		act_on(socket, &event);
	}
}

/* ---- what the client's side calls ------------------------------------------------------------ */

static void take_control(struct websocket *socket, const struct message_event *event)
{
	uint8_t opcode = event->kind == MESSAGE_PING ? FRAME_PING : FRAME_PONG;

	if (!socket->closing.server.told && !socket_write_server(socket, opcode, 0, event->payload))
		socket_abort(socket, "no memory");
}

static void client_closes(struct websocket *socket, struct slice payload)
{
	socket->closing.server.told = true;
	if (!socket_write_server(socket, FRAME_CLOSE, 0, payload))
		socket_abort(socket, "no memory");
}

/* Does one more message wait for nothing but the write of those before it? */
static bool takes_message(const struct websocket *socket)
{
	const struct exchange *last = socket->last;
	const struct passage_way *up = &socket->passage->up;

	return (!last || (last->state == EXCHANGE_FORWARDING && up->sink->writable)) &&
	       flow_bytes(up->flow) < SOCKET_AHEAD_BYTES;
}

static bool is_passing(const struct websocket *socket)
{
	(void)socket;
	return false;
}

static uint64_t held_bytes(const struct websocket *socket)
{
	(void)socket;
	return 0;
}

static uint64_t due_ms(const struct websocket *socket)
{
	return socket_keep_alive_ms(socket);
}

static void abort_messages(struct websocket *socket, const char *why)
{
	(void)socket; /* close.c has ended them */
	(void)why;
}

static void describe(const struct websocket *socket, struct socket_server_facts *facts)
{
	(void)socket;
	*facts = (struct socket_server_facts){.meta = NULL};
}

static void has_no_requests(struct websocket *socket)
{
	(void)socket;
}

const struct socket_server socket_direct_server = {
	.run = read_server,
	.begin_message = socket_begin_message,
	.take_control = take_control,
	.client_closes = client_closes,
	.takes_message = takes_message,
	.is_passing = is_passing,
	.held_bytes = held_bytes,
	.due_ms = due_ms,
	.run_due = socket_send_keep_alive,
	.abort = abort_messages,
	.detach = has_no_requests,
	.refresh = has_no_requests,
	.describe = describe,
	.leave = socket_messages_gone,
};

/* ---- write ---------------------------------------------------------------------------------- */

/* Frames are composed into a flow. */
struct flow_sink {
	struct frame_sink sink;
	struct flow *flow;
	struct buffer_pool *pool;
};

static bool put(struct frame_sink *sink, struct slice bytes)
{
	struct flow_sink *to = CONTAINER_OF(sink, struct flow_sink, sink);

	return flow_append(to->flow, to->pool, bytes);
}

static struct flow_sink sink_of(struct websocket *socket, struct flow *flow)
{
	return (struct flow_sink){{put}, flow, &socket->worker->blocks};
}

/* Room for all of it first: a frame is composed in pieces, and a buffer that grew with each of them
 * would be copied each time. */
static bool write_whole(struct websocket *socket, struct flow *flow, uint8_t opcode, uint8_t rsv,
	bool masked, struct slice payload)
{
	struct flow_sink to = sink_of(socket, flow);
	struct http_out room;

	return flow_reserve(flow, to.pool, payload.len + FRAME_HEAD_BYTES, &room) &&
	       frame_write_whole(&socket->all->frames, opcode, rsv, masked, payload, &to.sink);
}

bool socket_write_server(
	struct websocket *socket, uint8_t opcode, uint8_t rsv, struct slice payload)
{
	return write_whole(socket, socket->passage->up.flow, opcode, rsv, true, payload);
}

bool socket_write_client(struct websocket *socket, uint8_t opcode, struct slice payload)
{
	return write_whole(socket, socket->passage->down.flow, opcode, 0, false, payload);
}

bool socket_takes_frame(const struct websocket *socket)
{
	return flow_takes_prefix(socket->passage->down.flow) && !socket_is_within_send(socket);
}

bool socket_pass_to_client(struct websocket *socket, const struct frame_piece *piece)
{
	struct flow_sink to = sink_of(socket, socket->passage->down.flow);

	return frame_write(
		&socket->all->frames, &socket->to_client, &piece->frame, piece->data, &to.sink);
}
