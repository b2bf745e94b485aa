/*
 * A limit's numbers: what is allowed, and what follows from them (entry.h, struct shape).
 *
 *   quota <= slots            ring, one slot an admission
 *   quota >  slots            window, one slot a quantum of time
 *
 * A caller that asks all the time gets L in W from a ring, and of a window of n slots L in W and a
 * quantum, which is W / (n - 1). Of N slots (n = N + 1) the first window's limit, N + 1, gives N in
 * W, as the last ring's does; so where n isn't more than N by default, the first window has one
 * slot more. So a larger limit never admits less. (Where its ticks are much coarser it can: exact
 * rings above 2047 of windows under 16 ms.)
 *
 * Ticks and quanta are rounded so that every error is on the safe side: a window may be judged up
 * to two ticks too long, never too short.
 */
#include "throttle/limit.h"
#include "throttle/concurrency.h"
#include "throttle/ring.h"
#include "throttle/zone.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define MILLISECOND_NS UINT64_C(1000000)
#define DAY_NS         UINT64_C(86400000000000)
#define WINDOW_MAX_NS  (400 * DAY_NS)
#define QUOTA_MAX                                                                                  \
	(UINT64_C(1) << 31)     /* units; more bytes than that are counted in larger units         \
				 */
#define INCREMENT_LEAST_NS 1000 /* of pacing: rounding up to a ns is no more than a thousandth */
#define SHORT_RING_SHIFT   11   /* ticks of 2 us: 44 bits of them are 417 days */
#define SLOT_RANGE_BITS    29 /* a window in ticks: what is in a slot is younger than two of them */
#define GRAINS             (UINT64_C(1) << 22) /* of a quota, in a slot's count */

const struct form_ops *form_ops_of(const struct shape *shape)
{
	static const struct form_ops *const ops[] = {
		[FORM_RING] = &ring_ops,
		[FORM_WINDOW] = &window_ops,
		[FORM_GCRA] = &gcra_ops,
		[FORM_CALENDAR] = &calendar_ops,
		[FORM_CONCURRENCY] = &concurrency_ops,
	};

	if (shape->form == FORM_RING && shape->index_bits == RING_SHORT_BITS)
		return &ring_short_ops;
	return ops[shape->form];
}

static unsigned bit_length(uint64_t x)
{
	return x == 0 ? 0 : 64 - (unsigned)__builtin_clzll(x);
}

static uint64_t divide_up(uint64_t a, uint64_t b)
{
	return a / b + (a % b != 0);
}

/* `why` of a wrong limit: -1, so that a check can return it. */
static int wrong(char *why, size_t bytes, const struct throttle_limit *limit, const char *what)
{
	snprintf(why, bytes, "limit \"%.*s\": %s", THROTTLE_NAME_BYTES - 1, limit->name, what);
	return -1;
}

static const char *check_window(const struct throttle_limit *l)
{
	if (l->window_ns < MILLISECOND_NS || l->window_ns > WINDOW_MAX_NS)
		return "the window must be from 1 ms to 400 days";
	if (l->guard_ns > l->window_ns && l->guard_ns > 60 * UINT64_C(1000000000))
		return "the guard must not be longer than the window, or than a minute";
	return NULL;
}

static const char *check_ring(const struct throttle_limit *l)
{
	if (l->slots == THROTTLE_EXACT && l->quota > LIMIT_MOST_SLOTS)
		return "exact precision reaches up to a quota of 4095: give a number of slots";
	if (l->slots != THROTTLE_EXACT && l->slots > LIMIT_MOST_SLOTS)
		return "precision must be from 1 to 4095 slots";
	return check_window(l);
}

static const char *check_calendar(const struct throttle_limit *l)
{
	struct zone *zone;

	if ((unsigned)l->period > THROTTLE_MONTH)
		return "no such calendar period";
	if (memchr(l->zone, '\0', sizeof(l->zone)) == NULL)
		return "the time zone's name is too long";
	zone = zone_load(l->zone);
	if (zone == NULL && errno == ENOMEM)
		return "out of memory";
	if (zone == NULL)
		return "no such time zone";
	zone_free(zone);
	return NULL;
}

static const char *check_ban(const struct throttle_limit *l)
{
	if (l->ban_count == 0)
		return NULL;
	if (l->ban_count > LIMIT_MOST_SLOTS)
		return "a ban must be for 1 to 4095 refusals";
	if (l->ban_per_ns < MILLISECOND_NS || l->ban_per_ns > WINDOW_MAX_NS ||
		l->ban_for_ns < MILLISECOND_NS || l->ban_for_ns > WINDOW_MAX_NS)
		return "a ban's times must be from 1 ms to 400 days";
	return NULL;
}

static const char *check_kind(const struct throttle_limit *l)
{
	switch (l->kind) {
	case THROTTLE_RING:
		return check_ring(l);
	case THROTTLE_GCRA:
		/* Counted in the units that the quota is counted in. */
		if (divide_up(l->burst, divide_up(l->quota, QUOTA_MAX)) > QUOTA_MAX)
			return "the burst is too large";
		return check_window(l);
	case THROTTLE_CALENDAR:
		return check_calendar(l);
	case THROTTLE_CONCURRENCY:
		if (l->quota > CONCURRENCY_MAX)
			return "at most 8191 of one caller can be in flight";
		return l->unit == THROTTLE_BYTES ? "bytes in flight can't be limited" : NULL;
	default:
		return "no such kind";
	}
}

int throttle_limit_check(const struct throttle_limit *limit, char *why, size_t why_bytes)
{
	const char *what = NULL;

	if (memchr(limit->name, '\0', sizeof(limit->name)) == NULL || limit->name[0] == '\0')
		return wrong(why, why_bytes, limit, "a name must have 1 to 63 bytes");
	if (memchr(limit->was, '\0', sizeof(limit->was)) == NULL)
		what = "the name that it had must have at most 63 bytes";
	else if (limit->quota == 0)
		what = "the quota must be at least 1";
	else if (limit->unit != THROTTLE_BYTES && limit->quota > QUOTA_MAX)
		what = "the quota must be at most 2147483648 requests";
	else if (limit->quota > UINT64_C(1) << 62)
		what = "the quota is too large";
	if (what == NULL)
		what = check_kind(limit);
	if (what == NULL)
		what = check_ban(limit);
	return what == NULL ? 0 : wrong(why, why_bytes, limit, what);
}

/* Rounded so that an entry lies in as few cache lines as it can: of 64 bytes, or two of them. */
static uint32_t entry_bytes_for(uint32_t slots)
{
	uint32_t bytes = (uint32_t)sizeof(struct entry) + 4 * slots;

	if (bytes <= 32)
		return 32;
	return bytes <= 64 ? 64 : (bytes + 31) & ~31u;
}

/* Bits of a head: type 2, three positions, the rest is the tick's. See ring.c. */
static void shape_ring(struct shape *s, uint32_t slots, uint64_t window, uint64_t keep)
{
	unsigned bits = bit_length(slots), range, time_bits;
	uint64_t longest = (keep > window ? keep : window) + TIME_SLACK_NS;

	s->form = FORM_RING;
	s->slots = slots;
	s->index_bits = bits > RING_SHORT_BITS ? bits : RING_SHORT_BITS;
	s->first_slot = bits > RING_SHORT_BITS ? 2 : 0;
	time_bits = tick_bits(s);
	/* Heads of short rings tell times of more than a year apart; long ones have a stamp. */
	/* (A tick is no less than a divided ring of so many slots loses by its quantum's rounding.)
	 */
	s->shift = bits > RING_SHORT_BITS ? bits : SHORT_RING_SHIFT;
	range = time_bits - 4 < SLOT_RANGE_BITS ? time_bits - 4 : SLOT_RANGE_BITS;
	while (longest >> s->shift >= UINT64_C(1) << range)
		s->shift++;
	s->tick_ns = UINT64_C(1) << s->shift;
	s->tick_mask = bits_mask(time_bits);
	s->slot_mask = bits_mask(time_bits < 32 ? time_bits : 32);
	s->window = window;
	s->keep = keep + TIME_SLACK_NS;
	s->window_ticks = divide_up(window, UINT64_C(1) << s->shift) + (s->shift > 0);
	s->keep_ticks = divide_up(s->keep, UINT64_C(1) << s->shift) + 1;
	/* A head can be ahead by as much as threads' clocks differ, and as much again. */
	s->lag_ticks = 2 * ((TIME_SLACK_NS >> s->shift) + 2);
	s->since_max = s->tick_mask - s->lag_ticks;
	s->span = s->window_ticks * s->tick_ns;
	s->entry_bytes = entry_bytes_for(s->first_slot + slots);
}

static void shape_window(struct shape *s, uint32_t slots, uint64_t window)
{
	s->form = FORM_WINDOW;
	s->slots = slots;
	s->window = window;
	s->quantum = divide_up(window, slots - 1);
	s->quantum_inverse = UINT64_MAX / s->quantum;
	s->slots_inverse = UINT64_MAX / slots;
	s->used_bits = bit_length(s->quota) + 3;
	s->bucket_mask = bits_mask(HEAD_OWN_BITS - 1 - s->used_bits);
	s->stamp_shift = HEAD_OWN_BITS - 1 - s->used_bits - 2;
	s->first_slot = s->bucket_mask < TABLE_TIME_MAX_NS / s->quantum;
	s->lag_buckets = TIME_SLACK_NS / s->quantum + 3;
	s->grain = divide_up(s->quota, GRAINS);
	s->entry_bytes = entry_bytes_for(s->first_slot + slots);
}

static void shape_gcra(struct shape *s, const struct throttle_limit *l)
{
	uint64_t burst = l->burst > 0 ? divide_up(l->burst, s->scale) : 1;

	s->form = FORM_GCRA;
	s->slots = 2; /* one number of 64 bits: see gcra.c */
	s->entry_bytes = entry_bytes_for(s->slots);
	s->window = l->window_ns;
	s->increment = divide_up(s->window, s->quota);
	/* A burst is as many increments as it has charges, also when each is rounded up. Short ones
	 * are rounded up once a charge: see increment_of. */
	s->by_increments = s->increment >= INCREMENT_LEAST_NS;
	s->burst = s->by_increments
			   ? burst * s->increment
			   : (uint64_t)(((unsigned __int128)burst * s->window + s->quota - 1) /
					s->quota);
}

void limit_shape(const struct throttle_limit *l, struct shape *s)
{
	uint32_t slots = l->slots == 0 ? LIMIT_DEFAULT_SLOTS : l->slots + 1;

	*s = (struct shape){
		.scale = divide_up(l->quota, QUOTA_MAX), .entry_bytes = sizeof(struct entry)};
	s->quota = l->quota / s->scale;
	switch (l->kind) {
	case THROTTLE_GCRA:
		shape_gcra(s, l);
		break;
	case THROTTLE_CALENDAR:
		s->form = FORM_CALENDAR;
		s->period = l->period;
		break;
	case THROTTLE_CONCURRENCY:
		s->form = FORM_CONCURRENCY;
		break;
	case THROTTLE_RING:
	default:
		if (l->slots == THROTTLE_EXACT || s->quota < slots ||
			(l->slots == 0 && s->quota == slots))
			shape_ring(s, (uint32_t)s->quota, l->window_ns + l->guard_ns,
				l->window_ns + l->guard_ns);
		else
			shape_window(s, slots + (l->slots == 0 && s->quota == slots + 1),
				l->window_ns + l->guard_ns);
	}
}

void limit_ban_shape(const struct throttle_limit *l, struct shape *s)
{
	*s = (struct shape){.scale = 1, .quota = l->ban_count};
	shape_ring(s, l->ban_count, l->ban_per_ns,
		l->ban_per_ns > l->ban_for_ns ? l->ban_per_ns : l->ban_for_ns);
}
