#include "memory_stream.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/container.h"
#include "loop/deadline.h"

/* One direction. */
struct way {
	char *bytes;
	size_t count, room;
	bool ended; /* nothing more comes behind these */
};

struct memory_peer {
	struct way in, out;     /* as the stream sees them */
	struct stream *stream;  /* NULL: on no loop, or closed */
	bool cut;               /* reset, by either side */
	bool shakes;            /* it has a handshake */
	bool we_closed, closed; /* the stream's side, the peer's */
	bool noise;             /* bytes that are no data, before all others of `in` */
	unsigned handshake;     /* bytes that are to come before data */
	const char *protocol;
	bool faulty;
	struct random random;
	struct deadline later; /* faulty: when the stream is woken for what was held back */
};

static size_t put(struct way *way, const void *bytes, size_t len)
{
	size_t n = len < way->room - way->count ? len : way->room - way->count;

	memcpy(way->bytes + way->count, bytes, n);
	way->count += n;
	return n;
}

static size_t take(struct way *way, void *bytes, size_t room)
{
	size_t n = way->count < room ? way->count : room;

	memcpy(bytes, way->bytes, n);
	memmove(way->bytes, way->bytes + n, way->count - n);
	way->count -= n;
	return n;
}

static struct memory_peer *peer_of(const struct stream *stream)
{
	struct memory_peer *peer;

	memcpy(&peer, stream->end.bytes, sizeof(peer));
	return peer;
}

static bool has_news(const struct memory_peer *peer)
{
	return peer->in.count > 0 || peer->in.ended || peer->cut || peer->noise;
}

/* As an event of the system's. */
static void tell(struct memory_peer *peer)
{
	struct stream *stream = peer->stream;

	if (!stream)
		return;
	stream->readable |= has_news(peer);
	stream->writable |= peer->out.count < peer->out.room || peer->cut;
	stream->peer_closed |= peer->in.ended; /* a reset is reported as both */
	stream_wake(stream);
	loop_hurry(stream->loop->loop);
}

/* ---- faults ---------------------------------------------------------------------------------- */

static void on_later(struct deadline *deadline)
{
	tell(CONTAINER_OF(deadline, struct memory_peer, later));
}

/* In the loop's next turn, as an event that comes late. */
static void tell_later(struct memory_peer *peer)
{
	uint64_t now_ms = loop_now_ms(peer->stream->loop->loop);

	deadline_set(&peer->later, now_ms, now_ms);
}

/* How much of `most` is done now: all, without faults. */
static size_t part_of(struct memory_peer *peer, size_t most)
{
	if (!peer->faulty || most == 0)
		return most;
	return random_below(&peer->random, 3) == 0 ? 0 : 1 + random_below(&peer->random, most);
}

static void free_if_over(struct memory_peer *peer)
{
	if (!peer->we_closed || !peer->closed)
		return;
	free(peer->in.bytes);
	free(peer->out.bytes);
	free(peer);
}

/* ---- the stream's side ----------------------------------------------------------------------- */

static enum stream_result memory_read(struct stream *stream, struct buffer *buffer)
{
	struct memory_peer *peer = peer_of(stream);
	size_t n;

	if (peer->cut)
		return stream_note_end(stream, ECONNRESET);
	peer->noise = false;
	n = part_of(peer, buffer_room(buffer));
	if (n == 0 && has_news(peer)) {
		stream->readable = false;
		tell_later(peer);
		return STREAM_AGAIN;
	}
	n = take(&peer->in, buffer->at + buffer->end, n);
	buffer->end += (uint32_t)n;
	stream->received += n;
	stream->readable = has_news(peer); /* it knows: short reads mean nothing here */
	if (n > 0)
		return STREAM_OK;
	return peer->in.ended ? stream_note_end(stream, 0) : STREAM_AGAIN;
}

static enum stream_result memory_peek(struct stream *stream, struct buffer *buffer)
{
	struct memory_peer *peer = peer_of(stream);
	size_t room = buffer_room(buffer), n = peer->in.count < room ? peer->in.count : room;

	if (peer->cut)
		return stream_note_end(stream, ECONNRESET);
	memcpy(buffer->at + buffer->end, peer->in.bytes, n);
	buffer->end += (uint32_t)n;
	stream->readable = false;
	if (n > 0)
		return STREAM_OK;
	return peer->in.ended ? stream_note_end(stream, 0) : STREAM_AGAIN;
}

static enum stream_result memory_write(
	struct stream *stream, const struct iovec *pieces, int count, size_t *written)
{
	struct memory_peer *peer = peer_of(stream);

	*written = 0;
	if (peer->cut || peer->closed || peer->out.ended) {
		stream->failed = true;
		return STREAM_FAILED;
	}
	for (int i = 0; i < count; i++) {
		size_t n = put(&peer->out, pieces[i].iov_base, part_of(peer, pieces[i].iov_len));
		*written += n;
		stream->sent += n;
		if (n < pieces[i].iov_len) {
			stream->writable = false;
			if (peer->faulty && peer->out.count < peer->out.room)
				tell_later(peer);
			return STREAM_AGAIN;
		}
	}
	return STREAM_OK;
}

static void memory_sift(struct stream *stream)
{
	peer_of(stream)->noise = false;
	stream->readable = has_news(peer_of(stream));
}

static void memory_end_output(struct stream *stream)
{
	peer_of(stream)->out.ended = true;
}

static void memory_reset_at_close(struct stream *stream)
{
	peer_of(stream)->cut = true;
}

static int memory_error(const struct stream *stream)
{
	return peer_of(stream)->cut ? ECONNRESET : 0;
}

static bool memory_is_cut(const struct stream *stream)
{
	return peer_of(stream)->cut || (peer_of(stream)->in.ended && peer_of(stream)->out.ended);
}

static bool memory_has_input(const struct stream *stream)
{
	return has_news(peer_of(stream));
}

static size_t memory_untaken(const struct stream *stream)
{
	return peer_of(stream)->out.count;
}

static void leave_loop(struct memory_peer *peer)
{
	if (peer->faulty && peer->stream)
		deadline_end(&peer->later);
	peer->stream = NULL;
}

static void leave(struct memory_peer *peer)
{
	leave_loop(peer);
	peer->we_closed = peer->out.ended = true;
	free_if_over(peer);
}

static void memory_close(struct stream *stream)
{
	leave(peer_of(stream));
}

static struct transport_carried memory_export(struct stream *stream)
{
	struct transport_carried carried;
	struct memory_peer *peer = peer_of(stream);

	leave_loop(peer);
	memcpy(carried.bytes, &peer, sizeof(peer));
	return carried;
}

static struct memory_peer *carried_of(const struct transport_carried *carried)
{
	struct memory_peer *peer;

	memcpy(&peer, carried->bytes, sizeof(peer));
	return peer;
}

/* As with one whose keys and counters are in memory: nobody else can continue with it. */
static bool memory_copy(struct stream *stream, struct transport_carried *copy)
{
	(void)stream;
	(void)copy;
	return false;
}

static void memory_cut(const struct stream *stream)
{
	peer_of(stream)->out.ended = true;
	peer_of(stream)->in.ended = true;
	tell(peer_of(stream));
}

static const struct transport memory, memory_with_handshake;

static void begin(struct stream *stream, struct stream_loop *loop, struct memory_peer *peer,
	const struct stream_calls *calls)
{
	stream_begin(stream, peer->shakes ? &memory_with_handshake : &memory, loop, true, calls);
	memcpy(stream->end.bytes, &peer, sizeof(peer));
	peer->stream = stream;
	if (peer->faulty)
		deadline_init(&peer->later, loop->loop->base, on_later);
	tell(peer); /* that it can be written is an event of sockets as well */
}

static bool memory_import(struct stream *stream, struct stream_loop *loop,
	struct transport_carried *from, const struct stream_calls *calls)
{
	begin(stream, loop, carried_of(from), calls);
	return true;
}

static bool memory_is_silent(const struct transport_carried *from)
{
	return !has_news(carried_of(from));
}

static void memory_discard(struct transport_carried *from)
{
	leave(carried_of(from));
}

static void memory_reject(struct transport_carried *from)
{
	carried_of(from)->cut = true;
	leave(carried_of(from));
}

static enum stream_result memory_handshake(struct stream *stream, const char **why)
{
	struct memory_peer *peer = peer_of(stream);
	char byte = 0;

	while (peer->handshake > 0 && byte != 'X' && byte != 'H' && take(&peer->in, &byte, 1) == 1)
		peer->handshake--;
	if (byte == 'H')
		return STREAM_END;
	stream->readable = has_news(peer);
	*why = byte == 'X' ? "an X came" : "the connection ended";
	if (byte == 'X' || (peer->handshake > 0 && (peer->cut || peer->in.ended)))
		return STREAM_FAILED;
	return peer->handshake > 0 ? STREAM_AGAIN : STREAM_OK;
}

static const char *memory_protocol(const struct stream *stream)
{
	return peer_of(stream)->protocol;
}

#define MEMORY                                                                                     \
	.name = "memory", .read = memory_read, .peek = memory_peek, .write = memory_write,         \
	.sift = memory_sift, .end_output = memory_end_output,                                      \
	.reset_at_close = memory_reset_at_close, .error = memory_error, .is_cut = memory_is_cut,   \
	.has_input = memory_has_input, .untaken = memory_untaken, .close = memory_close,           \
	.export = memory_export, .copy = memory_copy, .cut = memory_cut, .import = memory_import,  \
	.is_silent = memory_is_silent, .discard = memory_discard, .reject = memory_reject

static const struct transport memory = {MEMORY};
static const struct transport memory_with_handshake = {
	MEMORY, .handshake = memory_handshake, .protocol = memory_protocol};

/* ---- the peer's side ------------------------------------------------------------------------- */

static struct memory_peer *peer_new(size_t room)
{
	struct memory_peer *peer = calloc(1, sizeof(*peer));

	assert(peer);
	peer->in = (struct way){.bytes = malloc(room), .room = room};
	peer->out = (struct way){.bytes = malloc(room), .room = room};
	assert(peer->in.bytes && peer->out.bytes);
	return peer;
}

struct memory_peer *memory_stream_open(struct stream *stream, struct stream_loop *loop, size_t room,
	const struct stream_calls *calls)
{
	struct memory_peer *peer = peer_new(room);

	begin(stream, loop, peer, calls);
	return peer;
}

struct memory_peer *memory_handshake_new(
	struct stream_export *stream, size_t room, unsigned bytes, const char *protocol)
{
	struct memory_peer *peer = peer_new(room);

	peer->shakes = true;
	peer->handshake = bytes;
	peer->protocol = protocol;
	*stream = (struct stream_export){.transport = &memory_with_handshake};
	memcpy(stream->carried.bytes, &peer, sizeof(peer));
	return peer;
}

struct memory_peer *memory_export_new(struct stream_export *stream, size_t room)
{
	struct memory_peer *peer = peer_new(room);

	*stream = (struct stream_export){.transport = &memory};
	memcpy(stream->carried.bytes, &peer, sizeof(peer));
	return peer;
}

void memory_peer_set_faults(struct memory_peer *peer, struct random random)
{
	peer->faulty = true;
	peer->random = random;
	deadline_init(&peer->later, peer->stream->loop->loop->base, on_later);
}

void memory_peer_send_noise(struct memory_peer *peer)
{
	peer->noise = true;
	tell(peer);
}

size_t memory_peer_send(struct memory_peer *peer, const void *bytes, size_t len)
{
	size_t n = put(&peer->in, bytes, len);

	if (n > 0)
		tell(peer);
	return n;
}

long memory_peer_receive(struct memory_peer *peer, void *bytes, size_t room)
{
	bool was_full = peer->out.count == peer->out.room;
	size_t n = peer->cut ? 0 : take(&peer->out, bytes, room);

	if (n > 0 && was_full)
		tell(peer);
	if (n > 0)
		return (long)n;
	return peer->cut ? -2 : peer->out.ended ? -1 : 0;
}

void memory_peer_end_output(struct memory_peer *peer)
{
	peer->in.ended = true;
	tell(peer);
}

void memory_peer_end_unheard(struct memory_peer *peer)
{
	peer->in.ended = true;
}

void memory_peer_reset(struct memory_peer *peer)
{
	peer->cut = true;
	tell(peer);
}

void memory_peer_close(struct memory_peer *peer)
{
	peer->closed = true;
	memory_peer_end_output(peer);
	free_if_over(peer);
}
