/* queue: a ticket's way in, through and out. See queue.h for the picture and internal.h for the
 * locks.
 *
 * The common way, a session with nothing in it, is: shard's mutex, one look into the table, GO; and
 * later once more the mutex, done. Everything else hangs on session_pump. */
#include "queue/queue.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "queue/internal.h"

#define DEFAULT_SHARDS 256
#define MAX_SHARDS     65536

/* ---- creation ------------------------------------------------------------------------------- */

static uint32_t round_up_shards(uint32_t wanted)
{
	uint32_t shards = 1;

	if (wanted == 0)
		wanted = DEFAULT_SHARDS;
	while (shards < wanted && shards < MAX_SHARDS)
		shards *= 2;
	return shards;
}

struct queue *queue_create(const struct queue_config *config)
{
	uint32_t shards = round_up_shards(config->shards), made = 0;
	struct queue *queue = aligned_alloc(64, sizeof(*queue));

	if (queue == NULL)
		return NULL;
	memset(queue, 0, sizeof(*queue));
	queue->config = *config;
	queue->shard_mask = shards - 1;
	atomic_init(&queue->armed_ns, QUEUE_NEVER);
	queue->shards = aligned_alloc(64, shards * sizeof(*queue->shards));
	if (queue->shards == NULL)
		goto fail;
	while (made < shards && shard_init(&queue->shards[made]) == 0)
		made++;
	if (made < shards || pthread_mutex_init(&queue->registry_mutex, NULL) != 0)
		goto fail;
	return queue;

fail:
	for (uint32_t i = 0; i < made; i++)
		shard_free(&queue->shards[i]);
	free(queue->shards);
	free(queue);
	return NULL;
}

void queue_destroy(struct queue *queue)
{
	if (queue == NULL)
		return;
	assert(queue->registry == NULL);
	for (uint64_t i = 0; i <= queue->shard_mask; i++)
		shard_free(&queue->shards[i]);
	pthread_mutex_destroy(&queue->registry_mutex);
	free(queue->shards);
	free(queue);
}

void ticket_init(struct ticket *ticket, unsigned worker)
{
	memset(ticket, 0, sizeof(*ticket));
	ticket->worker = (uint16_t)worker;
	ticket->weight = 1;
	ticket->lane = QUEUE_LANE_NORMAL;
	ticket->verdict = QUEUE_GONE;
}

/* ---- in ------------------------------------------------------------------------------------- */

static enum ticket_order order_of(const struct queue_policy *policy, const struct ticket *ticket)
{
	if (ticket->unordered)
		return TICKET_FREE;
	switch (policy->ordering) {
	case QUEUE_NONE:
		return TICKET_FREE;
	case QUEUE_WRITES:
		return ticket->unsafe ? TICKET_BARRIER : TICKET_SHARED;
	case QUEUE_STRICT:
		break;
	}
	return TICKET_BARRIER;
}

static void prepare(struct ticket *ticket, const struct queue_policy *policy, struct shard *shard,
	struct run_queue *run_queue, uint64_t now_ns)
{
	ticket->shard = shard;
	ticket->run_queue = run_queue;
	ticket->entered_ns = now_ns;
	ticket->started_ns = 0;
	ticket->retry_after_ms = 0;
	ticket->order = (uint8_t)order_of(policy, ticket);
	ticket->high_burst = policy->high_burst > 0 ? policy->high_burst : 1;
	ticket->session_in_flight = policy->session_in_flight;
	ticket->read_hold_ms = policy->read_hold_ms;
	ticket->depth = policy->depth;
	ticket->depth_bytes = policy->bytes;
	ticket->turn_ns = now_ns;
	ticket->placed = false;
	if (ticket->weight == 0)
		ticket->weight = 1;
	if (ticket->weight > QUEUE_MAX_WEIGHT)
		ticket->weight = QUEUE_MAX_WEIGHT;
	if (ticket->lane != QUEUE_LANE_HIGH)
		ticket->lane = QUEUE_LANE_NORMAL;
}

/* A new session, if need be in the place of the shard's oldest idle one; NULL: no room. */
static struct session *open_session(
	struct queue *queue, struct shard *shard, struct session_key key, struct outbox *outbox)
{
	uint64_t bound = queue->config.max_sessions;
	struct session *session;

	/* A count; publishes nothing. Two shards may both take the last place: one too many for a
	 * moment, as the next comer makes room. */
	if (bound != 0 && atomic_load_explicit(&queue->sessions, memory_order_relaxed) >= bound) {
		struct session *oldest = shard_idle_oldest(shard);
		if (oldest == NULL)
			return NULL;
		shard_idle_stop(shard, oldest);
		session_roll(queue, shard, oldest, outbox);
	}
	session = shard_open(shard, key);
	if (session != NULL) {
		shard->counts.sessions++;
		shard->counts.opened++;
		atomic_fetch_add_explicit(&queue->sessions, 1, memory_order_relaxed);
	}
	return session;
}

static enum queue_verdict enqueue(struct queue *queue, struct shard *shard, struct session *session,
	struct ticket *ticket, struct outbox *outbox, uint64_t now_ns)
{
	const struct waiting ahead = {session_queued(session), session->queued_bytes};
	enum queue_verdict verdict = QUEUE_WAIT;

	if (ticket->behind == NULL)
		verdict = bounds_find_room(queue, shard, session, ahead, ticket, now_ns);
	else
		bounds_reserve_always(queue, ticket, now_ns);
	if (verdict != QUEUE_WAIT)
		return verdict;
	ticket->session = session;
	session_insert(session, ticket);
	line_note_waiting(ticket->run_queue, now_ns);
	shard->counts.queued++;
	shard->counts.queued_bytes += ticket->bytes;
	shard->counts.waited++;
	session_next_changed(queue, shard, session, outbox, now_ns);
	return QUEUE_WAIT;
}

/* Its owner is not ready: it steps aside if its order lets it go, else it waits for that. */
static enum queue_verdict enter_unready(struct queue *queue, struct shard *shard,
	struct session *session, struct ticket *ticket, struct outbox *outbox, uint64_t now_ns)
{
	if (!session_is_next(session, ticket) || !session_order_lets(session, ticket))
		return enqueue(queue, shard, session, ticket, outbox, now_ns);
	ticket->session = session;
	session_start(session, ticket);
	session_put_aside(session, ticket, false);
	shard->counts.in_flight++;
	shard->counts.waited++;
	return QUEUE_WAIT;
}

/* With the mutex held. */
static enum queue_verdict enter(struct queue *queue, const struct queue_policy *policy,
	struct shard *shard, struct session_key key, struct ticket *ticket, struct outbox *outbox,
	uint64_t now_ns)
{
	struct session *session = shard_find(shard, key);
	struct run_queue *run_queue = ticket->run_queue;
	enum queue_verdict verdict = QUEUE_GO;
	bool bounded;

	if (session == NULL) {
		session = open_session(queue, shard, key, outbox);
		if (session == NULL) {
			shard->counts.full_sessions++;
			ticket->retry_after_ms = 1000;
			return QUEUE_FULL_SESSIONS;
		}
	} else if (session->state != SESSION_OPEN &&
		   (ticket->behind == NULL || session->state != SESSION_DRAINING)) {
		shard->counts.refused_closed++;
		ticket->retry_after_ms = 1000;
		return QUEUE_CLOSED;
	}

	bounded = line_is_bounded(run_queue);
	if (ticket->unready) {
		verdict = enter_unready(queue, shard, session, ticket, outbox, now_ns);
	} else if (!session->runnable && session_is_next(session, ticket) &&
		   session_may_go(session, ticket) &&
		   (!bounded ||
			   line_offer(run_queue, session, ticket, true, now_ns) == LINE_PLACED)) {
		ticket->session = session;
		ticket->placed = bounded;
		ticket->placed_ns = bounded ? now_ns : 0;
		ticket->started_ns = now_ns;
		session_start(session, ticket);
		shard->counts.in_flight++;
		shard->counts.went++;
	} else {
		verdict = enqueue(queue, shard, session, ticket, outbox, now_ns);
	}
	if (verdict != QUEUE_GO && verdict != QUEUE_WAIT) {
		/* A refused one leaves the idle timer alone; a session that began for it goes at
		 * once. */
		if (session->idle_class == 0 && session_is_empty(session))
			session_roll(queue, shard, session, outbox);
		return verdict;
	}
	shard_idle_stop(shard, session);
	session->idle_ms = policy->session_idle_ms;
	session->forgets = policy->forgets;
	session->accepted++;
	shard->counts.entered++;
	return verdict;
}

enum queue_verdict queue_enter(struct queue *queue, const struct queue_policy *policy,
	struct run_queue *run_queue, struct session_key key, struct ticket *ticket, uint64_t now_ns)
{
	struct shard *shard = queue_shard(queue, key);
	enum queue_verdict verdict;
	struct outbox outbox;

	assert(ticket->state == TICKET_OUT && !ticket->posted);
	outbox_init(&outbox);
	prepare(ticket, policy, shard, run_queue, now_ns);
	pthread_mutex_lock(&shard->mutex);
	verdict = enter(queue, policy, shard, key, ticket, &outbox, now_ns);
	pthread_mutex_unlock(&shard->mutex);
	outbox_flush(queue, &outbox, now_ns);
	return verdict;
}

/* ---- through and out ------------------------------------------------------------------------ */

enum queue_verdict queue_arrive(struct queue *queue, struct ticket *ticket, uint64_t now_ns)
{
	enum queue_verdict verdict;

	(void)queue;
	pthread_mutex_lock(&ticket->shard->mutex);
	assert(ticket->posted);
	ticket->posted = false;
	verdict = ticket->verdict;
	if (verdict == QUEUE_GO)
		ticket->started_ns = now_ns;
	pthread_mutex_unlock(&ticket->shard->mutex);
	return verdict;
}

/* With the mutex held: a waiting ticket out of the queue, and whom that lets go. */
static void take_out(struct queue *queue, struct shard *shard, struct ticket *ticket,
	struct outbox *outbox, uint64_t now_ns)
{
	struct session *session = ticket->session;

	session_withdraw(queue, shard, session, ticket, now_ns);
	shard->counts.left++;
	session_next_changed(queue, shard, session, outbox, now_ns);
	session_rest(queue, shard, session, outbox, now_ns);
}

static enum queue_left out(struct ticket *ticket)
{
	if (!ticket->posted)
		return QUEUE_LEFT;
	ticket->verdict = QUEUE_GONE;
	return QUEUE_UNDER_WAY;
}

/* Leaving and completing differ only in what they do to a ticket whose owner knows it in flight. */
static enum queue_left leave(
	struct queue *queue, struct ticket *ticket, bool in_flight_too, uint64_t now_ns)
{
	struct shard *shard = ticket->shard;
	enum queue_left left;
	struct outbox outbox;

	if (shard == NULL)
		return QUEUE_LEFT; /* never entered */
	outbox_init(&outbox);
	pthread_mutex_lock(&shard->mutex);
	switch ((enum ticket_state)ticket->state) {
	case TICKET_WAITING:
	case TICKET_CLAIMING:
		take_out(queue, shard, ticket, &outbox, now_ns);
		break;
	case TICKET_ASIDE:
	case TICKET_IN_FLIGHT:
	case TICKET_DETACHED: {
		struct session *session = ticket->session;
		bool unheard = ticket->state == TICKET_ASIDE ||
			       (ticket->posted && ticket->started_ns == 0);
		if (!in_flight_too && !unheard) {
			pthread_mutex_unlock(&shard->mutex);
			return QUEUE_IN_FLIGHT;
		}
		session_complete(shard, session, ticket, &outbox, now_ns);
		session_pump(queue, shard, session, &outbox, now_ns);
		session_rest(queue, shard, session, &outbox, now_ns);
		break;
	}
	case TICKET_OUT:
		break;
	}
	left = out(ticket);
	pthread_mutex_unlock(&shard->mutex);
	outbox_flush(queue, &outbox, now_ns);
	return left;
}

bool queue_is_next(struct queue *queue, struct ticket *ticket)
{
	struct shard *shard = ticket->shard;
	bool is_next = false;

	(void)queue;
	if (shard == NULL)
		return false; /* never entered */
	pthread_mutex_lock(&shard->mutex);
	if (ticket->posted)
		is_next = false; /* its turn has come already */
	else if (ticket->state == TICKET_WAITING)
		is_next = session_next(ticket->session) == ticket;
	else
		is_next = ticket->state == TICKET_ASIDE && ticket->order == TICKET_FREE;
	pthread_mutex_unlock(&shard->mutex);
	return is_next;
}

bool queue_lets_follow(struct queue *queue, const struct ticket *lead)
{
	struct shard *shard = lead->shard;
	const struct session *session;
	bool lets;

	(void)queue;
	if (shard == NULL)
		return false; /* never entered */
	pthread_mutex_lock(&shard->mutex);
	session = lead->session;
	lets = lead->state == TICKET_IN_FLIGHT && !lead->posted && session->state == SESSION_OPEN &&
	       session_queued(session) == 0 && line_is_free(lead->run_queue);
	pthread_mutex_unlock(&shard->mutex);
	return lets;
}

void queue_count_followers(struct queue *queue, const struct ticket *lead, uint32_t count)
{
	struct shard *shard = lead->shard;

	(void)queue;
	pthread_mutex_lock(&shard->mutex);
	if (lead->session != NULL) {
		lead->session->accepted += count;
		lead->session->completed += count;
		shard->counts.entered += count;
		shard->counts.went += count;
		shard->counts.done += count;
	}
	pthread_mutex_unlock(&shard->mutex);
}

enum queue_left queue_leave(struct queue *queue, struct ticket *ticket, uint64_t now_ns)
{
	return leave(queue, ticket, false, now_ns);
}

enum queue_left queue_done(struct queue *queue, struct ticket *ticket, uint64_t now_ns)
{
	return leave(queue, ticket, true, now_ns);
}

void queue_give_place(struct queue *queue, struct ticket *ticket, uint64_t now_ns)
{
	struct outbox outbox;

	outbox_init(&outbox);
	pthread_mutex_lock(&ticket->shard->mutex);
	assert(ticket->state == TICKET_IN_FLIGHT);
	ticket_give_place(ticket, &outbox, now_ns);
	pthread_mutex_unlock(&ticket->shard->mutex);
	outbox_flush(queue, &outbox, now_ns);
}

void queue_detach(struct queue *queue, struct ticket *ticket, uint64_t now_ns)
{
	struct shard *shard = ticket->shard;
	struct session *session;
	struct outbox outbox;

	outbox_init(&outbox);
	pthread_mutex_lock(&shard->mutex);
	session = ticket->session;
	assert(ticket->state == TICKET_IN_FLIGHT);
	session_detach(session, ticket);
	if (session_hears_end(session, ticket))
		outbox_add(&outbox, ticket, QUEUE_ENDING);
	shard->counts.in_flight--;
	shard->counts.detached++;
	ticket_give_place(ticket, &outbox, now_ns);
	session_pump(queue, shard, session, &outbox, now_ns);
	pthread_mutex_unlock(&shard->mutex);
	outbox_flush(queue, &outbox, now_ns);
}

enum queue_left queue_pass_on(
	struct queue *queue, struct ticket *ticket, struct ticket *heir, uint64_t now_ns)
{
	struct shard *shard = ticket->shard;
	enum queue_left left;
	struct outbox outbox;

	outbox_init(&outbox);
	pthread_mutex_lock(&shard->mutex);
	session_replace(ticket->session, ticket, heir);
	if (ticket->posted)
		outbox_add(&outbox, heir, (enum queue_verdict)ticket->verdict);
	left = out(ticket);
	pthread_mutex_unlock(&shard->mutex);
	outbox_flush(queue, &outbox, now_ns);
	return left;
}

/* ---- bounds --------------------------------------------------------------------------------- */

/* Is there room for one more ticket that waits? Counters of all shards, hence without the
 * mutex; those of a session with it. */

/* Reserves the total bounds for one that waits. Counters only, hence relaxed. */
static enum queue_verdict reserve(struct queue *queue, const struct ticket *ticket, uint64_t now_ns)
{
	const struct queue_config *config = &queue->config;
	uint64_t queued, bytes;

	queued = atomic_fetch_add_explicit(&queue->queued, 1, memory_order_relaxed);
	if (config->max_queued != 0 && queued >= config->max_queued) {
		atomic_fetch_sub_explicit(&queue->queued, 1, memory_order_relaxed);
		return QUEUE_FULL_TOTAL;
	}
	if (queued == 0)
		drain_start(&queue->drain, now_ns);
	if (ticket->bytes == 0)
		return QUEUE_WAIT;
	bytes = atomic_fetch_add_explicit(
		&queue->queued_bytes, ticket->bytes, memory_order_relaxed);
	if (config->max_queued_bytes != 0 &&
		(bytes >= config->max_queued_bytes ||
			ticket->bytes > config->max_queued_bytes - bytes)) {
		atomic_fetch_sub_explicit(
			&queue->queued_bytes, ticket->bytes, memory_order_relaxed);
		atomic_fetch_sub_explicit(&queue->queued, 1, memory_order_relaxed);
		return QUEUE_FULL_BYTES;
	}
	return QUEUE_WAIT;
}

/* The time for what the session has queued to get away, else for its upstream's. */
static uint32_t session_retry_ms(const struct session *session, const struct ticket *ticket)
{
	uint32_t drain_ms = session_drain_ms(session);

	return drain_ms != 0 ? drain_ms : run_queue_retry_after_ms(ticket->run_queue);
}

enum queue_verdict bounds_find_room(struct queue *queue, struct shard *shard,
	const struct session *session, struct waiting ahead, struct ticket *ticket, uint64_t now_ns)
{
	uint64_t most = ticket->depth_bytes;
	enum queue_verdict verdict;

	if (ahead.tickets >= ticket->depth) {
		shard->counts.full_session++;
		ticket->retry_after_ms = session_retry_ms(session, ticket);
		return QUEUE_FULL_SESSION;
	}
	if (most != 0 && (ticket->bytes > most || ahead.bytes > most - ticket->bytes)) {
		shard->counts.full_session_bytes++;
		ticket->retry_after_ms = session_retry_ms(session, ticket);
		return QUEUE_FULL_SESSION_BYTES;
	}
	verdict = reserve(queue, ticket, now_ns);
	if (verdict != QUEUE_WAIT) {
		if (verdict == QUEUE_FULL_TOTAL)
			shard->counts.full_total++;
		else
			shard->counts.full_bytes++;
		ticket->retry_after_ms = drain_retry_ms(
			&queue->drain, atomic_load_explicit(&queue->queued, memory_order_relaxed));
	}
	return verdict;
}

void bounds_reserve_always(struct queue *queue, const struct ticket *ticket, uint64_t now_ns)
{
	if (atomic_fetch_add_explicit(&queue->queued, 1, memory_order_relaxed) == 0)
		drain_start(&queue->drain, now_ns);
	atomic_fetch_add_explicit(&queue->queued_bytes, ticket->bytes, memory_order_relaxed);
}
