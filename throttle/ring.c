/*
 * The ring: one slot for each admission that may be in a window, so a ring as large as the limit.
 *
 *            fill: what is in the window        head: type, claimed or hole, fill, position, time
 *          +------------------------------+
 *   . . .  | 3.1 | 3.4 | 7.0 | 7.2 | 9.9  | . . .      slots: the tick of each admission, in order
 *          +------------------------------+
 *           oldest                   newest ^ position: the slot that is taken next
 *
 * A charge of n is admitted when, of what is in the window now, no more than L - n are left: one
 * look at the oldest slot as a rule, a binary search when that has expired. Its compare-and-swap of
 * the head moves the position on, notes the new count and the time, and is the admission. The slots
 * of that charge are written afterwards from the time in the head (`finish_claim`), by its thread
 * or by the next one that comes: nobody charges before that is done, so at most one charge's slots
 * are ever unwritten, and a thread that sleeps between the two steps blocks no other.
 *
 * Why a late writer does no harm: a slot's value only ever grows (admissions are recorded in the
 * order of their times), and each write is a swap from the value that was there while the head
 * still was the one it belongs to. A slot that has moved on never has that value again.
 *
 * A refund takes out one slot: the head names the hole, and each step of closing the gap (copy the
 * next slot over the hole, move the hole one on) is a head of its own, so that any thread can do
 * any step, and doing it twice is doing it once. When the hole reaches the end it is dropped. No
 * head comes back with other slots: after a hole that has moved to the newest slot, the next
 * claim's tick is one larger than the last (CLEAN); one that moves to the oldest leaves the
 * position, and fewer behind it. The newest slot itself is dropped at once.
 *
 * Ticks are 2^shift ns. Long rings have few bits for the time in their head; theirs has a stamp
 * beside it that says when it was last used, so that an old tick is never taken for a new one.
 */
#include "throttle/ring_short.h"

/* Swaps one slot from what it was under `head` to `value`; false when the head has moved on. */
static bool write_slot(
	const struct shape *s, struct entry *e, uint32_t i, uint32_t value, uint64_t head)
{
	_Atomic(uint32_t) *slot = slot_at(s, e, i);

	for (;;) {
		/* acquire: pairs with the release below. If this reads what was written under a
		 * later head, that head is seen by head_still. */
		uint32_t old = atomic_load_explicit(slot, memory_order_acquire);

		if (!head_still(e, head))
			return false;
		if (old == value)
			return true;
		/* release: pairs with the acquire loads of slots, see above */
		if (atomic_compare_exchange_strong_explicit(
			    slot, &old, value, memory_order_release, memory_order_relaxed))
			return true;
	}
}

/* Writes the slots of the last charge, oldest first: the newest tells whether it was done. */
static void finish_claim(const struct shape *s, struct entry *e, uint64_t head)
{
	struct view v = unpack(s, head);
	uint32_t tick = (uint32_t)(v.tick & s->slot_mask);

	for (uint32_t n = v.claimed; n > 0; n--)
		if (!write_slot(s, e, before(s, v.position, n), tick, head))
			return;
}

/* A refund's gap has come to the newest slot: CLEAN, since the position is one that it was before.
 */
static void end_hole(struct view *v)
{
	v->type = RING_CLEAN;
	v->position = v->hole;
	v->hole = 0;
	v->fill--;
}

/* To the oldest: none of the heads of this tick has so many behind the position and so few in use,
 * until the oldest has come round. */
static void end_sink(const struct shape *s, struct view *v)
{
	v->type = after(s, v->hole, 1) == 0 ? RING_CLEAN : RING_OPEN;
	v->hole = 0;
	v->fill--;
}

/* One step of closing the gap that a refund has left. */
SELDOM static void move_hole(const struct shape *s, struct entry *e, uint64_t head)
{
	struct view v = unpack(s, head);
	bool sinks = v.type == RING_SINK;
	uint32_t next = sinks ? before(s, v.hole, 1) : after(s, v.hole, 1);

	if (sinks && v.hole == before(s, v.position, v.fill)) {
		end_sink(s, &v);
	} else if (!sinks && next == v.position) {
		end_hole(&v);
	} else {
		/* acquire: pairs with write_slot */
		uint32_t value = atomic_load_explicit(slot_at(s, e, next), memory_order_acquire);

		if (!write_slot(s, e, v.hole, value, head))
			return;
		v.hole = next;
	}
	/* release: the slot is written before the hole moves on; pairs with loads of the head */
	atomic_compare_exchange_strong_explicit(
		&e->head, &head, pack(s, &v), memory_order_acq_rel, memory_order_relaxed);
}

bool ring_is_idle(const struct shape *s, struct entry *e, uint64_t head, uint64_t now)
{
	/* acquire: pairs with the release in touch_stamp */
	uint64_t stamp =
		s->first_slot == 0 ? now : atomic_load_explicit(stamp_of(e), memory_order_acquire);
	uint64_t rest = now > stamp ? now - stamp : 0;
	struct view v = unpack(s, head);
	uint64_t since = ticks_since(s, now >> s->shift, v.tick);
	bool is_known = rest < 4 * s->keep; /* that the head's tick is no older than it seems */

	if (rest <= s->keep)
		return false;
	if (v.fill > 0)
		return !is_known || since > s->keep_ticks;
	return since > 2 * s->keep_ticks || (!is_known && since < s->keep_ticks);
}

/*
 * Long rings: an idle head is put back to empty. It was loaded before the stamp, so if a charge was
 * made since the stamp that is read here was old, the head has changed and the swap fails. True:
 * start again.
 *
 * A stamp that is to be set again stands for what was charged since the last one: what is older is
 * put back before that too, or refusals would keep it until its tick looks new again.
 *
 * Its new tick is that of the youngest that is_empty, not now's: a caller here is perhaps refused
 * or only looks, which records nothing, and the next charge may be of a clock that is behind this
 * one. It is still larger than the head's last: either that was seen, or that charge was three
 * periods ago.
 *
 * An empty one has nothing to forget, but the next charge must not be recorded at its tick because
 * that has come round and seems to be ahead of now: it too is put back, to where it was not yet two
 * periods ago.
 */
static bool wipe_if_idle(const struct shape *s, struct entry *e, uint64_t head, uint64_t now)
{
	struct view v = unpack(s, head);

	if (!ring_is_idle(s, e, head, now))
		return false;
	v = (struct view){.type = RING_CLEAN,
		.position = v.position,
		.tick = (now >> s->shift) - s->keep_ticks};
	/* acq_rel: as every change of a head */
	atomic_compare_exchange_strong_explicit(
		&e->head, &head, pack(s, &v), memory_order_acq_rel, memory_order_relaxed);
	return true;
}

/* Long rings, before a charge: the stamp is never further behind the last charge than a period, the
 * time that something of it may matter: of a ban that is how long it lasts. */
static bool is_stamp_due(const struct shape *s, uint64_t stamp, uint64_t now)
{
	return stamp + s->keep < now;
}

static void touch_stamp(const struct shape *s, struct entry *e, uint64_t now)
{
	uint64_t old = atomic_load_explicit(stamp_of(e), memory_order_relaxed);

	while (is_stamp_due(s, old, now))
		/* release: pairs with wipe_if_idle */
		if (atomic_compare_exchange_weak_explicit(
			    stamp_of(e), &old, now, memory_order_release, memory_order_relaxed))
			break;
}

/* How many of `fill` have left the window at `tick`. */
static uint32_t count_expired(
	const struct shape *s, struct entry *e, const struct view *v, uint64_t tick)
{
	uint32_t oldest = before(s, v->position, v->fill), low = 1, high = v->fill;

	if (age_of(s, e, oldest, tick) < s->window_ticks)
		return 0;
	/* In a full ring one expires at a time, as a rule. */
	if (high > 1 && age_of(s, e, after(s, oldest, 1), tick) < s->window_ticks)
		return 1;
	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (age_of(s, e, after(s, oldest, middle), tick) < s->window_ticks)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

/* ns from `now`, in `tick`, until slot i has left the window. */
static uint64_t wait_for(
	const struct shape *s, struct entry *e, uint32_t i, uint64_t tick, uint64_t now)
{
	uint64_t age = age_of(s, e, i, tick), ahead = 0, then;

	if (age == 0)
		ahead = (atomic_load_explicit(slot_at(s, e, i), memory_order_acquire) - tick) &
			s->slot_mask;
	then = (tick + s->window_ticks + ahead - age) << s->shift;
	return then > now ? then - now : 0;
}

/* Fills in what the verdict says beyond yes and no. */
static void tell(const struct shape *s, struct entry *e, const struct view *v, uint32_t live,
	uint64_t cost, uint64_t tick, uint64_t now, struct plan *plan)
{
	uint32_t oldest = before(s, v->position, live), last;

	plan->used = live;
	plan->more = plan->reset = plan->retry = 0;
	if (live > 0) {
		plan->more = wait_for(s, e, oldest, tick, now);
		plan->reset = wait_for(s, e, before(s, v->position, 1), tick, now);
	}
	if (plan->fits)
		return;
	if (cost > s->quota) {
		plan->retry = THROTTLE_NEVER;
		return;
	}
	last = after(s, oldest, (uint32_t)(live + cost - s->quota) - 1);
	plan->retry = wait_for(s, e, last, tick, now);
}

static void plan_claim(const struct shape *s, const struct view *v, uint32_t live, uint64_t cost,
	uint64_t absolute, struct plan *plan)
{
	uint32_t n = cost < s->slots ? (uint32_t)cost : s->slots;
	struct view next = {
		.type = RING_OPEN,
		.claimed = n,
		.fill = live + n < s->slots ? live + n : s->slots,
		.position = after(s, v->position, n),
		.tick = absolute,
	};

	plan->next = pack(s, &next);
	plan->at = absolute << s->shift;
}

/* Judges by the head that it has; false when that has moved on meanwhile. */
static bool judge(const struct shape *s, struct entry *e, uint64_t head, uint64_t cost,
	uint64_t now, enum how how, struct plan *plan)
{
	struct view v = unpack(s, head);
	uint64_t tick = now >> s->shift, since = ticks_since(s, tick, v.tick), recorded = tick;
	uint64_t wanted = cost > 0 ? cost : 1;
	uint32_t live = 0;

	/* Judged by its own time, recorded at the newest: both on the safe side. */
	if (since == 0)
		recorded += (v.tick - tick) & s->tick_mask;
	if (since < s->window_ticks && v.fill > 0)
		live = v.fill - count_expired(s, e, &v, tick);
	plan->head = head;
	plan->now = now;
	plan->fits = wanted <= s->quota && live <= s->quota - wanted;
	plan->at = recorded << s->shift;
	tell(s, e, &v, live, wanted, tick, now, plan);
	if (cost > 0 && (plan->fits || how == HOW_FORCE)) {
		/* A debt that overwrites what is in use could find its last slot as it is to be.
		 * And for the oldest to come round, see end_sink. */
		bool is_next = v.type == RING_CLEAN || live + cost > s->slots ||
			       before(s, v.position, live) < before(s, v.position, v.fill);

		plan_claim(s, &v, live, cost, recorded + (is_next && since == 0), plan);
		if (plan->fits) { /* told with this charge, the newest, taken */
			plan->reset = plan->at + (s->window_ticks << s->shift) - now;
			if (live == 0)
				plan->more = plan->reset;
		}
		return true;
	}
	plan->next = head;
	return head_still(e, head);
}

static enum found ring_plan(const struct shape *s, struct entry *e, uint64_t cost, uint64_t now,
	enum how how, struct plan *plan)
{
	for (;;) {
		/* acquire: pairs with the release of the swap that made this head */
		uint64_t head = atomic_load_explicit(&e->head, memory_order_acquire);
		struct view v = unpack(s, head);

		plan->head = head;
		if ((head & HEAD_SPECIAL) || head == 0)
			return ENTRY_GONE;
		now = time_after_head(s, now);
		if (s->first_slot > 0) {
			if (wipe_if_idle(s, e, head, now))
				continue;
			if (how != HOW_LOOK)
				touch_stamp(s, e, now);
		}
		if (is_gap_open(&v)) {
			move_hole(s, e, head);
			continue;
		}
		if (is_claim_unwritten(s, e, &v))
			finish_claim(s, e, head);
		if (judge(s, e, head, cost, now, how, plan))
			return ENTRY_READY;
	}
}

/* ring_plan of short rings: first as quick.c has it. */
static enum found ring_short_plan(const struct shape *s, struct entry *e, uint64_t cost,
	uint64_t now, enum how how, struct plan *plan)
{
	/* acquire: as in ring_plan */
	uint64_t head = atomic_load_explicit(&e->head, memory_order_acquire);
	struct short_view v;
	uint64_t reset;
	bool fits;

	if (cost != 1 || how != HOW_TAKE ||
		!ring_short_view(s, e, head, ring_short_is_past(s, head, now), now, &v))
		return ring_plan(s, e, cost, now, how, plan);
	fits = ring_short_fits(s, &v);
	reset = ring_short_reset(s, e, &v, fits);
	if (!fits && !head_still(e, head))
		return ring_plan(s, e, cost, now, how, plan);
	*plan = (struct plan){
		.head = head,
		.next = fits ? ring_short_next(s, &v) : head,
		.fits = fits,
		.used = v.live,
		.now = now,
		.reset = reset,
		.at = ring_short_at(s, &v),
	};
	plan->more = ring_short_wait(s, &v, v.age);
	plan->retry = fits ? 0 : plan->more;
	return ENTRY_READY;
}

/* Where the newest slot of this tick is; slots of one tick are as good as each other. */
static bool find_tick(const struct shape *s, struct entry *e, const struct view *v, uint64_t tick,
	uint32_t *where)
{
	for (uint32_t n = 1; n <= v->fill; n++) {
		uint32_t i = before(s, v->position, n);
		uint64_t age = age_of(s, e, i, v->tick), wanted = (v->tick - tick) & s->slot_mask;

		*where = i;
		if (age == wanted)
			return true;
		if (age > wanted)
			return false;
	}
	return false;
}

static inline bool is_ahead(const struct shape *s, const struct view *v, uint64_t now)
{
	uint64_t lead = (v->tick - (now >> s->shift)) & s->tick_mask;

	return lead > 1 && lead <= s->lag_ticks;
}

/* What a refund makes of a head. The newest slot is dropped; another one becomes a hole that moves
 * to the newest, which isn't far as a rule. But then the next charge is recorded a tick later than
 * the last: where that would put the head ahead of time it moves to the oldest. */
static void take_out(const struct shape *s, struct view *v, uint32_t hole, uint64_t now)
{
	bool is_open = v->type == RING_OPEN;

	v->hole = hole;
	v->type = is_open && is_ahead(s, v, now) ? RING_SINK : RING_HOLE;
	if (after(s, hole, 1) != v->position)
		return;
	if (!is_open) {
		end_hole(v);
		return;
	}
	v->type = RING_OPEN;
	v->position = hole;
	v->claimed = 0;
	v->fill--;
}

static bool refund_one(const struct shape *s, struct entry *e, uint64_t tick, uint64_t now)
{
	for (;;) {
		/* acquire: as in ring_plan */
		uint64_t head = atomic_load_explicit(&e->head, memory_order_acquire), next;
		struct view v = unpack(s, head);
		uint32_t hole;

		if ((head & HEAD_SPECIAL) || head == 0)
			return false;
		now = time_after_head(s, now);
		if (is_gap_open(&v)) {
			move_hole(s, e, head);
			continue;
		}
		if (is_claim_unwritten(s, e, &v))
			finish_claim(s, e, head);
		if (ticks_since(s, now >> s->shift, v.tick) >= s->window_ticks ||
			!find_tick(s, e, &v, tick, &hole)) {
			if (head_still(e, head))
				return false;
			continue;
		}
		take_out(s, &v, hole, now);
		next = pack(s, &v);
		/* acq_rel: as every change of a head */
		if (!atomic_compare_exchange_strong_explicit(
			    &e->head, &head, next, memory_order_acq_rel, memory_order_relaxed))
			continue;
		/* The gap is closed by the thread that sees it; here at once. */
		while (!(next & HEAD_SPECIAL) && unpack(s, next).type >= RING_HOLE) {
			move_hole(s, e, next);
			next = atomic_load_explicit(&e->head, memory_order_acquire);
		}
		return true;
	}
}

static bool ring_refund(
	const struct shape *s, struct entry *e, struct when *when, uint64_t cost, uint64_t now)
{
	const uint64_t at = when->at;

	/* What has left the window, or will before it could matter, is ignored. */
	if (now > at && ((now - at) >> s->shift) >= s->window_ticks)
		return false;
	for (uint64_t i = 0; i < cost && i < s->slots; i++)
		if (!refund_one(s, e, at >> s->shift, now))
			return i > 0;
	return true;
}

/* The stamp of a long ring that is being made. It stands for the use that the ring begins with, as
 * if that was charged now: without it, or with the last caller's, the use would be taken for that
 * of a time that nobody can tell. */
static void make_stamp(const struct shape *s, struct entry *e, const struct birth *birth)
{
	/* acquire: before the look at the head. Who changes the stamp later has seen a later head.
	 */
	uint64_t old = atomic_load_explicit(stamp_of(e), memory_order_acquire);

	if (is_stamp_due(s, old, birth->now) && head_still(e, birth->head))
		/* release: pairs with ring_is_idle */
		atomic_compare_exchange_strong_explicit(
			stamp_of(e), &old, birth->now, memory_order_release, memory_order_relaxed);
}

/* All of the use is a claim whose slots are unwritten. The newest slot tells that: it must not be
 * of the same tick from the last caller. */
static void ring_make(const struct shape *s, struct entry *e, const struct birth *birth)
{
	uint32_t n = birth->used < s->slots ? (uint32_t)birth->used : s->slots;
	struct view v = {
		.type = n > 0 ? RING_OPEN : RING_CLEAN,
		.claimed = n,
		.fill = n,
		.position = n % s->slots,
		.tick = birth->now >> s->shift,
	};

	if (s->first_slot > 0)
		make_stamp(s, e, birth);
	if (n > 0 && !is_claim_unwritten(s, e, &v))
		v.tick++;
	birth_end(e, birth, pack(s, &v));
}

static uint64_t ring_reset(const struct shape *s, struct entry *e, const struct plan *plan)
{
	const struct view v = {.type = RING_CLEAN, .tick = plan->at >> s->shift};

	(void)e;
	return pack(s, &v);
}

static bool ring_is_empty(const struct shape *s, uint64_t head, uint64_t now)
{
	struct view v = unpack(s, head);

	now = time_after_head(s, now);
	/* A fresh one is not, so that its head can't come back within the tick. */
	return !is_gap_open(&v) && ticks_since(s, now >> s->shift, v.tick) >= s->keep_ticks;
}

static void ring_freeze(const struct shape *s, struct entry *e)
{
	for (;;) {
		/* acquire: as in ring_plan */
		uint64_t head = atomic_load_explicit(&e->head, memory_order_acquire);
		struct view v = unpack(s, head);

		if (head & HEAD_SPECIAL)
			return;
		if (head != 0 && is_gap_open(&v)) {
			move_hole(s, e, head);
			continue;
		}
		if (head != 0 && is_claim_unwritten(s, e, &v))
			finish_claim(s, e, head);
		/* acq_rel: as every change of a head */
		if (atomic_compare_exchange_strong_explicit(&e->head, &head, head | HEAD_SPECIAL,
			    memory_order_acq_rel, memory_order_relaxed))
			return;
	}
}

uint64_t ring_full_since(const struct shape *s, struct entry *e, uint64_t now)
{
	/* acquire: as in ring_plan */
	uint64_t head = atomic_load_explicit(&e->head, memory_order_acquire);
	uint64_t absolute;
	struct view v = unpack(s, head);

	now = time_after_head(s, now);
	absolute = now >> s->shift;
	if ((head & HEAD_SPECIAL) || head == 0 || v.fill < s->quota)
		return 0;
	if (s->first_slot > 0 && wipe_if_idle(s, e, head, now))
		return 0;
	return (absolute - ticks_since(s, absolute, v.tick)) << s->shift;
}

/* As ops has them, but for what is done for every verdict. */
#define RING_OPS                                                                                   \
	.refund = ring_refund, .reset = ring_reset, .is_empty = ring_is_empty, .make = ring_make,  \
	.freeze = ring_freeze, .is_same = ring_is_same, .remember = ring_remember,                 \
	.recall = ring_recall

const struct form_ops ring_ops = {.plan = ring_plan, .finish = finish_claim, RING_OPS};
const struct form_ops ring_short_ops = {.plan = ring_short_plan, .finish = finish_claim, RING_OPS};
