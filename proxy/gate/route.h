/*
 * Which route serves a request: the snapshot's routes, compiled once at load.
 *
 *   host ---> exact host  \                         / path as a whole \
 *             *.suffix ... }-- a place each, holding  prefixes          }-- the first of them in
 *             any host    /                         \ regexes         /    conf's order wins
 *
 * The answer is the one a scan of conf.routes in order gives: the first whose host, path and method
 * fit. Its cost depends on the request's labels and segments, not on how many routes there are;
 * only regexes are tried one by one, and only those that could still win.
 */
#ifndef GATE_ROUTE_H
#define GATE_ROUTE_H

#include <stdint.h>

#include "base/slice.h"
#include "conf/conf.h"
#include "http/message.h"

struct route_table;
struct route_scratch; /* what matching regexes needs; one a thread */

enum route_outcome {
	ROUTE_FOUND,
	ROUTE_NONE,      /* 404 */
	ROUTE_METHOD,    /* 405: a route has the host and path, none of them the method */
	ROUTE_UNDECIDED, /* 400: what regexes may try was used up, and one could have won */
};

struct route_match {
	enum route_outcome outcome;
	const struct conf_route *route; /* ROUTE_FOUND */
	uint64_t allow; /* ROUTE_METHOD: bits (1 << enum http_method) of what would be served */
};

/* Compiles conf.routes, which must outlive the table. NULL when there is no memory. Immutable:
 * any thread may match. */
struct route_table *route_table_new(const struct conf *conf);
void route_table_free(struct route_table *table);

struct identity_input;
struct match_table;

/* The request of the matches to come, for routes with conditions: all that is known before a route
 * is. NULL: no condition holds. Both must stay valid until then. */
void route_scratch_ask(struct route_scratch *scratch, const struct match_table *matches,
	struct identity_input *input);

/* Has a route a condition, so that route_scratch_ask is needed? */
bool route_table_has_conditions(const struct route_table *table);

/* NULL when there is no memory. */
struct route_scratch *route_scratch_new(void);
void route_scratch_free(struct route_scratch *scratch);

/*
 * Matches. `host` as http_authority_host gives it, `path` as http_path_normalise does (or "*" for
 * OPTIONS *, which only routes with the path `/` and any method or OPTIONS take).
 */
struct route_match route_match(const struct route_table *table, struct route_scratch *scratch,
	struct slice host, struct slice path, enum http_method method);

/* The same for another host, path or method of the request that route_match was called for last:
 * all of them share what its regexes may try. */
struct route_match route_match_again(const struct route_table *table, struct route_scratch *scratch,
	struct slice host, struct slice path, enum http_method method);

#endif
