/*
 * A limit has changed: what callers have used up moves from its old section to the new one, while
 * other threads go on taking.
 *
 *   old section                        new section
 *   bucket: frozen, no insertions      the caller is inserted as any newcomer is,
 *   entry:  frozen, no charges   --->  but born with what the old entry remembers
 *
 * Whoever first looks for a caller in the new section freezes its old place before it inserts it;
 * the thread that applies the change walks over all of them. A thread that still works on the old
 * section meets something frozen and begins again with the new one. Nothing frozen ever changes, so
 * that every thread that gives birth to the same caller gives the same.
 */
#include "throttle/section_move.h"

/* The newest time that a charge of either section can have; a second more or less is no matter. */
static uint64_t time_of_move(const struct section *section, const struct section *old)
{
	/* relaxed: ordered after the load of the frozen head; see time_after_head */
	uint64_t a = atomic_load_explicit(section->shape.latest, memory_order_relaxed);
	uint64_t b = atomic_load_explicit(old->shape.latest, memory_order_relaxed);

	return a > b ? a : b;
}

static struct entry *find_old(struct section *old, struct throttle_key key)
{
	struct place place;

	return section_find(old, key, &place) ? place.entry : NULL;
}

static void freeze_entry(struct section *old, struct entry *e)
{
	uint64_t head = atomic_load_explicit(&e->head, memory_order_acquire);

	/* A tombstone is nobody's: it becomes one that can't be born any more. */
	while (head_is_tombstone(head))
		if (atomic_compare_exchange_weak_explicit(&e->head, &head, HEAD_SPECIAL,
			    memory_order_acq_rel, memory_order_acquire))
			return;
	if (!(head & HEAD_SPECIAL))
		old->ops->freeze(&old->shape, e);
}

void section_freeze_old(struct section *section, struct throttle_key key)
{
	/* acquire: pairs with the store that made the section public */
	struct section *old = atomic_load_explicit(&section->old, memory_order_acquire);
	struct entry *e;
	uint64_t number;

	if (old == NULL)
		return;
	number = section_bucket_of(old, key);
	section_freeze_bucket(old, number);
	freeze_entry(old, section_entry(old, number, BUCKET_WAYS));
	e = find_old(old, key);
	if (e != NULL)
		freeze_entry(old, e);
}

static uint64_t sum_events(const struct event *events, unsigned count)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < count; i++)
		sum += events[i].units;
	return sum;
}

/* Two sorted runs into one: a caller's own, and what it may have been charged as overflow. */
static unsigned remember(const struct section *section, const struct section *old,
	const struct entry *e, struct event *events, unsigned room)
{
	uint64_t head = atomic_load_explicit(&e->head, memory_order_acquire);
	bool was_held = old->ops == &concurrency_ops, is_held = section->ops == &concurrency_ops;
	unsigned count;

	/* What is in flight and what was admitted are not the same. */
	if (!head_is_frozen(head) || (head & ~HEAD_SPECIAL) == 0 || was_held != is_held)
		return 0;
	count = old->ops->remember(&old->shape, e, time_of_move(section, old), events, room);
	for (unsigned i = 0; i < count; i++) {
		uint64_t units = events[i].units * old->shape.scale;

		events[i].units = (units + section->shape.scale - 1) / section->shape.scale;
	}
	return count;
}

static void merge(
	struct event *to, struct event *a, unsigned na, const struct event *b, unsigned nb)
{
	/* From the back, so that `to` may be `a`. */
	while (nb > 0) {
		if (na > 0 && a[na - 1].at > b[nb - 1].at) {
			to[na + nb - 1] = a[na - 1];
			na--;
		} else {
			to[na + nb - 1] = b[nb - 1];
			nb--;
		}
	}
}

bool section_recall(
	struct section *section, struct throttle_key key, struct image *image, uint64_t *units)
{
	struct section *old = atomic_load_explicit(&section->old, memory_order_acquire);
	struct event events[2 * EVENTS_MAX], shared[EVENTS_MAX];
	unsigned count = 0, others;
	struct entry *e;

	if (old == NULL)
		return false;
	section_freeze_old(section, key);
	e = find_old(old, key);
	if (e != NULL)
		count = remember(section, old, e, events, EVENTS_MAX);
	e = section_entry(old, section_bucket_of(old, key), BUCKET_WAYS);
	others = section->ops == &concurrency_ops ? 0 /* would never be given back */
						  : remember(section, old, e, shared, EVENTS_MAX);
	merge(events, events, count, shared, others);
	count += others;
	*units = sum_events(events, count);
	if (count == 0)
		return false;
	section->ops->recall(&section->shape, events, count, time_of_move(section, old), image);
	return true;
}

/* What can't be told to one caller is charged to all that may come to share it. */
static void charge_overflow(
	struct section *section, struct throttle_key key, uint64_t now, uint64_t units)
{
	struct place place;
	struct plan plan;

	while (units > 0) {
		section_overflow(section, key, now, &place);
		if (section->ops->plan(&section->shape, place.entry, units, now, HOW_FORCE,
			    &plan) != ENTRY_READY)
			return;
		/* acq_rel: as every change of a head */
		if (!atomic_compare_exchange_strong_explicit(&place.entry->head, &plan.head,
			    plan.next, memory_order_acq_rel, memory_order_relaxed))
			continue;
		if (section->ops->finish != NULL)
			section->ops->finish(&section->shape, place.entry, plan.next);
		return;
	}
}

static void move_entry(struct section *section, struct section *old, uint64_t number, unsigned way,
	struct event *events)
{
	struct entry *e = section_entry(old, number, way);
	uint64_t tag = atomic_load_explicit(&e->tag, memory_order_acquire);
	struct throttle_key key = section_key_of(old, number, tag);
	uint64_t now = time_of_move(section, old);
	struct place place;
	unsigned count;

	freeze_entry(old, e);
	count = remember(section, old, e, events, EVENTS_MAX);
	if (count == 0 || tag == 0)
		return;
	if (section_locate(section, key, now, true, &place) == LOCATED && place.is_overflow)
		charge_overflow(section, key, now, sum_events(events, count));
}

/* The buckets of the new section that the old one's callers may be in now. */
static void move_overflow(
	struct section *section, struct section *old, uint64_t number, struct event *events)
{
	struct entry *e = section_entry(old, number, BUCKET_WAYS);
	unsigned count;

	freeze_entry(old, e);
	count = remember(section, old, e, events, EVENTS_MAX);
	if (count == 0)
		return;
	for (uint64_t n = number * section->buckets / old->buckets;
		n <= ((number + 1) * section->buckets - 1) / old->buckets && n < section->buckets;
		n++)
		charge_overflow(section, section_key_of(section, n, 1), time_of_move(section, old),
			sum_events(events, count));
}

void section_move_all(struct section *section)
{
	struct section *old = atomic_load_explicit(&section->old, memory_order_acquire);
	struct event events[EVENTS_MAX];

	if (old == NULL)
		return;
	for (uint64_t number = 0; number < old->buckets; number++) {
		section_freeze_bucket(old, number);
		for (unsigned way = 0; way < BUCKET_WAYS; way++)
			move_entry(section, old, number, way, events);
		move_overflow(section, old, number, events);
	}
	/* release: who sees that it is gone sees what was moved */
	atomic_store_explicit(&section->old, NULL, memory_order_release);
}
