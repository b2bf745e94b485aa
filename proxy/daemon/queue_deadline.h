/*
 * The time at which the queue next has something to expire, and the main loop's timer for it.
 *
 *   any thread: an exchange waits --note--> earliest deadline --arm, each turn--> timer -->
 * queue_expire
 */
#ifndef DAEMON_QUEUE_DEADLINE_H
#define DAEMON_QUEUE_DEADLINE_H

#include <event2/event.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct daemon;

struct queue_deadline {
	struct event *timer;    /* NULL: not begun */
	_Atomic uint64_t at_ns; /* monotonic; QUEUE_NEVER */
};

/* False without memory. Main thread, as queue_deadline_end. */
bool queue_deadline_begin(struct daemon *daemon);
void queue_deadline_end(struct daemon *daemon);

/* The queue's `timer_changed` (queue/queue.h); `ctx` is the daemon. Wakes the main loop when the
 * deadline (monotonic) is earlier than the known one. Any thread. */
void queue_deadline_note(void *ctx, uint64_t deadline_ns);

/* Arms the timer. Main thread, after each turn of its loop. */
void queue_deadline_arm(struct daemon *daemon);

#endif
