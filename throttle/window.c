/*
 * The quantised ring: for limits larger than the slots. Each slot holds what was admitted in one
 * quantum of time, so that a caller's memory doesn't grow with its limit.
 *
 *      quantum   T-4    T-3    T-2    T-1     T (now)
 *              +------+------+------+------+
 *   slots      | 3:12 | 3:0  | 3:40 | 3:7  |   head: closing, used = 12+0+40+7 + T's, T
 *              +------+------+------+------+
 *                ^ lap:count                 ^ what T's own count is, only the sum tells
 *
 * A quantum counts in full until it has left the window wholly: the error is on the safe side and
 * at most a quantum, W / (slots - 1). A charge in quantum T is one swap of the head: used + n, if
 * that is at most L.
 *
 * The first charge of a later quantum closes T, in two swaps. The first sets WINDOW_CLOSING, so
 * that T's count stands: used less what the live slots hold. Then its slot is written, then the
 * second swap opens the new quantum with the sum of what is still live. Any thread can do any of
 * it; the thread that finds WINDOW_CLOSING set finishes it.
 *
 * A slot is tagged with its lap, so that what it holds of long ago isn't mistaken: laps count to
 * 255, and every 64 of them all dead slots are wiped. Counts in slots are in grains (of 1 up to a
 * limit of 4 million); what is left over counts as of the next quantum.
 *
 * The head has the quantum's lower bits. Where they come round within the time that a table can
 * have (a large limit leaves few, many slots make quanta short), a stamp before the slots says in
 * which quarter of that the last charge was, so that one of long ago is not taken for one of now.
 */
#include "throttle/window.h"

#include <string.h>

#define WIPE_LAPS 64
/* So many times the limit can be counted; used_bits (limit.c) have room for it. */
#define WINDOW_DEBT_MAX 4

struct view {
	uint64_t quantum; /* in full, not only the bits that the head has */
	uint64_t used;
	uint64_t now; /* the quantum to be judged in: never before the head's */
};

/* `used` stays within its bits whatever it was summed up from. */
static inline uint64_t pack(const struct shape *s, uint64_t quantum, uint64_t used)
{
	return HEAD_BORN | least(used, WINDOW_DEBT_MAX * s->quota) << window_used_at(s) |
	       (quantum & s->bucket_mask);
}

static inline struct view unpack(const struct shape *s, uint64_t head, uint64_t now)
{
	struct view v;
	uint64_t d;

	v.now = quantum_of(s, now);
	d = (v.now - head) & s->bucket_mask;
	if (d > s->bucket_mask - s->lag_buckets) {
		v.now += s->bucket_mask + 1 - d;
		d = 0;
	}
	/* Not before the table's time, whatever a damaged file says. */
	v.quantum = v.now > d ? v.now - d : 0;
	v.used = window_used(s, head);
	return v;
}

static inline struct where next_where(const struct shape *s, struct where w)
{
	if (++w.index == s->slots) {
		w.index = 0;
		w.tag = w.tag == 255 ? 1 : w.tag + 1;
	}
	return w;
}

static inline _Atomic(uint32_t) *slot_at(const struct shape *s, struct entry *e, uint32_t i)
{
	return &e->slot[s->first_slot + i];
}

/* In quarters of the time after which a head's quantum comes round. */
static inline uint32_t stamp_for(const struct shape *s, uint64_t quantum)
{
	return (uint32_t)(quantum >> s->stamp_shift) + 1;
}

/* Stamped windows, before a charge: a quarter at most behind what the head is to say. */
static void touch_stamp(const struct shape *s, struct entry *e, uint64_t quantum)
{
	uint32_t old = atomic_load_explicit(&e->slot[0], memory_order_relaxed);
	uint32_t stamp = stamp_for(s, quantum);

	while (old < stamp)
		/* release: pairs with is_stale, by the swap of a head that follows */
		if (atomic_compare_exchange_weak_explicit(
			    &e->slot[0], &old, stamp, memory_order_release, memory_order_relaxed))
			break;
}

/* Is the head, which was loaded (acquire) before, of a quantum that came round? Who made it had
 * touched the stamp first. */
static bool is_stale(const struct shape *s, struct entry *e, const struct view *v)
{
	/* acquire: pairs with touch_stamp */
	uint32_t stamp = atomic_load_explicit(&e->slot[0], memory_order_acquire);

	return stamp != 0 && stamp_for(s, v->quantum) > stamp + 1;
}

/* What the slot holds of that quantum. */
static inline uint64_t count_at(const struct shape *s, struct entry *e, struct where w)
{
	/* acquire: pairs with the release of swap_slot, for the look at the head that follows */
	uint32_t slot = atomic_load_explicit(slot_at(s, e, w.index), memory_order_acquire);

	return slot >> WINDOW_COUNT_BITS == w.tag ? (slot & WINDOW_COUNT_MAX) * s->grain : 0;
}

/* The sum of quanta first..last, both included; first may be beyond last. */
static uint64_t sum_of(const struct shape *s, struct entry *e, int64_t first, int64_t last)
{
	int64_t q = first < 0 ? 0 : first;
	struct where w;
	uint64_t sum = 0;

	if (q > last)
		return 0;
	w = where_of(s, (uint64_t)q);
	for (; q <= last; q++, w = next_where(s, w))
		sum += count_at(s, e, w);
	return sum;
}

static inline int64_t earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static inline bool swap_head(struct entry *e, uint64_t head, uint64_t next)
{
	/* acq_rel: releases the slots written before it to who loads this head */
	return atomic_compare_exchange_strong_explicit(
		&e->head, &head, next, memory_order_acq_rel, memory_order_relaxed);
}

static inline bool swap_slot(_Atomic(uint32_t) *slot, uint32_t old, uint32_t value)
{
	/* release: pairs with count_of */
	return atomic_compare_exchange_strong_explicit(
		slot, &old, value, memory_order_release, memory_order_relaxed);
}

/* Every 64 laps: nothing older than the last lap stays, lest its tag comes round again. */
SELDOM static void wipe(const struct shape *s, struct entry *e, const struct view *v, uint64_t head)
{
	for (uint64_t q = v->quantum + 1; q <= v->quantum + s->slots; q++) {
		struct where w = where_of(s, q >= s->slots ? q - s->slots : q);
		_Atomic(uint32_t) *slot = slot_at(s, e, w.index);
		uint32_t old = atomic_load_explicit(slot, memory_order_acquire);
		bool live = q >= s->slots && old >> WINDOW_COUNT_BITS == w.tag;

		/* Those of quanta quantum+1-slots .. quantum stay: one lap back from each q. */
		if (old == 0 || live)
			continue;
		if (!head_still(e, head))
			return;
		swap_slot(slot, old, 0);
	}
}

static bool is_wipe_due(const struct shape *s, const struct view *v)
{
	uint64_t span = (uint64_t)s->slots * WIPE_LAPS;

	return v->quantum != v->now && v->quantum / span != v->now / span;
}

/* The state after a long rest: all slots are to be wiped, then the head's quantum opens. */
static inline uint64_t pack_wiping(const struct shape *s, uint64_t quantum)
{
	return pack(s, quantum, 0) | bits_mask(s->used_bits) << window_used_at(s) | WINDOW_CLOSING;
}

static inline bool is_wiping(const struct shape *s, const struct view *v)
{
	return v->used == bits_mask(s->used_bits);
}

/* What is in a slot of the last lap keeps its tag, so that who is late with closing that quantum
 * finds that done. */
SELDOM static void wipe_all(const struct shape *s, struct entry *e, uint64_t head, uint64_t quantum)
{
	for (uint64_t back = 0; back < s->slots; back++) {
		struct where w = where_of(s, quantum >= back ? quantum - back : 0);
		_Atomic(uint32_t) *slot = slot_at(s, e, w.index);
		uint32_t old = atomic_load_explicit(slot, memory_order_acquire);
		bool is_closed = back > 0 && old >> WINDOW_COUNT_BITS == w.tag;
		uint32_t wiped = is_closed ? old & ~WINDOW_COUNT_MAX : 0;

		if (!head_still(e, head))
			return;
		if (old != wiped)
			swap_slot(slot, old, wiped);
	}
	swap_head(e, head, pack(s, quantum, 0));
}

/* Finishes what the head says is closing, and opens quantum `now` or, if that hasn't come for this
 * thread, the one after. */
SELDOM static void close_quantum(
	const struct shape *s, struct entry *e, uint64_t head, uint64_t now)
{
	struct view v = unpack(s, head, now);
	int64_t span = (int64_t)s->slots - 1, quantum = (int64_t)v.quantum, opened;
	struct where w = where_of(s, v.quantum);
	_Atomic(uint32_t) *slot = slot_at(s, e, w.index);
	uint32_t old = atomic_load_explicit(slot, memory_order_acquire), tag = w.tag;
	uint64_t closed, live, count;

	opened = (int64_t)(v.now == v.quantum ? v.now + 1 : v.now);
	live = sum_of(s, e, opened - span, quantum - 1);
	closed = live + sum_of(s, e, quantum - span, earlier(opened - span, quantum) - 1);
	if (!head_still(e, head))
		return;
	if (is_wiping(s, &v)) {
		wipe_all(s, e, head, v.quantum);
		return;
	}
	v.now = (uint64_t)opened;
	if (old >> WINDOW_COUNT_BITS != tag) {
		count = v.used > closed ? (v.used - closed) / s->grain : 0;
		/* Where another thread was faster it has written the same, or is a late one that
		 * has wiped what was there: come again. */
		if (!swap_slot(slot, old,
			    tag << WINDOW_COUNT_BITS |
				    (uint32_t)(count < WINDOW_COUNT_MAX ? count
									: WINDOW_COUNT_MAX)))
			return;
	}
	if (is_wipe_due(s, &v)) {
		if (v.now >= v.quantum + s->slots) {
			swap_head(e, head, pack_wiping(s, v.now));
			return;
		}
		wipe(s, e, &v, head);
	}
	if (opened - span <= quantum) {
		live += count_at(s, e, w);
		/* What makes no grain counts on, as of the next quantum. */
		live += v.used > closed ? (v.used - closed) % s->grain : 0;
	}
	swap_head(e, head, pack(s, v.now, live));
}

/* ns from `now` until `quantum` has left the window. */
static inline uint64_t leaves_in(const struct shape *s, uint64_t quantum, uint64_t now)
{
	uint64_t then = (quantum + s->slots) * s->quantum;

	return then > now ? then - now : 0;
}

/* Walks from the oldest quantum on: when is anything free again, when does `wanted` fit? */
static void tell(const struct shape *s, struct entry *e, const struct view *v, uint64_t live,
	uint64_t wanted, uint64_t now, struct plan *plan)
{
	int64_t span = (int64_t)s->slots - 1, q = (int64_t)v->now - span;
	uint64_t left = live;
	struct where w;

	plan->used = live;
	plan->more = plan->reset = plan->retry = 0;
	if (wanted > s->quota)
		plan->retry = THROTTLE_NEVER;
	if (live == 0)
		return;
	plan->reset = leaves_in(s, v->quantum, now);
	q = q < 0 ? 0 : q;
	w = where_of(s, (uint64_t)q);
	for (; q < (int64_t)v->quantum; q++, w = next_where(s, w)) {
		uint64_t count = count_at(s, e, w);

		if (count == 0)
			continue;
		if (plan->more == 0)
			plan->more = leaves_in(s, (uint64_t)q, now);
		left -= count < left ? count : left;
		if (plan->fits)
			return;
		if (plan->retry == 0 && left + wanted <= s->quota) {
			plan->retry = leaves_in(s, (uint64_t)q, now);
			return;
		}
	}
	if (plan->more == 0)
		plan->more = plan->reset;
	if (!plan->fits && plan->retry == 0)
		plan->retry = plan->reset;
}

/* What is in the window in quantum v->now. */
static uint64_t live_at(const struct shape *s, struct entry *e, const struct view *v)
{
	int64_t span = (int64_t)s->slots - 1;
	uint64_t dead = 0;

	if (v->now > v->quantum + (uint64_t)span)
		return 0;
	if (v->now > v->quantum)
		dead = sum_of(s, e, (int64_t)v->quantum - span, (int64_t)v->now - span - 1);
	return v->used - (dead < v->used ? dead : v->used);
}

/* Judges without writing. False when the head has moved on meanwhile. */
static bool judge(const struct shape *s, struct entry *e, uint64_t head, const struct view *v,
	uint64_t live, uint64_t cost, uint64_t now, struct plan *plan)
{
	plan->head = plan->next = head;
	plan->now = now;
	plan->at = v->now * s->quantum;
	tell(s, e, v, live, cost > 0 ? cost : 1, now, plan);
	if (cost > 0 && plan->fits) { /* with this charge, the newest, taken */
		plan->reset = leaves_in(s, v->now, now);
		if (live == 0)
			plan->more = plan->reset;
	}
	return head_still(e, head);
}

/*
 * Stamped windows: a head that is stale, or soon could be, is put back to empty before the stamp is
 * touched: so where the stamp is of now, the head is too. Later heads are of a later quantum than
 * this one seems to be of: so the swap fails if there has been one. True: start again.
 */
static bool keep_stamp(
	const struct shape *s, struct entry *e, uint64_t head, const struct view *v, enum how how)
{
	uint64_t quantum = v->now > s->lag_buckets ? v->now - s->lag_buckets : 0;
	bool is_behind, is_over;

	if (s->first_slot == 0)
		return false;
	/* relaxed: a charge that this one's head is of is seen by is_stale */
	is_behind = atomic_load_explicit(&e->slot[0], memory_order_relaxed) < stamp_for(s, v->now);
	is_over = v->now >= v->quantum + s->slots + s->lag_buckets;
	if (is_stale(s, e, v) || (is_behind && is_over && how != HOW_LOOK)) {
		quantum = quantum > v->quantum ? quantum : v->quantum + 1;
		if (swap_head(e, head, pack_wiping(s, quantum)))
			touch_stamp(s, e, v->now);
		return true;
	}
	if (is_behind && how != HOW_LOOK)
		touch_stamp(s, e, v->now);
	return false;
}

static enum found window_plan(const struct shape *s, struct entry *e, uint64_t cost, uint64_t now,
	enum how how, struct plan *plan)
{
	for (;;) {
		/* acquire: pairs with swap_head, and the swap of a verdict */
		uint64_t head = atomic_load_explicit(&e->head, memory_order_acquire), live, used;
		uint64_t wanted = cost > 0 ? cost : 1;
		bool is_charge;
		struct view v;

		plan->head = head;
		if ((head & HEAD_SPECIAL) || head == 0)
			return ENTRY_GONE;
		now = time_after_head(s, now);
		v = unpack(s, head, now);
		if (head & WINDOW_CLOSING) {
			close_quantum(s, e, head, now);
			continue;
		}
		if (keep_stamp(s, e, head, &v, how))
			continue;
		live = live_at(s, e, &v);
		plan->fits = wanted <= s->quota && live <= s->quota - wanted;
		is_charge = cost > 0 && (how == HOW_FORCE || (how == HOW_TAKE && plan->fits));
		if (is_charge && v.now > v.quantum &&
			(v.now < v.quantum + s->slots || is_wipe_due(s, &v))) {
			if (swap_head(e, head, head | WINDOW_CLOSING))
				close_quantum(s, e, head | WINDOW_CLOSING, now);
			continue;
		}
		if (!judge(s, e, head, &v, live, cost, now, plan))
			continue;
		if (!is_charge)
			return ENTRY_READY;
		used = plan->used + cost;
		plan->next = pack(s, v.now, used);
		return ENTRY_READY;
	}
}

/* A refund from a closed quantum: its slot first. Then the head's sum, unless a close came between,
 * which has added up the slots again; that it may have done so before is on the safe side. */
static bool refund_closed(const struct shape *s, struct entry *e, uint64_t head,
	const struct view *v, uint64_t quantum, uint64_t cost)
{
	struct where w = where_of(s, quantum);
	_Atomic(uint32_t) *slot = slot_at(s, e, w.index);
	uint32_t grains = (uint32_t)(cost / s->grain);
	uint32_t old = atomic_load_explicit(slot, memory_order_acquire);
	uint64_t left = (uint64_t)grains * s->grain;

	do {
		if (old >> WINDOW_COUNT_BITS != w.tag || (old & WINDOW_COUNT_MAX) < grains)
			return false;
		/* release: pairs with count_of */
	} while (!atomic_compare_exchange_weak_explicit(
		slot, &old, old - grains, memory_order_release, memory_order_acquire));
	for (;;) {
		struct view n;

		head = atomic_load_explicit(&e->head, memory_order_acquire);
		if ((head & (HEAD_SPECIAL | WINDOW_CLOSING)) || head == 0)
			return true;
		n = unpack(s, head, time_after_head(s, v->now * s->quantum));
		if (n.quantum != v->quantum || n.used < left ||
			swap_head(e, head, pack(s, n.quantum, n.used - left)))
			return true;
	}
}

static bool window_refund(
	const struct shape *s, struct entry *e, struct when *when, uint64_t cost, uint64_t now)
{
	uint64_t quantum = quantum_of(s, when->at);

	for (;;) {
		/* acquire: as in window_plan */
		uint64_t head = atomic_load_explicit(&e->head, memory_order_acquire);
		struct view v;

		if ((head & HEAD_SPECIAL) || head == 0)
			return false;
		now = time_after_head(s, now);
		v = unpack(s, head, now);
		if (head & WINDOW_CLOSING) {
			close_quantum(s, e, head, now);
			continue;
		}
		if (v.now >= quantum + s->slots || quantum > v.quantum)
			return false;
		if (quantum < v.quantum)
			return refund_closed(s, e, head, &v, quantum, cost);
		if (v.used < cost)
			return false;
		if (swap_head(e, head, pack(s, v.quantum, v.used - cost)))
			return true;
	}
}

/* The next thread that looks at it wipes it. */
static uint64_t window_reset(const struct shape *s, struct entry *e, const struct plan *plan)
{
	(void)e;
	return pack_wiping(s, quantum_of(s, plan->at));
}

static bool window_is_empty(const struct shape *s, uint64_t head, uint64_t now)
{
	struct view v = unpack(s, head, time_after_head(s, now));

	return !(head & WINDOW_CLOSING) && v.now >= v.quantum + s->slots + s->lag_buckets;
}

/* What the last caller left in the slots is not to be taken for the next one's. */
static void window_make(const struct shape *s, struct entry *e, const struct birth *birth)
{
	uint64_t quantum = quantum_of(s, birth->now);

	for (uint32_t i = 0; i < s->slots; i++) {
		uint32_t old = atomic_load_explicit(slot_at(s, e, i), memory_order_acquire);

		if (!head_still(e, birth->head))
			return;
		if (old != 0)
			swap_slot(slot_at(s, e, i), old, 0);
	}
	if (s->first_slot > 0)
		touch_stamp(s, e, quantum);
	birth_end(e, birth, pack(s, quantum, birth->used));
}

static void window_freeze(const struct shape *s, struct entry *e)
{
	for (;;) {
		/* acquire: as in window_plan */
		uint64_t head = atomic_load_explicit(&e->head, memory_order_acquire);

		if (head & HEAD_SPECIAL)
			return;
		if (head & WINDOW_CLOSING)
			close_quantum(s, e, head, latest_of(s));
		else if (swap_head(e, head, head | HEAD_SPECIAL))
			return;
	}
}

static bool window_is_same(const struct shape *s, const struct shape *old)
{
	return s->quota == old->quota && s->slots == old->slots && s->window == old->window &&
	       s->scale == old->scale;
}

static bool window_remember(
	const struct shape *s, const struct entry *entry, uint64_t now, struct history *history)
{
	struct entry *e = (struct entry *)(uintptr_t)entry; /* only read */
	uint64_t head = atomic_load_explicit(&e->head, memory_order_acquire), closed = 0, end;
	struct view v = unpack(s, head, now);
	int64_t first = (int64_t)v.quantum - (int64_t)s->slots + 1;
	const uint64_t past = quantum_of(s, time_before_move(now));

	if (v.now >= v.quantum + s->slots + s->lag_buckets ||
		(s->first_slot > 0 && is_stale(s, e, &v)))
		return false;
	history->newest = v.quantum * s->quantum;
	for (int64_t q = first < 0 ? 0 : first; q < (int64_t)v.quantum; q++) {
		uint64_t units = count_at(s, e, where_of(s, (uint64_t)q));

		if (units == 0)
			continue;
		closed += units;
		end = ((uint64_t)q + 1) * s->quantum - 1;
		if ((uint64_t)q + s->slots <= past)
			continue;
		history->events[history->count++] = (struct event){end < now ? end : now, units};
	}
	end = (v.quantum + 1) * s->quantum - 1;
	if (v.used > closed && v.quantum + s->slots > past)
		history->events[history->count++] =
			(struct event){end < now ? end : now, v.used - closed};
	return true;
}

/* Grains are rounded down: what is left over counts as of the next quantum. `now` is up to two
 * steps late: what has left the window only in these still counts, as of the oldest quantum. */
static void window_recall(
	const struct shape *s, const struct history *history, uint64_t now, struct image *image)
{
	uint64_t first_units, newest = history->newest, used = 0, carried = 0, quantum, keep;
	unsigned first = history_newest(history, WINDOW_DEBT_MAX * s->quota, &first_units);

	if (history->count > 0 && history->events[history->count - 1].at > newest)
		newest = history->events[history->count - 1].at;
	/* Not so old that the quantum's bits could be taken for those of a new one. */
	keep = (s->slots + s->lag_buckets) * s->quantum;
	if (now > keep && newest < now - keep)
		newest = now - keep;
	quantum = quantum_of(s, newest < now ? newest : now);
	for (unsigned i = first; i < history->count; i++) {
		uint64_t q = quantum_of(s, history->events[i].at), grains;
		uint64_t units = i == first ? first_units : history->events[i].units;
		struct where w;
		uint32_t *slot;

		if (q + s->slots <= quantum) {
			if (history->events[i].at + s->window + 2 * TIME_STEP_NS <= now)
				continue;
			q = quantum - s->slots + 1;
		}
		w = where_of(s, q);
		slot = &image->slot[s->first_slot + w.index];
		carried += units;
		used += units;
		if (q == quantum)
			continue;
		grains = carried / s->grain;
		carried -= grains * s->grain;
		if (*slot == 0)
			*slot = w.tag << WINDOW_COUNT_BITS;
		*slot += (uint32_t)least(grains, WINDOW_COUNT_MAX - (*slot & WINDOW_COUNT_MAX));
	}
	image->head = pack(s, quantum, used);
	if (s->first_slot > 0)
		image->slot[0] = stamp_for(s, quantum);
}

const struct form_ops window_ops = {
	.plan = window_plan,
	.refund = window_refund,
	.reset = window_reset,
	.is_empty = window_is_empty,
	.make = window_make,
	.freeze = window_freeze,
	.is_same = window_is_same,
	.remember = window_remember,
	.recall = window_recall,
};
