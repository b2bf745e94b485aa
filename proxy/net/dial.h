/*
 * Connecting to a server, by TLS or without.
 */
#ifndef NET_DIAL_H
#define NET_DIAL_H

#include "net/socket_stream.h"
#include "net/tls_stream.h"

/* Begins to connect; `tls` is NULL without TLS. Returns as socket_stream_connect. */
static inline int dial(struct stream *stream, struct stream_loop *loop, struct tls_client *tls,
	const struct sockaddr *address, socklen_t len, const struct stream_calls *calls)
{
	return tls ? tls_connect(stream, loop, tls, address, len, calls)
		   : socket_stream_connect(stream, loop, address, len, calls);
}

/* It was woken: is it connected, and its handshake over? 0; EINPROGRESS: not yet; else an errno
 * value, and `*why` is a text for it, which stays valid as long as the stream. A handshake's
 * failure is EPROTO. */
int dial_progress(struct stream *stream, const char **why);

#endif
