/*
 * Requests whose answer comes from the workers, and later than the handler returns: their
 * connections are suspended meanwhile, and hold up no thread.
 *
 *   handler, main thread: asks the workers, request->is_pending = true
 *   libmicrohttpd's thread: pending_suspend                          in either order
 *   main thread: the answer is here --> pending_answer --> resumed    `--
 *
 * Their number is bounded by their callers.
 */
#ifndef ADMIN_PENDING_H
#define ADMIN_PENDING_H

#include <stdbool.h>

struct admin_request;
struct pending;

/* NULL without memory. */
struct pending *pending_new(void);

/* Answers all with 503, and all that come. Before the daemons of libmicrohttpd are stopped, which
 * want no suspended connection; pending_answer must not be called any more. */
void pending_close(struct pending *pending);

/* None is left. NULL is ignored. */
void pending_free(struct pending *pending);

/* The handler has returned. True: the connection is suspended, and its thread is asked again when
 * there is an answer. False: there is one already. On the thread of the connection's daemon. */
bool pending_suspend(struct pending *pending, struct admin_request *request);

/* Its answer is in `request`, which is not to be touched any more. Main thread. */
void pending_answer(struct pending *pending, struct admin_request *request);

/* Is there an answer? On the thread of the connection's daemon. */
bool pending_is_answered(struct pending *pending, const struct admin_request *request);

#endif
