/*
 * A WebSocket whose messages are read. It takes over the passage that its handshake has become,
 * which owns the connections to both sides as long as it lives.
 *
 *   client --frames--> from_client --> message gathered --> exchange: limits, queue --> server
 *                          |  ping, pong, close ----------------------------------------^
 *   client <--frames--+-- the same frames <-- from_server <--frames-- server
 *                     +-- our own: ping, close, notice (between frames; notices between messages)
 *                     `-- what others send to it (between messages)
 *
 * While a message of the client's waits for its turn, or for a server that takes no more, the
 * client is not read, so that TCP holds it back. Those that a turn reads leave in one write. The
 * server's bytes are passed on frame by frame, as fast as the client accepts them.
 *
 * A socket ends when both sides have exchanged close frames, when close_timeout has passed, or when
 * a connection has ended. Private to the room.
 *
 *   socket.c            its life, what is due, and what the worker's commands do
 *   read_client.c       messages and control frames in    read_server.c  the server's; frames out
 *   message.c           a message's exchange, and the memory of messages that are not passed on yet
 *   close.c             close frames                      times.c        its deadlines
 *   send.c              what others send to the client    grip.c         what its backend asks for
 *   state.c, sockets.c  below all of them
 *
 * Where the server speaks HTTP, a gateway (gateway/gateway.h) is in the server's place: both
 * implement struct socket_server.
 */
#ifndef WEBSOCKET_STATE_H
#define WEBSOCKET_STATE_H

#include "base/container.h"
#include "exchange/client.h"
#include "exchange/exchange.h"
#include "exchange/kept_request.h"
#include "tunnel/passage.h"
#include "channels/channels.h"
#include "frames/messages.h"
#include "channels/meta.h"
#include "websocket/sockets.h"

/* Events and reads of each of a socket's sides in one turn, before it is the others'. So many bytes
 * of a message count as one more. */
#define SOCKET_TURN_WORK  160
#define SOCKET_WORK_BYTES 1024

/* As much may be composed for a side and not yet taken before no more is read for it. */
#define SOCKET_AHEAD_BYTES (16 * 1024)

/* Control frames, and fragments without payload, that a client may send in a second. */
#define SOCKET_CONTROLS_A_SECOND 100

/* Notices that wait for a place between the server's messages; more are dropped. */
#define SOCKET_NOTICES 16

#define SOCKET_PING_BYTES 8

/* How far the closing of a side has come. */
struct socket_side {
	bool told; /* a close frame was written to it, or never will be */
	bool done; /* it has sent one, or nothing of it is read any more */
	bool due;  /* it is to be informed as soon as a frame may be written */
};

struct socket_closing {
	bool begun;
	bool finishes; /* the client is closed when the server has answered */
	bool failed;   /* a message was not passed on: `client_code` and `reason` say so, and no
			  answer of the server's stands for them */
	bool is_late;  /* the server has not, in time */
	bool hurries;  /* it waits for nothing any more: a drain of the worker ends */
	bool discards; /* what the client sends is not read as frames any more, and thrown away
			  until its end: a connection that is closed with unread bytes is reset,
			  which takes the close frame from its client (http1/linger.h) */
	struct socket_side client, server;
	uint16_t client_code, server_code; /* of those that are due */
	uint8_t reason_len;
	char reason[FRAME_CONTROL_BYTES - 2];
	uint64_t since_ms, discarded_bytes;
};

struct socket_traffic {
	uint64_t messages, bytes;
};

/* Among those of its worker, the youngest first; and those whose ids share a bucket. */
struct socket_links {
	struct websocket *prev, *next;
	struct hash_link by_id;
};

/* Of the client's messages, what their limits did to them. */
struct socket_verdicts {
	uint32_t refused, delayed;
};

/* Control frames of the client. */
struct socket_controls {
	uint64_t second;
	unsigned count; /* in that second */
};

/* The pings that check whether the client is there. */
struct socket_ping {
	bool is_due;       /* as soon as the server's message is over */
	bool hurries;      /* within its message, which goes on for ever */
	bool is_sent;      /* and not a byte has come since */
	bool is_open;      /* its pong is not passed on */
	uint64_t since_ms; /* it was sent, or due */
	char payload[SOCKET_PING_BYTES];
};

/* How far its connection has taken what is for the client. */
struct socket_taking {
	uint64_t since_ms;
	uint64_t bytes; /* by then */
	bool waited;    /* did bytes wait for it then? */
};

/* Of a gateway's backend, see grip.h. */
struct socket_grip {
	struct subscriber subscriber;
	struct grip_keep_alive *keep_alive; /* NULL: none */
	struct meta meta;                   /* by `set-meta` */
	bool is_detached;                   /* it wants nothing more of the client */
};

struct message_event;
struct websocket;

/* What a gateway knows of its socket, for operators. */
struct socket_server_facts {
	struct slice connection_id; /* empty: the server speaks WebSocket */
	const struct meta *meta;    /* NULL: the same */
};

/* The server's side of a socket: a server that speaks WebSocket (read_server.c), or a gateway. */
struct socket_server {
	/* Passes on what the server has sent. May end the socket. */
	void (*run)(struct websocket *socket);
	/* The client's message is gathered in `message`. May end the socket. */
	void (*begin_message)(struct websocket *socket);
	/* The client has sent a ping, or a pong that answers none of ours. */
	void (*take_control)(struct websocket *socket, const struct message_event *event);
	/* The client has sent a close frame with this payload; the server is not informed yet. */
	void (*client_closes)(struct websocket *socket, struct slice payload);
	/* Takes it one message more of the client now? */
	bool (*takes_message)(const struct websocket *socket);
	/* Are events of its last reply still to be passed on, in the next turns? */
	bool (*is_passing)(const struct websocket *socket);
	/* Bytes of messages that wait there or are on their way. */
	uint64_t (*held_bytes)(const struct websocket *socket);
	/* When it has to be run again though nothing happens; UINT64_MAX: never. */
	uint64_t (*due_ms)(const struct websocket *socket);
	void (*run_due)(struct websocket *socket);
	/* Nothing more of the socket may reach the server: what is under way is ended. */
	void (*abort)(struct websocket *socket, const char *why);
	/* The server wants nothing more of the client. */
	void (*detach)(struct websocket *socket);
	/* A publication asks for a request without events. */
	void (*refresh)(struct websocket *socket);
	void (*describe)(const struct websocket *socket, struct socket_server_facts *facts);
	/* The socket ends. */
	void (*leave)(struct websocket *socket);
};

struct websocket {
	struct client client;  /* of its messages; `first` is the oldest under way */
	struct exchange *last; /* the youngest of them; NULL: none */
	const struct socket_server *server;
	struct client
		*gateway; /* the client of its requests, if the server speaks HTTP; else NULL */
	struct passage *passage; /* NULL: it has ended */
	struct worker *worker;
	struct websockets *all;
	struct shared_listener *hop; /* that its client has come by at another node; NULL: none */
	struct socket_links links;
	struct socket_sends *sends;   /* what waits for the client, see send.h; NULL: nothing */
	struct socket_watch *watches; /* requests that wait for its end, see sockets.h */
	struct deferred_free deferred;
	struct socket_grip grip;
	uint64_t id;
	bool busy, again; /* in socket_run, and to be run once more */
	uint64_t turn_ns; /* of the two `work` */
	unsigned client_work, server_work;

	struct message_reader from_client, from_server;
	struct frame_writer to_client; /* within a frame of the server's */
	struct buffer message;         /* what has come of the client's */
	uint64_t gathered;             /* bytes in the node's sum, see message.h */
	uint8_t opcode;                /* of that */
	bool compressed;
	unsigned notices; /* due */

	struct socket_closing closing;
	struct socket_traffic received, sent; /* of the client, to the client */
	struct socket_verdicts verdicts;
	struct socket_controls controls;

	/* times, see times.c */
	uint64_t opened_ms, heard_ms, active_ms, message_began_ms, served_ms, ends_ms;
	struct socket_taking taking;
	struct socket_ping ping;
};

static inline struct websocket *socket_of(struct client *client)
{
	return CONTAINER_OF(client, struct websocket, client);
}

static inline bool socket_has_ended(const struct websocket *socket)
{
	return !socket->passage;
}

/* Its rules: those of the handshake's route, or of the route of that name after a reload. */
static inline const struct conf_websocket *socket_conf(const struct websocket *socket)
{
	return &socket->passage->account.route->websocket;
}

static inline uint64_t socket_now_ms(const struct websocket *socket)
{
	return worker_now_ms(socket->worker);
}

/* One more piece of work for a side in this turn? `work` is its count. If not, it continues in the
 * next. */
bool socket_may_work(struct websocket *socket, unsigned *work);

/* Cuts both sides and ends it. `why` for the log: a constant. */
void socket_abort(struct websocket *socket, const char *why);

/* The message of the client's that is under way, or the first that waits; NULL: none. */
struct exchange *socket_first_message(const struct websocket *socket);
/* Are events of its server's answer still to be passed on, in the next turns? */
bool socket_is_passing(const struct websocket *socket);
/* Is a message of the client's on its way, or does one wait? Events of our own are none. */
bool socket_has_messages(const struct websocket *socket);

/* Is the client to be read now? Not while a message of its waits for anything but the write that is
 * due in this turn; with a gateway, while as many wait as may. */
bool socket_reads_client(const struct websocket *socket);

/* One more read into an empty buffer; FAILED also without memory. */
enum stream_result socket_fetch(struct websocket *socket, struct stream *stream, struct buffer *in);
/* So much of the buffer was taken. */
void socket_took(struct websocket *socket, struct buffer *in, size_t bytes);

#endif
