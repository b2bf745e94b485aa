/* line: the inside of a run queue: places, the two lists, turns. See run_queue.h for the picture.
 *
 * A session in line is taken out by the worker that serves the run queue, together with a place for
 * it (line_pop), is then locked in its shard to find the ticket, and comes back or not
 * (line_settle). So the locks nest in one direction only: shard, then run queue. Private to the
 * room. */
#ifndef SLUICE_QUEUE_LINE_H
#define SLUICE_QUEUE_LINE_H

#include <pthread.h>
#include <stdatomic.h>

#include "queue/adapt.h"
#include "queue/run_queue.h"
#include "queue/session.h"

struct line_list {
	struct session *head, *tail;
};

/* The sessions whose next ticket is of one lane. */
struct line_lane {
	struct line_list new_list, old_list;
	uint64_t tail_seq, head_seq; /* of the old list: the last one given, the last one served */
	uint32_t new_run;            /* newcomers served since an old one was */
};

/* Counts what drains in windows, from when something waits; lock-free, approximate by design. */
struct drain {
	_Atomic uint64_t since_ns, count, gap_ns;
};

struct run_queue {
	/* read by every ticket, written by a reload only */
	struct queue *queue;
	_Atomic bool bounded; /* a place must be taken: max_in_flight, adaptive or pace */
	_Atomic bool has_pace;

	/* written by tickets that wait, whether bounded or not */
	_Alignas(64) _Atomic uint64_t waiting;

	/* when pace allows the next, QUEUE_NEVER if no ticket waits for it; read by queue_expire */
	_Atomic uint64_t deadline_ns;

	/* guarded by lock */
	_Alignas(64) pthread_mutex_t lock;
	struct run_queue_config config;
	struct adapt adapt;
	struct run_queue_slots slots; /* of config.takes_slots */
	struct run_queue_era *eras;   /* that are over, the first one first */
	uint32_t limit, in_flight;
	uint32_t capacity; /* of config.capacity; UINT32_MAX: no bound */
	uint64_t capacity_until_ns;
	uint32_t era;      /* of the places that are taken now */
	uint32_t earlier;  /* in flight of the eras in the list */
	uint32_t peak;     /* of in_flight but those, since the use was read */
	bool lacks;        /* config.lacks was called since it was read and no ticket waited */
	uint32_t runnable; /* sessions in the lists */
	uint32_t serving;  /* sessions between line_pop and line_settle */
	uint32_t high_run; /* turns of the high lane since a normal one, while one waits */
	struct line_lane lanes[QUEUE_LANES];
	uint64_t pace_until_ns;
	uint64_t busy_since_ns; /* the line was not empty since, 0: it is empty */
	uint64_t dispatched, shed, paced;

	struct drain drain;

	struct run_queue *registry_next; /* guarded by the queue's registry mutex */
	_Atomic uint32_t references;     /* the owner's, and those who are to serve it */
};

/* A turn: the session to serve, and its tickets that are too old. */
struct turn {
	struct session *session;
	enum line_place from;
	uint8_t lane;
	uint32_t high_run;       /* before the turn */
	uint32_t era;            /* of the place */
	uint64_t shed_before_ns; /* entered earlier than this: shed; 0: none, QUEUE_NEVER: all */
};

enum line_offer {
	LINE_PLACED,      /* the ticket has its place */
	LINE_WAITS,       /* its session is in line now */
	LINE_WAITS_SERVE, /* the same, and the line must be served */
};

/* No place needed? The one question of the fast path: a read of a line that no thread writes. */
static inline bool line_is_bounded(const struct run_queue *run_queue)
{
	return atomic_load_explicit(&run_queue->bounded, memory_order_relaxed);
}

/* Does no one wait here, and is there no pace to keep to? Reads two gauges without a
 * lock: a ticket that enters at the same moment may as well have entered after it. */
static inline bool line_is_free(const struct run_queue *run_queue)
{
	return !atomic_load_explicit(&run_queue->has_pace, memory_order_relaxed) &&
	       atomic_load_explicit(&run_queue->waiting, memory_order_relaxed) == 0;
}

/* Takes a place for the session's next ticket, whose `era` it sets, or lines the session up (unless
 * try_only: a ticket that is not queued yet). Shard's mutex held. */
enum line_offer line_offer(struct run_queue *run_queue, struct session *session,
	struct ticket *ticket, bool try_only, uint64_t now_ns);

/* Whose turn is it? Takes a place and a session from the line. False if no ticket may be served
 * now. */
bool line_pop(struct run_queue *run_queue, struct turn *turn, uint64_t now_ns);

/* The session in line has a high ticket now that goes before what it runnable up with. Shard's
 * mutex held. */
void line_promote(struct run_queue *run_queue, struct session *session, const struct ticket *ticket,
	uint64_t now_ns);

/* The served session has a ticket: does pace allow it now? If not, the session is back at the head
 * of its list, its place is returned and the turn is over. Shard's mutex held. */
bool line_charge(
	struct run_queue *run_queue, const struct turn *turn, uint32_t shed, uint64_t now_ns);

/* Ends a turn: gone: a ticket took the place; next is another one of the session that may go, so
 * that it comes back into line; if it is NULL it is out of line, and waits is true if it still has
 * queued tickets. Returns whether the line must be served on. Shard's mutex held. */
bool line_settle(struct run_queue *run_queue, const struct turn *turn, bool gone,
	const struct ticket *next, bool waits, uint32_t shed, uint64_t now_ns);

/* A session in line has nothing more to go: out of it. False if it is being served just now: then
 * the worker that serves finds that out. Shard's mutex held. */
bool line_leave(struct run_queue *run_queue, struct session *session);

/* The ticket's place is given back. The adaptive bound learns from an exchange that is over, if
 * that shows something. Returns whether the line must be served. */
bool line_return_place(const struct ticket *ticket, bool over, uint64_t now_ns);

/* The capacity is asked for again. Returns whether the line must be served. With the run queue's
 * lock. */
bool line_refresh(struct run_queue *run_queue, uint64_t now_ns);

/* Queued tickets for this upstream: more, or fewer (dispatched or not). */
void line_note_waiting(struct run_queue *run_queue, uint64_t now_ns);
void line_note_gone(struct run_queue *run_queue, uint64_t now_ns);

/* The worker that is to serve it when no lock is held has a reference, taken while a ticket that is
 * queued or in flight for it, its owner or the registry keep it: with its last ticket its owner may
 * go. The last one frees it. */
struct run_queue *run_queue_hold(struct run_queue *run_queue);
void run_queue_release(struct run_queue *run_queue);

void drain_start(struct drain *drain, uint64_t now_ns);
void drain_note(struct drain *drain, uint64_t now_ns);
/* The time for `waiting` to drain: ms, 1..300000; 1000 if unknown. */
uint32_t drain_retry_ms(struct drain *drain, uint64_t waiting);

#endif
