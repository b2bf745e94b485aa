#include "fleet/fleet_settle.h"

#include "fleet/fleet_account.h"
#include "fleet/fleet.h"
#include "fleet/own.h"
#include "fleet/question.h"
#include "fleet/way.h"
#include "worker/worker_clock.h"

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
