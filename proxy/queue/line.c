/* line: places and turns at one upstream. See line.h and run_queue.h. */
#include "queue/line.h"

#include <assert.h>
#include <stdlib.h>

/* ---- the two lists -------------------------------------------------------------------------- */

static struct line_lane *lane_of(struct run_queue *run_queue, const struct session *session)
{
	return &run_queue->lanes[session->lane];
}

static struct line_list *list_of(struct line_lane *lane, enum line_place place)
{
	return place == LINE_NEW ? &lane->new_list : &lane->old_list;
}

static struct session *first_of(const struct line_lane *lane)
{
	return lane->new_list.head != NULL ? lane->new_list.head : lane->old_list.head;
}

static void insert(struct run_queue *run_queue, struct session *session, enum line_place place,
	bool at_head, uint64_t now_ns)
{
	struct line_lane *lane = lane_of(run_queue, session);
	struct line_list *list = list_of(lane, place);

	session->place = (uint8_t)place;
	session->line_prev = at_head ? NULL : list->tail;
	session->line_next = at_head ? list->head : NULL;
	if (session->line_prev != NULL)
		session->line_prev->line_next = session;
	else
		list->head = session;
	if (session->line_next != NULL)
		session->line_next->line_prev = session;
	else
		list->tail = session;
	if (place == LINE_OLD)
		session->seq = at_head ? lane->head_seq : ++lane->tail_seq;
	run_queue->runnable++;
	if (run_queue->busy_since_ns == 0)
		run_queue->busy_since_ns = now_ns;
}

static void unlink_session(struct run_queue *run_queue, struct session *session)
{
	struct line_list *list = list_of(lane_of(run_queue, session), session->place);

	if (session->line_prev != NULL)
		session->line_prev->line_next = session->line_next;
	else
		list->head = session->line_next;
	if (session->line_next != NULL)
		session->line_next->line_prev = session->line_prev;
	else
		list->tail = session->line_prev;
	session->place = LINE_NONE;
	run_queue->runnable--;
}

/* What its next ticket says of the session. One that comes from the other lane is no newcomer: it
 * gains nothing by changing. */
static void take_ticket(struct session *session, const struct ticket *ticket)
{
	if (session->lane != ticket->lane) {
		session->lane = ticket->lane;
		session->backlogged = true;
	}
	session->weight = ticket->weight;
	session->high_burst =
		(uint16_t)(ticket->high_burst < UINT16_MAX ? ticket->high_burst : UINT16_MAX);
}

/* A session comes with work. Where it stands: in the middle of its turn (it was held up by its own
 * order), at the head; one that always had work queued, or was served less than a round ago, at the
 * tail; else it is a newcomer and goes before all of them, once. */
static void line_up(struct run_queue *run_queue, struct session *session,
	const struct ticket *ticket, uint64_t now_ns)
{
	struct line_lane *lane;

	if (session->run_queue != run_queue) {
		session->run_queue = run_queue;
		session->deficit = 0;
		session->backlogged = false;
		session->seq = 0;
		session->lane = ticket->lane;
	}
	take_ticket(session, ticket);
	lane = lane_of(run_queue, session);
	if (session->deficit > 0)
		insert(run_queue, session, LINE_OLD, true, now_ns);
	else if (session->backlogged ||
		 (lane->old_list.head != NULL && lane->head_seq < session->seq))
		insert(run_queue, session, LINE_OLD, false, now_ns);
	else
		insert(run_queue, session, LINE_NEW, false, now_ns);
}

/* ---- places --------------------------------------------------------------------------------- */

static bool has_slot(const struct run_queue *run_queue, uint64_t now_ns)
{
	return !run_queue->config.takes_slots ||
	       (run_queue->in_flight - run_queue->earlier < run_queue->slots.count &&
		       now_ns < run_queue->slots.until_ns);
}

static void read_capacity(struct run_queue *run_queue, uint64_t now_ns)
{
	const struct run_queue_config *config = &run_queue->config;

	run_queue->capacity_until_ns = QUEUE_NEVER;
	run_queue->capacity =
		config->capacity(config->capacity_ctx, now_ns, &run_queue->capacity_until_ns);
}

static bool has_place(struct run_queue *run_queue, uint64_t now_ns)
{
	if (now_ns >= run_queue->capacity_until_ns)
		read_capacity(run_queue, now_ns);
	return run_queue->in_flight < run_queue->limit &&
	       run_queue->in_flight < run_queue->capacity && now_ns >= run_queue->pace_until_ns &&
	       has_slot(run_queue, now_ns);
}

static bool refuses(const struct run_queue *run_queue)
{
	return run_queue->config.takes_slots && run_queue->slots.refuses;
}

static bool must_serve(struct run_queue *run_queue, uint64_t now_ns)
{
	return run_queue->runnable > 0 && (refuses(run_queue) || has_place(run_queue, now_ns));
}

/* Returns its era. */
static uint32_t take_place(struct run_queue *run_queue)
{
	run_queue->in_flight++;
	if (run_queue->in_flight - run_queue->earlier > run_queue->peak)
		run_queue->peak = run_queue->in_flight - run_queue->earlier;
	return run_queue->era;
}

static void give_place(struct run_queue *run_queue, uint32_t number)
{
	struct run_queue_era *era = run_queue->eras;

	assert(run_queue->in_flight > 0);
	run_queue->in_flight--;
	while (era != NULL && era->number < number)
		era = era->next;
	if (era == NULL)
		return;
	assert(era->in_flight > 0);
	era->in_flight--;
	run_queue->earlier--;
}

/* One waits: is it for a slot, and is that not known yet? */
static void note_lack(struct run_queue *run_queue, uint64_t now_ns)
{
	if (run_queue->lacks || has_slot(run_queue, now_ns))
		return;
	run_queue->lacks = true;
	run_queue->config.lacks(run_queue->config.lacks_ctx);
}

/* Asks pace for one more. */
static bool charge(struct run_queue *run_queue, uint64_t now_ns)
{
	uint64_t wait_ns;

	if (run_queue->config.pace == NULL)
		return true;
	wait_ns = run_queue->config.pace(run_queue->config.pace_ctx, now_ns);
	if (wait_ns == 0)
		return true;
	run_queue->paced++;
	run_queue->pace_until_ns = now_ns + wait_ns;
	return false;
}

/* Somebody waits and only time will let it go: queue_expire must come back. */
static void set_deadline(struct run_queue *run_queue, uint64_t now_ns)
{
	uint64_t deadline_ns = QUEUE_NEVER;

	if (run_queue->runnable > 0 && run_queue->pace_until_ns > now_ns)
		deadline_ns = run_queue->pace_until_ns;
	if (run_queue->runnable > 0 && run_queue->capacity_until_ns < deadline_ns)
		deadline_ns = run_queue->capacity_until_ns;
	/* Pairs with the scan in queue_expire: see deadline.c. */
	atomic_store_explicit(&run_queue->deadline_ns, deadline_ns, memory_order_seq_cst);
}

bool line_refresh(struct run_queue *run_queue, uint64_t now_ns)
{
	if (run_queue->config.capacity != NULL)
		read_capacity(run_queue, now_ns);
	set_deadline(run_queue, now_ns);
	return must_serve(run_queue, now_ns);
}

enum line_offer line_offer(struct run_queue *run_queue, struct session *session,
	struct ticket *ticket, bool try_only, uint64_t now_ns)
{
	enum line_offer offer = LINE_WAITS;

	pthread_mutex_lock(&run_queue->lock);
	if (run_queue->runnable == 0 && !refuses(run_queue) && has_place(run_queue, now_ns) &&
		charge(run_queue, now_ns)) {
		ticket->era = take_place(run_queue);
		run_queue->dispatched++;
		offer = LINE_PLACED;
	} else if (!try_only) {
		line_up(run_queue, session, ticket, now_ns);
		session->runnable = true;
		if (must_serve(run_queue, now_ns))
			offer = LINE_WAITS_SERVE;
		note_lack(run_queue, now_ns);
		set_deadline(run_queue, now_ns);
	}
	pthread_mutex_unlock(&run_queue->lock);
	return offer;
}

bool line_return_place(const struct ticket *ticket, bool over, uint64_t now_ns)
{
	struct run_queue *run_queue = ticket->run_queue;
	bool serve;

	pthread_mutex_lock(&run_queue->lock);
	if (run_queue->config.adaptive && over && (ticket->latency_ns != 0 || ticket->failed)) {
		adapt_sample(&run_queue->adapt, ticket->latency_ns, ticket->failed,
			run_queue->in_flight, now_ns);
		run_queue->limit = adapt_limit(&run_queue->adapt);
	}
	give_place(run_queue, ticket->era);
	serve = must_serve(run_queue, now_ns);
	pthread_mutex_unlock(&run_queue->lock);
	return serve;
}

/* ---- turns ---------------------------------------------------------------------------------- */

/* The high lane first, but for each high_burst turns of it one of the normal lane, if any waits. */
static struct line_lane *choose_lane(struct run_queue *run_queue, struct turn *turn)
{
	struct line_lane *high = &run_queue->lanes[QUEUE_LANE_HIGH];
	struct line_lane *normal = &run_queue->lanes[QUEUE_LANE_NORMAL];
	const struct session *waiting = first_of(normal);

	turn->high_run = run_queue->high_run;
	if (first_of(high) == NULL ||
		(waiting != NULL && run_queue->high_run >= waiting->high_burst)) {
		turn->lane = QUEUE_LANE_NORMAL;
		run_queue->high_run = 0;
		return normal;
	}
	turn->lane = QUEUE_LANE_HIGH;
	run_queue->high_run = waiting != NULL ? run_queue->high_run + 1 : 0;
	return high;
}

void line_promote(struct run_queue *run_queue, struct session *session, const struct ticket *ticket,
	uint64_t now_ns)
{
	pthread_mutex_lock(&run_queue->lock);
	if (session->place != LINE_NONE) {
		unlink_session(run_queue, session);
		take_ticket(session, ticket);
		insert(run_queue, session, LINE_OLD, false, now_ns);
	}
	pthread_mutex_unlock(&run_queue->lock);
}

bool line_pop(struct run_queue *run_queue, struct turn *turn, uint64_t now_ns)
{
	const struct run_queue_config *config = &run_queue->config;
	struct line_lane *lane;
	struct session *session;

	pthread_mutex_lock(&run_queue->lock);
	if (!must_serve(run_queue, now_ns)) {
		set_deadline(run_queue, now_ns);
		pthread_mutex_unlock(&run_queue->lock);
		return false;
	}
	lane = choose_lane(run_queue, turn);
	/* A quantum of newcomers at most before an old session has one exchange. */
	if (lane->new_list.head != NULL &&
		(lane->old_list.head == NULL || lane->new_run < config->quantum)) {
		session = lane->new_list.head;
		turn->from = LINE_NEW;
		lane->new_run++;
	} else {
		session = lane->old_list.head;
		turn->from = LINE_OLD;
		lane->new_run = 0;
		if (lane->head_seq < session->seq)
			lane->head_seq = session->seq;
		if (session->deficit == 0)
			session->deficit = config->quantum * session->weight;
	}
	turn->session = session;
	unlink_session(run_queue, session);
	turn->era = take_place(run_queue);
	run_queue->serving++;

	turn->shed_before_ns = 0;
	if (config->shed_target_ms != 0 && now_ns > config->shed_target_ms * 1000000ull &&
		now_ns > run_queue->busy_since_ns + config->shed_interval_ms * 1000000ull)
		turn->shed_before_ns = now_ns - config->shed_target_ms * 1000000ull;
	if (refuses(run_queue))
		turn->shed_before_ns = QUEUE_NEVER;
	pthread_mutex_unlock(&run_queue->lock);
	return true;
}

bool line_charge(
	struct run_queue *run_queue, const struct turn *turn, uint32_t shed, uint64_t now_ns)
{
	bool allowed = true;

	pthread_mutex_lock(&run_queue->lock);
	/* Another thread may have been told to wait since this turn began. */
	if (now_ns < run_queue->pace_until_ns || !charge(run_queue, now_ns)) {
		allowed = false;
		give_place(run_queue, turn->era);
		run_queue->serving--;
		run_queue->shed += shed;
		if (turn->from == LINE_NEW && run_queue->lanes[turn->lane].new_run > 0)
			run_queue->lanes[turn->lane].new_run--;
		run_queue->high_run = turn->high_run;
		insert(run_queue, turn->session, turn->from, true, now_ns);
		set_deadline(run_queue, now_ns);
	}
	pthread_mutex_unlock(&run_queue->lock);
	return allowed;
}

bool line_settle(struct run_queue *run_queue, const struct turn *turn, bool gone,
	const struct ticket *next, bool waits, uint32_t shed, uint64_t now_ns)
{
	struct session *session = turn->session;
	bool serve;

	pthread_mutex_lock(&run_queue->lock);
	run_queue->serving--;
	run_queue->shed += shed;
	if (gone) {
		run_queue->dispatched++;
		/* The one exchange of a newcomer is not charged to its first turn. */
		if (turn->from == LINE_OLD && session->deficit > 0)
			session->deficit--;
	} else {
		give_place(run_queue, turn->era);
		run_queue->high_run = turn->high_run;
	}
	if (next != NULL) {
		bool again = turn->from == LINE_OLD && session->deficit > 0 &&
			     session->lane == next->lane;
		take_ticket(session, next);
		insert(run_queue, session, LINE_OLD, again, now_ns);
	} else {
		session->runnable = false;
		/* As if it stood at the tail with nothing to go: until that place was served it is
		 * no newcomer. */
		session->seq = ++lane_of(run_queue, session)->tail_seq;
		session->backlogged = waits;
		if (!waits)
			session->deficit = 0;
		if (run_queue->runnable == 0 && run_queue->serving == 0)
			run_queue->busy_since_ns = 0;
	}
	serve = must_serve(run_queue, now_ns);
	if (!serve)
		set_deadline(run_queue, now_ns);
	pthread_mutex_unlock(&run_queue->lock);
	return serve;
}

bool line_leave(struct run_queue *run_queue, struct session *session)
{
	bool left = false;

	pthread_mutex_lock(&run_queue->lock);
	if (session->place != LINE_NONE) {
		unlink_session(run_queue, session);
		session->runnable = false;
		session->seq = lane_of(run_queue, session)->tail_seq;
		if (run_queue->runnable == 0 && run_queue->serving == 0)
			run_queue->busy_since_ns = 0;
		left = true;
	}
	pthread_mutex_unlock(&run_queue->lock);
	return left;
}

/* ---- references --------------------------------------------------------------------------------
 */

struct run_queue *run_queue_hold(struct run_queue *run_queue)
{
	/* relaxed: a holder may pass it on; the release below orders the rest */
	atomic_fetch_add_explicit(&run_queue->references, 1, memory_order_relaxed);
	return run_queue;
}

void run_queue_release(struct run_queue *run_queue)
{
	/* acq_rel: pairs with itself, so the last holder sees all that the others did */
	if (atomic_fetch_sub_explicit(&run_queue->references, 1, memory_order_acq_rel) != 1)
		return;
	assert(run_queue->runnable == 0 && run_queue->in_flight == 0 && run_queue->serving == 0);
	pthread_mutex_destroy(&run_queue->lock);
	free(run_queue);
}

/* ---- gauges ------------------------------------------------------------------------------------
 */

/* The two counts below are gauges; they publish nothing, so relaxed. */

void line_note_waiting(struct run_queue *run_queue, uint64_t now_ns)
{
	if (atomic_fetch_add_explicit(&run_queue->waiting, 1, memory_order_relaxed) == 0)
		drain_start(&run_queue->drain, now_ns);
}

void line_note_gone(struct run_queue *run_queue, uint64_t now_ns)
{
	atomic_fetch_sub_explicit(&run_queue->waiting, 1, memory_order_relaxed);
	drain_note(&run_queue->drain, now_ns);
}

/* ---- drain ---------------------------------------------------------------------------------- */

/* How fast what waits gets away, for Retry-After.
 *
 * Counted in windows; a window's mean gap is smoothed into the gap that is reported. Written by
 * whichever worker dispatches; a count that lands in the neighbouring window does no harm, so all
 * orderings here are relaxed and pair with nothing. */

#define DRAIN_WINDOW_NS 250000000ull /* 250 ms */
#define MAX_RETRY_MS    300000ull

void drain_start(struct drain *drain, uint64_t now_ns)
{
	atomic_store_explicit(&drain->since_ns, now_ns, memory_order_relaxed);
	atomic_store_explicit(&drain->count, 0, memory_order_relaxed);
}

void drain_note(struct drain *drain, uint64_t now_ns)
{
	uint64_t count = atomic_fetch_add_explicit(&drain->count, 1, memory_order_relaxed) + 1;
	uint64_t since = atomic_load_explicit(&drain->since_ns, memory_order_relaxed);
	uint64_t old, gap;

	if (now_ns < since + DRAIN_WINDOW_NS)
		return;
	if (!atomic_compare_exchange_strong_explicit(
		    &drain->since_ns, &since, now_ns, memory_order_relaxed, memory_order_relaxed))
		return;
	atomic_store_explicit(&drain->count, 0, memory_order_relaxed);
	gap = (now_ns - since) / count + 1;
	old = atomic_load_explicit(&drain->gap_ns, memory_order_relaxed);
	atomic_store_explicit(
		&drain->gap_ns, old == 0 ? gap : (old * 3 + gap) / 4, memory_order_relaxed);
}

uint32_t drain_retry_ms(struct drain *drain, uint64_t waiting)
{
	uint64_t gap = atomic_load_explicit(&drain->gap_ns, memory_order_relaxed), ms;

	if (gap == 0)
		return 1000;
	if (waiting > MAX_RETRY_MS * 1000000 / gap)
		return MAX_RETRY_MS;
	ms = (waiting * gap + 999999) / 1000000;
	return ms > 0 ? (uint32_t)ms : 1;
}
