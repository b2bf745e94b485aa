/*
 * A session's way to a lock, and its hold on it, for `sluice lock`.
 *
 *   TAKING --held--> HOLDING --lock_hold_release--> RELEASING --> DONE (released, or lost)
 *    |  `--another has it: WAITING --> TAKING     `-- over, or the lease's end came: DONE (lost)
 *    `-- given up, refused: DONE
 *
 * A session that another process has begun is joined: it is looked up, and used if it has the lock.
 * What joins does not release it; that is left to the process that began it.
 *
 * The lease runs from before the ask that the store granted, by the node's clock that also counts
 * while the machine sleeps. While it does, the store is asked again and again; at its end it is
 * lost, unless this process stood still until then: then the store is asked once more. So it is
 * when the grant itself is read behind that end: HOLDING begins with a lease that is running.
 */
#ifndef CLI_LOCK_LOCK_HOLD_H
#define CLI_LOCK_LOCK_HOLD_H

#include "cli/lock/lock_store.h"
#include "loop/deadline.h"

enum lock_hold_state { HOLD_TAKING, HOLD_WAITING, HOLD_HOLDING, HOLD_RELEASING, HOLD_DONE };

enum lock_hold_end {
	HOLD_NOT_HAD, /* in time, or it was given up before */
	HOLD_REFUSED, /* by the store: is_refused */
	HOLD_LOST,    /* why is in `why` */
	HOLD_RELEASED,
	HOLD_UNHEARD, /* the store has not answered the release; the lease ends by itself */
};

struct lock_hold {
	struct lock_store *store;
	struct lock_ask ask;
	const char *name;
	char session[LOCK_SESSION_BYTES];
	enum lock_hold_state state;
	enum lock_hold_end end;
	bool is_asked, is_given_up;
	bool may_be_taken; /* the store was asked to give it, and has not answered since */
	bool is_joined;    /* the session is another process's, and not to be released */
	uint64_t born, fence;
	uint64_t lease_ms, wait_ms; /* wait_ms: UINT64_MAX: as long as it takes */
	uint64_t began_ms;
	uint64_t asked_boot_ns;
	uint64_t unheard_since_ms; /* asked first since the store's last answer; 0: not asked */
	uint64_t until_ns;         /* HOLDING: the lease's end, by clock_boot_ns */
	struct deadline next;      /* to ask again */
	struct deadline last;      /* TAKING, WAITING: of the wait; HOLDING: the lease's end */
	char holder[LOCK_SESSION_BYTES]; /* another that was seen to have it; "": none */
	char why[320]; /* of HOLD_LOST, and of HOLD_NOT_HAD where the session to join is over */
	/* The lock is had, its lease was renewed, or it is DONE. */
	void (*changed)(struct lock_hold *hold);
};

/* Begins to take it. `name` and `store` outlive it. */
void lock_hold_begin(struct lock_hold *hold, struct lock_store *store, const char *name,
	uint64_t lease_ms, uint64_t wait_ms, void (*changed)(struct lock_hold *hold));
/* Joins `session` instead of beginning one. Directly after lock_hold_begin. */
void lock_hold_join(struct lock_hold *hold, const char *session);
/* Does not take it any more: DONE when it is known that it is not held, after a second at most. */
void lock_hold_give_up(struct lock_hold *hold);
/* Of HOLDING. */
void lock_hold_release(struct lock_hold *hold);
/* The store's connection has changed. */
void lock_hold_look(struct lock_hold *hold);
/* Nothing of it is on the loop any more. */
void lock_hold_end(struct lock_hold *hold);

#endif
