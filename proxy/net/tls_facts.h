/*
 * Facts that the handshake of a client's connection over TLS has shown. The stream (net/stream.h)
 * owns them, and they are valid as long as it is, on whichever loop.
 * Or facts that a proxy reports of the client's TLS (net/proxy_header.h): then the connection's
 * entry (listen/client_entry.h) owns them.
 */
#ifndef NET_TLS_FACTS_H
#define NET_TLS_FACTS_H

#include <stdbool.h>

#include "base/slice.h"

struct proxy_header;
struct ssl_st;
struct tls_server;

/* Facts about the client and its connection, in the order of the forms of keys (conf/key.h). */
enum tls_fact {
	TLS_FACT_VERSION,     /* `1.3` */
	TLS_FACT_NAME,        /* that it has asked for, in lower case */
	TLS_FACT_SUBJECT,     /* of its certificate, as RFC 4514 writes it: `CN=a,O=b` */
	TLS_FACT_SAN,         /* the first DNS name, URI or mail address of that */
	TLS_FACT_FINGERPRINT, /* SHA-256 of that, 64 digits in lower case */
	TLS_FACTS,
};

struct tls_identity {
	struct slice facts[TLS_FACTS];   /* empty: there is none */
	struct slice certificate, chain; /* values of Client-Cert, Client-Cert-Chain (RFC 9440) */
};

struct tls_facts {
	struct ssl_st *ssl; /* NULL: by a proxy's report, and the identity is there */
	struct tls_server *server;
	struct tls_identity *identity; /* when it was asked for */
	char *texts;                   /* its */
};

/* Made when it is asked for first, and the facts' own. NULL without memory. */
const struct tls_identity *tls_facts_identify(struct tls_facts *facts);
void tls_facts_clear(struct tls_facts *facts);

/* The facts that a header of the PROXY protocol reports; of a certificate that it has only the
 * common name of, the subject is that. False without memory, and the facts are clear. */
bool tls_facts_report(struct tls_facts *facts, const struct proxy_header *header);

/*
 * Is a request for this host (in lower case, without port) one for another connection, as the
 * certificate of this one is not valid for it (RFC 9110 section 7.4)? Clients that reuse a
 * connection for other names of its certificate, as browsers do, are right, and so are those that
 * ask for the name that they gave in the handshake, whatever certificate there is for that. One
 * that gave no name is wrong only where another certificate of the listener has the host.
 */
bool tls_facts_is_misdirected(const struct tls_facts *facts, struct slice host);

#endif
