/*
 * A non-blocking stream socket on a libevent base, edge-triggered: one epoll_ctl when it is made,
 * none a request. The kernel tells each change once; what it told is kept here until a read or
 * write says otherwise.
 *
 *   event: readable |= , writable |= , peer_closed |=   --> notify(stream)
 *   stream_read:  n < wanted  -> not readable until the next event (unless the peer has closed)
 *   stream_write: EAGAIN      -> not writable until the next event
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

struct stream {
	struct event event;
	int fd;
	bool readable, writable;
	bool peer_closed; /* the peer's end of data is known to come: read on until 0 */
	bool read_ended;  /* 0 or an error was read */
	bool failed;      /* ECONNRESET, EPIPE, ...: nothing more goes either way */
	void (*notify)(struct stream *stream);
};

/* Takes the socket over and registers it. False (the socket is closed) without memory. */
bool stream_open(struct stream *stream, struct event_base *base, int fd, bool connected,
	void (*notify)(struct stream *stream));
void stream_close(struct stream *stream);

/* Takes it off its loop without closing it: returns the socket, which is the caller's now. */
int stream_let_go(struct stream *stream);

enum stream_result { STREAM_OK, STREAM_AGAIN, STREAM_END, STREAM_FAILED };

/* Reads once into the free room of the buffer, which must have some. */
enum stream_result stream_read(struct stream *stream, struct buffer *buffer);

/* Writes once. `*written` is how much the kernel took; STREAM_AGAIN when that was not all. */
enum stream_result stream_write(
	struct stream *stream, const struct iovec *pieces, int count, size_t *written);

/* SO_ERROR of a connect that is over, 0: connected. */
int stream_error(const struct stream *stream);

/* Has a connection that should be silent anything to read, an end included? Looks at the kernel
 * only when the loop may not have told yet. */
bool stream_is_stale(const struct stream *stream);

#endif
