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
#ifndef ADMIN_BROADCAST_H
#define ADMIN_BROADCAST_H

#include <stdbool.h>
#include <stddef.h>

#define BROADCAST_LISTENERS 16

struct MHD_Connection;
struct MHD_Response;
struct broadcast;
struct broadcast_listener;

/* NULL without memory. */
struct broadcast *broadcast_new(void);
/* No listener is left: after broadcast_close and the end of their daemons. NULL is ignored. */
void broadcast_free(struct broadcast *broadcast);

/* One more listener, which begins with `first` and continues with what is published from now on.
 * NULL: there are BROADCAST_LISTENERS, it is closed, or there is no memory. */
struct broadcast_listener *broadcast_join(
	struct broadcast *broadcast, struct MHD_Connection *connection, const char *first);
/* The response that sends it all, which ends the listener when it is destroyed. NULL without
 * memory: then the listener has ended already. */
struct MHD_Response *broadcast_response(struct broadcast_listener *listener);
/* Ends one that has no response. NULL is ignored. */
void broadcast_leave(struct broadcast_listener *listener);

/* The newest text from now on, as malloc'ed, which it takes over. */
void broadcast_publish(struct broadcast *broadcast, char *text, size_t bytes);

unsigned broadcast_count(struct broadcast *broadcast);

/* Ends all responses, and accepts no new listener. */
void broadcast_close(struct broadcast *broadcast);

#endif
