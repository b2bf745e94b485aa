/*
 * Quotas by the calendar: so much per hour, day, week or month of a time zone.
 *
 *   head:  minute at which the period began (26 bits) | used in it (35 bits)
 *
 * The first charge of a new period begins a new count. Which period a time is in is asked of the
 * zone (zone.h), once a period: the answer is kept beside the limit, begin and length in one word.
 * A `now` from before the head's period is judged in that.
 */
#include "throttle/entry.h"
#include "throttle/zone.h"

#define USED_BITS   35
#define USED_MAX    ((UINT64_C(1) << USED_BITS) - 1)
#define MINUTE_NS   UINT64_C(60000000000)
#define MINUTE_MASK ((UINT64_C(1) << 26) - 1)

/* What the wall's clock shows at `now`, in ns since 1970. */
static inline uint64_t wall_of(const struct shape *s, uint64_t now)
{
	/* relaxed: a number by itself; a charge at the moment of a step may be judged before it */
	return now + s->epoch_ns +
	       (uint64_t)atomic_load_explicit(s->wall_shift_ns, memory_order_relaxed);
}

/* Begin and end of the period of `now`, in minutes since 1970. */
static void period_of(const struct shape *s, uint64_t now, uint64_t *begin, uint64_t *end)
{
	uint64_t minute = wall_of(s, now) / MINUTE_NS;
	/* relaxed: the word says all, and it is right or wrong by itself */
	uint64_t cached = atomic_load_explicit(s->period_cache, memory_order_relaxed);
	int64_t first, next;

	*begin = cached >> 32;
	*end = *begin + (uint32_t)cached;
	if (minute >= *begin && minute < *end)
		return;
	zone_period(s->zone, s->period, (int64_t)(minute * 60), &first, &next);
	*begin = first > 0 ? (uint64_t)first / 60 : 0;
	*end = (uint64_t)next / 60;
	atomic_store_explicit(
		s->period_cache, *begin << 32 | (*end - *begin), memory_order_relaxed);
}

static inline uint64_t pack(uint64_t begin, uint64_t used)
{
	return HEAD_BORN | (begin & MINUTE_MASK) << USED_BITS | (used < USED_MAX ? used : USED_MAX);
}

/* The count in the period of `now`, or of the head if that is the next one: clocks differ. One
 * further on is of a clock that was wrong, and what it counts is of now. */
static uint64_t used_at(
	const struct shape *s, uint64_t head, uint64_t now, uint64_t *begin, uint64_t *end)
{
	uint64_t own = (head & HEAD_OWN) >> USED_BITS;

	period_of(s, now, begin, end);
	if (own < *begin)
		return 0;
	if (own == *end) {
		int64_t first, next;

		zone_period(s->zone, s->period, (int64_t)own * 60, &first, &next);
		*begin = own;
		*end = (uint64_t)next / 60;
	}
	return head & USED_MAX;
}

static enum found calendar_plan(const struct shape *s, struct entry *e, uint64_t cost, uint64_t now,
	enum how how, struct plan *plan)
{
	/* acquire: pairs with the swap that made this head */
	uint64_t head = atomic_load_explicit(&e->head, memory_order_acquire);
	uint64_t wanted = cost > 0 ? cost : 1, begin, end, wait;

	plan->head = plan->next = head;
	plan->now = now;
	if ((head & HEAD_SPECIAL) || head == 0)
		return ENTRY_GONE;
	plan->used = used_at(s, head, now, &begin, &end);
	wait = end * MINUTE_NS - wall_of(s, now);
	plan->fits = wanted <= s->quota && plan->used <= s->quota - wanted;
	plan->more = plan->reset = plan->used > 0 || (cost > 0 && plan->fits) ? wait : 0;
	plan->retry = plan->fits ? 0 : wanted > s->quota ? THROTTLE_NEVER : wait;
	plan->at = now;
	if (cost > 0 && (plan->fits || how == HOW_FORCE))
		plan->next = pack(begin, plan->used + (cost < USED_MAX ? cost : USED_MAX));
	return ENTRY_READY;
}

static bool calendar_refund(
	const struct shape *s, struct entry *e, struct when *when, uint64_t cost, uint64_t now)
{
	uint64_t head = atomic_load_explicit(&e->head, memory_order_acquire), begin, end, used;

	(void)now;
	do {
		if ((head & HEAD_SPECIAL) || head == 0)
			return false;
		period_of(s, when->at, &begin, &end);
		used = head & USED_MAX;
		if ((head & HEAD_OWN) >> USED_BITS != begin || used < cost)
			return false;
		/* acq_rel: as every change of a head */
	} while (!atomic_compare_exchange_weak_explicit(&e->head, &head, pack(begin, used - cost),
		memory_order_acq_rel, memory_order_acquire));
	return true;
}

static bool calendar_is_empty(const struct shape *s, uint64_t head, uint64_t now)
{
	uint64_t begin, end;

	if (now < TIME_SLACK_NS)
		return false;
	period_of(s, now - TIME_SLACK_NS, &begin, &end);
	return (head & HEAD_OWN) >> USED_BITS < begin;
}

static void calendar_make(const struct shape *s, struct entry *e, const struct birth *birth)
{
	uint64_t begin, end;

	period_of(s, birth->now, &begin, &end);
	birth_end(e, birth, pack(begin, birth->used));
}

static uint64_t calendar_reset(const struct shape *s, struct entry *e, const struct plan *plan)
{
	(void)e;
	(void)s;
	return plan->head & ~USED_MAX;
}

static bool calendar_is_same(const struct shape *s, const struct shape *old)
{
	return s->period == old->period && s->scale == old->scale &&
	       zone_is_same(s->zone, old->zone);
}

static bool calendar_remember(
	const struct shape *s, const struct entry *e, uint64_t now, struct history *history)
{
	struct entry *entry = (struct entry *)(uintptr_t)e; /* only read */
	uint64_t head = atomic_load_explicit(&entry->head, memory_order_acquire), begin, end;

	/* Also of nothing used: no charge is to be recorded in an earlier period any more. */
	history->newest = now;
	history->events[history->count++] =
		(struct event){now, used_at(s, head & HEAD_OWN, now, &begin, &end)};
	return true;
}

static void calendar_recall(
	const struct shape *s, const struct history *history, uint64_t now, struct image *image)
{
	uint64_t begin, end, used = 0;

	period_of(s, now, &begin, &end);
	for (unsigned i = 0; i < history->count; i++)
		if (wall_of(s, history->events[i].at) / MINUTE_NS >= begin)
			used += history->events[i].units;
	image->head = pack(begin, used < s->quota ? used : s->quota);
}

const struct form_ops calendar_ops = {
	.plan = calendar_plan,
	.refund = calendar_refund,
	.reset = calendar_reset,
	.is_empty = calendar_is_empty,
	.make = calendar_make,
	.freeze = entry_freeze,
	.is_same = calendar_is_same,
	.remember = calendar_remember,
	.recall = calendar_recall,
};
