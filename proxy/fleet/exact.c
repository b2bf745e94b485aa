#include "fleet/exact.h"

#include "fleet/fleet_part.h"
#include "fleet/question.h"

static enum way_verdict take(struct account *account, struct account_charge *charge)
{
	(void)account;
	(void)charge;
	return WAY_ASK;
}

/* What the store has charged. */
static void give(struct account *account, struct account_charge *charge, uint64_t cost)
{
	struct fleet_batch *filling =
		charge->slot != 0 ? fleet_filling(account->worker, FLEET_JUDGE, 1) : NULL;

	if (!filling)
		return;
	struct batch_charge given = account_batch_charge(charge, cost);
	batch_give(&filling->batch, &given, charge->slot, account->epoch);
}

static void add(struct account *account, struct account_charge *charge, uint64_t cost)
{
	struct fleet_batch *filling = fleet_filling(account->worker, FLEET_JUDGE, 1);

	if (!filling)
		return;
	struct batch_charge more = account_batch_charge(charge, cost);
	batch_charge(&filling->batch, &more);
}

const struct way exact_way = {
	.function = FLEET_JUDGE, .take = take, .look = take, .give = give, .add = add};
