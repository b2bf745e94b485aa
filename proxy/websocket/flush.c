#include "websocket/flush.h"

#include "websocket/close.h"
#include "websocket/message.h"
#include "websocket/send.h"
#include "websocket/write.h"

/* ---- our own --------------------------------------------------------------------------------- */

/* As many as may be composed for a client that takes nothing: what is dropped meanwhile has no
 * notice, or the memory for them would have no bound. */
static bool write_notices(struct websocket *socket)
{
	const char *notice = socket_conf(socket)->notice;
	const struct flow *flow = socket->passage->down.flow;

	for (; socket->notices > 0 && flow_bytes(flow) < SOCKET_AHEAD_BYTES; socket->notices--) {
		if (notice && !socket_write_client(socket, FRAME_TEXT, slice_of(notice)))
			return false;
	}
	return true;
}

/* What may stand between two of the server's frames. */
static bool write_to_client(struct websocket *socket)
{
	struct socket_side *client = &socket->closing.client;

	if (socket->to_client.context || client->told || !socket_takes_frame(socket))
		return true;
	if (socket->notices > 0 && !socket->from_server.opcode && !write_notices(socket))
		return false;
	if (client->due)
		return socket_may_still_send(socket) || socket_tell_client(socket);
	if (!socket->ping.is_due || (socket->from_server.opcode && !socket->ping.hurries))
		return true;
	socket->ping.is_due = socket->ping.hurries = false;
	socket->ping.is_sent = socket->ping.is_open = true;
	socket->ping.since_ms = socket_now_ms(socket);
	return socket_write_client(socket, FRAME_PING,
		(struct slice){socket->ping.payload, sizeof(socket->ping.payload)});
}

static bool write_own(struct websocket *socket)
{
	struct socket_side *server = &socket->closing.server;

	/* The message under way goes first. */
	if (server->due && !server->told && !socket->gateway && !socket->client.first &&
		!socket_tell_server(socket))
		return false;
	return write_to_client(socket);
}

/* ---- to the connections ---------------------------------------------------------------------- */

static void flush_server(struct websocket *socket)
{
	struct passage_way *up = &socket->passage->up;

	if (!flow_is_empty(up->flow) && !passage_may_send(socket->passage)) {
		socket_session_over(socket);
		return;
	}
	if (!flow_is_empty(up->flow) && up->sink->writable &&
		flow_write(up->flow, up->sink, up->pool, &up->written) == STREAM_FAILED) {
		socket_server_gone(socket, "server gone");
		return;
	}
	if (flow_is_empty(up->flow))
		socket_messages_written(socket);
}

static enum stream_result write_flow(struct passage_way *down)
{
	if (flow_is_empty(down->flow) || !down->sink->writable)
		return STREAM_OK;
	return flow_write(down->flow, down->sink, down->pool, &down->written);
}

static void flush_client(struct websocket *socket)
{
	struct passage_way *down = &socket->passage->down;
	bool was_full = flow_bytes(down->flow) >= SOCKET_AHEAD_BYTES;
	enum stream_result result = write_flow(down);

	if (was_full && flow_is_empty(down->flow))
		socket->again = true; /* the server may be read again */
	if (result != STREAM_FAILED && flow_is_empty(down->flow) && socket_has_sends(socket))
		result = socket_write_sends(socket);
	if (result == STREAM_FAILED) {
		worker_count(socket->worker, STATS_CLIENT_GONE);
		socket_abort(socket, "client gone");
		return;
	}
	socket_end_output(socket);
}

void socket_flush(struct websocket *socket)
{
	if (!write_own(socket)) {
		socket_abort(socket, "no memory");
		return;
	}
	if (!socket->gateway)
		flush_server(socket);
	if (!socket_has_ended(socket))
		flush_client(socket);
}
