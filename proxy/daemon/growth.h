/*
 * More room for callers, as they come: the throttles' table begins small (throttle/throttle.h).
 *
 *   worker, after a turn: wants growth? --once--> main thread: grows --> workers have seen it
 *                                                          |                      |
 *                            again after a second <--failed'    the old room is given back
 */
#ifndef DAEMON_GROWTH_H
#define DAEMON_GROWTH_H

#include <event2/event.h>
#include <stdatomic.h>
#include <stdbool.h>

struct daemon;
struct worker;

struct growth {
	struct event *timer;     /* NULL: not begun */
	atomic_bool look_is_due; /* the main thread is to look; set by workers */
	bool is_waiting;         /* the last one failed a moment ago */
	bool has_failed;         /* which the log reports */
};

/* False without memory. Main thread, as the next two. */
bool growth_begin(struct daemon *daemon);
void growth_end(struct daemon *daemon);

/* Grows if a worker has requested it. */
void growth_make(struct daemon *daemon);

/* Looks whether it is. The worker's thread, in no call of the throttles. */
void growth_look(struct worker *worker);

#endif
