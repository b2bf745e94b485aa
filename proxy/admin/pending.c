#include "admin/pending.h"

#include <microhttpd.h>
#include <pthread.h>
#include <stdlib.h>

#include "admin/request.h"

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
