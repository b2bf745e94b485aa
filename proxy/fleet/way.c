#include "fleet/way.h"

#include <assert.h>

#include "fleet/exact.h"
#include "fleet/lease.h"
#include "fleet/question.h"
#include "fleet/relaxed_way.h"

static const struct way *const ways[] = {
	[CONF_FLEET_EXACT] = &exact_way,
	[CONF_FLEET_LEASE] = &lease_way,
	[CONF_FLEET_SPLIT] = &split_way,
	[CONF_FLEET_RELAXED] = &relaxed_way,
};

const struct way *way_of(enum conf_fleet_way way)
{
	assert(way < sizeof(ways) / sizeof(ways[0]) && ways[way]);
	return ways[way];
}

const struct way *way_for(const struct conf_limit *limit)
{
	enum conf_fleet_way way = limit->fleet_way;

	return way_of(
		way == CONF_FLEET_LEASE && !conf_limit_is_plain(limit) ? CONF_FLEET_EXACT : way);
}

void ways_take_back(struct account *account)
{
	for (unsigned i = 0; i < account->count; i++) {
		struct account_charge *charge = &account->charges[i];
		if (!charge->way || charge->said != WAY_TAKEN)
			continue;
		charge->way->give(account, charge, charge->cost);
		charge->said = charge->way->look(account, charge);
		charge->outcome.violated = false; /* it did fit */
	}
}

unsigned ways_take(struct account *account)
{
	unsigned asks = 0;

	for (unsigned i = 0; i < account->count; i++) {
		struct account_charge *charge = &account->charges[i];
		if (!charge->way || charge->said == WAY_UNTAKEN)
			continue;
		charge->said = account->refused ? charge->way->look(account, charge)
						: charge->way->take(account, charge);
		account->refused |= charge->said == WAY_UNTAKEN && charge->outcome.violated &&
				    !charge->rule.shadow;
		asks += charge->said == WAY_ASK;
	}
	if (account->refused)
		ways_take_back(account);
	return asks;
}
