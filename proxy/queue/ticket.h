/* ticket: the place of one exchange in a queue. See queue.h for its life. */
#ifndef SLUICE_QUEUE_TICKET_H
#define SLUICE_QUEUE_TICKET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/container.h"
#include "loop/message.h"

struct run_queue; /* queue/run_queue.h */
struct session;
struct shard;

#define QUEUE_NEVER UINT64_MAX

enum queue_lane {
	QUEUE_LANE_HIGH,
	QUEUE_LANE_NORMAL,
};
#define QUEUE_LANES 2

/* The result of a ticket. */
enum queue_verdict {
	QUEUE_GO,                 /* in flight: forward it now */
	QUEUE_WAIT,               /* queued: dispatch() will be called for it */
	QUEUE_FULL_SESSION,       /* out: the session's queue is at policy.depth */
	QUEUE_FULL_SESSION_BYTES, /* out: the session's queue would exceed policy.bytes */
	QUEUE_FULL_TOTAL,         /* out: all sessions together are at max_queued */
	QUEUE_FULL_BYTES,         /* out: all sessions together are at max_queued_bytes */
	QUEUE_FULL_SESSIONS, /* out: max_sessions, and none is idle (or no memory for one more) */
	QUEUE_CLOSED,        /* out: the session is draining, closing or aborted */
	QUEUE_SHED,          /* out: waited too long at an overloaded upstream */
	QUEUE_ABORTED,       /* cut it now, then queue_done */
	QUEUE_ENDING, /* detached, and its session drains or closes: end it soon, then queue_done */
	QUEUE_GONE,   /* out since its owner left it; only its memory waited for this message */
};

/* The state that leaving or completing found. */
enum queue_left {
	QUEUE_LEFT,      /* out: the owner may free or reuse the ticket */
	QUEUE_UNDER_WAY, /* out, but a message for it is under way: keep the memory until it arrives
			  */
	QUEUE_IN_FLIGHT, /* queue_leave only: in flight; end it and call queue_done */
};

/* One exchange's place. Embedded in the exchange; the fields of the first part are set by its owner
 * between ticket_init and queue_enter, those of the second are read by it, the rest is private. */
struct ticket {
	uint64_t bytes;  /* what it holds in memory while it waits */
	uint16_t worker; /* who owns it: where dispatch() sends it */
	uint16_t weight; /* share of the upstream against other sessions, 1..QUEUE_MAX_WEIGHT */
	uint8_t lane;    /* enum queue_lane */
	bool unsafe;     /* an unsafe method: a write */
	bool failed;     /* set before queue_done: the upstream failed it, for the adaptive bound */
	bool unordered;  /* its client is not known: as if the policy were NONE */
	bool unready;    /* takes its turn in the order, but no place before queue_ready */
	bool bounded;   /* unready, and the bounds of those that wait hold at queue_ready as well */
	bool hears_end; /* set before queue_detach: gets ENDING, too, and not only ABORTED */
	uint32_t path;  /* a hash of what a safe one reads, see dispatch.c; 0: not known */
	/* Its place is right behind this one of the same session, which is in flight or waits:
	 * ahead of all others that wait in its lane, and beyond all bounds, as it was in the queue
	 * before. NULL: behind all. Read by queue_enter only. */
	const struct ticket *behind;
	/* Set before queue_done: how long the upstream took for it, for the adaptive bound. 0: the
	 * exchange does not show that. */
	uint64_t latency_ns;

	uint8_t verdict; /* enum queue_verdict, once dispatch() was called; see queue_arrive */
	uint32_t retry_after_ms; /* with FULL_*, CLOSED, SHED: when to come back, at least 1 */
	uint64_t entered_ns;     /* queue_enter */
	uint64_t started_ns;     /* GO; started - entered is the queue wait */
	uint64_t placed_ns;      /* its place was taken and pace charged; 0: none needed */
	uint32_t era;            /* the place's, see run_queue_era */

	struct message message; /* from dispatch() to queue_arrive; its function is the owner's */

	/* private, guarded by the shard's mutex */
	struct ticket *prev, *next; /* lane or in-flight list of the session */
	struct shard *shard;        /* stays valid as long as the queue */
	struct session *session;    /* NULL when out */
	struct run_queue *run_queue;
	uint32_t high_burst, session_in_flight; /* from the policy, judged when its turn comes */
	uint32_t depth;                         /* of `bounded`: from the policy */
	uint64_t depth_bytes;                   /* the same */
	uint32_t read_hold_ms;                  /* from the policy */
	uint64_t turn_ns;                       /* when the order let it go */
	_Atomic bool answered, holds;           /* see dispatch.c */
	uint8_t state;                          /* enum ticket_state */
	uint8_t order;                          /* enum ticket_order */
	bool posted;                            /* its message is under way */
	bool placed;                            /* holds a place of run_queue */
	bool keeps_part; /* aside or claiming, but one of session_in_flight nevertheless */
};

#define QUEUE_MAX_WEIGHT 1000 /* as conf has it for plans */

/* Whose message it is. */
static inline struct ticket *ticket_of(struct message *message)
{
	return CONTAINER_OF(message, struct ticket, message);
}

#endif
