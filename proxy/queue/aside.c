/* aside: tickets that have had their turn in the order, but no place at the upstream, as their
 * owners wait for something else; and their claims once the owners are ready.
 *
 *   in flight --queue_yield--> aside --queue_ready--> a place at once: in flight
 *                                          `--------> claim: first of all of its session
 * (session.h)
 */
#include "queue/bounds.h"

static bool yield(struct queue *queue, struct ticket *ticket, bool keeps_part, uint64_t now_ns)
{
	struct shard *shard = ticket->shard;
	struct outbox outbox;
	bool yielded = false;

	outbox_init(&outbox);
	pthread_mutex_lock(&shard->mutex);
	if (ticket->state == TICKET_IN_FLIGHT) {
		yielded = true;
		session_put_aside(ticket->session, ticket, keeps_part);
		ticket->started_ns = 0;
		ticket_give_place(ticket, &outbox, now_ns);
		session_pump(queue, shard, ticket->session, &outbox, now_ns);
	}
	pthread_mutex_unlock(&shard->mutex);
	outbox_flush(queue, &outbox, now_ns);
	return yielded;
}

bool queue_yield(struct queue *queue, struct ticket *ticket, uint64_t now_ns)
{
	return yield(queue, ticket, false, now_ns);
}

bool queue_yield_place(struct queue *queue, struct ticket *ticket, uint64_t now_ns)
{
	return yield(queue, ticket, true, now_ns);
}

/* The claims of a session, of which up to `most` are counted. What waits in its lanes came later,
 * and takes no room from them. */
static struct waiting claims_of(const struct session *session, uint32_t most)
{
	struct waiting claims = {0, 0};

	for (const struct ticket *claim = session->head[SESSION_CLAIMS];
		claim != NULL && claims.tickets < most; claim = claim->next) {
		claims.tickets++;
		claims.bytes += claim->bytes;
	}
	return claims;
}

/* With the mutex held: one that is aside wants a place. GO, WAIT, or FULL_* of one that is bounded,
 * which stays aside. */
static enum queue_verdict claim(struct queue *queue, struct shard *shard, struct ticket *ticket,
	struct outbox *outbox, uint64_t now_ns)
{
	struct session *session = ticket->session;
	struct run_queue *run_queue = ticket->run_queue;
	bool bounded = line_is_bounded(run_queue);

	/* What it waited for was not the upstream. */
	ticket->entered_ns = now_ns;
	if (!session->runnable && session->head[SESSION_CLAIMS] == NULL &&
		session_in_flight_lets(session, ticket) &&
		(!bounded || line_offer(run_queue, session, ticket, true, now_ns) == LINE_PLACED)) {
		ticket->placed = bounded;
		ticket->placed_ns = bounded ? now_ns : 0;
		ticket->started_ns = now_ns;
		session_resume(session, ticket);
		return QUEUE_GO;
	}
	if (ticket->bounded) {
		enum queue_verdict verdict = bounds_find_room(
			queue, shard, session, claims_of(session, ticket->depth), ticket, now_ns);
		if (verdict != QUEUE_WAIT)
			return verdict;
	} else {
		bounds_reserve_always(queue, ticket, now_ns);
	}
	ticket->bounded = false; /* it is let in */
	session_claim(session, ticket);
	shard->counts.in_flight--;
	shard->counts.queued++;
	shard->counts.queued_bytes += ticket->bytes;
	line_note_waiting(run_queue, now_ns);
	session_next_changed(queue, shard, session, outbox, now_ns);
	return QUEUE_WAIT;
}

enum queue_verdict queue_ready(struct queue *queue, struct ticket *ticket, uint64_t now_ns)
{
	struct shard *shard = ticket->shard;
	enum queue_verdict verdict = QUEUE_WAIT;
	struct outbox outbox;

	outbox_init(&outbox);
	pthread_mutex_lock(&shard->mutex);
	ticket->unready = false;
	/* A message under way to one that is aside says that it is to be cut. */
	if (ticket->state == TICKET_ASIDE && !ticket->posted)
		verdict = claim(queue, shard, ticket, &outbox, now_ns);
	pthread_mutex_unlock(&shard->mutex);
	outbox_flush(queue, &outbox, now_ns);
	return verdict;
}

void queue_reroute(struct queue *queue, struct ticket *ticket, struct run_queue *run_queue)
{
	struct shard *shard = ticket->shard;

	(void)queue;
	pthread_mutex_lock(&shard->mutex);
	if (ticket->state == TICKET_ASIDE)
		ticket->run_queue = run_queue;
	pthread_mutex_unlock(&shard->mutex);
}
