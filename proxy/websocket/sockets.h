/* The WebSockets of a worker whose messages are read, and what they share. */
#ifndef WEBSOCKET_SOCKETS_H
#define WEBSOCKET_SOCKETS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/hash_table.h"
#include "loop/message.h"
#include "frames/frames.h"
#include "worker/worker.h"
#include "listen/listener.h"

/* ---- walk ----------------------------------------------------------------------------------- */

/*
 * Visiting all sockets of a worker, some of them in each turn of its loop, so that no request waits
 * for it: WALK_SOCKETS over all walks, one after the other.
 *
 *   walk_begin --> [walks of the worker] --a turn--> visit, visit, ... --a turn--> ... --> done
 *
 * Sockets that are opened meanwhile are not visited; those that end meanwhile are left out.
 */

#define WALK_SOCKETS 256

struct socket_walk;
struct websocket;
struct websockets;
struct worker;

struct socket_walk {
	/* May end the socket, and others. False: the walk is over. */
	bool (*visit)(struct socket_walk *walk, struct websocket *socket);
	/* All were visited: the walk's memory is its owner's again. */
	void (*done)(struct socket_walk *walk);

	/* private */
	struct websocket *at;
	struct socket_walk *next;
};

/* On the worker's thread, as all that it calls, and not before the next turn. The worker must turn
 * on until `done`. */
void walk_begin(struct socket_walk *walk, struct worker *worker);

/* The socket leaves its worker's list. */
void walk_pass_over(struct websockets *all, const struct websocket *socket);

/* A turn has ended: those that continue do so in the next. */
void walk_end_turn(struct worker *worker);

/* ---- sockets -------------------------------------------------------------------------------- */

struct send_report;
struct shared_listener;

struct socket_walks {
	struct socket_walk *first; /* websocket/sockets.h */
	struct message message;
	bool is_posted;
};

struct websockets {
	struct frame_pool frames;
	struct websocket *first;           /* the youngest */
	struct hash_table by_id;           /* ids are given one after the other */
	struct shared_listener *listeners; /* of gateways and handshakes at other nodes */
	uint64_t count;
	uint64_t begun; /* so far: names them */
	struct socket_walks walks;
	struct socket_walk drain; /* of the worker */
	uint64_t random;          /* for times that are to differ; nobody's secret */
	bool is_handed_over;      /* another process serves, and this one ends with its sockets */
};

static inline struct websockets *websockets_of(const struct worker *worker)
{
	return worker->memory[PART_WEBSOCKETS];
}

/* NULL without memory or randomness. */
struct websockets *websockets_new(void);
/* There are none any more. NULL is ignored. */
void websockets_free(struct websockets *all);

/* ---- names ----------------------------------------------------------------------------------- */

/*
 * An id names a socket among those of all workers, and its text among those of all processes: in an
 * upgrade two are alive. 24 hexadecimal digits: 12 that the process drew (node.socket_ids), 2 of
 * the worker, 10 of a count.
 */
#define SOCKET_ID_BYTES 25 /* with a NUL */
#define SOCKET_ID_BITS  48

/* The text of an id of this process. */
void socket_id_text(uint64_t process, uint64_t id, char text[static SOCKET_ID_BYTES]);
/* The other way round. False: it is none, or of another process. */
bool socket_id_read(struct slice text, uint64_t process, uint64_t *id);
/* Which worker it is of, if there is that one. */
unsigned socket_id_worker(uint64_t id);

/* Names the socket and lists it; and the other way round. */
void websockets_add(struct websockets *all, struct websocket *socket, unsigned worker);
void websockets_remove(struct websockets *all, struct websocket *socket);

/* Tells the report SEND_GONE when the socket is listed no more. False without memory. */
bool socket_report_end(struct websocket *socket, struct send_report *report);

/* NULL: there is none. */
struct websocket *websockets_find(struct websockets *all, uint64_t id);

/* Below `bound`, which is not 0. */
uint64_t websockets_random_below(struct websockets *all, uint64_t bound);

/* ---- shared listener ------------------------------------------------------------------------ */

/* The part of a handshake's listener that requests of gateways read; the listener may end before
 * them: one for all gateways of a worker that came by the same under the same configuration. */

struct shared_listener {
	struct listener listener; /* `conf` and `use` of it, and no more */
	struct shared_listener *next;
	uint64_t holders;
};

/* Held for the caller, in the list of its worker. NULL: no memory. */
struct shared_listener *shared_listener_hold(
	struct shared_listener **all, const struct conf_listener *conf, struct site_use *use);

/* NULL is ignored. */
void shared_listener_release(struct shared_listener **all, struct shared_listener *shared);

#endif
