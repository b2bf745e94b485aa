#include "websocket/state.h"

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
	return socket->gateway ? socket->gateway->first : socket->client.first;
}

bool socket_is_passing(const struct websocket *socket)
{
	return socket->server->is_passing(socket);
}

bool socket_has_messages(const struct websocket *socket)
{
	for (const struct exchange *x = socket_first_message(socket); x; x = x->next)
		if (!exchange_is_event(x))
			return true;
	return false;
}

bool socket_reads_client(const struct websocket *socket)
{
	return !socket_has_ended(socket) && !socket->closing.client.done &&
	       !socket->closing.discards && socket->server->takes_message(socket);
}
