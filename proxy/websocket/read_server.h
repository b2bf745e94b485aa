/* The server's side of a socket. */
#ifndef WEBSOCKET_READ_SERVER_H
#define WEBSOCKET_READ_SERVER_H

#include "websocket/state.h"

/* Reads what there is and passes it on. May end the socket. */
void socket_read_server(struct websocket *socket);

#endif
