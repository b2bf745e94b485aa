/* Bytes as JSON has them: base64 (RFC 4648 section 4). */
#ifndef ADMIN_BASE64_H
#define ADMIN_BASE64_H

#include <stdbool.h>
#include <stddef.h>

/* At most so many bytes come out of `len` digits. */
#define BASE64_BYTES(len) ((len) / 4 * 3)

/* Decodes into `out`, of BASE64_BYTES(len). False: it is not base64 as an encoder writes it, with
 * its padding and nothing else. */
bool base64_decode(const char *text, size_t len, char *out, size_t *bytes);

#endif
