/* Random numbers that nobody needs to be unable to guess: delays that are to differ. */
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include <stdint.h>

/* The next number below `bound`, which is not 0. `*state` is any number at first. */
static inline uint64_t random_below(uint64_t *state, uint64_t bound)
{
	/* SplitMix64 (Steele, Lea, Flood 2014). */
	uint64_t z = *state += UINT64_C(0x9E3779B97F4A7C15);

	z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
	return (z ^ (z >> 31)) % bound;
}

#endif
