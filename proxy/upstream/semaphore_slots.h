/*
 * An upstream's part in a semaphore of the fleet, as its exchanges see it: until when its slots may
 * be used, and what is to be shown of them. They are kept by a thread of their own, in a room above
 * (semaphore/), which passes their number to the run queue.
 */
#ifndef UPSTREAM_SEMAPHORE_SLOTS_H
#define UPSTREAM_SEMAPHORE_SLOTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum semaphore_state {
	SEMAPHORE_NONE,       /* the upstream has none */
	SEMAPHORE_CONNECTING, /* for the first time, or once more after a loss, at once */
	SEMAPHORE_HOLDS,      /* takes slots as they are needed */
	SEMAPHORE_AWAY,       /* the broker is: a share, or nothing */
	SEMAPHORE_RETURNS,    /* the same still, as the broker is back for some seconds only */
	SEMAPHORE_STATES,
};

/* `connecting`, `holds`, `away`, `returns`; `none` */
const char *semaphore_state_name(enum semaphore_state state);

/* For people; each value by itself. */
struct semaphore_shown {
	atomic_uint state;             /* enum semaphore_state */
	atomic_uint bound;             /* requests that may be at the upstream */
	atomic_uint held, wanted, max; /* slots: this node's, those it wants, of all nodes */
	atomic_uint nodes;             /* 0: unknown */
	atomic_bool refuses;
	_Atomic uint64_t messages; /* to the broker so far */
};

struct semaphore_slots {
	/* Monotonic, in ns. 0: no semaphore bounds the upstream. */
	_Atomic uint64_t until_ns;
	_Atomic uint64_t since_ns; /* what was placed before began by other slots */
	int wake_fd;               /* wakes the thread; -1: none was ever needed */
	struct semaphore_shown shown;
};

/* Makes what wakes the thread, unless it is there. 0, or an errno value: EMFILE, ENFILE, ENOMEM.
 * Main thread. */
int semaphore_slots_begin(struct semaphore_slots *slots);
void semaphore_slots_end(struct semaphore_slots *slots);

/* Wakes the thread. Any thread; never blocks. */
void semaphore_slots_wake(void *slots);

/* Sets until when, and since when, slots are used. The thread that keeps them. */
void semaphore_slots_set(struct semaphore_slots *slots, uint64_t since_ns, uint64_t until_ns);

/*
 * May what was placed then (ticket.placed_ns; 0: without a place) be sent now? Reads the clock
 * itself, so that a node that stood still sends nothing by slots that others may have by now.
 */
bool semaphore_slots_let(const struct semaphore_slots *slots, uint64_t placed_ns);

#endif
