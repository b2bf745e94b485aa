/* Whose request it is, and by which limits. */
#include "gate/gate.h"

#include <string.h>

#include "gate/gate_internal.h"
#include "gate/matches.h"

/* `key_expression` is the first limit's. */
static enum access_verdict check_access(const struct access_list *list,
	const struct conf_key *key_expression, struct identity_input *input)
{
	char scratch[IDENTITY_TEXT_BYTES];
	struct slice key = SLICE_NONE;

	if (access_needs_key(list))
		key = identity_text(key_expression, input, scratch);
	return access_check(list, input->address, key);
}

/* By `deny` and `allow` with match:NAME, which go before and behind the lists of the same kind. */
static __attribute__((noinline)) enum access_verdict check_conditions(const struct gate *gate,
	const struct conf_access *access, enum access_verdict listed, struct identity_input *input)
{
	if (listed == ACCESS_DENIED || matches_any(gate->matches, &access->deny_when, input))
		return ACCESS_DENIED;
	if (listed == ACCESS_ALLOWED || matches_any(gate->matches, &access->allow_when, input))
		return ACCESS_ALLOWED;
	return ACCESS_LIMITED;
}

/* The plan of a key: an operator's setting takes precedence over the files. NULL: unknown or
 * revoked. */
static const struct conf_plan *plan_of_key(const struct gate *gate, struct slice key, bool *revoked)
{
	uint32_t number = ROSTER_PLAN_NONE;

	if (gate->roster && roster_has_keys(gate->roster))
		number = roster_find_key(gate->roster, key);
	*revoked = number == ROSTER_PLAN_REVOKED;
	if (*revoked)
		return NULL;
	if (number != ROSTER_PLAN_NONE)
		return number <= gate->roster_plan_count ? gate->roster_plans[number - 1] : NULL;
	return plan_find(gate->plans, key);
}

/* The first whose condition holds; NULL: none. */
static __attribute__((noinline)) const struct conf_plan *plan_by_condition(
	const struct gate *gate, struct identity_input *input)
{
	for (size_t i = 0; i < gate->conf->plan_count; i++) {
		const struct conf_plan *plan = &gate->conf->plans[i];
		if (conf_when_is_set(&plan->when) &&
			matches_hold(gate->matches, &plan->when, input))
			return plan;
	}
	return NULL;
}

/* Of a caller whose key has no plan; NULL: none. */
static inline const struct conf_plan *plan_without_key(
	const struct gate *gate, struct identity_input *input)
{
	const struct conf_plan *plan =
		gate->has_plan_conditions ? plan_by_condition(gate, input) : NULL;

	return plan ? plan : gate->conf->default_plan;
}

static const struct conf_plan *find_plan(const struct gate *gate, const struct conf_route *route,
	struct identity_input *input, struct gate_identity *identity)
{
	char scratch[IDENTITY_TEXT_BYTES];
	struct slice key = identity_text(gate->conf->plans_key, input, scratch);
	const struct conf_plan *plan = plan_of_key(gate, key, &identity->revoked);

	if (plan)
		return plan;
	plan = plan_without_key(gate, input);
	if (plan != gate->conf->default_plan)
		return plan;
	enum conf_unknown unknown =
		route->unknown == CONF_UNKNOWN_INHERIT ? gate->conf->unknown : route->unknown;
	if (unknown == CONF_UNKNOWN_REFUSE)
		identity->stranger = input->has_key ? GATE_UNKNOWN : GATE_NO_KEY;
	return plan;
}

/* With callers of limits of the fleet, which the set's authority knows by another seed. Returns the
 * session's alternative. */
static __attribute__((noinline)) const struct key_alternative *hash_shared(
	const struct gate *gate, struct identity_input *input, struct gate_identity *identity)
{
	const struct key_alternative *alternative, *session_by = NULL;
	const struct limit_set *set = identity->set;
	struct throttle_key shared[GATE_LIMITS_MAX + 1];

	for (unsigned i = 0; i < set->key_count; i++) {
		identity->hashes[i] =
			set->shared_keys >> i & 1
				? identity_hash_twice(set->keys[i], input, &gate->seed,
					  &gate->shared_seed, &shared[i], &alternative)
				: identity_hash_by(set->keys[i], input, &gate->seed, &alternative);
		if (i == 0)
			session_by = alternative;
	}
	for (unsigned i = 0; i < set->count; i++) {
		if (set->shared_keys >> set->keys_of[i] & 1)
			identity->shared[i] = shared[set->keys_of[i]];
	}
	return session_by;
}

/* The limits that apply by their conditions. */
static __attribute__((noinline)) const struct limit_set *find_variant(const struct gate *gate,
	const struct limit_variants *variants, struct identity_input *input)
{
	size_t outcome = 0;

	for (unsigned i = 0; i < variants->when_count; i++)
		outcome |= (size_t)matches_hold(gate->matches, &variants->whens[i], input) << i;
	return &variants->sets[outcome];
}

/* By which limits, and each one's caller. */
static inline __attribute__((always_inline)) void use_plan(const struct gate *gate,
	const struct conf_route *route, enum gate_kind kind, const struct conf_plan *plan,
	struct identity_input *input, struct gate_identity *identity)
{
	size_t plan_index = plan ? (size_t)(plan - gate->conf->plans) : gate->conf->plan_count;
	const struct limit_set *set = limit_sets_get(&gate->sets, kind, route->index, plan_index);
	const struct key_alternative *session_by;

	if (set->variants)
		set = find_variant(gate, set->variants, input);
	identity->plan = plan;
	identity->set = set;
	identity->authority = set->authority;
	identity->leased = set->leased;
	if (set->authority) {
		session_by = hash_shared(gate, input, identity);
	} else {
		identity->hashes[0] =
			identity_hash_by(set->keys[0], input, &gate->seed, &session_by);
		for (unsigned i = 1; i < set->key_count; i++)
			identity->hashes[i] = identity_hash(set->keys[i], input, &gate->seed);
	}
	identity->names_client = session_by && identity_names_client(session_by);
}

static __attribute__((noinline)) void apply_override(const struct gate *gate,
	const struct conf_route *route, enum gate_kind kind, struct identity_input *input,
	struct gate_identity *identity)
{
	struct roster_override override = roster_find_override(
		gate->roster, identity->hashes[identity->set->first_key].lo, input->now_s);

	switch (override.kind) {
	case ROSTER_NO_OVERRIDE:
		return;
	case ROSTER_EXEMPT:
		identity->access = ACCESS_ALLOWED;
		break;
	case ROSTER_DENY:
		identity->access = ACCESS_DENIED;
		break;
	case ROSTER_PLAN:
		if (override.plan > gate->roster_plan_count ||
			!gate->roster_plans[override.plan - 1])
			return; /* the plan is gone */
		identity->stranger = GATE_ADMIT;
		use_plan(gate, route, kind, gate->roster_plans[override.plan - 1], input, identity);
		break;
	}
	identity->overridden = true;
}

bool gate_needs_time(const struct gate *gate)
{
	return gate->roster && roster_has_overrides(gate->roster);
}

void gate_identify_as(const struct gate *gate, const struct conf_route *route, enum gate_kind kind,
	struct identity_input *input, struct gate_identity *identity)
{
	/* Most routes have no lists and many configurations no keyed plans: no call for these. */
	const struct access_list *lists = gate->access[route->index];

	identity->stranger = GATE_ADMIT;
	identity->overridden = false;
	identity->revoked = false;
	const struct conf_plan *plan = gate->conf->plans_key
					       ? find_plan(gate, route, input, identity)
					       : plan_without_key(gate, input);
	use_plan(gate, route, kind, plan, input, identity);
	identity->access = lists ? (uint8_t)check_access(lists,
					   identity->set->keys[identity->set->first_key], input)
				 : ACCESS_LIMITED;
	if (conf_access_has_conditions(&route->access))
		identity->access = (uint8_t)check_conditions(
			gate, &route->access, (enum access_verdict)identity->access, input);
	if (gate_needs_time(gate))
		apply_override(gate, route, kind, input, identity);
	for (unsigned i = 0; i < identity->set->count; i++)
		throttle_prefetch(gate->throttles, identity->set->numbers[i],
			identity->hashes[identity->set->keys_of[i]]);
	identity->ambiguous = input->ambiguous;
	identity->undecided = input->matches.undecided;
}

struct throttle_key gate_shared_session(
	const struct gate *gate, const struct conf_route *route, struct identity_input *input)
{
	const struct throttle_key client =
		identity_hash(route->sessions.key, input, &gate->shared_seed);
	const struct throttle_key salt =
		throttle_hash(&gate->shared_seed, route->name, strlen(route->name));

	return (struct throttle_key){client.hi ^ salt.hi, client.lo ^ salt.lo};
}
