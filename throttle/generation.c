/* A set of limits: making one, finding its limits, linking it to the one before. */
#include "throttle/generation.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "throttle/layout.h"
#include "throttle/levels.h"
#include "throttle/section_move.h"
#include "throttle/zone.h"
#include "throttle/concurrency.h"
#include "throttle/ring.h"

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

/* ---- generation open ------------------------------------------------------------------------ */

/* Opening what is in a file: it is trusted only after a look. */

#define TIME_MAX_NS   (UINT64_C(1) << 62)      /* since 1970: 146 years */
#define TIME_DOUBT_NS UINT64_C(86400000000000) /* a clock can be wrong by a day */

#define ALL_LANES ((1u << CONCURRENCY_LANES) - 1)

static void visit_all(
	struct section *s, void (*visit)(struct section *, uint64_t, void *), void *argument)
{
	for (uint64_t b = 0; b < s->buckets; b++)
		section_visit(s, b, visit, argument);
}

/* What was on its way to the next level gets there. */
static void visit_finish(struct section *s, uint64_t bucket, void *unused)
{
	struct section *next = section_next(s);

	(void)unused;
	if (next == NULL || !word_is_split(section_load_word(s, bucket)))
		return;
	section_move_bucket(next, 2 * bucket);
	section_move_bucket(next, 2 * bucket + 1);
}

/* A copy that another thread makes of an entry as it was before is there when this returns: the
 * visit of the next level, which comes later, clears it. */
static void visit_lanes(struct section *s, uint64_t bucket, void *argument)
{
	for (unsigned way = 0; way <= BUCKET_WAYS; way++)
		concurrency_clear_lanes(section_entry(s, bucket, way), *(unsigned *)argument);
	visit_finish(s, bucket, NULL);
}

/* Those that no other process has: a bit for each. While the folder is locked no other takes one.
 */
static unsigned take_free_lanes(struct generation *g)
{
	unsigned free = 0;

	for (unsigned lane = 0; lane < CONCURRENCY_LANES; lane++)
		if (lane == g->lane || store_take_lane(&g->store, lane))
			free |= 1u << lane;
	return free;
}

/* What a process that is gone had in flight has ended with it. */
static void clear_lanes(struct generation *g, unsigned lanes)
{
	for (uint32_t i = 0; i < g->count; i++) {
		struct section *s = &generation_limit(g, i)->section;

		if (s->shape.form == FORM_CONCURRENCY)
			visit_all(s, visit_lanes, &lanes);
	}
}

static void free_lanes(struct generation *g, unsigned lanes)
{
	for (unsigned lane = 0; lane < CONCURRENCY_LANES; lane++)
		if (lane != g->lane && (lanes >> lane & 1) != 0)
			store_free_lane(&g->store, lane);
}

bool generation_clear_ended(struct generation *g)
{
	unsigned free = take_free_lanes(g);

	if (free == ALL_LANES)
		clear_lanes(g, ALL_LANES & ~(1u << g->lane));
	free_lanes(g, free);
	return free == ALL_LANES;
}

/* Can what is laid over the memory be where the header says? */
static bool sizes_can_be(const struct header *h, uint64_t bytes)
{
	uint64_t most;

	/* Without limits there are no entries, whatever the number of buckets. */
	if (h->buckets == 0 || h->levels == 0 || h->levels > LAYOUT_LEVELS_MAX ||
		(h->count > 0 && h->buckets > bytes / sizeof(struct entry) >> (h->levels - 1)) ||
		layout_header_bytes(h->count) + layout_tally_bytes(h->count, h->levels) > bytes)
		return false;
	most = h->buckets << (h->levels - 1);
	for (uint32_t i = 0; i < h->count; i++)
		if (layout_level_bytes(&h->limits[i], most) > bytes)
			return false;
	return layout_bytes(h->limits, h->count, h->buckets, h->levels) == bytes;
}

static bool limit_can_be(const struct throttle_limit *limit)
{
	unsigned char flag;
	char why[128];

	/* Another value would be none of a bool. */
	memcpy(&flag, &limit->count_refused, 1);
	return flag <= 1 && throttle_limit_check(limit, why, sizeof(why)) == 0;
}

static const char other_version[] = "it has another version";

static const char *check_header(const struct header *h, uint64_t bytes)
{
	if (h->magic == __builtin_bswap64(LAYOUT_MAGIC))
		return "it was written by a machine of another byte order";
	if (h->magic != LAYOUT_MAGIC)
		return "it is not a table of throttles";
	if (h->version != LAYOUT_VERSION)
		return other_version;
	if (h->limit_bytes != sizeof(struct throttle_limit))
		return "it is of another machine";
	if (h->bytes != bytes || h->count > THROTTLE_MAX_LIMITS ||
		layout_header_bytes(h->count) > bytes)
		return "its size is not what it says";
	if (atomic_load_explicit(&h->checksum, memory_order_acquire) != layout_checksum(h))
		return "its header is damaged";
	for (uint32_t i = 0; i < h->count; i++)
		if (!limit_can_be(&h->limits[i]))
			return "a limit in it can't be";
	if (!sizes_can_be(h, bytes))
		return "its size is not that of its limits";
	return h->epoch_ns > TIME_MAX_NS ? "its time can't be" : NULL;
}

/* The newest time is written twice: one that is far ahead of now is believed if both are. */
static const char *check_time(struct header *h, uint64_t now_ns)
{
	/* relaxed: at opening */
	uint64_t latest = atomic_load_explicit(&h->latest, memory_order_relaxed), was = latest;
	uint64_t copy = atomic_load_explicit(&h->latest_copy, memory_order_relaxed);
	uint64_t most = (now_ns > h->epoch_ns ? now_ns - h->epoch_ns : 0) + TIME_DOUBT_NS;

	latest &= ~LATEST_CLOSED;
	if (latest <= most)
		return NULL;
	if (copy > most && latest <= TABLE_TIME_MAX_NS &&
		latest - copy + TIME_DOUBT_NS < 2 * TIME_DOUBT_NS)
		return NULL;
	if (copy > most)
		return "its time can't be";
	atomic_compare_exchange_strong_explicit(&h->latest, &was, copy | (was & LATEST_CLOSED),
		memory_order_relaxed, memory_order_relaxed);
	return NULL;
}

/* What would lead a write astray, or somebody else's throttle: places and callers that can't be, a
 * ring's position beyond its slots. The rest can be anything. */
static void visit_check(struct section *s, uint64_t bucket, void *unused)
{
	section_repair(s, bucket);
	if (s->shape.form == FORM_RING)
		for (unsigned way = 0; way <= BUCKET_WAYS; way++)
			ring_repair(&s->shape, section_entry(s, bucket, way));
	visit_finish(s, bucket, unused);
}

static void visit_bans_and_all(
	struct generation *g, void (*visit)(struct section *, uint64_t, void *))
{
	for (uint32_t i = 0; i < g->count; i++) {
		struct limit_state *l = generation_limit(g, i);

		visit_all(&l->section, visit, NULL);
		if (l->has_bans)
			visit_all(&l->bans, visit, NULL);
	}
}

/* The copy is written after it: if they differ, and it is ahead of now, it is damaged. (Or it is
 * that of a process that was killed in between and had a clock that was ahead.) Alone, since
 * another process writes both. */
static void believe_time(struct generation *g, uint64_t now_ns)
{
	/* relaxed: at opening */
	uint64_t was = atomic_load_explicit(g->latest, memory_order_relaxed);
	uint64_t copy = atomic_load_explicit(&g->header->latest_copy, memory_order_relaxed);
	uint64_t now = now_ns > g->epoch_ns ? now_ns - g->epoch_ns : 0;
	uint64_t latest = was & ~LATEST_CLOSED;

	if (latest > copy && latest > now + TIME_STEP_NS)
		atomic_store_explicit(g->latest, (copy > now ? copy : now) | (was & LATEST_CLOSED),
			memory_order_relaxed);
}

/* Of a store that was opened with `error`, which the generation then owns. */
static struct generation *open_store(
	const struct store *store, int error, uint64_t now_ns, char *why, size_t why_bytes)
{
	struct generation *g = calloc(1, sizeof(*g));
	struct store opened = *store;
	const char *wrong = NULL;
	unsigned free;

	if (g == NULL) {
		if (error == 0)
			store_close(&opened);
		errno = ENOMEM;
		return NULL;
	}
	g->store = opened;
	if (error == ENOTSUP)
		wrong = "it is too short to be a table, or no file";
	if (error == 0)
		wrong = check_header(g->store.memory, g->store.bytes);
	if (error == 0 && wrong == NULL)
		wrong = check_time(g->store.memory, now_ns);
	if (wrong == other_version)
		snprintf(why, why_bytes, "%s: %u, expected %d", wrong,
			((const struct header *)g->store.memory)->version, LAYOUT_VERSION);
	else if (wrong != NULL)
		snprintf(why, why_bytes, "%s", wrong);
	if (wrong != NULL)
		error = EBADMSG;
	if (error == 0)
		error = layout_take_lane(g);
	if (error == 0) {
		g->header = g->store.memory;
		error = layout_lay(g);
	}
	if (error == 0 && !levels_can_be(g)) {
		snprintf(why, why_bytes, "what it says of its levels can't be");
		error = EBADMSG;
	}
	if (error == 0)
		error = levels_reserve(g, false);
	if (error != 0) {
		generation_free(g);
		errno = error;
		return NULL;
	}
	for (uint32_t i = 0; i < g->count; i++)
		g->limits[i * g->levels].begins = generation_limit(g, i)->level;
	free = take_free_lanes(g);
	/* What another process has in use it has looked at, and half-done changes are its own. */
	g->was_alone = free == ALL_LANES;
	if (g->was_alone)
		believe_time(g, now_ns);
	visit_bans_and_all(g, g->was_alone ? visit_check : visit_finish);
	clear_lanes(g, free);
	free_lanes(g, free);
	return g;
}

uint64_t generation_peek(const char *folder, const char *name)
{
	const struct header *h;
	uint64_t newest = 0;
	struct store store;

	if (store_open(&store, folder, name, sizeof(struct header)) != 0)
		return 0;
	h = store.memory;
	if (check_header(h, store.bytes) == NULL)
		/* relaxed: a time by itself */
		newest = h->epoch_ns +
			 (atomic_load_explicit(&h->latest, memory_order_relaxed) & ~LATEST_CLOSED);
	store_close(&store);
	return newest;
}

struct generation *generation_open(
	const char *folder, const char *name, uint64_t now_ns, char *why, size_t why_bytes)
{
	struct store store;
	int error = store_open(&store, folder, name, sizeof(struct header));

	return open_store(&store, error, now_ns, why, why_bytes);
}

struct generation *generation_open_shared(int shared, uint64_t now_ns, char *why, size_t why_bytes)
{
	struct store store;
	int error = store_open_shared(&store, shared, sizeof(struct header));

	if (error == 0)
		store_lock_shared(&store, true);
	return open_store(&store, error, now_ns, why, why_bytes);
}

static void thaw_level(struct section *s, bool is_alone)
{
	for (uint64_t bucket = 0; bucket < s->buckets; bucket++)
		section_thaw(s, bucket, is_alone);
}

void generation_thaw(struct generation *g)
{
	/* relaxed: at opening */
	atomic_fetch_and_explicit(g->latest, ~LATEST_CLOSED, memory_order_relaxed);
	/* All of all levels: what was not split here may have been in the newer table. */
	for (uint32_t i = 0; i < g->count; i++)
		for (struct limit_state *l = generation_limit(g, i); l != NULL;
			l = section_next(&l->section) != NULL ? l + 1 : NULL) {
			thaw_level(&l->section, g->was_alone);
			if (l->has_bans)
				thaw_level(&l->bans, g->was_alone);
		}
}
