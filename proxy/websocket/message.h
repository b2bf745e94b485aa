/* A message's exchange. */
#ifndef WEBSOCKET_MESSAGE_H
#define WEBSOCKET_MESSAGE_H

#include "websocket/state.h"

/* The client's message is here whole. May end the socket. */
void socket_begin_message(struct websocket *socket);

/* The server's connection has taken all: the messages that were composed for it are over. One
 * behind them that has to wait goes on. */
void socket_messages_written(struct websocket *socket);

/* The socket ends: so do the messages under way. */
void socket_messages_gone(struct websocket *socket);

/* Is a message that is refused with this status dropped, and the socket goes on? */
bool socket_drops_message(
	const struct websocket *socket, const struct exchange *message, unsigned status);

/* It was refused and has ended: the client gets a notice if one is due, or the socket closes. */
void socket_message_refused(struct websocket *socket, bool is_dropped, unsigned status,
	const char *why, uint64_t retry_after_ms);

extern const struct client_calls message_client_calls;

#endif
