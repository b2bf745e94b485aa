/*
 * Requests about WebSockets: a survey over the workers (websocket/survey.h) finds them, and the
 * answer is made when it is back, or when what was sent to them is written, or they have ended.
 *
 *   main thread: socket_calls_list, _show, _run --> survey --> answer (admin/background.h)
 *                                                     `-- wait = sent, closed: the last has told,
 * or late
 */
#ifndef ADMIN_SOCKET_CALLS_H
#define ADMIN_SOCKET_CALLS_H

#include <stdbool.h>
#include <stddef.h>

#include "websocket/survey.h"
#include "websocket/filter.h"

/* Requests under way at once; further ones get 503. */
#define SOCKET_CALLS 64

struct admin_request;
struct pending;
struct daemon;
struct socket_calls;

/* Which sockets. */
struct socket_choice {
	struct socket_filter filter;
	uint64_t id;    /* the only one, or 0 */
	uint64_t after; /* 0, or the last of the list before */
};

/* NULL without memory. Main thread, as all of it. */
struct socket_calls *socket_calls_new(struct daemon *daemon, struct pending *pending);
/* The workers have ended, and all requests are answered. NULL is ignored. */
void socket_calls_free(struct socket_calls *calls);

/* Each begins a request's answer, or responds that it can't. */

/* The first `most` of those. */
void socket_calls_list(
	struct admin_request *request, const struct socket_choice *choice, size_t most);
/* The one of choice->id. */
void socket_calls_show(struct admin_request *request, const struct socket_choice *choice);
/* Does it to all of those. A hold on command->frame passes over; `wait_ms`: how long to wait until
 * the frame is written to all of them, or all that are to end have ended; 0: not at all. */
void socket_calls_run(struct admin_request *request, const struct socket_choice *choice,
	const struct socket_command *command, unsigned wait_ms);

#endif
