/*
 * What a ring limit may and must do, by a plain list of what was admitted. Slow, and easy to
 * believe.
 *
 * A log holds each admission with the time at which it was recorded. may() is the promise: never
 * more than L in a window. must() is its other side: what fits has to be admitted, `slack_ns` later
 * than it fits at the latest.
 */
#ifndef TESTS_THROTTLE_ORACLE_H
#define TESTS_THROTTLE_ORACLE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ORACLE_ROOM 65536

struct oracle_log {
	uint64_t at[ORACLE_ROOM], cost[ORACLE_ROOM];
	uint32_t first, end; /* those before `first` are older than any window */
};

static inline uint64_t oracle_random(uint64_t *state)
{
	uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

/* 0 .. n - 1 */
static inline uint64_t oracle_below(uint64_t *state, uint64_t n)
{
	return n == 0 ? 0 : oracle_random(state) % n;
}

static inline uint64_t oracle_seed(const char *variable)
{
	const char *text = getenv(variable);

	return text != NULL ? strtoull(text, NULL, 0) : 1;
}

static inline uint64_t oracle_steps(const char *variable, uint64_t otherwise)
{
	const char *text = getenv(variable);

	return text != NULL ? strtoull(text, NULL, 0) : otherwise;
}

static inline void oracle_add(struct oracle_log *log, uint64_t at, uint64_t cost)
{
	if (log->end == ORACLE_ROOM) {
		uint32_t kept = log->end - log->first;

		memmove(log->at, log->at + log->first, kept * sizeof(log->at[0]));
		memmove(log->cost, log->cost + log->first, kept * sizeof(log->cost[0]));
		log->first = 0;
		log->end = kept;
		if (kept == ORACLE_ROOM) {
			fprintf(stderr, "oracle: no room\n");
			abort();
		}
	}
	log->at[log->end] = at;
	log->cost[log->end++] = cost;
}

/* What was admitted in the trailing window (now - window, now]. */
static inline uint64_t oracle_sum(struct oracle_log *log, uint64_t now, uint64_t window)
{
	uint64_t sum = 0;

	for (uint32_t i = log->end; i > log->first; i--) {
		if (log->at[i - 1] + window <= now)
			break;
		sum += log->cost[i - 1];
	}
	return sum;
}

/* Lets go of what is older than anybody will ask for. */
static inline void oracle_forget(struct oracle_log *log, uint64_t before)
{
	while (log->first < log->end && log->at[log->first] < before)
		log->first++;
}

/* Takes out `cost` of what was recorded then. */
static inline bool oracle_remove(struct oracle_log *log, uint64_t at, uint64_t cost)
{
	for (uint32_t i = log->end; i > log->first; i--)
		if (log->at[i - 1] == at && log->cost[i - 1] >= cost) {
			log->cost[i - 1] -= cost;
			return true;
		}
	return false;
}

#endif
