/*
 * A limit has changed: what callers have used up moves from its old section to the new one, bucket
 * by bucket, while other threads go on taking.
 *
 *   old section                                 new section
 *   closed: no thread begins here any more      word 0: nobody has looked for what is missing here
 *   bucket: frozen, no insertions     ------->  entries, overflow, written from zero
 *   entries: frozen, no charges                 word WORD_MOVED: all is there
 *
 * Whoever misses a caller in the new section moves its bucket first: freezes the old buckets that
 * its callers may be in, and writes what follows from them. Nothing frozen ever changes, and the
 * time that the move counts by is fixed by the closing before it: so all threads that do this write
 * the same, each word by a swap from zero, and one that comes late finds it done. The thread that
 * applies the change walks over all buckets. A thread that still works on the old section meets
 * something frozen and begins again with the new one.
 *
 * Callers who have no entry of their own were perhaps charged in an overflow: the overflow of their
 * new bucket has all of that before the first of them is judged by it.
 */
#include "throttle/section_move.h"

#include <string.h>

struct move {
	struct section *to, *from;
	uint64_t now;                 /* no charge of `from` is later */
	uint64_t bucket, first, last; /* in `to`; its callers' in `from` */
	unsigned occupied;            /* ways: bits */
	uint64_t crowded_out;         /* units of callers without a way */
	bool is_done;                 /* by others: this thread is late */
};

/* No thread begins with the old section after this. Gives a time that none of its charges is after:
 * that of every thread, and a birth, is a step at most after the newest noted. */
static uint64_t close_old(struct section *section, struct section *old)
{
	/* acq_rel: a thread that notes its time after this sees that it is closed; who has noted it
	 * before is seen here */
	uint64_t newest =
		atomic_fetch_or_explicit(old->shape.latest, LATEST_CLOSED, memory_order_acq_rel) &
		~LATEST_CLOSED;
	uint64_t noted = atomic_load_explicit(section->shape.latest, memory_order_relaxed);

	/* The heads to be written are not ahead of the new section's time. (Of a closed one that is
	 * larger.) relaxed: released by the swaps of these heads */
	while (noted < newest)
		if (atomic_compare_exchange_weak_explicit(section->shape.latest, &noted, newest,
			    memory_order_relaxed, memory_order_relaxed))
			break;
	return newest + 2 * TIME_STEP_NS;
}

/* What a frozen entry remembers, in units of the new section. False: nothing that matters. */
static bool remember(const struct move *m, const struct entry *e, struct history *history)
{
	const struct section *from = m->from;
	uint64_t head = atomic_load_explicit(&e->head, memory_order_acquire) & ~HEAD_SPECIAL;

	history->count = 0;
	/* What is in flight and what was admitted are not the same. */
	if (head == 0 ||
		(from->shape.form == FORM_CONCURRENCY) != (m->to->shape.form == FORM_CONCURRENCY))
		return false;
	if (from->ops->is_empty(&from->shape, head, m->now) ||
		!from->ops->remember(&from->shape, e, m->now, history))
		return false;
	for (unsigned i = 0; i < history->count; i++) {
		uint64_t units = history->events[i].units * from->shape.scale;

		history->events[i].units = (units + m->to->shape.scale - 1) / m->to->shape.scale;
	}
	return true;
}

static uint64_t sum_of(const struct history *history)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < history->count; i++)
		sum += history->events[i].units;
	return sum;
}

static uint32_t slots_of(const struct shape *s)
{
	return s->first_slot + s->slots;
}

static bool is_same(const struct move *m)
{
	return m->to->shape.form == m->from->shape.form &&
	       m->to->ops->is_same(&m->to->shape, &m->from->shape);
}

static void make_image(
	const struct move *m, struct entry *e, const struct history *history, struct image *image)
{
	const struct shape *s = &m->to->shape;

	memset(image->slot, 0, slots_of(s) * sizeof(image->slot[0]));
	if (!is_same(m)) {
		m->to->ops->recall(s, history, m->now, image);
		return;
	}
	image->head = atomic_load_explicit(&e->head, memory_order_acquire) & ~HEAD_SPECIAL;
	for (uint32_t i = 0; i < slots_of(s); i++)
		image->slot[i] = atomic_load_explicit(&e->slot[i], memory_order_acquire);
}

/* True: it was this thread that wrote it. */
static bool write_image(const struct shape *s, struct entry *e, const struct image *image)
{
	uint64_t head = 0;

	for (uint32_t i = 0; i < slots_of(s); i++) {
		uint32_t old = 0;

		if (atomic_load_explicit(&e->head, memory_order_acquire) != 0)
			return false;
		if (image->slot[i] != 0)
			/* release: pairs with the acquire loads of slots */
			atomic_compare_exchange_strong_explicit(&e->slot[i], &old, image->slot[i],
				memory_order_release, memory_order_relaxed);
	}
	/* acq_rel: as every change of a head */
	return atomic_compare_exchange_strong_explicit(
		&e->head, &head, image->head, memory_order_acq_rel, memory_order_relaxed);
}

/* acquire: who sees that sees all of the bucket; and what was inserted there since, if anything */
static bool is_bucket_done(const struct move *m)
{
	return atomic_load_explicit(section_word(m->to, m->bucket), memory_order_acquire) != 0;
}

/* The place of a caller: every thread that moves this bucket comes to the same. BUCKET_WAYS: none
 * is left. */
static unsigned choose_way(struct move *m, uint64_t fingerprint)
{
	unsigned first = section_preferred_way(fingerprint);

	for (unsigned step = 0; step <= BUCKET_WAYS; step++) {
		unsigned way = section_way(first, step);
		uint64_t tag;

		if (way == BUCKET_WAYS || (m->occupied >> way & 1) != 0)
			continue;
		tag = atomic_load_explicit(
			&section_entry(m->to, m->bucket, way)->tag, memory_order_acquire);
		if (tag != 0 && (tag & FINGERPRINT_MASK) != fingerprint) {
			/* Of a move that was broken off, or of who got the place after this one. */
			m->is_done = is_bucket_done(m);
			if (m->is_done)
				return BUCKET_WAYS;
			continue;
		}
		m->occupied |= 1u << way;
		return way;
	}
	return BUCKET_WAYS;
}

static void move_entry(struct move *m, uint64_t number, struct entry *e, struct history *history)
{
	uint64_t tag = atomic_load_explicit(&e->tag, memory_order_acquire);
	uint64_t fingerprint = tag & FINGERPRINT_MASK, none = 0;
	struct throttle_key key = section_key_of(m->from, number, tag);
	struct image image;
	struct entry *to;
	unsigned way;

	if (fingerprint == 0 || section_bucket_of(m->to, key) != m->bucket ||
		!remember(m, e, history))
		return;
	way = choose_way(m, fingerprint);
	if (m->is_done)
		return;
	if (way == BUCKET_WAYS) {
		m->crowded_out += sum_of(history);
		return;
	}
	to = section_entry(m->to, m->bucket, way);
	/* release: who finds it and no head yet moves the bucket, too */
	atomic_compare_exchange_strong_explicit(&to->tag, &none, section_tag(fingerprint, way, 0),
		memory_order_release, memory_order_relaxed);
	if (atomic_load_explicit(&to->head, memory_order_acquire) != 0)
		return;
	make_image(m, e, history, &image);
	if (write_image(&m->to->shape, to, &image))
		/* relaxed: a count that only people read */
		atomic_fetch_add_explicit(&m->to->tally->entries, 1, memory_order_relaxed);
}

/* One is moved as a caller's is; several, and who was crowded out, become one charge of this
 * moment. */
static void move_overflow(struct move *m, struct history *history)
{
	struct entry *e = section_entry(m->from, m->first, BUCKET_WAYS);
	uint64_t units = m->crowded_out;
	bool is_any = units > 0;
	struct image image;

	for (uint64_t n = m->first; n <= m->last; n++)
		if (remember(m, section_entry(m->from, n, BUCKET_WAYS), history)) {
			units += sum_of(history);
			is_any = true;
		}
	if (!is_any)
		return;
	if (m->first == m->last && m->crowded_out == 0) {
		make_image(m, e, history, &image);
	} else {
		history->newest = m->now;
		history->count = 1;
		history->events[0] = (struct event){m->now, units};
		memset(image.slot, 0, slots_of(&m->to->shape) * sizeof(image.slot[0]));
		m->to->ops->recall(&m->to->shape, history, m->now, &image);
	}
	write_image(&m->to->shape, section_entry(m->to, m->bucket, BUCKET_WAYS), &image);
	m->occupied |= 1u << BUCKET_WAYS;
}

SELDOM static bool move_bucket(struct section *s, struct section *old, uint64_t bucket)
{
	struct history history;
	uint64_t none = 0;
	struct move m = {
		.to = s,
		.from = old,
		.bucket = bucket,
		.now = close_old(s, old),
		.first = (uint64_t)((unsigned __int128)bucket * old->buckets / s->buckets),
		.last = (uint64_t)(((unsigned __int128)(bucket + 1) * old->buckets - 1) /
				   s->buckets),
	};

	for (uint64_t n = m.first; n <= m.last; n++)
		section_freeze_bucket(old, n);
	for (uint64_t n = m.first; n <= m.last; n++)
		for (unsigned way = 0; way < BUCKET_WAYS && !m.is_done; way++)
			move_entry(&m, n, section_entry(old, n, way), &history);
	if (m.is_done)
		return true;
	move_overflow(&m, &history);
	if (m.occupied == 0)
		return false;
	/* acq_rel: who sees this sees all of the bucket */
	atomic_compare_exchange_strong_explicit(section_word(s, bucket), &none, WORD_MOVED,
		memory_order_acq_rel, memory_order_relaxed);
	return true;
}

bool section_move_bucket(struct section *s, uint64_t bucket)
{
	/* acquire: pairs with the stores that made the section public, and that let go of it */
	struct section *old = atomic_load_explicit(&s->old, memory_order_acquire);

	return old != NULL &&
	       atomic_load_explicit(section_word(s, bucket), memory_order_acquire) == 0 &&
	       move_bucket(s, old, bucket);
}

void section_move_all(struct section *s)
{
	if (atomic_load_explicit(&s->old, memory_order_acquire) == NULL)
		return;
	for (uint64_t bucket = 0; bucket < s->buckets; bucket++)
		section_move_bucket(s, bucket);
	/* release: who sees that it is gone sees what was moved */
	atomic_store_explicit(&s->old, NULL, memory_order_release);
}
