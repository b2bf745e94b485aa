/*
 * Regular expressions of routes and matches, with a bound on what they may try for one request.
 *
 * Some expressions take a time that grows with the square of the path, or worse. PCRE's own limit
 * is one for each place in the path that a match may begin at, so it bounds nothing here. A short
 * path is tried with a small limit of that kind first, which is what nearly all requests need.
 * Otherwise steps are counted, over all places, expressions and readings of the request's path.
 */
#ifndef GATE_ROUTE_REGEX_H
#define GATE_ROUTE_REGEX_H

#include "conf/conf.h"
#include "gate/route.h"

enum route_regex {
	ROUTE_REGEX_FITS,
	ROUTE_REGEX_FITS_NOT,
	ROUTE_REGEX_UNDECIDED, /* the request has used up what it may try */
};

/* The following matches are for another request; or another host, path or method of the same. */
void route_regex_begin(struct route_scratch *scratch);
void route_regex_go_on(struct route_scratch *scratch);

/* Does the condition of a route hold for the request that was asked for? */
bool route_scratch_holds(struct route_scratch *scratch, const struct conf_when *when);

/* Was that not to be found out? */
bool route_scratch_is_undecided(const struct route_scratch *scratch);

/* Does the expression find something in the text? */
enum route_regex route_regex_find(
	struct route_scratch *scratch, const struct conf_regex *regex, struct slice text);

#endif
