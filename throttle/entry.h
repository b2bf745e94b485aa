/*
 * One caller's throttle of one limit: whose it is, a head word, and for rings the slots behind it.
 *
 *   tag | head | slot 0 | slot 1 | ...        together, so that a verdict is one or two cache lines
 *
 *   tag    the index's: section.h
 *   head   63       62         61    60 ................................. 0
 *          special  tombstone  born  the kind's own: times, counts, positions
 *
 *   0                   never used
 *   born                in use: what it says is the kind's affair
 *   special             frozen: moved to a newer table; the rest still says what it was
 *   special, tombstone  between two callers: the index names the insertion that it is for
 *
 * Every change to a throttle is one compare-and-swap on its head, which decides it. What slots have
 * to be written for it is written after, by the first that comes: the thread itself or the next
 * one. A head in use carries a time or a sequence number, so that a value that a slow thread still
 * has in hand never comes back in another meaning.
 *
 * Times in here are nanoseconds since the table's epoch.
 */
#ifndef THROTTLE_ENTRY_H
#define THROTTLE_ENTRY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "throttle/throttle.h"

/* Not on a verdict's usual way: kept out of it, with the room on the stack that it needs. */
#define SELDOM __attribute__((noinline, cold))

#define HEAD_SPECIAL   (UINT64_C(1) << 63)
#define HEAD_TOMBSTONE (UINT64_C(1) << 62)
#define HEAD_BORN      (UINT64_C(1) << 61)
#define HEAD_OWN       (HEAD_BORN - 1)
#define HEAD_OWN_BITS  61

/* How far behind the newest time a `now` can be in here, and what is added for its granularity: the
 * table holds back what is further behind (generation.h). */
#define TIME_LAG_NS   UINT64_C(1000000000)
#define TIME_SLACK_NS (2 * TIME_LAG_NS)

/* Of a table: what a head has bits for, less what may be charged ahead of it. 64 years. */
#define TABLE_TIME_MAX_NS (HEAD_OWN - (UINT64_C(1) << 58))

struct entry {
	_Atomic(uint64_t) tag;
	_Atomic(uint64_t) head;
	_Atomic(uint32_t) slot[];
};

static inline bool head_is_tombstone(uint64_t head)
{
	return (head & (HEAD_SPECIAL | HEAD_TOMBSTONE)) == (HEAD_SPECIAL | HEAD_TOMBSTONE);
}

static inline bool head_is_frozen(uint64_t head)
{
	return (head & (HEAD_SPECIAL | HEAD_TOMBSTONE)) == HEAD_SPECIAL;
}

static inline uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static inline uint64_t bits_mask(unsigned bits)
{
	return bits >= 64 ? UINT64_MAX : (UINT64_C(1) << bits) - 1;
}

enum form { FORM_RING, FORM_WINDOW, FORM_GCRA, FORM_CALENDAR, FORM_CONCURRENCY };

struct zone;

/* How coarsely the newest time is noted. */
#define TIME_STEP_NS (UINT64_C(1) << 24)

/* All that is derived from a limit once, so that a verdict needs no division. Only what a form uses
 * is set. See ring.c, window.c, ... */
struct shape {
	enum form form;
	_Atomic(uint64_t) *latest; /* see latest_of */
	uint32_t entry_bytes;
	uint32_t slots;      /* physical */
	uint32_t first_slot; /* behind the room of the stamp: 2 of long rings, 1 of some windows */
	uint64_t quota;      /* in units of `scale` */
	uint64_t scale;      /* bytes to a unit: costs are rounded up to it */
	uint64_t window;     /* with the guard */
	uint64_t keep;       /* an entry is empty when nothing happened for so long */
	/* ring */
	unsigned shift; /* a tick is 2^shift ns: */
	uint64_t tick_ns;
	unsigned index_bits; /* of a position */
	uint64_t tick_mask, slot_mask;
	uint64_t window_ticks, keep_ticks, lag_ticks;
	uint64_t since_max; /* ticks that a head can be behind now; more is a head that is ahead */
	uint64_t span;      /* window_ticks in ns */
	/* window */
	uint64_t quantum, quantum_inverse, slots_inverse;
	unsigned used_bits, stamp_shift;
	uint64_t bucket_mask, lag_buckets, grain;
	/* gcra */
	uint64_t burst, increment;
	bool by_increments;
	/* calendar */
	enum throttle_period period;
	const struct zone *zone;
	uint64_t epoch_ns;
	_Atomic(uint64_t) *period_cache;
	const _Atomic(int64_t) *wall_shift_ns; /* throttle_set_wall */
	/* concurrency */
	unsigned lane;
};

enum found { ENTRY_READY, ENTRY_GONE };

/* The effect that a charge would have: the head it was judged by, the head to put in its place. */
struct plan {
	uint64_t head, next;
	bool fits;
	uint64_t used; /* units in use before the charge */
	uint64_t now;  /* what the waits count from: not before the time asked for */
	uint64_t more, reset, retry;
	uint64_t at;
	uint64_t given; /* gcra: what was given back until then */
};

/*
 * The newest time that any thread has passed in: no thread's is more than TIME_STEP_NS ahead of it.
 * Of a table whose callers are being moved to a newer one, LATEST_CLOSED is set and it never
 * changes again: no thread begins there any more, and no charge in it is later than two steps after
 * that.
 */
#define LATEST_CLOSED (UINT64_C(1) << 63)

static inline uint64_t latest_of(const struct shape *s)
{
	/* relaxed: a time by itself; what orders it is said where that matters */
	return atomic_load_explicit(s->latest, memory_order_relaxed) & ~LATEST_CLOSED;
}

/*
 * The time to judge a head by: not further behind the newest than TIME_LAG_NS. To be called after
 * the head was loaded (acquire): who made that head had noted its time before, so that a head is
 * never further ahead of this than TIME_SLACK_NS, however long this thread has slept.
 */
static inline uint64_t time_after_head(const struct shape *s, uint64_t now)
{
	uint64_t latest = latest_of(s);

	return now + TIME_LAG_NS < latest ? latest - TIME_LAG_NS : now;
}

/* What any thread judged by, or later, before a move as of `now`: two steps after the newest
 * (section_move.c). What has left the window by this has left it for all. */
static inline uint64_t time_before_move(uint64_t now)
{
	const uint64_t back = 2 * TIME_STEP_NS + TIME_LAG_NS;

	return now > back ? now - back : 0;
}

/* The same for the quick ways, in one comparison: is it from TIME_LAG_NS behind the newest to a
 * step ahead of it? Then it is the time to judge by, and needn't be noted. (Of a closed table no
 * time is.) */
static inline bool time_is_near(const struct shape *s, uint64_t now)
{
	/* relaxed: ordered after the load of the head */
	uint64_t latest = atomic_load_explicit(s->latest, memory_order_relaxed);

	return now + TIME_LAG_NS - latest <= TIME_LAG_NS + TIME_STEP_NS;
}

/* Has nothing happened to it since? */
static inline bool head_still(struct entry *e, uint64_t head)
{
	/* relaxed: ordered after the slot loads before it, which are acquires */
	return atomic_load_explicit(&e->head, memory_order_relaxed) == head;
}

enum how {
	HOW_TAKE,  /* writes what must be written before the charge can be */
	HOW_LOOK,  /* charges nothing: only ends what others left, or what is over */
	HOW_FORCE, /* charges whether it fits or not */
};

/* So much was used up at that time, or before. */
struct event {
	uint64_t at, units;
};
#define EVENTS_MAX 4097

/* The charges that an entry remembers, oldest first. */
struct history {
	uint64_t newest; /* no charge is to be recorded before this */
	unsigned count;
	struct event events[EVENTS_MAX];
};

/* An entry as it is to be: what a mover writes into a caller's new throttle. */
struct image {
	uint64_t head;
	uint32_t slot[EVENTS_MAX + 2];
};

/* When a charge was made: the result of its plan. */
struct when {
	uint64_t at, given;
};

/* What a throttle is made of: with `used` units charged at `now`. */
struct birth {
	uint64_t head; /* of the entry, which is nobody's: 0 or a tombstone */
	uint64_t used, now;
	unsigned sequence; /* of the insertion */
};

/* The end of each constructor. False: another thread was faster. */
static inline bool birth_end(struct entry *e, const struct birth *birth, uint64_t born)
{
	uint64_t head = birth->head;

	/* acq_rel: as every change of a head; releases what was written before */
	return atomic_compare_exchange_strong_explicit(
		&e->head, &head, born, memory_order_acq_rel, memory_order_relaxed);
}

/* A kind of limit. `cost` is in units of the shape's scale. */
struct form_ops {
	/* Judges by one consistent view of the entry. GONE: it is special or was never used. */
	enum found (*plan)(const struct shape *s, struct entry *e, uint64_t cost, uint64_t now,
		enum how how, struct plan *plan);
	/* After the swap of plan->head for plan->next succeeded, with that. NULL: nothing to do. */
	void (*finish)(const struct shape *s, struct entry *e, uint64_t head);
	/* Gives back what was charged then. False: there is nothing of it left, or the entry is
	 * gone. Else `when` is that of the rest of the charge, if this was a part of it. */
	bool (*refund)(const struct shape *s, struct entry *e, struct when *when, uint64_t cost,
		uint64_t now);
	/* The head in the place of plan->head that makes it forget all that is in use. */
	uint64_t (*reset)(const struct shape *s, struct entry *e, const struct plan *plan);
	/* Is nothing in use, and would nothing of it ever matter again? */
	bool (*is_empty)(const struct shape *s, uint64_t head, uint64_t now);
	/* The only constructor: makes a throttle of an entry that is nobody's. It writes all that
	 * the form reads of an entry, whatever the last caller left there, and the head last. Of
	 * several threads one swaps that; another, however late, changes nothing that counts. */
	void (*make)(const struct shape *s, struct entry *e, const struct birth *birth);
	/* Moves what is left unfinished out of the way and sets HEAD_SPECIAL. */
	void (*freeze)(const struct shape *s, struct entry *e);
	/* Does an entry of the shape `old` mean the same under this one? Then it is copied. */
	bool (*is_same)(const struct shape *s, const struct shape *old);
	/* What a frozen entry remembers: no time in it is after `now`, and none is earlier than the
	 * charge it stands for. False: nothing. */
	bool (*remember)(const struct shape *s, const struct entry *e, uint64_t now,
		struct history *history);
	/* The image of an entry of which all that is known is this history: its newest units, no
	 * more than the limit. Where times are rounded they are rounded down. */
	void (*recall)(const struct shape *s, const struct history *history, uint64_t now,
		struct image *image);
};

/* Where in a history its newest `units` begin; `first_units` is what counts of that event. */
static inline unsigned history_newest(
	const struct history *history, uint64_t units, uint64_t *first_units)
{
	unsigned i = history->count;

	*first_units = 0;
	while (i > 0 && units > 0) {
		const struct event *e = &history->events[--i];

		*first_units = e->units < units ? e->units : units;
		units -= *first_units;
	}
	return i;
}

/* freeze for the kinds that have nothing to finish first */
static inline void entry_freeze(const struct shape *s, struct entry *e)
{
	(void)s;
	/* acq_rel: what was swapped in before is seen by who remembers it */
	atomic_fetch_or_explicit(&e->head, HEAD_SPECIAL, memory_order_acq_rel);
}

extern const struct form_ops window_ops, gcra_ops, calendar_ops, concurrency_ops; /* ring.h */

#endif
