/*
 * [match NAME]: a named condition on a request, and `when`, which names conditions. Of a snapshot
 * (conf.h).
 *
 *   [match bots]                                  holds if each `all` line holds and, when there
 * are all = header:User-Agent ~ (?i)bot|crawl       `any` lines, one of these all = !ip
 * in 10.0.0.0/8
 *
 * This is the parsed form; gate/matches.h evaluates it.
 */
#ifndef CONF_MATCH_H
#define CONF_MATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conf/key.h"
#include "conf/terms.h"

/* Matches are bits of a word. */
#define MATCHES_MOST 64

/* Different conditions among the limits of one request: there is a set of limits for each of their
 * outcomes. */
#define WHENS_MOST 6

enum match_operator {
	MATCH_PRESENT, /* it has a value that is not empty */
	MATCH_EQUAL,   /* = one of the values */
	MATCH_BEGINS,  /* ^= with one of them */
	MATCH_ENDS,    /* $= with one of them */
	MATCH_FINDS,   /* ~ a regular expression finds something in it */
	MATCH_IN,      /* in one of the networks */
	MATCH_HOLDS,   /* another match does */
};

/* One line. */
struct match_test {
	bool negated;
	enum match_operator operator;
	struct key_part source;       /* but for MATCH_HOLDS */
	struct conf_text_list values; /* MATCH_EQUAL, MATCH_BEGINS, MATCH_ENDS */
	struct conf_cidrs networks;   /* MATCH_IN */
	const char *pattern;          /* MATCH_FINDS, compiled: */
	struct conf_regex regex;
	const char *name; /* MATCH_HOLDS: the other match, */
	unsigned other;   /* by its index; MATCHES_MOST: there is none */
	unsigned line;
	const char *text; /* as written */
};

struct match_tests {
	struct match_test *items;
	size_t count;
};

struct conf_match {
	const char *name;
	unsigned line;
	unsigned index; /* in conf.matches, and the bit in conf_when */
	struct match_tests all, any;
	bool reads_route; /* a test of it reads the route's name: not known before a route is */
	bool reads_more;  /* a test of it reads more than the address: no connection has that */
};

struct conf_matches {
	struct conf_match *items;
	size_t count;
};

/* when = bots, !office: bits of the matches that must hold, and of those that must not. */
struct conf_when {
	uint64_t holds, fails;
	const char *text; /* as written; NULL: unset */
};

static inline bool conf_when_is_set(const struct conf_when *when)
{
	return (when->holds | when->fails) != 0;
}

static inline bool conf_when_equal(const struct conf_when *a, const struct conf_when *b)
{
	return a->holds == b->holds && a->fails == b->fails;
}

#endif
