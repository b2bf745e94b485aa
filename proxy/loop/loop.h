/*
 * One thread's turn, on libevent. It knows neither sockets nor HTTP: other rooms register stages
 * and post messages.
 *
 *   loop_run_turn:  libevent's callbacks (note what happened) --> rounds --> deferred frees
 *
 *   a round:  read stages --> messages --> write stages      until no stage has work
 *
 * A system call displaces most of the code in the processor's first cache, and the code behind it
 * displaces the kernel's. A stage that serves many objects in a row pays for both less often.
 */
#ifndef LOOP_LOOP_H
#define LOOP_LOOP_H

#include <event2/event.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "loop/message.h"

/* When a stage runs within a round. */
enum loop_phase { LOOP_READ, LOOP_WRITE };
#define LOOP_PHASES 2

/* Embedded in whatever registers it. */
struct loop_stage {
	/* Does what there is to do; false: there was nothing. */
	bool (*run)(struct loop_stage *stage);
	struct loop_stage *next;
};

/* Embedded in an object that may end inside one of its own callbacks: functions up the stack may
 * still look at it, so its memory is freed at the end of the turn. */
struct deferred_free {
	struct deferred_free *next;
	void (*free)(struct deferred_free *item);
};

struct loop {
	struct event_base *base;
	struct loop_stage *stages[LOOP_PHASES];
	struct message *ready; /* posted by this thread, newest first */
	struct deferred_free *deferred;
	uint64_t now_ns, now_ms; /* valid when now_known */
	bool now_known;
	bool hurries;  /* the next turn waits for no event */
	uint64_t turn; /* counts them */

	/* from other threads */
	struct message *_Atomic inbox; /* newest first */
	int wake_fd;
	struct event *wake_event;
};

/* Makes its event base and its wake-up. Returns 0, or an errno value with nothing held: ENOMEM,
 * EMFILE, ENFILE. The loop must not move in memory. */
int loop_init(struct loop *loop);

/* Before loop_end: runs what libevent has put off, as it does with look-ups that were cancelled.
 * Messages do not run any more. All events must have been removed; a loop of all zeroes is
 * ignored. */
void loop_finish_callbacks(struct loop *loop);

/* Frees what is deferred and the event base; messages not yet run are dropped. All events on the
 * base must have been removed. A loop of all zeroes, or one that loop_init failed on, is
 * ignored. */
void loop_end(struct loop *loop);

/* What libevent has to say goes to the error log from now on, not to stderr. It concerns all loops
 * of the process. */
void loop_log_libevent(void);

/* The loop of the calling thread, or NULL. */
struct loop *loop_current(void);

/* Makes `loop` (or NULL: none) the calling thread's. */
void loop_enter(struct loop *loop);

/* Adds a stage after those of its phase. It stays registered as long as the loop. */
void loop_add_stage(struct loop *loop, enum loop_phase phase, struct loop_stage *stage);

/* Waits for an event and serves everything that it leads to. Returns 0, or an errno value when the
 * event base failed. */
int loop_run_turn(struct loop *loop);

/* The next turn looks for events and waits for none: some stage has work left for it. */
static inline void loop_hurry(struct loop *loop)
{
	loop->hurries = true;
}

/* Runs rounds and deferred frees without waiting for events. */
void loop_finish_turn(struct loop *loop);

/* Has a message posted by the loop's own thread not run yet? */
static inline bool loop_has_ready(const struct loop *loop)
{
	return loop->ready != NULL;
}

/* Begins a turn on the loop's thread, if only to let it look whether it is done. Any thread. */
void loop_wake(struct loop *loop);

/* item is freed by `free_item` at the end of the turn. The loop's thread. */
void loop_free_later(struct loop *loop, struct deferred_free *item,
	void (*free_item)(struct deferred_free *item));

/* The monotonic time of this turn, read at its first use; see clock_monotonic_ns. */
uint64_t loop_read_clock(struct loop *loop);
static inline uint64_t loop_now_ns(struct loop *loop)
{
	return loop->now_known ? loop->now_ns : loop_read_clock(loop);
}
static inline uint64_t loop_now_ms(struct loop *loop)
{
	loop_now_ns(loop);
	return loop->now_ms;
}

#endif
