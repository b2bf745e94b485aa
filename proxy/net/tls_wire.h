/*
 * The encrypted side of a stream over TLS: what OpenSSL reads and writes by a BIO, over the stream
 * below.
 *
 *   SSL --> [pending] --> the stream below
 *
 * OpenSSL never waits to write: what the stream below does not take is kept, so that no record is
 * to be encrypted again. Its owner writes nothing more before that has left.
 */
#ifndef NET_TLS_WIRE_H
#define NET_TLS_WIRE_H

#include <openssl/bio.h>
#include <openssl/types.h>
#include <stdbool.h>
#include <stddef.h>

#include "net/stream.h"

/* OpenSSL reads on until it has data, and answers what is none (a KeyUpdate, a renegotiation that
 * is refused): a peer that sends nothing else gets its turn as others do, and is not read while it
 * leaves so many bytes of answers to be sent. */
#define TLS_WIRE_TURN_BYTES    32768
#define TLS_WIRE_PENDING_BYTES 65536

struct tls_wire {
	struct stream under;
	char *pending; /* NULL: none */
	size_t start, end, room;
	bool ends_output, has_ended_output; /* behind what is pending */
	size_t may_read; /* bytes, more or less, until the next tls_wire_permit */
	bool is_stopped; /* by that: more may be there */
	bool gathers;    /* what is written stays pending until the next flush */
	bool has_first;  /* byte that has come */
	bool is_plain;   /* which begins a request in plain text: OpenSSL's alert is not written */
};

/* For tls_wire_attach; it must live as long as the connections. NULL without memory. */
BIO_METHOD *tls_wire_method_new(void);

/* False without memory. */
bool tls_wire_attach(struct tls_wire *wire, SSL *ssl, const BIO_METHOD *method);

/* The wire has other memory from now on. */
void tls_wire_move(struct tls_wire *wire, SSL *ssl);

static inline bool tls_wire_has_pending(const struct tls_wire *wire)
{
	return wire->start < wire->end;
}

/* The encrypted bytes so far, those that are pending included. */
static inline uint64_t tls_wire_sent(const struct tls_wire *wire)
{
	return wire->under.sent + wire->end - wire->start;
}

/* Before each call of OpenSSL that reads: it may read the bytes of a turn. */
static inline void tls_wire_permit(struct tls_wire *wire)
{
	wire->may_read = TLS_WIRE_TURN_BYTES;
	wire->is_stopped = false;
}

/* Adds to what is pending. False without memory. */
bool tls_wire_put(struct tls_wire *wire, const char *at, size_t len);

/* Writes what is pending, and then the end of output if there is to be one. False: something still
 * is pending, or the stream below has failed. */
bool tls_wire_flush(struct tls_wire *wire);

/* Throws away what is pending. */
void tls_wire_discard(struct tls_wire *wire);

#endif
