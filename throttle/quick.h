/* The common case of a verdict; see quick.c. */
#ifndef THROTTLE_QUICK_H
#define THROTTLE_QUICK_H

#include "throttle/charge.h"

/* Can it be a common case? Told when the limit is laid out. */
bool quick_is_for(const struct limit_state *limit);

/* One charge. False: not here, nothing was done; take.c has to. */
bool quick_take(struct throttle_table *table, const struct throttle_charge *charge, uint64_t now_ns,
	struct throttle_verdict *verdict, struct throttle_receipt *receipt);

#endif
