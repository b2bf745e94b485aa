#include "admin/background.h"

#include <microhttpd.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "http1/min_rate.h"
#include "admin/request.h"

/* The workers come first. */
#define NICE 10

/* What a client must read of its answer to keep its place when another client asks. */
#define READ_PER_SECOND (256 * 1024)
#define READ_GRACE_MS   5000

struct background {
	pthread_mutex_t lock; /* guards all of it */
	pthread_cond_t has_run;
	struct background_job *places[BACKGROUND_JOBS]; /* NULL: free */
	unsigned running;
	bool closed;
};

struct background_job {
	struct background *background;
	struct MHD_Connection *connection;
	int fd;
	void (*run)(void *ctx);
	void *ctx;
	pthread_t thread;
	/* guarded by the lock */
	bool has_run;
	uint64_t sent_bytes;
	struct min_rate reading; /* from has_run on */
};

struct background *background_new(void)
{
	struct background *background = calloc(1, sizeof(*background));

	if (!background)
		return NULL;
	pthread_mutex_init(&background->lock, NULL);
	pthread_cond_init(&background->has_run, NULL);
	return background;
}

void background_free(struct background *background)
{
	if (!background)
		return;
	pthread_cond_destroy(&background->has_run);
	pthread_mutex_destroy(&background->lock);
	free(background);
}

void background_close(struct background *background)
{
	pthread_mutex_lock(&background->lock);
	background->closed = true;
	while (background->running > 0)
		pthread_cond_wait(&background->has_run, &background->lock);
	pthread_mutex_unlock(&background->lock);
}

static void *run_job(void *arg)
{
	struct background_job *job = arg;
	struct background *background = job->background;

	/* Until the connection is suspended. */
	pthread_mutex_lock(&background->lock);
	pthread_mutex_unlock(&background->lock);
	setpriority(
		PRIO_PROCESS, (id_t)gettid(), NICE); /* of this thread; without it, it works too */
	job->run(job->ctx);
	pthread_mutex_lock(&background->lock);
	job->has_run = true;
	min_rate_begin(&job->reading, READ_PER_SECOND, READ_GRACE_MS, 0);
	min_rate_look(&job->reading, 0, clock_monotonic_ns());
	background->running--;
	pthread_cond_broadcast(&background->has_run);
	MHD_resume_connection(job->connection);
	pthread_mutex_unlock(&background->lock);
	return NULL;
}

/* True: its client reads its answer too slowly to keep a place that another one asks for. */
static bool is_read_too_slowly(struct background_job *job)
{
	return job->has_run &&
	       min_rate_look(&job->reading, job->sent_bytes, clock_monotonic_ns()) == 0;
}

/* A free place, made free if need be, or NULL. The lock is held. */
static struct background_job **find_place(struct background *background)
{
	for (size_t i = 0; i < BACKGROUND_JOBS; i++) {
		if (!background->places[i])
			return &background->places[i];
	}
	for (size_t i = 0; i < BACKGROUND_JOBS; i++) {
		struct background_job *job = background->places[i];
		if (!is_read_too_slowly(job))
			continue;
		/* Its daemon sees the end and closes the socket, after background_end. */
		shutdown(job->fd, SHUT_RDWR);
		background->places[i] = NULL;
		return &background->places[i];
	}
	return NULL;
}

/* The lock is held. */
static bool start_thread(struct background_job *job)
{
	struct background *background = job->background;

	if (background->closed)
		return false;
	struct background_job **place = find_place(background);
	if (!place || pthread_create(&job->thread, NULL, run_job, job) != 0)
		return false;
	*place = job;
	background->running++;
	MHD_suspend_connection(job->connection);
	return true;
}

void background_start(struct background *background, struct MHD_Connection *connection,
	void (*run)(void *ctx), void *ctx, struct background_job **job_at)
{
	struct background_job *job = malloc(sizeof(*job));

	*job_at = NULL;
	if (!job)
		return;
	*job = (struct background_job){.background = background,
		.connection = connection,
		.fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)
			      ->connect_fd,
		.run = run,
		.ctx = ctx};
	pthread_mutex_lock(&background->lock);
	if (start_thread(job))
		*job_at = job;
	pthread_mutex_unlock(&background->lock);
	if (!*job_at)
		free(job);
}

bool background_goes_on(struct background_job *job)
{
	/* While it is suspended, nobody else looks at the socket, nor closes it. */
	struct pollfd socket = {.fd = job->fd, .events = POLLRDHUP};

	pthread_mutex_lock(&job->background->lock);
	bool closed = job->background->closed;
	pthread_mutex_unlock(&job->background->lock);
	return !closed && poll(&socket, 1, 0) <= 0;
}

bool background_has_run(struct background_job *job)
{
	pthread_mutex_lock(&job->background->lock);
	bool has_run = job->has_run;
	pthread_mutex_unlock(&job->background->lock);
	return has_run;
}

void background_sends(struct background_job *job, size_t bytes)
{
	pthread_mutex_lock(&job->background->lock);
	job->sent_bytes += bytes;
	min_rate_look(&job->reading, job->sent_bytes, clock_monotonic_ns());
	pthread_mutex_unlock(&job->background->lock);
}

void background_end(struct background_job *job)
{
	if (!job)
		return;
	pthread_join(job->thread, NULL);
	pthread_mutex_lock(&job->background->lock);
	for (size_t i = 0; i < BACKGROUND_JOBS; i++) {
		if (job->background->places[i] == job)
			job->background->places[i] = NULL;
	}
	pthread_mutex_unlock(&job->background->lock);
	free(job);
}

/* ---- pending -------------------------------------------------------------------------------- */

struct pending {
	pthread_mutex_t lock; /* guards all of it, and what requests have for it */
	struct admin_request *first;
	bool is_closed;
};

struct pending *pending_new(void)
{
	struct pending *pending = calloc(1, sizeof(*pending));

	if (pending)
		pthread_mutex_init(&pending->lock, NULL);
	return pending;
}

void pending_free(struct pending *pending)
{
	if (!pending)
		return;
	pthread_mutex_destroy(&pending->lock);
	free(pending);
}

static void refuse(struct admin_request *request)
{
	admin_respond_problem(request, 503, "sluice is stopping.");
	request->pending.is_answered = true;
}

/* The lock is held. */
static void take_out(struct pending *pending, struct admin_request *request)
{
	struct admin_request **at = &pending->first;

	while (*at != request)
		at = &(*at)->pending.next;
	*at = request->pending.next;
	request->pending.is_suspended = false;
}

bool pending_suspend(struct pending *pending, struct admin_request *request)
{
	pthread_mutex_lock(&pending->lock);
	if (pending->is_closed && !request->pending.is_answered)
		refuse(request);
	bool waits = !request->pending.is_answered;
	if (waits) {
		MHD_suspend_connection(request->connection);
		request->pending.is_suspended = true;
		request->pending.next = pending->first;
		pending->first = request;
	}
	pthread_mutex_unlock(&pending->lock);
	return waits;
}

/* The lock is held. */
static void resume(struct pending *pending, struct admin_request *request)
{
	take_out(pending, request);
	MHD_resume_connection(request->connection);
}

void pending_answer(struct pending *pending, struct admin_request *request)
{
	pthread_mutex_lock(&pending->lock);
	request->pending.is_answered = true;
	if (request->pending.is_suspended)
		resume(pending, request);
	pthread_mutex_unlock(&pending->lock);
}

bool pending_is_answered(struct pending *pending, const struct admin_request *request)
{
	pthread_mutex_lock(&pending->lock);
	bool is_answered = request->pending.is_answered;
	pthread_mutex_unlock(&pending->lock);
	return is_answered;
}

void pending_close(struct pending *pending)
{
	pthread_mutex_lock(&pending->lock);
	pending->is_closed = true;
	while (pending->first) {
		struct admin_request *request = pending->first;
		refuse(request);
		resume(pending, request);
	}
	pthread_mutex_unlock(&pending->lock);
}
