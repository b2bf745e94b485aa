/* Buckets of a file that may be damaged, or of a move that can't be continued; see section.h. */
#include "throttle/section.h"
#include "throttle/section_move.h"

/* A word of no insertion, or of one that is done or only lacks its tag and birth. */
static bool word_can_be(const struct section *s, uint64_t bucket, uint64_t word)
{
	uint64_t own = word & ~(WORD_FROZEN | WORD_MOVED), head;
	struct entry *e;

	if (word_is_split(word)) {
		if (section_next(s) == NULL)
			return false;
		own = word_insertion(word);
	}
	if ((own & FINGERPRINT_MASK) == 0)
		return own == 0;
	if (word_way(word) >= BUCKET_WAYS || ((word & WORD_MOVED) != 0 && !word_is_split(word)))
		return false;
	e = section_entry(s, bucket, word_way(word));
	/* relaxed: at opening */
	head = atomic_load_explicit(&e->head, memory_order_relaxed);
	return atomic_load_explicit(&e->tag, memory_order_relaxed) == own ||
	       (head_is_tombstone(head) && (head ^ make_tombstone(own)) == 0);
}

/* Has a bucket something of the level below? One that is only frozen has not: a move to a newer
 * table freezes it where the newer one was split, whether the older one was or not. */
static bool has_callers(const struct section *s, uint64_t bucket)
{
	return (section_load_word(s, bucket) & ~WORD_FROZEN) != 0;
}

/* Was it split, whatever its word says? Then something of it is frozen, and there are callers in
 * the next level. */
static bool was_split(const struct section *s, uint64_t bucket)
{
	const struct section *next = section_next(s);
	bool is_frozen = false;

	/* relaxed: at opening */
	for (unsigned way = 0; next != NULL && way <= BUCKET_WAYS; way++)
		is_frozen |= head_is_frozen(atomic_load_explicit(
			&section_entry(s, bucket, way)->head, memory_order_relaxed));
	return is_frozen && (has_callers(next, 2 * bucket) || has_callers(next, 2 * bucket + 1));
}

/* Without a tag it is nobody's, but what is behind such a place would not be found. (Without a head
 * it is given away as any empty one, or is still to be moved to.) */
static void repair_entry(struct entry *e)
{
	/* relaxed: at opening */
	uint64_t tag = atomic_load_explicit(&e->tag, memory_order_relaxed);
	uint64_t head = atomic_load_explicit(&e->head, memory_order_relaxed);

	if (tag != 0 || head == 0)
		return;
	atomic_compare_exchange_strong_explicit(&e->head, &head, HEAD_SPECIAL | HEAD_TOMBSTONE,
		memory_order_relaxed, memory_order_relaxed);
	atomic_compare_exchange_strong_explicit(
		&e->tag, &tag, section_tag(0, 0, 1), memory_order_relaxed, memory_order_relaxed);
}

void section_repair(struct section *s, uint64_t bucket)
{
	/* relaxed: at opening */
	uint64_t word = atomic_load_explicit(section_word(s, bucket), memory_order_relaxed);

	if (word_is_split(word) && section_next(s) != NULL)
		return; /* nothing is looked for here any more */
	if (was_split(s, bucket))
		atomic_compare_exchange_strong_explicit(section_word(s, bucket), &word, WORD_SPLIT,
			memory_order_relaxed, memory_order_relaxed);
	else if (!word_can_be(s, bucket, word) || word == WORD_MOVED)
		atomic_compare_exchange_strong_explicit(section_word(s, bucket), &word, 0,
			memory_order_relaxed, memory_order_relaxed);
	for (unsigned way = 0; way < BUCKET_WAYS; way++)
		repair_entry(section_entry(s, bucket, way));
}

static void thaw(_Atomic(uint64_t) *word, uint64_t was, uint64_t thawed)
{
	/* relaxed: at opening */
	if (thawed != was)
		atomic_compare_exchange_strong_explicit(
			word, &was, thawed, memory_order_relaxed, memory_order_relaxed);
}

/* Has nothing moved here from the level below? Then it was frozen where the newer table was split
 * and this one was not, and is to be as it was before. */
static bool is_unmoved(const struct section *s, uint64_t bucket, uint64_t word)
{
	return word == WORD_FROZEN && section_is_upper(s) &&
	       !word_is_split(section_load_word(s->below, bucket / 2));
}

/* Where another process has it open only buckets of the move are touched. Their words come last:
 * one that isn't frozen may be split at any time, and then its entries are frozen for good. */
void section_thaw(struct section *s, uint64_t bucket, bool is_alone)
{
	/* relaxed: at opening */
	uint64_t word = atomic_load_explicit(section_word(s, bucket), memory_order_relaxed);

	bool is_new;

	if (word_is_split(word) || (!is_alone && !(word & WORD_FROZEN)))
		return;
	is_new = is_unmoved(s, bucket, word);
	for (unsigned way = 0; way <= BUCKET_WAYS; way++) {
		struct entry *e = section_entry(s, bucket, way);
		uint64_t head = atomic_load_explicit(&e->head, memory_order_relaxed);
		/* What freeze_entry makes of a tombstone. */
		uint64_t nobodys = way < BUCKET_WAYS && !is_new ? HEAD_SPECIAL | HEAD_TOMBSTONE : 0;

		if (head_is_frozen(head))
			thaw(&e->head, head, head == HEAD_SPECIAL ? nobodys : head & ~HEAD_SPECIAL);
	}
	thaw(section_word(s, bucket), word, word & ~WORD_FROZEN);
}
