/*
 * A connection on its way from the listening socket to its protocol, and what the door knows of it
 * until it ends.
 *
 *   accepted --> [PROXY header] --> [TLS] --> protocol.take_client
 *                     `--> entry ---------------'--> listener_connection_closed
 *
 * The listener's limits are asked before TLS, with the address that is the client's, by its proxy's
 * word if there is one.
 */
#ifndef LISTEN_ACCEPTED_H
#define LISTEN_ACCEPTED_H

#include <stdbool.h>
#include <sys/socket.h>

#include "listen/client_entry.h"
#include "net/stream.h"

struct conf_cidrs;
struct forwarded_peer;
struct listener;
struct tls_facts;

struct accepted {
	struct stream_export stream;
	struct sockaddr_storage peer; /* the client's address, or `_len` 0: a unix socket */
	socklen_t peer_len;
	struct client_entry *entry; /* NULL: none */
};

/* Asks the listener's limits. False: the connection was refused, and has ended. */
bool accepted_is_admitted(struct listener *listener, struct accepted *accepted);

/* Makes the stream one of TLS, if the listener speaks it. False: no memory, and the connection has
 * ended. */
bool accepted_begin_tls(struct listener *listener, struct accepted *accepted);

/* It is a client: its first bytes show which protocol it speaks. */
void accepted_take_plain(struct listener *listener, struct accepted *accepted);

/* No memory to go on: with a line in the log, the connection, whose stream is closed, ends. */
void accepted_fail(struct listener *listener, struct client_entry *entry);

/* The peer of the client, once its stream is open. */
void accepted_init_peer(const struct accepted *accepted, const struct stream *stream,
	struct forwarded_peer *peer, const struct conf_cidrs *trusted);

/* The facts of its TLS: those that a proxy reports, else those of the stream. NULL: none. */
struct tls_facts *accepted_tls(const struct accepted *accepted, const struct stream *stream);

#endif
