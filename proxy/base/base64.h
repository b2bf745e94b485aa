/* Base64 with padding (RFC 4648 section 4), as JSON and secrets carry bytes. */
#ifndef BASE_BASE64_H
#define BASE_BASE64_H

#include "base/slice.h"

/* `digits` of them decode to fewer bytes than this. */
#define BASE64_ROOM(digits) (((digits) + 3) / 4 * 3 + 1)

/* Decodes `text` to `out`, which has BASE64_ROOM(text.len) bytes, and sets `*bytes`. False: a
 * character is no digit, or the padding is missing or too long. */
bool base64_read(struct slice text, char *out, size_t *bytes);

#endif
