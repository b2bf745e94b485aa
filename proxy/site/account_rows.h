/* Where a snapshot's routes, limits, plans and upstreams are counted (stats/stats.h). */
#ifndef SITE_ACCOUNT_ROWS_H
#define SITE_ACCOUNT_ROWS_H

#include <stdbool.h>

struct conf;
struct stats;

/* The counters' rows of one snapshot: each array is indexed as conf's own. */
struct account_rows {
	unsigned *routes, *limits, *plans, *upstreams;
};

/* Registers the names of `conf`. False without memory; account_rows_clear is due in either case. */
bool account_rows_fill(struct account_rows *rows, const struct conf *conf, struct stats *stats);
void account_rows_clear(struct account_rows *rows);

#endif
