#include "ownership/owner_sweep.h"

#include "base/clock.h"
#include "ownership/owner_ask.h"
#include "ownership/owner_use.h"
#include "ownership/owner_nodes.h"
#include "ownership/owner_table.h"
#include "worker/worker.h"

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* What the process before this one owns is asked about after so long, and each further time after
 * twice as long, so many times: it may have died, and then that continues for a lease. */
#define AGAIN_MS        UINT64_C(100)
#define AGAIN_DOUBLINGS 2

/* The process before this one may have given it up by now, or the store be there. */
static void ask_again(struct owners *owners, struct worker *worker, struct owner_session *session,
	uint64_t now_ns)
{
	if (!session->awaits || session->is_asked ||
		now_ns < session->asked_ns + ((AGAIN_MS * CLOCK_NS_PER_MS) << session->asks_again))
		return;
	if (owner_ask(owners, worker, session, OWNER_TAKE, now_ns)) {
		if (session->asks_again < AGAIN_DOUBLINGS)
			session->asks_again++;
		return;
	}
	if (owner_is_starting(owners, worker, now_ns))
		return;
	session->awaits = false;
	session->sight = OWNER_UNKNOWN;
	owner_line_deliver(session);
}

/* So long after its lease the store has forgotten who owned it: twice its own time, and one for the
 * clocks; and an eighth of the lease, which is shorter here than there (sure_ns). */
#define FORGET_MS (3 * OWNER_KEEP_MS)

/* With the lock, of one whose lease has ended and that could not be given up: as long as the store
 * may know that it was this node's, its marks are kept, by which what is late for it is known. A
 * process that leaves begins nothing any more. */
static bool is_forgotten(
	const struct owners *owners, const struct owner_session *session, uint64_t now_ns)
{
	/* relaxed: a flag alone */
	return atomic_load_explicit(&owners->is_leaving, memory_order_relaxed) ||
	       now_ns >= session->ends_ns + (FORGET_MS + session->lease_ms / 8) * CLOCK_NS_PER_MS;
}

/* With the lock: has its lease ended while it is used? Another node may take it now. Returns when
 * that is to be looked at again. */
static uint64_t look_at_lapse(struct owners *owners, struct owner_session *session, uint64_t now_ns)
{
	if (session->side != OWNER_SIDE_HERE || session->users == 0)
		return UINT64_MAX;
	if (now_ns < session->ends_ns)
		return session->ends_ns;
	if (session->lapsed_ns != session->ends_ns) {
		session->lapsed_ns = session->ends_ns;
		owners->has_lapsed = true;
	}
	return UINT64_MAX;
}

/* With the lock: asks what is due of it. When is it to be looked at again? 0: it is forgotten. */
static uint64_t look_after(struct owners *owners, struct worker *worker,
	struct owner_session *session, bool presses, uint64_t now_ns)
{
	bool yields = presses || owner_session_yields(owners, session);
	uint64_t idle_ends_ns = session->users > 0 || session->first ? UINT64_MAX
				: yields                             ? now_ns
					 : session->used_ns + session->idle_ns;

	ask_again(owners, worker, session, now_ns);
	if (session->is_asked || session->first)
		return now_ns + CLOCK_NS_PER_S / 10;
	switch (session->side) {
	case OWNER_SIDE_NOBODY:
		return session->users > 0 ? now_ns + CLOCK_NS_PER_S : 0;
	case OWNER_SIDE_HERE:
		if (now_ns >= idle_ends_ns || session->is_giving)
			owner_ask(owners, worker, session, OWNER_GIVE, now_ns);
		else if (now_ns >= session->renew_ns)
			owner_ask(owners, worker, session, OWNER_RENEW, now_ns);
		if (session->is_asked)
			return now_ns + CLOCK_NS_PER_S / 10;
		/* Without a store, but for one that the store may be about to take from us. */
		if (session->is_giving)
			return now_ns + CLOCK_NS_PER_S;
		if (now_ns >= idle_ends_ns && now_ns >= session->ends_ns)
			return is_forgotten(owners, session, now_ns) ? 0 : now_ns + CLOCK_NS_PER_S;
		if (session->users > 0 && owner_session_moves(owners, session)) {
			owners->has_moving = true;
			return earlier(now_ns + CLOCK_NS_PER_S, session->renew_ns);
		}
		return earlier(session->users > 0 ? now_ns + session->idle_ns : idle_ends_ns,
			session->renew_ns);
	case OWNER_SIDE_ELSEWHERE:
		if (session->users > 0 && now_ns >= session->renew_ns)
			owner_ask(owners, worker, session, OWNER_TAKE, now_ns);
		return session->users > 0 ? earlier(session->renew_ns, now_ns + CLOCK_NS_PER_S)
		       : now_ns >= idle_ends_ns ? 0
						: idle_ends_ns;
	}
	return 0;
}

/* Those of the ticks that have come are due. */
static void turn_ticks(struct owner_stripe *stripe, uint64_t now_ns)
{
	uint64_t tick = now_ns / (OWNER_TICK_MS * CLOCK_NS_PER_MS);

	if (tick > stripe->tick + OWNER_TICKS)
		stripe->tick = tick - OWNER_TICKS;
	while (stripe->tick < tick) {
		struct owner_session **at = &stripe->ticks[++stripe->tick % OWNER_TICKS], *session;
		while ((session = *at) != NULL) {
			owner_session_unschedule(session);
			owner_session_make_due(stripe, session);
		}
	}
}

/* With the lock. */
static void tend(struct owners *owners, struct owner_stripe *stripe, struct worker *worker,
	struct owner_session *session, bool presses, uint64_t now_ns)
{
	owner_session_unschedule(session);
	uint64_t next_ns = look_after(owners, worker, session, presses, now_ns);
	uint64_t lapses_ns = look_at_lapse(owners, session, now_ns);

	if (next_ns == 0)
		owner_session_forget(owners, stripe, session);
	else
		owner_session_schedule(stripe, session, earlier(next_ns, lapses_ns));
}

/* Is the table nearly full? Then idle sessions are given up before their time. */
static bool is_pressed(const struct owners *owners)
{
	/* relaxed: numbers alone */
	size_t most = atomic_load_explicit(&owners->most, memory_order_relaxed);

	return atomic_load_explicit(&owners->count, memory_order_relaxed) >= most - most / 8;
}

/* With the lock: of some buckets. */
static void press(
	struct owners *owners, struct owner_stripe *stripe, struct worker *worker, uint64_t now_ns)
{
	for (unsigned done = 0; done < OWNER_AT_ONCE; done++) {
		struct owner_session *session, *next;
		stripe->hand = (stripe->hand + 1) & (stripe->bucket_count - 1);
		for (session = stripe->buckets[stripe->hand]; session; session = next) {
			next = session->next;
			if (session->users == 0 && !session->is_asked && !session->first)
				tend(owners, stripe, worker, session, true, now_ns);
		}
	}
}

/* Has it more than it has done? */
static bool sweep_stripe(
	struct owners *owners, struct owner_stripe *stripe, struct worker *worker, uint64_t now_ns)
{
	struct owner_session *session;
	unsigned done = 0;

	pthread_mutex_lock(&stripe->lock);
	if (stripe->count > 0)
		turn_ticks(stripe, now_ns);
	while (done++ < OWNER_AT_ONCE && (session = stripe->due) != NULL)
		tend(owners, stripe, worker, session, false, now_ns);
	if (is_pressed(owners))
		press(owners, stripe, worker, now_ns);
	bool has_more = stripe->due != NULL;
	pthread_mutex_unlock(&stripe->lock);
	return has_more;
}

/* ---- all at once, which are in no tick's list for that --------------------------------------- */

/* So many sessions are looked at in one go. */
#define YIELD_AT_ONCE 256

void owners_yield(struct owners *owners)
{
	/* relaxed: where to continue; what there is is looked at with the stripes' locks */
	atomic_store_explicit(&owners->yields_from, 0, memory_order_relaxed);
}

/* Returns where to continue: a bucket of this stripe, or none. */
static size_t yield_stripe(struct owners *owners, struct owner_stripe *stripe,
	struct worker *worker, size_t bucket, unsigned *looked)
{
	pthread_mutex_lock(&stripe->lock);
	for (; bucket < stripe->bucket_count && *looked < YIELD_AT_ONCE; bucket++) {
		struct owner_session *session = stripe->buckets[bucket];
		for (; session; session = session->next, (*looked)++)
			owner_yield(owners, worker, session);
	}
	/* Those that move as it grows move to buckets that come later. */
	size_t next = bucket < stripe->bucket_count ? bucket : SIZE_MAX;
	pthread_mutex_unlock(&stripe->lock);
	return next;
}

/* Has it more than it has done? */
static bool yield_some(struct owners *owners, struct worker *worker)
{
	/* relaxed: see owners_yield */
	uint64_t from = atomic_load_explicit(&owners->yields_from, memory_order_relaxed), to;
	uint64_t stripe = from >> 32, bucket = from & UINT32_MAX;
	unsigned looked = 0;

	if (stripe >= OWNER_STRIPES)
		return false;
	while (stripe < OWNER_STRIPES && looked < YIELD_AT_ONCE) {
		size_t next = yield_stripe(
			owners, &owners->stripes[stripe], worker, (size_t)bucket, &looked);
		bucket = next == SIZE_MAX ? 0 : next;
		stripe += next == SIZE_MAX;
	}
	to = stripe << 32 | bucket;
	/* Unless it was to begin from the start meanwhile. */
	return !atomic_compare_exchange_strong_explicit(&owners->yields_from, &from, to,
		       memory_order_relaxed, memory_order_relaxed) ||
	       stripe < OWNER_STRIPES;
}

void owners_drain(struct owners *owners, bool is_replaced)
{
	/* relaxed: flags alone */
	if (is_replaced)
		atomic_store_explicit(&owners->is_replaced, true, memory_order_relaxed);
	if (!atomic_exchange_explicit(&owners->is_leaving, true, memory_order_relaxed))
		owners_yield(owners);
}

void owners_set_predecessor(struct owners *owners, bool is_there)
{
	/* relaxed: a flag alone */
	atomic_store_explicit(&owners->has_predecessor, is_there, memory_order_relaxed);
}

/* A lease that has ended is told at once. And what has begun, or begun to continue for long, since
 * uses were told last is to end, too. */
static void tell_users(struct owners *owners, struct worker *worker, uint64_t now_ns)
{
	bool has_lapsed = owners->has_lapsed;

	owners->has_lapsed = false;
	if (has_lapsed)
		node_command_workers(worker->node, WORKER_OWNERS);
	if (!owners->has_moving || now_ns < owners->told_ns + CLOCK_NS_PER_S)
		return;
	owners->has_moving = false;
	owners->told_ns = now_ns;
	if (!has_lapsed)
		node_command_workers(worker->node, WORKER_OWNERS);
}

uint64_t owners_sweep(struct owners *owners, struct worker *worker)
{
	uint64_t now_ns = clock_boot_ns();
	bool has_more = yield_some(owners, worker);

	owner_nodes_sweep(owners, worker, now_ns);
	/* relaxed: a number alone */
	if (atomic_load_explicit(&owners->count, memory_order_relaxed) == 0)
		return 0;
	for (size_t i = 0; i < OWNER_STRIPES; i++)
		has_more |= sweep_stripe(owners, &owners->stripes[i], worker, now_ns);
	tell_users(owners, worker, now_ns);
	return has_more ? 1 : OWNER_TICK_MS;
}

static void leave_bucket(
	struct owners *owners, struct worker *worker, struct owner_session *session)
{
	for (; session; session = session->next) {
		if (session->side == OWNER_SIDE_HERE && !session->is_asked)
			owner_ask(owners, worker, session, OWNER_GIVE, clock_boot_ns());
	}
}

void owners_leave(struct owners *owners, struct worker *worker)
{
	for (size_t i = 0; i < OWNER_STRIPES; i++) {
		struct owner_stripe *stripe = &owners->stripes[i];
		pthread_mutex_lock(&stripe->lock);
		for (size_t j = 0; j < stripe->bucket_count; j++)
			leave_bucket(owners, worker, stripe->buckets[j]);
		pthread_mutex_unlock(&stripe->lock);
	}
}
