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

#endif
