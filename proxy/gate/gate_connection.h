/*
 * Limits of connections ([limit] with unit = connections): a listener's, judged when a connection
 * has come. Only its address is known then.
 *
 *   accepted --gate_judge_connection--> throttle_take --> verdict + receipt
 *   at the end of the connection: throttle_release(receipt) <----'
 */
#ifndef GATE_GATE_CONNECTION_H
#define GATE_GATE_CONNECTION_H

#include "gate/gate.h"

/* Fills `verdict` (its limits only the first limit_count) with ADMIT or REFUSE. ADMIT: `receipt` is
 * what was taken; else it is empty. Its places of concurrency are to be given back by
 * throttle_release at the end of the connection. Limits whose condition does not hold are left out.
 * `now_ns` is the library's time. */
void gate_judge_connection(const struct gate *gate, const struct conf_limits *limits,
	const uint8_t address[16], uint64_t now_ns, struct gate_verdict *verdict,
	struct throttle_receipt *receipt);

/* The verdict that it would give now; takes nothing and counts no refusal. */
void gate_explain_connection(const struct gate *gate, const struct conf_limits *limits,
	const uint8_t address[16], uint64_t now_ns, struct gate_verdict *verdict);

/* Keeps of a receipt only what is to be given back at the end. A reload may have made a limit one
 * of concurrency already that this gate knows as another kind: such a place is given back now. */
void gate_keep_places(const struct gate *gate, const struct gate_verdict *verdict,
	struct throttle_receipt *receipt, uint64_t now_ns);

#endif
