/* The parts of each connection to a server: the affair of this room and of the protocols, whose own
 * connections begin with it. */
#ifndef UPSTREAM_SERVER_INSIDE_H
#define UPSTREAM_SERVER_INSIDE_H

#include "net/stream.h"
#include "upstream/server.h"
#include "upstream/server_connection.h"
#include "upstream/upstream.h"
#include "worker/wait.h"
#include "worker/worker.h"

enum server_connection_state {
	SERVER_CONNECTION_CONNECTING,
	SERVER_CONNECTION_BUSY,
	SERVER_CONNECTION_IDLE,
	SERVER_CONNECTION_CLOSED,
};

struct greeting;
struct tls_client;

/*
 * A connection of HTTP/1 has one place, itself. One with many (calls->many) is an object of its
 * own, without an exchange; each of its places is another, which an exchange has:
 *
 *   exchange --> place --> connection --> stream
 *   exchange --> place ----^
 *
 * It is listed as long as it offers a place: its state is CONNECTING or BUSY.
 */
struct server_connection {
	const struct server_calls *calls;
	struct stream stream;
	struct deferred_free deferred;
	struct wait wait;
	struct worker *worker;
	struct server *server;                 /* CONNECTING, BUSY: the exchange's */
	struct server_state *known;            /* its server's */
	struct exchange *exchange;             /* CONNECTING, BUSY */
	const struct server_events *events;    /* the same */
	struct server_connection *prev, *next; /* IDLE, or listed */
	enum server_connection_state state;
	bool reused;
	bool awaits_head; /* of the response: what comes is read at the round's beginning */
	bool counts;      /* among the connections of its server */
	bool is_taken;    /* by another worker, from its list; guarded by the list's lock */
	bool is_busy;     /* and counted as such: upstream/server_pool.h */
	bool unsent;      /* on the worker's list: written at the end of the round */
	struct server_connection *next_unsent;
	struct server_connection *carrier; /* whose place it is; NULL: it is none, or lost it */
	bool is_refused;                   /* the server has certainly not processed its request */
	const char *why; /* a place's stream failed; a text that stays. NULL: see its stream */
	uint32_t places; /* that it offers at once, as far as they are not used; */
	uint32_t places_used;
	bool has_places;   /* it is a connection with many, and these are its numbers */
	bool is_retired;   /* and it offers none any more: it ends with the last that is used, */
	bool yields;       /* for one that waits on another worker */
	bool is_listed;    /* guarded by the list's lock */
	uint32_t requests; /* begun on it */
	unsigned slot;     /* and id, of the server's address that it is to */
	uint32_t address_id;
	const struct tls_client *tls; /* which it was made with; its stream holds it. NULL: none */
	struct greeting *greeting;    /* CONNECTING, to another node, and connected; else NULL */
	struct first_bytes *first;    /* CONNECTING: what leaves before all else; NULL: nothing */
};

#endif
