/*
 * The state of an exchange after a 101: two streams and what is under way between them, and, in as
 * little memory as that takes, what its end has to know of its request. The exchange and both
 * connections have been freed by then, because a passage is idle for most of its time.
 *
 *   client <--stream-- [to_client <-- from_server] <--stream-- server    down
 *   client --stream--> [from_client --> to_server] --stream--> server    up
 *
 *   exchange --passage_begin--> OPEN --both ways have ended, cut, idle--> ENDED --> freed
 *                                        its memory waits for a message of the queue's, if need be
 *
 * Each way continues until its own end was read and passed on. If a sink is gone, bytes that its
 * peer sent before still pass in the other direction. A reset is passed on as a reset
 * (passage.c).
 *
 * A socket whose messages are read (websocket/) takes it over with its beginning: then what comes
 * and when it ends is the socket's affair.
 */
#ifndef TUNNEL_PASSAGE_H
#define TUNNEL_PASSAGE_H

#include "body/flow.h"
#include "record/account.h"
#include "ownership/owner_use.h"
#include "loop/loop.h"
#include "net/stream.h"
#include "queue/queue.h"
#include "worker/wait.h"
#include "worker/worker.h"

struct access_kept;
struct exchange;
struct kept_receipt;
struct kept_request;
struct listener;

/* One direction. */
struct passage_way {
	struct stream *source, *sink;
	struct buffer *in; /* read of the source, and not yet passed on */
	struct flow *flow; /* on its way to the sink */
	struct buffer_pool *pool;
	uint64_t bytes, written; /* read for it; taken by the sink */
	bool is_over;
};

/* The meaning of `in` and `flow` for the two directions. */
struct passage_memory {
	struct buffer from_client, from_server;
	struct flow to_client, to_server;
};

/* Of what has taken it over, at its end. */
struct passage_messages {
	bool count;
	uint64_t received, sent; /* of the client, to the client */
};

/* Whose it is, and what it counts in. */
struct passage_account {
	struct site_use *use, *server_use; /* NULL: no successor's */
	const struct conf_route *route;
	struct upstream *upstream;
	struct server_state *endless;    /* a stream of its; NULL: none */
	struct server_state *known;      /* a connection of its; NULL: none */
	struct listener *listener;       /* a client of its */
	struct client_entry *entry;      /* that client's; NULL: none */
	const struct conf_listener *hop; /* at the node that has forwarded it; NULL: none has */
	struct kept_receipt *receipt;    /* NULL: nothing is left to settle */
	struct access_kept *line;
	struct account_end end;
};

struct passage {
	struct worker *worker;
	struct passage *prev, *next; /* all of the worker's */
	struct stream client, server;
	struct passage_way up, down;
	struct passage_memory memory;
	struct wait wait; /* WAIT_TUNNEL */
	const char *outcome;
	void *socket; /* what reads it, of the room that has `calls`; NULL: nothing */
	struct kept_request *request; /* of a socket; else NULL */
	struct passage_messages messages;
	struct passage_account account;
	struct deferred_free deferred;
	struct stream *resets; /* the side that is about to be reset; NULL: none */
	uint32_t idle_looks;   /* at that one, in a row, that found no progress */
	bool has_ended;
	bool in_queue;          /* has a ticket to give back */
	bool awaits_message;    /* ended, but the queue's message is under way to it */
	struct owner_use owner; /* of its session; all zeroes: none */
	struct ticket ticket;
};

/* The operations of a protocol on a passage that it reads, in place of bytes that pass: a room
 * above implements them (websocket/), and its part of the worker sets them. */
struct passage_calls {
	/* The exchange in TUNNEL has become the passage, which has its connections; its 101 is
	 * composed and not yet sent. Sets passage->socket. False: no memory. */
	bool (*begin)(const struct exchange *exchange, struct passage *passage);
	/* One of its sides can be read or written. May end it. */
	void (*run)(struct passage *passage);
	/* Its deadline has passed. May end it. */
	void (*timeout)(struct passage *passage);
	/* Its session drains or closes: it ends as soon as what is under way was passed on. */
	void (*session_ends)(struct passage *passage);
	/* Its session is not this node's any more: nothing of it reaches its server from now on.
	 * May be called again. May end it. */
	void (*session_is_over)(struct passage *passage);
	/* It ends, and `socket` is of no use any more. Its sides are gone already. */
	void (*end)(struct passage *passage);
	/* Visits the messages under way on this worker. */
	void (*each_message)(const struct worker *worker,
		void (*visit)(const struct exchange *message, const struct passage *passage));
	/* The same of those that are requests of their own, whatever became of their sockets. */
	void (*each_request)(
		const struct worker *worker, void (*visit)(const struct exchange *message));
};

/* Takes over what an exchange in TUNNEL has, whose 101 is composed and whose ticket is detached:
 * its connections (or that of its client only), its place in its session, its account. The exchange
 * has ended then. `switches`: what has read the handshake continues with it (struct passage_calls),
 * else its bytes pass as they are. False, and nothing was done: no memory. */
bool passage_begin(struct exchange *exchange, bool switches);

/* It has been over in order, or was cut. `why` for the log: a constant, unless it has an outcome
 * already; NULL: all went well. */
void passage_end(struct passage *passage, const char *why);

/* Cuts it, whatever its outcome was. */
void passage_abort(struct passage *passage, const char *why);

/* Passes what there is to pass, or has its socket do so. May end it. */
void passage_run(struct passage *passage);

/* May bytes leave for its server at this moment? Not when its session is another node's, or the
 * lease of that is not in hand. Reads the clock. */
bool passage_may_send(const struct passage *passage);

/* ---- of a socket ----------------------------------------------------------------------------- */

/* calls->timeout is called at this time; a loop that was held up gives no more of it where it is
 * ours and not a peer's (loop/deadline.h). */
void passage_await(struct passage *passage, uint64_t at_ms, bool is_ours);

/* Something of it: `slot` of its route's row (stats/metrics.h). */
void passage_count(const struct passage *passage, unsigned slot, uint64_t count);

/* Its server has failed it. */
void passage_count_failure(const struct passage *passage);

/* A worker's memory of what its exchanges have become. */
struct tunnel_part {
	struct passage *passages;
	const struct passage_calls *calls; /* of sockets; NULL: nothing is read */
};

static inline struct tunnel_part *tunnel_part(const struct worker *worker)
{
	return worker->memory[PART_TUNNEL];
}

#endif
