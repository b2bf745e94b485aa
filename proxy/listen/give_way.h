/*
 * Where no place is free for a client that wants to connect (max_connections of its listener, or
 * the descriptors of the process), a connection that carries nothing gives way to it:
 *
 *   no place --> one that only lingers, or whose handshake (listen/handshake_phase.h) is silent
 *                     --> an idle one of this worker
 *                     --> an idle one of another worker, by a message --> a look every 100 ms
 *
 * Idle are connections between two requests, and those that have sent nothing since they were
 * accepted: after GIVE_WAY_IDLE_MS, so that a request which closely follows a response or a
 * handshake still finds its connection. One whose request has begun never gives way.
 *
 * Each listener of a worker has its connections in a list (listen/idle_list.h) in the order in
 * which they became idle; their protocol knows which of them are idle still. Without need of places
 * no search is made, and a request costs one move to the list's end at most.
 */
#ifndef LISTEN_GIVE_WAY_H
#define LISTEN_GIVE_WAY_H

#include <stdbool.h>

struct connection_bound;
struct listener;
struct worker;

#define GIVE_WAY_IDLE_MS 100

/* The bound is reached: closes a connection of this worker's that has a place of it, or asks the
 * other workers to. False: none of this worker's is idle; look again after GIVE_WAY_IDLE_MS. */
bool give_way(struct listener *listener, struct connection_bound *bound);

/* WORKER_GIVE_WAY: another worker has asked. */
void give_way_answer(struct worker *worker);

#endif
