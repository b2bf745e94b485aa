/*
 * Which node owns the session of a client (session_scope = fleet), as this node knows it.
 *
 *   NOBODY --asked: taken--> HERE --idle for owner_idle: given up--> NOBODY
 *      |                      `-- not renewed: lost -------------------^
 *      `--asked: another's--> ELSEWHERE --not used for owner_idle, or its lease is over--> asked
 *
 * The store decides (struct owner_store); here is what it said, and how long that holds:
 *  - HERE as long as the lease is in hand, by CLOCK_BOOTTIME, which goes on while the process is
 *    stopped. It is renewed while anybody uses the session.
 *  - ELSEWHERE until owner_idle after this node has last forwarded to it: so long the owner keeps
 *    what it was sent a request of. Then the store is asked again.
 *
 * Who needs an answer of the store waits for it in line, and the next in line hears of it when the
 * one before has done with it: so their order stays that of their arrival, whatever workers they
 * are of.
 *
 * A session is in memory while it is used, owned or believed to be another node's.
 */
#ifndef EXCHANGE_OWNERS_H
#define EXCHANGE_OWNERS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conf/conf.h"
#include "loop/message.h"
#include "queue/queue.h"

struct owners;
struct owner_session;
struct owner_use;
struct upstream;
struct upstream_states;
struct worker;

#define OWNER_NAME_BYTES 40  /* of a session, for all nodes: 32 digits */
#define OWNER_NODE_BYTES 129 /* `instance/name/address`, with its NUL */

enum owner_sight {
	OWNER_HERE,
	OWNER_ELSEWHERE,
	OWNER_PENDING, /* use->answered is called later */
	OWNER_UNKNOWN, /* the store does not answer */
};

enum owner_verb { OWNER_TAKE, OWNER_RENEW, OWNER_GIVE };

/* What is asked of the store: memory of the store's side, which copies what it needs. */
struct owner_question {
	struct owner_session *session; /* stays until the answer */
	enum owner_verb verb;
	const char *name; /* of the session */
	const char *self; /* who asks: OWNER_NODE_BYTES */
	uint64_t fence;   /* RENEW, GIVE */
	uint64_t lease_ms;
};

/* What it answers. */
struct owner_answer {
	bool is_known; /* false: it did not answer, and may have done it */
	bool is_held;  /* by this node, from now on for the lease; GIVE: false */
	uint64_t fence;
	uint64_t left_ms; /* of another's lease */
	const char *node; /* another's; NULL: nobody's */
};

struct owner_store {
	/* On the worker's thread, with a lock held: answers later by owners_answer on the same
	 * thread, or never. False: it can't be asked now. */
	bool (*ask)(struct worker *worker, const struct owner_question *question);
};

/* A node that sessions are forwarded to. Lives as long as the process. */
struct owner_node {
	struct owner_node *next;
	char text[OWNER_NODE_BYTES];
	char name[CONF_NODE_BYTES];
	char address[64];
	struct conf_server server;
	struct conf_upstream conf;
	struct upstream *upstream;
};

/* Somebody's hold on a session: an exchange's, or a tunnel's. Zeroed: none. */
struct owner_use {
	struct owner_use *next, **at; /* of its worker's */
	struct owner_session *session;
	struct worker *worker;
	struct owner_wait *wait; /* PENDING */
	struct owner_node *node; /* that it was forwarded to; NULL: it is served here */
	uint64_t fence;          /* of the ownership that it is served under */
	/* The answer that it waited for. When it returns, the next in line is answered. */
	void (*answered)(struct owner_use *use, enum owner_sight sight);
	/* The session's owner is another one, or nobody. */
	void (*changed)(struct owner_use *use);
};

/* NULL without memory. `states`: of the upstreams that nodes become. Both outlive it. */
struct owners *owners_new(const struct owner_store *store, struct upstream_states *states);
/* All workers have ended. NULL is ignored. */
void owners_free(struct owners *owners);
/* What the site in force says of this node. Any thread. */
void owners_set_self(
	struct owners *owners, const char *name, const char *address, uint64_t lease_ms);
/* A number of this process, for what it sends. */
uint64_t owners_instance(const struct owners *owners);

/* The session of this key (the node's own); `name` is asked for when it is not known yet. False
 * without memory. The use's callbacks are set by then; owner_end is due. */
bool owner_begin(struct owners *owners, struct worker *worker, struct owner_use *use,
	struct session_key key, uint64_t idle_ms,
	void (*name)(struct owner_use *use, char out[OWNER_NAME_BYTES]));
enum owner_belief {
	OWNER_BELIEVE, /* what is known, while it holds */
	OWNER_ASK,     /* the store is asked */
	OWNER_ASK_OWN, /* it is asked only about what is owned here: ELSEWHERE is all else */
};

/* Whose is it? */
enum owner_sight owner_look(struct owners *owners, struct owner_use *use, enum owner_belief belief);
/* The use goes on by what owner_look or `answered` said: notes node and fence. */
void owner_follow(struct owners *owners, struct owner_use *use);
/* It waits no more. */
void owner_cancel(struct owner_use *use);
/* Gives it back. */
void owner_end(struct owners *owners, struct owner_use *use);
/* The use is another's from now on, whose callbacks are set. */
void owner_move(struct owner_use *to, struct owner_use *from);

/* Is it owned here under the use's fence, and the lease in hand at this moment? Reads the clock. */
bool owner_is_valid(struct owners *owners, const struct owner_use *use);
/* Is the session owned as it was when the use last followed? */
bool owner_is_same(struct owners *owners, const struct owner_use *use);

/* ---- order over cut connections -------------------------------------------------------------- */

/* What a node forwards carries a mark, which grows each time that it has given up something whose
 * fate it does not know. An owner refuses what has a lower mark than something it had before: that
 * was given up, and what came after it has gone. */
uint64_t owner_mark(struct owners *owners, const struct owner_use *use);
void owner_raise_mark(struct owners *owners, const struct owner_use *use);
/* Of the owner: false: it is too late for that one. */
bool owner_take_mark(
	struct owners *owners, const struct owner_use *use, uint64_t instance, uint64_t mark);

/* ---- the worker that keeps time ---------------------------------------------------------------
 */

/* Renews, gives up, looks after and forgets what is due; some of it at a time. Returns when it is
 * to be called again: milliseconds, 0: nothing is there. `draining`: idle ones go at once. */
uint64_t owners_sweep(struct owners *owners, struct worker *worker, bool draining);
/* Gives up all that is owned here, before the process ends. */
void owners_leave(struct owners *owners, struct worker *worker);
/* The store answers. */
void owners_answer(struct owners *owners, struct worker *worker, struct owner_session *session,
	enum owner_verb verb, const struct owner_answer *answer);
/* Calls `changed` of this worker's uses whose owner is another one. */
void owners_look_at_uses(struct owners *owners, struct worker *worker);

/* Closes the idle connections that this worker has to other nodes: it is about to end. */
void owners_close_idle(struct owners *owners, struct worker *worker);

/* Who owns the session, for people: a name of a node, or "" . Any thread. */
void owners_describe(struct owners *owners, struct session_key key, char name[CONF_NODE_BYTES]);

#endif
