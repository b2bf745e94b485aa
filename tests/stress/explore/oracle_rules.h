/* What a limit's events come to: between oracle.c and oracle_rules.c. */
#ifndef TESTS_STRESS_EXPLORE_ORACLE_RULES_H
#define TESTS_STRESS_EXPLORE_ORACLE_RULES_H

#include "tests/stress/explore/oracle.h"

/* Notes the first thing that was. */
void oracle_wrong(struct oracle *o, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Has the limit quanta? */
bool oracle_is_divided(const struct throttle_limit *l);

/* Of pacing. */
uint64_t oracle_burst_of(const struct throttle_limit *l);

/* A charge was admitted: may it have been? */
void oracle_check_may(
	struct oracle *o, unsigned limit, const struct account *a, const struct event *e);

/* The most that may be in use at `now`, but for `own`. */
uint64_t oracle_most_in_use(const struct oracle *o, unsigned limit, const struct account *a,
	const struct event *own, uint64_t since, unsigned v, uint64_t now);

/* It was refused, by a call as of `now`: did it have to be? */
void oracle_check_must(struct oracle *o, unsigned limit, const struct account *a,
	const struct event *e, uint64_t now, const struct throttle_outcome *outcome);

#endif
