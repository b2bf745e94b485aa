#include "fleet/own.h"

#include "fleet/debts.h"
#include "fleet/fleet.h"
#include "fleet/ladder.h"
#include "fleet/question.h"
#include "fleet/reserve.h"
#include "site/site.h"
#include "site/site_use.h"
#include "worker/node.h"
#include "worker/worker.h"
#include "worker/worker_clock.h"

/* Charges of an account, in the order in which the table gets them. */
struct picked {
	struct throttle_charge charges[GATE_LIMITS_MAX];
	unsigned places[GATE_LIMITS_MAX]; /* in the account */
	unsigned count;
};

static struct throttle_table *table_of(const struct account *account)
{
	return account->worker->worker->node->throttles;
}

static uint64_t now_of(const struct account *account)
{
	return worker_throttle_ns(account->worker->worker);
}

static void pick(const struct account *account, unsigned i, struct picked *picked)
{
	const struct account_charge *charge = &account->charges[i];

	picked->charges[picked->count] =
		(struct throttle_charge){charge->number, charge->own_caller, charge->cost};
	picked->places[picked->count++] = i;
}

/* What the table has taken becomes part of the account's receipt: all of them, of which a full
 * shadow limit's has nothing to give back. */
static void keep(struct account *account, const struct picked *picked,
	const struct throttle_receipt *receipt)
{
	for (unsigned i = 0; i < picked->count; i++) {
		account->charges[picked->places[i]].own = (int)account->own.count;
		account->own.held[account->own.count++] = receipt->held[i];
	}
}

/* ---- while the store is well ----------------------------------------------------------------- */

/* The store has admitted more than the table holds for a caller: by its clock some of it is over.
 * That is charged all the same. */
static void force(struct account *account, const struct picked *picked,
	struct throttle_receipt *receipt, uint64_t now_ns)
{
	receipt->count = picked->count;
	for (unsigned i = 0; i < picked->count; i++) {
		receipt->held[i] = (struct throttle_held){
			.limit = picked->charges[i].limit, .caller = picked->charges[i].caller};
		throttle_settle(table_of(account), receipt, i, picked->charges[i].cost, now_ns);
	}
}

void own_count(struct account *account)
{
	struct throttle_receipt receipt;
	struct throttle_verdict verdict;
	struct picked picked;

	picked.count = 0;
	for (unsigned i = 0; i < account->count; i++) {
		const struct account_charge *charge = &account->charges[i];
		if (charge->way && charge->down == CONF_STORE_DOWN_LOCAL && charge->own < 0 &&
			charge->cost > 0)
			pick(account, i, &picked);
	}
	if (picked.count == 0)
		return;
	uint64_t now_ns = account->now_ns;
	throttle_take(table_of(account), picked.charges, picked.count, now_ns, &verdict, &receipt);
	if (!verdict.admitted)
		force(account, &picked, &receipt, now_ns);
	keep(account, &picked, &receipt);
}

/* ---- shares ---------------------------------------------------------------------------------- */

static bool is_on(const struct account_charge *charge, enum rung rung)
{
	return charge->way && charge->rung == rung && charge->own < 0 && charge->said == WAY_ASK;
}

static void refuse(struct account *account, const struct picked *picked,
	const struct throttle_verdict *verdict)
{
	for (unsigned i = 0; i < picked->count; i++) {
		struct account_charge *charge = &account->charges[picked->places[i]];
		charge->said = WAY_UNTAKEN;
		charge->outcome = verdict->outcome[i];
	}
	account->refused = true;
}

bool own_take_share(struct account *account, enum rung rung)
{
	struct reserve reserves[GATE_LIMITS_MAX];
	struct throttle_receipt receipt;
	struct throttle_verdict verdict;
	struct picked picked;

	picked.count = 0;
	for (unsigned i = 0; i < account->count; i++) {
		struct account_charge *charge = &account->charges[i];
		if (!is_on(charge, rung))
			continue;
		reserves[picked.count] = (struct reserve){
			.units = charge->quota - charge->share, .quota = charge->quota};
		pick(account, i, &picked);
	}
	if (picked.count == 0)
		return true;
	reserve_take(table_of(account), picked.charges, reserves, picked.count, account->now_ns,
		&verdict, &receipt);
	if (!verdict.admitted) {
		refuse(account, &picked, &verdict);
		return false;
	}
	for (unsigned i = 0; i < picked.count; i++)
		account->charges[picked.places[i]].outcome = verdict.outcome[i];
	keep(account, &picked, &receipt);
	return true;
}

void own_take_beside(struct account *account)
{
	bool is_shared = false;

	for (unsigned i = 0; i < account->count; i++)
		is_shared |= account->charges[i].way && account->charges[i].is_shared;
	if (account->refused || !own_take_share(account, RUNG_RETURNING) || !is_shared)
		return;
	own_take_share(account, RUNG_SHARE);
}

/* ---- debts ----------------------------------------------------------------------------------- */

static struct debt debt_of(const struct account_charge *charge)
{
	return (struct debt){
		.caller = charge->caller,
		.rule = charge->rule,
		.limit = charge->limit,
		.is_leased = charge->way->function == FLEET_LEASE,
	};
}

static void take_back(struct account *account, struct account_charge *charge, uint64_t cost)
{
	struct debt of = debt_of(charge);

	debts_take_back(
		fleet_debts(account->worker->authority), &of, cost, now_of(account), &charge->owed);
}

/* As many as the node's table has room for. */
static size_t callers_of(const struct account *account)
{
	return (size_t)site_part(account->worker->worker)->use->site->conf->totals.callers;
}

bool own_owe(struct account *account)
{
	struct debts *debts = fleet_debts(account->worker->authority);
	size_t most = callers_of(account);

	for (unsigned i = 0; i < account->count; i++) {
		struct account_charge *charge = &account->charges[i];
		if (!charge->way || charge->said != WAY_ASK || charge->rung != RUNG_SHARE)
			continue;
		struct debt of = debt_of(charge);
		if (!debts_add(debts, &of, charge->cost, most, now_of(account), &charge->owed))
			return false;
		charge->said = WAY_TAKEN;
		charge->slot = 0; /* nothing at the store */
		charge->is_owed = true;
	}
	return true;
}

void own_give_back(struct account *account)
{
	for (unsigned i = 0; i < account->count; i++) {
		struct account_charge *charge = &account->charges[i];
		if (charge->way && charge->is_owed)
			take_back(account, charge, charge->cost);
		charge->is_owed = false;
		charge->own = -1;
	}
	if (account->own.count > 0)
		throttle_refund_all(table_of(account), &account->own, now_of(account));
}

void own_settle(struct account *account, struct account_charge *charge, uint64_t cost)
{
	struct debt of;

	if (charge->own >= 0)
		throttle_settle(table_of(account), &account->own, (uint32_t)charge->own, cost,
			now_of(account));
	if (!charge->is_owed)
		return;
	of = debt_of(charge);
	if (cost < charge->cost)
		take_back(account, charge, charge->cost - cost);
	else if (cost > charge->cost)
		debts_add(fleet_debts(account->worker->authority), &of, cost - charge->cost,
			callers_of(account), now_of(account), NULL);
}
