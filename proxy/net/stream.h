/*
 * Non-blocking stream sockets on a libevent base, edge-triggered: one epoll_ctl when one is made,
 * none a request. The kernel tells each change once; what it told is kept here until a read or
 * write says otherwise.
 *
 *   event: readable |= , writable |= , peer_closed |=   --> woken
 *   stream_read:  n < wanted  -> not readable until the next event (unless the peer has closed)
 *   stream_write: EAGAIN      -> not writable until the next event
 *
 * Those that were woken are served in rounds, after the loop's callbacks: first all of a round are
 * read, then all are acted on. A system call displaces most of the code in the processor's first
 * cache, and the code behind it displaces the kernel's; one stage for many streams in a row fetches
 * both less often. A writer can do as much: gather, and write at the turn's end.
 */
#ifndef NET_STREAM_H
#define NET_STREAM_H

#include <event2/event.h>
#include <event2/event_struct.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/buffer.h"
#include "loop/loop.h"

struct stream;

/* Streams of one thread. */
struct stream_loop {
	struct loop *loop;
	struct loop_stage stage;
	struct stream *first, **end; /* woken, in that order */
	size_t fetched;              /* bytes in this round */
};

struct stream_calls {
	/* Reads what is surely wanted, with stream_fetch. It must not act on it: others of its
	 * round are still to be read. May be NULL. */
	void (*fetch)(struct stream *stream);
	/* Something changed: acts on it. */
	void (*notify)(struct stream *stream);
};

struct stream {
	struct event event;
	int fd;
	bool readable, writable;
	bool peer_closed;        /* the peer's end of data is known to come: read on until 0 */
	bool unsure;             /* the last read was short: a reset may hide behind it */
	bool read_ended;         /* 0 or an error was read */
	bool failed;             /* ECONNRESET, EPIPE, ...: nothing more goes either way */
	bool woken;              /* listed in its loop, to be served */
	uint64_t received, sent; /* bytes so far */
	const struct stream_calls *calls;
	struct stream_loop *loop;
	struct stream *next_woken;
};

/* How many are served at once: enough that the first of a stage pays little. When they have more to
 * say than this many bytes, the rest are read one by one as they are acted on: what is read ahead
 * is to be in the processor's cache still when its turn comes. */
#define STREAM_ROUND       32
#define STREAM_ROUND_BYTES (64 * 1024)

/* Registers itself with `loop`: streams are served in its read phase. */
void stream_loop_init(struct stream_loop *streams, struct loop *loop);

/* Serves up to STREAM_ROUND of those that were woken. False: there are none. A stream that was
 * closed is passed over; its memory must stay until there are none woken. */
bool stream_round(struct stream_loop *loop);

/* Takes the socket over and registers it. False (the socket is closed) without memory. */
bool stream_open(struct stream *stream, struct stream_loop *loop, int fd, bool connected,
	const struct stream_calls *calls);
void stream_close(struct stream *stream);
/* Before stream_close: the peer is to see a reset, and no end of data. A unix socket knows no such
 * thing. */
void stream_reset_at_close(struct stream *stream);

/* Takes it off its loop without closing it: returns the socket, which is the caller's now. */
int stream_let_go(struct stream *stream);

enum stream_result { STREAM_OK, STREAM_AGAIN, STREAM_END, STREAM_FAILED };

/* To be served in this turn of the loop, as if the kernel had told something. */
void stream_wake(struct stream *stream);

/* Reads once into the free room of the buffer, which must have some. */
enum stream_result stream_read(struct stream *stream, struct buffer *buffer);

/* Is there perhaps more to read? The loop does not tell a reset apart that came together with
 * bytes, and a short read does not show it: who needs more than was read asks this and reads once
 * again. */
static inline bool stream_may_have_more(struct stream *stream)
{
	stream->readable |= stream->unsure;
	return stream->readable;
}

/* Reads once into a new block, which is given back when nothing came. An end is told again by the
 * next stream_read. Does nothing without memory. */
void stream_fetch(struct stream *stream, struct buffer *buffer, struct buffer_pool *pool);

/* What the reads of this turn have left is read in the next. */
static inline void stream_read_again(struct stream *stream)
{
	if (stream->readable)
		event_active(&stream->event, EV_READ, 0);
}

/* Writes one piece or more, once. `*written` is how much the kernel took; STREAM_AGAIN when that
 * was not all. */
enum stream_result stream_write(
	struct stream *stream, const struct iovec *pieces, int count, size_t *written);

/* SO_ERROR of a connect that is over, 0: connected. */
int stream_error(const struct stream *stream);

/* Has a connection that should be silent anything to read, an end included? Looks at the kernel
 * only when the loop may not have told yet. */
bool stream_is_stale(const struct stream *stream);

#endif
