/*
 * The admissions of this node itself for limits of the fleet with store_down = local: counted in
 * the node's table under the limit's name while the store is well, so that its share of the limit
 * (rung.h) can be judged when the store is not. Private to the fleet.
 *
 *   admitted by the store or a lease --own_count--> table <--own_take_share-- RETURNING, SHARE
 *                                                     |                          `--> debts
 *                                   account->own, the receipt <-- give back, settle
 *
 * All are called on the thread of the account's worker.
 */
#ifndef FLEET_OWN_H
#define FLEET_OWN_H

#include <stdbool.h>
#include <stdint.h>

#include "fleet/rung.h"

struct account;
struct account_charge;

/* The request is admitted: counts it by those of its limits that have not counted it yet. */
void own_count(struct account *account);

/* Takes what must fit into the node's shares beside the store's verdict or a lease: charges on
 * RETURNING, and of callers that a share has admitted (rung.h). */
void own_take_beside(struct account *account);

/* Takes the account's charges on this rung (SHARE: those that the store would be asked about) out
 * of the node's shares, all or none. False: they refuse; their outcomes say so, and
 * account->refused. */
bool own_take_share(struct account *account, enum rung rung);

/* The request is admitted by shares: notes what the store is to be told. False: no room. */
bool own_owe(struct account *account);

/* Gives back all that was counted or taken, and owed. */
void own_give_back(struct account *account);

/* This charge's true cost is known. */
void own_settle(struct account *account, struct account_charge *charge, uint64_t cost);

#endif
