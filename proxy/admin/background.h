/*
 * Requests that take long to answer, on a thread of their own:
 *
 *   libmicrohttpd's thread: background_start --> the job's thread: run(ctx)
 *                                |                        |   background_goes_on? now and then
 *            connection suspended|                        v
 *   it asks for the answer again <----- resumed ---- job has run
 *
 * Their number is bounded, and a job keeps its place until background_end: what it has made is in
 * memory for as long.
 */
#ifndef ADMIN_BACKGROUND_H
#define ADMIN_BACKGROUND_H

#include <stdbool.h>

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
 * of the connection's daemon, in its handler. `*job` is NULL: there are BACKGROUND_JOBS, it is
 * closed or there is no memory; the connection is not suspended then. `*job` is set before `run`
 * runs. */
void background_start(struct background *background, struct MHD_Connection *connection,
	void (*run)(void *ctx), void *ctx, struct background_job **job);

/* Should it go on? No: its client has left or will send nothing more, or sluice is stopping. On the
 * job's own thread. */
bool background_goes_on(struct background_job *job);

/* Has it run? Then its thread's writes are seen. */
bool background_has_run(struct background_job *job);

/* Frees its place. It has run. NULL is ignored. */
void background_end(struct background_job *job);

#endif
