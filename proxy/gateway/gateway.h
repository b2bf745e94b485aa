/*
 * The server's side of a WebSocket whose server speaks HTTP (websocket = gateway), by the
 * WebSocket-over-HTTP protocol (Pushpin, "WebSocket-Over-HTTP Protocol"). Every event of the client
 * is a POST to the handshake's target, and the server's messages are in the answers.
 *
 *   handshake --gateway_open--> POST [OPEN] --200 [OPEN ...]--> 101, the socket is open
 *   message --> its exchange: limits, queue --> POST [TEXT TEXT BINARY] --200 [TEXT ...]--> frames
 *                                                `- with those that wait right behind it
 *   silence --> POST []          close --> POST [CLOSE]          client gone --> POST [DISCONNECT]
 *
 * One request is under way at a time; messages that come meanwhile wait in the order of their
 * session, each judged and charged for itself, and leave together when nothing of another
 * connection stands between them. A request that could not be sent is tried again
 * (gateway_replay.h); one that may have reached a server never.
 *
 * A gateway is the client of its requests. It outlives its socket until the server knows of the
 * end. Private to the room, like state.h.
 *
 *   gateway.c          its life, and what its exchanges call
 *   gateway_open.c     the handshake                  gateway_request.c   heads of requests
 *   gateway_message.c  messages, and events of ours   gateway_answer.c    answers
 *   gateway_replay.c, gateway_event.c, channels/meta.c, websocket/handshake.c   pure
 */
#ifndef GATEWAY_GATEWAY_H
#define GATEWAY_GATEWAY_H

#include "exchange/client.h"
#include "exchange/exchange.h"
#include "exchange/forwarding.h"
#include "http/forwarded.h"
#include "gateway/gateway_event.h"
#include "gateway/gateway_replay.h"
#include "frames/frames.h"
#include "websocket/handshake.h"
#include "channels/meta.h"
#include "websocket/send_queue.h"
#include "websocket/sockets.h"
#include "websocket/state.h"

/* Bytes of the events that leave in one request; one of any size may leave alone. The other bounds
 * are the route's (struct conf_gateway). */
#define GATEWAY_BATCH_BYTES (256 * 1024)

/* Events of an answer; one with more counts as malformed. */
#define GATEWAY_ANSWER_EVENTS 10000

#define GATEWAY_ID_BYTES     36
#define GATEWAY_PREFIX_BYTES 16

/* Whether its server speaks GRIP on it: messages then begin with `prefix`, and what begins with
 * `c:` is for the gateway. */
struct gateway_grip {
	bool on;
	bool refreshes; /* a publication asks for a request, which is due when none is under way */
	uint8_t prefix_len;
	char prefix[GATEWAY_PREFIX_BYTES];
};

/* Memory of its own; NULL: none. */
struct gateway_text {
	char *at;
	size_t len;
};

/* Events of an answer that are not all passed on yet. */
struct gateway_passing {
	char *bytes; /* NULL: none */
	struct slice rest;
	struct exchange *message; /* that they answer, RELAYING until then; NULL: none */
	bool is_busy;
	bool client_is_behind; /* the contents of answers wait in the socket's queue, which is
				  bounded */
};

/* Interim responses that were read in this turn. */
struct gateway_interims {
	uint64_t turn_ns;
	unsigned count;
};

/* The payload that CLOSE is to have. */
struct gateway_close {
	uint8_t len;
	char text[FRAME_CONTROL_BYTES];
};

struct gateway {
	struct client client; /* of its requests; `first` is the oldest */
	struct exchange *last;
	struct worker *worker;
	struct exchange *opening; /* the handshake, until its answer is there; else NULL */
	struct websocket *socket; /* NULL: not open yet, or gone */
	struct gateway *prev, *next;
	struct deferred_free deferred;
	bool busy;
	bool ended;           /* its memory is free at the end of the turn */
	bool server_is_done;  /* the server knows of the end, or never learned of the beginning */
	bool close_is_queued; /* CLOSE is due, or on its way, and not DISCONNECT */

	/* what its requests are made of */
	struct site_use *use;
	const struct conf_route *route;
	struct shared_listener *listener;
	struct owner_use owner; /* of its session; all zeroes: none */
	struct forwarded_peer peer;
	struct forwarding forwarding;
	uint8_t address[16];
	struct throttle_key event_session;
	char id[GATEWAY_ID_BYTES];
	char request_id[40];
	uint8_t request_id_len;
	struct gateway_text head; /* all lines that are the same each time */
	struct gateway_text path; /* for the log */
	char accept[ACCEPT_BYTES + 1];

	/* the contents of its answers */
	struct gateway_text answer; /* the head of that to OPEN, then the 101's */
	const char *answer_fault;   /* of the head of the one that is being read; NULL: none */
	struct meta meta;
	struct gateway_grip grip;
	uint64_t keep_alive_ms; /* 0: none */
	uint64_t silent_ms;     /* since when no request has been under way */

	struct gateway_passing passing;

	struct gateway_replay replay;

	unsigned waiting; /* exchanges of its that have not ended, and bytes of their messages */
	uint64_t waiting_bytes;
	uint64_t arriving_bytes; /* of the message that is being judged */
	unsigned retries;        /* of the request under way */
	struct gateway_interims interims;
	struct gateway_close close;
};

/* The gateways of a worker. */
struct gateways {
	struct gateway *first;
};

static inline struct gateways *gateways_of(const struct worker *worker)
{
	return worker->memory[PART_GATEWAYS];
}

/* Its operations as the server's side of a socket. */
extern const struct socket_server gateway_server;

static inline struct gateway *gateway_of(struct client *client)
{
	return CONTAINER_OF(client, struct gateway, client);
}

/* Its memory is free, and there is none. */
void gateway_text_free(struct gateway_text *text);
/* It needs no more memory than it has bytes. */
void gateway_text_fit(struct gateway_text *text);

/* ---- gateway.c ------------------------------------------------------------------------------- */

extern const struct client_calls gateway_client_calls;

/* For a handshake whose turn has come; listed. NULL: no memory or randomness. */
struct gateway *gateway_new(struct exchange *handshake);

/* Is its session another node's, or its lease not in hand? Then nothing may reach the server. */
bool gateway_is_over(const struct gateway *gateway);

/* Does what can be done now. May end it, and the socket. */
void gateway_run(struct gateway *gateway);

/* The socket, or the handshake that was to open it, has ended. Unsent events are dropped, unless
 * the client has closed in order; then it informs the server, if it must. */
void gateway_leave(struct gateway *gateway, const struct exchange *handshake);

/* Nothing more is sent to the server: ends what waits. `why` for the log: a constant. */
void gateway_drop_waiting(struct gateway *gateway, const char *why);

/* The server wants nothing more of the client: what waits is dropped, and nothing is sent to it any
 * more. */
void gateway_detach(struct gateway *gateway);

/* Ends all that is under way; also when its worker ends. */
void gateway_abort(struct gateway *gateway, const char *why);

/* ---- gateway_open.c -------------------------------------------------------------------------- */

/* See struct switched_calls. */
bool gateway_open(struct exchange *handshake);
void gateway_opened(struct exchange *handshake);

/* ---- gateway_request.c ----------------------------------------------------------------------- */

/* Takes the fields that only gateways send off a client's request. 0, or 403 when it claims to come
 * from one. */
unsigned gateway_screen(struct exchange *request, const char **why);

/* The lines of all requests, from the handshake's head. False: no memory. */
bool gateway_compose_head(struct gateway *gateway, const struct exchange *handshake);

/* Makes the exchange a POST of what is in memory.body (framing.length bytes), with the head of now.
 * 0, or the status that it is refused with. */
unsigned gateway_make_request(struct gateway *gateway, struct exchange *exchange);

/* ---- gateway_message.c ----------------------------------------------------------------------- */

/* The socket's message is here whole. May end the socket. */
void gateway_begin_message(struct gateway *gateway);

/* Requests of our own: CLOSE with the payload of a close frame, DISCONNECT, none. */
void gateway_send_close(struct gateway *gateway, struct slice payload);
void gateway_send_disconnect(struct gateway *gateway);
void gateway_send_keep_alive(struct gateway *gateway);

/*
 * All three wait for a place among the max_in_flight of their upstream, as it protects the server
 * from whatever is sent to it, be it by clients or by sluice:
 *
 *   CLOSE, DISCONNECT  before messages and requests, but not for long: a server is to hear of an
 *                      end within a second (turn_begin_event)
 *   none               behind all of them, as nobody waits for it. One that was not sent when
 *                      there is something else to send is dropped, as that keeps the socket alive
 *                      as well; one that is turned away, as the server has enough to do, is the
 *                      socket's end no more than that of a message which is delayed
 */
void gateway_drop_keep_alive(struct gateway *gateway);

/* The first message is asked about again, as its verdict was old when its turn came: so are those
 * that may leave with it. Or all of them are judged: it leaves. */
void gateway_renew_riders(struct gateway *gateway);

/* See struct client_calls. */
bool gateway_serve(struct client *client, struct exchange *message);
bool gateway_retry(struct client *client, struct exchange *message);
void gateway_part(struct client *client, struct exchange *message, struct exchange *rider);
void gateway_refuse(struct client *client, struct exchange *message, unsigned status,
	const char *why, uint64_t retry_after_ms);

/* The message is over, with those that left with it. */
void gateway_end_message(struct exchange *message, const char *why);

/* A message, or an event of our own, has failed, and is over: the server is gone as far as the
 * socket goes, which has not ended. */
void gateway_fail(struct gateway *gateway, bool was_event, const char *why);
/* The same for an answer that there is no memory for: the client is to try again (1013). The server
 * hears of the end. */
void gateway_lack_memory(struct gateway *gateway, bool was_event, const char *why);

/* ---- gateway_answer.c ------------------------------------------------------------------------ */

/* See struct switched_calls. */
bool gateway_collects(struct exchange *exchange);

/* The answer to a message or an event is here whole: passes its events on and ends the exchange. */
void gateway_take_answer(struct exchange *message);

/* The content of an answer that was collected, in one piece, for the caller to free; NULL: no
 * memory. */
char *gateway_content(const struct exchange *exchange, struct slice *content);

/* Are these events, and not too many? With `opens` the first is OPEN, and no other; else none. */
bool gateway_is_well_formed(struct slice content, bool opens);

/* A frame for the client, in the order of its lane. May end the socket. */
void gateway_deliver(
	struct gateway *gateway, enum send_lane lane, uint8_t opcode, struct slice payload);

/* Passes the well-formed events of `content` on to the socket, in order; without a socket they are
 * dropped. `bytes` is the memory that they are in, which is the gateway's from now on. Then the
 * message that they answer ends; NULL: they are of the answer that opens. May end the socket. */
void gateway_pass_answer(
	struct gateway *gateway, struct exchange *message, char *bytes, struct slice content);

/* Passes on what this turn allows of those that are left. May end the socket. */
void gateway_pass_on(struct gateway *gateway);

#endif
