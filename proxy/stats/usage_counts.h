/* A worker's counts for invoices since its rows were last collected. */
#ifndef STATS_USAGE_COUNTS_H
#define STATS_USAGE_COUNTS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "stats/usage_table.h"

#define USAGE_ROWS 65536 /* of a worker and interval; the rest is counted together */

struct usage_counts {
	pthread_mutex_t lock; /* held to add, and to take the table away */
	struct usage_table table;
} __attribute__((aligned(64)));

/* One more of this caller, by the limit's row of the counters. */
void usage_count(struct usage_counts *counts, unsigned limit, uint64_t caller, bool admitted);

#endif
