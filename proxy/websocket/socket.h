/* A socket's life. */
#ifndef WEBSOCKET_SOCKET_H
#define WEBSOCKET_SOCKET_H

#include "websocket/state.h"

struct passage_calls;
struct switched_calls;

/* Does all that can be done now. May end it. */
void socket_run(struct websocket *socket);

/* The receiver of a handshake's exchange. */
extern const struct switched_calls websocket_calls;
extern const struct passage_calls websocket_passage_calls;

#endif
