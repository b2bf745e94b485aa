/*
 * A minimum rate: how long a peer that we wait for may continue.
 *
 *   credit  at first the grace; it is spent while we wait, and each byte that the peer moves pays
 *           1/per_second of it back, up to the grace
 *   spent   too slow
 *
 * So in any stretch of waiting of length T a peer that is not too slow moves at least
 * per_second * (T - grace) bytes. Time in which we do not wait for it costs nothing, and what it
 * moved faster than it had to buys no more than the grace.
 *
 * Pure logic: time is passed in.
 */
#ifndef HTTP1_MIN_RATE_H
#define HTTP1_MIN_RATE_H

#include <stdbool.h>
#include <stdint.h>

struct min_rate {
	uint64_t per_second; /* bytes; 0: none is asked for */
	uint64_t grace_ns;
	uint64_t credit_ns;
	uint64_t bytes;   /* that the peer had moved at the last look */
	uint64_t look_ns; /* when that was; 0: we do not wait for it */
};

/* From the beginning, with all of the grace. We do not wait yet. */
void min_rate_begin(struct min_rate *rate, uint64_t per_second, uint64_t grace_ms, uint64_t bytes);

/* We wait for the peer, which has moved so many bytes in all; a count that begins again pays
 * nothing. Returns the credit that is left, in ns; 0: too slow, and it stays so. With a rate only.
 */
uint64_t min_rate_look(struct min_rate *rate, uint64_t bytes, uint64_t now_ns);

/* We do not wait for it any more. */
void min_rate_pause(struct min_rate *rate, uint64_t bytes, uint64_t now_ns);

#endif
