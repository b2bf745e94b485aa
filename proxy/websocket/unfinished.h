/*
 * A client's message is gathered as it comes. The memory of messages whose end has not come is
 * counted over all sockets of the node and has a bound (socket_gather_total_bytes): each may be as
 * long as max_message_size, and costs its sender little.
 *
 *   unfinished_add ... unfinished_add, its last byte --> the message's exchange (the queue's
 * bounds)
 *                 `--> unfinished_rest, when the socket reads no more in this turn: counted
 *
 * A message that comes whole in one turn and fits into a block is not counted at all.
 */
#ifndef WEBSOCKET_UNFINISHED_H
#define WEBSOCKET_UNFINISHED_H

#include "websocket/state.h"

/* Appends `data`, which is copied, to the message. False: there was no memory and the socket was
 * aborted, or the bound is reached: then the socket closes with 1013 and its message is freed. */
bool unfinished_add(struct websocket *socket, struct slice data);

/* Counts the memory of a message that goes on, or stops counting one that is whole. At the bound
 * the socket closes as above. */
void unfinished_rest(struct websocket *socket);

/* Frees the message and stops counting it. */
void unfinished_clear(struct websocket *socket);

#endif
