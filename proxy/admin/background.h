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

#endif
