#include "fleet/exact.h"

#include "fleet/batches.h"
#include "fleet/question.h"
#include "worker/worker_clock.h"

void exact_ask(struct fleet_batch *filling, struct question *question)
{
	struct account *account = question->account;
	struct batch_charge charges[GATE_LIMITS_MAX];
	unsigned count = 0;

	for (unsigned i = 0; i < account->count; i++) {
		struct account_charge *charge = &account->charges[i];
		if (!question_asks(question, charge))
			continue;
		if (charge->rule.kind == RULE_HOLDERS)
			charge->hold = hold_begin(&account->worker->holds, filling, &charge->rule,
				charge->limit, charge->caller);
		charges[count++] = account_batch_charge(charge, charge->cost);
	}
	batch_ask(&filling->batch, charges, count, !account->refused);
}

void exact_answered(struct question *question, const struct answer_limit *answers)
{
	struct account *account = question->account;
	uint64_t now_ns = worker_throttle_ns(account->worker->worker);

	for (unsigned i = 0; i < account->count; i++) {
		struct account_charge *charge = &account->charges[i];
		if (!question_asks(question, charge))
			continue;
		bool taken = answers && answers++->slot != 0;
		charge->taken_ns = now_ns;
		if (charge->hold)
			hold_end(&account->worker->holds, charge->hold, taken ? charge->cost : 0);
		if (!taken)
			charge->hold = NULL;
	}
}

static enum way_verdict take(struct account *account, struct account_charge *charge)
{
	(void)account;
	(void)charge;
	return WAY_ASK;
}

/* Of gcra, what was charged has drained by then, whatever was given back since (gcra.lua). */
static bool has_drained(const struct account *account, const struct account_charge *charge)
{
	const struct rule *rule = &charge->rule;
	uint64_t age_ns = worker_throttle_ns(account->worker->worker) - charge->taken_ns;

	return rule->kind == RULE_GCRA &&
	       (double)age_ns / 1000 * (double)rule->quota >=
		       (double)rule->burst * (double)rule->window_us * 63 / 64;
}

/* What the store has charged. */
static void give(struct account *account, struct account_charge *charge, uint64_t cost)
{
	struct fleet_batch *filling;

	if (charge->slot == 0 || cost == 0 || has_drained(account, charge))
		return;
	if (charge->rule.kind == RULE_HOLDERS) {
		charge->slot = 0;
		if (charge->hold)
			hold_drop(&account->worker->holds, charge->hold, cost);
		charge->hold = NULL;
		return;
	}
	filling = fleet_filling(account->worker, FLEET_JUDGE, charge->caller, 1);
	if (!filling)
		return;
	struct batch_charge given = account_batch_charge(charge, cost);
	batch_give(&filling->batch, &given, charge->slot, charge->epoch);
}

/* Not to a request that the store knows nothing of. */
static void add(struct account *account, struct account_charge *charge, uint64_t cost)
{
	struct fleet_batch *filling =
		charge->epoch != 0 ? fleet_filling(account->worker, FLEET_JUDGE, charge->caller, 1)
				   : NULL;

	if (!filling)
		return;
	struct batch_charge more = account_batch_charge(charge, cost);
	batch_charge(&filling->batch, &more);
}

const struct way exact_way = {
	.function = FLEET_JUDGE, .take = take, .look = take, .give = give, .add = add};
