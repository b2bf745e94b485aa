/*
 * JSON Web Tokens signed with HMAC-SHA-256, HS256 (RFC 7515, RFC 7518 section 3.2). The caller
 * interprets the claims: this unit knows no JSON.
 *
 *   BASE64URL(header) . BASE64URL(claims) . BASE64URL(signature)
 */
#ifndef BASE_HS256_H
#define BASE_HS256_H

#include "base/slice.h"

/* A token of claims with `bytes` bytes has fewer bytes than this. */
#define HS256_TOKEN_BYTES(bytes) ((bytes) / 3 * 4 + 128)

/* Signs `claims`, a JSON object. `out` has room for HS256_TOKEN_BYTES(claims.len); returns the
 * bytes of the token, which is not NUL-terminated; 0 without memory. */
size_t hs256_sign(struct slice key, struct slice claims, char *out);

/* Splits a token whose signature is that of `key`, and decodes its header and claims into `room`,
 * which has at least `token.len` bytes. False: the form or the signature is wrong; `header` and
 * `claims` are undefined then. The comparison takes the same time wherever the signatures differ.
 */
bool hs256_open(struct slice key, struct slice token, char *room, struct slice *header,
	struct slice *claims);

#endif
