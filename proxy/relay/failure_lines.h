/*
 * The end of a run of failures in the log. A server's failures have a line each ten seconds, with
 * how many had none (server_may_log); when they end, or sluice does, the rest is counted here.
 *
 *   worker: a failure without a line --message--> main thread: timer --> a line with the rest
 */
#ifndef RELAY_FAILURE_LINES_H
#define RELAY_FAILURE_LINES_H

#include <event2/event.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "loop/message.h"

struct relay;

struct failure_lines {
	struct event *timer;
	struct message message;
	atomic_bool is_told; /* the timer is set, or will be by the message */
};

/* False without memory. Main thread, as the next two. */
bool failure_lines_begin(struct relay *relay);
/* Writes what is left; no thread fails any more. */
void failure_lines_write_all(struct relay *relay);
void failure_lines_end(struct relay *relay);

/* A server has a failure without a line. Any thread. */
void failure_lines_note(struct relay *relay);

#endif
