/*
 * Callers: which of them asks next, and what was admitted of each. Every admission is held against
 * the promise (never more than L in any W), and beside it against a limiter that knows all at once:
 * what that admits is what could have been used.
 */
#ifndef TESTS_SIMULATION_SIMULATED_CALLERS_H
#define TESTS_SIMULATION_SIMULATED_CALLERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/unit/random.h"

/* Times of admissions, the oldest first. */
struct times {
	uint64_t *at_us;
	uint32_t count, size;
};

struct callers {
	struct times *admitted, *ideal; /* by caller */
	double *shares;                 /* of requests, summed up to each; NULL: all alike */
	uint32_t count;
	uint64_t quota, window_us, slack_us;
	uint64_t violations;
	uint64_t closest_us; /* least time between L + 1 admissions of a caller */
};

/* `exponent`: of Zipf's law; 0: all callers ask alike. `slack_us`: how much sooner than the verdict
 * an admission may count. */
void callers_init(struct callers *callers, uint32_t count, double exponent, uint64_t quota,
	uint64_t window_us, uint64_t slack_us);
void callers_end(struct callers *callers);
uint32_t callers_draw(const struct callers *callers, struct random *random);
/* One of them has asked. */
void callers_ask(struct callers *callers, uint32_t caller, uint64_t now_us);
/* It was admitted, now. */
void callers_admit(struct callers *callers, uint32_t caller, uint64_t now_us);
/* Part of the ideal that was not admitted, of callers that asked for more than fits. */
double callers_unused(const struct callers *callers, const uint64_t *asked);

static inline double draw_unit(struct random *random)
{
	return (double)(random_next(random) >> 11) / 9007199254740992.0;
}

#endif
