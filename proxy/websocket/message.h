/* A message's exchange. */
#ifndef WEBSOCKET_MESSAGE_H
#define WEBSOCKET_MESSAGE_H

#include "websocket/state.h"

/* The client's message is here whole. May end the socket. */
void socket_begin_message(struct websocket *socket);

/* The server's connection has taken all: the messages that were composed for it are over. One
 * behind them that has to wait continues. */
void socket_messages_written(struct websocket *socket);

/* The socket ends: so do the messages under way. */
void socket_messages_gone(struct websocket *socket);

/* Is a message that is refused with this status dropped, and the socket continues? */
bool socket_drops_message(
	const struct websocket *socket, const struct exchange *message, unsigned status);

/* So many that were to go together were refused and have ended: the client gets a notice of each if
 * these are due, or the socket closes. */
void socket_messages_refused(struct websocket *socket, unsigned count, bool are_dropped,
	unsigned status, const char *why, uint64_t retry_after_ms);

extern const struct client_calls message_client_calls;

/* ---- unfinished ----------------------------------------------------------------------------- */

/*
 * A client's message is gathered as it comes. The memory of messages whose end has not come, or
 * that wait for their turn, is counted over all sockets of the node and has a bound
 * (socket_gather_total_bytes): each may be as long as max_message_size, and costs its sender
 * little. 4 kB of each socket are counted, and never refused. The queue's bounds are not enough:
 * what a limit delays has had its turn there.
 *
 *   unfinished_add ... unfinished_add, its last byte --> the message's exchange
 *                 `------------------------------------> unfinished_rest, when the socket reads no
 *                                                        more in this turn: what is held is counted
 *
 * A message that comes whole in one turn, fits into a block and leaves in that turn is not counted
 * at all.
 */

/* Appends `data`, which is copied, to the message. False: there was no memory and the socket was
 * aborted, or the bound is reached: then the socket closes with 1013 and its message is freed. */
bool unfinished_add(struct websocket *socket, struct slice data);

/* Counts the memory of a message that continues or waits, with a gateway of all that wait or are on
 * their way, or stops counting what has left. At the bound the socket closes as above, and what
 * waits is given up. */
void unfinished_rest(struct websocket *socket);

/* Frees the message and stops counting it. */
void unfinished_clear(struct websocket *socket);

#endif
