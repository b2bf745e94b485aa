/* queue: each client's exchanges in order, each upstream's clients in turn.
 *
 *   exchange (exchange/)              session (one client)             run queue (one upstream)
 *   queue_enter(ticket) ------------>  high   [t][t]      \  next one  -> sessions with work, in
 * turn GO: forward it now               normal [t][t][t]   /             (DRR, weights,
 * max_in_flight, WAIT: dispatch() comes later     in flight: t t                    pace, shedding)
 *   queue_done(ticket) <------------------'                                    |
 *     releases who waited: dispatch(ctx, worker, ticket) <---------------------'
 *
 * The room is pure logic: no loop, no sockets, no HTTP, no clock. Everything may be called from any
 * thread, but a given ticket only by the worker that owns it. Nothing polls: work moves when
 * something arrives, completes, leaves or a deadline passes. The callbacks are called with no lock
 * held, by whichever thread made the work runnable, possibly before the call that caused it
 * returns.
 *
 * Times are nanoseconds of a monotonic clock, passed in; workers whose clocks were read at
 * different moments may disagree by a loop turn without harm.
 *
 * A ticket's life, as its owner sees it:
 *
 *   ticket_init -> queue_enter -+- GO ------------------------------> in flight -> queue_done ->
 * out
 *                               +- WAIT -> ... dispatch() -> queue_arrive -+- GO ----^
 *                               |    `- queue_leave -> out                 +- SHED, CLOSED, GONE:
 * out
 *                               +- FULL_*, CLOSED: out                     +- ABORTED: cut,
 * queue_done
 *
 * At most one dispatch() is under way for a ticket, and as long as one is, its memory must stay.
 * queue_leave and queue_done return QUEUE_UNDER_WAY in that case: the ticket is out of its session
 * already, and its owner frees it when it arrives and queue_arrive returns QUEUE_GONE. */
#ifndef SLUICE_QUEUE_QUEUE_H
#define SLUICE_QUEUE_QUEUE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "queue/ticket.h"

struct queue;
struct run_queue; /* queue/run_queue.h */
struct session;
struct shard;

enum queue_ordering {
	QUEUE_STRICT, /* one exchange in flight */
	/* safe methods overlap; an unsafe one waits until those before it are answered (have the
	 * head of their response, or have had read_hold), and all behind it until it is complete */
	QUEUE_WRITES,
	QUEUE_NONE, /* no order; still counted, bounded and fair */
};

/* How a route queues; part of a configuration snapshot. It is read during queue_enter only, never
 * kept: what must outlive that call is copied. */
struct queue_policy {
	enum queue_ordering ordering;
	uint32_t session_in_flight; /* exchanges of one session in flight; 0: no bound of its own */
	uint32_t depth;             /* tickets that may wait in one session; 0: none waits */
	uint64_t bytes;             /* their bytes together; 0: no bound */
	uint32_t high_burst;      /* high ones that may pass a waiting normal one; 0 counts as 1 */
	uint32_t session_idle_ms; /* from the last completion to the roll; 0: at the completion */
	bool forgets; /* one that has nothing to remember is rolled at the completion, too: no
			 connection of its own, nor a rate, nor a long poll */
	uint32_t read_hold_ms; /* WRITES: from a safe one's turn until it holds no write back */
};

/* 128 bits of a keyed hash of (route, client). Both words must be well mixed: they choose shard
 * and bucket as they are. */
struct session_key {
	uint64_t word[2];
};

struct queue_callbacks {
	void *ctx;

	/* The ticket has an event for its owner: post its message to that worker, which calls
	 * queue_arrive. Must not block. Required. */
	void (*dispatch)(void *ctx, unsigned worker, struct ticket *ticket);

	/* The pin is off its session, which was rolled or closed, or by queue_sweep_pins: close its
	 * connection. May be NULL. */
	void (*unpin)(void *ctx, void *pin);

	/* There is an earlier deadline than the last queue_expire returned: make the timer thread
	 * call queue_expire at deadline_ns. May be NULL if no clock is used. */
	void (*timer_changed)(void *ctx, uint64_t deadline_ns);
};

struct queue_config {
	uint32_t shards;           /* rounded up to a power of two; 0: 256 */
	uint64_t max_sessions;     /* 0: no bound; else the oldest idle session makes room */
	uint64_t max_queued;       /* tickets waiting over all sessions; 0: no bound */
	uint64_t max_queued_bytes; /* their bytes; 0: no bound */
	struct queue_callbacks callbacks;
};

/* Makes an empty queue, NULL without memory. The configuration is copied. */
struct queue *queue_create(const struct queue_config *config);

/* Frees it with all idle sessions, without calling back. No ticket may be in it and no run queue
 * left. NULL is allowed. */
void queue_destroy(struct queue *queue);

/* Sets every field to its default: normal lane, safe, weight 1, out. */
void ticket_init(struct ticket *ticket, unsigned worker);

/* Asks for the ticket's turn. The order of a session is the order of these calls, whatever worker
 * they come from. Returns GO, WAIT, one of FULL_* or CLOSED. */
enum queue_verdict queue_enter(struct queue *queue, const struct queue_policy *policy,
	struct run_queue *run_queue, struct session_key key, struct ticket *ticket,
	uint64_t now_ns);

/* The message of dispatch() is with the owner. Returns GO (in flight from now), SHED, CLOSED, GONE
 * (out), or ABORTED (cut and queue_done, whether it was in flight or not). */
enum queue_verdict queue_arrive(struct queue *queue, struct ticket *ticket, uint64_t now_ns);

/* The client left or its time in the queue is over: a waiting ticket is taken out and will never
 * be dispatched; one whose dispatch is under way is taken out as well (UNDER_WAY). An out ticket
 * is LEFT again. */
enum queue_left queue_leave(struct queue *queue, struct ticket *ticket, uint64_t now_ns);

/* Does this one wait, and would it be the first of its session to go when what is in flight now is
 * over? Or does no order hold it? Then it may go together with one that is in flight: its owner
 * calls queue_done for it, and no other of its session is passed by that. */
bool queue_is_next(struct queue *queue, struct ticket *ticket);

/* May one more exchange go together with this one, which is in flight: of the same session, lane
 * and upstream, and without a ticket of its own? Not while any waits in that session or for that
 * upstream, so that none is passed by that, nor where the upstream has a pace. As many as have gone
 * so are counted by queue_count_followers, before queue_done of this one. */
bool queue_lets_follow(struct queue *queue, const struct ticket *lead);
void queue_count_followers(struct queue *queue, const struct ticket *lead, uint32_t count);

/* The exchange is over, however it ended; releases who waited for it. Also takes a waiting ticket
 * out. An out ticket is LEFT again. */
enum queue_left queue_done(struct queue *queue, struct ticket *ticket, uint64_t now_ns);

/* The exchange became a tunnel: it orders nothing any more and gives its place at the upstream
 * back, but its session is not idle before queue_done. In-flight tickets only. ABORTED may still
 * come for it, and ENDING if it accepts that. */
void queue_detach(struct queue *queue, struct ticket *ticket, uint64_t now_ns);

/* A tunnel continues in other memory: from now on `heir` has the place of the ticket, which is out.
 * Of the heir only the message's function is set by its owner, which is the same worker. Returns
 * LEFT, or UNDER_WAY: then the heir gets what was under way to the ticket. After queue_detach only.
 */
enum queue_left queue_pass_on(
	struct queue *queue, struct ticket *ticket, struct ticket *heir, uint64_t now_ns);

/* The exchange continues for as long as its client likes: it gives its place at the upstream back,
 * but orders others as before. In-flight tickets only. */
void queue_give_place(struct queue *queue, struct ticket *ticket, uint64_t now_ns);

/* The head of its response has come: a safe exchange holds no write back any more. Of an exchange
 * in flight; without a lock unless a write waits for it. */
void queue_loosen(struct queue *queue, struct ticket *ticket, uint64_t now_ns);
static inline void queue_answered(struct queue *queue, struct ticket *ticket, uint64_t now_ns)
{
	if (ticket->unsafe)
		return;
	/* Pair with mark() in dispatch.c. */
	atomic_store_explicit(&ticket->answered, true, memory_order_seq_cst);
	if (atomic_load_explicit(&ticket->holds, memory_order_seq_cst))
		queue_loosen(queue, ticket, now_ns);
}

/* Order without a place. An exchange that could not make progress if it were in flight holds
 * neither a place at the upstream nor one of session_in_flight, but keeps its position in its
 * session's order: nothing that must follow it is sent.
 *
 *   ticket.unready, queue_enter -> WAIT ... its turn by order ... aside --.
 *   GO -> queue_yield (it has to wait for something else) -------> aside --+- queue_ready -> GO
 *                                                                          `-> WAIT -> dispatch()
 *
 * An owner may enter unready tickets if what each waits for ends without any ticket of another
 * session or lane, or one that entered the session later: then no circle can close (see session.h).
 *
 * queue_yield_place gives back the place at the upstream only: as long as this one waits, it counts
 * in session_in_flight, so that no other of its session waits for the same.
 *
 * Both return false if the ticket is not in flight. queue_ready is called once for each ticket that
 * is unready or has yielded; it returns GO, or WAIT: then a message comes, or is under way,
 * as for any ticket that waits. Its queue wait begins then. One that is `bounded` may get FULL_*:
 * it stays aside, and its owner calls queue_done. */
bool queue_yield(struct queue *queue, struct ticket *ticket, uint64_t now_ns);
bool queue_yield_place(struct queue *queue, struct ticket *ticket, uint64_t now_ns);
enum queue_verdict queue_ready(struct queue *queue, struct ticket *ticket, uint64_t now_ns);

/* One that has yielded is to have its place at another upstream, when it is ready. */
void queue_reroute(struct queue *queue, struct ticket *ticket, struct run_queue *run_queue);

/* Upstream affinity. A session keeps one pin, opaque here, while nothing uses it: an exchange in
 * flight takes it and, when it is done with it and before queue_done, puts it back.
 *
 *   queue_take_pin -> the caller's -> queue_pin -> the session's -> unpin() when that ends
 *
 * queue_pin returns false if the session has one already, or the ticket is in none: then the pin
 * stays the caller's. queue_take_pin returns NULL if there is none. */
bool queue_pin(struct queue *queue, struct ticket *ticket, void *pin);
void *queue_take_pin(struct queue *queue, struct ticket *ticket);

/* Takes those pins off their sessions which are not to be kept; unpin() is called for each. keep()
 * is called with a lock held: it must be quick and not call back. */
void queue_sweep_pins(struct queue *queue, bool (*keep)(void *ctx, const void *pin), void *ctx);

/* ---- deadlines: one timer thread for all -------------------------------------------------- */

/* Rolls the sessions whose idle time is over, serves the run queues whose pace allows one more, and
 * returns when to call it again, QUEUE_NEVER when nothing is due. To be called by one thread at
 * that time and at timer_changed; calling it early is harmless. */
uint64_t queue_expire(struct queue *queue, uint64_t now_ns);

/* The earliest deadline; exact or early, never late. */
uint64_t queue_next_deadline_ns(struct queue *queue);

/* ---- operation ----------------------------------------------------------------------------- */

enum session_state {
	SESSION_OPEN,
	SESSION_DRAINING, /* refuses new ones, finishes what is queued, then rolled */
	SESSION_CLOSING,  /* refuses new ones, what is queued is CLOSED, finishes what is in flight
			   */
	SESSION_ABORTED,  /* refuses new ones, queued and in flight are ABORTED */
	SESSION_CLOSED,   /* rolled; the next request of its client opens a new session */
};
#define SESSION_STATES 5

const char *session_state_name(enum session_state state);

/* Drains, closes or aborts one session or all: state is DRAINING, CLOSING or ABORTED. A state only
 * grows sterner; asking for a milder one changes nothing. Returns the state that it has from now on
 * until it is rolled, SESSION_OPEN if there is no such session; or the number of sessions that
 * there were. */
enum session_state queue_close_session(
	struct queue *queue, struct session_key key, enum session_state state, uint64_t now_ns);
uint64_t queue_close_all(struct queue *queue, enum session_state state, uint64_t now_ns);

/* The part of a session that a listing shows. */
struct session_view {
	struct session_key key;
	enum session_state state;
	uint32_t queued[QUEUE_LANES];
	uint32_t in_flight, detached;
	uint64_t accepted, completed; /* tickets, since the session began */
	uint64_t idle_deadline_ns;    /* QUEUE_NEVER unless idle */
	bool pinned;
};

/* Visits the sessions, a shard at a time from a copy, so that visit may take its time; it returns
 * false to stop. Concurrent changes may be missing. False without memory. */
bool queue_each_session(
	struct queue *queue, bool (*visit)(void *ctx, const struct session_view *view), void *ctx);

/* Counters since creation, and gauges, summed over the shards. */
struct queue_counts {
	/* now; pinned: sessions whose pin is with them, not in use */
	uint64_t sessions, idle_sessions, queued, queued_bytes, in_flight, detached, pinned;
	uint64_t opened, rolled, closed;      /* sessions: begun, idle time over, by operation */
	uint64_t entered, went, waited, done; /* tickets: accepted, GO at once, WAIT, completed */
	uint64_t left, shed, refused_closed;
	uint64_t full_session, full_session_bytes, full_total, full_bytes, full_sessions;
};
void queue_count(struct queue *queue, struct queue_counts *counts);

#endif
