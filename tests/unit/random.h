/* Random numbers for tests that print their seed: SEED=n in the environment runs one again. */
#ifndef TESTS_UNIT_RANDOM_H
#define TESTS_UNIT_RANDOM_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

struct random {
	uint64_t state;
};

static inline uint64_t random_next(struct random *random)
{
	/* SplitMix64. */
	uint64_t z = random->state += 0x9E3779B97F4A7C15ULL;

	z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
	z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
	return z ^ (z >> 31);
}

/* 0 <= result < bound. */
static inline size_t random_below(struct random *random, size_t bound)
{
	return (size_t)(random_next(random) % bound);
}

/* Seeded from the environment, else by time; says so as a TAP comment. */
static inline struct random random_begin(const char *what)
{
	const char *given = getenv("SEED");
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	uint64_t seed =
		given ? strtoull(given, NULL, 0)
		      : (uint64_t)now.tv_nsec ^ ((uint64_t)now.tv_sec << 20) ^ (uint64_t)getpid();
	printf("# %s: SEED=%llu\n", what, (unsigned long long)seed);
	return (struct random){seed};
}

#endif
