/*
 * Connections to servers that offer a place, and the bound on all of them (max_connections). Those
 * of HTTP/1 do while they carry nothing; what follows is about these, and about others while no
 * place of them is used. Each address of a server has lists of its own.
 *
 *   worker 0: [idle][idle]   its list, last used first --.
 *   worker 1: [idle]         its list -------------------+--> pool_take: an own one, a new one
 * while busy, in tunnels, pinned: counted only               |    there are fewer than
 * max_connections, '    else one of another worker's none of these --> pool_wait: in line, until a
 * connection of these servers is free
 *
 * Each worker keeps its idle connections: it alone is informed of their end, and takes them without
 * a lock. At a server with max_connections the lists are under the lock of their upstream, and a
 * connection can be taken over: the taker has a copy of the descriptor, and the worker closes its
 * own when it gets the message. A list is shared from when its worker has seen the bound, and stays
 * so.
 *
 * An exchange waits for a connection only in its turn, when it has its place at the upstream; as
 * the places are bounded by max_connections too, it does so while streams, sessions with
 * connections of their own or other workers have the rest. In the same line it waits for a place at
 * a server with a max_in_flight of its own: when it failed at another server, or its session has a
 * connection to a server that is full, or the servers in service have changed since its turn.
 */
#ifndef UPSTREAM_SERVER_POOL_H
#define UPSTREAM_SERVER_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "upstream/server_connection.h"

struct connection_waiter;
struct server;
struct server_state;
struct upstream;
struct upstream_state;
struct worker;

/* What was in use at once within this period, and the one before, stays open. */
#define POOL_PERIOD_MS 5000

enum pool_outcome {
	POOL_IDLE,  /* an own connection: off its list, or a place of it */
	POOL_TAKEN, /* another worker's: the connection is the caller's */
	POOL_NEW,   /* a new one may be made, and counts already */
	POOL_FULL,  /* none, until one is free */
};

struct pool_connection {
	struct server_connection *idle; /* POOL_IDLE */
	struct passed_connection taken; /* POOL_TAKEN */
};

/* A connection for one more exchange, to the address in that slot; where max_connections is
 * reached, perhaps to another. `fresh`: none that has served; what is idle makes room. */
enum pool_outcome pool_take(struct worker *worker, struct server *server, unsigned slot, bool fresh,
	struct pool_connection *connection);

/* It has an exchange now, or none any more. */
void pool_note_busy(struct server_connection *connection);
void pool_note_done(struct server_connection *connection);
/* How many of all workers have an exchange at that address, about. */
uint32_t pool_busy(const struct server_state *server, unsigned slot);

/* A counted connection has ended. Any thread. */
void pool_forget(struct server_state *server);

/* Lists a connection that is clean now. False: it is not listed, as the bound was lowered. An idle
 * one that is to be closed, off its list, becomes `*surplus`, or NULL: the oldest, where this
 * worker has more than `most` idle, or more connections to the address than it used at once lately.
 * So the surplus of a burst goes one a response; where there is none, by keepalive_timeout. */
bool pool_keep(
	struct server_connection *connection, uint32_t most, struct server_connection **surplus);

/* ---- connections with many places ------------------------------------------------------------ */

/* It offers so many places from now on, those that are used included. False: it does not, as
 * another worker has taken it, to close it. */
bool pool_set_places(struct server_connection *connection, uint32_t places);

/* It offers none any more. */
void pool_retire(struct server_connection *connection);

/* A place of it is given back. It is retired where none is used any more and the worker has `most`
 * idle, or there are more than the bound; and where another worker waits for a connection. */
void pool_give_place(struct server_connection *connection, uint32_t most);

/* Are the places of this connection running short, and has its worker no other to that address?
 * True: another one may be made before it is needed, and counts already. At most one a second. */
bool pool_may_open_ahead(struct server_connection *connection);

/* It was closed. */
void pool_note_ended(struct server_connection *connection);

/* ---- lists ----------------------------------------------------------------------------------- */

/* Takes an idle one of this worker off its list. False: another worker has it already. */
bool pool_remove(struct server_connection *connection);

/* This worker's oldest idle one, to the address to which it has most, off its list. NULL: none. */
struct server_connection *pool_pop_oldest(struct server_state *server, struct worker *worker);

/* Closes this worker's idle ones to addresses that the server's name no longer has. */
void pool_close_left(struct server_state *server, struct worker *worker);

/* Visits those that this worker has idle; visit must not call back. */
void pool_each(const struct server_state *server, const struct worker *worker,
	void (*visit)(void *ctx, const struct server_connection *connection), void *ctx);

/* How many this worker has idle. */
uint32_t pool_count(const struct server_state *server, const struct worker *worker);

/* max_connections is this from now on; 0: no bound. Main thread. */
void pool_set_bound(struct server_state *server, uint32_t max_connections);

/* The worker has taken a site that has the server: if that has a bound, the worker's idle
 * connections can be taken over from now on, and are closed as far as there are too many. */
void pool_share(struct server_state *server, struct worker *worker);

/* ---- waiting --------------------------------------------------------------------------------- */

/* A place in line for a connection. Zeroed: none so far. */
struct pool_line {
	struct connection_waiter *waiter; /* NULL: not in line */
	uint64_t number;                  /* its position, once it has had one; 0: at the end */
	bool has_connection;              /* needs a place at its server only */
};

/* Do others wait for a connection to a server of the upstream? */
bool pool_has_waiters(const struct upstream_state *upstream);

/* Wakes the first in line that can use what is free: a place at a server was given back, or one
 * that was woken took another connection than the one that became free, or none. Any thread. */
void pool_pass_on(struct upstream_state *upstream);

enum pool_wait {
	POOL_WAITS,   /* go_on will be called */
	POOL_HAS_ONE, /* one has become free meanwhile: try again */
	POOL_NO_MEMORY,
};

/* Waits in line for a place and a connection at one of these servers of `upstream` (a mask of
 * indexes), at its number. `go_on`, on the worker's thread: one of them is free, unless another
 * exchange has taken it. `upstream` must stay until then, or until it leaves. */
enum pool_wait pool_wait(struct pool_line *line, struct worker *worker,
	const struct upstream *upstream, uint64_t servers, void (*go_on)(struct pool_line *line));

/* The servers that it waits for (a mask of indexes). */
uint64_t pool_waits_for(const struct pool_line *line);

/* It waits no more. Also when it did not. */
void pool_leave(struct pool_line *line);

/* The connections that other threads pass to this worker: connections that were taken over,
 * exchanges to wake. */
void pool_run(struct worker *worker);

/* The worker's thread has ended, and so have all others. */
void pool_end(struct worker *worker);

#endif
