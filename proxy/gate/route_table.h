/*
 * The compiled routes: what route_table.c builds and route.c reads. Private to the two.
 *
 *   hosts[]  hash of host text -------> node (one a host pattern, in conf.hosts.items' order)
 *   places[] hash of (node, kind, path) -> entries, best rank first
 *                                         nodes[].regexes: entries, best rank first
 *
 * An entry's rank is its place in its node's routes: the lowest that fits wins.
 */
#ifndef GATE_ROUTE_TABLE_H
#define GATE_ROUTE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"
#include "conf/conf.h"
#include "gate/route.h"
#include "gate/text_set.h"

#define ROUTE_NO_NODE UINT32_MAX

struct route_entry {
	const struct conf_route *route;
	const struct route_entry *next;
	uint32_t rank;
};

/* All routes of one node with one path. */
struct route_place {
	struct slice path; /* none: free */
	const struct route_entry *entries;
	uint64_t hash;
	uint32_t node;
	enum conf_path_kind kind;
};

/* One host pattern. The masks have bit (length & 63) for each length of path there is, so that most
 * lengths that are not there cost no lookup. */
struct route_node {
	struct slice text; /* `api.example.com`; `.example.com` of a wildcard; empty: any host */
	bool is_wildcard;
	uint64_t exact_lengths, prefix_lengths;
	size_t longest_prefix;
	const struct route_entry *roots; /* of the prefix `/`, which is that of most paths */
	const struct route_entry *regexes;
};

struct route_host_slot {
	uint64_t hash;
	uint32_t node; /* ROUTE_NO_NODE: free */
};

struct route_table {
	struct route_node *nodes;
	struct route_host_slot *hosts;
	size_t host_mask; /* slots - 1 */
	struct route_place *places;
	size_t place_mask;
	struct route_entry *entries;
	size_t node_count, entry_count;
	bool has_exact_hosts, has_wildcards;
	bool has_conditions; /* a route has one (when) */
	uint32_t any_host;   /* the node of no host, or ROUTE_NO_NODE */
	char *host_bytes;    /* texts of hosts that are not written as they are matched */
};

static inline uint64_t route_place_hash(struct slice path, uint32_t node, enum conf_path_kind kind)
{
	return text_hash_mix(text_hash(path), node * UINT64_C(2) + (kind == CONF_PATH_EXACT));
}

static inline uint64_t route_host_hash(struct slice host, bool is_wildcard)
{
	return text_hash(host) + is_wildcard;
}

/* ROUTE_NO_NODE when there is none. */
uint32_t route_table_find_host(
	const struct route_table *table, struct slice text, bool is_wildcard);

/* The routes with this path, or NULL. */
const struct route_entry *route_table_find_place(const struct route_table *table, uint32_t node,
	enum conf_path_kind kind, struct slice path);

/* ---- route regex ---------------------------------------------------------------------------- */

/*
 * Regular expressions of routes and matches, with a bound on what they may try for one request.
 *
 * Some expressions take a time that grows with the square of the path, or worse. PCRE's own limit
 * is one for each place in the path that a match may begin at, so it bounds nothing here. A short
 * path is tried with a small limit of that kind first, which is what nearly all requests need.
 * Otherwise steps are counted, over all places, expressions and readings of the request's path.
 */

enum route_regex {
	ROUTE_REGEX_FITS,
	ROUTE_REGEX_FITS_NOT,
	ROUTE_REGEX_UNDECIDED, /* the request has used up what it may try */
};

/* The following matches are for another request; or another host, path or method of the same. */
void route_regex_begin(struct route_scratch *scratch);
void route_regex_go_on(struct route_scratch *scratch);

/* Does the condition of a route hold for the request that was asked for? */
bool route_scratch_holds(struct route_scratch *scratch, const struct conf_when *when);

/* Was that not to be found out? */
bool route_scratch_is_undecided(const struct route_scratch *scratch);

/* Does the expression find something in the text? */
enum route_regex route_regex_find(
	struct route_scratch *scratch, const struct conf_regex *regex, struct slice text);

#endif
