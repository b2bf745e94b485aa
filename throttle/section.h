/*
 * All callers of one limit: an index of buckets, and the entries they stand for.
 *
 *   key --60 bits--> bucket  [ word | tag 0 | tag 1 | ... | tag 14 ]     two cache lines
 *                              |       |
 *                 last insertion       entry 0, entry 1, ... entry 14, entry 15: overflow
 *
 * A caller is found by the tag that carries 52 bits of its key; with its bucket's number they are
 * the 60 bits that tell callers apart. What is inserted is decided by one swap of the bucket's
 * word, which names the caller and its place; the tag and the entry follow, by whoever comes first.
 * Since two threads can't both have swapped the same word, a caller is never in two places.
 *
 *   insertion:   tombstone in an empty entry --> word --> tag --> the entry is born
 *                (nobody can charge it now)      ^ decides
 *
 * Only an empty entry is given away. Where none is, the caller is judged by the bucket's overflow
 * entry; who gets an entry of its own later begins with what that has in use, so that nothing is
 * forgiven by it.
 *
 * When limits change, a section has an older one behind it: a caller that isn't found is looked for
 * there, its old entry frozen, and the new one born with what the old one remembers (birth).
 */
#ifndef THROTTLE_SECTION_H
#define THROTTLE_SECTION_H

#include "throttle/entry.h"

#define BUCKET_WAYS 15

struct bucket {
	_Atomic(uint64_t) word;
	_Atomic(uint64_t) tag[BUCKET_WAYS];
};

struct tally {
	_Atomic(uint64_t) entries, evicted, overflowed;
};

struct section {
	struct shape shape;
	const struct form_ops *ops;
	uint64_t buckets; /* how many */
	struct bucket *index;
	unsigned char *entries;
	struct tally *tally;
	_Atomic(struct section *) old; /* what is still to be moved from, or NULL */
};

/* Where a caller's throttle is. */
struct place {
	struct entry *entry;
	struct bucket *bucket;
	uint64_t word; /* the bucket's, when it was looked at */
	uint64_t fingerprint;
	unsigned way; /* BUCKET_WAYS: the overflow entry */
};

enum located {
	LOCATED,
	LOCATED_NONE,  /* no such caller, and none was to be made */
	LOCATED_MOVED, /* this section's bucket is frozen: look in the newer one */
};

#define SECTION_LEAST_BUCKETS 256 /* below that a tag doesn't tell the rest of the key */

uint64_t section_buckets_for(uint64_t callers);
uint64_t section_bytes(const struct shape *shape, uint64_t buckets);

/* Lays a section over `memory`, of section_bytes, which is zero or was one of the same shape. */
void section_lay(struct section *section, void *memory, uint64_t buckets);

/* Finds the caller's throttle, or with `make` makes it (or gives the overflow's). */
enum located section_locate(struct section *section, struct throttle_key key, uint64_t now,
	bool make, struct place *place);

/* The bucket's one, whoever it is for. */
enum located section_overflow(
	struct section *section, struct throttle_key key, uint64_t now, struct place *place);

/* After the head was looked at: is this still the caller's? An overflow always is. */
static inline bool place_holds(const struct place *place);

void section_prefetch(const struct section *section, struct throttle_key key);

/* Moves all that `section->old` still has, then lets go of it. One thread; others may go on. */
void section_move_all(struct section *section);

#define FINGERPRINT_BITS 52
#define FINGERPRINT_MASK ((UINT64_C(1) << FINGERPRINT_BITS) - 1)

static inline bool place_holds(const struct place *place)
{
	return place->way == BUCKET_WAYS ||
	       /* acquire: ordered after the load of the head that it is to confirm */
	       (atomic_load_explicit(&place->bucket->tag[place->way], memory_order_acquire) &
		       FINGERPRINT_MASK) == place->fingerprint;
}

#define KEY_BITS 60

static inline uint64_t section_identity(struct throttle_key key)
{
	return key.lo >> (64 - KEY_BITS);
}

static inline uint64_t section_fingerprint_of(uint64_t id)
{
	uint64_t fingerprint = id & FINGERPRINT_MASK;

	return fingerprint != 0 ? fingerprint : 1;
}

static inline uint64_t section_bucket_of(const struct section *s, uint64_t id)
{
	return (uint64_t)((unsigned __int128)id * s->buckets >> KEY_BITS);
}

/* A caller's entry is here if it was free when the caller came. */
static inline unsigned section_preferred_way(uint64_t fingerprint)
{
	return (unsigned)(fingerprint % BUCKET_WAYS);
}

/* Whatever its head. */
static inline struct entry *section_entry(const struct section *s, uint64_t bucket, unsigned way)
{
	uint64_t at = (bucket * (BUCKET_WAYS + 1) + way) * s->shape.entry_bytes;

	return (struct entry *)(void *)(s->entries + at);
}

/* The caller's throttle, if it is where it is looked for first; NULL says nothing. */
static inline struct entry *section_glance(
	const struct section *s, struct throttle_key key, struct place *place)
{
	uint64_t id = section_identity(key), number = section_bucket_of(s, id);

	place->bucket = &s->index[number];
	place->fingerprint = section_fingerprint_of(id);
	place->way = section_preferred_way(place->fingerprint);
	place->entry = section_entry(s, number, place->way);
	return place_holds(place) ? place->entry : NULL;
}

#endif
