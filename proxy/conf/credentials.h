/*
 * Credentials in their one form: an Authorization field's value is a scheme, blanks and the rest
 * (RFC 9110 section 11.4). Servers compare the scheme without case and skip any number of blanks,
 * so `bearer  x` and `Bearer x` are one caller.
 *
 *   bearer \t x   ->   Bearer x
 *
 * A value without a blank is a key and stays as it is.
 */
#ifndef CONF_CREDENTIALS_H
#define CONF_CREDENTIALS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/slice.h"

struct conf;
struct conf_key;

/* The scheme's length and where the rest begins; false when there is no blank after a scheme. */
bool credentials_split(struct slice value, size_t *scheme_len, size_t *rest_at);

/* Is the value in that form (or of no scheme)? */
bool credentials_are_canonical(struct slice value);

/* Is the rest of Basic, or of a Bearer that is a JSON web token, something else than base64 as an
 * encoder writes it? Servers take more, without padding, with other bytes in it or with unused
 * bits set, so that one name and password, or one token, would be many callers. */
bool credentials_are_misspelled(struct slice value);

/* Writes the canonical form, which is never longer than the value; `out` may be value.at. Returns
 * its length. */
size_t credentials_write(struct slice value, char *out);

/* The scheme alone, to as many bytes. */
void credentials_write_scheme(struct slice scheme, char *out);

/* Is the value of a credentials field a key by this expression? */
bool credentials_are_keys(const struct conf_key *key);

/* Brings the lists that are looked up by credentials (callers of plans, allow and deny) into that
 * form, in place. */
void credentials_settle(struct conf *conf);

#endif
