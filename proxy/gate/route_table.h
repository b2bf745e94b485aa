/*
 * The compiled routes: what route_table.c builds and route.c reads. Private to the two.
 *
 *   hosts[]  hash of host text -------> node (one a host pattern, in conf.hosts' order)
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
	uint32_t any_host; /* the node of no host, or ROUTE_NO_NODE */
	char *host_bytes;  /* texts of hosts that are not written as they are matched */
};

/* FNV-1a, and a last mix so that the low bits depend on all. The texts hashed into the tables are
 * the configuration's; a client cannot make them collide. */
#define ROUTE_HASH_BEGIN UINT64_C(0xcbf29ce484222325)

static inline uint64_t route_hash_add(uint64_t hash, char c)
{
	return (hash ^ (unsigned char)c) * UINT64_C(0x100000001b3);
}

static inline uint64_t route_hash_end(uint64_t hash)
{
	return hash ^ hash >> 29;
}

static inline uint64_t route_place_hash(uint64_t hash, uint32_t node, enum conf_path_kind kind)
{
	hash += (uint64_t)(node * 2 + (kind == CONF_PATH_EXACT)) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 32;
}

/* Hosts are hashed from their end, so that one pass gives all suffixes. */
static inline uint64_t route_host_hash(struct slice host, bool is_wildcard)
{
	uint64_t hash = ROUTE_HASH_BEGIN;

	for (size_t i = host.len; i > 0; i--)
		hash = route_hash_add(hash, host.at[i - 1]);
	return route_hash_end(hash) + is_wildcard;
}

/* ROUTE_NO_NODE when there is none. `hash` is the text's route_host_hash. */
uint32_t route_table_find_host(
	const struct route_table *table, struct slice text, bool is_wildcard, uint64_t hash);

/* The routes with this path, or NULL. `hash` is the path's route_place_hash. */
const struct route_entry *route_table_find_place(const struct route_table *table, uint32_t node,
	enum conf_path_kind kind, struct slice path, uint64_t hash);

#endif
