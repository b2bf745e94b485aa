/*
 * Streams over TCP and unix sockets, on libevent, edge-triggered: one epoll_ctl when one is made,
 * none a request. The kernel reports each change once:
 *
 *   event: readable |= , writable |= , peer_closed |=   --> woken
 *   read:  n < room  -> not readable until the next event (unless the peer has closed)
 *   write: EAGAIN    -> not writable until the next event
 */
#ifndef NET_SOCKET_STREAM_H
#define NET_SOCKET_STREAM_H

#include <stdbool.h>
#include <sys/socket.h>

#include "net/stream.h"

/* Takes a non-blocking socket over. False (it is closed) without memory. */
bool socket_stream_open(struct stream *stream, struct stream_loop *loop, int fd, bool connected,
	const struct stream_calls *calls);

/* The same, on no loop yet. */
struct stream_export socket_export(int fd);

/* The socket of an open stream over one, for options that only net/ knows. */
int socket_stream_fd(const struct stream *stream);

/* Begins to connect. 0: it is writable when it is connected already, else it is woken when that is
 * decided, and stream_error has the result. Else an errno value of socket(2), connect(2) or ENOMEM,
 * with nothing open: EMFILE, ECONNREFUSED, ... */
int socket_stream_connect(struct stream *stream, struct stream_loop *loop,
	const struct sockaddr *address, socklen_t len, const struct stream_calls *calls);

#endif
