/*
 * What an exchange becomes when its server has switched to bytes both ways (101): two streams and
 * what is under way between them, and, in as little memory as that takes, what its end has to know
 * of its request. The exchange and both connections are gone by then, as most of such a passage's
 * time nothing passes.
 *
 *   client <--stream-- to_client --- [ in <- ] <--stream-- server
 *   client --stream--> [ -> in ] --- to_server --stream--> server
 *
 *   exchange --passage_begin--> OPEN --both ways have ended, cut, idle--> ENDED --> freed
 *                                        its memory waits for a message of the queue's, if need be
 *
 * Each way goes on until its own end was read and passed on. Where a sink is gone, what its peer
 * sent before still passes the other way.
 */
#ifndef EXCHANGE_PASSAGE_H
#define EXCHANGE_PASSAGE_H

#include "body/flow.h"
#include "exchange/account.h"
#include "loop/loop.h"
#include "net/stream.h"
#include "queue/queue.h"
#include "worker/wait.h"

struct access_kept;
struct exchange;
struct kept_receipt;
struct listener;

/* One direction. */
struct passage_way {
	struct buffer in;        /* read of the source, and not yet passed on */
	struct flow out;         /* on its way to the sink */
	uint64_t bytes, written; /* read for it; taken by the sink */
	bool is_over;
};

/* Whose it is, and what it counts in. */
struct passage_account {
	struct site_use *use, *server_use; /* NULL: no successor's */
	const struct conf_route *route;
	struct upstream *upstream;
	struct server_state *endless; /* a stream of its */
	struct server_state *known;   /* a connection of its */
	struct listener *listener;    /* a client of its */
	struct kept_receipt *receipt; /* NULL: nothing is left to settle */
	struct access_kept *line;
	struct account_end end;
};

struct passage {
	struct worker *worker;
	struct passage *prev, *next; /* all of the worker's */
	struct stream client, server;
	struct passage_way up, down;
	struct wait wait; /* WAIT_TUNNEL */
	const char *outcome;
	struct passage_account account;
	struct deferred_free deferred;
	bool has_ended;
	bool in_queue;    /* has a ticket to give back */
	bool awaits_mail; /* ended, but the queue's message is under way to it */
	struct ticket ticket;
};

/* Takes over what an exchange in TUNNEL has, whose 101 is composed and whose ticket is detached:
 * its connections, its place in its session, its account. The exchange has ended then. False, and
 * nothing was done: no memory. */
bool passage_begin(struct exchange *exchange);

/* Cuts what has not ended. `why` for the log: a constant; NULL: all went well. */
void passage_end(struct passage *passage, const char *why);

#endif
