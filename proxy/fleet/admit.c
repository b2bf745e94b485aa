#include "fleet/admit.h"

#include <assert.h>

#include "fleet/fleet_account.h"
#include "fleet/ladder.h"
#include "fleet/lease.h"
#include "fleet/own.h"
#include "fleet/question.h"

/* But for the first, of which the taking says so before anything is taken. */
static bool rest_is_in_hand(const struct account *account)
{
	for (unsigned i = 1; i < account->count; i++) {
		if (!lease_is_in_hand(account, &account->charges[i]))
			return false;
	}
	return true;
}

/* All, or none: another worker may have taken what was in hand. */
static bool take_all(struct account *account)
{
	for (unsigned i = 0; i < account->count; i++) {
		if (lease_take_in_hand(account, &account->charges[i]))
			continue;
		while (i-- > 0)
			lease_way.give(account, &account->charges[i], account->charges[i].cost);
		return false;
	}
	return true;
}

/* As judgement_fill, of an account that nothing refuses. */
static void admit(struct account *account, struct authority_judgement *judgement)
{
	struct throttle_verdict *limits = &judgement->limits;

	limits->admitted = true;
	limits->delay = false;
	limits->violated = limits->shadowed = 0;
	limits->retry_after_ns = 0;
	limits->count = account->count;
	for (unsigned i = 0; i < account->count; i++)
		limits->outcome[i] = account->charges[i].outcome;
	gate_receipt_clear(&judgement->receipt);
	judgement->receipt.account = (uintptr_t)account;
	own_count(account);
}

bool fleet_admit(struct authority *authority, const struct authority_question *question,
	struct authority_judgement *judgement)
{
	struct throttle_verdict none;
	struct account *account =
		account_open(fleet_worker_of(question->questions), question, &none);

	(void)authority;
	if (!account)
		return false;
	assert(account->local.count == 0); /* all are leased */
	if (!ladder_is_first(account) || !rest_is_in_hand(account) || !take_all(account)) {
		account_free(account);
		return false;
	}
	admit(account, judgement);
	return true;
}
