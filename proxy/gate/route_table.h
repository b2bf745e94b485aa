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
#include "gate/text_hash.h"

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

#endif
