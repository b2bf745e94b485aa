#include "fleet/verdict.h"

#include <string.h>

#include "fleet/question.h"

unsigned account_shared(const struct account *account)
{
	unsigned shared = 0;

	for (unsigned i = 0; i < account->count; i++)
		shared += account_asks(&account->charges[i]);
	return shared;
}

struct throttle_outcome verdict_outcome(const struct rule *rule, const struct answer_limit *answer)
{
	uint64_t most = rule_most(rule);
	uint64_t time_ns = verdict_time_ns(answer->time_us);

	return (struct throttle_outcome){
		.quota = most,
		.remaining = answer->used < most && !answer->is_banned ? most - answer->used : 0,
		.more_ns = time_ns,
		.reset_ns = time_ns,
		.retry_after_ns = answer->fits ? 0 : time_ns,
		.violated = !answer->fits,
		.banned = answer->is_banned,
		.shadow = rule->shadow,
	};
}

void verdict_conclude(struct account_charge *charge, const struct answer_limit *answer)
{
	charge->slot = answer->slot;
	charge->outcome = verdict_outcome(&charge->rule, answer);
	charge->said = charge->slot != 0 ? WAY_TAKEN : WAY_UNTAKEN;
}

void verdict_sum_up(struct throttle_verdict *verdict, const uint64_t *delay_max_ns)
{
	bool delay = true;

	verdict->violated = verdict->shadowed = 0;
	verdict->retry_after_ns = 0;
	for (unsigned i = 0; i < verdict->count; i++) {
		const struct throttle_outcome *outcome = &verdict->outcome[i];
		if (!outcome->violated)
			continue;
		if (outcome->shadow) {
			verdict->shadowed++;
			continue;
		}
		verdict->violated++;
		if (outcome->retry_after_ns > verdict->retry_after_ns)
			verdict->retry_after_ns = outcome->retry_after_ns;
		delay = delay && !outcome->banned && outcome->retry_after_ns <= delay_max_ns[i];
	}
	verdict->admitted = verdict->violated == 0;
	verdict->delay = !verdict->admitted && delay;
}

static struct throttle_outcome outcome_of(
	struct account_charge *charge, const struct answer_limit *answer)
{
	charge->slot = answer->slot;
	return verdict_outcome(&charge->rule, answer);
}

void verdict_fill(struct account *account, const struct throttle_verdict *local,
	const struct answer_limit *answers, struct throttle_verdict *verdict)
{
	static const struct answer_limit unused = {.fits = true};
	uint64_t delay_max_ns[GATE_LIMITS_MAX];

	verdict->count = account->count;
	for (unsigned i = 0; i < account->count; i++) {
		struct account_charge *charge = &account->charges[i];
		delay_max_ns[i] = charge->delay_max_ns;
		if (charge->local >= 0)
			verdict->outcome[i] = local->outcome[charge->local];
		else if (!account_asks(charge))
			verdict->outcome[i] = charge->outcome;
		else
			verdict->outcome[i] = outcome_of(charge, answers ? answers++ : &unused);
	}
	verdict_sum_up(verdict, delay_max_ns);
}
