/*
 * Each caller's use of each limit, for invoices: counted by the workers, written by the main thread
 * once an interval (stats/usage_file.h). Off, it costs a look at a pointer.
 *
 *   worker: usage_count --> its table --lock--> main thread, each `usage`: a line a row
 */
#ifndef DAEMON_USAGE_H
#define DAEMON_USAGE_H

#include <stdbool.h>
#include <stdint.h>

struct conf;
struct daemon;
struct usage;
struct usage_counts; /* a worker's */

/* Makes the folder `usage` in that of the state. True also where `usage` is 0: then there is none.
 * False with a line in the log. Before the workers begin; main thread, as the next two. */
bool usage_begin(struct daemon *daemon, const struct conf *conf);
/* Writes what has been counted. */
void usage_write(struct daemon *daemon);
/* Writes the last, and frees it all: no worker counts any more. */
void usage_end(struct daemon *daemon);

/* A worker's counts, or NULL: nothing is counted. */
struct usage_counts *usage_counts_of(const struct daemon *daemon, unsigned worker);

/* The folder; NULL: nothing is kept. Valid as long as the daemon. Any thread. */
const char *usage_folder(const struct daemon *daemon);

/* ---- tally ---------------------------------------------------------------------------------- */

/*
 * The tally at the end of the process: what it served, and whether anything is left that should
 * have ended.
 */

/* Logs a line with the counts of connections and requests, and an error line when an exchange, a
 * connection, a ticket or a place at an upstream is left. For the main thread, when the workers'
 * threads have ended and nothing is freed yet. */
void tally_log(struct daemon *daemon);

#endif
