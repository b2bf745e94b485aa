/* The server's side: its frames are passed on as they come. */
#include "websocket/read_server.h"

#include "record/account.h"
#include "websocket/close.h"
#include "websocket/send.h"
#include "websocket/write.h"

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

void socket_read_server(struct websocket *socket)
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
