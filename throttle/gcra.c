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
 */
#include "throttle/entry.h"

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
	if (cost > 0 && (plan->fits || how == HOW_FORCE))
		plan->next = HEAD_BORN | (then < HEAD_OWN ? then : HEAD_OWN);
	return ENTRY_READY;
}

/* The last charge is taken out whole. Of another one what has drained stays, by the latest time
 * that any later charge can have been made at: no more than that can be missing from what is in
 * use. */
static bool gcra_refund(
	const struct shape *s, struct entry *e, uint64_t at, uint64_t cost, uint64_t now)
{
	uint64_t back, latest, head = atomic_load_explicit(&e->head, memory_order_acquire);

	do {
		uint64_t drained = head & HEAD_OWN;

		if ((head & HEAD_SPECIAL) || head == 0)
			return false;
		back = increment_of(s, cost);
		latest = latest_of(s) + TIME_STEP_NS;
		latest = now > latest ? now : latest;
		if (drained != at) {
			if (at <= latest || drained <= latest)
				return false;
			back = back < at - latest ? back : at - latest;
		}
		back = back < drained ? back : drained;
		/* acq_rel: as every change of a head */
	} while (!atomic_compare_exchange_weak_explicit(
		&e->head, &head, head - back, memory_order_acq_rel, memory_order_acquire));
	return true;
}

static uint64_t gcra_reset(const struct shape *s, const struct plan *plan)
{
	(void)s;
	return HEAD_BORN | (plan->now & HEAD_OWN);
}

static bool gcra_is_empty(const struct shape *s, uint64_t head, uint64_t now)
{
	(void)s;
	return (head & HEAD_OWN) + TIME_SLACK_NS < now;
}

static uint64_t gcra_fresh(const struct shape *s, uint64_t used, uint64_t now, unsigned sequence)
{
	(void)sequence;
	return HEAD_BORN | (now + (used > 0 ? increment_of(s, used) : 0));
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
	image->head = HEAD_BORN | (drained < HEAD_OWN ? drained : HEAD_OWN);
}

const struct form_ops gcra_ops = {
	.plan = gcra_plan,
	.refund = gcra_refund,
	.reset = gcra_reset,
	.is_empty = gcra_is_empty,
	.fresh = gcra_fresh,
	.freeze = entry_freeze,
	.is_same = gcra_is_same,
	.remember = gcra_remember,
	.recall = gcra_recall,
};
