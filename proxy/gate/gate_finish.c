/* Charges of a request after its admission: its bytes, its cost, or nothing. */
#include "gate/gate.h"

#include "gate/gate_internal.h"

void gate_charge_bytes(
	const struct gate *gate, struct gate_receipt *receipt, uint64_t bytes, uint64_t now_ns)
{
	if (bytes <= receipt->bytes_charged || receipt->in_bytes == 0)
		return;
	uint64_t more = bytes - receipt->bytes_charged;
	if (receipt->authority)
		receipt->authority->calls->charge(receipt->authority, receipt, more);
	for (uint32_t i = 0; !receipt->authority && i < receipt->throttle.count; i++) {
		if (receipt->in_bytes >> i & 1)
			throttle_charge(gate->throttles, &receipt->throttle, i, more, now_ns);
	}
	receipt->bytes_charged = bytes;
}

static void settle_bytes(
	const struct gate *gate, struct gate_receipt *receipt, uint64_t bytes, uint64_t now_ns)
{
	for (uint32_t i = 0; i < receipt->throttle.count; i++) {
		if (receipt->in_bytes >> i & 1)
			throttle_settle(gate->throttles, &receipt->throttle, i, bytes, now_ns);
	}
	receipt->bytes_charged = bytes;
	receipt->holds_bytes = bytes > 0;
}

void gate_hold_bytes(
	const struct gate *gate, struct gate_receipt *receipt, uint64_t bytes, uint64_t now_ns)
{
	if (receipt->in_bytes != 0 && !receipt->authority)
		settle_bytes(gate, receipt, bytes, now_ns);
}

static void clear_receipt(struct gate_receipt *receipt)
{
	receipt->authority = NULL;
	receipt->throttle.count = 0;
	receipt->in_bytes = receipt->by_cost = receipt->in_flight = 0;
}

bool gate_finish_plain(
	const struct conf_route *route, struct gate_receipt *receipt, const struct gate_end *end)
{
	if (receipt->authority)
		return false;
	if (receipt->throttle.count > 0 &&
		(end->never_forwarded || receipt->in_flight || receipt->in_bytes ||
			(end->has_cost && receipt->by_cost) ||
			gate_is_refunded(route, end->status)))
		return false;
	clear_receipt(receipt);
	return true;
}

/* The same, for what another authority has admitted. */
static void finish_elsewhere(const struct gate *gate, const struct conf_route *route,
	struct gate_receipt *receipt, const struct gate_end *end, uint64_t now_ns)
{
	struct authority *authority = receipt->authority;

	if (receipt->in_bytes != 0)
		gate_charge_bytes(gate, receipt, end->bytes, now_ns);
	if (end->never_forwarded || gate_is_refunded(route, end->status))
		authority->calls->refund(authority, receipt);
	else
		authority->calls->settle(authority, receipt, end);
}

void gate_finish(const struct gate *gate, const struct conf_route *route,
	struct gate_receipt *receipt, const struct gate_end *end, uint64_t now_ns)
{
	if (gate_finish_plain(route, receipt, end))
		return;
	if (receipt->authority) {
		finish_elsewhere(gate, route, receipt, end, now_ns);
	} else if (end->never_forwarded || gate_is_refunded(route, end->status)) {
		/* Bytes that have passed are never given back. */
		if (receipt->holds_bytes && !end->never_forwarded)
			settle_bytes(gate, receipt, 0, now_ns);
		gate_charge_bytes(gate, receipt, end->bytes, now_ns);
		throttle_refund_all(gate->throttles, &receipt->throttle, now_ns);
	} else {
		for (uint32_t i = 0; end->has_cost && i < receipt->throttle.count; i++) {
			if (receipt->by_cost >> i & 1)
				throttle_settle(
					gate->throttles, &receipt->throttle, i, end->cost, now_ns);
		}
		gate_charge_bytes(gate, receipt, end->bytes, now_ns);
		throttle_release(gate->throttles, &receipt->throttle, now_ns);
	}
	clear_receipt(receipt);
}
