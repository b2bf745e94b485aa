/*
 * Do all servers read a path alike, as far as it matters to routes?
 *
 *   /x/..//admin   --as normalised--> route "all"
 *                  --slashes merged-> route "admin", which denies: refused
 *
 * A route's restriction (a limit, a deny list, an allowed origin) holds only if the server behind
 * reads the same path in a request as the route that has it. So a path is matched in every way that
 * a server may read it (http/path_readings.h). Where that leads to another route, and either of the
 * two has a restriction (conf/options.h, enum option_route) and does not have `ambiguous_path =
 * allow`, or to no route at all, the request is refused.
 */
#ifndef GATE_READINGS_H
#define GATE_READINGS_H

#include <stdbool.h>
#include <stddef.h>

#include "gate/route.h"

/*
 * `raw`: the path as it came; `match`: what its normal form was found to match, a route. `scratch`:
 * where readings are written, of `capacity` bytes, 3 * raw.len at least.
 */
bool readings_differ(const struct route_table *table, struct route_scratch *routes,
	struct slice host, struct slice raw, enum http_method method,
	const struct route_match *match, char *scratch, size_t capacity);

#endif
