/*
 * The matches of a snapshot ([match NAME], conf/match.h), evaluated against a request: each at most
 * once, and only those that a condition asks for.
 *
 *   conf.matches --match_table_new--> sets of values and networks, one a test
 *   request (identity_input) + `when` --matches_hold--> true or false
 *
 * A field, cookie or parameter that occurs several times passes a test if one of its values does;
 * with ! the test holds if none does. Names and values of parameters, and values of cookies, are
 * compared decoded; names that some servers take for the test's count, too (pairs.h). Fields are
 * compared as they came, names of hosts in lower case, paths in the form that keys know; one that
 * servers may read in several ways must have the same outcome in each (http/path_readings.h).
 */
#ifndef GATE_MATCHES_H
#define GATE_MATCHES_H

#include <stdbool.h>
#include <stdint.h>

#include "conf/conf.h"

struct identity_input;
struct match_table;

/* What is known about the matches for one request; all zero: nothing yet. */
struct match_results {
	uint64_t known, holds; /* bits by conf_match.index */
	/* An expression was too costly, or a value too long: it is not known whether it holds, and
	 * the request is to be refused. */
	bool undecided;
};

/* Compiles conf.matches, which must outlive the table. NULL without memory. Immutable: any thread
 * may evaluate. */
struct match_table *match_table_new(const struct conf *conf);
void match_table_free(struct match_table *table);

/* The matches among `bits` that hold. */
uint64_t matches_find(const struct match_table *table, uint64_t bits, struct identity_input *input);

/* Do all of `when` hold, and none of its negated ones? */
static inline bool matches_hold(
	const struct match_table *table, const struct conf_when *when, struct identity_input *input)
{
	return matches_find(table, when->holds | when->fails, input) == when->holds;
}

/* Does one of the lists' conditions (allow, deny) hold? */
static inline bool matches_any(
	const struct match_table *table, const struct conf_when *when, struct identity_input *input)
{
	uint64_t found = matches_find(table, when->holds | when->fails, input);

	return ((found & when->holds) | (~found & when->fails)) != 0;
}

#endif
