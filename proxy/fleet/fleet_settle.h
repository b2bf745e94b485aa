/* The end of an account after its verdict: bytes that pass, its true cost, or all of it given back.
 * Private to the fleet; as in struct authority_calls. */
#ifndef FLEET_FLEET_SETTLE_H
#define FLEET_FLEET_SETTLE_H

#include "gate/authority.h"

void fleet_charge(struct authority *authority, const struct gate_receipt *receipt, uint64_t bytes);
/* Frees the account. */
void fleet_settle(struct authority *authority, const struct gate_receipt *receipt,
	const struct gate_end *end);
/* Frees the account. */
void fleet_refund(struct authority *authority, const struct gate_receipt *receipt);

#endif
