#include "fleet/fleet_account.h"

#include "fleet/fleet.h"
#include "fleet/fleet_part.h"
#include "fleet/ladder.h"
#include "fleet/own.h"
#include "fleet/question.h"
#include "fleet/reserve.h"
#include "fleet/way.h"
#include "worker/worker_clock.h"

/* Limits of a request that the node's table judges. */
struct own_limits {
	struct throttle_charge charges[GATE_LIMITS_MAX];
	struct reserve reserves[GATE_LIMITS_MAX];
	unsigned count;
	bool has_reserve;
};

/* What the store is to know of it. False without memory. */
static bool describe(
	struct fleet_worker *fleet, struct account_charge *charge, const struct conf_limit *limit)
{
	const struct limit_facts *facts = limit_facts_of(fleet, limit);

	if (!facts)
		return false;
	charge->rule = facts->rule;
	charge->limit = facts->name;
	charge->name_hash = facts->name_hash;
	charge->way = facts->way;
	charge->down = facts->down;
	if (charge->rule.kind == RULE_CALENDAR)
		charge->rule.edges = period_edges(&fleet->periods, limit, fleet_store_us(fleet));
	return charge->rule.edges || charge->rule.kind != RULE_CALENDAR;
}

/* Of the fleet: by its way, or by the node's table with a reserve. */
static void open_shared(struct account *account, struct account_charge *charge,
	const struct conf_limit *limit, const struct throttle_charge *asked, struct own_limits *own)
{
	const struct way *way = charge->way;

	rule_set_waits(
		&charge->rule, charge->down, fleet_knows_epoch(account->worker, charge->caller));
	charge->quota = limit->amount;
	charge->number = asked->limit;
	charge->own_caller = asked->caller;
	if (!way->reserve)
		return;
	charge->way = way_of(CONF_FLEET_EXACT);
	switch (way->reserve(account, charge, asked, &own->reserves[own->count])) {
	case WAY_HERE:
		charge->way = NULL;
		charge->here = way;
		charge->reserved = own->reserves[own->count].units;
		own->has_reserve = true;
		break;
	case WAY_AWAY:
		account->is_away = true;
		break;
	case WAY_STORE:
		break;
	}
}

static bool open_charge(struct account *account, const struct gate_identity *identity, unsigned i,
	const struct throttle_charge *asked, struct own_limits *own)
{
	const struct conf_limit *limit = gate_limit_at(identity, i);
	struct account_charge *charge = &account->charges[i];

	charge->cost = asked->cost;
	charge->slot = charge->epoch = charge->bytes = 0;
	charge->hand = NULL;
	charge->hold = NULL;
	charge->delay_max_ns = limit->delay_max_ms * CLOCK_NS_PER_MS;
	charge->local = -1;
	charge->way = charge->here = NULL;
	charge->reserved = 0;
	charge->noted = 0;
	charge->said = WAY_ASK;
	charge->rung = RUNG_STORE;
	charge->own = -1;
	charge->is_owed = charge->is_shared = false;
	charge->late_ns = 0;
	own->reserves[own->count] = (struct reserve){0};
	if (limit->of_fleet) {
		charge->caller = identity->shared[i];
		if (!describe(account->worker, charge, limit))
			return false;
		open_shared(account, charge, limit, asked, own);
	}
	if (!charge->way) {
		charge->local = (int)own->count;
		own->charges[own->count++] = *asked;
	}
	return true;
}

/* The limits of a request, and the node's table's verdict over those that it judges. NULL without
 * memory. */
struct account *account_open(struct fleet_worker *fleet, const struct authority_question *question,
	struct throttle_verdict *local)
{
	struct throttle_charge charges[GATE_LIMITS_MAX];
	struct own_limits own;
	struct account *account = account_new(fleet);

	if (!account)
		return NULL;
	account->now_ns = question->now_ns;
	account->sites = fleet->limits.sites;
	account->count = gate_charges(question->identity, charges);
	own.count = 0;
	own.has_reserve = false;
	for (unsigned i = 0; i < account->count; i++) {
		if (!open_charge(account, question->identity, i, &charges[i], &own)) {
			account_free(account);
			return NULL;
		}
	}
	local->admitted = true;
	local->count = 0;
	if (own.has_reserve)
		reserve_take(fleet_throttles(fleet->authority), own.charges, own.reserves,
			own.count, account->now_ns, local, &account->local);
	else if (own.count > 0)
		throttle_take(fleet_throttles(fleet->authority), own.charges, own.count,
			account->now_ns, local, &account->local);
	account->refused = !local->admitted;
	return account;
}

/* So much was charged by the node's table, or given back, of a limit that others share. */
void account_note(struct account *account, struct account_charge *charge, int64_t units)
{
	if (charge->here && charge->here->note && units != 0)
		charge->here->note(account, charge, units);
}

void account_give_back_here(struct account *account)
{
	throttle_refund_all(fleet_throttles(account->worker->authority), &account->local,
		worker_throttle_ns(account->worker->worker));
	own_give_back(account);
}

/* By a window that was shorter before, the store would drop what others have used of the longer
 * one. Holders have no window. */
static void take_limit(struct fleet_worker *fleet, struct account_charge *charge)
{
	const struct limit_facts *facts = limit_facts_named(fleet, charge->limit);

	if (!facts || facts->rule.kind != charge->rule.kind || facts->rule.kind == RULE_HOLDERS)
		return;
	struct rule rule = facts->rule;
	rule.waits = charge->rule.waits;
	rule.waits_young = charge->rule.waits_young;
	if (rule.kind == RULE_CALENDAR)
		rule.edges = period_edges(&fleet->periods, facts->limit, fleet_store_us(fleet));
	if (rule_is_same(&rule, &charge->rule) || (rule.kind == RULE_CALENDAR && !rule.edges))
		return;
	charge->rule = rule;
	charge->slot = charge->taken_ns = 0; /* nothing of it goes back */
}

void account_take_new_site(struct account *account)
{
	account->sites = account->worker->limits.sites;
	for (unsigned i = 0; i < account->count; i++) {
		if (account->charges[i].way || account->charges[i].here)
			take_limit(account->worker, &account->charges[i]);
	}
}

/* Those that have passed and are not charged yet. */
void account_charge_bytes(struct account *account, struct account_charge *charge)
{
	if (charge->bytes > 0)
		charge->way->add(account, charge, charge->bytes);
	charge->bytes = 0;
}

/* But for bytes, which have passed. */
void account_give_all_back(struct account *account)
{
	account_take_site(account);
	for (unsigned i = 0; i < account->count; i++) {
		struct account_charge *charge = &account->charges[i];
		account_charge_bytes(account, charge);
		if (charge->way && charge->said != WAY_UNTAKEN)
			charge->way->give(account, charge, charge->cost);
		account_note(account, charge, -charge->noted);
	}
	account_give_back_here(account);
	account_free(account);
}

/* ---- fleet settle --------------------------------------------------------------------------- */

/* Bytes that have passed are charged so many at once, or this part of their quota if it is less. */
#define BYTES_AT_ONCE (UINT64_C(64) << 10)
#define BYTES_PART    64

static struct account *account_of(const struct gate_receipt *receipt)
{
	return (struct account *)(uintptr_t)receipt->account;
}

static void pass_bytes(struct account *account, struct account_charge *charge, uint64_t bytes)
{
	charge->bytes += bytes;
	if (charge->bytes >= BYTES_AT_ONCE || charge->bytes >= charge->rule.quota / BYTES_PART)
		account_charge_bytes(account, charge);
}

void fleet_charge(struct authority *authority, const struct gate_receipt *receipt, uint64_t bytes)
{
	struct account *account = account_of(receipt);

	(void)authority;
	account_take_site(account);
	for (unsigned i = 0; i < account->count; i++) {
		struct account_charge *charge_of_limit = &account->charges[i];
		int local = charge_of_limit->local;
		if (!(receipt->in_bytes >> i & 1))
			continue;
		if (local < 0) {
			pass_bytes(account, charge_of_limit, bytes);
			continue;
		}
		throttle_charge(fleet_throttles(account->worker->authority), &account->local,
			(uint32_t)local, bytes, worker_throttle_ns(account->worker->worker));
		account_note(account, charge_of_limit, (int64_t)bytes);
	}
}

/* The true cost of a limit of the fleet: what was too much goes back, the rest is charged. */
static void correct(struct account *account, struct account_charge *charge, uint64_t cost)
{
	own_settle(account, charge, cost);
	if (charge->is_owed)
		return;
	if (cost < charge->cost)
		charge->way->give(account, charge, charge->cost - cost);
	else if (cost > charge->cost)
		charge->way->add(account, charge, cost - charge->cost);
}

/* The exchange is over: what is in flight comes back, and its last bytes are charged. */
static void end_shared(struct account *account, struct account_charge *charge)
{
	account_charge_bytes(account, charge);
	if (charge->rule.kind == RULE_HOLDERS)
		charge->way->give(account, charge, charge->cost);
}

/* The table of this node bounds what it counts by itself. */
static uint64_t true_cost(const struct account_charge *charge, uint64_t cost)
{
	uint64_t most = rule_cost_most(&charge->rule);

	return cost < most ? cost : most;
}

void fleet_settle(
	struct authority *authority, const struct gate_receipt *receipt, const struct gate_end *end)
{
	struct account *account = account_of(receipt);
	struct throttle_table *table = fleet_throttles(account->worker->authority);
	/* Most have nothing more to say to the node's table. */
	uint64_t now_ns =
		account->local.count > 0 ? worker_throttle_ns(account->worker->worker) : 0;

	(void)authority;
	account_take_site(account);
	for (unsigned i = 0; i < account->count; i++) {
		struct account_charge *charge_of_limit = &account->charges[i];
		if (charge_of_limit->local < 0)
			end_shared(account, charge_of_limit);
		if (!end->has_cost || !(receipt->by_cost >> i & 1))
			continue;
		if (charge_of_limit->local < 0) {
			correct(account, charge_of_limit, true_cost(charge_of_limit, end->cost));
			continue;
		}
		throttle_settle(table, &account->local, (uint32_t)charge_of_limit->local, end->cost,
			now_ns);
		if (charge_of_limit->here)
			account_note(account, charge_of_limit,
				(int64_t)true_cost(charge_of_limit, end->cost) -
					charge_of_limit->noted);
	}
	if (account->local.count > 0)
		throttle_release(table, &account->local, now_ns);
	account_free(account);
}

void fleet_refund(struct authority *authority, const struct gate_receipt *receipt)
{
	(void)authority;
	account_give_all_back(account_of(receipt));
}
