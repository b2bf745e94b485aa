/* The server's side of a socket. */
#ifndef WEBSOCKET_READ_SERVER_H
#define WEBSOCKET_READ_SERVER_H

#include "websocket/state.h"

/* A server that speaks WebSocket. */
extern const struct socket_server socket_direct_server;

/* ---- write ---------------------------------------------------------------------------------- */

/* Frames to the sides of a socket, composed and not yet sent. */

/* False without memory. A frame to the server is masked. */
bool socket_write_server(
	struct websocket *socket, uint8_t opcode, uint8_t rsv, struct slice payload);
bool socket_write_client(struct websocket *socket, uint8_t opcode, struct slice payload);
/* May a frame be composed for the client, or is one of the queue's (send.h) half written? */
bool socket_takes_frame(const struct websocket *socket);
/* A piece of a frame of the server's, to the client. */
bool socket_pass_to_client(struct websocket *socket, const struct frame_piece *piece);

#endif
