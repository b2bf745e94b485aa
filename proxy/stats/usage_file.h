/*
 * The callers' use, in one file per hour in a folder of their own:
 *
 *   FOLDER/2026112209      HASH ADMITTED REFUSED LIMIT      a line for each caller and limit that
 *   FOLDER/2026112210                                       an interval had; lines are added up
 *
 * A line is whole when it ends: a write that a crash cut leaves one that is passed over. The folder
 * has a bound; the oldest hours go first.
 */
#ifndef STATS_USAGE_FILE_H
#define STATS_USAGE_FILE_H

#include <stdbool.h>
#include <stdint.h>

#include "stats/stats.h"
#include "stats/usage_sums.h"

#define USAGE_HOUR_S 3600

/* How long to count from `now_ms` (unix time) until the next write: an interval, but never beyond
 * the end of the hour, in whose file it is to be. */
uint64_t usage_file_delay_ms(uint64_t now_ms, uint64_t interval_ms);

/* Appends the rows of `count` tables to the hour's file of `now_s` (unix time). `stats` has the
 * names of limits. 0, or an errno value. */
int usage_file_append(const char *folder, uint64_t now_s, const struct usage_table *tables,
	unsigned count, const struct stats *stats);

/* Bytes of the hour's file of `now_s`; 0 where there is none. */
uint64_t usage_file_bytes(const char *folder, uint64_t now_s);

/* Removes the oldest files, but not the newest, until all of them have at most `most_bytes`.
 * Returns how many went. */
unsigned usage_file_trim(const char *folder, uint64_t most_bytes);

/* How the rows of files are taken. */
struct usage_reader {
	/* One row. `limit` is valid during the call; numbers are below 2^63. False: stop. */
	bool (*take)(
		void *ctx, const char *limit, uint64_t caller, uint64_t admitted, uint64_t refused);
	/* Asked before each piece of a file. False: stop. */
	bool (*goes_on)(void *ctx);
	void *ctx;
};

/* Reads the hours from `from_s` to before `to_s`. A line that is no row is passed over, and an hour
 * without a file. 0, or an errno value (ECANCELED: stopped by the reader). Any thread. */
int usage_file_read(
	const char *folder, uint64_t from_s, uint64_t to_s, const struct usage_reader *reader);

#endif
