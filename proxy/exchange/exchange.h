/*
 * An exchange: one request and its response on their way through.
 *
 *   HEAD --> HELD --> QUEUED --> CONNECTING --> FORWARDING --> RELAYING --> ENDED
 *     |  \     |        |          |    ^  retry    |  |           |
 *     |   `--------------------------------------->|  `-> TUNNEL   `-> DRAINING (client gone)
 *     `-> DELAYED (on_exceed = delay)              v
 *                                               REPLYING (an answer of our own) --> ENDED
 *
 *   ASKING (an authority judges its limits): from HEAD or HELD, once it has its place in its
 *   session, and from DELAYED or QUEUED, when a delay is over; then on as from HEAD
 *
 *   SEEKING (session_scope = fleet: who owns its session?): from HEAD, and again when its turn
 * comes or the owner fails (exchange/seek.h)
 *
 * exchange_enter is the one place where the state changes; exchange.c has the table of all changes
 * that there are. The owner is the worker of the client's connection; everything here runs on it.
 */
#ifndef EXCHANGE_EXCHANGE_H
#define EXCHANGE_EXCHANGE_H

#include "base/log.h"
#include "base/spare_list.h"
#include "body/pump.h"
#include "exchange/delay_line.h"
#include "exchange/client.h"
#include "exchange/gather.h"
#include "ownership/owner_use.h"
#include "record/trace.h"
#include "gate/gate.h"
#include "http/changes.h"
#include "http/framing.h"
#include "http/message.h"
#include "http/target.h"
#include "loop/deadline.h"
#include "queue/queue.h"
#include "site/site_use.h"
#include "site/spare.h"
#include "upstream/server_pool.h"
#include "upstream/upstream.h"
#include "worker/worker.h"
#include "worker/worker_clock.h"

/* The kinds of exchange. */
enum exchange_kind {
	EXCHANGE_REQUEST,
	EXCHANGE_NODE_GREETING,     /* another node proves that it is one (hop.h): not counted */
	EXCHANGE_HANDSHAKE,         /* a request for a socket that is read (switched.h) */
	EXCHANGE_GATEWAY_HANDSHAKE, /* the same, and the server speaks HTTP */
	EXCHANGE_MESSAGE,           /* a message of a socket, as are those that follow */
	EXCHANGE_KEEP_ALIVE,        /* a gateway's own request: not counted */
	EXCHANGE_DISCONNECT,        /* and one that informs the server of a socket's end */
};

/* With a client, one that a server was asked for (from CONNECTING on) is the first on its
 * connection: those behind it wait in HELD, ASKING, DELAYED, QUEUED or REPLYING. So a server's
 * response can be passed on. */
enum exchange_state {
	EXCHANGE_HEAD,       /* its head is being read */
	EXCHANGE_HELD,       /* waits until those before it on its connection are answered */
	EXCHANGE_SEEKING,    /* the store must determine which node owns its session */
	EXCHANGE_ASKING,     /* has its place in its session; an authority is to judge its limits */
	EXCHANGE_DELAYED,    /* waits until its limit admits it */
	EXCHANGE_QUEUED,     /* waits for its turn */
	EXCHANGE_CONNECTING, /* has a server, not yet a connection */
	EXCHANGE_FORWARDING, /* the request is on its way; no response yet */
	EXCHANGE_RELAYING,   /* the response is on its way to the client */
	EXCHANGE_DRAINING, /* the client has left; the response is read to its end, for order's sake
			    */
	EXCHANGE_TUNNEL,   /* 101: it becomes a passage at once */
	EXCHANGE_REPLYING, /* an answer of our own */
	EXCHANGE_ENDED,
};

/* Why it looks for a server. */
enum server_search {
	SEARCH_FIRST, /* its turn has come, or it is tried once more */
	SEARCH_WOKEN, /* it waited for a connection, and one is free: its place in line is kept */
	SEARCH_AGAIN, /* it waits, none is free, but other servers may serve by now */
	SEARCH_SPARE, /* it waits for a descriptor that other workers give up */
};

/* How far the request is, up to the server. One that is sent once more goes from OVER back to READ,
 * or from REFUSED to READING.
 *
 *   READING --> READ --> OVER
 *         `--> REFUSED ---^
 */
enum request_progress {
	REQUEST_READING, /* its end was not read yet */
	REQUEST_REFUSED, /* nor that, and the server takes no more of it; or its client has left */
	REQUEST_READ,    /* all of it was read, and not all of it sent */
	REQUEST_OVER,    /* all of it was read, and nothing more is to be sent */
};

/* And the response, down to the client. */
enum response_progress {
	RESPONSE_COMING,
	RESPONSE_RECEIVED, /* all of it was read: the next in order may go */
};

/* Bytes of a block for a request's head; longer ones get memory of their own. */
#define EXCHANGE_HEAD_BYTES 1024

/* The facts in its head: whose it is, and what it asks for. */
struct exchange_facts {
	struct slice host;      /* for routes */
	struct slice authority; /* for the upstream's Host */
	struct slice path;      /* normalised */
	struct slice key_path;  /* the same for keys: of an odd path what any server takes it for */
	struct slice method;
	uint8_t address[16];            /* the caller's */
	bool path_odd;                  /* servers may read its path in several ways */
	bool is_https;                  /* its client has used https */
	const struct tls_identity *tls; /* as long as its client; NULL: nobody asks for it */
	uint64_t allow;                 /* 405 and 200: methods that would be served */
};

/* How far it has come with any server. */
enum attempt_reach {
	REACH_NONE,
	REACH_SENT, /* it was written to a connection */
	REACH_LEFT, /* bytes of it have left for a server */
};

/* At its servers, one after the other. */
struct exchange_attempt {
	struct pool_line line; /* for a connection */
	struct spare_question spare;
	enum server_search search;
	struct server_state *endless; /* at which its response has no end: it has no place there,
					 and is counted as such. NULL: its response may end */
	uint64_t tried;               /* mask of servers */
	uint64_t hash;                /* balance = hash */
	unsigned tries;
	uint32_t up_taken;        /* bytes of the body that left with the head */
	enum attempt_reach reach; /* of all tries */
	bool request_started;     /* bytes of it may have reached the server of this try */
};

/* Its 1xx responses. */
struct exchange_interim {
	enum interim_heads {
		INTERIM_NONE,
		INTERIM_SEEN, /* one came */
		INTERIM_HELD, /* one came before its turn: nothing behind it is read until then */
	} heads;
	enum interim_continue {
		CONTINUE_NONE,
		CONTINUE_DUE,    /* a 100 came before it was the first on its connection */
		CONTINUE_SENT,   /* a 100 was passed on */
		CONTINUE_PROBED, /* a 100 was sent to learn whether its client has left */
	} to_continue;
};

/* The response, its server's or one of our own. */
struct exchange_answer {
	uint64_t taken; /* of the response by the client, when WAIT_CLIENT began */
	enum answer_progress {
		ANSWER_AWAITED,
		ANSWER_BEGUN,  /* bytes of the final response's head were composed for the client */
		ANSWER_JOINED, /* all of it was, and waits in the client's flow for the turn's end
				*/
	} progress;
	unsigned status; /* reported to the client; 0: none yet */
	unsigned upstream_status;
	bool has_cost; /* the response's cost field held a number */
	uint64_t cost;
	uint64_t retry_after_ms; /* of an answer of our own */
	uint64_t reply_bytes;    /* its body's */
	uint32_t content_bytes;  /* of memory.body, its body where it is no problem */
};

/* Monotonic; 0: did not happen. */
struct exchange_times {
	uint64_t began_ns, judged_ns, started_ns, first_byte_ns;
	uint64_t ends_ms; /* its client waits no longer (grpc-timeout); 0: it has not said */

	/* How long its server took: */
	uint64_t sent_ns;        /* all of the request had left; 0: not yet */
	uint64_t client_from_ns; /* the server waits for the client to read on; 0: it does not */
	uint64_t client_ns;      /* so long it has waited for that */
};

/* Its part in a socket that is read (exchange/switched.h). */
struct exchange_tunnel {
	/* Fields for a socket whose server speaks HTTP (exchange/collect.h): */
	bool is_composed;        /* it is a request now */
	bool collects;           /* its answer is read whole, for the gateway alone */
	uint32_t message_bytes;  /* of the client's message */
	struct gateway *gateway; /* NULL: none yet */
	struct exchange *riders; /* messages that left with this one, by `next` */

	struct grip_hold *hold; /* its response is held (exchange/held.h); NULL: it is not */

	/* Fields for a socket whose server reads frames (exchange/turn_place.h): */
	struct exchange *lead; /* the one before it that it may go together with; NULL: none */
	uint32_t followers;    /* those that were sent together with this one */
};

/* Its place in its client's order. */
struct exchange_turn {
	enum ticket_use {
		TURN_HAS_NO_TICKET,
		TURN_HAS_TICKET,     /* to be given back */
		TURN_TICKET_IS_AWAY, /* given back, but the queue's message is under way to it */
	} ticket_use;
	enum turn_asks {
		ASKS_NOTHING,
		ASKS_WHEN_PLACED, /* an authority is asked when it has its place */
		ASKS_FIRST,       /* the question that is pending is its first */
		HAS_ASKED,        /* the first was answered; others may follow */
	} asks;
	bool aside; /* has its turn in the queue, but takes no place before it can continue */
	bool has_deadline;
	bool in_line;           /* `place` is (exchange/delay_line.h) */
	uint8_t renewals;       /* verdicts of an authority that became too old */
	uint64_t asked_ns;      /* the authority, for the latest verdict: the turn's time, */
	uint64_t asked_boot_ns; /* and that of worker_throttle_ns */
	uint64_t unplaced_ns;   /* counted as sent without a place at its upstream, and charged
				   to its pace at this time; 0: it was not */
	uint64_t wait_ends_ms;  /* QUEUED: queue_timeout is over */
	uint64_t question;      /* ASKING: its number; 0: none is pending */
	uint32_t frees;         /* delay_frees when it was asked */
	void (*judged)(struct exchange *exchange); /* ASKING: what comes next, unless refused */

	struct ticket ticket;     /* from here on: not cleared */
	struct delay_place place; /* only when in_line */
	struct deadline deadline; /* QUEUED, DELAYED, ASKING; only when has_deadline */
};

struct grip_hold;
struct seek_steps;

/* Which node owns its session: exchange/seek.h. Set where `use` has a session; but for that, and
 * its node. */
struct exchange_owner {
	struct owner_use use;
	const struct seek_steps *steps;
	bool (*take_failure)(struct exchange *exchange, unsigned status); /* see seek.c */
	uint64_t wait_ends_ms; /* of SEEKING; 0: it has not waited yet, or for something else */
	uint64_t waited_ms;    /* of queue_timeout, before it entered its queue */
	uint64_t begun_ns;     /* the turn in which its owner was looked up, by loop_now_ns */
	enum seek_progress {
		SEEK_NEW,          /* its owner was not known yet */
		SEEK_BEGUN,        /* it was, once */
		SEEK_DECIDED,      /* and is known now: not to be asked again */
		SEEK_LOST,         /* some of it has left for a node that has failed it */
		SEEK_LOST_DECIDED, /* the same, and its owner is known now */
		SEEK_FINAL,        /* whatever fails now, it is answered */
	} progress;
	unsigned refusals; /* of nodes that are not the owner */
};

/* The verdict of its limits. */
struct exchange_gate {
	struct gate_identity identity; /* from judged_ns on */
	struct gate_verdict verdict;
	struct gate_receipt receipt;
	bool delayed;      /* waited for its limit */
	bool asked_behind; /* a gateway's message: one before it was not over when it was asked */
	bool judged_late;  /* the node's table judges it, perhaps again, at its turn */
};

/* The texts composed for it. */
struct exchange_text {
	enum trace_kind trace;
	char request_id[40];
	char traceparent[HTTP_TRACEPARENT_BYTES]; /* of TRACE_GIVEN, in part, and TRACE_BEGUN */
	char host[HTTP_HOST_BYTES];
};

/* Memory of its own. */
struct exchange_memory {
	char *body;        /* a short body, kept so that it can be sent again; or of an answer */
	char *trailers;    /* of a body that was gathered */
	char *head;        /* of its request; NULL: none was kept */
	size_t head_bytes; /* its room; of the heap where longer than a block */
	char *path;        /* what of path and key_path is not in the head */
};

struct exchange {
	struct worker *worker;
	struct client *client; /* NULL when it is gone */
	struct exchange *next; /* on its connection; or spare */
	struct site_use *use;
	const struct conf_route *route;
	struct upstream *upstream;   /* the route's, held by `use`, or its successor */
	struct site_use *server_use; /* of the successor's site; NULL: none */
	struct server *server;
	struct server_connection *connection;
	enum exchange_kind kind;
	enum exchange_state state;
	enum conf_ratelimit_headers dialect;

	struct http_framing framing;
	struct exchange_facts facts;
	struct exchange_attempt attempt;
	struct exchange_interim interim;
	struct exchange_answer answer;
	struct exchange_times times;
	struct exchange_tunnel tunnel;

	/* bodies */
	struct pump up, down;
	struct spool *body; /* what was read of it before it was sent, and not sent yet */
	enum gathering gathering;
	enum request_progress request_progress;
	enum response_progress response_progress;
	bool close_client; /* no request after this one */
	bool is_call;      /* of gRPC: its body passes as it comes, as it may last */
	bool orphaned;     /* on the worker's list of those whose client has left */

	/* for the log */
	const char *outcome; /* why it was answered by ourselves or cut; NULL: all went well */
	struct slice request_id;

	/* From the turn's ticket on nothing is cleared when an exchange begins: written before it
	 * is read. */
	struct exchange_turn turn;
	struct deferred_free deferred;
	struct http_target target;
	struct http_framing response_framing;
	struct http_head request;
	struct http_head *response; /* no_response until a server's is read */
	struct exchange_owner owner;
	struct exchange_gate *gate; /* exchange_unjudged until its callers are identified */
	struct exchange_text text;
	struct exchange_memory memory;
};

/* A worker's memory of its exchanges. */
struct exchange_part {
	uint64_t count;           /* alive, those whose client left included */
	struct exchange *orphans; /* their clients have left, their responses are still to come */
	struct spare_list spares, gates, heads, responses; /* memory of exchanges and their parts */
	const struct switched_calls *switched; /* exchange/switched.h; NULL: nothing is read */
};

static inline struct exchange_part *exchange_part(const struct worker *worker)
{
	return worker->memory[PART_EXCHANGE];
}

/* The gate of an exchange that was not judged: admitted, without limits; and the response of one
 * whose server has sent none. Both are only read. */
extern const struct exchange_gate exchange_unjudged;
extern const struct http_head exchange_no_response;

/* Gives it the part of a phase, unless it has it already. False: no memory. */
bool exchange_open_gate(struct exchange *exchange);
bool exchange_open_response(struct exchange *exchange);
/* Memory for its request's head, in place of that which it had. NULL without memory: it keeps that.
 */
char *exchange_new_head(struct exchange *exchange, size_t bytes);
/* Bytes of memory that it takes now. */
size_t exchange_bytes(const struct exchange *exchange);
/* Frees the spare memory of the worker, which ends. */
void exchange_part_clear(struct exchange_part *part);

/* Extra time for a timeout that another node enforces, milliseconds. */
#define EXCHANGE_HOP_SLACK_MS 5000

/* The bytes of struct exchange that are cleared with each request. */
#define EXCHANGE_CLEARED_BYTES offsetof(struct exchange, turn.ticket)
_Static_assert(EXCHANGE_CLEARED_BYTES <= 1024, "what is large goes behind the turn's ticket");

/* All of its request was read: what follows is the next request, or not known before its upgrade is
 * answered. */
void exchange_request_read(struct exchange *exchange);

/* Has it a ticket to give back? */
static inline bool exchange_is_queued(const struct exchange *exchange)
{
	return exchange->turn.ticket_use == TURN_HAS_TICKET;
}

/* An interim response that it holds is of a server that it has left. */
static inline void exchange_drop_held_interim(struct exchange *exchange)
{
	if (exchange->interim.heads == INTERIM_HELD)
		exchange->interim.heads = INTERIM_SEEN;
}

/* Was all of its request read? */
static inline bool exchange_has_request(const struct exchange *exchange)
{
	return exchange->request_progress >= REQUEST_READ;
}

/* Does nothing more of its request go up: is all sent, or does the server take no more? */
static inline bool exchange_has_sent(const struct exchange *exchange)
{
	return exchange->request_progress >= REQUEST_OVER ||
	       exchange->request_progress == REQUEST_REFUSED;
}

/* Nothing more of it is sent to the server. */
static inline void exchange_stop_sending(struct exchange *exchange)
{
	if (!exchange_has_sent(exchange))
		exchange->request_progress =
			exchange_has_request(exchange) ? REQUEST_OVER : REQUEST_REFUSED;
}

/* Is it forwarded to another node, which owns its session? */
static inline bool exchange_is_elsewhere(const struct exchange *exchange)
{
	return exchange->owner.use.node != NULL;
}

/* As much of the time as its client still waits. */
static inline uint64_t exchange_within_deadline_ms(
	const struct exchange *exchange, uint64_t timeout_ms)
{
	uint64_t now_ms = exchange->times.ends_ms ? worker_now_ms(exchange->worker) : 0;

	if (exchange->times.ends_ms == 0 || now_ms + timeout_ms <= exchange->times.ends_ms)
		return timeout_ms;
	return exchange->times.ends_ms > now_ms ? exchange->times.ends_ms - now_ms : 0;
}

static inline bool exchange_is_past_deadline(const struct exchange *exchange)
{
	return exchange->times.ends_ms != 0 &&
	       worker_now_ms(exchange->worker) >= exchange->times.ends_ms;
}

/* How long its response may be silent, milliseconds. Another node gives its server that time, and
 * then cuts the response: one that has neither in somewhat more stands still, or is gone. */
static inline uint64_t exchange_idle_timeout_ms(const struct exchange *exchange)
{
	bool is_elsewhere = exchange_is_elsewhere(exchange);
	const struct conf_upstream *conf =
		is_elsewhere ? exchange->route->upstream : exchange->upstream->conf;

	return (exchange->attempt.endless ? conf->stream_timeout_ms : conf->idle_timeout_ms) +
	       (is_elsewhere ? EXCHANGE_HOP_SLACK_MS : 0);
}

/* Does it ask for a socket that is read? */
static inline bool exchange_is_handshake(const struct exchange *exchange)
{
	return exchange->kind == EXCHANGE_HANDSHAKE || exchange->kind == EXCHANGE_GATEWAY_HANDSHAKE;
}

/* Is it a message, or a gateway's own request, rather than a client's request? */
static inline bool exchange_is_message(const struct exchange *exchange)
{
	return exchange->kind >= EXCHANGE_MESSAGE;
}

/* Is it a gateway's own request? */
static inline bool exchange_is_event(const struct exchange *exchange)
{
	return exchange->kind >= EXCHANGE_KEEP_ALIVE;
}

/* Does it count as a request or message that was served? */
static inline bool exchange_is_counted(const struct exchange *exchange)
{
	return exchange->kind != EXCHANGE_NODE_GREETING && !exchange_is_event(exchange);
}

/* Does it ask for a socket that this node reads? One that is forwarded is a tunnel here. */
static inline bool exchange_opens_socket(const struct exchange *exchange)
{
	return exchange_is_handshake(exchange) && !exchange_is_elsewhere(exchange);
}

/* And one whose server speaks HTTP? */
static inline bool exchange_opens_gateway(const struct exchange *exchange)
{
	return exchange->kind == EXCHANGE_GATEWAY_HANDSHAKE && !exchange_is_elsewhere(exchange);
}

/* Has its session a connection to a server of its own, here? */
static inline bool exchange_has_affinity(const struct exchange *exchange)
{
	return exchange->route->sessions.affinity && !exchange_is_elsewhere(exchange);
}

/* Is its answer the next that its client gets? */
static inline bool exchange_is_first(const struct exchange *exchange)
{
	return exchange->client && exchange->client->first == exchange;
}

/* With a client: must its response announce that it is the last, because of a drain? A greeting is
 * not: the other node sends a request behind it, and is told by the answer to that. */
static inline bool exchange_ends_drain(const struct exchange *exchange)
{
	return exchange->worker->draining && exchange->kind != EXCHANGE_NODE_GREETING &&
	       client_is_last(exchange->client, exchange);
}

/* Has all of its answer come, so that the one behind it may be answered next? */
static inline bool exchange_is_answered(const struct exchange *exchange)
{
	return exchange->response_progress == RESPONSE_RECEIVED ||
	       exchange->state == EXCHANGE_REPLYING;
}

/* Does its client wait for a 100 (Continue), and has sent nothing of the body before it? */
static inline bool exchange_awaits_continue(const struct exchange *exchange)
{
	return exchange->framing.expects_continue &&
	       exchange->interim.to_continue < CONTINUE_SENT && exchange->up.content_bytes == 0;
}

/* Does it wait for a connection or a descriptor, and not for a place? */
static inline bool exchange_looks_again(const struct exchange *exchange)
{
	return exchange->attempt.line.waiter || exchange->attempt.search == SEARCH_SPARE;
}

/* Has it no server yet, nor an answer? */
static inline bool exchange_waits_for_turn(const struct exchange *exchange)
{
	return exchange->state == EXCHANGE_QUEUED || exchange->state == EXCHANGE_DELAYED ||
	       exchange->state == EXCHANGE_HELD || exchange->state == EXCHANGE_ASKING ||
	       exchange->state == EXCHANGE_SEEKING;
}

/* Nothing more is at its server: gives its place there back. */
static inline void exchange_leave_server(struct exchange *exchange)
{
	if (exchange->server && !exchange->attempt.endless)
		server_done(exchange->server);
	exchange->server = NULL;
}

/* Forgets what was read of its body. Also when nothing was. */
void exchange_free_body(struct exchange *exchange);

/* The collected part of its answer (exchange/collect.h) is not needed any more. */
void exchange_forget_answer(struct exchange *exchange);

/* Closes a connection that was its own; what it has sent leaves under its ownership, or not. */
void exchange_close_connection(struct exchange *exchange, struct server_connection *connection);

/* Cuts its connection to the server, and gives its place there back. Inline, as most exchanges that
 * are refused or have ended have none. */
void exchange_cut_connection(struct exchange *exchange);
static inline void exchange_drop_connection(struct exchange *exchange)
{
	if (exchange->server || exchange->connection || exchange->attempt.line.waiter ||
		exchange->up.sink || exchange->down.source)
		exchange_cut_connection(exchange);
}

/* Cuts both sides. */
void exchange_abort(struct exchange *exchange, const char *why) __attribute__((cold));

/* The same, where the client has left during its request. */
void exchange_request_cut(struct exchange *exchange) __attribute__((cold));

/* For the next request of the client. NULL: no memory. */
struct exchange *exchange_new(struct worker *worker, struct client *client);
/* The same of kind MESSAGE (exchange/switched.h). */
struct exchange *exchange_new_message(struct worker *worker, struct client *client);

const char *exchange_state_name(enum exchange_state state);
void exchange_log_change(const struct exchange *exchange, enum exchange_state state)
	__attribute__((cold));

/* May the one state follow the other? */
bool exchange_may_change(enum exchange_state from, enum exchange_state to);
/* With SLUICE_CHECK_WAITS in the environment: aborts where it may not. */
void exchange_check_change(const struct exchange *exchange, enum exchange_state state)
	__attribute__((cold));

static inline void exchange_enter(struct exchange *exchange, enum exchange_state state)
{
	if (exchange->worker->checks_waits)
		exchange_check_change(exchange, state);
	if (log_enabled(LOG_LEVEL_DEBUG))
		exchange_log_change(exchange, state);
	exchange->state = state;
}

/* It waits for no verdict any more: a late one is given back. Only when a question is pending. */
void exchange_cancel_question(struct exchange *exchange) __attribute__((cold));

/* It waits for no limit any more; also when it did not. */
void exchange_leave_line(struct exchange *exchange);

/* Gives its place in the queue back: the next in order may go. */
void exchange_leave_queue(struct exchange *exchange);

/* Over, however it ended: gives account to queue, gate and log, and frees it, unless a message of
 * the queue's is under way to it. */
void exchange_end(struct exchange *exchange);

/* It continues as something else, which has taken all that it had and gives account of it. */
void exchange_hand_over(struct exchange *exchange);

/* Its memory is free at the end of the loop's turn: no reference to it is left. */
void exchange_free_later(struct exchange *exchange);

/* The wall clock for the RateLimit fields, where they name a time of day; else 0. */
static inline uint64_t exchange_ratelimit_ms(const struct exchange *exchange)
{
	return exchange->dialect == CONF_RATELIMIT_X_UNIX
		       ? worker_wall_ns(exchange->worker) / CLOCK_NS_PER_MS
		       : 0;
}

#endif
