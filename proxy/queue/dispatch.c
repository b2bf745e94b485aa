/* dispatch: from a session's lanes into flight, by order and by the upstream's turn.
 *
 *   something changed --> session_pump --+-- no bound: every ticket that its order lets go, goes
 *                                        |-- bound: a place at once, or into line
 *                                        `-- its owner is not ready: aside, without a place
 *   a place is free ----> dispatch_turn: who is next in line, which ticket, may it still go?
 */
#include "queue/internal.h"

#include <assert.h>

/* ---- single tickets ------------------------------------------------------------------------- */

/* It waits no longer: counts only. */
static void note_dequeued(
	struct queue *queue, struct shard *shard, struct ticket *ticket, uint64_t now_ns)
{
	shard->counts.queued--;
	shard->counts.queued_bytes -= ticket->bytes;
	/* Counters only: nothing is published by them. */
	atomic_fetch_sub_explicit(&queue->queued, 1, memory_order_relaxed);
	if (ticket->bytes != 0)
		atomic_fetch_sub_explicit(
			&queue->queued_bytes, ticket->bytes, memory_order_relaxed);
	drain_note(&queue->drain, now_ns);
	line_note_gone(ticket->run_queue, now_ns);
}

void session_withdraw(struct queue *queue, struct shard *shard, struct session *session,
	struct ticket *ticket, uint64_t now_ns)
{
	session_remove(session, ticket);
	ticket->session = NULL;
	note_dequeued(queue, shard, ticket, now_ns);
}

void session_refuse(struct queue *queue, struct shard *shard, struct session *session,
	struct ticket *ticket, enum queue_verdict verdict, struct outbox *outbox, uint64_t now_ns)
{
	session_withdraw(queue, shard, session, ticket, now_ns);
	ticket->retry_after_ms =
		verdict == QUEUE_SHED ? run_queue_retry_after_ms(ticket->run_queue) : 1000;
	outbox_add(outbox, ticket, verdict);
}

void ticket_give_place(struct ticket *ticket, struct outbox *outbox, uint64_t now_ns)
{
	if (!ticket->placed)
		return;
	ticket->placed = false;
	if (line_return_place(ticket, false, now_ns))
		outbox_serve(outbox, ticket->run_queue);
}

/* A waiting ticket goes; it has its place if it needs one. */
static void start(struct queue *queue, struct shard *shard, struct session *session,
	struct ticket *ticket, bool placed, struct outbox *outbox, uint64_t now_ns)
{
	note_dequeued(queue, shard, ticket, now_ns);
	if (ticket->state == TICKET_CLAIMING) {
		session_grant(session, ticket);
	} else {
		session_remove(session, ticket);
		ticket->turn_ns = now_ns;
		session_start(session, ticket);
	}
	ticket->placed = placed;
	ticket->placed_ns = placed ? now_ns : 0;
	shard->counts.in_flight++;
	outbox_add(outbox, ticket, QUEUE_GO);
}

/* Those whose turn has come but whose owners are not ready step aside: what may overlap with them
 * does not wait behind them. */
static void clear_unready(
	struct queue *queue, struct shard *shard, struct session *session, uint64_t now_ns)
{
	struct ticket *ticket;

	while ((ticket = session_next(session)) != NULL && ticket->unready &&
		ticket->state == TICKET_WAITING && session_order_lets(session, ticket)) {
		note_dequeued(queue, shard, ticket, now_ns);
		session_remove(session, ticket);
		ticket->turn_ns = now_ns;
		session_start(session, ticket);
		session_put_aside(session, ticket, false);
		shard->counts.in_flight++;
	}
}

void session_complete(struct shard *shard, struct session *session, struct ticket *ticket,
	struct outbox *outbox, uint64_t now_ns)
{
	bool detached = ticket->state == TICKET_DETACHED;

	session_finish(session, ticket);
	ticket->session = NULL;
	if (detached)
		shard->counts.detached--;
	else
		shard->counts.in_flight--;
	shard->counts.done++;
	session->completed++;
	if (!detached)
		session_note_drain(session, now_ns);
	if (ticket->placed) {
		ticket->placed = false;
		if (line_return_place(ticket, true, now_ns))
			outbox_serve(outbox, ticket->run_queue);
	}
}

/* ---- sessions ------------------------------------------------------------------------------- */

void session_pump(struct queue *queue, struct shard *shard, struct session *session,
	struct outbox *outbox, uint64_t now_ns)
{
	struct ticket *ticket;

	session_unhold(shard, session);
	if (session_has_no_next(session))
		return;
	for (;;) {
		clear_unready(queue, shard, session, now_ns);
		ticket = session_next(session);
		if (session->runnable && ticket != NULL && ticket->lane < session->lane &&
			ticket->run_queue == session->run_queue)
			line_promote(session->run_queue, session, ticket, now_ns);
		if (session->runnable || ticket == NULL)
			return;
		if (!session_order_lets(session, ticket)) {
			if (!session_hold(shard, session, ticket, outbox, now_ns))
				return;
			continue;
		}
		if (!session_in_flight_lets(session, ticket))
			return;
		struct run_queue *run_queue = ticket->run_queue;
		bool bounded = line_is_bounded(run_queue);

		if (bounded) {
			enum line_offer offer =
				line_offer(run_queue, session, ticket, false, now_ns);
			if (offer == LINE_WAITS_SERVE)
				outbox_serve(outbox, run_queue);
			if (offer != LINE_PLACED) {
				/* Pairs with nothing: the deadline that this call may have set. */
				outbox_deadline(
					outbox, atomic_load_explicit(&run_queue->deadline_ns,
							memory_order_relaxed));
				return;
			}
		}
		start(queue, shard, session, ticket, bounded, outbox, now_ns);
	}
}

void session_roll(
	struct queue *queue, struct shard *shard, struct session *session, struct outbox *outbox)
{
	bool open = session->state == SESSION_OPEN;

	session_set_state(session, SESSION_CLOSED);
	if (session->pin != NULL) {
		assert(outbox->pins < OUTBOX_PINS);
		outbox->pin[outbox->pins++] = session->pin;
		shard->counts.pinned--;
	}
	if (open)
		shard->counts.rolled++;
	else
		shard->counts.closed++;
	shard->counts.sessions--;
	shard_release(shard, session);
	/* A count; publishes nothing. */
	atomic_fetch_sub_explicit(&queue->sessions, 1, memory_order_relaxed);
}

void session_next_changed(struct queue *queue, struct shard *shard, struct session *session,
	struct outbox *outbox, uint64_t now_ns)
{
	struct ticket *next;

	session_pump(queue, shard, session, outbox, now_ns);
	if (!session->runnable)
		return;
	next = session_next(session);
	if ((next == NULL || next->run_queue != session->run_queue ||
		    !session_may_go(session, next)) &&
		line_leave(session->run_queue, session))
		session_pump(queue, shard, session, outbox, now_ns);
}

void session_rest(struct queue *queue, struct shard *shard, struct session *session,
	struct outbox *outbox, uint64_t now_ns)
{
	session_unhold(shard, session);
	if (!session->runnable && session_queued(session) == 0) {
		session->backlogged = false;
		session->deficit = 0;
	}
	if (!session_is_empty(session))
		return;
	if (session->state != SESSION_OPEN || session->idle_ms == 0 ||
		(session->forgets && !session_remembers(session)))
		session_roll(queue, shard, session, outbox);
	else if (shard_idle_start(shard, session, now_ns))
		outbox_deadline(outbox, session->idle_deadline_ns);
}

/* ---- turns ---------------------------------------------------------------------------------- */

#define SHED_AT_ONCE 64 /* tickets shed in one turn, so that the shard is not held for long */

/* The ticket that this turn is for: the session's next, if it is this upstream's and may go.
 * Who waited too long is shed on the way. */
static struct ticket *choose(struct queue *queue, struct shard *shard, const struct turn *turn,
	struct run_queue *run_queue, uint32_t *shed, struct outbox *outbox, uint64_t now_ns)
{
	struct session *session = turn->session;
	struct ticket *ticket;

	for (;;) {
		clear_unready(queue, shard, session, now_ns);
		ticket = session_next(session);
		if (ticket == NULL || ticket->run_queue != run_queue ||
			!session_may_go(session, ticket))
			return NULL;
		if (*shed == SHED_AT_ONCE)
			return turn->shed_before_ns == QUEUE_NEVER ? NULL : ticket;
		if (ticket->entered_ns >= turn->shed_before_ns)
			return ticket;
		session_refuse(queue, shard, session, ticket, QUEUE_SHED, outbox, now_ns);
		shard->counts.shed++;
		++*shed;
	}
}

void dispatch_turn(struct run_queue *run_queue, struct outbox *outbox, uint64_t now_ns)
{
	struct queue *queue = run_queue->queue;
	struct turn turn;
	struct shard *shard;
	struct ticket *ticket, *next;
	uint32_t shed = 0;
	bool waits;

	if (!line_pop(run_queue, &turn, now_ns)) {
		outbox_deadline(outbox,
			atomic_load_explicit(&run_queue->deadline_ns, memory_order_relaxed));
		return;
	}
	shard = queue_shard(queue, turn.session->key);
	pthread_mutex_lock(&shard->mutex);
	ticket = choose(queue, shard, &turn, run_queue, &shed, outbox, now_ns);
	if (ticket != NULL && !line_charge(run_queue, &turn, shed, now_ns)) {
		outbox_deadline(outbox,
			atomic_load_explicit(&run_queue->deadline_ns, memory_order_relaxed));
		pthread_mutex_unlock(&shard->mutex);
		return;
	}
	if (ticket != NULL) {
		ticket->era = turn.era;
		start(queue, shard, turn.session, ticket, true, outbox, now_ns);
	}
	clear_unready(queue, shard, turn.session, now_ns);
	next = session_next(turn.session);
	waits = next != NULL;
	if (waits && (next->run_queue != run_queue || !session_may_go(turn.session, next)))
		next = NULL;
	if (line_settle(run_queue, &turn, ticket != NULL, next, waits, shed, now_ns))
		outbox_serve(outbox, run_queue);
	else
		outbox_deadline(outbox,
			atomic_load_explicit(&run_queue->deadline_ns, memory_order_relaxed));
	session_pump(queue, shard, turn.session, outbox, now_ns);
	session_rest(queue, shard, turn.session, outbox, now_ns);
	pthread_mutex_unlock(&shard->mutex);
}
