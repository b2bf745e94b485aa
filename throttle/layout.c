/* Laying a set of limits over memory. */
#include "throttle/layout.h"
#include "throttle/concurrency.h"
#include "throttle/levels.h"
#include "throttle/limit.h"
#include "throttle/ring_short.h"
#include "throttle/window.h"
#include "throttle/zone.h"

#include <errno.h>
#include <stdlib.h>

#define PAGE_BYTES 4096

/* Until a table has the generation. */
static const _Atomic(int64_t) no_shift;

uint64_t layout_checksum(const struct header *h)
{
	const struct throttle_seed seed = {h->magic, h->version};
	struct throttle_hasher hasher;

	throttle_hash_begin(&hasher, &seed, 0);
	throttle_hash_part(&hasher, h, offsetof(struct header, checksum));
	throttle_hash_part(&hasher, h->limits, h->count * sizeof(h->limits[0]));
	return throttle_hash_end(&hasher).lo;
}

static uint64_t page_up(uint64_t bytes)
{
	return (bytes + PAGE_BYTES - 1) & ~(uint64_t)(PAGE_BYTES - 1);
}

uint64_t layout_header_bytes(size_t count)
{
	return page_up(sizeof(struct header) + count * sizeof(struct throttle_limit));
}

/* The words of levels, then two tallies for each level of each limit. */
static uint64_t levels_bytes(size_t count)
{
	return (count * sizeof(uint64_t) + 63) & ~UINT64_C(63);
}

uint64_t layout_tally_bytes(size_t count, uint32_t levels)
{
	return page_up(levels_bytes(count) + count * levels * 2 * sizeof(struct tally));
}

/* The bytes of the sections of a limit, in a level of so many buckets. */
uint64_t layout_level_bytes(const struct throttle_limit *limit, uint64_t buckets)
{
	struct shape shape;
	uint64_t bytes;

	limit_shape(limit, &shape);
	bytes = page_up(section_bytes(&shape, buckets));
	if (limit->ban_count > 0) {
		limit_ban_shape(limit, &shape);
		bytes += page_up(section_bytes(&shape, buckets));
	}
	return bytes;
}

uint64_t layout_bytes(
	const struct throttle_limit *limits, size_t count, uint64_t buckets, uint32_t levels)
{
	uint64_t bytes = layout_header_bytes(count) + layout_tally_bytes(count, levels);

	for (size_t i = 0; i < count; i++)
		for (uint32_t level = 0; level < levels; level++)
			bytes += layout_level_bytes(&limits[i], buckets << level);
	return bytes;
}

void generation_size(struct generation_source *source, uint64_t callers, bool grows)
{
	uint64_t wanted = section_buckets_for(callers);

	/* How many the first level has stays for all of a table's life. */
	if (source->buckets == 0) {
		source->buckets = wanted;
		while (grows && source->buckets / 2 >= SECTION_LEAST_BUCKETS)
			source->buckets = (source->buckets + 1) / 2;
		source->levels = 1;
	}
	while (source->buckets << (source->levels - 1) < wanted)
		source->levels++;
}

static void lay_section(struct generation *g, struct section *s, uint64_t *at, struct tally *tally,
	uint32_t limit, unsigned level)
{
	s->shape.epoch_ns = g->epoch_ns;
	s->shape.lane = g->lane;
	s->shape.wall_shift_ns = &no_shift;
	s->ops = form_ops_of(&s->shape);
	s->tally = tally;
	s->shape.latest = g->latest;
	s->level = level;
	s->levels = &g->levels_in_use[limit];
	s->wants_growth = &g->wants_growth;
	section_lay(s, (unsigned char *)g->store.memory + *at, g->buckets << level);
	*at += page_up(section_bytes(&s->shape, s->buckets));
}

/* Of pacing, what there is at once. */
static uint64_t reported_quota(const struct throttle_limit *l)
{
	if (l->kind != THROTTLE_GCRA)
		return l->quota;
	return l->burst > 0 ? l->burst : 1;
}

/* The way in which quick.c can judge a charge of this limit. */
static enum quick quick_for(const struct limit_state *l)
{
	if (l->section.shape.scale != 1 || l->limit.mode != THROTTLE_ENFORCE || l->has_bans ||
		l->limit.count_refused || l->limit.delay_max_ns > 0)
		return QUICK_NOT;
	if (l->section.ops == &ring_short_ops)
		return QUICK_RING;
	return l->section.ops == &window_ops && l->section.shape.first_slot == 0 ? QUICK_WINDOW
										 : QUICK_ANY;
}

/* One level of a limit. */
static void lay_level(struct generation *g, struct limit_state *l, uint32_t limit, uint64_t *at)
{
	struct limit_state *first = &g->limits[limit * g->levels];
	struct tally *tally = (void *)((unsigned char *)g->store.memory +
				       layout_header_bytes(g->count) + levels_bytes(g->count));

	l->level = (unsigned)(l - first);
	l->limit = g->header->limits[limit];
	l->at = *at;
	l->zone = first->zone;
	tally += 2 * (l - g->limits);
	limit_shape(&l->limit, &l->section.shape);
	l->section.shape.zone = l->zone;
	l->section.shape.period_cache = &first->period_cache;
	lay_section(g, &l->section, at, &tally[0], limit, l->level);
	l->has_bans = l->limit.ban_count > 0;
	if (l->has_bans) {
		limit_ban_shape(&l->limit, &l->bans.shape);
		lay_section(g, &l->bans, at, &tally[1], limit, l->level);
	}
	l->bytes = *at - l->at;
	l->quick = quick_for(l);
	l->reported_quota = reported_quota(&l->limit);
	if (l->level == 0)
		return;
	l->section.below = &l[-1].section;
	l[-1].section.next = &l->section;
	l->bans.below = &l[-1].bans;
	l[-1].bans.next = &l->bans;
}

/* Makes the process's side of the limits in the header. 0 or errno. */
int layout_lay(struct generation *g)
{
	struct header *h = g->header;
	uint64_t at = layout_header_bytes(h->count) + layout_tally_bytes(h->count, h->levels);

	g->latest = &h->latest;
	g->epoch_ns = h->epoch_ns;
	g->callers = h->callers;
	g->buckets = h->buckets;
	g->levels = h->levels;
	g->levels_in_use =
		(void *)((unsigned char *)g->store.memory + layout_header_bytes(h->count));
	g->limits = calloc(h->count > 0 ? h->count * h->levels : 1, sizeof(*g->limits));
	if (g->limits == NULL)
		return ENOMEM;
	g->count = h->count;
	for (uint32_t i = 0; i < h->count; i++) {
		struct limit_state *l = &g->limits[i * g->levels];

		if (h->limits[i].kind == THROTTLE_CALENDAR) {
			l->zone = zone_load(h->limits[i].zone);
			if (l->zone == NULL)
				return errno;
		}
		for (uint32_t level = 0; level < g->levels; level++)
			lay_level(g, &l[level], i, &at);
	}
	return 0;
}

int layout_take_lane(struct generation *g)
{
	for (g->lane = 0; g->lane < CONCURRENCY_LANES; g->lane++)
		if (store_take_lane(&g->store, g->lane))
			return 0;
	return EBUSY;
}
