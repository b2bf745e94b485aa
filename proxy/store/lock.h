/*
 * Named locks with leases in the store (lock.lua): what is asked about one, and how a call asks
 * about many. locks.h sends it. Pure.
 *
 * A session is an id that one life uses: a command, or a node. It takes a lock, uses it as long as
 * it likes, and releases it. The rules, all of them the store's, in one operation:
 *  - A session takes a lock if no other session's lease is running. Each taking has a fence, a
 * number that is larger than those of all takings of this lock before.
 *  - A use checks that the session has the lock by this fence, renews the lease, of which the later
 *    end stays, and may set the lock's value. All of it is done, or nothing.
 *  - A session whose lease has ended continues as long as nobody else has taken the lock.
 *  - It is over when another has taken the lock, when it was released or ended, or when nothing was
 *    heard of it for twice `keep` after its lease: it uses nothing any more, and does not take the
 * lock again. By its id and fence it can't use what it lost, as fences only grow; nor can it take
 * the lock, as a taking names the fence that the lock had at the session's birth (LOCK_BORN_ANY:
 * the asker has dropped all that it had by earlier fences, and begins again: under a new one, also
 *    if a store that has lost its last writes still names it for one of these).
 *  - Those who share an id and its fence share the session.
 * Leases are only for when nobody answers: no two sessions have uses between each other's, whatever
 * clocks say. The fence is for what the store does not see: give it to what takes effect elsewhere.
 *
 * Fences also grow with the store's time (microseconds since 1970), so that they do when the store
 * has lost what it kept, if its clock was not set back.
 */
#ifndef STORE_LOCK_H
#define STORE_LOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define LOCK_NAME_BYTES    65 /* with its NUL */
#define LOCK_SESSION_BYTES 129
#define LOCK_VALUE_BYTES   65536 /* at most */
#define LOCK_BORN_ANY      UINT64_MAX

/* Names of one kind are apart from those of the others. */
enum lock_kind { LOCK_OF_COMMANDS, LOCK_OF_SESSIONS, LOCK_OF_PROBES };
#define LOCK_KINDS 3

enum lock_verb {
	LOCK_TAKE,    /* number: the fence at the session's birth, as any answer has it */
	LOCK_USE,     /* number: the session's fence */
	LOCK_RELEASE, /* likewise */
	LOCK_END,     /* number: the fence of the session to end, 0: any. An administrator's */
	LOCK_LOOK,    /* changes nothing */
};

enum lock_status {
	LOCK_UNKNOWN, /* the store did not answer: whether it has done it is not known */
	LOCK_HELD,    /* by the session that asked: its lease is renewed */
	LOCK_BUSY,    /* another session's lease is running; of LOCK_LOOK: any session's */
	LOCK_LAPSED,  /* of LOCK_LOOK: a session has it, its lease has ended */
	LOCK_FREE,    /* of LOCK_LOOK: no session has it; of LOCK_RELEASE and LOCK_END: done */
	LOCK_OVER,    /* the session does not have it, or was born before its last taking; of
			 LOCK_END: there was nothing to end */
};

struct lock_answer {
	enum lock_status status;
	uint64_t fence;                   /* of the last taking, or the store's time (us) */
	uint64_t left_ms;                 /* of the lease that is running */
	char session[LOCK_SESSION_BYTES]; /* that has it, or was ended; "": none */
	const char *value;                /* of LOCK_TAKE and LOCK_LOOK, only during the call */
	size_t value_len;
};

/* Embedded in its owner, who sets the first members; texts are borrowed until `done`. */
struct lock_ask {
	enum lock_kind kind;
	enum lock_verb verb;
	const char *name;    /* lock_name_is_valid */
	const char *session; /* lock_session_is_valid; NULL of LOCK_END and LOCK_LOOK */
	uint64_t number;
	uint64_t dropped;  /* of LOCK_BORN_ANY: what it had by fences up to this one is over */
	uint64_t lease_ms; /* not 0 */
	uint64_t keep_ms;  /* the lock is remembered for twice so long after its lease; not 0 */
	const char *value; /* NULL: it stays as it is */
	size_t value_len;
	void (*done)(struct lock_ask *ask, const struct lock_answer *answer);

	struct lock_ask *next; /* while it waits to be sent */
	uint64_t asked_ms; /* by the loop: a lease that is granted runs from then on, or later */
};

/* 1 to 64 of A-Z a-z 0-9 . _ : - */
bool lock_name_is_valid(const char *name);
/* 1 to 128 printable characters of ASCII, without blanks, and not "-". */
bool lock_session_is_valid(const char *session);

/* The part of a store that is a Redis Cluster where a lock is (cluster_map.h). */
unsigned lock_part_of(const char *name);

/* Makes it ask to own the lock: to take it if it does not know its fence (0), else to use it.
 * LOCK_BUSY and answer.session say who else has it. */
void lock_ask_own(struct lock_ask *ask, uint64_t fence);

/* A call of the store's function, in Redis's protocol. All locks are of one kind, and of this part
 * (0: the store is no cluster). NULL without memory; the caller frees it. */
char *lock_compose(const char *prefix, unsigned part, struct lock_ask *const *asks, unsigned count,
	size_t *len);
/* The same for a list of locks with a session, from a cursor, "0" at first. */
char *lock_compose_list(
	const char *prefix, unsigned part, enum lock_kind kind, const char *cursor, size_t *len);

/* The rest of an answer. */
struct lock_reader {
	const char *at, *end;
};

/* Reads what is answered about the next lock. False: it is no answer of the function. */
bool lock_read(struct lock_reader *reader, struct lock_answer *answer);

/* The name in a key of the list; NULL: it is none of this prefix, part and kind. */
const char *lock_name_in_key(
	const char *key, const char *prefix, unsigned part, enum lock_kind kind);

#endif
