#include "fleet/fleet_calls.h"

#include "fleet/fleet_ask.h"
#include "fleet/fleet_account.h"

const struct authority_calls fleet_calls = {
	.admit = fleet_admit,
	.ask = fleet_ask,
	.expire = fleet_expire,
	.cancel = fleet_cancel,
	.charge = fleet_charge,
	.settle = fleet_settle,
	.refund = fleet_refund,
};
