/*
 * A connection to a server: in the pool, or carrying one exchange.
 *
 *   connecting --> busy --> idle (its worker's list at the server) --> busy ...
 *                    `--> closed
 *
 * A connection with many places (HTTP/2) is shared by the exchanges of its worker, each of which
 * has a place of it; the functions below take a place as they take a connection of HTTP/1.
 *
 * What it consists of is known to this room alone (upstream/server_inside.h); what an exchange does
 * with it is in upstream/server.h.
 */
#ifndef UPSTREAM_SERVER_CONNECTION_H
#define UPSTREAM_SERVER_CONNECTION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/spare_list.h"
#include "net/proxy_header.h"
#include "net/stream.h"
#include "worker/worker.h"

struct connection_waiter;
struct exchange;
struct server;
struct server_calls;
struct server_connection;
struct server_state;
struct tls_client;
struct worker;

/* The events of a connection for its exchange. */
struct server_events {
	/* Or not: an errno value and a text for it; a handshake of TLS has failed with EPROTO. */
	void (*connected)(struct exchange *exchange, int error, const char *why);
	void (*event)(struct exchange *exchange);        /* it can be read or written */
	void (*send_request)(struct exchange *exchange); /* after server_send_later */
	void (*timeout)(struct exchange *exchange);      /* its deadline has passed */
	/* No descriptor is left for a new one. True: one was given back. */
	bool (*make_room)(struct worker *worker);
};

/* Why there is no connection. */
enum connect_fault {
	CONNECT_SERVER,        /* the server can't be reached at any of its addresses */
	CONNECT_ADDRESS,       /* nor at this one, but there are others to try */
	CONNECT_FULL,          /* the server has max_connections, none of them idle: wait for one */
	CONNECT_LOCAL,         /* no ports or memory here: no server is to blame */
	CONNECT_NO_DESCRIPTOR, /* the same, and other workers may be able to spare one */
};

/* The client of an exchange, for servers that get to know it by send_proxy. */
struct server_client {
	bool is_known;                     /* else it has no address */
	struct proxy_end address, reached; /* its own, and ours by which it came */
};

/* An exchange that gets a connection, and the callback for it. */
struct server_user {
	struct exchange *exchange;
	const struct server_events *events;
	uint64_t hash;                      /* balance = hash */
	const struct server_client *client; /* NULL: no server of it has send_proxy */
};

/* A connection that belongs to no worker. */
struct passed_connection {
	struct stream_export stream;
	uint32_t requests;            /* begun on it */
	unsigned slot;                /* and id, of its address */
	uint32_t address_id;          /* upstream/server_addresses.h */
	const struct tls_client *tls; /* as the connection's */
};

/* A worker's memory of its connections to servers. */
struct upstream_part {
	const struct server_calls *calls;               /* HTTP/1: upstream/server.h */
	const struct server_calls *http2_calls;         /* NULL: it was not built in */
	struct spare_list places;                       /* memory of places */
	struct server_connection *unsent, **unsent_end; /* with requests to write */
	struct server_connection *_Atomic taken;        /* idle ones, by others: close them */
	struct connection_waiter *_Atomic woken;        /* last first */
};

static inline struct upstream_part *upstream_part(const struct worker *worker)
{
	return worker->memory[PART_UPSTREAM];
}

/* An idle one, or a new one that is connecting; to the address whose turn it is; for `user`. NULL:
 * none, and `*why` and `*fault` have the reason. `fresh`: not from the pool. */
struct server_connection *server_connection_get(struct worker *worker, struct server *server,
	struct server_user user, bool fresh, const char **why, enum connect_fault *fault);

/* A new connection could not be made (an errno of connect's, or ETIMEDOUT): whose fault is it? */
enum connect_fault server_connection_failed(struct server_connection *connection, int error);
/* The exchange is over and the connection clean: into the pool, or closed when the pool is full. */
void server_connection_keep(struct server_connection *connection);

/* Closes it. One that is idle and was taken by another worker stays as it is: it is closed when
 * that worker's message comes. */
void server_connection_close(struct server_connection *connection);
/* The same of one that is on no list. */
void server_connection_close_unlisted(struct server_connection *connection);

/* Offers no place any more: closes it, when none is used. Of HTTP/1, which is idle, at once. It is
 * off its list. */
void server_connection_let_go(struct server_connection *connection);

/* Takes away the places of a connection with many, which has failed or ends: each exchange learns
 * of it by an event. For its protocol, which lists them. */
void server_place_lost(struct server_connection *place, const char *why);

/* May the server refuse a request and process nothing of it, so that it is worth while to keep it?
 */
bool server_may_refuse(const struct server_connection *connection);

/* Has the server certainly not processed the request? */
bool server_has_refused(const struct server_connection *connection);

/* Is it connected? */
bool server_is_connected(const struct server_connection *connection);
/* Has it served another exchange before? */
bool server_is_reused(const struct server_connection *connection);
/* Is there anything on it to read, though nothing is due: an end most likely? */
bool server_is_stale(struct server_connection *connection);
/* The same, even if that was not reported yet: asks the system. */
bool server_has_input(struct server_connection *connection);
/* Has its system not yet confirmed all that was sent? Asks ours, which sends the rest in its own
 * time, also when the connection is closed. */
bool server_has_untaken(const struct server_connection *connection);
/* If this process dies, what its system still holds for the server does not leave. */
void server_reset_at_death(struct server_connection *connection);
/* Why it has failed, where more is known than that it has. NULL: nothing. */
const char *server_why(const struct server_connection *connection);
/* To be closed before the connection is. NULL: others use it, too. */
struct stream *server_stream(struct server_connection *connection);
/* Its server's. */
struct server_state *server_state_of(const struct server_connection *connection);

/* Takes a clean, silent connection off this worker; the caller owns the result, and the connection
 * is freed. */
struct passed_connection server_connection_export(struct server_connection *connection);

/* Takes such a one over, for `user`, whose request is the next on it; it counts already among the
 * server's. NULL without memory, the connection closed. */
struct server_connection *server_connection_import(struct worker *worker, struct server *server,
	struct server_user user, struct passed_connection *passed);

/* Is there nothing to read on it, no end either? Asks the system. */
bool passed_connection_is_silent(const struct passed_connection *passed);

void passed_connection_close(struct passed_connection *passed);

/* Would a new connection be to the same address with the same TLS? */
bool passed_connection_is_of(const struct passed_connection *passed, const struct server *server);

/* Is its address still one of the server's? */
bool server_connection_is_current(const struct server_connection *connection);

/* How an exchange with the server went, for the passive check; NULL: it had no connection. Of
 * several addresses, one that fails max_fails times in a row is ejected alone. */
void server_note_success(struct server *server, const struct server_connection *connection);
void server_note_failure(struct server *server, const struct server_connection *connection,
	const char *why, uint64_t now_ms);

/* Closes this worker's idle connections to a server. */
void server_close_idle(struct server_state *server, struct worker *worker);

#endif
