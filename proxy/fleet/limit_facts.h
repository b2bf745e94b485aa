/*
 * Precomputed facts of a limit for a worker: the rule that the store takes, its name and its way.
 * Private to the fleet; on the worker's thread.
 *
 *   a site comes into force --limit_facts_take_site--> empty --limit_facts_of--> filled, each once
 */
#ifndef FLEET_LIMIT_FACTS_H
#define FLEET_LIMIT_FACTS_H

#include <stddef.h>

#include "conf/conf.h"
#include "fleet/rule.h"

struct fleet_worker;
struct way;

struct limit_facts {
	const struct conf_limit *limit; /* NULL: not filled */
	struct rule rule;               /* rule_of */
	const char *name;               /* as long as the worker */
	uint64_t name_hash;             /* limit_hash_name */
	const struct way *way;
	enum conf_store_down down; /* ladder_down, by the site in force */
};

/* FNV-1a (Fowler, Noll, Vo), and its prime, by which a hash continues. */
#define LIMIT_NAME_PRIME UINT64_C(0x100000001b3)
static inline uint64_t limit_hash_name(const char *limit)
{
	uint64_t hash = 0xcbf29ce484222325;

	for (const char *c = limit; *c; c++)
		hash = (hash ^ (unsigned char)*c) * LIMIT_NAME_PRIME;
	return hash;
}

struct limits_known {
	struct limit_facts *all; /* by the limits' places in the snapshot in force */
	size_t count;
	struct limit_facts other; /* of one that is not among them */
	unsigned sites;           /* that have come into force; it wraps */
};

/* Forgets all, as a site has come into force: what is kept is found by the limit's address, which
 * another snapshot may have later. Without memory nothing is kept. */
void limit_facts_take_site(struct limits_known *known, const struct conf *conf);
void limit_facts_free(struct limits_known *known);

/* Until the next call. NULL without memory. */
const struct limit_facts *limit_facts_of(
	struct fleet_worker *fleet, const struct conf_limit *limit);
/* Of the fleet's limit of this name in the site in force, until the next call. NULL: there is none,
 * or without memory. */
const struct limit_facts *limit_facts_named(struct fleet_worker *fleet, const char *name);

#endif
