#include "websocket/sockets.h"

#include <stdlib.h>
#include <unistd.h>

struct websockets *websockets_new(void)
{
	struct websockets *all = calloc(1, sizeof(*all));

	if (!all || getentropy(&all->random, sizeof(all->random)) != 0) {
		free(all);
		return NULL;
	}
	frame_pool_init(&all->frames);
	return all;
}

void websockets_free(struct websockets *all)
{
	if (all)
		frame_pool_clear(&all->frames);
	free(all);
}

uint64_t websockets_random_below(struct websockets *all, uint64_t bound)
{
	/* SplitMix64 (Steele, Lea, Flood 2014). */
	uint64_t z = all->random += UINT64_C(0x9E3779B97F4A7C15);

	z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
	return (z ^ (z >> 31)) % bound;
}
