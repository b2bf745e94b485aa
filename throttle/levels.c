/*
 * Levels: which of them a limit has in use, how it gets more, and what becomes of those that its
 * callers have left. See generation.h for the whole, section.h for how a bucket is split.
 */
#include "throttle/levels.h"
#include "throttle/concurrency.h"
#include "throttle/section_move.h"

/* So that a damaged word of levels is seen. */
static uint64_t make_levels(
	const struct generation *g, uint32_t limit, unsigned bottom, unsigned top)
{
	const uint64_t own = (uint64_t)top << 8 | bottom;
	const uint64_t words[] = {own, limit};

	return throttle_hash(generation_seed(g), words, sizeof(words)).lo << 16 | own;
}

static struct limit_state *level_of(const struct generation *g, uint32_t limit, unsigned level)
{
	return &g->limits[limit * g->levels + level];
}

static uint64_t levels_of(const struct generation *g, uint32_t limit)
{
	return atomic_load_explicit(&g->levels_in_use[limit], memory_order_acquire);
}

static uint64_t entries_of(const struct section *s)
{
	/* relaxed: counts that may be a little off; of a killed process also below 0 */
	uint64_t n = atomic_load_explicit(&s->tally->entries, memory_order_relaxed);

	return n < UINT64_MAX / 2 ? n : 0;
}

uint64_t levels_entries(const struct generation *g, uint32_t limit, unsigned from)
{
	uint64_t sum = 0;

	for (unsigned level = from; level <= levels_top(levels_of(g, limit)); level++)
		sum += entries_of(&level_of(g, limit, level)->section);
	return sum;
}

uint64_t levels_reserved(const struct generation *g, uint32_t limit)
{
	uint64_t levels = levels_of(g, limit), bytes = 0;

	for (unsigned n = levels_bottom(levels); n <= levels_top(levels); n++)
		bytes += level_of(g, limit, n)->bytes;
	return bytes;
}

static int reserve_level(struct generation *g, const struct limit_state *l)
{
	return store_reserve(&g->store, l->at, l->bytes);
}

int levels_reserve(struct generation *g, bool is_new)
{
	uint64_t begin = g->limits[0].at, bytes = begin;
	int error = 0;

	if (g->count == 0)
		return 0;

	for (uint32_t i = 0; i < g->count; i++)
		bytes += levels_reserved(g, i);
	if (!is_new && !store_has_holes(&g->store, bytes))
		return 0;
	if (!is_new)
		error = store_reserve(&g->store, 0, begin);
	for (uint32_t i = 0; i < g->count; i++)
		for (unsigned n = levels_bottom(levels_of(g, i));
			error == 0 && n <= levels_top(levels_of(g, i)); n++)
			error = reserve_level(g, level_of(g, i, n));
	return error;
}

static void set_levels(struct generation *g, uint32_t limit, unsigned bottom, unsigned top)
{
	/* release: pairs with section_next and section_is_upper */
	atomic_store_explicit(
		&g->levels_in_use[limit], make_levels(g, limit, bottom, top), memory_order_release);
}

bool levels_can_be(const struct generation *g)
{
	for (uint32_t i = 0; i < g->count; i++) {
		uint64_t levels = levels_of(g, i);
		unsigned bottom = levels_bottom(levels), top = levels_top(levels);

		if (bottom > top || top >= g->levels || levels != make_levels(g, i, bottom, top))
			return false;
	}
	return true;
}

void levels_begin(struct generation *g, const struct generation *last, bool grows)
{
	for (uint32_t i = 0; i < g->count; i++) {
		const struct limit_state *l =
			last != NULL ? generation_predecessor(last, &g->limits[i * g->levels].limit)
				     : NULL;
		uint64_t levels =
			l != NULL ? levels_of(last, (uint32_t)(l - last->limits) / last->levels)
				  : 0;

		set_levels(g, i, levels_bottom(levels), grows ? levels_top(levels) : g->levels - 1);
		level_of(g, i, 0)->begins = levels_bottom(levels);
	}
}

/* Have its buckets become crowded, so that some will soon be full? */
static bool is_crowded(const struct generation *g, uint32_t limit, unsigned top)
{
	const struct limit_state *l = level_of(g, limit, top);
	/* Those above the bottom have only the callers of what was split: of some buckets. */
	uint64_t least = top > levels_bottom(levels_of(g, limit))
				 ? l->section.buckets / SECTION_SOME
				 : l->section.buckets * SECTION_CROWDED;

	return entries_of(&l->section) > least || (l->has_bans && entries_of(&l->bans) > least);
}

static int open_level(struct generation *g, uint32_t limit, unsigned bottom, unsigned top)
{
	int error = reserve_level(g, level_of(g, limit, top + 1));

	if (error == 0)
		set_levels(g, limit, bottom, top + 1);
	return error;
}

/* All callers leave the bottom level. */
static void give_up_bottom(struct generation *g, uint32_t limit, unsigned bottom, unsigned top)
{
	struct limit_state *l = level_of(g, limit, bottom);

	section_split_all(&l->section);
	if (l->has_bans)
		section_split_all(&l->bans);
	set_levels(g, limit, bottom + 1, top);
}

/* When a third of its callers are beyond the bottom, all go: its buckets are 13 of 15 ways full on
 * the average then, and one of four was split. */
static bool has_left_bottom(const struct generation *g, uint32_t limit, unsigned bottom)
{
	const struct limit_state *l = level_of(g, limit, bottom);
	uint64_t beyond = levels_entries(g, limit, bottom + 1);

	return beyond > 0 && beyond >= entries_of(&l->section) / 2;
}

static int grow_limit(struct generation *g, uint32_t limit, bool to_the_end)
{
	int error = 0;

	while (error == 0) {
		uint64_t levels = levels_of(g, limit);
		unsigned bottom = levels_bottom(levels), top = levels_top(levels);

		if (top + 1 < g->levels && (to_the_end || is_crowded(g, limit, top)))
			error = open_level(g, limit, bottom, top);
		else if (bottom < top && (to_the_end || has_left_bottom(g, limit, bottom)))
			give_up_bottom(g, limit, bottom, top);
		else
			break;
	}
	return error;
}

/* Lookups of this process begin at the level that does now, even if another process chose it. */
static void begin_at_bottom(struct generation *g, uint32_t limit)
{
	struct limit_state *first = level_of(g, limit, 0), *bottom = generation_limit(g, limit);

	if (first->begins == bottom->level)
		return;
	for (uint32_t id = 0; id < g->ids; id++) {
		/* relaxed: written by this thread */
		const struct limit_state *l =
			atomic_load_explicit(generation_id(g, id), memory_order_relaxed);

		if (l == &first[first->begins])
			/* release: pairs with table_limit */
			atomic_store_explicit(generation_id(g, id), bottom, memory_order_release);
	}
	first->begins = bottom->level;
	g->has_given_up = true;
}

int levels_grow(struct generation *g, bool to_the_end)
{
	int error = 0;

	/* relaxed: what is wanted after this is found now, or wanted again */
	atomic_store_explicit(&g->wants_growth, 0, memory_order_relaxed);
	for (uint32_t i = 0; i < g->count; i++) {
		int failed = grow_limit(g, i, to_the_end);

		begin_at_bottom(g, i);
		error = failed != 0 ? failed : error;
	}
	return error;
}

/* While the folder is locked, so that nobody else opens it. */
void levels_collect(struct generation *g)
{
	bool is_alone = true;

	for (unsigned lane = 0; lane < CONCURRENCY_LANES; lane++)
		if (lane != g->lane) {
			is_alone = is_alone && store_take_lane(&g->store, lane);
			if (is_alone)
				store_free_lane(&g->store, lane);
		}
	if (!is_alone)
		return;
	g->has_given_up = false;
	for (uint32_t i = 0; i < g->count; i++)
		/* Another process may have given up more meanwhile, where this one still begins. */
		for (unsigned n = 0; n < level_of(g, i, 0)->begins; n++)
			store_release(&g->store, level_of(g, i, n)->at, level_of(g, i, n)->bytes);
}
