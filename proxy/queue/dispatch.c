/* dispatch: from a session's lanes into flight, by order and by the upstream's turn.
 *
 *   something changed --> session_pump --+-- no bound: every ticket that its order lets go, goes
 *                                        |-- bound: a place at once, or into line
 *                                        `-- its owner is not ready: aside, without a place
 *   a place is free ----> dispatch_turn: who is next in line, which ticket, may it still go?
 */
#include <assert.h>

#include "queue/internal.h"

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

/* ---- hold ----------------------------------------------------------------------------------- */

/* How long a read holds back the write behind it.
 *
 *   read   turn -----------------> head of its response ----> complete
 *   write       next, waits ........^ goes                         or at turn + read_hold
 *
 * The write that is next looks once at the reads it waits for: those that have been answered, or
 * have had their time, order nothing any more. The others are marked, so that their owners come to
 * queue_loosen with the head; until then they pass here without a lock. The session is in the
 * shard's list of held ones meanwhile, for the first of their times.
 *
 *   owner:  answered = true;  if holds: queue_loosen      queue:  holds = true;  if answered:
 * loosen
 *
 * Both sides write before they read, all sequentially consistent: one of them sees the other.
 *
 * A read that was silent for all of its time while a write waited is taken for a long poll. Its
 * session remembers its path for session_idle_ms, and reads of that path hold no write back: a
 * client whose polls follow each other without a gap would wait with each of its writes. */

static void loosen(struct session *session, struct ticket *ticket)
{
	session->in_flight[TICKET_SHARED]--;
	session->in_flight[TICKET_FREE]++;
	ticket->order = TICKET_FREE;
}

static uint32_t seconds_of(uint64_t ns)
{
	return (uint32_t)(ns / 1000000000u);
}

static void remember_poll(struct session *session, const struct ticket *read, uint64_t now_ns)
{
	if (read->path == 0 || read->read_hold_ms == 0)
		return;
	session->poll_path = read->path;
	session->poll_until_s = seconds_of(now_ns + session->idle_ms * 1000000ull) + 1;
}

static bool is_poll(const struct session *session, const struct ticket *read, uint64_t now_ns)
{
	return session->poll_path != 0 && read->path == session->poll_path &&
	       seconds_of(now_ns) < session->poll_until_s;
}

/* Marks the reads of a list; returns when the first of them has had its time. */
static uint64_t mark(struct session *session, struct ticket *list, uint64_t now_ns)
{
	uint64_t first_ns = QUEUE_NEVER;

	for (struct ticket *ticket = list; ticket != NULL; ticket = ticket->next) {
		uint64_t until_ns = ticket->turn_ns + ticket->read_hold_ms * 1000000ull;

		if (ticket->order != TICKET_SHARED || ticket->state == TICKET_DETACHED)
			continue;
		/* Pair with queue_answered. */
		atomic_store_explicit(&ticket->holds, true, memory_order_seq_cst);
		bool answered = atomic_load_explicit(&ticket->answered, memory_order_seq_cst);
		if (!answered && until_ns <= now_ns)
			remember_poll(session, ticket, now_ns);
		if (answered || until_ns <= now_ns || is_poll(session, ticket, now_ns))
			loosen(session, ticket);
		else if (until_ns < first_ns)
			first_ns = until_ns;
	}
	return first_ns;
}

bool session_hold(struct shard *shard, struct session *session, const struct ticket *ticket,
	struct outbox *outbox, uint64_t now_ns)
{
	uint64_t flight_ns, claims_ns;

	/* Those that go while it is held are marked as they go. */
	if (session->held || ticket->order != TICKET_BARRIER ||
		session->in_flight[TICKET_BARRIER] > 0 || session->in_flight[TICKET_SHARED] == 0)
		return false;
	flight_ns = mark(session, session->flight, now_ns);
	claims_ns = mark(session, session->head[SESSION_CLAIMS], now_ns);
	if (session->in_flight[TICKET_SHARED] == 0)
		return true;
	if (shard_hold_start(shard, session, flight_ns < claims_ns ? flight_ns : claims_ns))
		outbox_deadline(outbox, session->idle_deadline_ns);
	return false;
}

void session_unhold(struct shard *shard, struct session *session)
{
	if (session->held && session->in_flight[TICKET_SHARED] == 0)
		shard_hold_stop(shard, session);
}

void queue_loosen(struct queue *queue, struct ticket *ticket, uint64_t now_ns)
{
	struct shard *shard = ticket->shard;
	struct outbox outbox;

	outbox_init(&outbox);
	pthread_mutex_lock(&shard->mutex);
	if (ticket->session != NULL && ticket->order == TICKET_SHARED &&
		(ticket->state == TICKET_ASIDE || ticket->state == TICKET_CLAIMING ||
			ticket->state == TICKET_IN_FLIGHT)) {
		loosen(ticket->session, ticket);
		session_pump(queue, shard, ticket->session, &outbox, now_ns);
	}
	pthread_mutex_unlock(&shard->mutex);
	outbox_flush(queue, &outbox, now_ns);
}
