#include "gate/readings.h"

#include "http/path_readings.h"

static bool leads_elsewhere(const struct route_match *match, const struct route_match *other)
{
	if (other->outcome != ROUTE_FOUND)
		return !match->route->allows_ambiguous_path;
	return other->route != match->route && (match->route->restricts || other->route->restricts);
}

bool readings_differ(const struct route_table *table, struct route_scratch *routes,
	struct slice host, struct slice raw, enum http_method method,
	const struct route_match *match, char *scratch, size_t capacity)
{
	unsigned features = http_path_features(raw), some = features;

	/* All subsets of the features, from all of them to none. */
	for (;; some = (some - 1) & features) {
		struct slice path = http_path_reading(raw, some, scratch, capacity);
		if (!path.at)
			return true;
		struct route_match other = route_match_again(table, routes, host, path, method);
		if (leads_elsewhere(match, &other))
			return true;
		if (some == 0)
			return false;
	}
}
