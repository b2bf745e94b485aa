/* What the throttle's tests share: random numbers whose seed is printed, tables, limits. */
#ifndef TESTS_UNIT_THROTTLE_FIXTURE_H
#define TESTS_UNIT_THROTTLE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "throttle/throttle.h"

#define MS     UINT64_C(1000000)
#define SECOND (1000 * MS)
#define START  (UINT64_C(1700000000) * SECOND)

/* splitmix64 */
static inline uint64_t random_next(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15u);

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static inline uint64_t random_below(uint64_t *state, uint64_t n)
{
	return random_next(state) % n;
}

/* THROTTLE_SEED=n repeats a run. */
static inline uint64_t random_seed(const char *what)
{
	const char *given = getenv("THROTTLE_SEED");
	uint64_t seed = given != NULL ? strtoull(given, NULL, 0) : (uint64_t)time(NULL) * 1000003;

	printf("# %s: THROTTLE_SEED=%llu\n", what, (unsigned long long)seed);
	return seed;
}

/* THROTTLE_STEPS=n makes long runs of the same tests. */
static inline uint64_t steps_or(uint64_t usual)
{
	const char *given = getenv("THROTTLE_STEPS");

	return given != NULL ? strtoull(given, NULL, 0) : usual;
}

static inline struct throttle_limit ring(const char *name, uint64_t quota, uint64_t window_ns)
{
	struct throttle_limit limit = {.quota = quota, .window_ns = window_ns};

	snprintf(limit.name, sizeof(limit.name), "%s", name);
	return limit;
}

static inline struct throttle_table *open_table(
	const char *folder, uint64_t callers, const struct throttle_limit *limits, size_t count)
{
	struct throttle_table_options options = {
		.folder = folder, .callers = callers, .now_ns = START};
	struct throttle_report report;
	struct throttle_table *table = throttle_table_open(&options, limits, count, &report);

	if (table == NULL)
		printf("# open: %s\n", report.text);
	assert_non_null(table);
	return table;
}

static inline struct throttle_key key_of(const struct throttle_table *table, uint64_t caller)
{
	struct throttle_seed seed = throttle_table_seed(table);

	return throttle_hash(&seed, &caller, sizeof(caller));
}

/* One charge of the first limit. */
static inline bool take_one(struct throttle_table *table, uint64_t caller, uint64_t cost,
	uint64_t now_ns, struct throttle_outcome *outcome)
{
	struct throttle_charge charge = {.limit = 0, .caller = key_of(table, caller), .cost = cost};
	struct throttle_verdict verdict;

	assert_int_equal(throttle_take(table, &charge, 1, now_ns, &verdict, NULL), 0);
	if (outcome != NULL)
		*outcome = verdict.outcome[0];
	return verdict.admitted;
}

/* How many of a caller's are admitted until one is refused, up to 4 million. */
static inline unsigned take_until_refused(
	struct throttle_table *table, uint64_t caller, uint64_t now_ns)
{
	unsigned admitted = 0;

	while (admitted < 4000000 && take_one(table, caller, 1, now_ns, NULL))
		admitted++;
	return admitted;
}

#endif
