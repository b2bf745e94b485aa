/*
 * So many in flight: counts, one for each process that has the table open.
 *
 *   head:  shared | sequence | lane 3 | lane 2 | lane 1 | lane 0        13 bits a lane
 *
 * A limit holds over the sum of the lanes; each process adds and takes away in its own. Requests in
 * flight in a killed process have ended with its connections: the process that opens the table
 * next, or that has it open and asks, sets all lanes whose lock is free to zero (generation.c). The
 * sequence number distinguishes one caller's throttle from the next one's in the same place.
 *
 * A caller who got a throttle while the bucket's overflow was in use may have some of that in
 * flight: `shared` says that the overflow counts as well (take.c), until it is seen empty.
 */
#include "throttle/concurrency.h"

#define LANE_BITS 13
#define LANE_MAX  ((UINT64_C(1) << LANE_BITS) - 1)
_Static_assert(CONCURRENCY_LANES *LANE_BITS < HEAD_OWN_BITS - 1,
	"lanes, a sequence and `shared` are in one head");

static inline uint64_t lane_of(uint64_t head, unsigned lane)
{
	return head >> (lane * LANE_BITS) & LANE_MAX;
}

static inline uint64_t sum_of(uint64_t head)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < CONCURRENCY_LANES; i++)
		sum += lane_of(head, i);
	return sum;
}

static enum found concurrency_plan(const struct shape *s, struct entry *e, uint64_t cost,
	uint64_t now, enum how how, struct plan *plan)
{
	/* acquire: pairs with the swap that made this head */
	uint64_t head = atomic_load_explicit(&e->head, memory_order_acquire);
	uint64_t wanted = cost > 0 ? cost : 1, lane = lane_of(head, s->lane);

	plan->head = plan->next = head;
	plan->now = now;
	if ((head & HEAD_SPECIAL) || head == 0)
		return ENTRY_GONE;
	plan->used = sum_of(head);
	plan->fits = wanted <= s->quota && plan->used <= s->quota - wanted;
	/* When one of them will end is nobody's knowledge. */
	plan->more = plan->reset = plan->retry = 0;
	if (!plan->fits)
		plan->retry = wanted > s->quota ? THROTTLE_NEVER : CONCURRENCY_RETRY_NS;
	plan->at = now;
	if (cost > 0 && (plan->fits || how == HOW_FORCE) && cost <= LANE_MAX - lane)
		plan->next = head + (cost << (s->lane * LANE_BITS));
	return ENTRY_READY;
}

static bool concurrency_refund(
	const struct shape *s, struct entry *e, struct when *when, uint64_t cost, uint64_t now)
{
	uint64_t head = atomic_load_explicit(&e->head, memory_order_acquire), back;

	(void)when;
	(void)now;
	do {
		back = lane_of(head, s->lane);
		if ((head & HEAD_SPECIAL) || head == 0 || back == 0)
			return false;
		back = cost < back ? cost : back;
		/* acq_rel: as every change of a head */
	} while (!atomic_compare_exchange_weak_explicit(&e->head, &head,
		head - (back << (s->lane * LANE_BITS)), memory_order_acq_rel,
		memory_order_acquire));
	return true;
}

static bool concurrency_is_empty(const struct shape *s, uint64_t head, uint64_t now)
{
	(void)s;
	(void)now;
	return sum_of(head) == 0;
}

/* What is in flight under another throttle doesn't end under this one. */
static void concurrency_make(const struct shape *s, struct entry *e, const struct birth *birth)
{
	(void)s;
	birth_end(e, birth,
		HEAD_BORN | (birth->used > 0 ? CONCURRENCY_SHARED : 0) |
			(uint64_t)birth->sequence << (CONCURRENCY_LANES * LANE_BITS));
}

void concurrency_share(const struct shape *s, struct plan *plan, uint64_t cost, uint64_t shared)
{
	uint64_t wanted = cost > 0 ? cost : 1;

	if (shared == 0) {
		plan->next &= ~CONCURRENCY_SHARED;
		return;
	}
	plan->used += shared;
	if (!plan->fits || (wanted <= s->quota && plan->used <= s->quota - wanted))
		return;
	plan->fits = false;
	plan->next = plan->head;
	plan->retry = CONCURRENCY_RETRY_NS;
}

/* Never copied: what another process has in flight is no longer counted, since that can't give it
 * back here. */
static bool concurrency_is_same(const struct shape *s, const struct shape *old)
{
	(void)s;
	(void)old;
	return false;
}

static bool concurrency_remember(
	const struct shape *s, const struct entry *e, uint64_t now, struct history *history)
{
	struct entry *entry = (struct entry *)(uintptr_t)e; /* only read */
	uint64_t head = atomic_load_explicit(&entry->head, memory_order_acquire);

	history->newest = now;
	history->events[history->count++] = (struct event){now, lane_of(head, s->lane)};
	return history->events[0].units > 0;
}

static void concurrency_recall(
	const struct shape *s, const struct history *history, uint64_t now, struct image *image)
{
	uint64_t units = 0;

	(void)now;
	for (unsigned i = 0; i < history->count; i++)
		units += history->events[i].units;
	units = units < LANE_MAX ? units : LANE_MAX;
	image->head = HEAD_BORN | CONCURRENCY_SHARED | units << (s->lane * LANE_BITS);
}

void concurrency_clear_lanes(struct entry *e, unsigned lanes)
{
	/* acquire: pairs with the swap that made this head */
	uint64_t head = atomic_load_explicit(&e->head, memory_order_acquire), mask = 0;

	for (unsigned lane = 0; lane < CONCURRENCY_LANES; lane++)
		if ((lanes >> lane & 1) != 0)
			mask |= LANE_MAX << (lane * LANE_BITS);
	while (!head_is_tombstone(head) && (head & mask)) {
		/* acq_rel: as every change of a head, which other processes and threads change, too
		 */
		if (atomic_compare_exchange_weak_explicit(&e->head, &head, head & ~mask,
			    memory_order_acq_rel, memory_order_acquire))
			break;
	}
}

const struct form_ops concurrency_ops = {
	.plan = concurrency_plan,
	.refund = concurrency_refund,
	.is_empty = concurrency_is_empty,
	.make = concurrency_make,
	.freeze = entry_freeze,
	.is_same = concurrency_is_same,
	.remember = concurrency_remember,
	.recall = concurrency_recall,
};
