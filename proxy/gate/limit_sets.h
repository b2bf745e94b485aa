/*
 * Which limits apply, worked out at load: one set for each pair of a route and a plan (and kind,
 * where a route reads its WebSockets), with the distinct key expressions among them, so that each
 * is evaluated once a request.
 *
 *   route limits: a, plan, b      plan gold: c         set of (route, gold): a c b
 *                                                      keys: [0] session's  [1] a's and b's  [2]
 * c's
 *
 * Where limits have conditions (`when`), there is a set for each outcome of the conditions.
 *
 * Private to the gate.
 */
#ifndef GATE_LIMIT_SETS_H
#define GATE_LIMIT_SETS_H

#include <stdbool.h>
#include <stdint.h>

#include "conf/conf.h"
#include "gate/gate.h"
#include "throttle/throttle.h"

struct limit_variants;

struct limit_set {
	struct limit_variants *variants; /* NULL: none of its limits has a condition */
	uint8_t count, key_count;
	uint8_t first_key;                 /* whose hash names the caller in logs */
	uint8_t keys_of[GATE_LIMITS_MAX];  /* place in `keys` */
	uint32_t numbers[GATE_LIMITS_MAX]; /* in the table */
	uint64_t costs[GATE_LIMITS_MAX];   /* what the route charges */
	uint32_t in_bytes, by_cost;        /* bit i: limits[i] is charged so */
	uint32_t in_flight;                /* bit i: limits[i] counts what is in flight */
	uint32_t shared_keys;              /* bit i: keys[i] is that of a limit of the fleet */
	bool at_turn;                      /* see gate_judges_at_turn */
	struct authority *authority;       /* over all of them; NULL: the table */
	bool leased;                       /* all of them are of nodes that lease (fleet = lease) */
	const struct conf_limit *limits[GATE_LIMITS_MAX];
	const struct conf_key *keys[GATE_LIMITS_MAX + 1]; /* keys[0]: the session's */
};

/* The sets in place of one whose limits have conditions: by which of these hold. Sets of other
 * routes and plans that have the same limits, keys and costs share them. */
struct limit_variants {
	struct limit_variants *next; /* of all, to free them */
	unsigned when_count;
	struct conf_when whens[WHENS_MOST]; /* the different ones */
	struct limit_set sets[];            /* by their outcomes: bit i: whens[i] holds */
};

struct limit_sets {
	/* `per_route` for each route; and the same again for each kind but requests, if any route
	 * reads its WebSockets. */
	struct limit_set *sets, *of[GATE_KINDS];
	size_t per_route;   /* the plans, and none */
	size_t route_count; /* of requests' */
	size_t kinds;       /* 1, or all of GATE_KINDS */
	size_t plan_count;
	struct limit_variants *variants;
};

/* 0, or ENOMEM, ENOENT as in gate_new. */
int limit_sets_init(
	struct limit_sets *sets, const struct conf *conf, const struct throttle_table *throttles);
void limit_sets_free(struct limit_sets *sets);

/* `authority` judges each set that has this limit. False: another one has such a set. */
bool limit_sets_use(
	struct limit_sets *sets, const struct conf_limit *limit, struct authority *authority);

/* `plan` is an index in conf.plans, or plan_count for none. Of a route whose WebSockets are tunnels
 * there are sets of requests only. */
static inline const struct limit_set *limit_sets_get(
	const struct limit_sets *sets, enum gate_kind kind, unsigned route, size_t plan)
{
	return &sets->of[kind][route * sets->per_route + plan];
}

#endif
