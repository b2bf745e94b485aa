/*
 * Which node owns the session of a client (session_scope = fleet), as this node knows it.
 *
 *   NOBODY --asked: taken--> HERE --idle for owner_idle: given up--> NOBODY
 *      |                      `-- not renewed: lost -------------------^
 *      `--asked: another's--> ELSEWHERE --not used for owner_idle, or its lease is over--> asked
 *
 * The store decides (struct owner_store); the table has its answers, and the time until which they
 * hold:
 *  - HERE as long as the lease is in hand, by CLOCK_BOOTTIME, which continues while the process is
 *    stopped. It is renewed while anybody uses the session.
 *  - ELSEWHERE until owner_idle after this node has last forwarded to it: so long the owner keeps
 *    what it was sent a request of. Then the store is asked again.
 *
 * A use that needs an answer of the store waits for it in line, and the next in line gets it when
 * the one before has processed it: so their order is that of their arrival, over all workers.
 *
 * owner_use.h: who uses a session. owner_marks.h: the order of what is forwarded. owner_sweep.h:
 * time. owner_nodes.h: the nodes as servers. Inside: owner_table.h, owner_ask.h, owner_use.h.
 *
 * A session is in memory while it is used, owned or believed to be another node's.
 */
#ifndef OWNERSHIP_OWNERS_H
#define OWNERSHIP_OWNERS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"
#include "conf/conf.h"
#include "loop/message.h"
#include "queue/queue.h"
#include "worker/node.h"

struct owners;
struct owner_session;
struct owner_use;
struct upstream;
struct upstream_states;
struct worker;

/* The store remembers an owner for so long after its lease, or twice as long: a node that comes
 * back then may go on, under the same fence, if nobody took the session. So does the node
 * (owner_sweep.h). */
#define OWNER_KEEP_MS 60000

#define OWNER_NAME_BYTES 40  /* of a session, for all nodes: 32 digits */
#define OWNER_NODE_BYTES 129 /* `instance/name/address`, with its NUL */

enum owner_sight {
	OWNER_HERE,
	OWNER_ELSEWHERE,
	OWNER_PENDING, /* use->answered is called later */
	OWNER_UNKNOWN, /* the store does not answer */
};

enum owner_verb { OWNER_TAKE, OWNER_RENEW, OWNER_GIVE };

/* A question to the store: memory of the store's side, which copies what it needs. */
struct owner_question {
	struct owner_session *session; /* stays until the answer */
	enum owner_verb verb;
	const char *name; /* of the session */
	const char *self; /* the asking node: OWNER_NODE_BYTES */
	uint64_t fence;   /* RENEW, GIVE; TAKE: what it had by fences up to this one is over */
	uint64_t lease_ms;
};

/* The store's answer. */
struct owner_answer {
	bool is_known; /* false: it did not answer, and may have done it */
	bool is_held;  /* by this node, from now on for the lease; GIVE: false */
	uint64_t fence;
	uint64_t left_ms; /* of another's lease */
	const char *node; /* another node; NULL: none */
};

struct owner_store {
	/* On the worker's thread, with a lock held: answers later by owners_answer on the same
	 * thread, or never. False: it can't be asked now. */
	bool (*ask)(struct worker *worker, const struct owner_question *question);
};

/* NULL without memory. `states`: of the upstreams that nodes become. Both outlive it. */
struct owners *owners_new(const struct owner_store *store, struct upstream_states *states);
/* All workers have ended. NULL is ignored. */
void owners_free(struct owners *owners);
/* Sets this node's name, address and lease, and the largest number of sessions, from the site in
 * force. True: the node has changed; send WORKER_OWNERS for the sessions in use. Any thread. */
bool owners_set_self(struct owners *owners, const char *name, const char *address,
	uint64_t lease_ms, size_t sessions_most);
/* Other nodes do not reach this one any more. It takes nothing, and gives up what it owns. True:
 * they did; WORKER_OWNERS is to follow for what is in use. Any thread. */
bool owners_unset_self(struct owners *owners);
/* A number of this process, for what it sends: at most 19 digits. Lives as long as the table. */
struct slice owners_instance(const struct owners *owners);

/* Is no session in memory? Any thread. */
bool owners_are_none(const struct owners *owners);

/* Has another process this one's address? Any thread. */
bool owners_are_replaced(const struct owners *owners);

/* The store answers. */
void owners_answer(struct owners *owners, struct worker *worker, struct owner_session *session,
	enum owner_verb verb, const struct owner_answer *answer);
/* The owner of the session, to be displayed: a name of a node, or "". Any thread. */
void owners_describe(struct owners *owners, struct session_key key, char name[CONF_NODE_BYTES]);

static inline struct owners *node_owners(const struct node *node)
{
	return node->shared[NODE_OWNERS];
}

#endif
