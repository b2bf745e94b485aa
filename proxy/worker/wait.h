/*
 * The event that a connection waits for, and the deadline. Only progress moves the time: a look
 * that finds the same reason and the same progress leaves the deadline where it is. So no other
 * event (a byte of another kind, the other side's) lets a peer keep a connection without end.
 *
 *   reason         whose time    progress that moves it           from where
 *   IDLE           the client's  exchanges begun                  downstream.c
 *   HEAD           the client's  none                             client_wait.c
 *   BODY           the client's  bytes of the body's content      client_wait.c
 *   TAKE           the client's  bytes that the client took       client_wait.c
 *   LINGER         the client's  bytes that were thrown away      linger.c
 *   CONNECT        the server's  none                             forward.c
 *   SEND           the server's  bytes that the server took       forward.c
 *   RESPONSE       the server's  none                             forward.c
 *   MORE           the server's  bytes that the server sent       respond.c
 *   CLIENT         the client's  none                             respond.c
 *   DRAIN          the server's  none                             respond.c
 *   TUNNEL         both's        bytes that either side took      passage.c
 *   REUSE          ours          none                             server_connection.c, h2_server.c
 *   PING           the server's  bytes that came                  h2_server.c
 */
#ifndef WORKER_WAIT_H
#define WORKER_WAIT_H

#include "loop/deadline.h"

enum wait_reason {
	WAIT_NONE,
	WAIT_IDLE,
	WAIT_HEAD,
	WAIT_BODY,
	WAIT_TAKE,
	WAIT_LINGER,
	WAIT_CONNECT,
	WAIT_SEND,
	WAIT_RESPONSE,
	WAIT_MORE,
	WAIT_CLIENT,
	WAIT_DRAIN,
	WAIT_TUNNEL,
	WAIT_REUSE,
	WAIT_PING,
};
#define WAIT_REASONS (WAIT_PING + 1)

struct wait {
	struct deadline deadline;
	enum wait_reason reason; /* stays when the deadline has passed */
	uint64_t progress;
};

static inline void wait_init(
	struct wait *wait, struct event_base *base, void (*passed)(struct deadline *deadline))
{
	deadline_init(&wait->deadline, base, passed);
	wait->reason = WAIT_NONE;
	wait->progress = 0;
}

/* Waits until `at_ms`, unless it does so already for this reason at this progress. Where that is
 * over already, there is no patience: what came has been looked at. Nor where the time is ours:
 * a server closes what is idle for longer than that. */
static inline void wait_for(struct wait *wait, enum wait_reason reason, uint64_t progress,
	uint64_t at_ms, uint64_t now_ms)
{
	if (wait->reason == reason && wait->progress == progress)
		return;
	wait->reason = reason;
	wait->progress = progress;
	wait->deadline.is_patient = at_ms > now_ms && reason != WAIT_REUSE;
	deadline_set(&wait->deadline, at_ms, now_ms);
}

/* Nothing is due, or it is due from another party. */
static inline void wait_none(struct wait *wait)
{
	wait->reason = WAIT_NONE;
	deadline_clear(&wait->deadline);
}

/* Before its memory is freed. */
static inline void wait_end(struct wait *wait)
{
	wait->reason = WAIT_NONE;
	deadline_end(&wait->deadline);
}

#endif
