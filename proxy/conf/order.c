/*
 * The order in which routes are tried, so that the most specific one is first:
 *
 *   host     exact, then wildcards from the longest suffix, then any
 *   path     exact, then regular expressions in file order, then prefixes from the longest
 *   method   with methods before without
 *   when     with a condition before without
 *   file     what stands first
 *
 * Regular expressions precede prefixes, as a prefix of "/" has all paths.
 */
#include <stdlib.h>
#include <string.h>

#include "conf/build.h"

static int host_rank(const char *host)
{
	if (!*host)
		return 2;
	return host[0] == '*' ? 1 : 0;
}

static int compare_numbers(size_t a, size_t b)
{
	return a < b ? -1 : a > b;
}

/* Which host is tried first. Exact ones can't both fit: any order will do, so one to search in. */
static int compare_hosts(const char *a, const char *b)
{
	int order = host_rank(a) - host_rank(b);

	if (order == 0 && host_rank(a) == 1)
		order = compare_numbers(strlen(b), strlen(a));
	return order;
}

static int path_rank(const struct conf_route *route)
{
	return route->path_kind == CONF_PATH_EXACT   ? 0
	       : route->path_kind == CONF_PATH_REGEX ? 1
						     : 2;
}

static int compare_below_host(const struct conf_route *a, const struct conf_route *b)
{
	int order = path_rank(a) - path_rank(b);

	if (order == 0 && a->path_kind == CONF_PATH_PREFIX)
		order = compare_numbers(strlen(b->path), strlen(a->path));
	if (order == 0 && a->path_kind != CONF_PATH_REGEX)
		order = (a->methods == 0) - (b->methods == 0);
	if (order == 0 && a->path_kind != CONF_PATH_REGEX)
		order = conf_when_is_set(&b->when) - conf_when_is_set(&a->when);
	if (order == 0)
		order = compare_numbers(a->line, b->line);
	return order;
}

static const char *best_host(const struct conf_route *route)
{
	const char *best = route->hosts.count ? route->hosts.items[0] : "";

	for (size_t i = 1; i < route->hosts.count; i++)
		if (compare_hosts(route->hosts.items[i], best) < 0)
			best = route->hosts.items[i];
	return best;
}

static int compare_routes(const void *a, const void *b)
{
	int order = compare_hosts(best_host(a), best_host(b));

	return order ? order : compare_below_host(a, b);
}

/* One host of one route, to be grouped by host. */
struct pair {
	const char *host;
	const struct conf_route *route;
};

static int compare_pairs(const void *a, const void *b)
{
	const struct pair *x = a, *y = b;
	int order = compare_hosts(x->host, y->host);

	if (order == 0)
		order = strcmp(x->host, y->host);
	return order ? order : compare_below_host(x->route, y->route);
}

static void group_by_host(struct build *build, const struct pair *pairs, size_t count)
{
	struct conf *conf = build->conf;
	const struct conf_route **routes = arena_alloc(build->arena, (count + 1) * sizeof(*routes));

	for (size_t i = 0; i < count; i++) {
		struct conf_host *host;

		routes[i] = pairs[i].route;
		if (i == 0 || strcmp(pairs[i].host, pairs[i - 1].host) != 0) {
			conf->hosts.items = arena_grow(
				build->arena, conf->hosts.items, conf->hosts.count, sizeof(*host));
			conf->hosts.items[conf->hosts.count++] =
				(struct conf_host){pairs[i].host, &routes[i], 0};
			conf->hosts.exact_count += host_rank(pairs[i].host) == 0;
		}
		conf->hosts.items[conf->hosts.count - 1].route_count++;
	}
}

/* Instances point at their routes wherever these are. */
static void sort_routes(struct build *build)
{
	struct conf *conf = build->conf;
	struct instance **instances =
		arena_alloc(build->arena, (conf->route_count + 1) * sizeof(struct instance *));
	unsigned count = 0;

	for (struct instance *i = build->source->instances; i; i = i->next) {
		if (i->section->id != SECTION_ROUTE)
			continue;
		conf->routes[count].index = count;
		instances[count++] = i;
	}
	qsort(conf->routes, conf->route_count, sizeof(*conf->routes), compare_routes);
	for (size_t i = 0; i < conf->route_count; i++)
		instances[conf->routes[i].index]->object = &conf->routes[i];
}

void order_routes(struct build *build)
{
	struct conf *conf = build->conf;
	struct pair *pairs = NULL;
	size_t count = 0;

	if (conf->route_count == 0)
		return;
	sort_routes(build);
	for (unsigned i = 0; i < conf->route_count; i++) {
		const struct conf_route *route = &conf->routes[i];
		size_t hosts = route->hosts.count ? route->hosts.count : 1;

		conf->routes[i].index = i;
		for (size_t j = 0; j < hosts; j++) {
			pairs = arena_grow(build->arena, pairs, count, sizeof(*pairs));
			pairs[count++] = (struct pair){
				route->hosts.count ? route->hosts.items[j] : "", route};
		}
	}
	qsort(pairs, count, sizeof(*pairs), compare_pairs);
	group_by_host(build, pairs, count);
}
