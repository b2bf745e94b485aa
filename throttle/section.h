/*
 * All callers of one limit: buckets of entries.
 *
 *   key --60 bits--> bucket   [ entry 0 | entry 1 | ... | entry 14 | overflow ]
 *                               ^ each begins with its tag         ^ its tag is the bucket's word
 *
 * A caller is found by the tag that carries 52 bits of its key; with its bucket's number they are
 * the 60 bits that distinguish callers. Its key also selects the preferred way of the bucket:
 * there, as a rule, one look finds tag and throttle in the same cache line.
 *
 * One swap of the bucket's word, which names the caller and its place, decides an insertion; the
 * tag and the head follow, by the thread that comes first. Since two threads can't both have
 * swapped the same word, a caller is never in two places.
 *
 *   insertion:   tombstone in an empty entry --> word --> tag --> the entry is born
 *                (nobody can charge it now)      ^ decides
 *
 * Only an empty entry is given away. Where none is, the caller is judged by the bucket's overflow
 * entry; who gets an entry of its own later begins with what that has in use, so that nothing is
 * forgiven by it.
 *
 * A table that grows has its sections in levels, each of twice as many buckets as the one before:
 *
 *   level 0      [ 0 ][ 1 ][ 2 ]...          lookups begin at the level `bottom`
 *   level 1      [0][1][2][3]...             and go on to the next only where a bucket was split
 *   level 2      ...                         `top` is the last whose memory can be used
 *
 * A full bucket b below the top is split: it is frozen for good, with a word that records this, and
 * its callers are copied to the buckets 2b and 2b + 1 of the next level. So memory is used where
 * callers are, and callers share an overflow only at the last level. When many were split, all
 * others of the bottom level are, and that is given back (generation.c). A bucket above the bottom
 * is only looked at after the one below it was seen split: until then nothing of it was ever
 * touched.
 *
 * When limits change, a section has an older one behind it, of the same level. A bucket that nobody
 * has moved yet, from that or from the level below, has a word of 0: a thread that needs more of it
 * than an entry that is there moves it first (section_move.c).
 */
#ifndef THROTTLE_SECTION_H
#define THROTTLE_SECTION_H

#include "throttle/entry.h"

#define BUCKET_WAYS 15            /* the overflow entry comes behind them */
#define PAIR_LEAP   3             /* has no divisor in common with the 8 pairs of them */
#ifndef SECTION_LEAST_BUCKETS     /* the schedule explorer's keys have fewer bits */
#define SECTION_LEAST_BUCKETS 256 /* below that a tag doesn't determine the rest of the key */
#endif
/* So many callers a bucket, or above the bottom for so many buckets one, and the next level is made
 * ready: before a bucket is full, with luck. (At 4 one in a million is, by chance.) */
#define SECTION_CROWDED 4
#define SECTION_SOME    16

struct tally {
	_Atomic(uint64_t) entries, evicted, overflowed;
};

struct section {
	struct shape shape;
	const struct form_ops *ops;
	uint64_t pages;              /* of 4 kB */
	uint64_t buckets;            /* how many, */
	uint64_t bucket_bytes;       /* each of so many */
	int64_t second[BUCKET_WAYS]; /* bytes from each way to the other of its pair, if any */
	unsigned char *entries;
	struct tally *tally;
	_Atomic(struct section *) old; /* what is still to be moved from, or NULL */
	unsigned level;
	struct section *below, *next;    /* the levels before and after; NULL: none */
	const _Atomic(uint64_t) *levels; /* which of them are in use: see section_bottom */
	_Atomic(uint64_t) *wants_growth; /* set when a level should be added or given up */
	uint32_t refunds_since; /* generations whose charges it can give back: see settle.c */
};

/* Where a caller's throttle is. */
struct place {
	struct entry *entry;
	const struct section *section; /* the level that it is in */
	uint64_t fingerprint;
	bool is_overflow;       /* it is the bucket's, not the caller's own */
	struct entry *overflow; /* of the bucket, and the word that it had when it was looked at: */
	uint64_t word;          /* set where the caller has no entry of its own */
};

enum located {
	LOCATED,
	LOCATED_NONE,  /* no such caller, and none was to be made */
	LOCATED_MOVED, /* this section's bucket is frozen: look in the newer one */
};

uint64_t section_buckets_for(uint64_t callers);
uint64_t section_bytes(const struct shape *shape, uint64_t buckets);

/* Lays a section over `memory`, of section_bytes, which is zero or was one of the same shape. */
void section_lay(struct section *section, void *memory, uint64_t buckets);

/* The caller's own entry, whatever its head. False: there is none. */
bool section_find(const struct section *section, struct throttle_key key, struct place *place);

/* Finds the caller's throttle, or with `make` makes it (or gives the overflow's). */
enum located section_locate(struct section *section, struct throttle_key key, uint64_t now,
	bool make, struct place *place);

/* The bucket's one that this caller is judged by without an entry of its own. */
void section_overflow(
	struct section *section, struct throttle_key key, uint64_t now, struct place *place);

/* The overflow's use by which this caller would be judged: what a newcomer begins with. */
uint64_t section_overflow_used(struct section *section, struct throttle_key key, uint64_t now);

/* Gives back units in flight under the overflow of this bucket. */
enum overflow_ended {
	OVERFLOW_ENDED,
	OVERFLOW_SPLIT, /* not given back: by the buckets 2b and 2b + 1 of the next level */
	OVERFLOW_MOVED, /* nor here: by a newer section's */
};
enum overflow_ended section_end_overflow(
	struct section *section, uint64_t bucket, uint64_t units, uint64_t now);

/* Calls `visit` for a bucket of the bottom level, and for all that it was split into. */
void section_visit(struct section *section, uint64_t bucket,
	void (*visit)(struct section *, uint64_t bucket, void *argument), void *argument);

/* A bucket from a file: a word that can't be, or that moving it again restores, becomes one of no
 * insertion; an entry that can't be becomes free. At opening only. */
void section_repair(struct section *section, uint64_t bucket);

/* Entries that were frozen for a move that can't be continued are in use again. At opening only;
 * `is_alone`: no other process has it open. */
void section_thaw(struct section *section, uint64_t bucket, bool is_alone);

/* The bucket's word is the tag of its overflow entry, which needs none. */
#define WORD_FROZEN (UINT64_C(1) << 63) /* moved from: no more insertions */
#define WORD_MOVED  (UINT64_C(1) << 62) /* moved to, and no caller was inserted since */
/* Both: it was split. With this way where it names no insertion that says so, too. */
#define WORD_SPLIT (WORD_FROZEN | WORD_MOVED | UINT64_C(15) << 52)

/* ---- the arithmetic of keys ---- */

#ifndef KEY_BITS /* the schedule explorer's keys have fewer */
#define KEY_BITS 60
#endif
#define FINGERPRINT_BITS 52
_Static_assert(FINGERPRINT_BITS < 62, "a fingerprint leaves a word its two flags");
#define FINGERPRINT_MASK ((UINT64_C(1) << FINGERPRINT_BITS) - 1)

static inline uint64_t section_bucket_of(const struct section *s, struct throttle_key key)
{
	const uint64_t low = (UINT64_C(1) << (64 - KEY_BITS)) - 1;

	return (uint64_t)((unsigned __int128)(key.lo & ~low) * s->buckets >> 64);
}

static inline uint64_t section_fingerprint_of(struct throttle_key key)
{
	uint64_t fingerprint = key.lo >> (64 - KEY_BITS) & FINGERPRINT_MASK;

	return fingerprint != 0 ? fingerprint : 1;
}

/* A caller's entry is here if that was free when the caller came, else in the first free one of the
 * next. An entry that was used once is never unused again: so a caller isn't behind an unused one.
 */
static inline unsigned section_preferred_way(uint64_t fingerprint)
{
	return (unsigned)((uint64_t)(uint32_t)fingerprint * BUCKET_WAYS >> 32);
}

/*
 * Where the caller is to be looked for after so many other places: first in the other one of the
 * pair, which shares a cache line with it, then in pairs further on, in leaps, so that those who
 * meet at one place don't crowd the places behind it. BUCKET_WAYS, the overflow's, comes among the
 * steps from 0 to BUCKET_WAYS too, and is to be passed over.
 */
static inline unsigned section_way(unsigned first, unsigned step)
{
	return ((first + 2 * PAIR_LEAP * (step / 2)) & (BUCKET_WAYS - 1)) | ((first ^ step) & 1);
}

/* Whatever its head; the overflow entry is the way BUCKET_WAYS. */
static inline struct entry *section_entry(const struct section *s, uint64_t bucket, unsigned way)
{
	uint64_t at = bucket * s->bucket_bytes + (uint64_t)way * s->shape.entry_bytes;

	return (struct entry *)(void *)(s->entries + at);
}

static inline _Atomic(uint64_t) *section_word(const struct section *s, uint64_t bucket)
{
	return &section_entry(s, bucket, BUCKET_WAYS)->tag;
}

static inline bool word_is_split(uint64_t word)
{
	const uint64_t both = WORD_FROZEN | WORD_MOVED;

	return (word & both) == both &&
	       ((word & FINGERPRINT_MASK) != 0 || (word & WORD_SPLIT) == WORD_SPLIT);
}

/* The insertion that a word names, whatever has become of the bucket since; 0: none. */
static inline uint64_t word_insertion(uint64_t word)
{
	return (word & FINGERPRINT_MASK) != 0 ? word & ~(WORD_FROZEN | WORD_MOVED) : 0;
}

/* Parts of words and of tombstones: see section_tag. */
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

static inline uint64_t section_load_word(const struct section *s, uint64_t bucket)
{
	/* acquire: pairs with the swaps of the word; and before the look at what it says */
	return atomic_load_explicit(section_word(s, bucket), memory_order_acquire);
}

/* The levels in use, in a word of the table's memory that only grows: check (48) | top (8) |
 * bottom (8). */
static inline unsigned levels_bottom(uint64_t levels)
{
	return levels & 0xff;
}

static inline unsigned levels_top(uint64_t levels)
{
	return levels >> 8 & 0xff;
}

/* Not below the bottom: can its callers be in the level below? */
static inline bool section_is_upper(const struct section *s)
{
	/* acquire: pairs with the store of a new bottom, after all of its callers had moved */
	return s->level > levels_bottom(atomic_load_explicit(s->levels, memory_order_acquire));
}

/* The level that buckets are split into; NULL: none, or not yet. */
static inline struct section *section_next(const struct section *s)
{
	/* acquire: pairs with the store of a new top, whose memory could be used before that */
	return s->level < levels_top(atomic_load_explicit(s->levels, memory_order_acquire))
		       ? s->next
		       : NULL;
}

static inline bool entry_is_of(const struct entry *e, uint64_t fingerprint)
{
	/* acquire: pairs with the swap of the tag in complete(), after which the entry is born; and
	 * orders it after the load of a head that it is to confirm */
	uint64_t tag = atomic_load_explicit(&e->tag, memory_order_acquire);

	return (tag & FINGERPRINT_MASK) == fingerprint;
}

/* After the head was looked at: is this still the caller's? An overflow always is. */
static inline bool place_holds(const struct place *place)
{
	return place->is_overflow || entry_is_of(place->entry, place->fingerprint);
}

/* Its entries were frozen, and are in the next level: to be located again. */
static inline bool place_is_split(const struct place *place)
{
	/* acquire: the word was frozen before it */
	return place->section->next != NULL &&
	       head_is_frozen(atomic_load_explicit(&place->entry->head, memory_order_acquire)) &&
	       word_is_split(atomic_load_explicit(&place->overflow->tag, memory_order_acquire));
}

/* Where a caller is looked for first. */
struct aim {
	uint64_t fingerprint;
	unsigned way;
	struct entry *entry;
};

static inline void section_aim(const struct section *s, struct throttle_key key, struct aim *aim)
{
	aim->fingerprint = section_fingerprint_of(key);
	/* Of a fingerprint's lower half, where 0 and 1 come to the same. */
	aim->way = section_preferred_way(key.lo >> (64 - KEY_BITS));
	/* As section_entry, in products that needn't wait for each other. */
	aim->entry =
		(struct entry *)(void *)(s->entries + section_bucket_of(s, key) * s->bucket_bytes +
					 (uint64_t)aim->way * s->shape.entry_bytes);
}

/* A caller's own entry, or NULL; and a head that it had while it was that. To be looked at again,
 * or swapped, if what was read of the entry since is to be of that head. */
struct sight {
	struct entry *entry;
	uint64_t head;
};

/* Is it the caller's, in the place where that is looked for first? Else `tag` is its caller's; 0:
 * it never had one. */
static inline bool section_look_first(const struct aim *aim, uint64_t *head, uint64_t *tag)
{
	/* acquire: pairs with the swap that made it, and orders the tag after it */
	*head = atomic_load_explicit(&aim->entry->head, memory_order_acquire);
	/* relaxed: the tag was there before the head that is its caller's */
	*tag = atomic_load_explicit(&aim->entry->tag, memory_order_relaxed);
	return (*tag & FINGERPRINT_MASK) == aim->fingerprint;
}

/* The same by the key itself, in fewer steps: not for the one caller in 2^52 whose fingerprint
 * would be 0. If the tag has no caller, the head has none either. */
static inline bool section_look_by_key(
	const struct entry *e, struct throttle_key key, uint64_t *head)
{
	uint64_t tag;

	/* acquire, relaxed: as in section_look_first */
	*head = atomic_load_explicit(&e->head, memory_order_acquire);
	tag = atomic_load_explicit(&e->tag, memory_order_relaxed);
	return (tag ^ key.lo >> (64 - KEY_BITS)) << (64 - FINGERPRINT_BITS) == 0;
}

/* The second place; again the first, where that is the overflow's other half. */
static inline struct entry *section_second(const struct section *s, const struct aim *aim)
{
	return (struct entry *)(void *)((unsigned char *)aim->entry + s->second[aim->way]);
}

/* Where that was another caller's. */
struct sight section_look_on(const struct section *section, struct aim aim);

static inline struct sight section_look(const struct section *s, const struct aim *aim)
{
	struct sight sight = {.entry = aim->entry};
	uint64_t tag;

	if (section_look_first(aim, &sight.head, &tag))
		return sight;
	return tag == 0 ? (struct sight){0} : section_look_on(s, *aim);
}

/* Prefetches what a look is likely to need beyond the beginning of the first place. These are
 * inlined by force: gcc takes a function that only prefetches for one without effect, and drops its
 * call. */
static inline __attribute__((always_inline)) void section_prefetch_rest(
	const struct section *s, const struct aim *aim)
{
	__builtin_prefetch((const char *)aim->entry + 64);
	__builtin_prefetch(section_second(s, aim));
}

static inline __attribute__((always_inline)) void section_prefetch(
	const struct section *s, const struct aim *aim)
{
	__builtin_prefetch(aim->entry);
	section_prefetch_rest(s, aim);
}

/* The same where there is time until it is needed: so much that most who aren't in their first or
 * second place are found in memory that is there, too. */
static inline __attribute__((always_inline)) void section_prefetch_far(
	const struct section *s, const struct aim *aim)
{
	const size_t bytes = s->shape.entry_bytes;
	const char *bucket = (const char *)aim->entry - aim->way * bytes;

	section_prefetch(s, aim);
	__builtin_prefetch((const char *)section_second(s, aim) + 64);
	__builtin_prefetch(bucket + section_way(aim->way, 2) * bytes);
}

#endif
