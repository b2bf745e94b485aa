/*
 * A connection to a server: in the pool, or carrying one exchange.
 *
 *   connecting --> busy --> idle (its worker's list at the server) --> busy ...
 *                    `--> closed
 */
#ifndef UPSTREAM_SERVER_CONNECTION_H
#define UPSTREAM_SERVER_CONNECTION_H

#include "body/flow.h"
#include "http/parser.h"
#include "net/stream.h"
#include "upstream/upstream.h"
#include "worker/wait.h"
#include "worker/worker.h"

enum server_connection_state {
	SERVER_CONNECTION_CONNECTING,
	SERVER_CONNECTION_BUSY,
	SERVER_CONNECTION_IDLE,
	SERVER_CONNECTION_CLOSED,
};

/* What a connection tells its exchange. */
struct server_events {
	void (*connected)(struct exchange *exchange); /* or not: stream_error */
	/* Bytes of the response may be there: reads the beginning, and does nothing with it yet. */
	void (*fetch)(struct exchange *exchange);
	void (*event)(struct exchange *exchange);   /* it can be read or written */
	void (*timeout)(struct exchange *exchange); /* its deadline has passed */
	/* No descriptor is left for a new one. True: one was given back. */
	bool (*make_room)(struct worker *worker);
};

struct server_connection {
	struct stream stream;
	struct deferred_free deferred;
	struct wait wait;
	struct worker *worker;
	struct server *server;                 /* CONNECTING, BUSY: the exchange's */
	struct server_state *known;            /* its server's */
	struct exchange *exchange;             /* CONNECTING, BUSY */
	const struct server_events *events;    /* the same */
	struct server_connection *prev, *next; /* IDLE */
	struct buffer in;
	struct flow out;
	struct http_parser parser;
	enum server_connection_state state;
	bool reused;
	bool counts;      /* among the connections of its server */
	bool is_taken;    /* by another worker, from its list; guarded by the list's lock */
	bool is_doubtful; /* a head had to be guessed at (http/lenient.h): not to be used again */
	bool unsent;      /* on the worker's list: written at the end of the round */
	struct server_connection *next_unsent;
	uint32_t requests;   /* begun on it */
	uint32_t address_id; /* of the server's address that it is to */
};

/* Why there is no connection. */
enum connect_fault {
	CONNECT_SERVER,  /* the server can't be reached at any of its addresses */
	CONNECT_ADDRESS, /* nor at this one, but there are others to try */
	CONNECT_FULL,    /* the server has max_connections, none of them idle: wait for one */
	CONNECT_LOCAL,   /* no descriptors, ports or memory here: no server is to blame */
};

/* An exchange that gets a connection, and how it hears of it. */
struct server_user {
	struct exchange *exchange;
	const struct server_events *events;
};

/* An idle one, or a new one that is connecting; for `user`. NULL: none, and `*why` and `*fault`
 * say why. `fresh`: not from the pool. */
struct server_connection *server_connection_get(struct worker *worker, struct server *server,
	struct server_user user, bool fresh, const char **why, enum connect_fault *fault);

/* A new connection could not be made (an errno of connect's, or ETIMEDOUT): whose fault is it? */
enum connect_fault server_connection_failed(struct server_connection *connection, int error);
/* A new connection is made. */
void server_connection_made(struct server_connection *connection);

/* The exchange is over and the connection clean: into the pool, or closed when the pool is full. */
void server_connection_keep(struct server_connection *connection);

/* Closes it. One that is idle and was taken by another worker stays as it is: it is closed when
 * that worker's message comes. */
void server_connection_close(struct server_connection *connection);
/* The same of one that is on no list. */
void server_connection_close_unlisted(struct server_connection *connection);

/* Takes a clean, silent connection off this worker; what is returned is the caller's, and the
 * connection is gone. */
struct stream_export server_connection_export(struct server_connection *connection);

/* Takes such a one over, for `user`, whose request is the `requests`th on it; it counts already
 * among the server's. NULL without memory, the connection closed. */
struct server_connection *server_connection_import(struct worker *worker, struct server *server,
	struct server_user user, struct stream_export *stream, uint32_t requests);

/* Closes this worker's idle connections to a server. */
void server_close_idle(struct server_state *server, struct worker *worker);

#endif
