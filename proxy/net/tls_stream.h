/*
 * Streams over TLS (OpenSSL), above a stream of another transport:
 *
 *   owner --write--> SSL --> [pending] --> the stream below --> peer
 *   owner <--read--- SSL <---------------- the stream below <-- peer
 *
 * Data is encrypted at once, and may not be encrypted again: bytes that the stream below does not
 * take wait in `pending`, one record mostly, and nothing more is written before they have left. A
 * stream that is closed with something pending lives on in its loop without an owner until that has
 * left, TLS_LEAVE_MS have passed without progress, or TLS_LEAVING_MOST others do so.
 *
 * An end of the stream below without a close_notify is a failure, as an attacker can make one.
 */
#ifndef NET_TLS_STREAM_H
#define NET_TLS_STREAM_H

#include <stdbool.h>
#include <sys/socket.h>

#include "net/stream.h"

struct tls_client;
struct tls_server;

#define TLS_LEAVE_MS     10000
#define TLS_LEAVING_MOST 1000

/* The connection, on no loop, becomes one of TLS, whose handshake is still to come; it holds the
 * server. False without memory: it is closed. */
bool tls_accept(struct tls_server *server, struct stream_export *connection);

/* As socket_stream_connect, and the connection is one of TLS, which holds the client; when it is
 * writable, its handshake is due. */
int tls_connect(struct stream *stream, struct stream_loop *loop, struct tls_client *client,
	const struct sockaddr *address, socklen_t len, const struct stream_calls *calls);

/* The same over a socket that is connecting, or is connected. False without memory: it is closed.
 */
bool tls_connect_socket(struct stream *stream, struct stream_loop *loop, struct tls_client *client,
	int fd, const struct stream_calls *calls);

/* Behind tls_connect: these bytes leave before the handshake's, as they are. False without memory.
 */
bool tls_send_first(struct stream *stream, const char *bytes, size_t len);

/* Closes those that are closed by their owners and have something pending. Before stream_loop_end.
 */
void tls_end_leaving(struct stream_loop *loop);

#endif
