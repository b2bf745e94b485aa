#include "fleet/hand.h"

#include <assert.h>
#include <stdlib.h>
#include <unistd.h>

enum { WAYS = 4, NUMBER_BITS = 12, UNIT_BITS = 20 };

/* number:12 units:20 end:32 */
#define END_OF(word)   ((uint32_t)(word))
#define UNITS_OF(word) ((uint32_t)((word) >> 32) & HAND_UNITS_MOST)
#define NAME_MASK      (~((uint64_t)HAND_UNITS_MOST << 32))

_Static_assert(HAND_UNITS_MOST == (1u << UNIT_BITS) - 1, "units fit their bits");
_Static_assert(NUMBER_BITS + UNIT_BITS == 32, "number, units and end fit a word");

static uint64_t word_of(uint32_t number, uint32_t units, uint32_t end)
{
	return (uint64_t)(number & ((1u << NUMBER_BITS) - 1)) << (32 + UNIT_BITS) |
	       (uint64_t)units << 32 | end;
}

static uint32_t number_of(uint64_t word)
{
	return (uint32_t)(word >> (32 + UNIT_BITS));
}

/* From now on; 0: it has passed, or was so long ago that the clock has wrapped. */
static uint32_t time_until(uint32_t at_ms, uint32_t now_ms)
{
	uint32_t left = at_ms - now_ms;

	return left <= HAND_TERM_MOST ? left : 0;
}

/* ---- the table ------------------------------------------------------------------------------- */

bool hands_init(struct hands *hands, size_t count)
{
	assert(count >= WAYS && (count & (count - 1)) == 0);
	*hands = (struct hands){.shift = (unsigned)__builtin_clzll(count) + 1, .count = count};
	hands->all = calloc(count, sizeof(*hands->all)); /* pages are taken as they are touched */
	return hands->all != NULL && getentropy(&hands->multiplier, sizeof(hands->multiplier)) == 0;
}

void hands_end(struct hands *hands)
{
	free(hands->all);
	hands->all = NULL;
}

/* Relaxed: the lock orders them, or the word does, which hand_take reads before. */
bool hand_is_of(const struct hand *hand, struct throttle_key caller)
{
	return atomic_load_explicit(&hand->hi, memory_order_relaxed) == caller.hi &&
	       atomic_load_explicit(&hand->lo, memory_order_relaxed) == caller.lo;
}

static bool is_free(const struct hand *hand, uint32_t now_ms)
{
	return hand_time_left(hand, now_ms) == 0 && hand_closed(hand, now_ms) == 0 &&
	       !atomic_load_explicit(&hand->listed, memory_order_relaxed);
}

/* Makes it the caller's. False: it has a lease, or another worker was faster. */
static bool claim(struct hand *hand, struct throttle_key caller, uint32_t now_ms)
{
	if (!hand_lock(hand))
		return false;
	if (!is_free(hand, now_ms)) {
		hand_unlock(hand);
		return false;
	}
	hand_clear(hand);
	hand->units = 0;
	hand->slot = 0;
	atomic_store_explicit(&hand->closed, 0, memory_order_relaxed);
	atomic_store_explicit(&hand->spare, 0, memory_order_relaxed);
	atomic_store_explicit(&hand->uses, 0, memory_order_relaxed);
	atomic_store_explicit(&hand->since_ms, now_ms, memory_order_relaxed);
	atomic_store_explicit(&hand->hi, caller.hi, memory_order_release);
	atomic_store_explicit(&hand->lo, caller.lo, memory_order_release);
	hand_unlock(hand);
	return true;
}

/* Multiply-shift (Dietzfelbinger et al., 1997) by a secret: what all nodes name callers by is none,
 * so that anybody could choose those who fill another one's set. */
static struct hand *set_of(const struct hands *hands, struct throttle_key caller)
{
	return &hands->all[(caller.lo * (hands->multiplier | 1)) >> hands->shift &
			   ~(size_t)(WAYS - 1)];
}

struct hand *hands_find(struct hands *hands, struct throttle_key caller, uint32_t now_ms)
{
	struct hand *set = set_of(hands, caller);
	struct hand *oldest = NULL;
	uint32_t oldest_ms = 0;

	for (unsigned i = 0; i < WAYS; i++) {
		if (hand_is_of(&set[i], caller))
			return &set[i];
	}
	for (unsigned i = 0; i < WAYS; i++) {
		uint32_t age_ms =
			now_ms - atomic_load_explicit(&set[i].since_ms, memory_order_relaxed);
		if (is_free(&set[i], now_ms) && (!oldest || age_ms > oldest_ms)) {
			oldest = &set[i];
			oldest_ms = age_ms;
		}
	}
	return oldest && claim(oldest, caller, now_ms) ? oldest : NULL;
}

/* ---- taking ---------------------------------------------------------------------------------- */

/* A word with units is of the caller that is read after it: claim has set that before hand_adopt,
 * and is not done while the word stays. */
uint64_t hand_take(struct hand *hand, struct throttle_key caller, uint32_t units, uint32_t now_ms,
	uint32_t *left)
{
	uint64_t word = atomic_load_explicit(&hand->word, memory_order_acquire); /* hand_adopt */

	for (;;) {
		uint32_t has = hand_is_of(hand, caller) ? UNITS_OF(word) : 0;
		*left = has;
		if (has < units || units == 0 || time_until(END_OF(word), now_ms) == 0)
			return 0;
		*left = has - units;
		/* acquire and release: hand_report counts what was taken before it */
		if (atomic_compare_exchange_weak_explicit(&hand->word, &word,
			    word - ((uint64_t)units << 32), memory_order_acq_rel,
			    memory_order_acquire))
			return word & NAME_MASK;
	}
}

bool hand_put(struct hand *hand, uint64_t lease, uint32_t units)
{
	uint64_t word = atomic_load_explicit(&hand->word, memory_order_relaxed);

	do {
		if ((word & NAME_MASK) != lease || units > HAND_UNITS_MOST - UNITS_OF(word))
			return false;
		/* release: as hand_take */
	} while (!atomic_compare_exchange_weak_explicit(&hand->word, &word,
		word + ((uint64_t)units << 32), memory_order_acq_rel, memory_order_relaxed));
	return true;
}

uint32_t hand_time_left(const struct hand *hand, uint32_t now_ms)
{
	uint64_t word = atomic_load_explicit(&hand->word, memory_order_relaxed); /* a moment's */

	return END_OF(word) == 0 ? 0 : time_until(END_OF(word), now_ms);
}

struct hands_sight hands_look(const struct hands *hands, uint32_t now_ms)
{
	struct hands_sight sight = {0};

	for (size_t i = 0; i < hands->count; i++) {
		/* relaxed: of each hand a moment's */
		uint64_t word = atomic_load_explicit(&hands->all[i].word, memory_order_relaxed);
		if (END_OF(word) == 0 || time_until(END_OF(word), now_ms) == 0)
			continue;
		sight.callers++;
		sight.units += UNITS_OF(word);
	}
	return sight;
}

/* ---- with the store -------------------------------------------------------------------------- */

bool hand_lock(struct hand *hand)
{
	/* acquire: what the holder before has written; relaxed first, as most find it free */
	return atomic_load_explicit(&hand->lock, memory_order_relaxed) == 0 &&
	       atomic_exchange_explicit(&hand->lock, 1, memory_order_acquire) == 0;
}

void hand_unlock(struct hand *hand)
{
	atomic_store_explicit(&hand->lock, 0, memory_order_release); /* pairs with hand_lock */
}

struct hand_report hand_report(struct hand *hand, uint32_t now_ms, bool ends)
{
	uint64_t word = atomic_load_explicit(&hand->word, memory_order_relaxed), next;
	uint32_t keep;

	do {
		bool goes_on = !ends && END_OF(word) != 0 && time_until(END_OF(word), now_ms) > 0 &&
			       hand->slot != 0;
		keep = goes_on ? UNITS_OF(word) : 0;
		next = word_of(number_of(word) + 1, keep, goes_on ? END_OF(word) : 0);
		/* acquire: all that was taken before is seen to be */
	} while (!atomic_compare_exchange_weak_explicit(
		&hand->word, &word, next, memory_order_acq_rel, memory_order_relaxed));
	uint32_t left = UNITS_OF(word) < hand->units ? UNITS_OF(word) : hand->units;
	return (struct hand_report){
		.slot = hand->slot,
		.epoch = atomic_load_explicit(&hand->epoch, memory_order_relaxed),
		.units = hand->units,
		.used = hand->units - left,
		.keep = keep < left ? keep : left,
	};
}

void hand_adopt(struct hand *hand, uint64_t slot, uint64_t epoch, uint32_t kept, uint32_t got,
	uint32_t ends_ms)
{
	uint64_t word = atomic_load_explicit(&hand->word, memory_order_relaxed), next;
	uint32_t left;

	hand->slot = slot;
	hand->units = slot != 0 ? kept + got : 0;
	atomic_store_explicit(&hand->epoch, epoch, memory_order_relaxed);
	do {
		left = kept > 0 ? UNITS_OF(word) : 0;
		left = slot != 0 ? (left < kept ? left : kept) + got : 0;
		next = word_of(number_of(word) + (kept == 0), left, slot != 0 ? ends_ms | 1 : 0);
		/* release: the epoch above; pairs with hand_take */
	} while (!atomic_compare_exchange_weak_explicit(
		&hand->word, &word, next, memory_order_acq_rel, memory_order_relaxed));
	atomic_store_explicit(&hand->low, left / 4, memory_order_relaxed);
}

void hand_lose(struct hand *hand)
{
	hand->slot = 0;
	hand->units = 0;
}

void hand_clear(struct hand *hand)
{
	uint64_t word = atomic_load_explicit(&hand->word, memory_order_relaxed);

	/* release: who reads the caller that claim sets does not take by the old word */
	atomic_store_explicit(
		&hand->word, word_of(number_of(word) + 1, 0, 0), memory_order_release);
}

void hand_close(struct hand *hand, uint32_t now_ms, uint32_t for_ms, uint32_t free_ms)
{
	if (for_ms > HAND_TERM_MOST)
		for_ms = HAND_TERM_MOST;
	/* relaxed: a hint; who reads it late asks the store once more */
	atomic_store_explicit(&hand->closed,
		for_ms > 0 ? (uint64_t)(now_ms + free_ms) << 32 | (now_ms + for_ms) : 0,
		memory_order_relaxed);
}

uint32_t hand_closed(const struct hand *hand, uint32_t now_ms)
{
	uint64_t closed = atomic_load_explicit(&hand->closed, memory_order_relaxed); /* as above */

	if (closed == 0 || time_until((uint32_t)closed, now_ms) == 0)
		return 0;
	uint32_t free_ms = (uint32_t)(closed >> 32) - now_ms;
	return free_ms > 0 && free_ms < 1u << 31 ? free_ms : 1;
}

/* ---- demand ---------------------------------------------------------------------------------- */

void hand_note_use(struct hand *hand, uint32_t units)
{
	/* relaxed: an estimate */
	atomic_fetch_add_explicit(&hand->uses, units, memory_order_relaxed);
}

void hand_forget_use(struct hand *hand, uint32_t units)
{
	uint32_t uses = atomic_load_explicit(&hand->uses, memory_order_relaxed); /* an estimate */

	/* of older uses only half is left, so it may be less */
	while (!atomic_compare_exchange_weak_explicit(&hand->uses, &uses,
		uses - (units < uses ? units : uses), memory_order_relaxed, memory_order_relaxed))
		;
}

/* The last term's, or what there is of one. A time shorter than an eighth of it says too little. */
uint32_t hand_expected(struct hand *hand, uint32_t now_ms, uint32_t term_ms)
{
	uint64_t uses = atomic_load_explicit(&hand->uses, memory_order_relaxed);
	uint32_t elapsed_ms = now_ms - atomic_load_explicit(&hand->since_ms, memory_order_relaxed);
	uint32_t least_ms = term_ms / 8 + 1;
	uint64_t expected = uses * term_ms / (elapsed_ms > least_ms ? elapsed_ms : least_ms);

	if (elapsed_ms > term_ms / 2) { /* half of it continues counting */
		atomic_store_explicit(&hand->uses, (uint32_t)(uses / 2), memory_order_relaxed);
		atomic_store_explicit(
			&hand->since_ms, now_ms - elapsed_ms / 2, memory_order_relaxed);
	}
	if (elapsed_ms > 8 * term_ms)
		expected = 0;
	return expected < HAND_UNITS_MOST ? (uint32_t)expected : HAND_UNITS_MOST;
}
