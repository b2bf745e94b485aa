/* SHA-256 as text. */
#ifndef BASE_DIGEST_H
#define BASE_DIGEST_H

#include "base/slice.h"

/* `sha256:` and 64 lower-case hexadecimal digits; not NUL-terminated. */
#define DIGEST_PREFIX     "sha256:"
#define DIGEST_TEXT_BYTES 71
void digest_text(struct slice data, char out[static DIGEST_TEXT_BYTES]);

/* Is it such a text? */
bool digest_is_text(struct slice text);

#endif
