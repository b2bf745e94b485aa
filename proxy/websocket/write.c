#include "websocket/write.h"

#include "websocket/send.h"

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
