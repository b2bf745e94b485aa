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

/* ---- route regex ---------------------------------------------------------------------------- */

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <stdlib.h>

#include "gate/identity.h"

/* Steps of a request: what they take is about a millisecond at most. */
#define STEPS 40000
/* Passing so many bytes of the path is one more step. */
#define STEP_BYTES 16
/* Paths that are tried uncounted, and how much: the steps from all of their bytes together. */
#define SHORT_PATH_BYTES 256
#define SHORT_PATH_STEPS 4000

#define JIT_STACK_BYTES (256 * 1024)

struct route_scratch {
	pcre2_match_data *data;
	pcre2_match_context *uncounted, *counted;
	pcre2_jit_stack *stack;
	bool is_first;                     /* of the request's paths */
	int64_t steps_left;                /* of the request */
	size_t at;                         /* in the path, at the last step */
	const struct match_table *matches; /* route_scratch_ask */
	struct identity_input *input;
};

/* Called by PCRE at each step of an expression that is compiled to be counted. */
static int count_step(pcre2_callout_block *block, void *ctx)
{
	struct route_scratch *scratch = ctx;
	size_t at = block->current_position;
	size_t passed = at > scratch->at ? at - scratch->at : scratch->at - at;

	scratch->at = at;
	scratch->steps_left -= 1 + (int64_t)(passed / STEP_BYTES);
	return scratch->steps_left < 0 ? PCRE2_ERROR_CALLOUT : 0;
}

struct route_scratch *route_scratch_new(void)
{
	struct route_scratch *scratch = calloc(1, sizeof(*scratch));

	if (!scratch)
		return NULL;
	scratch->data = pcre2_match_data_create(1, NULL);
	scratch->uncounted = pcre2_match_context_create(NULL);
	scratch->counted = pcre2_match_context_create(NULL);
	scratch->stack = pcre2_jit_stack_create(16 * 1024, JIT_STACK_BYTES, NULL);
	if (!scratch->data || !scratch->uncounted || !scratch->counted) {
		route_scratch_free(scratch);
		return NULL;
	}
	pcre2_set_callout(scratch->counted, count_step, scratch);
	/* Without JIT there is no stack of it, and none is needed. */
	if (scratch->stack) {
		pcre2_jit_stack_assign(scratch->uncounted, NULL, scratch->stack);
		pcre2_jit_stack_assign(scratch->counted, NULL, scratch->stack);
	}
	route_regex_begin(scratch);
	return scratch;
}

void route_scratch_free(struct route_scratch *scratch)
{
	if (!scratch)
		return;
	pcre2_jit_stack_free(scratch->stack);
	pcre2_match_context_free(scratch->counted);
	pcre2_match_context_free(scratch->uncounted);
	pcre2_match_data_free(scratch->data);
	free(scratch);
}

void route_scratch_ask(struct route_scratch *scratch, const struct match_table *matches,
	struct identity_input *input)
{
	scratch->matches = matches;
	scratch->input = input;
}

bool route_scratch_holds(struct route_scratch *scratch, const struct conf_when *when)
{
	return scratch->input && matches_hold(scratch->matches, when, scratch->input);
}

bool route_scratch_is_undecided(const struct route_scratch *scratch)
{
	return scratch->input && scratch->input->matches.undecided;
}

void route_regex_begin(struct route_scratch *scratch)
{
	scratch->is_first = true;
	scratch->steps_left = STEPS;
}

void route_regex_go_on(struct route_scratch *scratch)
{
	scratch->is_first = false;
}

static enum route_regex outcome_of(int result)
{
	if (result >= 0)
		return ROUTE_REGEX_FITS;
	return result == PCRE2_ERROR_NOMATCH ? ROUTE_REGEX_FITS_NOT : ROUTE_REGEX_UNDECIDED;
}

static enum route_regex find_uncounted(
	struct route_scratch *scratch, const struct conf_regex *regex, struct slice text)
{
	pcre2_set_match_limit(scratch->uncounted, SHORT_PATH_STEPS / ((uint32_t)text.len + 1));
	return outcome_of(pcre2_match(regex->code, (PCRE2_SPTR)text.at, text.len, 0, 0,
		scratch->data, scratch->uncounted));
}

enum route_regex route_regex_find(
	struct route_scratch *scratch, const struct conf_regex *regex, struct slice text)
{
	if (scratch->is_first && text.len <= SHORT_PATH_BYTES) {
		enum route_regex found = find_uncounted(scratch, regex, text);
		if (found != ROUTE_REGEX_UNDECIDED)
			return found;
		scratch->steps_left -= SHORT_PATH_STEPS;
	}
	scratch->at = 0;
	if (scratch->steps_left <= 0)
		return ROUTE_REGEX_UNDECIDED;
	return outcome_of(pcre2_match(regex->counted, (PCRE2_SPTR)text.at, text.len, 0, 0,
		scratch->data, scratch->counted));
}
