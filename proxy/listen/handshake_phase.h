/*
 * Connections that are no clients yet: the header of their proxy is still to come, or their
 * transport's handshake is under way (net/stream.h).
 *
 *   accepted --> has a header or handshake? --no----------------> protocol.take_client
 *                     `--yes--> here: header --> handshake --over, protocol chosen---^
 *                                 `--failed, too late, or others need the place--> closed
 *
 * With proxy_protocol, a connection begins with the header of a trusted proxy, which is looked at
 * until it is there as a whole, and then taken: what follows it is the transport's. It is refused,
 * with a line in the log once a minute, when it is malformed or from a peer that is not trusted, or
 * when it is missing and required.
 *
 * A connection has its place of max_connections and of the descriptors from its acceptance on, and
 * its memory here only during the handshake. Those of a listener are in a list, the oldest first:
 * beyond max_handshakes of an address, the oldest is closed, as its client is the slowest. One
 * without progress for HANDSHAKE_SILENT_MS also makes room for clients that wait for a place
 * (listen/give_way.h).
 *
 * A client that speaks its protocol without the handshake gets the protocol's plain_answer. It
 * stays until it has closed, or HANDSHAKE_ANSWER_MS have passed: a close behind unread bytes would
 * take the answer back by a reset.
 */
#ifndef LISTEN_HANDSHAKE_PHASE_H
#define LISTEN_HANDSHAKE_PHASE_H

#include <stdbool.h>
#include <stdint.h>

#include "loop/deadline.h"

struct accepted;
struct handshake;
struct listener;

#define HANDSHAKE_SILENT_MS 1000
/* Handshakes of a listener that continue in one turn of the loop; the others wait for the next
 * turns. Each may cost as much as a hundred requests, and a flood of them must not delay clients.
 */
#define HANDSHAKES_A_TURN 2
/* How long a client that speaks no TLS may take to read that it should. */
#define HANDSHAKE_ANSWER_MS 2000

/* The handshakes of a listener. */
struct handshake_list {
	struct handshake *oldest, *newest;
	unsigned count;
	uint64_t turn; /* of the loop, in which so many have continued: */
	unsigned continued;
	struct deadline deadline; /* at or before that of the first of them to be late */
};

/* Before the first one. */
void handshakes_init(struct listener *listener);

/* Takes an accepted connection over, which may begin with a header or whose transport has a
 * handshake. */
void handshake_begin(struct listener *listener, struct accepted *accepted);

/* Closes the oldest of the listener's that is silent. False: there is none. */
bool handshake_give_way(struct listener *listener);

/* A drain: those that are silent end soon. */
void handshakes_drain(struct listener *listener);

/* Closes all of the listener's, which may free it. */
void handshakes_end(struct listener *listener);

#endif
