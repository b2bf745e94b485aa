#include "exchange/owner_sweep.h"

#include "base/clock.h"
#include "exchange/owner_ask.h"
#include "exchange/owner_table.h"

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* With the lock: asks what is due of it. When is it to be looked at again? 0: it is forgotten. */
static uint64_t look_after(struct owners *owners, struct worker *worker,
	struct owner_session *session, bool draining, uint64_t now_ns)
{
	uint64_t idle_ends_ns = session->users > 0 || session->first ? UINT64_MAX
				: draining                           ? now_ns
					   : session->used_ns + session->idle_ns;

	if (session->is_asked || session->first)
		return now_ns + CLOCK_NS_PER_S / 10;
	switch (session->side) {
	case OWNER_SIDE_NOBODY:
		return session->users > 0 ? now_ns + CLOCK_NS_PER_S : 0;
	case OWNER_SIDE_HERE:
		if (now_ns >= idle_ends_ns)
			owner_ask(owners, worker, session, OWNER_GIVE, now_ns);
		else if (now_ns >= session->renew_ns)
			owner_ask(owners, worker, session, OWNER_RENEW, now_ns);
		if (session->is_asked)
			return now_ns + CLOCK_NS_PER_S / 10;
		/* Without a store it is forgotten when the lease has ended, but for one that the
		 * store may be about to take from us. */
		if (session->is_giving)
			return now_ns + CLOCK_NS_PER_S;
		if (now_ns >= idle_ends_ns && now_ns >= session->ends_ns)
			return 0;
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
	struct owner_session *session, bool draining, uint64_t now_ns)
{
	owner_session_unschedule(session);
	uint64_t next_ns = look_after(owners, worker, session, draining, now_ns);

	if (next_ns == 0)
		owner_session_forget(owners, stripe, session);
	else
		owner_session_schedule(stripe, session, next_ns);
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
static bool sweep_stripe(struct owners *owners, struct owner_stripe *stripe, struct worker *worker,
	bool draining, uint64_t now_ns)
{
	struct owner_session *session;
	unsigned done = 0;

	pthread_mutex_lock(&stripe->lock);
	if (stripe->count > 0)
		turn_ticks(stripe, now_ns);
	while (done++ < OWNER_AT_ONCE && (session = stripe->due) != NULL)
		tend(owners, stripe, worker, session, draining, now_ns);
	if (is_pressed(owners))
		press(owners, stripe, worker, now_ns);
	bool has_more = stripe->due != NULL;
	pthread_mutex_unlock(&stripe->lock);
	return has_more;
}

uint64_t owners_sweep(struct owners *owners, struct worker *worker, bool draining)
{
	uint64_t now_ns = clock_boot_ns();
	bool has_more = false;

	/* relaxed: a number alone */
	if (atomic_load_explicit(&owners->count, memory_order_relaxed) == 0)
		return 0;
	for (size_t i = 0; i < OWNER_STRIPES; i++)
		has_more |= sweep_stripe(owners, &owners->stripes[i], worker, draining, now_ns);
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
