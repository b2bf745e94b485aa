/* A receipt for long: what is still to be settled of it, in as little memory as that takes. */
#ifndef GATE_KEPT_RECEIPT_H
#define GATE_KEPT_RECEIPT_H

#include "gate/gate.h"

struct kept_receipt;

/* The caller frees it. NULL without memory. */
struct kept_receipt *kept_receipt_new(const struct gate_receipt *receipt);

/* The receipt again. */
void kept_receipt_open(const struct kept_receipt *kept, struct gate_receipt *receipt);

/* Is any of it charged by the byte? */
bool kept_receipt_has_bytes(const struct kept_receipt *kept);

/* As gate_charge_bytes. */
void kept_receipt_charge_bytes(
	const struct gate *gate, struct kept_receipt *kept, uint64_t bytes, uint64_t now_ns);

#endif
