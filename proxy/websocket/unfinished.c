#include "websocket/unfinished.h"

#include <stdlib.h>
#include <string.h>

#include "websocket/close.h"

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
