/*
 * Bearer tokens of the admin API (RFC 6750), read from a file when sluice starts.
 *
 *   NAME ROLE TOKEN      a line each; ROLE is read or write; TOKEN is the token itself or
 *   TOKEN                sha256:HEX of it; a line of one word is a token with role write
 *   # comment
 */
#ifndef ADMIN_TOKENS_H
#define ADMIN_TOKENS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "admin/request.h"
#include "base/slice.h"

struct admin_tokens;

/* NULL with a sentence in `why` (`why_bytes` of it): the file can't be read, a line is wrong, or
 * there is no token in it. */
struct admin_tokens *admin_tokens_load(const char *path, char *why, size_t why_bytes);
void admin_tokens_free(struct admin_tokens *tokens);

/* Ends a line of such a file before its comment, which begins the line or follows a blank: a token
 * may have a '#' in it. */
void admin_tokens_cut_comment(char *line);

/* The role of an Authorization field's value (`Bearer TOKEN`); ADMIN_ANYONE when it is missing
 * (NULL) or wrong. Takes the same time for any token of one length. */
enum admin_role admin_tokens_role(const struct admin_tokens *tokens, const char *authorization);

/* ---- publish token -------------------------------------------------------------------------- */

/* Tokens of publishers: JSON Web Tokens that GRIP's libraries sign with the same key as sluice
 * signs Grip-Sig. */

/* Is the Authorization field's value `Bearer TOKEN` with a token of HS256, signed with `key`, that
 * has an `exp` behind `now_s` and no `nbf` behind it (RFC 7519 section 4.1), and that is no
 * Grip-Sig? A clock that differs by PUBLISH_TOKEN_LEEWAY_S is forgiven. NULL, and a key without
 * bytes: no. */
bool publish_token_is_good(struct slice key, const char *authorization, uint64_t now_s);

#define PUBLISH_TOKEN_LEEWAY_S 60

/* Longer ones are refused. */
#define PUBLISH_TOKEN_BYTES 4096

#endif
