/* GET /api/v1/events: once a second to all listeners what has happened (admin/last_second.h), as
 * server-sent events. Nothing is looked at while there is no listener. */
#ifndef ADMIN_HANDLE_EVENTS_H
#define ADMIN_HANDLE_EVENTS_H

struct events;
struct daemon;

/* NULL without memory. Main thread, as all of it. */
struct events *events_new(struct daemon *daemon);
/* Ends all listeners' responses. */
void events_close(struct events *events);
/* Their daemons have ended. NULL is ignored. */
void events_free(struct events *events);

#endif
