/* The server's side of a socket. */
#ifndef WEBSOCKET_READ_SERVER_H
#define WEBSOCKET_READ_SERVER_H

#include "websocket/state.h"

/* A server that speaks WebSocket. */
extern const struct socket_server socket_direct_server;

#endif
