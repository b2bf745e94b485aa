/*
 * What the handshake of a client's connection over TLS has shown. Its stream's (net/stream.h), and
 * valid as long as that, on whichever loop.
 */
#ifndef NET_TLS_FACTS_H
#define NET_TLS_FACTS_H

#include <stdbool.h>

#include "base/slice.h"

struct ssl_st;
struct tls_server;

struct tls_facts {
	struct ssl_st *ssl;
	struct tls_server *server;
};

/*
 * Is a request for this host (in lower case, without port) one for another connection, as the
 * certificate of this one is not valid for it (RFC 9110 section 7.4)? Clients that reuse a
 * connection for other names of its certificate, as browsers do, are right, and so are those that
 * ask for the name that they gave in the handshake, whatever certificate there is for that. One
 * that gave no name is wrong only where another certificate of the listener has the host.
 */
bool tls_facts_is_misdirected(const struct tls_facts *facts, struct slice host);

#endif
