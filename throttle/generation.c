/* Laying a set of limits over memory, and trusting a file only after a look. See generation.h. */
#include "throttle/generation.h"
#include "throttle/take.h"
#include "throttle/concurrency.h"
#include "throttle/limit.h"
#include "throttle/ring.h"
#include "throttle/section_move.h"
#include "throttle/zone.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC      UINT64_C(0x454c54544f524854) /* "THROTTLE" on a little-endian machine */
#define VERSION    5
#define PAGE_BYTES 4096

#define TIME_MAX_NS (UINT64_C(1) << 62) /* since 1970: 146 years */
/* Of a table: what a head has bits for, less what may be charged ahead of it. 64 years. */
#define TABLE_TIME_MAX_NS (HEAD_OWN - (UINT64_C(1) << 58))
#define TIME_DOUBT_NS     UINT64_C(86400000000000) /* a clock can be wrong by a day */

struct header {
	/* Fixed when the table is made; `checksum` is over these and the limits. */
	uint64_t magic;
	uint32_t version, limit_bytes;
	uint64_t bytes, callers, buckets, epoch_ns;
	struct throttle_seed seed;
	uint32_t count, reserved;
	_Atomic(uint64_t) checksum;
	/* On cache lines of their own. */
	_Alignas(64) _Atomic(uint64_t) latest;
	_Atomic(uint64_t) latest_copy;
	_Alignas(64) struct throttle_limit limits[];
};

static uint64_t checksum_of(const struct header *h)
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

static uint64_t header_bytes(size_t count)
{
	return page_up(sizeof(struct header) + count * sizeof(struct throttle_limit));
}

static uint64_t tally_bytes(size_t count)
{
	return page_up(count * 2 * sizeof(struct tally));
}

/* The bytes of the sections of a limit. */
static uint64_t limit_state_bytes(const struct throttle_limit *limit, uint64_t buckets)
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

static uint64_t total_bytes(const struct throttle_limit *limits, size_t count, uint64_t buckets)
{
	uint64_t bytes = header_bytes(count) + tally_bytes(count);

	for (size_t i = 0; i < count; i++)
		bytes += limit_state_bytes(&limits[i], buckets);
	return bytes;
}

/* Until a table has the generation. */
static const _Atomic(int64_t) no_shift;

static void lay_section(struct generation *g, struct section *s, uint64_t *at, struct tally *tally)
{
	s->shape.epoch_ns = g->epoch_ns;
	s->shape.lane = g->lane;
	s->shape.wall_shift_ns = &no_shift;
	s->ops = form_ops_of(&s->shape);
	s->tally = tally;
	s->shape.latest = g->latest;
	section_lay(s, (unsigned char *)g->store.memory + *at, g->buckets);
	*at += page_up(section_bytes(&s->shape, g->buckets));
}

/* Of pacing, what there is at once. */
static uint64_t told_quota(const struct throttle_limit *l)
{
	if (l->kind != THROTTLE_GCRA)
		return l->quota;
	return l->burst > 0 ? l->burst : 1;
}

/* Makes the process's side of the limits in the header. 0 or errno. */
static int lay(struct generation *g)
{
	struct header *h = g->header;
	uint64_t at = header_bytes(h->count) + tally_bytes(h->count);
	struct tally *tally = (void *)((unsigned char *)g->store.memory + header_bytes(h->count));

	g->latest = &h->latest;
	g->epoch_ns = h->epoch_ns;
	g->callers = h->callers;
	g->buckets = h->buckets;
	g->count = h->count;
	g->limits = calloc(h->count > 0 ? h->count : 1, sizeof(*g->limits));
	if (g->limits == NULL)
		return ENOMEM;
	for (uint32_t i = 0; i < h->count; i++) {
		struct limit_state *l = &g->limits[i];

		l->limit = h->limits[i];
		limit_shape(&l->limit, &l->section.shape);
		if (l->limit.kind == THROTTLE_CALENDAR) {
			l->zone = zone_load(l->limit.zone);
			if (l->zone == NULL)
				return errno;
			l->section.shape.zone = l->zone;
			l->section.shape.period_cache = &l->period_cache;
		}
		lay_section(g, &l->section, &at, &tally[2 * i]);
		l->has_bans = l->limit.ban_count > 0;
		if (l->has_bans) {
			limit_ban_shape(&l->limit, &l->bans.shape);
			lay_section(g, &l->bans, &at, &tally[2 * i + 1]);
		}
		l->quick = quick_for(l);
		l->told_quota = told_quota(&l->limit);
	}
	return 0;
}

static int take_lane(struct generation *g)
{
	for (g->lane = 0; g->lane < CONCURRENCY_LANES; g->lane++)
		if (store_take_lane(&g->store, g->lane))
			return 0;
	return EBUSY;
}

/* What a process that is gone had in flight has ended with it. While the folder is locked nobody
 * else takes a lane. True: no other process has it open. */
static bool clear_free_lanes(struct generation *g)
{
	unsigned free = 0;

	for (unsigned lane = 0; lane < CONCURRENCY_LANES; lane++)
		if (lane == g->lane || store_take_lane(&g->store, lane))
			free |= 1u << lane;
	for (uint32_t i = 0; i < g->count; i++) {
		struct section *s = &g->limits[i].section;

		if (s->shape.form != FORM_CONCURRENCY)
			continue;
		for (uint64_t b = 0; b < s->buckets; b++)
			for (unsigned way = 0; way <= BUCKET_WAYS; way++)
				concurrency_clear_lanes(section_entry(s, b, way), free);
	}
	for (unsigned lane = 0; lane < CONCURRENCY_LANES; lane++)
		if (lane != g->lane && (free >> lane & 1) != 0)
			store_free_lane(&g->store, lane);
	return free == (1u << CONCURRENCY_LANES) - 1;
}

struct generation *generation_create(
	const struct generation_source *source, const struct throttle_limit *limits, size_t count)
{
	struct generation *g = calloc(1, sizeof(*g));
	uint64_t bytes = total_bytes(limits, count, source->buckets);
	struct header *h;
	int error;

	if (g == NULL)
		return NULL;
	error = source->folder == NULL
			? store_anonymous(&g->store, bytes)
			: store_create(&g->store, source->folder, source->name, bytes);
	if (error == 0)
		error = take_lane(g);
	if (error == 0) {
		h = g->header = g->store.memory;
		h->magic = MAGIC;
		h->version = VERSION;
		h->limit_bytes = sizeof(struct throttle_limit);
		h->bytes = bytes;
		h->callers = source->callers;
		h->buckets = source->buckets;
		h->epoch_ns = source->epoch_ns;
		h->seed = source->seed;
		h->count = (uint32_t)count;
		memcpy(h->limits, limits, count * sizeof(*limits));
		atomic_init(&h->latest, source->latest);
		atomic_init(&h->latest_copy, source->latest);
		/* release: whatever instant the process is killed at, a file with a checksum that
		 * fits is whole */
		atomic_store_explicit(&h->checksum, checksum_of(h), memory_order_release);
		error = lay(g);
	}
	if (error == 0)
		return g;
	generation_free(g);
	errno = error;
	return NULL;
}

/* Can what is laid over the memory be where the header says? */
static bool sizes_can_be(const struct header *h, uint64_t bytes)
{
	if (h->buckets == 0 || h->buckets > bytes / sizeof(struct entry))
		return false;
	for (uint32_t i = 0; i < h->count; i++)
		if (limit_state_bytes(&h->limits[i], h->buckets) > bytes)
			return false;
	return total_bytes(h->limits, h->count, h->buckets) == bytes;
}

static bool limit_can_be(const struct throttle_limit *limit)
{
	unsigned char flag;
	char why[128];

	/* Another value would be none of a bool. */
	memcpy(&flag, &limit->count_refused, 1);
	return flag <= 1 && throttle_limit_check(limit, why, sizeof(why)) == 0;
}

static const char *check_header(const struct header *h, uint64_t bytes)
{
	if (h->magic == __builtin_bswap64(MAGIC))
		return "it was written by a machine of another byte order";
	if (h->magic != MAGIC)
		return "it is not a table of throttles";
	if (h->version != VERSION || h->limit_bytes != sizeof(struct throttle_limit))
		return "it is of another version or machine";
	if (h->bytes != bytes || h->count > THROTTLE_MAX_LIMITS ||
		header_bytes(h->count) + tally_bytes(h->count) > bytes)
		return "its size is not what it says";
	if (atomic_load_explicit(&h->checksum, memory_order_acquire) != checksum_of(h))
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
static void check_entries(struct section *s)
{
	for (uint64_t b = 0; b < s->buckets; b++) {
		section_repair(s, b);
		if (s->shape.form == FORM_RING)
			for (unsigned way = 0; way <= BUCKET_WAYS; way++)
				ring_repair(&s->shape, section_entry(s, b, way));
	}
}

struct generation *generation_open(
	const char *folder, const char *name, uint64_t now_ns, char *why, size_t why_bytes)
{
	struct generation *g = calloc(1, sizeof(*g));
	const char *wrong = NULL;
	int error;

	if (g == NULL)
		return NULL;
	error = store_open(&g->store, folder, name, sizeof(struct header));
	if (error == ENOTSUP)
		wrong = "it is too short to be a table, or no file";
	if (error == 0)
		wrong = check_header(g->store.memory, g->store.bytes);
	if (error == 0 && wrong == NULL)
		wrong = check_time(g->store.memory, now_ns);
	if (wrong != NULL) {
		snprintf(why, why_bytes, "%s", wrong);
		error = EBADMSG;
	}
	if (error == 0)
		error = take_lane(g);
	if (error == 0) {
		g->header = g->store.memory;
		error = lay(g);
	}
	if (error != 0) {
		generation_free(g);
		errno = error;
		return NULL;
	}
	/* What another process has in use it has looked at, and half-done changes are its own. */
	for (uint32_t i = clear_free_lanes(g) ? 0 : g->count; i < g->count; i++) {
		check_entries(&g->limits[i].section);
		if (g->limits[i].has_bans)
			check_entries(&g->limits[i].bans);
	}
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

void generation_free(struct generation *g)
{
	if (g == NULL)
		return;
	for (uint32_t i = 0; g->limits != NULL && i < g->count; i++)
		zone_free(g->limits[i].zone);
	free(g->limits);
	free(g->by_id);
	store_close(&g->store);
	free(g);
}

const struct throttle_seed *generation_seed(const struct generation *g)
{
	return &g->header->seed;
}

bool generation_has_limits(
	const struct generation *g, const struct throttle_limit *limits, size_t count)
{
	return g->count == count && memcmp(g->header->limits, limits, count * sizeof(*limits)) == 0;
}

struct limit_state *generation_find(const struct generation *g, const char *name)
{
	for (uint32_t i = 0; i < g->count; i++)
		if (strcmp(g->limits[i].limit.name, name) == 0)
			return &g->limits[i];
	return NULL;
}

/* What was charged before is given back as long as it is still counted as it was then. */
static void link_section(struct section *to, struct section *from, uint32_t number)
{
	bool is_same =
		to->shape.form == from->shape.form &&
		(to->shape.form == FORM_CONCURRENCY || to->ops->is_same(&to->shape, &from->shape));

	to->refunds_since = is_same ? from->refunds_since : number;
	/* release: pairs with the loads of `old` */
	atomic_store_explicit(&to->old, from, memory_order_release);
}

void generation_link(struct generation *next, struct generation *last)
{
	next->number = last->number + 1;
	for (uint32_t i = 0; i < next->count; i++) {
		struct limit_state *to = &next->limits[i];
		struct limit_state *from = generation_find(last, to->limit.name);

		to->section.refunds_since = next->number;
		if (from == NULL)
			continue;
		link_section(&to->section, &from->section, next->number);
		if (to->has_bans && from->has_bans)
			link_section(&to->bans, &from->bans, next->number);
	}
}

void generation_move_all(struct generation *g)
{
	for (uint32_t i = 0; i < g->count; i++) {
		section_move_all(&g->limits[i].section);
		if (g->limits[i].has_bans)
			section_move_all(&g->limits[i].bans);
	}
}

void generation_thaw(struct generation *g)
{
	/* relaxed: at opening */
	atomic_fetch_and_explicit(g->latest, ~LATEST_CLOSED, memory_order_relaxed);
	for (uint32_t i = 0; i < g->count; i++) {
		section_thaw(&g->limits[i].section);
		if (g->limits[i].has_bans)
			section_thaw(&g->limits[i].bans);
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
