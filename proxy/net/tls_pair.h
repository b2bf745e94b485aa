/*
 * A certificate with its key, read from files for either role of TLS.
 */
#ifndef NET_TLS_PAIR_H
#define NET_TLS_PAIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/digest.h"

struct ssl_ctx_st;

/* PEM files; `key` may be the file of the certificate, and that may have the chain behind it. */
struct tls_pair {
	const char *certificate, *key;
	const char *password; /* of an encrypted key; NULL: there is none */
};

/* The context presents it. False: `why` says why, and names the file. */
bool tls_pair_use(struct ssl_ctx_st *context, const struct tls_pair *pair, char *why, size_t size);

/* SHA-256 of the public key (SubjectPublicKeyInfo) of the first certificate in a PEM file. NULL, or
 * why there is none. */
const char *tls_key_digest(const char *path, unsigned char digest[static DIGEST_BYTES]);

/* The reason of what OpenSSL has just refused. */
const char *tls_reason(void);
/* Nothing but a regular file is read: a pipe or a device would hold up the thread. False: it is
 * something else, which `why` says. One that is not there is left to its reader; NULL is none. */
bool tls_check_file(const char *path, char *why, size_t size);
/* For reading; NULL: it can't be read, or is no regular file. */
FILE *tls_open(const char *path);
/* Writes `PATH: WHAT: REASON`; false, for its caller to return. */
bool tls_report(char *why, size_t size, const char *path, const char *what);

#endif
