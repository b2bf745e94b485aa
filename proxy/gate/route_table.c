#include "gate/route_table.h"

#include <stdlib.h>

#include "http/target.h"

static size_t table_size(size_t count)
{
	size_t size = 8;

	while (size < count * 2)
		size *= 2;
	return size;
}

uint32_t route_table_find_host(const struct route_table *table, struct slice text, bool is_wildcard)
{
	uint64_t hash = route_host_hash(text, is_wildcard);

	for (size_t i = hash & table->host_mask;; i = (i + 1) & table->host_mask) {
		const struct route_host_slot *slot = &table->hosts[i];
		if (slot->node == ROUTE_NO_NODE)
			return ROUTE_NO_NODE;
		const struct route_node *node = &table->nodes[slot->node];
		if (slot->hash == hash && node->is_wildcard == is_wildcard &&
			slice_equal(node->text, text))
			return slot->node;
	}
}

static struct route_place *find_slot(const struct route_table *table, uint32_t node,
	enum conf_path_kind kind, struct slice path, uint64_t hash)
{
	for (size_t i = hash & table->place_mask;; i = (i + 1) & table->place_mask) {
		struct route_place *place = &table->places[i];
		if (!place->path.at ||
			(place->hash == hash && place->node == node && place->kind == kind &&
				slice_equal(place->path, path)))
			return place;
	}
}

const struct route_entry *route_table_find_place(
	const struct route_table *table, uint32_t node, enum conf_path_kind kind, struct slice path)
{
	return find_slot(table, node, kind, path, route_place_hash(path, node, kind))->entries;
}

static void append_entry(
	struct route_table *table, const struct route_entry **list, const struct route_entry *entry)
{
	while (*list) {
		struct route_entry *tail = &table->entries[*list - table->entries];
		list = &tail->next;
	}
	*list = entry;
}

static void add_route(struct route_table *table, uint32_t node_index,
	const struct conf_route *route, uint32_t rank)
{
	struct route_node *node = &table->nodes[node_index];
	struct route_entry *entry = &table->entries[table->entry_count++];
	struct slice path = slice_of(route->path);
	uint64_t length = UINT64_C(1) << (path.len & 63);

	*entry = (struct route_entry){.route = route, .rank = rank};
	if (route->path_kind == CONF_PATH_REGEX) {
		append_entry(table, &node->regexes, entry);
		return;
	}
	if (route->path_kind == CONF_PATH_EXACT) {
		node->exact_lengths |= length;
	} else {
		node->prefix_lengths |= length;
		if (path.len > node->longest_prefix)
			node->longest_prefix = path.len;
	}
	uint64_t hash = route_place_hash(path, node_index, route->path_kind);
	struct route_place *place = find_slot(table, node_index, route->path_kind, path, hash);
	place->path = path;
	place->hash = hash;
	place->node = node_index;
	place->kind = route->path_kind;
	append_entry(table, &place->entries, entry);
	if (route->path_kind == CONF_PATH_PREFIX && path.len == 1 && path.at[0] == '/')
		node->roots = place->entries;
}

/* The host as http_authority_host would give it: IPv6 literals have several spellings. */
static struct slice host_as_matched(struct slice text, char *bytes)
{
	struct http_authority authority;

	if (text.len > 0 && text.at[0] == '[' && http_authority_parse(text, &authority))
		return http_authority_host(&authority, bytes);
	return text;
}

static void add_host(struct route_table *table, uint32_t index, const char *text, char *bytes)
{
	struct route_node *node = &table->nodes[index];

	node->is_wildcard = text[0] == '*';
	node->text = host_as_matched(slice_of(text + node->is_wildcard), bytes);
	if (node->text.len == 0) {
		table->any_host = index;
		return;
	}
	table->has_wildcards |= node->is_wildcard;
	table->has_exact_hosts |= !node->is_wildcard;
	uint64_t hash = route_host_hash(node->text, node->is_wildcard);
	size_t i = hash & table->host_mask;
	while (table->hosts[i].node != ROUTE_NO_NODE)
		i = (i + 1) & table->host_mask;
	table->hosts[i] = (struct route_host_slot){hash, index};
}

static bool allocate(struct route_table *table, const struct conf *conf)
{
	size_t routes = 0;

	for (size_t i = 0; i < conf->hosts.count; i++)
		routes += conf->hosts.items[i].route_count;
	table->node_count = conf->hosts.count;
	table->host_mask = table_size(conf->hosts.count) - 1;
	table->place_mask = table_size(routes) - 1;
	table->nodes = calloc(conf->hosts.count + 1, sizeof(*table->nodes));
	table->hosts = calloc(table->host_mask + 1, sizeof(*table->hosts));
	table->places = calloc(table->place_mask + 1, sizeof(*table->places));
	table->entries = calloc(routes + 1, sizeof(*table->entries));
	table->host_bytes = malloc((conf->hosts.count + 1) * HTTP_HOST_BYTES);
	if (!table->nodes || !table->hosts || !table->places || !table->entries ||
		!table->host_bytes)
		return false;
	for (size_t i = 0; i <= table->host_mask; i++)
		table->hosts[i].node = ROUTE_NO_NODE;
	return true;
}

struct route_table *route_table_new(const struct conf *conf)
{
	struct route_table *table = calloc(1, sizeof(*table));

	if (!table)
		return NULL;
	table->any_host = ROUTE_NO_NODE;
	if (!allocate(table, conf)) {
		route_table_free(table);
		return NULL;
	}
	for (uint32_t i = 0; i < conf->hosts.count; i++) {
		const struct conf_host *host = &conf->hosts.items[i];
		add_host(table, i, host->text, table->host_bytes + i * HTTP_HOST_BYTES);
		for (uint32_t rank = 0; rank < host->route_count; rank++)
			add_route(table, i, host->routes[rank], rank);
	}
	for (size_t i = 0; i < conf->route_count; i++)
		table->has_conditions |= conf_when_is_set(&conf->routes[i].when);
	return table;
}

bool route_table_has_conditions(const struct route_table *table)
{
	return table->has_conditions;
}

void route_table_free(struct route_table *table)
{
	if (!table)
		return;
	free(table->nodes);
	free(table->hosts);
	free(table->places);
	free(table->entries);
	free(table->host_bytes);
	free(table);
}
