/* What the table of owners consists of: for its own units alone (exchange/owners.h). */
#ifndef EXCHANGE_OWNERS_INSIDE_H
#define EXCHANGE_OWNERS_INSIDE_H

#include "base/clock.h"
#include "exchange/owners.h"
#include "loop/loop.h"

#define OWNER_STRIPES 64 /* a power of two */

/* Sessions are looked after in ticks: each is in the list of one tick to come, at most OWNER_TICKS
 * away. It moves only when that has come, so that a use costs no list. */
#define OWNER_TICK_MS 50
#define OWNER_TICKS   256
#define OWNER_AT_ONCE 64 /* sessions of a stripe that are looked after in one go */

#define OWNER_MARKS 4 /* nodes whose marks a session remembers */

enum owner_side { OWNER_SIDE_NOBODY, OWNER_SIDE_HERE, OWNER_SIDE_ELSEWHERE };

struct owner_session {
	struct owner_session *next; /* in its bucket */
	struct owner_session *next_due;
	struct session_key key;
	char name[OWNER_NAME_BYTES];
	enum owner_side side;
	uint32_t users;
	uint64_t fence;
	struct owner_node *node; /* ELSEWHERE */
	uint64_t idle_ns;        /* owner_idle */
	/* All by CLOCK_BOOTTIME: */
	uint64_t asked_ns; /* when the question was asked that is under way, or was last */
	uint64_t used_ns;  /* when a use began or ended last; of ELSEWHERE: it was forwarded to */
	uint64_t ends_ns; /* HERE: of the lease, as far as it is sure; ELSEWHERE: at the earliest */
	uint64_t
		renew_ns; /* HERE: when it is to be renewed; ELSEWHERE, in use: to be asked about */
	bool is_asked;    /* the store, and it has not answered */
	bool is_delivering;     /* the first of those who wait has been sent its answer */
	enum owner_sight sight; /* that they are sent */
	struct owner_wait *first, **end;
	uint64_t mark; /* of what this node forwards */
	struct {
		uint64_t instance, mark;
	} marks[OWNER_MARKS]; /* of what it is forwarded */
};

struct owner_wait {
	struct message message;
	struct owner_wait *next;
	struct owners *owners;
	struct owner_session *session;
	struct worker *worker;
	struct owner_use *use; /* NULL: it waits no more */
};

struct owner_stripe {
	_Alignas(64) pthread_mutex_t lock;
	struct owner_session **buckets;
	size_t bucket_count, count;
	uint64_t tick;             /* that was looked after last */
	struct owner_session *due; /* of ticks that have come */
	struct owner_session *ticks[OWNER_TICKS];
};

struct owners {
	const struct owner_store *store;
	struct upstream_states *states;
	uint64_t instance;
	_Atomic uint64_t lease_ms;
	atomic_size_t count;  /* sessions */
	pthread_mutex_t lock; /* of what follows */
	char self[OWNER_NODE_BYTES];
	struct owner_node *nodes;
	size_t node_count;
	struct owner_stripe stripes[OWNER_STRIPES];
};

/* The node of this text, made if need be; NULL: it is none, or no memory. Takes owners->lock. */
struct owner_node *owner_node_of(struct owners *owners, const char *text);
void owner_nodes_free(struct owners *owners);

#endif
