/* How long to wait before something that failed is tried again: half of a time that doubles, and a
 * random part of the other half. So nodes that lost the store at once do not come back at once. */
#ifndef STORE_BACKOFF_H
#define STORE_BACKOFF_H

#include <stdint.h>

struct backoff {
	unsigned failures; /* in a row */
	uint64_t random;   /* not 0 */
};

/* Counts a failure. Returns milliseconds. */
uint64_t backoff_next_ms(struct backoff *backoff);

#endif
