/* Frames of our own that are due, and what the connections of a socket take. */
#ifndef WEBSOCKET_FLUSH_H
#define WEBSOCKET_FLUSH_H

#include "websocket/state.h"

/* Writes the due frames at a place where they are allowed; then what the connections take. May end
 * the socket. */
void socket_flush(struct websocket *socket);

#endif
