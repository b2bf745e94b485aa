/* An operator's command to a socket. */
#ifndef WEBSOCKET_COMMAND_H
#define WEBSOCKET_COMMAND_H

#include "websocket/send.h"

enum socket_command_kind {
	SOCKET_POST,  /* a message, to the end of its queue */
	SOCKET_SEND,  /* a message, before all that waits in the normal lane */
	SOCKET_CLOSE, /* a close frame both ways, and close_timeout for the answers */
	SOCKET_ABORT, /* cut, with a reset where there is one */
	SOCKET_DRAIN, /* no more messages of the client; what waits is delivered, then 1001 */
	SOCKET_COMMANDS,
};

struct socket_command {
	enum socket_command_kind kind;
	struct shared_frame *frame; /* POST, SEND */
	struct send_report *report; /* the same; NULL: no request waits for it */
	uint16_t code;              /* CLOSE */
	uint8_t reason_len;
	char reason[FRAME_CONTROL_BYTES - 2];
};

/* Does it end its sockets? */
static inline bool socket_command_ends(const struct socket_command *command)
{
	return command->kind != SOCKET_POST && command->kind != SOCKET_SEND;
}

/* Its immediate result. */
enum socket_command_result {
	SOCKET_COMMAND_DONE,    /* with a message: it is queued */
	SOCKET_COMMAND_DROPPED, /* a message: the queue is full */
	SOCKET_COMMAND_GONE,    /* the socket closes already */
	SOCKET_COMMAND_RESULTS,
};

/* On the thread of the socket's worker. An abort ends the socket; the others do what is to be done
 * in this turn or later. */
enum socket_command_result socket_run_command(
	struct websocket *socket, const struct socket_command *command);

#endif
