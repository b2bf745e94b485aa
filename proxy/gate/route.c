#include "gate/route.h"

#include "gate/route_table.h"

/* One way through the table. */
struct search {
	const struct route_table *table;
	struct route_scratch *scratch;
	struct slice path;
	bool only_root;                 /* OPTIONS *: the prefix `/` and nothing else */
	bool undecided;                 /* a regex that could have won ran into its limits */
	bool any_method;                /* the second way: what methods would be served? */
	uint64_t method;                /* its bit */
	uint64_t methods;               /* of all routes with this host and path */
	const struct route_entry *best; /* of this node */
};

static bool method_fits(const struct search *search, const struct conf_route *route)
{
	return route->methods == 0 || (route->methods & search->method) != 0;
}

/* Its condition, if it has one. */
static inline bool condition_fits(struct search *search, const struct conf_route *route)
{
	if (!search->table->has_conditions || !conf_when_is_set(&route->when))
		return true;
	bool holds = route_scratch_holds(search->scratch, &route->when);
	/* This route may be the one that denies, so no other may serve. */
	search->undecided |= route_scratch_is_undecided(search->scratch);
	return holds;
}

static void consider(struct search *search, const struct route_entry *entry)
{
	for (; entry; entry = entry->next) {
		if (search->any_method) {
			if (condition_fits(search, entry->route))
				search->methods |= entry->route->methods;
			continue;
		}
		if (search->best && search->best->rank < entry->rank)
			return;
		if (method_fits(search, entry->route) && condition_fits(search, entry->route)) {
			search->best = entry;
			return;
		}
	}
}

static void consider_prefix(
	struct search *search, const struct route_node *node, uint32_t index, size_t len)
{
	if (node->prefix_lengths >> (len & 63) & 1)
		consider(search, route_table_find_place(search->table, index, CONF_PATH_PREFIX,
					 (struct slice){search->path.at, len}));
}

/* Prefixes that end where a segment does, before or after the slash; longer than `/`. */
static void search_long_prefixes(
	struct search *search, const struct route_node *node, uint32_t index)
{
	size_t end =
		search->path.len < node->longest_prefix ? search->path.len : node->longest_prefix;

	for (size_t i = 1; i < end; i++) {
		if (search->path.at[i] != '/')
			continue;
		consider_prefix(search, node, index, i);
		consider_prefix(search, node, index, i + 1);
	}
	bool at_boundary = end > 0 && search->path.at[end - 1] != '/' &&
			   (end == search->path.len || search->path.at[end] == '/');
	if (at_boundary)
		consider_prefix(search, node, index, end);
}

static inline void search_prefixes(
	struct search *search, const struct route_node *node, uint32_t index)
{
	if (search->path.len > 0 && search->path.at[0] == '/')
		consider(search, node->roots);
	if (node->longest_prefix > 1)
		search_long_prefixes(search, node, index);
}

static bool regex_fits(struct search *search, const struct conf_route *route)
{
	enum route_regex found = route_regex_find(search->scratch, &route->regex, search->path);

	/* This route may be the one that denies, so no other may serve. */
	search->undecided |= found == ROUTE_REGEX_UNDECIDED;
	return found == ROUTE_REGEX_FITS;
}

static void search_regexes(struct search *search, const struct route_node *node)
{
	for (const struct route_entry *entry = node->regexes; entry; entry = entry->next) {
		if (search->best && search->best->rank < entry->rank)
			return;
		if (search->any_method) {
			if (regex_fits(search, entry->route) &&
				condition_fits(search, entry->route))
				search->methods |= entry->route->methods;
		} else if (method_fits(search, entry->route) && regex_fits(search, entry->route) &&
			   condition_fits(search, entry->route)) {
			search->best = entry;
			return;
		}
		if (search->undecided)
			return;
	}
}

static bool search_node(struct search *search, uint32_t index)
{
	const struct route_node *node = &search->table->nodes[index];

	if (search->only_root) {
		search_prefixes(search, node, index);
		return search->best;
	}
	if (node->exact_lengths >> (search->path.len & 63) & 1)
		consider(search, route_table_find_place(
					 search->table, index, CONF_PATH_EXACT, search->path));
	search_prefixes(search, node, index);
	search_regexes(search, node);
	return search->best || search->undecided;
}

static bool search_host(struct search *search, struct slice text, bool is_wildcard)
{
	uint32_t node = route_table_find_host(search->table, text, is_wildcard);

	return node != ROUTE_NO_NODE && search_node(search, node);
}

/* The exact host, the wildcards from the longest, any host: the first with a route that fits. */
static bool search_hosts(struct search *search, struct slice host)
{
	const struct route_table *table = search->table;

	if (table->has_exact_hosts && search_host(search, host, false))
		return true;
	for (size_t i = 1; table->has_wildcards && i < host.len; i++) {
		struct slice suffix = {host.at + i, host.len - i};
		if (host.at[i] == '.' && search_host(search, suffix, true))
			return true;
	}
	return table->any_host != ROUTE_NO_NODE && search_node(search, table->any_host);
}

static inline __attribute__((always_inline)) struct route_match find(
	const struct route_table *table, struct route_scratch *scratch, struct slice host,
	struct slice path, enum http_method method)
{
	struct search search = {
		.table = table,
		.scratch = scratch,
		.path = path,
		.method = UINT64_C(1) << method,
	};

	if (path.len == 1 && path.at[0] == '*') {
		search.only_root = true;
		search.path.at = "/";
	}
	if (search_hosts(&search, host) && !search.undecided)
		return (struct route_match){ROUTE_FOUND, search.best->route, 0};
	search.any_method = true;
	if (!search.undecided)
		search_hosts(&search, host);
	if (search.undecided)
		return (struct route_match){ROUTE_UNDECIDED, NULL, 0};
	return (struct route_match){
		search.methods ? ROUTE_METHOD : ROUTE_NONE, NULL, search.methods};
}

struct route_match route_match(const struct route_table *table, struct route_scratch *scratch,
	struct slice host, struct slice path, enum http_method method)
{
	route_regex_begin(scratch);
	return find(table, scratch, host, path, method);
}

struct route_match route_match_again(const struct route_table *table, struct route_scratch *scratch,
	struct slice host, struct slice path, enum http_method method)
{
	route_regex_go_on(scratch);
	return find(table, scratch, host, path, method);
}
