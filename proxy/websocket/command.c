#include "websocket/command.h"

#include "websocket/close.h"

static enum socket_command_result enqueue(
	struct websocket *socket, enum send_lane lane, const struct socket_command *command)
{
	bool takes = socket_takes_sends(socket);

	if (socket_send(socket, lane, command->frame, command->report))
		return SOCKET_COMMAND_DONE;
	return takes ? SOCKET_COMMAND_DROPPED : SOCKET_COMMAND_GONE;
}

/* Cut by a reset, where the transport has one: what the client has not read yet is thrown away. */
static void abort_now(struct websocket *socket)
{
	stream_reset_at_close(socket->passage->down.sink);
	socket_abort(socket, "aborted");
}

static void end_soon(struct websocket *socket, const struct socket_command *command)
{
	struct slice reason = {command->reason, command->reason_len};

	if (command->kind == SOCKET_CLOSE)
		socket_close(socket, command->code, reason, command->code, "closed");
	else
		socket_finish(socket, CLOSE_GOING_AWAY, SLICE("drained"), "drained");
	stream_wake(socket->passage->down.sink);
}

enum socket_command_result socket_run_command(
	struct websocket *socket, const struct socket_command *command)
{
	bool is_closing = socket->closing.begun;

	switch (command->kind) {
	case SOCKET_POST:
		return enqueue(socket, SEND_NORMAL, command);
	case SOCKET_SEND:
		return enqueue(socket, SEND_HIGH, command);
	case SOCKET_ABORT:
		abort_now(socket);
		return SOCKET_COMMAND_DONE;
	case SOCKET_CLOSE:
	case SOCKET_DRAIN:
		end_soon(socket, command);
		break;
	case SOCKET_COMMANDS:
		break;
	}
	return is_closing ? SOCKET_COMMAND_GONE : SOCKET_COMMAND_DONE;
}
