/*
 * Routes that no request can reach, because another is always tried first that fits whatever they
 * fit: see order.c. In a table sorted by the compared parts, routes that might hide each other are
 * neighbours.
 */
#include <stdlib.h>
#include <string.h>

#include "conf/build.h"

/* One host of one route. */
struct claim {
	const char *host; /* "": any */
	const struct conf_route *route;
	const struct instance *instance;
};

static int compare_places(const struct claim *a, const struct claim *b)
{
	int order = strcmp(a->host, b->host);

	if (order == 0)
		order = (int)a->route->path_kind - (int)b->route->path_kind;
	return order ? order : strcmp(a->route->path, b->route->path);
}

/* As order.c does below one host and path: there, methods go before none but among expressions. */
static int compare_claims(const void *a, const void *b)
{
	const struct claim *x = a, *y = b;
	int order = compare_places(x, y);

	if (order == 0 && x->route->path_kind != CONF_PATH_REGEX)
		order = (x->route->methods == 0) - (y->route->methods == 0);
	if (order == 0)
		order = x->route->line < y->route->line ? -1 : x->route->line > y->route->line;
	return order;
}

static bool has_all_methods_of(const struct conf_route *route, const struct conf_route *other)
{
	return route->methods == 0 || (other->methods != 0 && !(other->methods & ~route->methods));
}

/* A route whose host, path or methods have an error: what it fits is not known. */
static bool is_unclear(const struct instance *instance)
{
	for (const struct setting *setting = instance->settings; setting; setting = setting->next)
		if (setting->wrong && (strcmp(setting->option->name, "host") == 0 ||
					      strcmp(setting->option->name, "path") == 0 ||
					      strcmp(setting->option->name, "method") == 0))
			return true;
	return false;
}

static struct claim *list_claims(struct build *build, size_t *count)
{
	struct claim *claims = NULL;

	*count = 0;
	for (const struct instance *instance = build->source->instances; instance;
		instance = instance->next) {
		const struct conf_route *route = instance->object;
		size_t hosts;

		/* One with a condition leaves requests to those behind it. */
		if (instance->section->id != SECTION_ROUTE || is_unclear(instance) ||
			!instance_lacks(instance, "when"))
			continue;
		hosts = route->hosts.count ? route->hosts.count : 1;
		for (size_t i = 0; i < hosts; i++) {
			claims = arena_grow(build->arena, claims, *count, sizeof(*claims));
			claims[(*count)++] = (struct claim){
				route->hosts.count ? route->hosts.items[i] : "", route, instance};
		}
	}
	return claims;
}

/* The one of `reached` that has all that `claim` has, or NULL. */
static const struct claim *find_hiding(
	const struct claim *reached, const struct claim *end, const struct claim *claim)
{
	for (; reached < end; reached++)
		if (has_all_methods_of(reached->route, claim->route))
			return reached;
	return NULL;
}

void check_routes_are_reached(struct build *build)
{
	size_t count, first = 0, last = 0; /* claims[first..last) are reached, of the same place */
	struct claim *claims = list_claims(build, &count);

	if (count < 2)
		return;
	qsort(claims, count, sizeof(*claims), compare_claims);
	for (size_t i = 0; i < count; i++) {
		const struct claim claim = claims[i], *hiding;

		if (first < last && compare_places(&claims[first], &claim) != 0)
			first = last;
		hiding = find_hiding(&claims[first], &claims[last], &claim);
		if (hiding)
			build_fail(build, claim.instance, claim.instance->line,
				"is never reached%s%s: [route %s] at %s:%u has its host, path and "
				"method and is tried first; expected one of the three to differ",
				*claim.host ? " for " : "", claim.host, hiding->instance->name,
				lines_place(&build->lines, hiding->instance->line).path,
				lines_place(&build->lines, hiding->instance->line).line);
		else
			claims[last++] = claim;
	}
}
