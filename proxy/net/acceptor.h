/*
 * A listening socket on a thread's loop, which can leave connecting clients in the backlog, and
 * reject new ones before it closes.
 */
#ifndef NET_ACCEPTOR_H
#define NET_ACCEPTOR_H

#include <event2/event.h>
#include <event2/event_struct.h>
#include <stdbool.h>
#include <sys/socket.h>

#include "loop/loop.h"
#include "net/handshakes.h"
#include "net/stream.h"

struct acceptor {
	struct event event; /* this and the descriptor: of net/ alone */
	int fd;
	bool accepting;
	void (*ready)(struct acceptor *acceptor);
};

/* Takes the socket over; it does not accept yet. `ready` is called in each turn in which a client
 * waits to be accepted, as long as it accepts. */
void acceptor_open(struct acceptor *acceptor, struct loop *loop, int fd,
	void (*ready)(struct acceptor *acceptor));
/* Closing it resets what waits in its backlog. Twice is once. */
void acceptor_close(struct acceptor *acceptor);

/* False: the system refuses to watch the socket (no memory, no watch left), so nothing is accepted
 * until another call succeeds. */
bool acceptor_start(struct acceptor *acceptor);
void acceptor_stop(struct acceptor *acceptor);

/* Accepts one: 0, or an errno value of accept4(2), EAGAIN when no client waits. */
int acceptor_take(struct acceptor *acceptor, struct stream_export *client,
	struct sockaddr_storage *peer, socklen_t *len);

/* Does anybody wait to be accepted? Asks the system. */
bool acceptor_has_client(const struct acceptor *acceptor);

/* 0, or an errno value of listen(2). */
int acceptor_set_backlog(const struct acceptor *acceptor, int backlog);

/* The system takes no new connections for the socket, but finishes the handshakes that have begun.
 * With the right to filter, a client that was kept out tries again after a second, and then finds
 * another process that listens there, or is refused; without it (some systems leave that to root)
 * it is refused at once, or goes to a socket of the group that is not kept out. False where the
 * system can do neither (before Linux 5.7): then at least no more than one connection waits at a
 * time, and errno says why. */
bool acceptor_keep_out(const struct acceptor *acceptor);

/* Are there handshakes that closing the socket would reset? net/handshakes.h has the cost of the
 * question. A connection may be on its way from these to those that wait to be accepted in this
 * very moment: only with the second answer HANDSHAKES_NONE, some time after the first, is there
 * none. */
enum handshakes acceptor_handshakes(const struct acceptor *acceptor);

#endif
