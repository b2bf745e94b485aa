/* operate: what the admin and upstream affinity ask: closing, listing, counting, pins. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "queue/internal.h"

/* ---- closing -------------------------------------------------------------------------------- */

/* Every queued ticket is refused with this verdict. */
static void refuse_queued(struct queue *queue, struct shard *shard, struct session *session,
	enum queue_verdict verdict, struct outbox *outbox, uint64_t now_ns)
{
	struct ticket *ticket;

	while ((ticket = session_next(session)) != NULL) {
		session_refuse(queue, shard, session, ticket, verdict, outbox, now_ns);
		shard->counts.refused_closed++;
	}
	if (session->runnable)
		line_leave(session->run_queue, session);
}

/* Everything in flight gets the message to cut. A message under way carries that instead of what it
 * was. */
static void abort_in_flight(struct session *session, struct outbox *outbox)
{
	for (struct ticket *ticket = session->flight; ticket != NULL; ticket = ticket->next) {
		if (ticket->posted)
			ticket->verdict = QUEUE_ABORTED;
		else
			outbox_add(outbox, ticket, QUEUE_ABORTED);
	}
}

/* Detached ones that would keep the session as long as they like. */
static void end_detached(struct session *session, struct outbox *outbox)
{
	for (struct ticket *ticket = session->flight; ticket != NULL; ticket = ticket->next)
		if (session_hears_end(session, ticket))
			outbox_add(outbox, ticket, QUEUE_ENDING);
}

static void close_one(struct queue *queue, struct shard *shard, struct session *session,
	enum session_state state, struct outbox *outbox, uint64_t now_ns)
{
	if (!session_set_state(session, state))
		return;
	end_detached(session, outbox); /* before what they have queued is refused */
	if (state == SESSION_CLOSING)
		refuse_queued(queue, shard, session, QUEUE_CLOSED, outbox, now_ns);
	if (state == SESSION_ABORTED) {
		refuse_queued(queue, shard, session, QUEUE_ABORTED, outbox, now_ns);
		abort_in_flight(session, outbox);
	}
	shard_idle_stop(shard, session);
	session_rest(queue, shard, session, outbox, now_ns);
}

enum session_state queue_close_session(
	struct queue *queue, struct session_key key, enum session_state state, uint64_t now_ns)
{
	struct shard *shard = queue_shard(queue, key);
	enum session_state now = SESSION_OPEN;
	struct session *session;
	struct outbox outbox;

	assert(state > SESSION_OPEN && state < SESSION_CLOSED);
	outbox_init(&outbox);
	pthread_mutex_lock(&shard->mutex);
	session = shard_find(shard, key);
	if (session != NULL) {
		now = session->state > state ? session->state : state;
		close_one(queue, shard, session, state, &outbox, now_ns);
	}
	pthread_mutex_unlock(&shard->mutex);
	outbox_flush(queue, &outbox, now_ns);
	return now;
}

/* ---- listing -------------------------------------------------------------------------------- */

/* The keys or views of a shard's sessions, copied out; NULL with *count 0 if empty, or without
 * memory. */
static struct session_view *copy_shard(struct shard *shard, uint64_t *count, bool *no_memory)
{
	struct session_view *views = NULL;
	uint64_t n = 0;

	pthread_mutex_lock(&shard->mutex);
	if (shard->sessions > 0) {
		views = malloc(shard->sessions * sizeof(*views));
		*no_memory = views == NULL;
	}
	for (uint64_t i = 0; views != NULL && i <= shard->mask; i++) {
		for (struct session *session = shard->buckets[i]; session != NULL;
			session = session->hash_next) {
			views[n++] = (struct session_view){
				.key = session->key,
				.state = session->state,
				.queued = {session->queued[0], session->queued[1]},
				.in_flight = session_in_flight(session),
				.detached = session->detached,
				.accepted = session->accepted,
				.completed = session->completed,
				.idle_deadline_ns = session->idle_class != 0
							    ? session->idle_deadline_ns
							    : QUEUE_NEVER,
				.pinned = session->pin != NULL,
			};
		}
	}
	pthread_mutex_unlock(&shard->mutex);
	*count = n;
	return views;
}

bool queue_each_session(
	struct queue *queue, bool (*visit)(void *ctx, const struct session_view *view), void *ctx)
{
	bool no_memory = false, go_on = true;

	for (uint64_t i = 0; i <= queue->shard_mask && go_on && !no_memory; i++) {
		uint64_t count = 0;
		struct session_view *views = copy_shard(&queue->shards[i], &count, &no_memory);
		for (uint64_t n = 0; n < count && go_on; n++)
			go_on = visit(ctx, &views[n]);
		free(views);
	}
	return !no_memory;
}

struct close_all {
	struct queue *queue;
	enum session_state state;
	uint64_t now_ns, closed;
};

static bool close_visited(void *ctx, const struct session_view *view)
{
	struct close_all *all = ctx;

	if (queue_close_session(all->queue, view->key, all->state, all->now_ns) != SESSION_OPEN)
		all->closed++;
	return true;
}

uint64_t queue_close_all(struct queue *queue, enum session_state state, uint64_t now_ns)
{
	struct close_all all = {.queue = queue, .state = state, .now_ns = now_ns};

	queue_each_session(queue, close_visited, &all);
	return all.closed;
}

/* ---- counting ------------------------------------------------------------------------------- */

void queue_count(struct queue *queue, struct queue_counts *counts)
{
	memset(counts, 0, sizeof(*counts));
	for (uint64_t i = 0; i <= queue->shard_mask; i++) {
		struct shard *shard = &queue->shards[i];
		const uint64_t *from = (const uint64_t *)&shard->counts;
		uint64_t *to = (uint64_t *)counts;

		pthread_mutex_lock(&shard->mutex);
		/* All its members are uint64_t. */
		for (size_t n = 0; n < sizeof(*counts) / sizeof(*to); n++)
			to[n] += from[n];
		pthread_mutex_unlock(&shard->mutex);
	}
}

/* ---- pins ----------------------------------------------------------------------------------- */

bool queue_pin(struct queue *queue, struct ticket *ticket, void *pin)
{
	struct shard *shard = ticket->shard;
	bool pinned = false;

	(void)queue;
	pthread_mutex_lock(&shard->mutex);
	if (ticket->session != NULL && ticket->session->pin == NULL) {
		ticket->session->pin = pin;
		shard->counts.pinned++;
		pinned = true;
	}
	pthread_mutex_unlock(&shard->mutex);
	return pinned;
}

void *queue_take_pin(struct queue *queue, struct ticket *ticket)
{
	struct shard *shard = ticket->shard;
	void *pin = NULL;

	(void)queue;
	pthread_mutex_lock(&shard->mutex);
	if (ticket->session != NULL && ticket->session->pin != NULL) {
		pin = ticket->session->pin;
		ticket->session->pin = NULL;
		shard->counts.pinned--;
	}
	pthread_mutex_unlock(&shard->mutex);
	return pin;
}

/* Fills the outbox with pins that are not to be kept. False when the shard has no more of them. */
static bool sweep(struct shard *shard, struct outbox *outbox,
	bool (*keep)(void *ctx, const void *pin), void *ctx)
{
	for (uint64_t i = 0; i <= shard->mask && shard->counts.pinned > 0; i++) {
		for (struct session *session = shard->buckets[i]; session != NULL;
			session = session->hash_next) {
			if (session->pin == NULL || keep(ctx, session->pin))
				continue;
			outbox->pin[outbox->pins++] = session->pin;
			session->pin = NULL;
			shard->counts.pinned--;
			if (outbox->pins == OUTBOX_PINS)
				return true;
		}
	}
	return false;
}

void queue_sweep_pins(struct queue *queue, bool (*keep)(void *ctx, const void *pin), void *ctx)
{
	struct outbox outbox;
	bool more;

	for (uint64_t i = 0; i <= queue->shard_mask; i++) {
		struct shard *shard = &queue->shards[i];
		do {
			outbox_init(&outbox);
			pthread_mutex_lock(&shard->mutex);
			more = sweep(shard, &outbox, keep, ctx);
			pthread_mutex_unlock(&shard->mutex);
			outbox_flush(queue, &outbox, 0);
		} while (more);
	}
}

/* ---- aside ---------------------------------------------------------------------------------- */

/* Tickets that have had their turn in the order, but no place at the upstream, as their
 * owners wait for something else; and their claims once the owners are ready.
 *
 *   in flight --queue_yield--> aside --queue_ready--> a place at once: in flight
 *                                          `--------> claim: first of all of its session
 * (session.h)
 */

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
