/* The callers' use, added up over the rows of many files, ordered by limit and caller. It is whole
 * or refused: an invoice that lacks some callers would be wrong. */
#ifndef STATS_USAGE_SUMS_H
#define STATS_USAGE_SUMS_H

#include "stats/usage_table.h"

#define USAGE_SUMS_LIMITS 4096
#define USAGE_SUMS_SLOTS  (2 * USAGE_SUMS_LIMITS)

/* Why a row could not be added. */
enum usage_sums_fault {
	USAGE_SUMS_GOOD,
	USAGE_SUMS_ROWS,        /* there would be more than `most_rows` */
	USAGE_SUMS_LIMITS_FULL, /* there would be more than USAGE_SUMS_LIMITS limits */
	USAGE_SUMS_NO_MEMORY,
};

/* All zero but `most_rows` is empty. One thread at a time. */
struct usage_sums {
	size_t most_rows;
	enum usage_sums_fault fault; /* of the row that was not added */
	struct usage_table table;
	unsigned limit_count;
	char *limits[USAGE_SUMS_LIMITS];  /* names; a row's limit is an index */
	uint16_t slots[USAGE_SUMS_SLOTS]; /* indexes + 1 by hash of the name; 0: free */
};

/* Adds to the sum of a limit and caller. False: it was not added, see `fault`. */
bool usage_sums_add(struct usage_sums *sums, const char *limit, uint64_t caller, uint64_t admitted,
	uint64_t refused);

/* Sorts the rows by the name of the limit, then by caller: table.rows[0..table.count-1]. Nothing
 * can be added any more. */
void usage_sums_sort(struct usage_sums *sums);

/* The name of a row's limit. Valid as long as the sums. */
const char *usage_sums_limit(const struct usage_sums *sums, const struct usage_row *row);

void usage_sums_clear(struct usage_sums *sums);

#endif
