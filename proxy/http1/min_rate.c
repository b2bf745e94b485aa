#include "http1/min_rate.h"

#include "base/clock.h"

void min_rate_begin(struct min_rate *rate, uint64_t per_second, uint64_t grace_ms, uint64_t bytes)
{
	*rate = (struct min_rate){
		.per_second = per_second,
		.grace_ns = grace_ms * CLOCK_NS_PER_MS,
		.credit_ns = grace_ms * CLOCK_NS_PER_MS,
		.bytes = bytes,
	};
}

/* The time that so many bytes are worth, up to `most_ns` and a second. */
static uint64_t worth_ns(const struct min_rate *rate, uint64_t bytes, uint64_t most_ns)
{
	if (bytes / rate->per_second >= most_ns / CLOCK_NS_PER_S + 1)
		return most_ns;
	/* below (most in seconds + 1) seconds, so no overflow with a grace of days */
	return bytes / rate->per_second * CLOCK_NS_PER_S +
	       bytes % rate->per_second * CLOCK_NS_PER_S / rate->per_second;
}

uint64_t min_rate_look(struct min_rate *rate, uint64_t bytes, uint64_t now_ns)
{
	uint64_t waited_ns = rate->look_ns != 0 ? now_ns - rate->look_ns : 0;
	uint64_t moved = bytes > rate->bytes ? bytes - rate->bytes : 0;
	/* All of the wait may be paid for: a look that is late, as the loop was held up, finds
	 * the bytes of all that time at once. */
	uint64_t have_ns = rate->credit_ns + worth_ns(rate, moved, rate->grace_ns + waited_ns);

	/* Spent when it came: what comes after that is too late. */
	if (rate->credit_ns == 0 || waited_ns >= have_ns) {
		rate->credit_ns = 0;
		return 0;
	}
	rate->credit_ns = have_ns - waited_ns;
	if (rate->credit_ns > rate->grace_ns)
		rate->credit_ns = rate->grace_ns;
	rate->bytes = bytes;
	rate->look_ns = now_ns;
	return rate->credit_ns;
}

void min_rate_pause(struct min_rate *rate, uint64_t bytes, uint64_t now_ns)
{
	if (rate->look_ns == 0)
		return;
	min_rate_look(rate, bytes, now_ns);
	rate->look_ns = 0;
}
