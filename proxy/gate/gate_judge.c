/* The limits' verdict about a request. */
#include <stddef.h>
#include <string.h>

#include "gate/gate.h"
#include "gate/gate_internal.h"

#define NS_PER_MS UINT64_C(1000000)

static uint64_t ms_up(uint64_t ns)
{
	return ns == THROTTLE_NEVER ? UINT64_MAX : ns / NS_PER_MS + (ns % NS_PER_MS != 0);
}

static inline void report_limit(const struct throttle_outcome *outcome,
	const struct conf_limit *limit, uint64_t caller, struct gate_limit *report)
{
	uint64_t reset_ns = outcome->violated         ? outcome->retry_after_ns
			    : outcome->remaining == 0 ? outcome->more_ns
						      : outcome->reset_ns;

	/* The ticks that a throttle counts in make a window of 10 s one of a few us more. Who was
	 * refused waits for these, but nobody else is to be told 11 seconds. */
	bool is_rounded_down = !outcome->violated && reset_ns > NS_PER_MS;

	*report = (struct gate_limit){
		.limit = limit,
		.caller = caller,
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
		report_limit(outcome, set->limits[i], charges[i].caller.lo, &verdict->limits[i]);
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

bool gate_waits_for(const struct gate_identity *identity, const struct gate_verdict *verdict,
	struct throttle_charge *charge)
{
	const struct limit_set *set = identity->set;
	uint64_t longest_ms = 0;
	bool waits = false;

	for (unsigned i = 0; i < verdict->limit_count; i++) {
		const struct gate_limit *report = &verdict->limits[i];
		if (!report->violated || report->limit->shadow || report->reset_ms < longest_ms)
			continue;
		*charge = (struct throttle_charge){
			set->numbers[i], identity->hashes[set->keys_of[i]], set->costs[i]};
		longest_ms = report->reset_ms;
		waits = true;
	}
	return waits;
}

const struct conf_limit *gate_limit_at(const struct gate_identity *identity, unsigned i)
{
	return identity->set->limits[i];
}

/* What the limits said. `gate`: whose table is asked what those have left that a refused request
 * did not violate, by `charges`; NULL: `judged` says so. */
static inline __attribute__((always_inline)) void fill_verdict(const struct gate *gate,
	const struct gate_identity *identity, const struct throttle_charge *charges,
	const struct throttle_verdict *judged, uint64_t now_ns, uint64_t waited_ns,
	struct gate_verdict *verdict)
{
	const struct limit_set *set = identity->set;

	verdict->limit_count = set->count;
	for (unsigned i = 0; i < set->count; i++)
		report_limit(&judged->outcome[i], set->limits[i],
			identity->hashes[set->keys_of[i]].lo, &verdict->limits[i]);
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
	else if (identity->undecided)
		verdict->outcome = GATE_UNDECIDED;
	else if (identity->access == ACCESS_DENIED)
		verdict->outcome = GATE_DENY;
	else if (identity->revoked)
		verdict->outcome = GATE_UNKNOWN;
	else if (identity->access == ACCESS_ALLOWED)
		verdict->exempt = true;
	else if (identity->stranger != GATE_ADMIT)
		verdict->outcome = (enum gate_outcome)identity->stranger;
	else
		return identity->set->count > 0;
	return false;
}

/* How the limits of an admitted request are charged from here on. */
static inline void name_charged(struct gate_receipt *receipt, const struct limit_set *set)
{
	receipt->in_bytes = set->in_bytes;
	receipt->by_cost = set->by_cost;
	receipt->in_flight = set->in_flight;
}

static void violate(struct throttle_outcome *outcome, uint64_t retry_after_ns)
{
	outcome->violated = true;
	outcome->remaining = 0;
	outcome->retry_after_ns = retry_after_ns;
}

/* Sums the outcomes up, of which some are violated. */
static void conclude_refused(const struct limit_set *set, struct throttle_verdict *judged)
{
	judged->admitted = false;
	judged->delay = true;
	judged->retry_after_ns = 0;
	for (unsigned i = 0; i < judged->count; i++) {
		const struct throttle_outcome *outcome = &judged->outcome[i];
		if (!outcome->violated || outcome->shadow)
			continue;
		if (outcome->retry_after_ns > judged->retry_after_ns)
			judged->retry_after_ns = outcome->retry_after_ns;
		judged->delay &=
			!outcome->banned &&
			outcome->retry_after_ns <= set->limits[i]->delay_max_ms * NS_PER_MS;
	}
}

/* Has it to wait for those ahead? Then `judged` says so, and nothing was taken. */
static bool waits_behind(const struct gate *gate, const struct limit_set *set,
	const struct throttle_charge *charges, const uint64_t *ahead, uint64_t now_ns,
	struct throttle_verdict *judged)
{
	uint64_t waits[GATE_LIMITS_MAX] = {0}, longest = 0;

	for (unsigned i = 0; i < set->count; i++) {
		if (ahead[i] == 0 || set->limits[i]->shadow)
			continue;
		waits[i] = throttle_wait(gate->throttles, charges[i].limit, charges[i].caller,
			ahead[i] + charges[i].cost, now_ns);
		longest = waits[i] > longest ? waits[i] : longest;
	}
	if (longest == 0)
		return false;
	throttle_peek(gate->throttles, charges, set->count, now_ns, judged);
	for (unsigned i = 0; i < set->count; i++) {
		if (waits[i] > judged->outcome[i].retry_after_ns)
			violate(&judged->outcome[i], waits[i]);
	}
	conclude_refused(set, judged);
	return true;
}

/* It has waited: is it still refused? Nothing was taken, and no refusal counted. */
static bool waits_on(const struct gate *gate, const struct throttle_charge *charges, unsigned count,
	uint64_t now_ns, struct throttle_verdict *judged)
{
	throttle_peek(gate->throttles, charges, count, now_ns, judged);
	return !judged->admitted;
}

void gate_judge(const struct gate *gate, const struct conf_route *route,
	const struct gate_identity *identity, const uint64_t *ahead, uint64_t now_ns,
	uint64_t waited_ns, struct gate_verdict *verdict, struct gate_receipt *receipt)
{
	const struct limit_set *set = identity->set;
	struct throttle_charge charges[GATE_LIMITS_MAX];
	struct throttle_verdict judged;

	gate_receipt_clear(receipt);
	if (!begin_verdict(gate, route, identity, verdict))
		return;
	unsigned count = fill_charges(identity, charges);
	if ((ahead && waits_behind(gate, set, charges, ahead, now_ns, &judged)) ||
		(waited_ns > 0 && waits_on(gate, charges, count, now_ns, &judged))) {
		fill_verdict(gate, identity, charges, &judged, now_ns, waited_ns, verdict);
		return;
	}
	throttle_take(gate->throttles, charges, count, now_ns, &judged, &receipt->throttle);
	if (judged.admitted)
		name_charged(receipt, set);
	else
		receipt->throttle.count = 0;
	fill_verdict(gate, identity, charges, &judged, now_ns, waited_ns, verdict);
}

bool gate_begin(const struct gate *gate, const struct conf_route *route,
	const struct gate_identity *identity, struct gate_verdict *verdict,
	struct gate_receipt *receipt)
{
	gate_receipt_clear(receipt);
	return begin_verdict(gate, route, identity, verdict);
}

/* How much longer than the first of them one waits that is behind these: at least, as only the
 * authority knows when a window's parts are free again. */
static uint64_t behind_ns(const struct conf_limit *limit, uint64_t ahead, uint64_t cost)
{
	if (limit->per_ns == 0 || ahead > UINT32_MAX)
		return 0;
	if (limit->algorithm == CONF_LIMIT_GCRA)
		return (uint64_t)((unsigned __int128)ahead * limit->per_ns / limit->amount);
	return (ahead + cost - (cost > 0)) / limit->amount * limit->per_ns;
}

static void add_those_ahead(
	const struct limit_set *set, const uint64_t *ahead, struct throttle_verdict *judged)
{
	for (unsigned i = 0; i < judged->count; i++) {
		struct throttle_outcome *outcome = &judged->outcome[i];
		uint64_t behind = behind_ns(set->limits[i], ahead[i], set->costs[i]);
		if (outcome->violated && outcome->retry_after_ns < THROTTLE_NEVER - behind)
			violate(outcome, outcome->retry_after_ns + behind);
	}
	conclude_refused(set, judged);
}

void gate_conclude(const struct gate_identity *identity,
	const struct authority_judgement *judgement, const uint64_t *ahead, uint64_t now_ns,
	uint64_t waited_ns, struct gate_verdict *verdict, struct gate_receipt *receipt)
{
	verdict->outcome = GATE_ADMIT;
	verdict->violated = false;
	if (judgement->limits.admitted) {
		const struct throttle_receipt *held = &judgement->receipt.throttle;
		gate_receipt_clear(receipt);
		receipt->authority = identity->authority;
		receipt->account = judgement->receipt.account;
		receipt->throttle.count = held->count;
		for (uint32_t i = 0; i < held->count; i++)
			receipt->throttle.held[i] = held->held[i];
		name_charged(receipt, identity->set);
	}
	if (!ahead || judgement->limits.admitted) {
		fill_verdict(NULL, identity, NULL, &judgement->limits, now_ns, waited_ns, verdict);
		return;
	}
	struct throttle_verdict judged = judgement->limits;
	add_those_ahead(identity->set, ahead, &judged);
	fill_verdict(NULL, identity, NULL, &judged, now_ns, waited_ns, verdict);
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
	fill_verdict(gate, identity, charges, &judged, now_ns, 0, verdict);
}

void gate_check(const struct gate *gate, const struct conf_route *route,
	struct identity_input *input, uint64_t now_ns, uint64_t waited_ns,
	struct gate_verdict *verdict, struct gate_receipt *receipt)
{
	struct gate_identity identity;

	gate_identify(gate, route, input, &identity);
	gate_judge(gate, route, &identity, NULL, now_ns, waited_ns, verdict, receipt);
}

/* ---- gate finish ---------------------------------------------------------------------------- */

/* Charges of a request after its admission: its bytes, its cost, or nothing. */

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

static void settle_bytes(
	const struct gate *gate, struct gate_receipt *receipt, uint64_t bytes, uint64_t now_ns)
{
	for (uint32_t i = 0; i < receipt->throttle.count; i++) {
		if (receipt->in_bytes >> i & 1)
			throttle_settle(gate->throttles, &receipt->throttle, i, bytes, now_ns);
	}
	receipt->bytes_charged = bytes;
	receipt->holds_bytes = bytes > 0;
}

void gate_hold_bytes(
	const struct gate *gate, struct gate_receipt *receipt, uint64_t bytes, uint64_t now_ns)
{
	if (receipt->in_bytes != 0 && !receipt->authority)
		settle_bytes(gate, receipt, bytes, now_ns);
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

	if (receipt->in_bytes != 0)
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
		/* Bytes that have passed are never given back. */
		if (receipt->holds_bytes && !end->never_forwarded)
			settle_bytes(gate, receipt, 0, now_ns);
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
