/*
 * Heads have the lower bits of a time. A caller that returns when these have wrapped, to the tick,
 * is judged as one that was away for any other time: never more than the limit in a window,
 * and not refused for what was in use a wrap ago.
 */
#include "fixture.h"

#include "throttle/limit.h"
#include "throttle/ring.h"
#include "tests/unit/suite.h"

#define DAY (86400 * SECOND)

static struct throttle_limit sliced(uint64_t quota, uint64_t window_ns, uint32_t slots)
{
	struct throttle_limit limit = ring("wraps", quota, window_ns);

	limit.slots = slots;
	return limit;
}

/* After so long the head says the same; 0: never in a table's life. `tick`: how exactly. */
static uint64_t wrap_of(const struct throttle_limit *limit, uint64_t *tick)
{
	struct shape s;
	unsigned __int128 wrap;

	limit_shape(limit, &s);
	*tick = s.form == FORM_RING ? s.tick_ns : s.quantum;
	wrap = (unsigned __int128)((s.form == FORM_RING ? s.tick_mask : s.bucket_mask) + 1) * *tick;
	return wrap < TABLE_TIME_MAX_NS / 3 ? (uint64_t)wrap : 0;
}

/* How much later than it is made a charge may be recorded: what throttle.h says. */
static uint64_t late_of(const struct throttle_limit *limit)
{
	struct shape s;

	limit_shape(limit, &s);
	return s.form == FORM_RING ? 3 * s.tick_ns : TIME_SLACK_NS + 5 * s.quantum;
}

struct visit {
	const struct throttle_limit *limit;
	struct throttle_table *table;
	uint64_t cost; /* of a charge: a part of the limit */
	uint64_t newest;
};

static bool take(struct visit *v, uint64_t cost, uint64_t now)
{
	struct throttle_outcome o;
	bool is_admitted = take_one(v->table, 1, cost, now, &o);

	if (is_admitted)
		v->newest = o.at_ns;
	return is_admitted;
}

/* All of the limit, from `now` on, in parts; nothing more for a window. */
static void use_up(struct visit *v, uint64_t now)
{
	uint64_t first = now, window = v->limit->window_ns;

	for (uint64_t left = v->limit->quota; left > 0; left -= left < v->cost ? left : v->cost)
		assert_true(take(v, left < v->cost ? left : v->cost, now++));
	assert_false(take(v, 1, now));
	assert_false(take(v, 1, first + window / 2));
	assert_false(take(v, 1, first + window - 1));
	assert_true(v->newest <= now + late_of(v->limit));
}

/* Away for so long, and twice; in between it may have been refused what it can never have, or
 * looked at. */
static void come_back(const struct throttle_limit *limit, uint64_t away, uint64_t refused_every)
{
	struct visit v = {.limit = limit,
		.table = open_table(NULL, 1, limit, 1),
		.cost = (limit->quota + 4) / 5};
	struct throttle_charge look = {.cost = 1};
	struct throttle_verdict verdict;
	uint64_t now = START + 12345;

	look.caller = key_of(v.table, 1);
	for (int times = 0; times < 3; times++) {
		use_up(&v, now);
		for (uint64_t rest = refused_every; refused_every > 0 && rest < away;
			rest += refused_every) {
			assert_false(take(&v, limit->quota + 1, now + rest));
			throttle_peek(v.table, &look, 1, now + rest, &verdict);
			assert_true(rest < 2 * limit->window_ns || verdict.admitted);
		}
		now += away;
	}
	throttle_table_close(v.table);
}

static void come_back_around(const struct throttle_limit *limit)
{
	uint64_t tick, wrap = wrap_of(limit, &tick);
	const int64_t around[] = {0, 1, -1, 2, -2, 3, -3};

	assert_true(wrap > 0);
	for (size_t i = 0; i < sizeof(around) / sizeof(around[0]); i++) {
		uint64_t away = wrap + (uint64_t)(around[i] * (int64_t)tick);

		come_back(limit, away, 0);
		come_back(limit, away, wrap / 3 + 1);
		come_back(limit, away, wrap - limit->window_ns / 2);
		come_back(limit, away + limit->window_ns / 2, 0);
		come_back(limit, away - limit->window_ns / 2, 0);
		come_back(limit, away - SECOND, 0);
		come_back(limit, away - 1900 * MS, wrap / 5);
	}
}

/* A large limit leaves few bits, many slots make quanta short. */
static void test_divided(void **state)
{
	const struct throttle_limit limits[] = {
		sliced(UINT64_C(1) << 30, SECOND, 4095),
		sliced(UINT64_C(1) << 31, 100 * MS, 4095),
		sliced(UINT64_C(1) << 31, 10 * SECOND, 1000),
		sliced(UINT64_C(1) << 30, SECOND, 0),
		sliced(1000000, 10 * MS, 100),
	};

	(void)state;
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++)
		come_back_around(&limits[i]);
}

static void test_exact(void **state)
{
	static const uint64_t quotas[] = {32, 63, 64, 300, 1000, 2047, 4095};
	static const uint64_t windows[] = {10 * MS, 1000 * MS, 3600 * SECOND};

	(void)state;
	for (size_t q = 0; q < sizeof(quotas) / sizeof(quotas[0]); q++)
		for (size_t w = 0; w < sizeof(windows) / sizeof(windows[0]); w++) {
			struct throttle_limit limit = sliced(quotas[q], windows[w], THROTTLE_EXACT);

			come_back_around(&limit);
		}
}

/* Changed at that time: the newer limit has what is in the window, and nothing of a wrap ago. */
static void test_changed(void **state)
{
	const struct throttle_limit limit = sliced(UINT64_C(1) << 30, SECOND, 4095);
	struct throttle_limit next = limit;
	uint64_t tick, wrap = wrap_of(&limit, &tick);

	(void)state;
	next.quota /= 2;
	for (int64_t ticks = -3; ticks <= 3; ticks++) {
		struct visit v = {.limit = &limit, .cost = limit.quota};
		uint64_t now = START + wrap + (uint64_t)(ticks * (int64_t)tick);

		v.table = open_table(NULL, 1, &limit, 1);
		use_up(&v, START);
		assert_int_equal(throttle_table_apply(v.table, &next, 1, 0, now, NULL), 0);
		v.limit = &next;
		v.cost = next.quota;
		use_up(&v, now);
		throttle_table_close(v.table);
	}
}

/* Rings of up to 31 have no room for more: what throttle.h says of them is all that happens. */
static void test_rings_round(void **state)
{
	static const uint64_t quotas[] = {1, 4, 20, 31};

	(void)state;
	for (size_t q = 0; q < sizeof(quotas) / sizeof(quotas[0]); q++) {
		struct throttle_limit limit = sliced(quotas[q], SECOND, THROTTLE_EXACT);
		uint64_t tick, wrap = wrap_of(&limit, &tick);

		assert_in_range(wrap, 416 * DAY, 417 * DAY);
		for (int64_t ticks = -3; ticks <= 3; ticks++) {
			struct visit v = {.limit = &limit, .cost = 1};
			uint64_t now = START + wrap + (uint64_t)(ticks * (int64_t)tick);

			v.table = open_table(NULL, 1, &limit, 1);
			use_up(&v, START);
			/* Perhaps refused, no longer than a window. */
			if (!take(&v, 1, now))
				use_up(&v, now + limit.window_ns + 10 * tick);
			throttle_table_close(v.table);
		}
	}
}

UNIT_SUITE(wraps_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_divided),
		cmocka_unit_test(test_exact),
		cmocka_unit_test(test_changed),
		cmocka_unit_test(test_rings_round),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
