/*
 * What an exchange adds to the counters (stats/): once, when it has ended; and what happened on its
 * way that its end does not show.
 */
#ifndef RELAY_ACCOUNT_H
#define RELAY_ACCOUNT_H

#include <stdbool.h>

struct conf;
struct exchange;
struct stats;

/* The counters' rows of one snapshot: each array is indexed as conf's own. */
struct account_rows {
	unsigned *routes, *limits, *plans, *upstreams;
};

/* Registers the names of `conf`. False without memory; account_rows_clear is due in either case. */
bool account_rows_fill(struct account_rows *rows, const struct conf *conf, struct stats *stats);
void account_rows_clear(struct account_rows *rows);

/* It has ended. */
void account_exchange(const struct exchange *exchange);

/* Its limits make it wait. */
void account_delay(const struct exchange *exchange);

/* A server of its upstream failed it. */
void account_upstream_failure(const struct exchange *exchange);

#endif
