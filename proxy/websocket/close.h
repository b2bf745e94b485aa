/* How a socket closes: each side exchanges close frames in both directions. */
#ifndef WEBSOCKET_CLOSE_H
#define WEBSOCKET_CLOSE_H

#include "websocket/state.h"

/* Closes both sides with a close frame, once; a message of the client that has had no turn yet is
 * given up. `server_code`: what the server gets. `why` for the
 * log: a constant. */
void socket_close(struct websocket *socket, unsigned code, struct slice reason,
	unsigned server_code, const char *why);
/* The same, but the client first gets what others have sent to it (send.h), as far as it takes that
 * within close_timeout. */
void socket_close_behind(struct websocket *socket, unsigned code, struct slice reason,
	unsigned server_code, const char *why);

/* Closes for a message of the client's that is not passed on. Where it closes already, as the
 * client or a drain has begun that, the client gets this code in place of the one that it was to
 * get: an orderly end would mean that all its messages were passed on. */
void socket_close_failed(
	struct websocket *socket, unsigned code, struct slice reason, const char *why);
/* The same with 1011, in a socket whose server is gone, or about to be found gone. */
void socket_message_lost(struct websocket *socket, const char *why);

/* Takes no more messages of the client. Its earlier messages are passed on, the server is informed,
 * and the server's messages before its answer are passed on, too; then the client gets a close
 * frame. */
void socket_finish(struct websocket *socket, unsigned code, struct slice reason, const char *why);
/* It closes already, and what it waits for is given up: the message of the client that has had no
 * turn yet, and what waits in its send queue. */
void socket_hurry(struct websocket *socket, const char *why);
/* The same as socket_finish, as its session drains or closes; the second for a message that is not
 * passed on by that. */
void socket_finish_with_session(struct websocket *socket);
void socket_refuse_with_session(struct websocket *socket);

/* A side has sent a close frame: passes it on. */
void socket_client_closes(struct websocket *socket, struct slice payload);
void socket_server_closes(struct websocket *socket, struct slice payload);

/* Its session is another node's, or may be: nothing more of it may reach its server, whose
 * connection is cut. Messages of the client that were not passed on are dropped, and the client
 * gets 1012, which no orderly end has: it is to come back, and gets to the node that owns its
 * session then. The requests of a gateway are the caller's to end. */
void socket_session_over(struct websocket *socket);

/* What the client sends can't be read as frames any more, and is thrown away until it ends: it has
 * no close frame to answer ours with. */
void socket_discard_client(struct websocket *socket);

/* Nothing is written to a client behind its close frame: one whose bytes are thrown away learns
 * that it is to end. */
void socket_end_output(struct websocket *socket);

/* A side has ended without one. The first may end the socket. */
void socket_client_gone(struct websocket *socket);
void socket_server_gone(struct websocket *socket, const char *why);

/* Does the server get its close frame when a message of the client's has had its turn, or the
 * client its own behind what waits for it (send.h)? The time to answer begins then. Not in a hurry.
 */
bool socket_waits_to_finish(const struct websocket *socket);

/* close_timeout is over. May end the socket. */
void socket_close_late(struct websocket *socket);

/* Writes the close frame that is due to a side. False without memory. */
bool socket_tell_client(struct websocket *socket);
bool socket_tell_server(struct websocket *socket);

/* The same with a gateway, which sends it: the payload of our own close frame. */
struct slice socket_tell_gateway(struct websocket *socket, char text[FRAME_CONTROL_BYTES]);

/* Have both sides sent all that they had to send? */
bool socket_is_closed(const struct websocket *socket);

#endif
