/*
 * Uses of sessions whose owner is known by the table of owners (owners.h): an exchange's, or a
 * tunnel's. A use asks for the owner of its session, follows the answer, and is informed when the
 * owner changes. All on its worker's thread.
 */
#ifndef OWNERSHIP_OWNER_USE_H
#define OWNERSHIP_OWNER_USE_H

#include "ownership/owners.h"
#include "worker/worker.h"

struct owner_node;
struct owner_wait;
struct parting;

/* A reference to a session: an exchange's, or a tunnel's. Zeroed: none. */
struct owner_use {
	struct owner_use *next, **at; /* of its worker's */
	struct owner_session *session;
	struct worker *worker;
	struct owner_wait *wait; /* PENDING */
	struct owner_node *node; /* that it was forwarded to; NULL: it is served here */
	uint64_t fence;          /* of the ownership that it is served under */
	/* When it followed, the owner's version, and until when the lease was sure at least
	 * (CLOCK_BOOTTIME); 0: it did not follow. */
	uint64_t version, ends_ns;
	struct {
		struct owner_node *node;
		uint64_t fence, version, ends_ns;
	} seen; /* with HERE and ELSEWHERE */
	/* The answer that it waited for. When it returns, the next in line is answered. */
	void (*answered)(struct owner_use *use, enum owner_sight sight);
	/* The session has another owner, or none. */
	void (*changed)(struct owner_use *use);
	/* It is served here, and the lease has ended: another node may take the session. NULL:
	 * nothing is to be done. */
	void (*lapsed)(struct owner_use *use);
	/* Another process has this one's address, or this one has another, and the session is
	 * waited for: a use that may last long must end now. May be called again. NULL: it is over
	 * soon. */
	void (*moves)(struct owner_use *use);
};

/* A worker's memory of sessions that have owners. */
struct ownership_part {
	struct owner_use *uses;
	struct parting *partings; /* connections: ownership/parting.h */
	unsigned parting_count;
	uint64_t confirmed; /* of nodes that leave: ownership/owner_nodes.h */
};

static inline struct ownership_part *ownership_part(const struct worker *worker)
{
	return worker->memory[PART_OWNERSHIP];
}

enum owner_begun {
	OWNER_BEGUN,     /* owner_end is due */
	OWNER_NO_MEMORY, /* for one more session, */
	OWNER_FULL,      /* or no place */
};

/* The session of this key (the node's own); `name` is asked for when it is not known yet. The use's
 * callbacks are set by then. */
enum owner_begun owner_begin(struct owners *owners, struct worker *worker, struct owner_use *use,
	struct session_key key, uint64_t idle_ms,
	void (*name)(struct owner_use *use, char out[OWNER_NAME_BYTES]));
enum owner_belief {
	OWNER_BELIEVE, /* what is known, while it holds */
	OWNER_ASK,     /* the store is asked */
	OWNER_ASK_OWN, /* it is asked only about what is owned here: ELSEWHERE is all else */
};

/* Whose is it? */
enum owner_sight owner_look(struct owners *owners, struct owner_use *use, enum owner_belief belief);
/* The use continues with the result of owner_look or `answered`: notes node and fence. */
void owner_follow(struct owner_use *use);
/* It waits no more. */
void owner_cancel(struct owner_use *use);
/* Gives it back. */
void owner_end(struct owners *owners, struct owner_use *use);
/* One more of a session that is served here, as the first. Its callbacks are set by then; owner_end
 * is due. */
void owner_share(struct owners *owners, struct owner_use *to, const struct owner_use *from);
/* The use is another's from now on, whose callbacks are set. */
void owner_move(struct owner_use *to, struct owner_use *from);

/* Is it owned here under the use's fence, and the lease in hand at this moment? Reads the clock. */
bool owner_is_valid(struct owners *owners, const struct owner_use *use);
/* Is the session owned as it was when the use last followed? */
bool owner_is_same(struct owners *owners, const struct owner_use *use);

/* Calls `changed` of this worker's uses whose owner is another one, and `moves` of those that
 * others wait for. */
void owners_look_at_uses(struct owners *owners, struct worker *worker);

/* ---- owner line ----------------------------------------------------------------------------- */

/*
 * Those who wait for the store's answer about a session, in the order of their arrival: the first
 * learns of it by a message to its worker, and the next one when that has returned. So none of them
 * passes another, whatever workers they are of. For the table's own units alone.
 */

struct owner_wait {
	struct message message;
	struct owner_wait *next, **at;
	struct owners *owners;
	struct owner_session *session;
	struct worker *worker;
	struct owner_use *use; /* NULL: it waits no more, and its message is under way */
};

/* With the stripe's lock: at the end of the line of the use's session. False: no memory. */
bool owner_line_enter(struct owners *owners, struct owner_use *use);
/* With the stripe's lock: the first in line is sent session->sight, as far as there is one. */
void owner_line_deliver(struct owner_session *session);
/* Frees those who wait: all workers have ended. */
void owner_line_free(struct owner_session *session);

#endif
