/* Tokens of publishers: JSON Web Tokens that GRIP's libraries sign with the same key as sluice
 * signs Grip-Sig. */
#ifndef ADMIN_PUBLISH_TOKEN_H
#define ADMIN_PUBLISH_TOKEN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

/* Is the Authorization field's value `Bearer TOKEN` with a token of HS256, signed with `key`, that
 * has an `exp` behind `now_s` and no `nbf` behind it (RFC 7519 section 4.1), and that is no
 * Grip-Sig? A clock that differs by PUBLISH_TOKEN_LEEWAY_S is forgiven. NULL, and a key without
 * bytes: no. */
bool publish_token_is_good(struct slice key, const char *authorization, uint64_t now_s);

#define PUBLISH_TOKEN_LEEWAY_S 60

/* Longer ones are refused. */
#define PUBLISH_TOKEN_BYTES 4096

#endif
