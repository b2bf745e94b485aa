/*
 * The end of a run of failures in the log. A server's failures have a line each ten seconds, with
 * how many had none (base/log_pace.h), and so has what comes to the internal listener and should
 * not; when they end, or sluice does, the rest is counted here.
 *
 *   worker: a failure without a line --message--> main thread: timer --> a line with the rest
 */
#ifndef DAEMON_FAILURE_LINES_H
#define DAEMON_FAILURE_LINES_H

#include <event2/event.h>
#include <stdbool.h>

struct daemon;

struct failure_lines {
	struct event *timer; /* set, or will be by node.failures.message, while is_reported */
};

/* False without memory. Main thread, as the next two. */
bool failure_lines_begin(struct daemon *daemon);
/* Writes what is left; no thread fails any more. */
void failure_lines_write_all(struct daemon *daemon);
void failure_lines_end(struct daemon *daemon);
#endif
