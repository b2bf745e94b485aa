/*
 * A listener's TLS: certificates with their keys, versions, ciphers, and the keys of session
 * tickets. One thread makes it, and it never changes; connections of all threads share it, and hold
 * it.
 *
 *   ClientHello with a name --> the certificates that have it; else those that have *.rest of it;
 *                               else the first one
 *
 * Certificates with the same names are beside each other (RSA and ECDSA): OpenSSL selects one by
 * what the client offers. The certificate of a client that sends no name is the first one.
 */
#ifndef NET_TLS_SERVER_H
#define NET_TLS_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/tls_pair.h"

struct tls_server;
struct tls_tickets;
struct tls_wire;
struct ssl_st;

struct tls_settings {
	const char *name;             /* of the listener: others do not resume its sessions */
	struct tls_tickets *tickets;  /* NULL: sessions are not resumed */
	const struct tls_pair *pairs; /* at least one */
	size_t pair_count;
	const char *client_ca, *client_crl; /* PEM files; NULL: none. */
	bool asks_client, requires_client;  /* for a certificate of client_ca */
	bool tls12, tls13;                  /* the versions, at least one */
	/* In OpenSSL's names, by colons, for both versions; NULL: those of Mozilla's "intermediate"
	 * configuration, version 5.7. */
	const char *ciphers;
	/* In OpenSSL's names, by colons; NULL: the usual ones, hybrid ones first if it has them. */
	const char *groups;
	bool refuses_unknown; /* names that no certificate has, and clients that give none */
	/* The names of protocols in ALPN (RFC 7301), the preferred first; ended by NULL. */
	const char *const *protocols;
};

/* Reads the files. NULL: `why` says why, and names the file. */
struct tls_server *tls_server_new(const struct tls_settings *settings, char *why, size_t size);
struct tls_server *tls_server_hold(struct tls_server *server);
/* NULL is ignored. */
void tls_server_release(struct tls_server *server);

/* A pair in use. */
struct tls_pair_facts {
	char *path;        /* of the certificate */
	char *name;        /* its first, or "" */
	int64_t expires_s; /* unix time */
};

/* The pairs of the settings, in their order; returns their number. */
size_t tls_server_pairs(const struct tls_server *server, const struct tls_pair_facts **pairs);

/* Has one of its certificates this name, or a wildcard for it? */
bool tls_server_has_name(const struct tls_server *server, const char *name);

/* The state of a new connection, which reads and writes by the wire; NULL without memory. Its owner
 * holds the server until it has freed it. */
struct ssl_st *tls_server_accept(struct tls_server *server, struct tls_wire *wire);

#endif
