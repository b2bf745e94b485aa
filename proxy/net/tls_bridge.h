/*
 * TLS for a library that reads and writes a descriptor of its own: that is one end of a pair of
 * sockets, and the bytes pass between the other end and a stream over TLS.
 *
 *   library <--descriptor--> near <--> far (TLS) <--> server
 *
 * Bytes that the library writes before the handshake is over wait. When the server ends, or the
 * handshake fails, the library reads an end.
 */
#ifndef NET_TLS_BRIDGE_H
#define NET_TLS_BRIDGE_H

#include <stdbool.h>

#include "net/stream.h"

struct tls_bridge;
struct tls_client;

/* Takes the place of a socket, connecting or connected: its descriptor is the library's end from
 * now on. Nothing may watch it yet. NULL: no memory or descriptors; the socket is as it was. */
struct tls_bridge *tls_bridge_open(struct stream_loop *loop, struct tls_client *client, int fd);
/* Is the handshake over? */
bool tls_bridge_is_up(const struct tls_bridge *bridge);
/* Why it has ended; NULL: it has not, or the server has ended it. */
const char *tls_bridge_why(const struct tls_bridge *bridge);
/* Closes it; bytes of the library are still sent as far as the server takes them. NULL is ignored.
 */
void tls_bridge_close(struct tls_bridge *bridge);

#endif
