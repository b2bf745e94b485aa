/* internal: the state of a queue, and the operations on sessions that its files share.
 *
 *   public call --> shard's mutex --> session --> [run queue's lock] --> outbox
 *                   unlocked <--------------------------------------------'
 *                   outbox_flush: dispatch(), unpin(), serve the run queues, timer_changed()
 *
 * Locks nest shard, then run queue; two shards are never held at once. */
#ifndef SLUICE_QUEUE_INTERNAL_H
#define SLUICE_QUEUE_INTERNAL_H

#include "queue/line.h"
#include "queue/outbox.h"
#include "queue/shard.h"

struct queue {
	/* read only after creation */
	struct queue_config config;
	struct shard *shards;
	uint64_t shard_mask;

	/* written when a session begins or ends */
	_Alignas(64) _Atomic uint64_t sessions;

	/* written by tickets that wait */
	_Alignas(64) _Atomic uint64_t queued;
	_Atomic uint64_t queued_bytes;
	struct drain drain;

	/* what the timer thread is armed for; see deadline.c */
	_Alignas(64) _Atomic uint64_t armed_ns;

	pthread_mutex_t registry_mutex;
	struct run_queue *registry;
};

static inline struct shard *queue_shard(struct queue *queue, struct session_key key)
{
	return &queue->shards[key.word[1] & queue->shard_mask];
}

/* ---- dispatch.c: with the shard's mutex held unless it says otherwise ----------------------- */

/* Dispatches of the session's queued tickets what may go, or lines it up at its upstream. */
void session_pump(struct queue *queue, struct shard *shard, struct session *session,
	struct outbox *outbox, uint64_t now_ns);

/* Another ticket is the session's next one. One that may not go, or is of another upstream, does
 * not keep its session in line. */
void session_next_changed(struct queue *queue, struct shard *shard, struct session *session,
	struct outbox *outbox, uint64_t now_ns);

/* Gives back the place at its upstream that a ticket in flight has, if it has one. The exchange was
 * not answered: it does not show how fast the upstream is. */
void ticket_give_place(struct ticket *ticket, struct outbox *outbox, uint64_t now_ns);

/* ---- dispatch.c: the same -------------------------------------------------------------------- */

/* A session's next ticket may not go: for reads only? True if, now, it may. */
bool session_hold(struct shard *shard, struct session *session, const struct ticket *ticket,
	struct outbox *outbox, uint64_t now_ns);

/* Out of the list of held ones, if there is nothing to wait for any more. */
void session_unhold(struct shard *shard, struct session *session);

/* ---- dispatch.c again ------------------------------------------------------------------------ */

/* Starts the idle timer of an empty session, or rolls it. The session may be gone afterwards. */
void session_rest(struct queue *queue, struct shard *shard, struct session *session,
	struct outbox *outbox, uint64_t now_ns);

/* Ends an empty session that is in no idle list. */
void session_roll(
	struct queue *queue, struct shard *shard, struct session *session, struct outbox *outbox);

/* A waiting ticket is out of its lane and its session; counts only. */
void session_withdraw(struct queue *queue, struct shard *shard, struct session *session,
	struct ticket *ticket, uint64_t now_ns);

/* A waiting ticket is withdrawn and its owner gets the reason. */
void session_refuse(struct queue *queue, struct shard *shard, struct session *session,
	struct ticket *ticket, enum queue_verdict verdict, struct outbox *outbox, uint64_t now_ns);

/* An exchange in flight, or a tunnel, is over: out of its session, its place given back. */
void session_complete(struct shard *shard, struct session *session, struct ticket *ticket,
	struct outbox *outbox, uint64_t now_ns);

/* One turn at a run queue; no lock held. */
void dispatch_turn(struct run_queue *run_queue, struct outbox *outbox, uint64_t now_ns);

/* ---- deadline.c ----------------------------------------------------------------------------- */

/* A deadline was set: arm the timer for it if it is the earliest. No lock held. */
void deadline_note(struct queue *queue, uint64_t deadline_ns);

/* ---- bounds --------------------------------------------------------------------------------- */

/* Of the tickets that wait in a session and in all, and of their bytes. Private to the
 * room. */

/* How much waits already. */
struct waiting {
	uint32_t tickets;
	uint64_t bytes;
};

/* It has to wait behind these of its session: is there room, and room in all? WAIT: it is counted
 * among those that wait. FULL_*: it is not, and its retry_after_ms is set. With the mutex held. */
enum queue_verdict bounds_find_room(struct queue *queue, struct shard *shard,
	const struct session *session, struct waiting ahead, struct ticket *ticket,
	uint64_t now_ns);

/* Counts one that was let in already among those that wait: no bound refuses it. */
void bounds_reserve_always(struct queue *queue, const struct ticket *ticket, uint64_t now_ns);

#endif
