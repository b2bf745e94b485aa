#include "fleet/judgement.h"

#include "fleet/fleet_account.h"
#include "fleet/fleet.h"
#include "fleet/ladder.h"
#include "fleet/own.h"
#include "fleet/question.h"
#include "fleet/reserve.h"
#include "fleet/verdict.h"
#include "fleet/way.h"
#include "stats/stats.h"
#include "worker/worker_clock.h"

/* The store refuses: of the node's own limits, which do not, what is left without this request. */
static void look_again(struct account *account, struct throttle_verdict *local)
{
	struct throttle_charge charges[GATE_LIMITS_MAX];
	struct throttle_verdict found;

	own_give_back(account);
	if (account->local.count == 0)
		return;
	for (uint32_t i = 0; i < account->local.count; i++)
		charges[i] = (struct throttle_charge){
			account->local.held[i].limit, account->local.held[i].caller, 0};
	uint32_t count = account->local.count;
	account_give_back_here(account);
	throttle_peek(fleet_throttles(account->worker->authority), charges, count,
		worker_throttle_ns(account->worker->worker), &found);
	for (uint32_t i = 0; i < count; i++) {
		bool violated = local->outcome[i].violated;
		local->outcome[i] = found.outcome[i];
		local->outcome[i].violated = violated;
	}
	for (unsigned i = 0; i < account->count; i++) {
		const struct account_charge *charge = &account->charges[i];
		if (charge->local >= 0)
			reserve_lessen(&local->outcome[charge->local], charge->reserved);
	}
}

static void note_admitted(struct account *account)
{
	for (unsigned i = 0; i < account->count; i++) {
		struct account_charge *charge = &account->charges[i];
		charge->noted = (int64_t)charge->cost;
		account_note(account, charge, charge->noted);
	}
}

/* The same of what the ways have taken. What they took at the store can't be asked about again:
 * that it is given back is what is known of it. */
static void take_back(struct account *account)
{
	bool asked[GATE_LIMITS_MAX];

	for (unsigned i = 0; i < account->count; i++)
		asked[i] = account_asks(&account->charges[i]);
	ways_take_back(account);
	for (unsigned i = 0; i < account->count; i++) {
		struct account_charge *charge = &account->charges[i];
		uint64_t *remaining = &charge->outcome.remaining;
		if (asked[i] || !account_asks(charge))
			continue;
		charge->said = WAY_UNTAKEN;
		*remaining = *remaining + charge->cost < charge->outcome.quota
				     ? *remaining + charge->cost
				     : charge->outcome.quota;
	}
}

/* The judgement by what both say. The account becomes the receipt's, or is freed. */
void judgement_fill(struct account *account, struct throttle_verdict *local,
	const struct answer_limit *answers, bool admitted, struct authority_judgement *judgement)
{
	if (!admitted || account->refused) {
		take_back(account);
		look_again(account, local);
	}
	verdict_fill(account, local, answers, &judgement->limits);
	gate_receipt_clear(&judgement->receipt);
	if (!judgement->limits.admitted) {
		own_give_back(account);
		account_free(account);
		return;
	}
	own_count(account);
	note_admitted(account);
	judgement->receipt.account = (uintptr_t)account;
}

/* Is a limit on this rung that the store would be asked about? */
bool account_has_rung(const struct account *account, enum rung rung)
{
	for (unsigned i = 0; i < account->count; i++) {
		if (account_asks(&account->charges[i]) && account->charges[i].rung == rung)
			return true;
	}
	return false;
}

enum authority_answer judgement_unavailable(
	struct account *account, struct authority_judgement *judgement)
{
	account_give_all_back(account);
	judgement->retry_after_ms = JUDGEMENT_RETRY_MS;
	return AUTHORITY_UNAVAILABLE;
}

/* Is a limit on a rung that admits nothing? */
bool account_is_closed(const struct account *account)
{
	return account_has_rung(account, RUNG_REFUSE) || account_has_rung(account, RUNG_WAIT);
}

/* Other nodes may be without the store, too, and admit these callers by their shares. */
static void keep_to_shares(const struct account *account)
{
	for (unsigned i = 0; i < account->count; i++) {
		const struct account_charge *charge = &account->charges[i];
		if (charge->down == CONF_STORE_DOWN_LOCAL && account_asks(charge))
			ladder_keep_to_share(account->worker, charge->caller);
	}
}

/* The store does not answer: what its limits say then. */
enum authority_answer judgement_without_store(struct account *account,
	struct throttle_verdict *local, struct authority_judgement *judgement)
{
	worker_count(account->worker->worker, STATS_STORE_UNANSWERED);
	ladder_climb(account, false);
	keep_to_shares(account);
	if (!account->refused && account_is_closed(account))
		return judgement_unavailable(account, judgement);
	if (!account->refused && own_take_share(account, RUNG_SHARE) && !own_owe(account))
		return judgement_unavailable(account, judgement);
	judgement_fill(account, local, NULL, true, judgement);
	return AUTHORITY_JUDGED;
}
