/* Finding and inserting callers; see section.h for the way of an insertion. */
#include "throttle/section.h"

#include <string.h>

#include "throttle/section_move.h"
#include "throttle/store.h"

/*
 *   word, tag:   frozen | moved | sequence (6) | way (4) | fingerprint (52)
 *   tombstone:   the head's two top bits       | sequence | fingerprint of who is to come
 */
uint64_t section_tag(uint64_t fingerprint, unsigned way, unsigned sequence)
{
	return (uint64_t)(sequence & 63) << 56 | (uint64_t)way << FINGERPRINT_BITS | fingerprint;
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
	return buckets * (BUCKET_WAYS + 1) * shape->entry_bytes;
}

void section_lay(struct section *section, void *memory, uint64_t buckets)
{
	section->buckets = buckets;
	section->bucket_bytes = (BUCKET_WAYS + 1) * (uint64_t)section->shape.entry_bytes;
	for (unsigned way = 0; way + 1 < BUCKET_WAYS; way++)
		section->second[way] = way % 2 == 0 ? section->shape.entry_bytes
						    : -(int64_t)section->shape.entry_bytes;
	section->second[BUCKET_WAYS - 1] = 0; /* with the overflow's, which is nobody's place */
	section->entries = memory;
	section->pages = section->buckets * section->bucket_bytes / 4096;
}

#define FAR_STEP 3 /* from there on all that is left is asked for at once */

struct sight section_look_on(const struct section *s, struct aim aim)
{
	const size_t bytes = s->shape.entry_bytes;
	unsigned char *bucket = (unsigned char *)aim.entry - aim.way * bytes;

	for (unsigned step = 1; step <= BUCKET_WAYS; step++) {
		const unsigned way = section_way(aim.way, step);
		struct sight sight = {.entry = (struct entry *)(void *)(bucket + way * bytes)};
		uint64_t tag;

		if (way == BUCKET_WAYS)
			continue;
		/* Most are in one of the first places; who isn't may be anywhere, or nowhere. */
		if (step == 1)
			__builtin_prefetch(bucket + section_way(aim.way, 2) * bytes);
		for (unsigned w = 0; step == FAR_STEP && w < BUCKET_WAYS; w++)
			__builtin_prefetch(bucket + w * bytes);
		/* acquire, relaxed: as in section_look_first */
		sight.head = atomic_load_explicit(&sight.entry->head, memory_order_acquire);
		tag = atomic_load_explicit(&sight.entry->tag, memory_order_relaxed);
		if ((tag & FINGERPRINT_MASK) == aim.fingerprint)
			return sight;
		if (tag == 0)
			break;
	}
	return (struct sight){0};
}

bool section_find(const struct section *s, struct throttle_key key, struct place *place)
{
	struct aim aim;

	section_aim(s, key, &aim);
	place->is_overflow = false;
	place->fingerprint = aim.fingerprint;
	place->entry = section_look(s, &aim).entry;
	return place->entry != NULL;
}

/* What the bucket's overflow has in use; and the time that a charge of it would be recorded at, or
 * 0. */
static uint64_t overflow_used(const struct section *s, uint64_t bucket, uint64_t now, uint64_t *at)
{
	struct entry *e = section_entry(s, bucket, BUCKET_WAYS);
	struct plan plan;

	*at = 0;
	/* seq_cst: for a birth, after the word was swapped; see charge_commit */
	if (atomic_load_explicit(&e->head, memory_order_seq_cst) == 0 ||
		s->ops->plan(&s->shape, e, 0, now, HOW_LOOK, &plan) != ENTRY_READY)
		return 0;
	if (s->shape.form == FORM_RING || s->shape.form == FORM_WINDOW)
		*at = plan.at;
	return plan.used;
}

/* Never before what it stands for was recorded, which can be ahead of the newest time after a
 * change of limits: `at`, also where nothing of it is in use any more (but would be for a slower
 * clock). With nothing to stand for, as any charge is judged. */
static uint64_t birth_time(const struct section *s, uint64_t now, uint64_t used, uint64_t at)
{
	uint64_t latest = latest_of(&s->shape);

	now = used > 0 ? (now > latest ? now : latest) + TIME_STEP_NS
		       : time_after_head(&s->shape, now);
	return now > at ? now : at;
}

/* Does what an insertion has left to do: its tag, and its entry's birth. */
SELDOM static void complete(struct section *s, uint64_t number, uint64_t word, uint64_t now)
{
	unsigned way = word_way(word);
	_Atomic(uint64_t) *bucket_word = section_word(s, number);
	struct entry *e = section_entry(s, number, way);
	struct birth birth = {.sequence = word_sequence(word)};
	uint64_t at, head;
	/* acquire: so that the word is looked at after it */
	uint64_t tag = atomic_load_explicit(&e->tag, memory_order_acquire);

	/* seq_cst: orders the look at the overflow after the swap of the word, by any thread */
	if ((word & FINGERPRINT_MASK) == 0 ||
		atomic_load_explicit(bucket_word, memory_order_seq_cst) != word)
		return;
	if (tag != word)
		/* release: pairs with entry_is_of. A tag is never the same twice: it has a sequence
		 */
		atomic_compare_exchange_strong_explicit(
			&e->tag, &tag, word, memory_order_release, memory_order_relaxed);
	head = atomic_load_explicit(&e->head, memory_order_acquire);
	/* A tombstone of the next sequence is of who wants the entry after this caller. */
	if (!head_is_tombstone(head) || tombstone_sequence(head) != word_sequence(word) ||
		atomic_load_explicit(bucket_word, memory_order_relaxed) != word)
		return;
	birth.head = head;
	birth.used = overflow_used(s, number, now, &at);
	birth.now = birth_time(s, now, birth.used, at);
	s->ops->make(&s->shape, e, &birth);
}

static unsigned way_of(const struct section *s, uint64_t number, const struct entry *e)
{
	const unsigned char *first = (const unsigned char *)section_entry(s, number, 0);

	return (unsigned)((size_t)((const unsigned char *)e - first) / s->shape.entry_bytes);
}

/* An entry to give away: the caller's own one left half inserted, a free one, an empty one. */
static unsigned choose_way(
	struct section *s, uint64_t number, unsigned first, uint64_t now, uint64_t *head)
{
	for (unsigned w = 0; w < BUCKET_WAYS; w++)
		__builtin_prefetch(section_entry(s, number, w));
	for (unsigned step = 0; step <= BUCKET_WAYS; step++) {
		const unsigned way = section_way(first, step);
		struct entry *e = section_entry(s, number, way);

		if (way == BUCKET_WAYS)
			continue;
		*head = atomic_load_explicit(&e->head, memory_order_acquire);
		/* relaxed: without a tag it was never anybody's, whatever a damaged file says */
		if (atomic_load_explicit(&e->tag, memory_order_relaxed) == 0 || *head == 0 ||
			head_is_tombstone(*head) ||
			(!(*head & HEAD_SPECIAL) && s->ops->is_empty(&s->shape, *head, now)))
			return way;
	}
	return BUCKET_WAYS;
}

#define CALLERS_A_PAGE 4    /* of 4 kB: then hardly any is untouched */
#define CALLERS_A_LOOK 1024 /* after so many more another large page is made */

static void want_growth(const struct section *s)
{
	/* relaxed: a hint; the next one who wants it says so again */
	if (atomic_load_explicit(s->wants_growth, memory_order_relaxed) == 0)
		atomic_store_explicit(s->wants_growth, 1, memory_order_relaxed);
}

/* When the callers lie on all of the pages, large ones take no more memory: one at a time, since
 * that is a copy of 2 MB. */
void section_count_entry(const struct section *s)
{
	/* relaxed: a count that only people read, and this */
	uint64_t n = atomic_fetch_add_explicit(&s->tally->entries, 1, memory_order_relaxed);
	bool is_upper = section_is_upper(s);

	if (n >= CALLERS_A_PAGE * s->pages && n % CALLERS_A_LOOK == 0)
		store_use_large_page(s->entries, s->buckets * s->bucket_bytes,
			(n - CALLERS_A_PAGE * s->pages) / CALLERS_A_LOOK);
	if (is_upper ? n % (s->buckets / SECTION_SOME + 1) == 0
		     : n == s->buckets * SECTION_CROWDED && s->next != NULL)
		want_growth(s);
}

enum inserted { INSERTED, INSERTED_NOT, INSERTED_FULL, INSERTED_FROZEN };

/* One attempt. NOT: something has changed, look again. `word` is set to what the bucket's was. */
SELDOM static enum inserted insert(
	struct section *s, uint64_t number, struct throttle_key key, uint64_t now, uint64_t *word)
{
	_Atomic(uint64_t) *bucket_word = section_word(s, number);
	uint64_t next, head, tombstone;
	struct sight own;
	struct aim aim;
	struct entry *e;
	unsigned way, first;

	/* acquire: pairs with the swap below */
	*word = atomic_load_explicit(bucket_word, memory_order_acquire);
	if (*word & WORD_FROZEN)
		return INSERTED_FROZEN;
	complete(s, number, *word, now);
	section_aim(s, key, &aim);
	own = section_look(s, &aim);
	if (own.entry != NULL && own.head != 0 && !head_is_tombstone(own.head))
		return INSERTED_NOT;
	first = own.entry != NULL ? way_of(s, number, own.entry) : aim.way;
	way = choose_way(s, number, first, now, &head);
	/* Its own was born meanwhile: it must not get another one. */
	if (own.entry != NULL && way != first)
		return INSERTED_NOT;
	if (way == BUCKET_WAYS)
		return INSERTED_FULL;
	e = section_entry(s, number, way);
	next = section_tag(aim.fingerprint, way, word_sequence(*word) + 1);
	tombstone = make_tombstone(next);
	/* acq_rel: from here on nobody charges the entry's last caller */
	if (head != tombstone && !atomic_compare_exchange_strong_explicit(&e->head, &head,
					 tombstone, memory_order_acq_rel, memory_order_relaxed))
		return INSERTED_NOT;
	/* seq_cst: decides. Pairs with the look at the word after a charge of the overflow entry:
	 * either that sees this insertion, or this caller's birth sees that charge. */
	if (!atomic_compare_exchange_strong_explicit(
		    bucket_word, word, next, memory_order_seq_cst, memory_order_relaxed))
		return INSERTED_NOT;
	complete(s, number, next, now);
	/* relaxed: counts that only people read */
	if (head == 0)
		section_count_entry(s);
	else if (!head_is_tombstone(head))
		atomic_fetch_add_explicit(&s->tally->evicted, 1, memory_order_relaxed);
	return INSERTED;
}

SELDOM static void place_overflow(
	struct section *s, uint64_t number, uint64_t now, struct place *place)
{
	const struct birth birth = {.now = birth_time(s, now, 0, 0)};

	place->is_overflow = true;
	place->section = s;
	place->entry = place->overflow = section_entry(s, number, BUCKET_WAYS);
	if (atomic_load_explicit(&place->entry->head, memory_order_acquire) == 0)
		s->ops->make(&s->shape, place->entry, &birth);
}

/* Of one level. */
enum looked { LOOKED_THERE, LOOKED_NONE, LOOKED_MOVED, LOOKED_SPLIT };

static enum looked look_gone(uint64_t word)
{
	return word_is_split(word) ? LOOKED_SPLIT : LOOKED_MOVED;
}

/* No place is left: its callers get more. Else the overflow is theirs. */
SELDOM static enum looked look_full(
	struct section *s, uint64_t number, uint64_t now, struct place *place)
{
	if (section_next(s) != NULL)
		return look_gone(section_freeze_bucket(s, number, true));
	if (s->next != NULL)
		want_growth(s);
	place_overflow(s, number, now, place);
	return LOOKED_THERE;
}

static enum looked locate_here(
	struct section *s, struct throttle_key key, uint64_t now, bool make, struct place *place)
{
	uint64_t number = section_bucket_of(s, key);

	place->section = s;
	place->overflow = section_entry(s, number, BUCKET_WAYS);
	/* Who comes here was mostly missed already: nobody is in a bucket that was split. */
	if (s->next != NULL && word_is_split(section_load_word(s, number)))
		return LOOKED_SPLIT;
	for (;;) {
		/* What was moved before this is found. */
		bool is_moved = section_is_moved(s, number);
		bool is_found = section_find(s, key, place);
		enum inserted inserted;
		uint64_t head;

		if (is_found) {
			head = atomic_load_explicit(&place->entry->head, memory_order_acquire);
			if (head != 0 && !(head & HEAD_SPECIAL))
				return LOOKED_THERE;
			if (head_is_frozen(head))
				return look_gone(section_load_word(s, number));
		}
		if (!is_moved && (section_move_bucket(s, number) || section_is_moved(s, number)))
			continue;
		if (!make) {
			/* acquire: as in insert() */
			place->word =
				atomic_load_explicit(&place->overflow->tag, memory_order_acquire);
			if (place->word & WORD_FROZEN)
				return look_gone(place->word);
			if ((place->word & FINGERPRINT_MASK) != place->fingerprint)
				return LOOKED_NONE;
			complete(s, number, place->word, now);
			if (is_found)
				return LOOKED_NONE; /* somebody's half-done change of hands */
			continue;
		}
		inserted = insert(s, number, key, now, &place->word);
		if (inserted == INSERTED_FROZEN)
			return look_gone(place->word);
		if (inserted == INSERTED_FULL)
			return look_full(s, number, now, place);
	}
}

enum located section_locate(
	struct section *s, struct throttle_key key, uint64_t now, bool make, struct place *place)
{
	enum looked looked = locate_here(s, key, now, make, place);

	for (; looked == LOOKED_SPLIT && s->next != NULL; s = s->next)
		looked = locate_here(s->next, key, now, make, place);
	if (looked == LOOKED_THERE)
		return LOCATED;
	return looked == LOOKED_NONE ? LOCATED_NONE : LOCATED_MOVED;
}

/* Where a caller without an entry of its own is judged. */
static struct section *last_of(struct section *s, struct throttle_key key, uint64_t *number)
{
	for (;; s = s->next) {
		*number = section_bucket_of(s, key);
		section_move_bucket(s, *number);
		if (s->next == NULL || !word_is_split(section_load_word(s, *number)))
			return s;
	}
}

uint64_t section_overflow_used(struct section *s, struct throttle_key key, uint64_t now)
{
	uint64_t number, at;

	s = last_of(s, key, &number);
	return overflow_used(s, number, now, &at);
}

void section_overflow(struct section *s, struct throttle_key key, uint64_t now, struct place *place)
{
	uint64_t number;

	s = last_of(s, key, &number);
	place->word = section_load_word(s, number);
	place_overflow(s, number, now, place);
}

enum overflow_ended section_end_overflow(
	struct section *s, uint64_t bucket, uint64_t units, uint64_t now)
{
	struct when when = {0}; /* of what is in flight only how much it is counts */
	struct place place;
	uint64_t word;

	section_move_bucket(s, bucket);
	place_overflow(s, bucket, now, &place);
	if (s->ops->refund(&s->shape, place.entry, &when, units, now))
		return OVERFLOW_ENDED;
	word = section_load_word(s, bucket);
	if (word_is_split(word) && s->next != NULL)
		return OVERFLOW_SPLIT;
	return word & WORD_FROZEN ? OVERFLOW_MOVED : OVERFLOW_ENDED;
}

static void freeze_entry(struct section *s, struct entry *e)
{
	uint64_t head = atomic_load_explicit(&e->head, memory_order_acquire);

	/* A tombstone is nobody's: it becomes one that can't be born any more. */
	while (head_is_tombstone(head))
		if (atomic_compare_exchange_weak_explicit(&e->head, &head, HEAD_SPECIAL,
			    memory_order_acq_rel, memory_order_acquire))
			return;
	if (!(head & HEAD_SPECIAL))
		s->ops->freeze(&s->shape, e);
}

static uint64_t freeze_word(_Atomic(uint64_t) *at, bool is_split)
{
	uint64_t word = atomic_load_explicit(at, memory_order_acquire), next;

	do {
		if (word & WORD_FROZEN)
			return word;
		next = word | WORD_FROZEN;
		if (is_split)
			next |= word_insertion(word) != 0 ? WORD_MOVED : WORD_SPLIT;
		/* acq_rel: what was inserted before is seen by who moves it */
	} while (!atomic_compare_exchange_weak_explicit(
		at, &word, next, memory_order_acq_rel, memory_order_acquire));
	return next;
}

uint64_t section_freeze_bucket(struct section *s, uint64_t number, bool is_split)
{
	uint64_t word = freeze_word(section_word(s, number), is_split);
	uint64_t own = word_insertion(word), tag;

	if (word_is_split(word) != is_split)
		return word;
	if (own != 0) { /* the insertion under way gets its tag */
		struct entry *e = section_entry(s, number, word_way(word));

		tag = atomic_load_explicit(&e->tag, memory_order_acquire);
		if (tag != own)
			atomic_compare_exchange_strong_explicit(
				&e->tag, &tag, own, memory_order_release, memory_order_relaxed);
	}
	for (unsigned way = 0; way <= BUCKET_WAYS; way++)
		freeze_entry(s, section_entry(s, number, way));
	return word;
}

void section_visit(struct section *s, uint64_t bucket,
	void (*visit)(struct section *, uint64_t, void *), void *argument)
{
	struct section *next = section_next(s);

	visit(s, bucket, argument);
	if (next == NULL || !word_is_split(section_load_word(s, bucket)))
		return;
	section_visit(next, 2 * bucket, visit, argument);
	section_visit(next, 2 * bucket + 1, visit, argument);
}

/* ---- section repair ------------------------------------------------------------------------- */

/* Buckets of a file that may be damaged, or of a move that can't be continued; see section.h. */

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
