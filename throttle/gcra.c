/*
 * Smooth pacing: the generic cell rate algorithm (ITU-T I.371, the virtual scheduling form). All of
 * the state is one time in the head, at which everything charged so far will have drained:
 *
 *   now                     drained at        + burst
 *    |---- what is in use -----|-----------------|
 *                               a charge of n moves it on by n * W / L
 *
 * A charge is admitted when that stays within burst * W / L of now. In any time t no more than
 * burst + t * L / W is admitted. W / L is rounded up to a nanosecond; where that would be more than
 * a thousandth, what a charge comes to is.
 *
 * A charge can be given back as far as it hasn't drained, the last one whole. Where it is in what
 * is in use follows from its time, less what was given back of those before it: the sum of all that
 * was, but for last ones, is in the entry's two slots. A refund adds to it before it swaps the
 * head, each time that it tries, and a charge notes it before it swaps the head: so what a charge
 * has noted is of no refund that comes after it.
 */
#include "throttle/entry.h"

static inline _Atomic(uint64_t) *given_of(struct entry *e)
{
	return (_Atomic(uint64_t) *)(void *)((unsigned char *)e + sizeof(struct entry));
}

static inline uint64_t pack(uint64_t drained)
{
	return HEAD_BORN | (drained < HEAD_OWN ? drained : HEAD_OWN);
}

static inline uint64_t increment_of(const struct shape *s, uint64_t cost)
{
	if (cost == 1)
		return s->increment;
	if (s->by_increments)
		return cost < HEAD_OWN / s->increment ? cost * s->increment : HEAD_OWN;
	if (cost > s->quota && cost / s->quota > HEAD_OWN / s->window)
		return HEAD_OWN;
	return (uint64_t)(((unsigned __int128)cost * s->window + s->quota - 1) / s->quota);
}

static inline uint64_t units_of(const struct shape *s, uint64_t ns)
{
	if (s->by_increments)
		return ns / s->increment + (ns % s->increment != 0);
	return (uint64_t)(((unsigned __int128)ns * s->quota + s->window - 1) / s->window);
}

static enum found gcra_plan(const struct shape *s, struct entry *e, uint64_t cost, uint64_t now,
	enum how how, struct plan *plan)
{
	/* relaxed: a refund that comes after this charge adds to it after that has swapped */
	uint64_t given = atomic_load_explicit(given_of(e), memory_order_relaxed);
	/* acquire: pairs with the swap that made this head */
	uint64_t head = atomic_load_explicit(&e->head, memory_order_acquire);
	uint64_t drained = head & HEAD_OWN, room = s->burst, then;

	plan->head = plan->next = head;
	plan->now = now = time_after_head(s, now);
	if ((head & HEAD_SPECIAL) || head == 0)
		return ENTRY_GONE;
	if (drained < now)
		drained = now;
	then = drained + increment_of(s, cost > 0 ? cost : 1);
	plan->fits = then - now <= room;
	plan->used = units_of(s, drained - now);
	plan->reset = (cost > 0 && plan->fits ? then : drained) - now;
	plan->more = plan->reset == 0 ? 0 : (plan->reset - 1) % s->increment + 1;
	plan->retry = 0;
	if (!plan->fits)
		plan->retry = then - drained > room ? THROTTLE_NEVER : then - now - room;
	plan->at = then;
	plan->given = given;
	if (cost > 0 && (plan->fits || how == HOW_FORCE))
		plan->next = pack(then);
	return ENTRY_READY;
}

/* How much of a charge hasn't drained by the latest time that any later charge can have been made
 * at: no more than that can be missing from what is in use. */
static uint64_t left_of(
	const struct shape *s, uint64_t drained, uint64_t at, uint64_t all, uint64_t now)
{
	uint64_t latest = latest_of(s) + TIME_STEP_NS;

	latest = now > latest ? now : latest;
	return drained <= latest || at <= latest ? 0 : least(at - latest, all);
}

static bool gcra_refund(
	const struct shape *s, struct entry *e, struct when *when, uint64_t cost, uint64_t now)
{
	const uint64_t all = increment_of(s, cost);
	uint64_t own = 0, head = atomic_load_explicit(&e->head, memory_order_acquire);

	for (;;) {
		/* relaxed: after the head, which releases what was added to it before */
		uint64_t given =
			atomic_load_explicit(given_of(e), memory_order_relaxed) - when->given - own;
		uint64_t drained = head & HEAD_OWN, back = all;

		if ((head & HEAD_SPECIAL) || head == 0)
			return false;
		/* The last charge is taken out whole, and no other one is where it isn't said. */
		if (drained != when->at || given > 0) {
			back = left_of(s, drained, when->at - least(given, when->at), all, now);
			if (back == 0)
				return false;
			/* relaxed: released by the swap of the head */
			atomic_fetch_add_explicit(given_of(e), back, memory_order_relaxed);
			own += back;
		}
		/* acq_rel: as every change of a head */
		if (atomic_compare_exchange_strong_explicit(&e->head, &head,
			    pack(drained - least(back, drained)), memory_order_acq_rel,
			    memory_order_acquire))
			break;
	}
	/* What was charged last was given back first. */
	when->at -= least(when->at, all);
	when->given += own;
	return true;
}

/* As if all that is in use was given back. */
static uint64_t gcra_reset(const struct shape *s, struct entry *e, const struct plan *plan)
{
	const uint64_t drained = plan->head & HEAD_OWN;

	(void)s;
	if (drained > plan->now)
		/* relaxed: as in gcra_refund */
		atomic_fetch_add_explicit(given_of(e), drained - plan->now, memory_order_relaxed);
	return pack(plan->now);
}

static bool gcra_is_empty(const struct shape *s, uint64_t head, uint64_t now)
{
	(void)s;
	return (head & HEAD_OWN) + TIME_SLACK_NS < now;
}

/* The sum of what was given back goes on from the last caller's: only what is added to it counts.
 */
static void gcra_make(const struct shape *s, struct entry *e, const struct birth *birth)
{
	birth_end(
		e, birth, pack(birth->now + (birth->used > 0 ? increment_of(s, birth->used) : 0)));
}

static bool gcra_is_same(const struct shape *s, const struct shape *old)
{
	return s->quota == old->quota && s->window == old->window && s->scale == old->scale;
}

static bool gcra_remember(
	const struct shape *s, const struct entry *e, uint64_t now, struct history *history)
{
	struct entry *entry = (struct entry *)(uintptr_t)e; /* only read */
	uint64_t drained = atomic_load_explicit(&entry->head, memory_order_acquire) & HEAD_OWN;

	/* A thread whose clock is behind may still find it not drained. */
	history->newest = drained < now ? drained : now;
	if (drained > now)
		history->events[history->count++] = (struct event){now, units_of(s, drained - now)};
	return true;
}

static void gcra_recall(
	const struct shape *s, const struct history *history, uint64_t now, struct image *image)
{
	uint64_t drained = history->newest, most = now + s->burst;

	for (unsigned i = 0; i < history->count; i++) {
		uint64_t at = history->events[i].at;

		if (i == 0 || drained < at)
			drained = at;
		drained += increment_of(s, history->events[i].units);
		drained = drained < most ? drained : most;
	}
	image->head = pack(drained);
}

const struct form_ops gcra_ops = {
	.plan = gcra_plan,
	.refund = gcra_refund,
	.reset = gcra_reset,
	.is_empty = gcra_is_empty,
	.make = gcra_make,
	.freeze = entry_freeze,
	.is_same = gcra_is_same,
	.remember = gcra_remember,
	.recall = gcra_recall,
};
