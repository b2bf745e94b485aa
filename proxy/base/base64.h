/*
 * Base64 (RFC 4648): with padding as JSON and secrets carry bytes (section 4), and base64url
 * without padding as tokens do (section 5, RFC 7515 section 2).
 */
#ifndef BASE_BASE64_H
#define BASE_BASE64_H

#include "base/slice.h"

/* `digits` of them decode to fewer bytes than this. */
#define BASE64_ROOM(digits) (((digits) + 3) / 4 * 3 + 1)
/* The text of `bytes` bytes, and a NUL. */
#define BASE64_TEXT_ROOM(bytes) (((bytes) + 2) / 3 * 4 + 1)

/* `out` has BASE64_TEXT_ROOM(bytes.len). Returns the length of the text, which a NUL follows. */
size_t base64_write(struct slice bytes, char *out);
size_t base64url_write(struct slice bytes, char *out);

/* Decodes `text` to `out`, which has BASE64_ROOM(text.len) bytes, and sets `*bytes`. False: it is
 * not the text that the bytes are written as: a character is no digit, the padding is missing, too
 * long or unwanted, or unused bits are not zero. */
bool base64_read(struct slice text, char *out, size_t *bytes);
bool base64url_read(struct slice text, char *out, size_t *bytes);

#endif
