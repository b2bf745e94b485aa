/* Server-sent events (WHATWG HTML, 9.2), one a second. */
#include "admin/handle_events.h"

#include <event2/event.h>
#include <inttypes.h>
#include <microhttpd.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "admin/handlers.h"
#include "admin/last_second.h"
#include "admin/request.h"
#include "base/log.h"
#include "daemon/daemon.h"
#include "base/list.h"

/* ---- broadcast ------------------------------------------------------------------------------ */

/*
 * One text to many listeners, over and over: the transport of GET /api/v1/events.
 *
 *   main thread: broadcast_publish(text) --> newest
 *                                              |  each listener takes it when it has sent the one
 *   libmicrohttpd's threads: read <------------'  before, and sleeps when there is none
 *
 * A listener that reads slowly misses texts: it has at most one, which it shares with the others,
 * so it costs neither memory nor time, and delays no other listener.
 */

#define BROADCAST_LISTENERS 16

struct MHD_Connection;
struct MHD_Response;
struct broadcast;
struct broadcast_listener;

#define BLOCK_BYTES 4096

/* Shared by the broadcast, while it is the newest, and by the listeners that send it. */
struct text {
	unsigned holders; /* guarded by the broadcast's lock */
	size_t bytes;
	char *at;
};

struct broadcast_listener {
	struct broadcast *broadcast;
	struct broadcast_listener *prev, *next;
	struct MHD_Connection *connection;
	struct text *sending; /* or NULL */
	size_t sent;          /* of it */
	uint64_t serial;      /* of the last that it took */
	bool is_suspended;
};

struct broadcast {
	pthread_mutex_t lock; /* guards all of it */
	struct broadcast_listener *first;
	unsigned count;
	struct text *newest; /* or NULL */
	uint64_t serial;     /* of it */
	bool is_closed;
};

/* Takes over `at`; NULL without memory, when it is freed. */
static struct text *text_new(char *at, size_t bytes)
{
	struct text *text = at ? malloc(sizeof(*text)) : NULL;

	if (text)
		*text = (struct text){.holders = 1, .bytes = bytes, .at = at};
	else
		free(at);
	return text;
}

static void text_release(struct text *text)
{
	if (!text || --text->holders > 0)
		return;
	free(text->at);
	free(text);
}

/* NULL without memory. */
static struct broadcast *broadcast_new(void)
{
	struct broadcast *broadcast = calloc(1, sizeof(*broadcast));

	if (broadcast)
		pthread_mutex_init(&broadcast->lock, NULL);
	return broadcast;
}

/* No listener is left: after broadcast_close and the end of their daemons. NULL is ignored. */
static void broadcast_free(struct broadcast *broadcast)
{
	if (!broadcast)
		return;
	text_release(broadcast->newest);
	pthread_mutex_destroy(&broadcast->lock);
	free(broadcast);
}

/* ---- listeners ------------------------------------------------------------------------------- */

static bool add_listener(struct broadcast *broadcast, struct broadcast_listener *listener)
{
	pthread_mutex_lock(&broadcast->lock);
	bool has_room = broadcast->count < BROADCAST_LISTENERS && !broadcast->is_closed;
	if (has_room) {
		listener->serial = broadcast->serial;
		CHAIN_PUSH(broadcast->first, listener, prev, next);
		broadcast->count++;
	}
	pthread_mutex_unlock(&broadcast->lock);
	return has_room;
}

/* One more listener, which begins with `first` and continues with what is published from now on.
 * NULL: there are BROADCAST_LISTENERS, it is closed, or there is no memory. */
static struct broadcast_listener *broadcast_join(
	struct broadcast *broadcast, struct MHD_Connection *connection, const char *first)
{
	struct broadcast_listener *listener = calloc(1, sizeof(*listener));

	if (!listener)
		return NULL;
	*listener = (struct broadcast_listener){.broadcast = broadcast,
		.connection = connection,
		.sending = text_new(strdup(first), strlen(first))};
	if (listener->sending && add_listener(broadcast, listener))
		return listener;
	text_release(listener->sending);
	free(listener);
	return NULL;
}

/* Ends one that has no response. NULL is ignored. */
static void broadcast_leave(struct broadcast_listener *listener)
{
	if (!listener)
		return;
	struct broadcast *broadcast = listener->broadcast;
	pthread_mutex_lock(&broadcast->lock);
	CHAIN_REMOVE(broadcast->first, listener, prev, next);
	broadcast->count--;
	text_release(listener->sending);
	pthread_mutex_unlock(&broadcast->lock);
	free(listener);
}

static void on_destroyed(void *ctx)
{
	broadcast_leave(ctx);
}

/* The newest that it has not had; false: there is none. The lock is held. */
static bool take_newest(struct broadcast_listener *listener)
{
	struct broadcast *broadcast = listener->broadcast;

	text_release(listener->sending);
	listener->sending = NULL;
	listener->sent = 0;
	if (!broadcast->newest || listener->serial == broadcast->serial)
		return false;
	listener->sending = broadcast->newest;
	listener->sending->holders++;
	listener->serial = broadcast->serial;
	return true;
}

/* libmicrohttpd wants up to `most` bytes. */
static ssize_t read_next(struct broadcast_listener *listener, char *to, size_t most)
{
	const struct text *text = listener->sending;

	if (listener->broadcast->is_closed)
		return MHD_CONTENT_READER_END_OF_STREAM;
	if ((!text || listener->sent == text->bytes) && !take_newest(listener)) {
		MHD_suspend_connection(listener->connection);
		listener->is_suspended = true;
		return 0;
	}
	text = listener->sending;
	size_t size = text->bytes - listener->sent < most ? text->bytes - listener->sent : most;
	memcpy(to, text->at + listener->sent, size);
	listener->sent += size;
	return (ssize_t)size;
}

static ssize_t on_read(void *ctx, uint64_t position, char *to, size_t most)
{
	struct broadcast_listener *listener = ctx;

	(void)position;
	pthread_mutex_lock(&listener->broadcast->lock);
	ssize_t size = read_next(listener, to, most);
	pthread_mutex_unlock(&listener->broadcast->lock);
	return size;
}

/* The response that sends it all, which ends the listener when it is destroyed. NULL without
 * memory: then the listener has ended already. */
static struct MHD_Response *broadcast_response(struct broadcast_listener *listener)
{
	struct MHD_Response *response = MHD_create_response_from_callback(
		MHD_SIZE_UNKNOWN, BLOCK_BYTES, on_read, listener, on_destroyed);

	if (!response)
		broadcast_leave(listener);
	return response;
}

/* ---- texts ----------------------------------------------------------------------------------- */

/* The lock is held. */
static void wake_all(struct broadcast *broadcast)
{
	for (struct broadcast_listener *it = broadcast->first; it; it = it->next) {
		if (it->is_suspended)
			MHD_resume_connection(it->connection);
		it->is_suspended = false;
	}
}

/* The newest text from now on, as malloc'ed, which it takes over. */
static void broadcast_publish(struct broadcast *broadcast, char *text, size_t bytes)
{
	struct text *newest = text_new(text, bytes);

	if (!newest)
		return;
	pthread_mutex_lock(&broadcast->lock);
	text_release(broadcast->newest);
	broadcast->newest = newest;
	broadcast->serial++;
	wake_all(broadcast);
	pthread_mutex_unlock(&broadcast->lock);
}

static unsigned broadcast_count(struct broadcast *broadcast)
{
	pthread_mutex_lock(&broadcast->lock);
	unsigned count = broadcast->count;
	pthread_mutex_unlock(&broadcast->lock);
	return count;
}

/* Ends all responses, and accepts no new listener. */
static void broadcast_close(struct broadcast *broadcast)
{
	pthread_mutex_lock(&broadcast->lock);
	broadcast->is_closed = true;
	wake_all(broadcast);
	pthread_mutex_unlock(&broadcast->lock);
}

/* ---- handle events -------------------------------------------------------------------------- */

#define RETRY_MS 1000
#define TEXT(x)  #x
#define FIRST(x) "retry: " TEXT(x) "\n\n"

struct events {
	struct daemon *daemon;
	struct broadcast *broadcast;
	struct last_second *last; /* NULL: nobody listens */
	struct event *timer;
	uint64_t serial;
};

static void stop(struct events *events)
{
	event_del(events->timer);
	last_second_free(events->last);
	events->last = NULL;
}

/* `id: N`, `event: second`, `data: {...}`. NULL without memory. */
static char *compose(struct events *events, size_t *bytes)
{
	json_t *second = last_second_take(events->last, events->daemon);
	char *data = second ? json_dumps(second, JSON_COMPACT | JSON_PRESERVE_ORDER) : NULL;
	char *text = NULL;

	/* JSON has no end of a line but escaped: it is one line. */
	int len = data ? asprintf(&text, "id: %" PRIu64 "\nevent: second\ndata: %s\n\n",
				 ++events->serial, data)
		       : -1;
	free(data);
	json_decref(second);
	*bytes = len < 0 ? 0 : (size_t)len;
	return len < 0 ? NULL : text;
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct events *events = arg;
	size_t bytes;

	(void)fd;
	(void)what;
	if (broadcast_count(events->broadcast) == 0) {
		stop(events);
		return;
	}
	char *text = compose(events, &bytes);
	if (text)
		broadcast_publish(events->broadcast, text, bytes);
}

static bool start(struct events *events)
{
	static const struct timeval second = {.tv_sec = 1};

	if (events->last)
		return true;
	events->last = last_second_new(events->daemon);
	if (events->last && event_add(events->timer, &second) == 0)
		return true;
	last_second_free(events->last);
	events->last = NULL;
	return false;
}

struct events *events_new(struct daemon *daemon)
{
	struct events *events = calloc(1, sizeof(*events));

	if (!events)
		return NULL;
	events->daemon = daemon;
	events->broadcast = broadcast_new();
	events->timer = event_new(daemon->node.loop.base, -1, EV_PERSIST, on_timer, events);
	if (events->broadcast && events->timer)
		return events;
	events_free(events);
	return NULL;
}

void events_close(struct events *events)
{
	stop(events);
	broadcast_close(events->broadcast);
}

void events_free(struct events *events)
{
	if (!events)
		return;
	if (events->timer)
		event_free(events->timer);
	last_second_free(events->last);
	broadcast_free(events->broadcast);
	free(events);
}

void admin_get_events(struct admin_request *request)
{
	struct events *events = request->events;
	struct broadcast_listener *listener = NULL;

	if (start(events))
		listener = broadcast_join(events->broadcast, request->connection, FIRST(RETRY_MS));
	if (listener)
		request->response = broadcast_response(listener);
	if (request->response) {
		request->media_type = "text/event-stream";
		return;
	}
	admin_respond_problem(
		request, 503, "The maximum number of clients is listening, or sluice is stopping.");
}
