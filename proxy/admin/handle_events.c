/* Server-sent events (WHATWG HTML, 9.2), one a second. */
#include <event2/event.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "admin/broadcast.h"
#include "admin/events.h"
#include "admin/handlers.h"
#include "admin/last_second.h"
#include "admin/request.h"
#include "base/log.h"
#include "daemon/daemon.h"

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
