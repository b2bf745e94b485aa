/*
 * A client's connection: requests come in, responses leave in the same order.
 *
 *   bytes -> [in] -> head -> exchange -> judged -> queued -> forwarded
 *                              | | |  the list, oldest first: only `first` may write to `out`
 *   bytes <- [out] <-----------'
 *
 * Heads are read on while earlier exchanges are under way, up to pipeline_depth; a request's body
 * belongs to the last exchange (`reading`) and is left in the socket until its turn has come. So is
 * what follows a request for an upgrade until its response says whether that is a request.
 *
 * States:  OPEN -> FINISHING (no more requests: answer what is there, then close)
 *               -> LINGERING (all is written, the write end is shut; what the client still sends is
 *                             thrown away: http1/linger.h) -> CLOSED
 */
#ifndef HTTP1_DOWNSTREAM_H
#define HTTP1_DOWNSTREAM_H

#include "http1/downstream_inside.h"
#include "worker/worker.h"

struct accepted;

/* Takes an accepted connection over. */
void downstream_accept(struct worker *worker, struct listener *listener, struct accepted *accepted);

/* The same, when `first` was read of it already: it gets that buffer. */
void downstream_accept_begun(struct worker *worker, struct listener *listener,
	struct accepted *accepted, struct buffer *first);

/* Does all that can be done now: writes, reads, begins exchanges. Called whenever anything changed.
 */
void downstream_advance(struct downstream *downstream);

/* The exchange that is being read has changed what it waits for. */
void downstream_watch(struct downstream *downstream);

/* Writes what was left for the end of the turn, on all connections of the worker. */
void downstream_flush_all(struct worker *worker);

/* The exchange has read all that is its own: the next bytes are another's. */
void downstream_leave_input(struct downstream *downstream, const struct exchange *exchange);

/* The exchange's response is written whole (or never will be): on to the next. */
void downstream_exchange_ended(struct downstream *downstream, struct exchange *exchange);

/* No further request on this connection. */
void downstream_finish(struct downstream *downstream);

/* Closes the one of this listener's that has lingered longest. False: there is none. */
bool downstream_give_way(struct listener *listener);

/* Cuts it now, with the exchanges on it. `why` for the log. */
void downstream_close(struct downstream *downstream, const char *why);

/* Its only exchange has switched, and what it consists of continues as something else: it is
 * gone. */
void downstream_leave(struct downstream *downstream, struct client_rest *rest);

/*
 * A drain has begun: the connection ends with a response that announces it (Connection: close), or
 * when no request came for a while. Closing an idle one at once would lose what is on its way to
 * us.
 */
void downstream_drain(struct downstream *downstream);

/* In a drain: is this the last exchange of the connection? */
bool downstream_is_last(const struct downstream *downstream, const struct exchange *exchange);

/* A worker's memory of clients that speak HTTP/1. */
struct http1_part {
	struct downstream *downstreams;                /* all of them */
	struct downstream *unflushed, **unflushed_end; /* with responses to write */
};

static inline struct http1_part *http1_part(const struct worker *worker)
{
	return worker->memory[PART_HTTP1];
}

#endif
