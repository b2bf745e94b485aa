/*
 * The table of owners (ownership/owners.h): its sessions, in stripes with a lock each, and in the
 * ticks in which they are to be looked after. For the table's own units alone.
 */
#ifndef OWNERSHIP_OWNER_TABLE_H
#define OWNERSHIP_OWNER_TABLE_H

#include "base/clock.h"
#include "ownership/owners.h"
#include "loop/loop.h"

#define OWNER_STRIPES 64 /* a power of two */

/* Sessions are looked after in ticks: each is in the list of one tick to come, at most OWNER_TICKS
 * away. It moves only when that has come, so that a use costs no list. */
#define OWNER_TICK_MS 50
#define OWNER_TICKS   256
#define OWNER_AT_ONCE 64 /* sessions of a stripe that are looked after in one go */

#define OWNER_START_MS 5000 /* a process has found its store by then, or is without one */

enum owner_side { OWNER_SIDE_NOBODY, OWNER_SIDE_HERE, OWNER_SIDE_ELSEWHERE };

struct owner_wait;

struct owner_node_mark {
	uint64_t instance, mark;
};

struct owner_session {
	struct owner_session *next;               /* in its bucket */
	struct owner_session *next_due, **due_at; /* in its tick, or among those due */
	struct session_key key;
	char name[OWNER_NAME_BYTES];
	/* Set by owner_session_become alone: */
	enum owner_side side;
	uint64_t fence;
	struct owner_node *node; /* ELSEWHERE; held */
	/* Grows with every change of these, and when it is given up in use. Written with the lock,
	 * read also without it. */
	_Atomic uint64_t version;
	uint32_t users;
	uint64_t idle_ns; /* owner_idle */
	/* All by CLOCK_BOOTTIME: */
	uint64_t lease_ms; /* that was asked for */
	uint64_t asked_ns; /* when the question was asked that is under way, or was last */
	uint64_t used_ns;  /* when a use began or ended last; of ELSEWHERE: it was forwarded to */
	uint64_t ends_ns; /* HERE: of the lease, as far as it is sure; ELSEWHERE: at the earliest */
	uint64_t
		renew_ns; /* HERE: when it is to be renewed; ELSEWHERE, in use: to be asked about */
	uint64_t lapsed_ns;   /* HERE: the end of a lease of which its users have been told */
	bool is_asked;        /* the store, and it has not answered */
	bool is_giving;       /* it was asked to give it up, and has not answered that */
	uint8_t asks_again;   /* while it `awaits`: so often, or a bound of that */
	uint8_t failed_gives; /* so often in a row, or a bound of that */
	bool is_posted;       /* the first of those who wait has been sent its answer */
	bool awaits; /* those in line wait until the process before this one gives it up, or for a
			store that a process which has just begun is not yet connected to */
	const struct owner_self *self; /* the identity that has taken it, or is asked to */
	enum owner_sight sight;        /* that they are sent */
	struct owner_wait *first, **end;
	_Atomic uint64_t mark; /* of what this node forwards; may be read without the lock */
	/* Of what it is forwarded; by owner_marks.h alone. */
	struct owner_node_mark *marks;
	unsigned mark_count, mark_room;
	uint64_t marks_fence; /* of the ownership that they are of */
};

struct owner_stripe {
	_Alignas(64) pthread_mutex_t lock;
	struct owner_session **buckets;
	size_t bucket_count, count;
	uint64_t tick;             /* that was looked after last */
	size_t hand;               /* the bucket that is looked at next while it is full */
	struct owner_session *due; /* of ticks that have come */
	struct owner_session *ticks[OWNER_TICKS];
};

/* The identities that this process has had at the store: [fleet] node and bind may change. Lives as
 * long. */
struct owner_self {
	struct owner_self *next;
	char text[OWNER_NODE_BYTES];
};

struct owners {
	const struct owner_store *store;
	struct upstream_states *states;
	uint64_t instance;
	char instance_text[20];     /* most of it, in digits */
	uint64_t born_ns;           /* CLOCK_BOOTTIME */
	_Atomic uint64_t marks;     /* the highest of all sessions */
	_Atomic uint64_t fence;     /* the highest that the store has answered */
	_Atomic uint64_t has_asked; /* a bit of each worker, or of some: the store could be asked */
	_Atomic uint64_t lease_ms;
	atomic_size_t count, most; /* sessions */
	_Atomic(struct owner_self *)
		self;                 /* now; NULL: nobody reaches it, or it is not known yet */
	atomic_bool is_leaving;       /* a drain: what is idle is given up at once */
	atomic_bool is_replaced;      /* another process has this one's address */
	atomic_bool has_predecessor;  /* and the other way around, while that goes on */
	_Atomic uint64_t yields_from; /* a stripe, and a bucket of it: see owners_yield */
	bool has_moving;              /* of the sweeping worker: one in use moves, */
	bool has_lapsed;              /* and the lease of one in use has ended */
	uint64_t told_ns;             /* and when those who use such were told last */
	pthread_mutex_t lock;         /* of what follows */
	struct owner_self *selves;
	struct owner_node *nodes;
	size_t node_count; /* with those that leave */
	struct {
		struct owner_node *first;
		uint64_t number;    /* of those that leave together */
		size_t confirmed;   /* workers that have nothing to do with these */
		uint64_t looked_ns; /* of the sweeping worker alone */
	} leaving;
	struct owner_stripe stripes[OWNER_STRIPES];
};

/* NULL: none, or not known yet. */
static inline struct owner_self *owner_self(struct owners *owners)
{
	/* acquire: pairs with the release in owners_set_self */
	return atomic_load_explicit(&owners->self, memory_order_acquire);
}

struct owner_stripe *owner_stripe_of(struct owners *owners, struct session_key key);

/* All of these with the stripe's lock. */

/* Where the session of this key is pointed to from; that is NULL where there is none. */
struct owner_session **owner_session_find(struct owner_stripe *stripe, struct session_key key);
/* One of a key that is not there, to be looked after in 100 ms. NULL without memory. */
struct owner_session *owner_session_add(struct owners *owners, struct owner_stripe *stripe,
	struct session_key key, const char *name, uint64_t now_ns);
/* It is to be looked after at `at_ns` (CLOCK_BOOTTIME), or earlier where that is far. It is in no
 * tick's list. */
void owner_session_schedule(
	struct owner_stripe *stripe, struct owner_session *session, uint64_t at_ns);
/* It is to be looked after now. It is in no tick's list. */
void owner_session_make_due(struct owner_stripe *stripe, struct owner_session *session);
/* Out of its tick's list, or of those that are due. */
void owner_session_unschedule(struct owner_session *session);
void owner_session_free(struct owner_session *session);
/* Its owner is this one from now on. `node`, of ELSEWHERE, is held by it; otherwise NULL. */
void owner_session_become(struct owner_session *session, enum owner_side side,
	struct owner_node *node, uint64_t fence);
/* Removes and frees one that nobody uses, is in no tick's list and of which nothing is asked. */
void owner_session_forget(
	struct owners *owners, struct owner_stripe *stripe, struct owner_session *session);
/* The present owner, for a use that is informed of it. */
void owner_session_note(const struct owner_session *session, struct owner_use *use);
/* Is one that is owned here given up as soon as it is unused? */
bool owner_session_yields(struct owners *owners, const struct owner_session *session);
/* And can other nodes not reach it any more, because another process, or none, is at the address
 * with which it was taken? */
bool owner_session_moves(struct owners *owners, const struct owner_session *session);
/* The action for a session of that side. */
enum owner_sight owner_session_sight(const struct owner_session *session);

#endif
