/* SHA-256, also as text, and the SHA-1 of a WebSocket's handshake. */
#ifndef BASE_DIGEST_H
#define BASE_DIGEST_H

#include "base/slice.h"

#define DIGEST_BYTES 32
void digest_make(struct slice data, unsigned char digest[static DIGEST_BYTES]);

/* Takes the same time wherever they differ. */
bool digest_equal(
	const unsigned char a[static DIGEST_BYTES], const unsigned char b[static DIGEST_BYTES]);

/* `sha256:` and 64 lower-case hexadecimal digits; not NUL-terminated. */
#define DIGEST_PREFIX     "sha256:"
#define DIGEST_TEXT_BYTES 71
void digest_text(struct slice data, char out[static DIGEST_TEXT_BYTES]);

/* Is it such a text? */
bool digest_is_text(struct slice text);

/* SHA-1 of `first` followed by `second`: not for secrets. */
#define DIGEST_SHA1_BYTES 20
void digest_sha1(
	struct slice first, struct slice second, unsigned char digest[static DIGEST_SHA1_BYTES]);

/* HKDF with SHA-256 (RFC 5869): bytes that follow from the key and the info. False without memory.
 */
bool digest_derive(struct slice key, struct slice info, void *out, size_t len);

#endif
