/*
 * The charges of one request to its limits, here and at the store: opened when it is asked about,
 * given back whole, or settled (fleet_account.h). Private to the fleet; on the worker's thread.
 *
 *   account_open --> the node's table, for its limits --> fleet_ask.c, or the store
 */
#ifndef FLEET_FLEET_ACCOUNT_H
#define FLEET_FLEET_ACCOUNT_H

#include <stdint.h>

#include "fleet/question.h"
#include "gate/authority.h"
#include "throttle/throttle.h"

/* The limits of a request; those that the node's table judges are charged, and `*local` is its
 * verdict over them. NULL without memory: nothing is charged. */
struct account *account_open(struct fleet_worker *fleet, const struct authority_question *question,
	struct throttle_verdict *local);

/* Notes units that the node's table charged (or gave back, below 0) of a limit that others share.
 */
void account_note(struct account *account, struct account_charge *charge, int64_t units);

/* Of account_take_site: one has. */
void account_take_new_site(struct account *account);

/* Before anything is charged or given back: if a site has come into force since the account was
 * opened, what it takes of a limit that was changed stays charged, and what follows is charged by
 * the limit as it is now. */
static inline void account_take_site(struct account *account)
{
	if (account->sites != account->worker->limits.sites)
		account_take_new_site(account);
}

/* Charges the bytes that have passed and are not charged yet. */
void account_charge_bytes(struct account *account, struct account_charge *charge);

/* Gives back what the node's table has charged. */
void account_give_back_here(struct account *account);

/* Gives everything back but bytes, which have passed, and frees the account. */
void account_give_all_back(struct account *account);

/* ---- fleet settle --------------------------------------------------------------------------- */

/* The end of an account after its verdict: bytes that pass, its true cost, or all of it given back.
 * Private to the fleet; as in struct authority_calls. */

void fleet_charge(struct authority *authority, const struct gate_receipt *receipt, uint64_t bytes);
/* Frees the account. */
void fleet_settle(struct authority *authority, const struct gate_receipt *receipt,
	const struct gate_end *end);
/* Frees the account. */
void fleet_refund(struct authority *authority, const struct gate_receipt *receipt);

#endif
