#include "gate/kept_receipt.h"

#include <stdlib.h>
#include <string.h>

/* A receipt without the room for what it does not hold. */
struct kept_receipt {
	struct authority *authority;
	uint64_t account, bytes_charged;
	uint32_t in_bytes, by_cost, in_flight;
	uint32_t count;
	struct throttle_held held[];
};

static void copy_held(struct kept_receipt *kept, const struct gate_receipt *receipt)
{
	kept->bytes_charged = receipt->bytes_charged;
	kept->count = receipt->throttle.count;
	memcpy(kept->held, receipt->throttle.held, kept->count * sizeof(kept->held[0]));
}

struct kept_receipt *kept_receipt_new(const struct gate_receipt *receipt)
{
	struct kept_receipt *kept =
		malloc(sizeof(*kept) + receipt->throttle.count * sizeof(kept->held[0]));

	if (!kept)
		return NULL;
	kept->authority = receipt->authority;
	kept->account = receipt->account;
	kept->in_bytes = receipt->in_bytes;
	kept->by_cost = receipt->by_cost;
	kept->in_flight = receipt->in_flight;
	copy_held(kept, receipt);
	return kept;
}

void kept_receipt_open(const struct kept_receipt *kept, struct gate_receipt *receipt)
{
	receipt->authority = kept->authority;
	receipt->account = kept->account;
	receipt->in_bytes = kept->in_bytes;
	receipt->by_cost = kept->by_cost;
	receipt->in_flight = kept->in_flight;
	receipt->bytes_charged = kept->bytes_charged;
	receipt->throttle.count = kept->count;
	memcpy(receipt->throttle.held, kept->held, kept->count * sizeof(kept->held[0]));
}

bool kept_receipt_has_bytes(const struct kept_receipt *kept)
{
	return kept->in_bytes != 0;
}

void kept_receipt_charge_bytes(
	const struct gate *gate, struct kept_receipt *kept, uint64_t bytes, uint64_t now_ns)
{
	struct gate_receipt receipt;

	if (kept->in_bytes == 0 || bytes <= kept->bytes_charged)
		return;
	kept_receipt_open(kept, &receipt);
	gate_charge_bytes(gate, &receipt, bytes, now_ns);
	copy_held(kept, &receipt);
}
