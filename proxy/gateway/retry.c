#include "gateway/retry.h"

#define FIRST_MS 1000

uint64_t retry_after_ms(unsigned failed, unsigned tries, uint64_t random)
{
	if (failed == 0 || failed >= tries || failed > RETRY_TRIES_MOST)
		return 0;
	uint64_t wait_ms = (uint64_t)FIRST_MS << (failed - 1);
	return wait_ms + random % (wait_ms / 10 + 1);
}
