/*
 * The command of a model that replays random schedules, and leaves a part of its rule out when
 * asked:
 *
 *   NAME [--seed N] [--schedules N] [--without PART]
 */
#ifndef TESTS_MODEL_SCHEDULES_H
#define TESTS_MODEL_SCHEDULES_H

#include <stdbool.h>
#include <stdint.h>

enum { SCHEDULES_PARTS_MOST = 8 };

struct schedules {
	const char *name;
	uint64_t count; /* unless --schedules says otherwise */
	/* The words of --without, by the numbers that `run` gets; number 0, the whole rule, has
	 * none. */
	const char *parts[SCHEDULES_PARTS_MOST];
	/* Replays the schedule of this seed. False: it broke the promise. */
	bool (*run)(void *own, uint64_t seed, unsigned without);
	void *own;
};

/* Runs schedules until one breaks the promise, and prints the first that does and how many ran.
 * Returns the exit status: 0 all held, 1 one broke it. Exits with 2 for arguments that are wrong.
 */
int schedules_main(const struct schedules *schedules, int argc, char **argv);

#endif
