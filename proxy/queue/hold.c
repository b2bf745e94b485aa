/* hold: how long a read holds back the write behind it.
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
#include "queue/internal.h"

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
