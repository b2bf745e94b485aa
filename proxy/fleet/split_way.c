#include "fleet/split_way.h"

#include "fleet/fleet.h"
#include "fleet/question.h"
#include "worker/worker_clock.h"

static enum way_judge reserve(struct account *account, struct account_charge *charge,
	const struct throttle_charge *asked, struct reserve *reserve)
{
	struct fleet_worker *fleet = account->worker;
	uint64_t now_ns = worker_throttle_ns(fleet->worker);

	switch (split_judge(
		fleet_shares(fleet->authority), asked->limit, &charge->rule, now_ns, reserve)) {
	case SHARE_UNITS:
		return WAY_HERE;
	case SHARE_EXACT:
		return WAY_STORE;
	case SHARE_NONE:
		break;
	}
	return WAY_AWAY;
}

const struct way split_way = {.reserve = reserve};
