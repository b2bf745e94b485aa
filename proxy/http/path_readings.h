/*
 * The paths that servers may read in one request path.
 *
 *   /a;v=1//b%2Fc/../d      /a;v=1//d   /a;v=1/d   /a/b/d   ...
 *
 * Servers agree on what a path is only while it is plain. Beyond that one decodes %2F and takes '\'
 * for a slash and another does not, one merges slashes, one cuts parameters (`;...`) off, one
 * leaves dot segments alone. Those that a path has are its features; each set of them is a reading.
 * If two readings lead to different routes, the request must not be forwarded (gate/readings.h).
 */
#ifndef HTTP_PATH_READINGS_H
#define HTTP_PATH_READINGS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/slice.h"

enum http_path_feature {
	HTTP_PATH_DECODED = 1,  /* %XX that stands for a character with a meaning, '\' */
	HTTP_PATH_MERGED = 2,   /* empty segments */
	HTTP_PATH_CUT = 4,      /* parameters */
	HTTP_PATH_RESOLVED = 8, /* dot segments */
};

/* Which features a path has that http_path_normalise takes and calls odd: at most these make
 * servers differ about it. */
unsigned http_path_features(struct slice raw);

/*
 * The path as read by a server that applies `features` and nothing else, in the form that
 * http_path_normalise gives: %XX of unreserved characters decoded, of all others in capitals.
 * Written to `out`, of `capacity` bytes; 3 * raw.len are always enough, with less the result is
 * SLICE_NONE.
 */
struct slice http_path_reading(struct slice raw, unsigned features, char *out, size_t capacity);

#endif
