#include "websocket/state.h"

#include "gateway/gateway.h"

bool socket_may_work(struct websocket *socket, unsigned *work)
{
	uint64_t now_ns = worker_now_ns(socket->worker);

	if (socket->turn_ns != now_ns) {
		socket->turn_ns = now_ns;
		socket->client_work = socket->server_work = 0;
	}
	return ++*work <= SOCKET_TURN_WORK;
}

void socket_abort(struct websocket *socket, const char *why)
{
	if (!socket_has_ended(socket))
		passage_abort(socket->passage, why);
}

enum stream_result socket_fetch(struct websocket *socket, struct stream *stream, struct buffer *in)
{
	struct buffer_pool *pool = &socket->worker->blocks;

	if (stream->read_ended)
		return STREAM_END;
	if (!stream_may_have_more(stream))
		return STREAM_AGAIN;
	if (!in->at && !buffer_acquire(in, pool))
		return STREAM_FAILED;
	in->start = in->end = 0;
	enum stream_result result = stream_read(stream, in);
	if (result != STREAM_OK)
		buffer_release(in, pool);
	return result;
}

void socket_took(struct websocket *socket, struct buffer *in, size_t bytes)
{
	in->start += (uint32_t)bytes;
	if (in->at && buffer_used(in) == 0)
		buffer_release(in, &socket->worker->blocks);
}

struct exchange *socket_first_message(const struct websocket *socket)
{
	return socket->gateway ? socket->gateway->client.first : socket->client.first;
}

bool socket_is_passing(const struct websocket *socket)
{
	return socket->gateway && socket->gateway->passing.bytes;
}

bool socket_has_messages(const struct websocket *socket)
{
	for (const struct exchange *x = socket_first_message(socket); x; x = x->next)
		if (!exchange_is_event(x))
			return true;
	return false;
}

/* Does a message more wait for nothing but the write of those before it? */
static bool takes_message(const struct websocket *socket)
{
	return !socket->last ||
	       (socket->last->state == EXCHANGE_FORWARDING && socket->passage->up.sink->writable);
}

bool socket_reads_client(const struct websocket *socket)
{
	if (socket_has_ended(socket) || socket->closing.client.done || socket->closing.discards)
		return false;
	const struct gateway *gateway = socket->gateway;
	if (gateway)
		return !gateway->passing.bytes &&
		       gateway->waiting <= socket_conf(socket)->gateway.waiting &&
		       gateway->waiting_bytes < socket_conf(socket)->gateway.waiting_bytes &&
		       flow_bytes(socket->passage->down.flow) < SOCKET_AHEAD_BYTES;
	return takes_message(socket) && flow_bytes(socket->passage->up.flow) < SOCKET_AHEAD_BYTES;
}
