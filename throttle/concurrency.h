/* Functions of the concurrency kind that opening a table needs. See concurrency.c. */
#ifndef THROTTLE_CONCURRENCY_H
#define THROTTLE_CONCURRENCY_H

#include "throttle/entry.h"

#define CONCURRENCY_LANES    4
#define CONCURRENCY_MAX      8191                 /* in flight, of one caller */
#define CONCURRENCY_RETRY_NS UINT64_C(1000000000) /* told to who is refused: there's no knowing */

/* In a head: the bucket's overflow is to be counted, too. */
#define CONCURRENCY_SHARED (UINT64_C(1) << (HEAD_OWN_BITS - 1))

/* A plan of such a head, with what the overflow has in flight. */
void concurrency_share(
	const struct shape *shape, struct plan *plan, uint64_t cost, uint64_t shared);

/* Forgets requests in flight in processes that have ended: those of these lanes, bits. */
void concurrency_clear_lanes(struct entry *e, unsigned lanes);

#endif
