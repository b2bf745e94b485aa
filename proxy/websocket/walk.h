/*
 * Visiting all sockets of a worker, some of them in each turn of its loop, so that no request waits
 * for it: WALK_SOCKETS over all walks, one after the other.
 *
 *   walk_begin --> [walks of the worker] --a turn--> visit, visit, ... --a turn--> ... --> done
 *
 * Sockets that are opened meanwhile are not visited; those that end meanwhile are left out.
 */
#ifndef WEBSOCKET_WALK_H
#define WEBSOCKET_WALK_H

#include <stdbool.h>

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

#endif
