/* The client's side of a socket. */
#ifndef WEBSOCKET_READ_CLIENT_H
#define WEBSOCKET_READ_CLIENT_H

#include "websocket/state.h"

/* Reads what there is and acts on it. May end the socket. */
void socket_read_client(struct websocket *socket);

#endif
