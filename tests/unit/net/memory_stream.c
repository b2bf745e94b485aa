#include "memory_stream.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

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
	bool we_closed, closed; /* the stream's side, the peer's */
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
	return stream->end.memory;
}

static bool has_news(const struct memory_peer *peer)
{
	return peer->in.count > 0 || peer->in.ended || peer->cut;
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
	n = take(&peer->in, buffer->at + buffer->end, buffer_room(buffer));
	buffer->end += (uint32_t)n;
	stream->received += n;
	stream->readable = has_news(peer); /* it knows: short reads mean nothing here */
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
		size_t n = put(&peer->out, pieces[i].iov_base, pieces[i].iov_len);
		*written += n;
		stream->sent += n;
		if (n < pieces[i].iov_len) {
			stream->writable = false;
			return STREAM_AGAIN;
		}
	}
	return STREAM_OK;
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

static void leave(struct memory_peer *peer)
{
	peer->stream = NULL;
	peer->we_closed = peer->out.ended = true;
	free_if_over(peer);
}

static void memory_close(struct stream *stream)
{
	leave(peer_of(stream));
}

static struct transport_carried memory_export(struct stream *stream)
{
	peer_of(stream)->stream = NULL;
	return (struct transport_carried){.fd = -1, .memory = peer_of(stream)};
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

static const struct transport memory;

static void begin(struct stream *stream, struct stream_loop *loop, struct memory_peer *peer,
	const struct stream_calls *calls)
{
	stream_begin(stream, &memory, loop, true, calls);
	stream->end.memory = peer;
	peer->stream = stream;
	tell(peer); /* that it can be written is an event of sockets as well */
}

static bool memory_import(struct stream *stream, struct stream_loop *loop,
	struct transport_carried *from, const struct stream_calls *calls)
{
	begin(stream, loop, from->memory, calls);
	return true;
}

static bool memory_is_silent(const struct transport_carried *from)
{
	return !has_news(from->memory);
}

static void memory_discard(struct transport_carried *from)
{
	leave(from->memory);
}

static const struct transport memory = {
	.name = "memory",
	.read = memory_read,
	.write = memory_write,
	.end_output = memory_end_output,
	.reset_at_close = memory_reset_at_close,
	.error = memory_error,
	.is_cut = memory_is_cut,
	.has_input = memory_has_input,
	.untaken = memory_untaken,
	.close = memory_close,
	.export = memory_export,
	.copy = memory_copy,
	.cut = memory_cut,
	.import = memory_import,
	.is_silent = memory_is_silent,
	.discard = memory_discard,
};

/* ---- the peer's side ------------------------------------------------------------------------- */

struct memory_peer *memory_stream_open(struct stream *stream, struct stream_loop *loop, size_t room,
	const struct stream_calls *calls)
{
	struct memory_peer *peer = calloc(1, sizeof(*peer));

	assert(peer);
	peer->in = (struct way){.bytes = malloc(room), .room = room};
	peer->out = (struct way){.bytes = malloc(room), .room = room};
	assert(peer->in.bytes && peer->out.bytes);
	begin(stream, loop, peer, calls);
	return peer;
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
