/*
 * The tally at the end of the process: what it served, and whether anything is left that should
 * have ended.
 */
#ifndef DAEMON_TALLY_H
#define DAEMON_TALLY_H

struct daemon;

/* Logs a line with the counts of connections and requests, and an error line when an exchange, a
 * connection, a ticket or a place at an upstream is left. For the main thread, when the workers'
 * threads have ended and nothing is freed yet. */
void tally_log(struct daemon *daemon);

#endif
