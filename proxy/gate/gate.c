#include "gate/gate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "gate/access.h"
#include "gate/authority.h"
#include "gate/limit_sets.h"
#include "gate/plans.h"
#include "gate/roster.h"

#define NS_PER_MS UINT64_C(1000000)

struct gate {
	const struct conf *conf;
	struct throttle_table *throttles;
	struct throttle_seed seed;        /* the table's, which may be replaced under us */
	struct throttle_seed shared_seed; /* of callers as all nodes of the fleet name them */
	struct plan_table *plans;
	struct limit_sets sets;
	struct access_list **access;           /* one a route; NULL: no lists */
	struct throttle_key *session_salt;     /* one a route: keyed hash of its name */
	uint32_t *numbers;                     /* of conf's limits in the table */
	const struct roster *roster;           /* NULL: none */
	const struct conf_plan **roster_plans; /* by the roster's numbers; NULL: no longer there */
	uint32_t roster_plan_count;
};

static int make_routes(struct gate *gate)
{
	const struct conf *conf = gate->conf;

	gate->access = calloc(conf->route_count + 1, sizeof(struct access_list *));
	gate->session_salt = calloc(conf->route_count + 1, sizeof(*gate->session_salt));
	if (!gate->access || !gate->session_salt)
		return ENOMEM;
	for (size_t i = 0; i < conf->route_count; i++) {
		const struct conf_route *route = &conf->routes[i];
		gate->session_salt[i] =
			throttle_hash(&gate->seed, route->name, strlen(route->name));
		gate->access[i] = access_list_new(route);
		if (!gate->access[i] && errno != 0)
			return errno;
	}
	return 0;
}

static int find_numbers(struct gate *gate)
{
	const struct conf *conf = gate->conf;

	gate->numbers = calloc(conf->limit_count + 1, sizeof(*gate->numbers));
	if (!gate->numbers)
		return ENOMEM;
	for (size_t i = 0; i < conf->limit_count; i++) {
		int number = throttle_table_number(gate->throttles, conf->limits[i].name);
		if (number < 0)
			return ENOENT;
		gate->numbers[i] = (uint32_t)number;
	}
	return 0;
}

/* All nodes whose keys at the store begin alike have it. It is no secret, and need be none: 128
 * bits of two callers do not meet by chance, and the store has its own seed for its tables. */
static struct throttle_seed make_shared_seed(const char *prefix)
{
	unsigned char digest[DIGEST_BYTES];
	struct throttle_seed seed;

	digest_make(slice_of(prefix), digest);
	memcpy(&seed, digest, sizeof(seed));
	return seed;
}

struct gate *gate_new(const struct conf *conf, struct throttle_table *throttles)
{
	struct gate *gate = calloc(1, sizeof(*gate));

	if (!gate)
		return NULL;
	gate->conf = conf;
	gate->throttles = throttles;
	gate->seed = throttle_table_seed(throttles);
	if (conf->fleet.prefix)
		gate->shared_seed = make_shared_seed(conf->fleet.prefix);
	gate->plans = plan_table_new(conf);
	int error = gate->plans ? limit_sets_init(&gate->sets, conf, throttles) : ENOMEM;
	if (error == 0)
		error = find_numbers(gate);
	if (error == 0)
		error = make_routes(gate);
	if (error == 0)
		return gate;
	gate_free(gate);
	errno = error;
	return NULL;
}

void gate_free(struct gate *gate)
{
	if (!gate)
		return;
	for (size_t i = 0; gate->access && i < gate->conf->route_count; i++)
		access_list_free(gate->access[i]);
	free(gate->access);
	free(gate->roster_plans);
	free(gate->session_salt);
	free(gate->numbers);
	limit_sets_free(&gate->sets);
	plan_table_free(gate->plans);
	free(gate);
}

/* ---- checking ------------------------------------------------------------------------------- */

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

/* The plan of a key: what an operator said goes before the files. NULL: unknown. */
static const struct conf_plan *plan_of_key(const struct gate *gate, struct slice key)
{
	uint32_t number = ROSTER_PLAN_NONE;

	if (gate->roster && roster_has_keys(gate->roster))
		number = roster_find_key(gate->roster, key);
	if (number == ROSTER_PLAN_REVOKED)
		return NULL;
	if (number != ROSTER_PLAN_NONE)
		return number <= gate->roster_plan_count ? gate->roster_plans[number - 1] : NULL;
	return plan_find(gate->plans, key);
}

static const struct conf_plan *find_plan(const struct gate *gate, const struct conf_route *route,
	struct identity_input *input, struct gate_identity *identity)
{
	char scratch[IDENTITY_TEXT_BYTES];
	struct slice key = identity_text(gate->conf->plans_key, input, scratch);
	const struct conf_plan *plan = plan_of_key(gate, key);

	if (plan)
		return plan;
	enum conf_unknown unknown =
		route->unknown == CONF_UNKNOWN_INHERIT ? gate->conf->unknown : route->unknown;
	if (unknown == CONF_UNKNOWN_REFUSE)
		identity->stranger = input->has_key ? GATE_UNKNOWN : GATE_NO_KEY;
	return gate->conf->default_plan;
}

static uint64_t ms_up(uint64_t ns)
{
	return ns == THROTTLE_NEVER ? UINT64_MAX : ns / NS_PER_MS + (ns % NS_PER_MS != 0);
}

static inline void report_limit(const struct throttle_outcome *outcome,
	const struct conf_limit *limit, const struct throttle_charge *charge,
	struct gate_limit *report)
{
	uint64_t reset_ns = outcome->violated         ? outcome->retry_after_ns
			    : outcome->remaining == 0 ? outcome->more_ns
						      : outcome->reset_ns;

	/* The ticks that a throttle counts in make a window of 10 s one of a few us more. Who was
	 * refused waits for these, but nobody else is to be told 11 seconds. */
	bool is_rounded_down = !outcome->violated && reset_ns > NS_PER_MS;

	*report = (struct gate_limit){
		.limit = limit,
		.caller = charge->caller.lo,
		.quota = outcome->quota,
		.remaining = outcome->remaining,
		.reset_ms = is_rounded_down ? reset_ns / NS_PER_MS : ms_up(reset_ns),
		.violated = outcome->violated,
		.banned = outcome->banned,
		.overflow = outcome->overflow,
	};
}

/* Does every violated limit allow a wait so long, with what was waited already? */
static bool may_delay(
	const struct limit_set *set, const struct throttle_verdict *judged, uint64_t waited_ns)
{
	for (unsigned i = 0; i < judged->count; i++) {
		const struct throttle_outcome *outcome = &judged->outcome[i];
		if (!outcome->violated || outcome->shadow)
			continue;
		uint64_t longest_ns = set->limits[i]->delay_max_ms * NS_PER_MS;
		if (longest_ns < waited_ns || outcome->retry_after_ns > longest_ns - waited_ns)
			return false;
	}
	return true;
}

/* A refused request takes nothing, so limits that would have let it pass still have what they had:
 * a charge of 0 asks for that. */
static void report_untaken(const struct gate *gate, const struct limit_set *set,
	const struct throttle_charge *charges, const struct throttle_verdict *judged,
	uint64_t now_ns, struct gate_verdict *verdict)
{
	struct throttle_charge asked[GATE_LIMITS_MAX];
	struct throttle_verdict found;
	unsigned count = 0, next = 0;

	for (unsigned i = 0; i < set->count; i++) {
		if (!judged->outcome[i].violated)
			asked[count++] =
				(struct throttle_charge){charges[i].limit, charges[i].caller, 0};
	}
	if (count == 0)
		return;
	throttle_peek(gate->throttles, asked, count, now_ns, &found);
	for (unsigned i = 0; i < set->count; i++) {
		if (judged->outcome[i].violated)
			continue;
		struct throttle_outcome *outcome = &found.outcome[next++];
		/* Another thread may have taken the rest since; this request it did not refuse. */
		outcome->violated = false;
		report_limit(outcome, set->limits[i], &charges[i], &verdict->limits[i]);
	}
}

static inline unsigned fill_charges(const struct gate_identity *identity,
	struct throttle_charge charges[static GATE_LIMITS_MAX])
{
	const struct limit_set *set = identity->set;

	for (unsigned i = 0; i < set->count; i++) {
		charges[i] = (struct throttle_charge){
			set->numbers[i], identity->hashes[set->keys_of[i]], set->costs[i]};
	}
	return set->count;
}

unsigned gate_charges(const struct gate_identity *identity,
	struct throttle_charge charges[static GATE_LIMITS_MAX])
{
	return fill_charges(identity, charges);
}

bool gate_judges_at_turn(const struct gate_identity *identity)
{
	return identity->set->at_turn && !identity->authority;
}

const struct conf_limit *gate_limit_at(const struct gate_identity *identity, unsigned i)
{
	return identity->set->limits[i];
}

/* What the limits said. `gate`: whose table is asked what those have left that a refused request
 * did not violate; NULL: `judged` says so. */
static inline __attribute__((always_inline)) void fill_verdict(const struct gate *gate,
	const struct limit_set *set, const struct throttle_charge *charges,
	const struct throttle_verdict *judged, uint64_t now_ns, uint64_t waited_ns,
	struct gate_verdict *verdict)
{
	verdict->limit_count = set->count;
	for (unsigned i = 0; i < set->count; i++)
		report_limit(&judged->outcome[i], set->limits[i], &charges[i], &verdict->limits[i]);
	verdict->shadowed = judged->shadowed > 0;
	if (judged->admitted)
		return;
	if (gate && set->count > 1) /* else the one there is was violated */
		report_untaken(gate, set, charges, judged, now_ns, verdict);
	verdict->violated = true;
	verdict->retry_after_ms = ms_up(judged->retry_after_ns);
	verdict->retry_after_ms += verdict->retry_after_ms == 0;
	if (judged->delay && may_delay(set, judged, waited_ns)) {
		verdict->outcome = GATE_DELAY;
		verdict->delay_until_ns = now_ns + judged->retry_after_ns;
	} else {
		verdict->outcome = GATE_REFUSE;
	}
}

static __attribute__((noinline)) void find_shared(
	const struct gate *gate, struct identity_input *input, struct gate_identity *identity)
{
	const struct limit_set *set = identity->set;

	for (unsigned i = 0; i < set->count; i++) {
		if (set->limits[i]->of_fleet)
			identity->shared[i] =
				identity_hash(set->limits[i]->key, input, &gate->shared_seed);
	}
}

/* By which limits, and each one's caller. */
static inline void use_plan(const struct gate *gate, const struct conf_route *route,
	enum gate_kind kind, const struct conf_plan *plan, struct identity_input *input,
	struct gate_identity *identity)
{
	size_t plan_index = plan ? (size_t)(plan - gate->conf->plans) : gate->conf->plan_count;
	const struct limit_set *set = limit_sets_get(&gate->sets, kind, route->index, plan_index);

	identity->plan = plan;
	identity->set = set;
	identity->authority = set->authority;
	for (unsigned i = 1; i < set->key_count; i++)
		identity->hashes[i] = identity_hash(set->keys[i], input, &gate->seed);
	if (set->authority)
		find_shared(gate, input, identity);
}

static void apply_override(const struct gate *gate, const struct conf_route *route,
	enum gate_kind kind, struct identity_input *input, struct gate_identity *identity)
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
	const struct key_alternative *session_by;

	identity->stranger = GATE_ADMIT;
	identity->overridden = false;
	const struct conf_plan *plan = gate->conf->plans_key
					       ? find_plan(gate, route, input, identity)
					       : gate->conf->default_plan;
	use_plan(gate, route, kind, plan, input, identity);
	identity->access = lists ? (uint8_t)check_access(lists,
					   identity->set->keys[identity->set->first_key], input)
				 : ACCESS_LIMITED;
	identity->hashes[0] =
		identity_hash_by(identity->set->keys[0], input, &gate->seed, &session_by);
	identity->names_client = session_by && identity_names_client(session_by);
	if (gate_needs_time(gate))
		apply_override(gate, route, kind, input, identity);
	for (unsigned i = 0; i < identity->set->count; i++)
		throttle_prefetch(gate->throttles, identity->set->numbers[i],
			identity->hashes[identity->set->keys_of[i]]);
	identity->ambiguous = input->ambiguous;
}

bool gate_use_roster(struct gate *gate, struct roster *roster)
{
	const struct conf *conf = gate->conf;
	uint32_t count = 0;

	for (size_t i = 0; i < conf->plan_count; i++) {
		uint32_t number = roster_plan_number(roster, conf->plans[i].name);
		if (number == 0)
			return false;
		count = number > count ? number : count;
	}
	gate->roster_plans = calloc(count + 1, sizeof(*gate->roster_plans));
	if (!gate->roster_plans)
		return false;
	for (size_t i = 0; i < conf->plan_count; i++)
		gate->roster_plans[roster_plan_number(roster, conf->plans[i].name) - 1] =
			&conf->plans[i];
	gate->roster_plan_count = count;
	gate->roster = roster;
	return true;
}

bool gate_use_authority(
	struct gate *gate, const struct conf_limit *limit, struct authority *authority)
{
	return limit_sets_use(&gate->sets, limit, authority);
}

struct slice gate_challenge(const struct gate *gate)
{
	const struct conf_key *key = gate->conf->plans_key;

	for (size_t i = 0; key && i < key->alternative_count; i++) {
		if (key->alternatives[i].parts[0].is_credentials)
			return SLICE("Bearer");
	}
	return SLICE("ApiKey");
}

const struct conf_plan *gate_listed_plan(const struct gate *gate, struct slice key)
{
	return plan_find(gate->plans, key);
}

/* What is known before the limits are asked. True when they are to be. */
static inline bool begin_verdict(const struct gate *gate, const struct conf_route *route,
	const struct gate_identity *identity, struct gate_verdict *verdict)
{
	const struct conf_plan *plan = identity->plan;
	const struct throttle_key *hashes = identity->hashes;
	const struct throttle_key *salt = &gate->session_salt[route->index];

	memset(verdict, 0, offsetof(struct gate_verdict, limits));
	verdict->plan = plan;
	verdict->weight = plan ? plan->weight : 1;
	verdict->lane =
		plan && plan->lane == CONF_LANE_HIGH ? CONF_LANE_HIGH : route->sessions.lane;
	verdict->names_client = identity->names_client;
	verdict->overridden = identity->overridden;
	verdict->caller = hashes[identity->set->first_key];
	verdict->session = (struct throttle_key){hashes[0].hi ^ salt->hi, hashes[0].lo ^ salt->lo};
	if (identity->ambiguous)
		verdict->outcome = GATE_AMBIGUOUS;
	else if (identity->access == ACCESS_DENIED)
		verdict->outcome = GATE_DENY;
	else if (identity->access == ACCESS_ALLOWED)
		verdict->exempt = true;
	else if (identity->stranger != GATE_ADMIT)
		verdict->outcome = (enum gate_outcome)identity->stranger;
	else
		return identity->set->count > 0;
	return false;
}

static inline void begin_receipt(struct gate_receipt *receipt)
{
	receipt->authority = NULL;
	receipt->throttle.count = 0;
	receipt->in_bytes = receipt->by_cost = receipt->in_flight = 0;
	receipt->bytes_charged = 0;
}

/* How the limits of an admitted request are charged from here on. */
static inline void name_charged(struct gate_receipt *receipt, const struct limit_set *set)
{
	receipt->in_bytes = set->in_bytes;
	receipt->by_cost = set->by_cost;
	receipt->in_flight = set->in_flight;
}

void gate_judge(const struct gate *gate, const struct conf_route *route,
	const struct gate_identity *identity, uint64_t now_ns, uint64_t waited_ns,
	struct gate_verdict *verdict, struct gate_receipt *receipt)
{
	const struct limit_set *set = identity->set;
	struct throttle_charge charges[GATE_LIMITS_MAX];
	struct throttle_verdict judged;

	begin_receipt(receipt);
	if (!begin_verdict(gate, route, identity, verdict))
		return;
	throttle_take(gate->throttles, charges, fill_charges(identity, charges), now_ns, &judged,
		&receipt->throttle);
	if (judged.admitted)
		name_charged(receipt, set);
	else
		receipt->throttle.count = 0;
	fill_verdict(gate, set, charges, &judged, now_ns, waited_ns, verdict);
}

bool gate_begin(const struct gate *gate, const struct conf_route *route,
	const struct gate_identity *identity, struct gate_verdict *verdict,
	struct gate_receipt *receipt)
{
	begin_receipt(receipt);
	return begin_verdict(gate, route, identity, verdict);
}

void gate_conclude(const struct gate_identity *identity,
	const struct authority_judgement *judgement, uint64_t now_ns, uint64_t waited_ns,
	struct gate_verdict *verdict, struct gate_receipt *receipt)
{
	struct throttle_charge charges[GATE_LIMITS_MAX];

	fill_charges(identity, charges);
	verdict->outcome = GATE_ADMIT;
	verdict->violated = false;
	if (judgement->limits.admitted) {
		*receipt = judgement->receipt;
		receipt->authority = identity->authority;
		receipt->bytes_charged = 0;
		name_charged(receipt, identity->set);
	}
	fill_verdict(NULL, identity->set, charges, &judgement->limits, now_ns, waited_ns, verdict);
}

void gate_conclude_unavailable(uint64_t retry_after_ms, struct gate_verdict *verdict)
{
	verdict->outcome = GATE_UNAVAILABLE;
	verdict->retry_after_ms = retry_after_ms;
	verdict->limit_count = 0;
	verdict->violated = verdict->shadowed = false;
}

void gate_explain(const struct gate *gate, const struct conf_route *route,
	const struct gate_identity *identity, uint64_t now_ns, struct gate_verdict *verdict)
{
	struct throttle_charge charges[GATE_LIMITS_MAX];
	struct throttle_verdict judged;

	if (!begin_verdict(gate, route, identity, verdict))
		return;
	throttle_peek(gate->throttles, charges, fill_charges(identity, charges), now_ns, &judged);
	fill_verdict(gate, identity->set, charges, &judged, now_ns, 0, verdict);
}

void gate_check(const struct gate *gate, const struct conf_route *route,
	struct identity_input *input, uint64_t now_ns, uint64_t waited_ns,
	struct gate_verdict *verdict, struct gate_receipt *receipt)
{
	struct gate_identity identity;

	gate_identify(gate, route, input, &identity);
	gate_judge(gate, route, &identity, now_ns, waited_ns, verdict, receipt);
}

/* ---- afterwards ----------------------------------------------------------------------------- */

void gate_charge_bytes(
	const struct gate *gate, struct gate_receipt *receipt, uint64_t bytes, uint64_t now_ns)
{
	if (bytes <= receipt->bytes_charged || receipt->in_bytes == 0)
		return;
	uint64_t more = bytes - receipt->bytes_charged;
	if (receipt->authority)
		receipt->authority->calls->charge(receipt->authority, receipt, more);
	for (uint32_t i = 0; !receipt->authority && i < receipt->throttle.count; i++) {
		if (receipt->in_bytes >> i & 1)
			throttle_charge(gate->throttles, &receipt->throttle, i, more, now_ns);
	}
	receipt->bytes_charged = bytes;
}

static void clear_receipt(struct gate_receipt *receipt)
{
	receipt->authority = NULL;
	receipt->throttle.count = 0;
	receipt->in_bytes = receipt->by_cost = receipt->in_flight = 0;
}

bool gate_finish_plain(
	const struct conf_route *route, struct gate_receipt *receipt, const struct gate_end *end)
{
	if (receipt->authority)
		return false;
	if (receipt->throttle.count > 0 &&
		(end->never_forwarded || receipt->in_flight || receipt->in_bytes ||
			(end->has_cost && receipt->by_cost) ||
			gate_is_refunded(route, end->status)))
		return false;
	clear_receipt(receipt);
	return true;
}

/* The same, for what another authority has admitted. */
static void finish_elsewhere(const struct gate *gate, const struct conf_route *route,
	struct gate_receipt *receipt, const struct gate_end *end, uint64_t now_ns)
{
	struct authority *authority = receipt->authority;

	gate_charge_bytes(gate, receipt, end->bytes, now_ns);
	if (end->never_forwarded || gate_is_refunded(route, end->status))
		authority->calls->refund(authority, receipt);
	else
		authority->calls->settle(authority, receipt, end);
}

void gate_finish(const struct gate *gate, const struct conf_route *route,
	struct gate_receipt *receipt, const struct gate_end *end, uint64_t now_ns)
{
	if (gate_finish_plain(route, receipt, end))
		return;
	if (receipt->authority) {
		finish_elsewhere(gate, route, receipt, end, now_ns);
	} else if (end->never_forwarded || gate_is_refunded(route, end->status)) {
		/* Bytes are never given back: they have passed. */
		gate_charge_bytes(gate, receipt, end->bytes, now_ns);
		throttle_refund_all(gate->throttles, &receipt->throttle, now_ns);
	} else {
		for (uint32_t i = 0; end->has_cost && i < receipt->throttle.count; i++) {
			if (receipt->by_cost >> i & 1)
				throttle_settle(
					gate->throttles, &receipt->throttle, i, end->cost, now_ns);
		}
		gate_charge_bytes(gate, receipt, end->bytes, now_ns);
		throttle_release(gate->throttles, &receipt->throttle, now_ns);
	}
	clear_receipt(receipt);
}

uint32_t gate_limit_number(const struct gate *gate, const struct conf_limit *limit)
{
	return gate->numbers[limit->index];
}

bool gate_find_caller(const struct gate *gate, const struct conf_limit *limit, struct slice text,
	struct throttle_key *caller, uint32_t *number)
{
	int found = throttle_table_find(gate->throttles, limit->name);

	if (found < 0)
		return false;
	*number = (uint32_t)found;
	return identity_hash_text(limit->key, text, &gate->seed, caller);
}
