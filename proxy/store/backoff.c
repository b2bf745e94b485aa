#include "store/backoff.h"

enum { FIRST_MS = 50, MOST_MS = 5000, DOUBLINGS_MOST = 7 };

static uint64_t next_random(struct backoff *backoff)
{
	/* xorshift64 (Marsaglia 2003) */
	backoff->random ^= backoff->random << 13;
	backoff->random ^= backoff->random >> 7;
	backoff->random ^= backoff->random << 17;
	return backoff->random;
}

uint64_t backoff_next_ms(struct backoff *backoff)
{
	unsigned doublings =
		backoff->failures < DOUBLINGS_MOST ? backoff->failures : DOUBLINGS_MOST;
	uint64_t most_ms = (uint64_t)FIRST_MS << doublings;

	if (most_ms > MOST_MS)
		most_ms = MOST_MS;
	backoff->failures++;
	return most_ms / 2 + next_random(backoff) % (most_ms / 2 + 1);
}
