/* Sums by limit and caller: what one worker counts until it is written, and what a question adds
 * up. */
#ifndef STATS_USAGE_TABLE_H
#define STATS_USAGE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

#endif
