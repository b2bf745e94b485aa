/*
 * A limit has changed: what callers have used up moves from its old section to the new one of the
 * same level, bucket by bucket, while other threads continue taking.
 *
 *   old section                                 new section
 *   closed: no thread begins here any more      word 0: nobody has looked for what is missing here
 *   bucket: frozen, no insertions     ------->  entries, overflow, written from zero
 *   entries: frozen, no charges                 word WORD_MOVED: all is there
 *
 * A thread that misses a caller in the new section moves its bucket first: it freezes the old one
 * and writes what follows from it. Nothing frozen ever changes, and the time that the move counts
 * by is fixed by the closing before it: so all threads that do this write the same, each word by a
 * swap from zero, and one that comes late finds it done. The thread that applies the change walks
 * over all buckets. A thread that still works on the old section meets something frozen and begins
 * again with the new one.
 *
 * A bucket that was split (section.h) moves to the next level in the same way, but as it is: all
 * that is frozen is copied, whatever the time, so there is nothing to close, and nothing to round.
 *
 *   level k   [ b, split ] --- callers of the lower half of its keys ---> [ 2b ]      level k + 1
 *                          --- callers of the upper half -------------> [ 2b + 1 ]
 *                          --- its overflow, to both
 *
 * Where both meet, the old section's bucket has been split or not when the reload freezes it: one
 * swap of its word decides. Of one that was split the new section's says so, too, and its callers
 * are moved from the old section's next level to the new one's.
 *
 * Callers who have no entry of their own were perhaps charged in an overflow: the overflow of their
 * new bucket has all of that before the first of them is judged by it.
 */
#include "throttle/section_move.h"

#include <string.h>

struct move {
	struct section *to, *from;
	uint64_t bucket, source; /* in `to`; in `from` */
	bool is_copy;            /* to the next level: all of it, as it is */
	uint64_t now;            /* else: no charge of `from` is later */
	unsigned occupied;       /* ways of `to`: bits */
	bool is_done;            /* by others: this thread is late */
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

static uint32_t slots_of(const struct shape *s)
{
	return s->first_slot + s->slots;
}

static bool is_same(const struct move *m)
{
	return m->to->shape.form == m->from->shape.form &&
	       m->to->ops->is_same(&m->to->shape, &m->from->shape);
}

/* False: there is nothing that matters. */
static bool make_image(
	const struct move *m, struct entry *e, struct history *history, struct image *image)
{
	const struct shape *s = &m->to->shape;

	if (!m->is_copy && !remember(m, e, history))
		return false;
	if (!m->is_copy && !is_same(m)) {
		memset(image->slot, 0, slots_of(s) * sizeof(image->slot[0]));
		m->to->ops->recall(s, history, m->now, image);
		return true;
	}
	image->head = atomic_load_explicit(&e->head, memory_order_acquire) & ~HEAD_SPECIAL;
	if ((image->head & HEAD_BORN) == 0)
		return false;
	for (uint32_t i = 0, count = slots_of(s); i < count; i++)
		image->slot[i] = atomic_load_explicit(&e->slot[i], memory_order_acquire);
	return true;
}

/* True: it was this thread that wrote it. */
static bool write_image(const struct shape *s, struct entry *e, const struct image *image)
{
	uint64_t head = 0;

	for (uint32_t i = 0, count = slots_of(s); i < count; i++) {
		uint32_t old = 0;

		if (image->slot[i] == 0)
			continue;
		if (atomic_load_explicit(&e->head, memory_order_acquire) != 0)
			return false;
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

static void move_entry(struct move *m, struct entry *e, struct history *history)
{
	uint64_t tag = atomic_load_explicit(&e->tag, memory_order_acquire);
	uint64_t fingerprint = tag & FINGERPRINT_MASK, none = 0;
	struct throttle_key key = section_key_of(m->from, m->source, tag);
	struct image image;
	struct entry *to;
	unsigned way;

	if (fingerprint == 0 || section_bucket_of(m->to, key) != m->bucket ||
		!make_image(m, e, history, &image))
		return;
	way = choose_way(m, fingerprint);
	if (m->is_done || way == BUCKET_WAYS)
		return; /* (No way is left in a damaged file only, where one caller is there twice.)
			 */
	to = section_entry(m->to, m->bucket, way);
	/* release: who finds it and no head yet moves the bucket, too */
	atomic_compare_exchange_strong_explicit(&to->tag, &none, section_tag(fingerprint, way, 0),
		memory_order_release, memory_order_relaxed);
	if (atomic_load_explicit(&to->head, memory_order_acquire) != 0 ||
		!write_image(&m->to->shape, to, &image))
		return;
	section_count_entry(m->to);
	if (m->is_copy)
		/* relaxed: a count that only people read */
		atomic_fetch_sub_explicit(&m->from->tally->entries, 1, memory_order_relaxed);
}

static void move_entries(struct move *m, struct section *from, uint64_t source, bool is_copy)
{
	struct history history;
	struct image image;

	m->from = from;
	m->source = source;
	m->is_copy = is_copy;
	for (unsigned way = 0; way < BUCKET_WAYS && !m->is_done; way++)
		move_entry(m, section_entry(from, source, way), &history);
	if (m->is_done ||
		!make_image(m, section_entry(from, source, BUCKET_WAYS), &history, &image))
		return;
	write_image(&m->to->shape, section_entry(m->to, m->bucket, BUCKET_WAYS), &image);
	m->occupied |= 1u << BUCKET_WAYS;
}

/* What the old section has. True: the bucket was split there, and so is this one. */
static bool move_old(struct move *m, struct section *old)
{
	uint64_t word = 0;

	m->now = close_old(m->to, old);
	/* What was on its way there from the level below comes first. */
	section_move_bucket(old, m->bucket);
	if (!word_is_split(section_freeze_bucket(old, m->bucket, false))) {
		move_entries(m, old, m->bucket, false);
		return false;
	}
	/* acq_rel: as every change of a word */
	atomic_compare_exchange_strong_explicit(section_word(m->to, m->bucket), &word, WORD_SPLIT,
		memory_order_acq_rel, memory_order_relaxed);
	return true;
}

SELDOM static bool move_bucket(struct section *s, struct section *old, uint64_t bucket)
{
	struct move m = {.to = s, .bucket = bucket};
	uint64_t none = 0;

	if (old != NULL && move_old(&m, old))
		return true;
	if (section_is_upper(s) && word_is_split(section_load_word(s->below, bucket / 2))) {
		section_freeze_bucket(s->below, bucket / 2, true);
		move_entries(&m, s->below, bucket / 2, true);
	}
	if (m.is_done)
		return true;
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

	return (old != NULL || section_is_upper(s)) &&
	       atomic_load_explicit(section_word(s, bucket), memory_order_acquire) == 0 &&
	       move_bucket(s, old, bucket);
}

static void visit_move(struct section *s, uint64_t bucket, void *unused)
{
	(void)unused;
	section_move_bucket(s, bucket);
}

void section_move_all(struct section *s)
{
	if (atomic_load_explicit(&s->old, memory_order_acquire) == NULL)
		return;
	for (uint64_t bucket = 0; bucket < s->buckets; bucket++)
		section_visit(s, bucket, visit_move, NULL);
	for (; s != NULL; s = s->next)
		/* release: who sees that it is gone sees what was moved */
		atomic_store_explicit(&s->old, NULL, memory_order_release);
}

void section_split_all(struct section *s)
{
	for (uint64_t bucket = 0; bucket < s->buckets; bucket++) {
		section_freeze_bucket(s, bucket, true);
		section_move_bucket(s->next, 2 * bucket);
		section_move_bucket(s->next, 2 * bucket + 1);
	}
}
