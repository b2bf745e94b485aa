/* The callers' use, added up over the rows of many files, ordered by limit and caller. It is whole
 * or refused: an invoice that lacks some callers would be wrong. */
#ifndef STATS_USAGE_SUMS_H
#define STATS_USAGE_SUMS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- usage table ---------------------------------------------------------------------------- */

/* Sums by limit and caller: what one worker counts until it is written, and what a question adds
 * up. */

struct usage_row {
	uint64_t caller; /* 0: those that the table had no room for */
	uint32_t limit;  /* a number of the owner's */
	bool is_used;
	uint64_t admitted, refused;
};

/* All zero is empty. One thread at a time. */
struct usage_table {
	struct usage_row *rows; /* `room` of them, a power of two; looked up by hash */
	size_t room, count;
};

/* Adds to the row of a limit and caller. When there would be more than `most` rows, or no memory,
 * to that of caller 0; false: not even that. */
bool usage_table_add(struct usage_table *table, size_t most, uint32_t limit, uint64_t caller,
	uint64_t admitted, uint64_t refused);

/* Adds to a row that there is. False: there is none. */
bool usage_table_add_known(struct usage_table *table, uint32_t limit, uint64_t caller,
	uint64_t admitted, uint64_t refused);

/* Makes room for one row more. False without memory. */
bool usage_table_reserve(struct usage_table *table);

/* Counts all callers of a limit together, in the row of caller 0. Without memory, nothing. */
void usage_table_fold(struct usage_table *table);

void usage_table_clear(struct usage_table *table);

/* ---- usage sums ----------------------------------------------------------------------------- */

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

/* ---- usage counts --------------------------------------------------------------------------- */

/* A worker's counts for invoices since its rows were last collected. */

#define USAGE_ROWS 65536 /* of a worker and interval; the rest is counted together */

struct usage_counts {
	pthread_mutex_t lock; /* held to add, and to take the table away */
	struct usage_table table;
} __attribute__((aligned(64)));

/* One more of this caller, by the limit's row of the counters. */
void usage_count(struct usage_counts *counts, unsigned limit, uint64_t caller, bool admitted);

#endif
