/* Declarations that the files of the gate share. */
#ifndef GATE_GATE_INTERNAL_H
#define GATE_GATE_INTERNAL_H

#include "gate/access.h"
#include "gate/authority.h"
#include "gate/gate.h"
#include "gate/limit_sets.h"
#include "gate/roster.h"

struct gate {
	const struct conf *conf;
	struct throttle_table *throttles;
	struct throttle_seed seed;        /* the table's, which may be replaced under us */
	struct throttle_seed shared_seed; /* of callers as all nodes of the fleet name them */
	struct plan_table *plans;
	struct match_table *matches;
	bool has_plan_conditions;
	struct limit_sets sets;
	struct access_list **access;           /* one a route; NULL: no lists */
	struct throttle_key *session_salt;     /* one a route: keyed hash of its name */
	uint32_t *numbers;                     /* of conf's limits in the table */
	const struct roster *roster;           /* NULL: none */
	const struct conf_plan **roster_plans; /* by the roster's numbers; NULL: no longer there */
	uint32_t roster_plan_count;
};

#endif
