/* Finding and inserting callers; see section.h for the way of an insertion. */
#include "throttle/section.h"
#include "throttle/section_move.h"

#include <string.h>

/*
 *   word, tag:   frozen | - | sequence (6) | way (4) | fingerprint (52)
 *   tombstone:   the head's two top bits   | sequence | fingerprint of who is to come
 */
#define WORD_FROZEN (UINT64_C(1) << 63)

static inline uint64_t make_word(uint64_t fingerprint, unsigned way, unsigned sequence)
{
	return (uint64_t)(sequence & 63) << 56 | (uint64_t)way << FINGERPRINT_BITS | fingerprint;
}

static inline unsigned word_way(uint64_t word)
{
	return (unsigned)(word >> FINGERPRINT_BITS) & 15;
}

static inline unsigned word_sequence(uint64_t word)
{
	return (unsigned)(word >> 56) & 63;
}

static inline unsigned tombstone_sequence(uint64_t head)
{
	return (unsigned)(head >> FINGERPRINT_BITS) & 63;
}

static inline uint64_t make_tombstone(uint64_t word)
{
	return HEAD_SPECIAL | HEAD_TOMBSTONE | (uint64_t)word_sequence(word) << FINGERPRINT_BITS |
	       (word & FINGERPRINT_MASK);
}

/* The rest of a key follows from its bucket, whose keys are fewer than there are fingerprints. */
struct throttle_key section_key_of(const struct section *s, uint64_t bucket, uint64_t tag)
{
	uint64_t fingerprint = tag & FINGERPRINT_MASK;
	uint64_t least =
		(uint64_t)((((unsigned __int128)bucket << KEY_BITS) + s->buckets - 1) / s->buckets);
	uint64_t id = (least & ~FINGERPRINT_MASK) | fingerprint;

	if (id < least)
		id += FINGERPRINT_MASK + 1;
	return (struct throttle_key){.lo = id << (64 - KEY_BITS)};
}

uint64_t section_buckets_for(uint64_t callers)
{
	/* A quarter more than asked for, since buckets don't fill evenly. */
	uint64_t buckets = (callers + callers / 4 + BUCKET_WAYS - 1) / BUCKET_WAYS;

	return buckets > SECTION_LEAST_BUCKETS ? buckets : SECTION_LEAST_BUCKETS;
}

uint64_t section_bytes(const struct shape *shape, uint64_t buckets)
{
	return buckets * (sizeof(struct bucket) + (BUCKET_WAYS + 1) * (uint64_t)shape->entry_bytes);
}

void section_lay(struct section *section, void *memory, uint64_t buckets)
{
	section->buckets = buckets;
	section->index = memory;
	section->entries = (unsigned char *)memory + buckets * sizeof(struct bucket);
}

static inline bool has_tag(const struct bucket *bucket, unsigned way, uint64_t fingerprint)
{
	/* acquire: pairs with the swap of the tag in complete(): the entry was born after it */
	uint64_t tag = atomic_load_explicit(&bucket->tag[way], memory_order_acquire);

	return (tag & FINGERPRINT_MASK) == fingerprint;
}

static unsigned find_tag(const struct bucket *bucket, uint64_t fingerprint)
{
	unsigned way = section_preferred_way(fingerprint);

	if (has_tag(bucket, way, fingerprint))
		return way;
	for (way = 0; way < BUCKET_WAYS; way++)
		if (has_tag(bucket, way, fingerprint))
			break;
	return way;
}

/* What the bucket's overflow has in use: what a newcomer begins with. */
static uint64_t overflow_used(const struct section *s, uint64_t bucket, uint64_t now)
{
	struct entry *e = section_entry(s, bucket, BUCKET_WAYS);
	struct plan plan;

	if (atomic_load_explicit(&e->head, memory_order_acquire) == 0 ||
		s->ops->plan(&s->shape, e, 0, now, HOW_LOOK, &plan) != ENTRY_READY)
		return 0;
	return plan.used;
}

/* Writes what the old section remembers of the caller into its new entry, and gives its head; 0
 * when it remembers nothing. Whoever does it does the same: the old one is frozen. */
SELDOM static uint64_t write_image(struct section *s, struct entry *e, uint64_t tombstone,
	struct throttle_key key, uint64_t *used)
{
	struct image image;
	uint32_t slots = s->shape.first_slot + s->shape.slots;
	uint64_t units;

	memset(image.slot, 0, slots * sizeof(image.slot[0]));
	if (!section_recall(s, key, &image, &units))
		return 0;
	if (*used > 0) {
		*used += units; /* both at once, as of now: the image has no room for it */
		return 0;
	}
	for (uint32_t i = 0; i < slots; i++) {
		uint32_t old = atomic_load_explicit(&e->slot[i], memory_order_acquire);

		if (atomic_load_explicit(&e->head, memory_order_relaxed) != tombstone)
			return 0;
		if (old != image.slot[i])
			/* release: pairs with the acquire loads of slots */
			atomic_compare_exchange_strong_explicit(&e->slot[i], &old, image.slot[i],
				memory_order_release, memory_order_relaxed);
	}
	return image.head;
}

/* Never before what it stands for was recorded; with nothing to stand for, as any charge is judged.
 */
static uint64_t birth_time(const struct section *s, uint64_t now, uint64_t used)
{
	/* relaxed: ordered after the loads of the heads */
	uint64_t latest = atomic_load_explicit(s->shape.latest, memory_order_relaxed);

	if (used == 0)
		return time_after_head(&s->shape, now);
	return (now > latest ? now : latest) + TIME_STEP_NS;
}

/* Does what an insertion has left to do: its tag, and its entry's birth. */
SELDOM static void complete(struct section *s, struct bucket *bucket, uint64_t word, uint64_t now)
{
	unsigned way = word_way(word);
	uint64_t number = (uint64_t)(bucket - s->index), used, head, born = 0;
	struct entry *e = section_entry(s, number, way);
	/* acquire: so that the word is looked at after it */
	uint64_t tag = atomic_load_explicit(&bucket->tag[way], memory_order_acquire);

	if (word == 0 || atomic_load_explicit(&bucket->word, memory_order_relaxed) != word)
		return;
	if (tag != word)
		/* release: pairs with has_tag. A tag is never the same twice: it has a sequence */
		atomic_compare_exchange_strong_explicit(
			&bucket->tag[way], &tag, word, memory_order_release, memory_order_relaxed);
	head = atomic_load_explicit(&e->head, memory_order_acquire);
	/* A tombstone of the next sequence is of who wants the entry after this caller. */
	if (!head_is_tombstone(head) || tombstone_sequence(head) != word_sequence(word) ||
		atomic_load_explicit(&bucket->word, memory_order_relaxed) != word)
		return;
	if (s->ops->clear != NULL)
		s->ops->clear(&s->shape, e, head);
	used = overflow_used(s, number, now);
	now = birth_time(s, now, used);
	if (atomic_load_explicit(&s->old, memory_order_acquire) != NULL)
		born = write_image(s, e, head, section_key_of(s, number, word), &used);
	if (born == 0)
		born = s->ops->fresh(&s->shape, used, now, word_sequence(word));
	/* acq_rel: as every change of a head */
	atomic_compare_exchange_strong_explicit(
		&e->head, &head, born, memory_order_acq_rel, memory_order_relaxed);
}

/* An entry to give away: the caller's own one left half inserted, a free one, an empty one. */
static unsigned choose_way(
	struct section *s, uint64_t number, uint64_t fingerprint, uint64_t now, uint64_t *head)
{
	struct bucket *bucket = &s->index[number];
	unsigned own = find_tag(bucket, fingerprint);
	unsigned first = own < BUCKET_WAYS ? own : section_preferred_way(fingerprint);

	for (unsigned i = 0; i < BUCKET_WAYS; i++) {
		unsigned way = first + i < BUCKET_WAYS ? first + i : first + i - BUCKET_WAYS;
		struct entry *e = section_entry(s, number, way);

		if (i == 0)
			for (unsigned w = 0; w < BUCKET_WAYS; w++)
				__builtin_prefetch(section_entry(s, number, w));
		*head = atomic_load_explicit(&e->head, memory_order_acquire);
		if (*head == 0 || head_is_tombstone(*head) ||
			(!(*head & HEAD_SPECIAL) && s->ops->is_empty(&s->shape, *head, now)))
			return way;
	}
	return BUCKET_WAYS;
}

enum inserted { INSERTED, INSERTED_NOT, INSERTED_FULL, INSERTED_FROZEN };

/* One attempt. NOT: something has changed, look again. `word` is set to what the bucket's was. */
SELDOM static enum inserted insert(
	struct section *s, uint64_t number, uint64_t fingerprint, uint64_t now, uint64_t *word)
{
	struct bucket *bucket = &s->index[number];
	uint64_t next, head, tombstone;
	struct entry *e;
	unsigned way;

	/* acquire: pairs with the swap below */
	*word = atomic_load_explicit(&bucket->word, memory_order_acquire);
	if (*word & WORD_FROZEN)
		return INSERTED_FROZEN;
	complete(s, bucket, *word, now);
	way = find_tag(bucket, fingerprint);
	if (way < BUCKET_WAYS &&
		!head_is_tombstone(atomic_load_explicit(
			&section_entry(s, number, way)->head, memory_order_acquire)))
		return INSERTED_NOT;
	way = choose_way(s, number, fingerprint, now, &head);
	if (way == BUCKET_WAYS)
		return INSERTED_FULL;
	e = section_entry(s, number, way);
	next = make_word(fingerprint, way, word_sequence(*word) + 1);
	tombstone = make_tombstone(next);
	/* acq_rel: from here on nobody charges the entry's last caller */
	if (head != tombstone && !atomic_compare_exchange_strong_explicit(&e->head, &head,
					 tombstone, memory_order_acq_rel, memory_order_relaxed))
		return INSERTED_NOT;
	/* seq_cst: decides. Pairs with the look at the word after a charge of the overflow entry:
	 * either that sees this insertion, or this caller's birth sees that charge. */
	if (!atomic_compare_exchange_strong_explicit(
		    &bucket->word, word, next, memory_order_seq_cst, memory_order_relaxed))
		return INSERTED_NOT;
	complete(s, bucket, next, now);
	/* relaxed: counts that only people read */
	if (head == 0)
		atomic_fetch_add_explicit(&s->tally->entries, 1, memory_order_relaxed);
	else if (!head_is_tombstone(head))
		atomic_fetch_add_explicit(&s->tally->evicted, 1, memory_order_relaxed);
	return INSERTED;
}

SELDOM static enum located place_overflow(
	struct section *s, uint64_t number, uint64_t now, struct place *place)
{
	uint64_t head = 0, fresh;

	place->way = BUCKET_WAYS;
	place->entry = section_entry(s, number, BUCKET_WAYS);
	if (atomic_load_explicit(&place->entry->head, memory_order_acquire) != 0)
		return LOCATED;
	fresh = s->ops->fresh(&s->shape, 0, birth_time(s, now, 0), 0);
	/* acq_rel: as every change of a head */
	atomic_compare_exchange_strong_explicit(
		&place->entry->head, &head, fresh, memory_order_acq_rel, memory_order_relaxed);
	return LOCATED;
}

static void aim(struct section *s, struct throttle_key key, struct place *place, uint64_t *number)
{
	uint64_t id = section_identity(key);

	*number = section_bucket_of(s, id);
	place->bucket = &s->index[*number];
	place->fingerprint = section_fingerprint_of(id);
}

enum located section_locate(
	struct section *s, struct throttle_key key, uint64_t now, bool make, struct place *place)
{
	uint64_t number;

	aim(s, key, place, &number);
	for (;;) {
		unsigned way = find_tag(place->bucket, place->fingerprint);
		enum inserted inserted;
		uint64_t head;

		if (way < BUCKET_WAYS) {
			place->way = way;
			place->entry = section_entry(s, number, way);
			head = atomic_load_explicit(&place->entry->head, memory_order_acquire);
			if (!(head & HEAD_SPECIAL))
				return LOCATED;
			if (head_is_frozen(head))
				return LOCATED_MOVED;
		}
		if (!make) {
			/* acquire: as in insert() */
			place->word =
				atomic_load_explicit(&place->bucket->word, memory_order_acquire);
			if ((place->word & FINGERPRINT_MASK) != place->fingerprint)
				return place->word & WORD_FROZEN ? LOCATED_MOVED : LOCATED_NONE;
			if (place->word & WORD_FROZEN)
				return LOCATED_MOVED;
			complete(s, place->bucket, place->word, now);
			if (way < BUCKET_WAYS)
				return LOCATED_NONE; /* somebody's half-done change of hands */
			continue;
		}
		section_freeze_old(s, key);
		inserted = insert(s, number, place->fingerprint, now, &place->word);
		if (inserted == INSERTED_FROZEN)
			return LOCATED_MOVED;
		if (inserted == INSERTED_FULL)
			return place_overflow(s, number, now, place);
	}
}

enum located section_overflow(
	struct section *s, struct throttle_key key, uint64_t now, struct place *place)
{
	uint64_t number;

	aim(s, key, place, &number);
	place->word = atomic_load_explicit(&place->bucket->word, memory_order_acquire);
	return place_overflow(s, number, now, place);
}

void section_prefetch(const struct section *s, struct throttle_key key)
{
	uint64_t id = section_identity(key), number = section_bucket_of(s, id);
	const char *e = (const char *)section_entry(
		s, number, section_preferred_way(section_fingerprint_of(id)));

	__builtin_prefetch(&s->index[number]);
	__builtin_prefetch((const char *)&s->index[number] + 64);
	__builtin_prefetch(e);
	__builtin_prefetch(e + 64);
}

/* No more insertions; the one under way is completed. */
void section_freeze_bucket(struct section *s, uint64_t number)
{
	/* acq_rel: what was inserted before is seen by who moves it */
	uint64_t word =
		atomic_fetch_or_explicit(&s->index[number].word, WORD_FROZEN, memory_order_acq_rel);
	unsigned way = word_way(word);
	uint64_t tag, own = word & ~WORD_FROZEN;

	if (own == 0)
		return;
	tag = atomic_load_explicit(&s->index[number].tag[way], memory_order_acquire);
	if (tag != own)
		atomic_compare_exchange_strong_explicit(&s->index[number].tag[way], &tag, own,
			memory_order_release, memory_order_relaxed);
}
