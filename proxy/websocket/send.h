/*
 * Sending to a socket's client beside its server's messages: frames wait in a queue of two lanes
 * (send_queue.h) and are written between the server's messages, never inside one.
 *
 *   server's messages --> flow ----------> client       when the flow is empty and no message of
 *   socket_send --> queue --by reference--^             the server's is half passed
 *
 * After what one turn writes of the queue the server may pass SOCKET_AHEAD_BYTES, so that neither
 * keeps the other waiting. A client that reads slowly fills its own queue only: then the route's
 * on_socket_queue_full decides what is dropped. All functions run on the thread of the socket's
 * worker.
 */
#ifndef WEBSOCKET_SEND_H
#define WEBSOCKET_SEND_H

#include "websocket/send_queue.h"
#include "websocket/state.h"

/* Of a turn, before it is the others'. */
#define SEND_TURN_WRITES 4
#define SEND_WRITE_BYTES (64 * 1024)
#define SEND_WRITE_ITEMS 32

/* Bytes that were written and not sent before no more are (stream_limit_unsent). The kernel holds
 * less than twice as many. */
#define SEND_UNSENT_BYTES (64 * 1024)

/*
 * Queues a text, binary or control frame, at the end of the lane, and takes a hold on it. It is
 * written in this turn of the loop at the earliest, not during the call, and the socket does not
 * end during the call. `report` (or NULL) gets the result, once.
 *
 * False: it is not queued, and that was reported already. SEND_GONE: the socket closes.
 * SEND_DROPPED: there is no room for it, by socket_queue_bytes, socket_queue_messages,
 * socket_queue_total_bytes or for lack of memory; unless the frame alone is larger than
 * socket_queue_bytes, the socket is closed with 1013 where on_socket_queue_full = close.
 */
bool socket_send(struct websocket *socket, enum send_lane lane, struct shared_frame *frame,
	struct send_report *report);

/* A copy of the payload, from the socket's own server: nothing of what that says may be missing
 * before the close frame. It is taken until one is written or due, also behind that of the client;
 * and where it is lost for lack of room, whatever its size, the socket is closed with 1013, or that
 * is the code where it closes already (close.h, socket_close_failed), unless on_socket_queue_full
 * is drop. */
bool socket_send_copy(
	struct websocket *socket, enum send_lane lane, uint8_t opcode, struct slice payload);

/* Would it be queued if there is room? No: a close frame was written, or is due when what waits now
 * has gone, or the client has sent one; or the socket has ended. */
bool socket_takes_sends(const struct websocket *socket);

/* Does a frame wait, or a part of one? */
static inline bool socket_has_sends(const struct websocket *socket)
{
	return socket->sends != NULL;
}

uint64_t socket_queued_messages(const struct websocket *socket);
uint64_t socket_queued_bytes(const struct websocket *socket);

/* Is a frame of the queue written in part? Nothing else may be composed for the client then. */
bool socket_is_within_send(const struct websocket *socket);

/* Is the queue's turn, so that the server is not read? */
bool socket_sends_go_first(const struct websocket *socket);

/* Can they be written at all, or has the server left within a message? */
bool socket_may_still_send(const struct websocket *socket);

/* So much of the server's was passed. */
void socket_note_passed(struct websocket *socket, size_t bytes);

/* Writes what the client's connection takes, within the bounds of a turn; its flow is empty.
 * FAILED: the connection has. */
enum stream_result socket_write_sends(struct websocket *socket);

/* What of it nothing was written of goes (SEND_GONE): the socket closes. */
void socket_clear_sends(struct websocket *socket);

/* All of it: the socket ends. */
void socket_end_sends(struct websocket *socket);

#endif
