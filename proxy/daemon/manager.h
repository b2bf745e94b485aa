/*
 * Notifications to the service manager (systemd with Type=notify), and its watchdog.
 *
 *   start --READY--> serving --RELOADING--> reading --READY--> serving --STOPPING--> draining
 *
 *   each quarter of the watchdog's period:
 *     main thread --ping--> every worker --answer--'
 *     all have answered the last ping: WATCHDOG=1, the next ping
 *     one has not:                     nothing, and the manager restarts us when its period is over
 *
 * Without NOTIFY_SOCKET in the environment, or libsystemd, nothing of this happens. All of it is
 * the main thread's, but for manager_answer.
 */
#ifndef DAEMON_MANAGER_H
#define DAEMON_MANAGER_H

#include <event2/event.h>
#include <stdbool.h>
#include <stdint.h>

struct daemon;
struct worker;

struct manager {
	struct event *watchdog; /* NULL: none is wanted */
	uint64_t pings;         /* the last one */
};

/* All listen and serve. Begins the watchdog. A NOTIFY_SOCKET that cannot be used is a line in the
 * log. */
void manager_ready(struct daemon *daemon);
/* Ends the watchdog. */
void manager_close(struct daemon *daemon);
/* A reload has begun, and has ended: it took effect, or nothing has changed. */
void manager_reloading(struct daemon *daemon);
void manager_reloaded(struct daemon *daemon, bool effective);
/* A drain has begun that takes `timeout_ms` at most: the manager is asked for that time and some
 * more. */
void manager_stopping(uint64_t timeout_ms);

/* Process `pid` has taken over and is the service's from now on. */
void manager_handed_over(struct daemon *daemon, long pid);

/* The worker has had a ping. On its thread. */
void manager_answer(struct worker *worker);
/* It has ended and answers all that may come. On its thread. */
void manager_answer_all(struct worker *worker);

#endif
