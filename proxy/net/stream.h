/*
 * Connections as streams of bytes on a thread's loop, whatever carries them: TCP and unix sockets
 * (net/socket_stream.h), and what else implements net/transport.h. Nothing here blocks.
 *
 *   the transport notes: readable, writable, peer_closed --> woken --> fetch, then notify
 *   stream_read, stream_write                            --> it notes what is left
 *
 * The transport reports each change once; its reports are kept here until a read or write shows the
 * contrary. When it knows that nothing is left (a socket: by a short read) is its own affair.
 *
 * A short read may hide a reset that came together with the bytes, and no event follows. An owner
 * that cannot continue without more bytes asks stream_may_have_more; every other stream that rests
 * after a short read is looked at once, within two STREAM_LOOK_MS, and woken if the system has
 * something for it. A stream that is read more often is never looked at, so it costs no call.
 *
 * Woken streams are served in rounds, after the loop's callbacks: first all of a round are
 * read, then all are acted on. A system call displaces most of the code in the processor's first
 * cache, and the code behind it displaces the kernel's; one stage for many streams in a row fetches
 * both less often. A writer can do as much: gather, and write at the turn's end.
 */
#ifndef NET_STREAM_H
#define NET_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/buffer.h"
#include "loop/deadline.h"
#include "loop/loop.h"
#include "net/transport.h"

/* Streams of one thread. */
struct stream_loop {
	struct loop *loop;
	struct loop_stage stage;
	struct stream *first, **end;           /* woken, in that order */
	struct stream *yielded, **yielded_end; /* to be woken in the next turn */
	uint64_t turn;                         /* the loop's, when those were last woken */
	size_t fetched;                        /* bytes in this round */
	struct stream *doubtful;               /* their last read was short, not long ago */
	struct deadline look;                  /* set while there are some */
	uint32_t look_ms;                      /* how often it passes */
	struct tls *leaving; /* closed, with something to be written still: net/tls_stream.h */
	unsigned leaving_count;
};

struct stream_calls {
	/* Reads what is surely wanted, with stream_fetch. It must not act on it: others of its
	 * round are still to be read. May be NULL. */
	void (*fetch)(struct stream *stream);
	/* Something changed: acts on it. */
	void (*notify)(struct stream *stream);
};

/* How long ago a stream's last read was, of stream.unsure; 0: it was not short, or was looked at.
 */
enum stream_unsure { STREAM_UNSURE = 1, STREAM_UNSURE_SINCE_LOOK };

/* The owner reads the state and changes none of it; the transport and this unit do. */
struct stream {
	const struct stream_calls *calls;
	const struct transport *transport;
	bool open;
	bool readable, writable;
	bool peer_closed;        /* the peer's end of data is known to come: read on until 0 */
	unsigned char unsure;    /* the last read was short: a reset may hide behind it */
	bool read_ended;         /* 0 or an error was read */
	bool failed;             /* ECONNRESET, EPIPE, ...: no more data in either direction */
	bool woken : 1;          /* listed in its loop, to be served */
	bool yielded : 1;        /* and which of the two lists below it is in */
	uint64_t received, sent; /* bytes so far */
	struct stream_loop *loop;
	struct stream *next_woken;
	struct stream *next_listed,
		**listed_at;      /* among those that yielded, or are doubtful; NULL */
	struct transport_end end; /* of the transport alone */
};

/* How many are served at once: enough that the first of a stage pays little. If they have more than
 * this many bytes, the rest are read one by one as they are acted on: what is read ahead is to be
 * in the processor's cache still when its turn comes. */
#define STREAM_ROUND       32
#define STREAM_ROUND_BYTES (64 * 1024)

/* The interval of looks at streams whose last read was short; tests change look_ms. */
#define STREAM_LOOK_MS 1000

/* Registers itself with `loop`: streams are served in its read phase. */
void stream_loop_init(struct stream_loop *streams, struct loop *loop);

/* Before its memory is freed, where `loop` lives longer. All streams are closed. */
void stream_loop_end(struct stream_loop *streams);

/* Serves up to STREAM_ROUND of those that were woken. False: there are none. A stream that was
 * closed is passed over; its memory must stay until there are none woken. */
bool stream_round(struct stream_loop *loop);

void stream_close(struct stream *stream);

/* To be served in this turn of the loop. */
void stream_wake(struct stream *stream);

/* The same, and to be read: there may be bytes that the transport has not reported. */
static inline void stream_expect_input(struct stream *stream)
{
	stream->readable = true;
	stream_wake(stream);
}

/* There is more to do, and others get their turn first: served again in the loop's next turn, and
 * read then. */
void stream_yield(struct stream *stream);

/* The remainder of this turn's reads is read in the next. */
static inline void stream_read_again(struct stream *stream)
{
	if (stream->readable)
		stream_yield(stream);
}

/* ---- before any data --------------------------------------------------------------------------
 */

/* Continues the handshake of a stream whose transport has one: OK when it is over, AGAIN until the
 * stream is woken, FAILED with the reason as a text. END: the peer speaks without it; what it has
 * sent is lost, and the stream carries bytes as they are from then on, so that it can be told. */
static inline enum stream_result stream_handshake(struct stream *stream, const char **why)
{
	return stream->transport->handshake(stream, why);
}

/* Has it a handshake, so that nothing may be read or written before? */
static inline bool stream_has_handshake(const struct stream *stream)
{
	return stream->transport->handshake != NULL;
}

/* Looks at what has arrived, as far as there is room for it: it stays to be read. OK: some bytes,
 * and the stream is woken when there are more. */
static inline enum stream_result stream_peek(struct stream *stream, struct buffer *buffer)
{
	return stream->read_ended ? STREAM_END : stream->transport->peek(stream, buffer);
}

/* The protocol that the handshake has chosen, by its name in ALPN; NULL: it has chosen none. */
static inline const char *stream_protocol(const struct stream *stream)
{
	return stream->transport->protocol ? stream->transport->protocol(stream) : NULL;
}

/* Facts that the handshake of TLS has shown; NULL: the stream has no TLS. */
static inline struct tls_facts *stream_tls(const struct stream *stream)
{
	return stream->transport->facts ? stream->transport->facts(stream) : NULL;
}

/* Why it has failed, where more is known than that it has: an alert of TLS, say. NULL: nothing. */
static inline const char *stream_why(const struct stream *stream)
{
	return stream->failed && stream->transport->why ? stream->transport->why(stream) : NULL;
}

/* Can nobody between the peer and this process read it? */
static inline bool stream_is_encrypted(const struct stream *stream)
{
	return stream->transport->is_encrypted;
}

/* ---- reading and writing --------------------------------------------------------------------- */

/* Reads once into the free room of the buffer, which must have some. */
static inline enum stream_result stream_read(struct stream *stream, struct buffer *buffer)
{
	return stream->read_ended ? STREAM_END : stream->transport->read(stream, buffer);
}

/* Is there perhaps more to read? A caller that cannot continue without more than was read asks this
 * and reads once again, which shows a reset that came together with the bytes. */
static inline bool stream_may_have_more(struct stream *stream)
{
	stream->readable |= stream->unsure != 0;
	return stream->readable;
}

/* Reads once into a new block, which is given back when nothing came. The next
 * stream_read reports an end once more. Does nothing without memory. */
void stream_fetch(struct stream *stream, struct buffer *buffer, struct buffer_pool *pool);

/* Writes one piece or more, once. `*written` is how much was taken; STREAM_AGAIN when that was not
 * all. */
static inline enum stream_result stream_write(
	struct stream *stream, const struct iovec *pieces, int count, size_t *written)
{
	return stream->transport->write(stream, pieces, count, written);
}

/* Nothing more is written: the peer reads an end of data, and may still send. With TLS these are
 * two steps, a close_notify and the end of the transport below, and both come behind what was
 * written before: at once, or when the peer has made room. */
static inline void stream_end_output(struct stream *stream)
{
	stream->transport->end_output(stream);
}

/* Before stream_close: the peer is to see a reset and no end of data, and bytes that it has not
 * taken yet are thrown away. A unix socket knows no such thing. */
static inline void stream_reset_at_close(struct stream *stream)
{
	stream->transport->reset_at_close(stream);
}

/* The same if the process dies before stream_close: what its system still holds would leave else,
 * with nobody there to stop it. Where a transport knows no such thing, nothing changes. */
static inline void stream_reset_at_death(struct stream *stream)
{
	if (stream->transport->reset_at_death)
		stream->transport->reset_at_death(stream);
}

/* A peer that is gone without a word is found out within half a minute while nothing is on its way
 * to it, and the stream fails. Where a transport knows no such thing, nothing changes. */
static inline void stream_keep_alive(struct stream *stream)
{
	if (stream->transport->keep_alive)
		stream->transport->keep_alive(stream);
}

/* From now on it is writable only while fewer than half of so many bytes were written and not sent
 * yet, and a write takes no more when there are as many: what is written later does not wait behind
 * all that a send buffer holds. Where a transport knows no such thing, nothing changes. */
static inline void stream_limit_unsent(struct stream *stream, unsigned bytes)
{
	if (stream->transport->limit_unsent)
		stream->transport->limit_unsent(stream, bytes);
}

/* The address by which the peer has reached us; its length, 0: none is known. Asks the system. */
static inline socklen_t stream_local(const struct stream *stream, struct sockaddr_storage *address)
{
	return stream->transport->local ? stream->transport->local(stream, address) : 0;
}

/* ---- state that has to be asked for ---------------------------------------------------------- */

/* The result of connecting: 0 for success, else an errno value. */
static inline int stream_error(const struct stream *stream)
{
	return stream->transport->error(stream);
}

/* Is it over in both directions, even if that was not reported yet? Asks the system. */
static inline bool stream_is_cut(const struct stream *stream)
{
	return stream->transport->is_cut(stream);
}

/* Is there something to read, an end included, even if that was not reported yet? Asks the
 * system. Bytes that are no data, as a session ticket of TLS, are nothing to read: they are taken
 * in. */
bool stream_has_input(struct stream *stream);

/* How many of the bytes sent the peer's system has taken: what this one still holds is not. Counted
 * in bytes that the owner has written, whatever the transport makes of them; some may have been
 * taken before they are counted, but not the last. It never falls. */
static inline uint64_t stream_taken(const struct stream *stream)
{
	return stream->sent - stream->transport->untaken(stream);
}

static inline bool stream_has_untaken(const struct stream *stream)
{
	return stream_taken(stream) < stream->sent;
}

/* At its close this system throws away what the peer's has not taken: else it would leave in its
 * own time, when a way that is cut has been mended. */
static inline void stream_discard_untaken(struct stream *stream)
{
	if (stream_has_untaken(stream))
		stream_reset_at_close(stream);
}

/* Is a connection that should be silent over, or has it anything to read? As far as it was
 * reported. Bytes that are no data do not make it stale. */
bool stream_is_stale(struct stream *stream);

/* ---- from one loop to another ---------------------------------------------------------------- */

/* A connection on no loop. Its owner, a thread or another, opens it on a loop or closes it. */
struct stream_export {
	const struct transport *transport;
	struct transport_carried carried;
	uint64_t sent; /* as the stream's: what was not taken of it stays known */
};

/* Does its transport have a handshake, so that nothing may be read or written before? */
static inline bool stream_export_has_handshake(const struct stream_export *from)
{
	return from->transport->handshake != NULL;
}

/* Takes it off its loop. As stream_close for the stream itself. */
struct stream_export stream_export(struct stream *stream);

/* A second hold on the connection, for another thread that takes it over, while the stream's own
 * thread does nothing with it but close it. The connection ends when the copy is closed. False:
 * there is none to be had (no descriptors, or a transport whose state is in this stream's memory,
 * as that of TLS: keys and counters); then stream_cut ends it. Any thread. A connection whose
 * stream can be exported only moves. */
bool stream_copy(struct stream *stream, struct stream_export *copy);

/* Ends it in both directions, for the peer at once. Any thread. */
static inline void stream_cut(const struct stream *stream)
{
	stream->transport->cut(stream);
}

/* Opens it on a loop; the stream's memory is the caller's. False (and it is closed) without memory.
 */
bool stream_import(struct stream *stream, struct stream_loop *loop, struct stream_export *from,
	const struct stream_calls *calls);

/* Is there nothing to read on it, no end either? Asks the system. On no loop, bytes that are no
 * data can't be told from data: with some of them it is not silent. */
bool stream_export_is_silent(const struct stream_export *from);

void stream_export_close(struct stream_export *from);
/* The same, and the peer sees a reset where the transport knows one. */
void stream_export_reset(struct stream_export *from);

#endif
