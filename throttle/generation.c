/* A set of limits: making one, finding its limits, linking it to the one before. */
#include "throttle/layout.h"
#include "throttle/levels.h"
#include "throttle/section_move.h"
#include "throttle/zone.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct generation *generation_create(
	const struct generation_source *source, const struct throttle_limit *limits, size_t count)
{
	struct generation *g = calloc(1, sizeof(*g));
	uint64_t bytes = layout_bytes(limits, count, source->buckets, source->levels);
	struct header *h = NULL;
	int error;

	if (g == NULL)
		return NULL;
	if (source->folder != NULL)
		error = store_create(&g->store, source->folder, source->name, bytes);
	else
		error = source->shareable ? store_shareable(&g->store, bytes)
					  : store_anonymous(&g->store, bytes);
	if (error == 0)
		error = layout_take_lane(g);
	if (error == 0)
		error = store_reserve(&g->store, 0,
			layout_header_bytes(count) + layout_tally_bytes(count, source->levels));
	if (error == 0) {
		h = g->header = g->store.memory;
		h->magic = LAYOUT_MAGIC;
		h->version = LAYOUT_VERSION;
		h->limit_bytes = sizeof(struct throttle_limit);
		h->bytes = bytes;
		h->callers = source->callers;
		h->buckets = source->buckets;
		h->levels = source->levels;
		h->epoch_ns = source->epoch_ns;
		h->seed = source->seed;
		h->count = (uint32_t)count;
		memcpy(h->limits, limits, count * sizeof(*limits));
		atomic_init(&h->latest, source->latest);
		atomic_init(&h->latest_copy, source->latest);
		error = layout_lay(g);
	}
	if (error == 0) {
		levels_begin(g, source->last, source->grows);
		error = levels_reserve(g, true);
	}
	if (error == 0) {
		/* release: whatever instant the process is killed at, a file with a checksum that
		 * fits is whole */
		atomic_store_explicit(&h->checksum, layout_checksum(h), memory_order_release);
		return g;
	}
	generation_free(g);
	errno = error;
	return NULL;
}

void generation_free(struct generation *g)
{
	if (g == NULL)
		return;
	for (uint32_t i = 0; i < g->count; i++)
		zone_free(g->limits[i * g->levels].zone);
	free(g->limits);
	free(g->far_ids);
	store_close(&g->store);
	free(g);
}

const struct throttle_seed *generation_seed(const struct generation *g)
{
	return &g->header->seed;
}

const struct throttle_limit *generation_limits(const struct generation *g)
{
	return g->header->limits;
}

bool generation_has_limits(
	const struct generation *g, const struct throttle_limit *limits, size_t count)
{
	bool has_all = g->count == count;

	for (size_t i = 0; has_all && i < count; i++) {
		struct throttle_limit a = g->header->limits[i], b = limits[i];

		/* What it was is no matter any more. */
		memset(a.was, 0, sizeof(a.was));
		memset(b.was, 0, sizeof(b.was));
		has_all = memcmp(&a, &b, sizeof(a)) == 0;
	}
	return has_all;
}

struct limit_state *generation_find(const struct generation *g, const char *name)
{
	for (uint32_t i = 0; i < g->count; i++)
		if (strcmp(g->header->limits[i].name, name) == 0)
			return generation_limit(g, i);
	return NULL;
}

struct limit_state *generation_predecessor(
	const struct generation *last, const struct throttle_limit *limit)
{
	struct limit_state *l = generation_find(last, limit->name);

	return l != NULL || limit->was[0] == '\0' ? l : generation_find(last, limit->was);
}

/* What was charged before is given back as long as it is still counted as it was then. */
static void link_section(
	struct section *to, struct section *from, bool has_callers, uint32_t number)
{
	bool is_same =
		to->shape.form == from->shape.form &&
		(to->shape.form == FORM_CONCURRENCY || to->ops->is_same(&to->shape, &from->shape));

	to->refunds_since = is_same ? from->refunds_since : number;
	if (has_callers)
		/* release: pairs with the loads of `old` */
		atomic_store_explicit(&to->old, from, memory_order_release);
}

/* All levels of a limit; some are new. */
static void link_levels(struct limit_state *to, unsigned levels, struct limit_state *from,
	unsigned had_levels, uint32_t number)
{
	for (unsigned n = 0; n < levels; n++) {
		bool has_callers = n < had_levels;
		struct limit_state *same = has_callers ? &from[n] : &from[had_levels - 1];

		link_section(&to[n].section, &same->section, has_callers, number);
		if (to->has_bans && from->has_bans)
			link_section(&to[n].bans, &same->bans, has_callers, number);
	}
}

void generation_set_number(struct generation *g, uint32_t number)
{
	g->number = number;
	for (uint32_t n = 0; n < g->count * g->levels; n++)
		g->limits[n].number = number;
}

void generation_link(struct generation *next, struct generation *last)
{
	generation_set_number(next, last->number + 1);
	for (uint32_t i = 0; i < next->count; i++) {
		struct limit_state *to = &next->limits[i * next->levels];
		struct limit_state *from = generation_predecessor(last, &to->limit);

		if (from != NULL)
			link_levels(
				to, next->levels, from - from->level, last->levels, next->number);
		for (unsigned n = 0; from == NULL && n < next->levels; n++)
			to[n].section.refunds_since = next->number;
	}
}

void generation_move_all(struct generation *g)
{
	for (uint32_t i = 0; i < g->count; i++) {
		struct limit_state *l = generation_limit(g, i);

		section_move_all(&l->section);
		if (l->has_bans)
			section_move_all(&l->bans);
	}
}

bool generation_time(struct generation *g, uint64_t now_ns, uint64_t offset, uint64_t *time)
{
	/* acquire: who sees that it is closed sees the newer one, which was public before; what is
	 * noted is released by what is swapped into a head later */
	uint64_t latest = atomic_load_explicit(g->latest, memory_order_acquire);
	uint64_t now = now_ns + offset > g->epoch_ns ? now_ns + offset - g->epoch_ns : 0;

	now = now < TABLE_TIME_MAX_NS ? now : TABLE_TIME_MAX_NS;

	/* A closed one is larger than any time. */
	while (now > latest + TIME_STEP_NS)
		/* acq_rel: pairs with close_old */
		if (atomic_compare_exchange_weak_explicit(
			    g->latest, &latest, now, memory_order_acq_rel, memory_order_acquire)) {
			/* relaxed: only looked at when the file is opened again */
			atomic_store_explicit(&g->header->latest_copy, now, memory_order_relaxed);
			break;
		}
	*time = now + TIME_LAG_NS < latest ? latest - TIME_LAG_NS : now;
	return !(latest & LATEST_CLOSED);
}
