/*
 * Requests that take long to answer, on a thread of their own:
 *
 *   libmicrohttpd's thread: background_start --> the job's thread: run(ctx)
 *                                |                        |   background_goes_on? now and then
 *            connection suspended|                        v
 *   it asks for the answer again <----- resumed ---- job has run
 *
 * BACKGROUND_JOBS limits their number, and a job keeps its place until background_end: its answer
 * is in memory for as long. While an answer is sent, a client that reads less than 256 kB a second
 * (with 5 s of grace) keeps the place only until another client asks: then its connection is cut.
 */
#ifndef ADMIN_BACKGROUND_H
#define ADMIN_BACKGROUND_H

#include <stdbool.h>
#include <stddef.h>

#define BACKGROUND_JOBS 2

struct MHD_Connection;
struct background;
struct background_job;

/* NULL without memory. */
struct background *background_new(void);

/* Asks all jobs to stop, waits until they have run, and lets none begin. Before the daemons of
 * libmicrohttpd are stopped, which want no suspended connection. */
void background_close(struct background *background);

/* All jobs have ended. NULL is ignored. */
void background_free(struct background *background);

/* Runs `run` on a thread of its own and suspends `connection` until it has returned. On the thread
 * of the connection's daemon, in its handler. `*job` is NULL: there are BACKGROUND_JOBS whose
 * clients keep up, it is closed or there is no memory; the connection is not suspended then. `*job`
 * is set before `run` runs. */
void background_start(struct background *background, struct MHD_Connection *connection,
	void (*run)(void *ctx), void *ctx, struct background_job **job);

/* Should it continue? No: its client has left or will send nothing more, or sluice is stopping. On
 * the job's own thread. */
bool background_goes_on(struct background_job *job);

/* Has it run? Then its thread's writes are seen. */
bool background_has_run(struct background_job *job);

/* So many bytes more of its answer are on their way: its client has read those before, but for what
 * the kernel keeps. On the thread of the connection's daemon. */
void background_sends(struct background_job *job, size_t bytes);

/* Frees its place. It has run. NULL is ignored. */
void background_end(struct background_job *job);

/* ---- pending -------------------------------------------------------------------------------- */

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
