/*
 * TLS towards a server: which certificates of servers are accepted, which one is presented, and the
 * session that the next connection resumes. Made by one thread; connections of all threads share
 * it, and hold it.
 *
 *   CA, CRL, certificate, versions --> context, which several names share
 *   name --> SNI, the name or address that the server's certificate must have
 *   session <--> each connection: the newest ticket of the server
 *
 * A session skips the verification of the certificate. So it lives no longer than what was verified
 * with: another CA, name or certificate is another struct tls_client. The identity of that is also
 * the identity of what a connection may be used for: two are equal only if all of it is equal.
 */
#ifndef NET_TLS_CLIENT_H
#define NET_TLS_CLIENT_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ssl_ctx_st;
struct ssl_st;
struct tls_client;
struct tls_wire;

/* The files are PEM. */
struct tls_client_settings {
	const char *name;              /* NULL: none is asked for, and none verified */
	const char *ca;                /* accepted authorities; NULL: the system's */
	const char *crl;               /* of every authority in a chain; NULL: no revocation */
	const char *certificate, *key; /* presented to servers that ask; NULL: none */
	bool verifies;                 /* else every certificate is accepted */
	bool tls12, tls13;             /* the versions, at least one */
	const char *protocol;          /* offered in ALPN (RFC 7301); NULL: none */
};

/* Reads the files. `before` (or NULL) is what it replaces: it is held and returned if nothing has
 * changed, contents of files included. NULL: `why` says why, and names the file. */
struct tls_client *tls_client_new(const struct tls_client_settings *settings,
	struct tls_client *before, char *why, size_t size);
/* The same as `like`, for a server of another name; `before` as above. NULL without memory. */
struct tls_client *tls_client_for(
	const struct tls_client *like, const char *name, struct tls_client *before);
struct tls_client *tls_client_hold(struct tls_client *client);
/* NULL is ignored. */
void tls_client_release(struct tls_client *client);

/* The end of the validity of the server's certificate, in seconds since 1970, as of the last full
 * handshake; 0: there was none. Any thread. */
int64_t tls_client_expires(const struct tls_client *client);
/* Does it expire within so many days? True at most once a day. Any thread. */
bool tls_client_warns(struct tls_client *client, int64_t now_s, int64_t days);

/* ---- settings that change while connections are made -------------------------------------------
 */

/* All zero: none. */
struct tls_client_slot {
	pthread_mutex_t lock;
	_Atomic(struct tls_client *) client; /* held; NULL: plain */
};

/* Takes over the caller's hold. NULL: none from now on. */
void tls_client_slot_set(struct tls_client_slot *slot, struct tls_client *client);
/* Held once; NULL: none. Any thread. */
struct tls_client *tls_client_slot_take(struct tls_client_slot *slot);
/* To be compared with others that are held. Any thread. */
static inline const struct tls_client *tls_client_slot_look(const struct tls_client_slot *slot)
{
	/* relaxed: its memory is not looked at */
	return atomic_load_explicit(&slot->client, memory_order_relaxed);
}

/* ---- for libraries that have a context of their own ------------------------------------------ */

struct tls_verdict {
	const char *name; /* of the settings */
	char why[160];    /* a certificate was not accepted; "": none was refused */
};

/* Has such a context do what the settings say, their name included. The verdict is filled by its
 * handshakes, and lives as long as the context. False: `why` says why, and names the file. */
bool tls_client_set_up(struct ssl_ctx_st *context, const struct tls_client_settings *settings,
	struct tls_verdict *verdict, char *why, size_t size);

/* ---- for net/tls_stream.c -------------------------------------------------------------------- */

/* The state of a new connection, which reads and writes by the wire; NULL without memory. Its owner
 * holds the client until it has freed it. */
struct ssl_st *tls_client_connect(struct tls_client *client, struct tls_wire *wire);
/* The handshake is over. */
void tls_client_note_handshake(struct tls_client *client, const struct ssl_st *ssl);
/* Writes why the certificate was not accepted, or the server speaks no TLS. False: it is something
 * else. */
bool tls_client_explain(
	const struct tls_client *client, const struct ssl_st *ssl, char *why, size_t size);

#endif
