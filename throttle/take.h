/* The two ways of throttle_take: the common case in quick.c, and all of it in take.c. */
#ifndef THROTTLE_TAKE_H
#define THROTTLE_TAKE_H

#include "throttle/charge.h"

/* As throttle_take, whatever the limits are and other threads do. */
int take_slowly(struct throttle_table *table, const struct throttle_charge *charges, size_t count,
	uint64_t now_ns, struct throttle_verdict *verdict, struct throttle_receipt *receipt);

#endif
