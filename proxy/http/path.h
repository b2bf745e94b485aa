/*
 * Paths in their one normal form (RFC 3986 section 6.2.2), by which routes are matched:
 *
 *   /%7euser/./a/../b%2fc//d   ->   /~user/b%2Fc//d
 *
 * - %XX of an unreserved character is decoded, the hex digits of all others are upper-cased;
 * - `.` and `..` segments are removed, after decoding; `..` above the root is dropped;
 * - bytes that no path may hold bare (space, '"', '<', '>', '\', '^', '`', '{', '|', '}', 8-bit
 *   bytes) are percent-encoded;
 * - an encoded slash (%2F) stays encoded and separates nothing; `//` stays, as empty segments mean
 *   something to some servers.
 *
 * A path is refused in which a server may see what we can't: a bad percent sequence, a control byte
 * or NUL, encoded or not, and a dot segment that hides behind an encoded slash or backslash
 * (`..%2Fx`) or before a parameter (`..;x`). Where servers merely differ the path is odd, and
 * http/path_readings.h has what they make of it.
 *
 * The server gets the path as received, unless its route changes it.
 */
#ifndef HTTP_PATH_H
#define HTTP_PATH_H

#include <stdbool.h>
#include <stddef.h>

#include "base/slice.h"

enum http_path_result {
	HTTP_PATH_OK,
	HTTP_PATH_INVALID, /* 400 */
	HTTP_PATH_TOO_LONG /* more than `capacity` bytes; 3 * raw.len are always enough */
};

/*
 * Normalises `raw`, which begins with '/' (else it is invalid). When nothing is to be done, `path`
 * is `raw` itself and `out` is not touched; else `path` is in `out`, which must not overlap `raw`.
 * Normalising twice gives the same. `odd`: servers may differ about it; false for sure means that
 * they don't.
 */
enum http_path_result http_path_normalise(
	struct slice raw, char *out, size_t capacity, struct slice *path, bool *odd);

/* RFC 3986 section 2.3: letters, digits and -._~ */
bool http_path_is_unreserved(unsigned char byte);

/* Does an unencoded byte stay unencoded in the normal form? All but '/' that may. */
bool http_path_stays_bare(unsigned char byte);

/* The value of two hex digits; of others, any. */
unsigned char http_path_hex(const char digits[static 2]);

/*
 * Does a normalised path lie under `prefix`? On segment boundaries: `/api` holds `/api` and
 * `/api/x` but not `/apix`; `/api/` holds what begins with it, so not `/api`; `/` holds all.
 */
bool http_path_has_prefix(struct slice path, struct slice prefix);

#endif
