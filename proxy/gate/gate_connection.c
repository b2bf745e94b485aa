#include "gate/gate_connection.h"

#include <stddef.h>
#include <string.h>

#include "gate/gate_internal.h"

static void fill_input(struct identity_input *input, const uint8_t address[16])
{
	static const struct http_head none;

	*input = (struct identity_input){.head = &none};
	memcpy(input->address, address, sizeof(input->address));
}

#define NS_PER_MS UINT64_C(1000000)

static void report(const struct throttle_outcome *outcome, struct gate_limit *limit)
{
	uint64_t reset_ns = outcome->violated ? outcome->retry_after_ns : outcome->reset_ns;

	limit->quota = outcome->quota;
	limit->remaining = outcome->remaining;
	/* Nobody knows when a place becomes free. */
	limit->reset_ms =
		reset_ns == THROTTLE_NEVER ? 0 : reset_ns / NS_PER_MS + (reset_ns % NS_PER_MS != 0);
	limit->violated = outcome->violated;
	limit->banned = outcome->banned;
	limit->overflow = outcome->overflow;
}

/* The charges of the limits whose conditions hold, which are then those of the verdict. Returns
 * their number. */
static unsigned fill_charges(const struct gate *gate, const struct conf_limits *limits,
	const uint8_t address[16], struct gate_verdict *verdict,
	struct throttle_charge charges[static GATE_LIMITS_MAX])
{
	struct identity_input input;
	unsigned count = 0;

	memset(verdict, 0, offsetof(struct gate_verdict, limits));
	fill_input(&input, address);
	for (size_t i = 0; i < limits->count; i++) {
		const struct conf_limit *limit = limits->items[i];
		if (conf_when_is_set(&limit->when) &&
			!matches_hold(gate->matches, &limit->when, &input))
			continue;
		struct throttle_key caller = identity_hash(limit->key, &input, &gate->seed);
		charges[count] = (struct throttle_charge){gate->numbers[limit->index], caller, 1};
		verdict->limits[count++] = (struct gate_limit){.limit = limit, .caller = caller.lo};
	}
	return verdict->limit_count = count;
}

static void fill_verdict(const struct throttle_verdict *judged, struct gate_verdict *verdict)
{
	for (unsigned i = 0; i < verdict->limit_count; i++)
		report(&judged->outcome[i], &verdict->limits[i]);
	verdict->shadowed = judged->shadowed > 0;
	verdict->violated = !judged->admitted;
	verdict->outcome = judged->admitted ? GATE_ADMIT : GATE_REFUSE;
}

void gate_judge_connection(const struct gate *gate, const struct conf_limits *limits,
	const uint8_t address[16], uint64_t now_ns, struct gate_verdict *verdict,
	struct throttle_receipt *receipt)
{
	struct throttle_charge charges[GATE_LIMITS_MAX];
	struct throttle_verdict judged;
	unsigned count = fill_charges(gate, limits, address, verdict, charges);

	receipt->count = 0;
	if (count == 0)
		return;
	throttle_take(gate->throttles, charges, count, now_ns, &judged, receipt);
	fill_verdict(&judged, verdict);
	if (!judged.admitted)
		receipt->count = 0;
}

void gate_explain_connection(const struct gate *gate, const struct conf_limits *limits,
	const uint8_t address[16], uint64_t now_ns, struct gate_verdict *verdict)
{
	struct throttle_charge charges[GATE_LIMITS_MAX];
	struct throttle_verdict judged;
	unsigned count = fill_charges(gate, limits, address, verdict, charges);

	if (count == 0)
		return;
	throttle_peek(gate->throttles, charges, count, now_ns, &judged);
	fill_verdict(&judged, verdict);
}

void gate_keep_places(const struct gate *gate, const struct gate_verdict *verdict,
	struct throttle_receipt *receipt, uint64_t now_ns)
{
	struct throttle_receipt rest = {.count = 0};
	uint32_t kept = 0;

	for (uint32_t i = 0; i < receipt->count; i++) {
		if (verdict->limits[i].limit->algorithm == CONF_LIMIT_CONCURRENCY)
			receipt->held[kept++] = receipt->held[i];
		else
			rest.held[rest.count++] = receipt->held[i];
	}
	receipt->count = kept;
	throttle_release(gate->throttles, &rest, now_ns);
}
