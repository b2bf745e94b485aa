/*
 * Limits that change: what was admitted still counts, against a plain list of it.
 *
 * throttle.h says what a new limit of L per W knows of the time before it: the newest L units, as
 * far back as the limits before it reached. `remembered` is that, cut at each change; no charge may
 * be admitted beyond L of it in a trailing window. On the other side, what all of the list has left
 * long enough must be admitted.
 */
#include "fixture.h"

#include <errno.h>
#include <unistd.h>

#include "tests/unit/suite.h"

#define HOUR (3600 * SECOND)
#define ROOM 16384

struct admission {
	uint64_t at, cost;
};

struct past {
	size_t count;
	struct admission list[ROOM];
};

static uint64_t sum_since(const struct past *p, uint64_t now, uint64_t window)
{
	uint64_t sum = 0;

	for (size_t i = p->count; i > 0 && p->list[i - 1].at + window > now; i--)
		sum += p->list[i - 1].cost;
	return sum;
}

static void add(struct past *p, uint64_t at, uint64_t cost)
{
	assert_true(p->count < ROOM);
	p->list[p->count++] = (struct admission){at, cost};
}

/* What the next limit may forget: what is older than this window, and than its newest units. */
static void cut(struct past *p, uint64_t now, uint64_t window, uint64_t units)
{
	size_t first = p->count, kept = 0;

	for (; first > 0 && units > 0 && p->list[first - 1].at + window > now; first--) {
		struct admission *a = &p->list[first - 1];

		a->cost = a->cost < units ? a->cost : units;
		units -= a->cost;
	}
	for (size_t i = first; i < p->count; i++)
		p->list[kept++] = p->list[i];
	p->count = kept;
}

static void change(struct throttle_table *t, const struct throttle_limit *limit, uint64_t now)
{
	assert_int_equal(throttle_table_apply(t, limit, 1, 0, now, NULL), 0);
	throttle_table_collect(t);
}

static struct throttle_limit precise(uint64_t quota, uint64_t window_ns, uint32_t slots)
{
	struct throttle_limit limit = ring("x", quota, window_ns);

	limit.slots = slots;
	return limit;
}

/* ---- changes that once broke the bound ------------------------------------------------------- */

/* A limit that is cut to a part admits no more than that in any window, and continues when what is
 * left of the past has gone. */
static void test_cut(void **state)
{
	static const struct {
		uint64_t from, to;
	} cuts[] = {{10000, 100}, {10000, 60}, {1000, 100}, {1000000, 21}, {4096, 5}};
	static struct past past;

	(void)state;
	for (size_t c = 0; c < sizeof(cuts) / sizeof(cuts[0]); c++) {
		struct throttle_limit limit = ring("x", cuts[c].from, HOUR);
		struct throttle_table *t = open_table(NULL, 1, &limit, 1);
		uint64_t now = START, last = 0;

		past.count = 0;
		for (int i = 0; i < 10; i++, now += 330 * SECOND) {
			assert_true(take_one(t, 1, cuts[c].from / 10, now, NULL));
			add(&past, now, cuts[c].from / 10);
		}
		limit.quota = cuts[c].to;
		cut(&past, now, HOUR, limit.quota);
		change(t, &limit, now);
		assert_false(take_one(t, 1, 1, now, NULL));
		for (uint64_t end = now + 10 * HOUR; now < end; now += 10 * SECOND) {
			uint64_t admitted = take_until_refused(t, 1, now);

			if (admitted == 0)
				continue;
			add(&past, last = now, admitted);
			assert_true(sum_since(&past, now, HOUR) <= limit.quota);
		}
		assert_true(last + HOUR + HOUR / 18 + 10 * SECOND >= now);
		throttle_table_close(t);
	}
}

/* Other quanta: nothing is dated into the future, nor out of it. */
/* What had left the window before the change is not in the longer one after it, although its slots
 * were still there. */
static void test_expired_stays_out(void **state)
{
	static const uint32_t slots[] = {5, 20, THROTTLE_EXACT};

	(void)state;
	for (size_t i = 0; i < sizeof(slots) / sizeof(slots[0]); i++) {
		struct throttle_limit limit = precise(50, 10 * SECOND, slots[i]);
		struct throttle_table *t = open_table(NULL, 1, &limit, 1);
		uint64_t now = START;

		for (; now < START + 9 * SECOND; now += SECOND)
			assert_true(take_one(t, 1, 5, now, NULL));
		/* The last has just left it, for every thread's clock. */
		now += 13 * SECOND;
		limit.window_ns = HOUR;
		change(t, &limit, now);
		assert_int_equal(take_until_refused(t, 1, now), 50);
		throttle_table_close(t);
	}
}

static void test_quanta(void **state)
{
	static const struct {
		uint64_t quota, window;
		uint32_t slots;
	} pairs[][2] = {
		{{20, 10 * SECOND, 0}, {30, 19 * SECOND, 0}},
		{{4000, HOUR, 1}, {4000, HOUR, THROTTLE_EXACT}},
		{{4000, HOUR, THROTTLE_EXACT}, {4000, HOUR, 1}},
		{{100, HOUR, 3}, {100, HOUR, 7}},
		{{100, HOUR, 7}, {20, HOUR, 0}},
	};

	(void)state;
	for (size_t p = 0; p < sizeof(pairs) / sizeof(pairs[0]); p++)
		for (uint64_t offset = 0; offset < 70 * 60 * SECOND; offset += 7 * 60 * SECOND) {
			struct throttle_limit from =
				precise(pairs[p][0].quota, pairs[p][0].window, pairs[p][0].slots);
			struct throttle_limit to =
				precise(pairs[p][1].quota, pairs[p][1].window, pairs[p][1].slots);
			struct throttle_table *t = open_table(NULL, 1, &from, 1);
			uint64_t now = START + offset, begin, least, admitted;

			assert_true(take_one(t, 1, 1, START, NULL));
			begin = now;
			admitted = take_until_refused(t, 1, now);
			least = admitted < to.quota ? admitted : to.quota;
			change(t, &to, now += SECOND);
			for (; now < begin + to.window_ns; now += to.window_ns / 60)
				least += take_until_refused(t, 1, now);
			assert_true(least <= to.quota);
			throttle_table_close(t);
		}
}

/* ---- random ones ----------------------------------------------------------------------------- */

static struct throttle_limit random_ring(uint64_t *seed, uint64_t *quantum)
{
	static const uint64_t windows[] = {
		50 * MS, 1000 * MS, 7000 * MS, 10 * SECOND, 19 * SECOND, 60 * SECOND, HOUR};
	static const uint64_t quotas[] = {
		1, 2, 5, 12, 19, 20, 21, 30, 31, 32, 50, 100, 400, 1000, 10000};
	struct throttle_limit limit =
		precise(quotas[random_below(seed, 15)], windows[random_below(seed, 7)], 0);

	if (random_below(seed, 3) == 0 && limit.quota <= 4095)
		limit.slots = THROTTLE_EXACT;
	else if (random_below(seed, 2) == 0)
		limit.slots = (uint32_t)(1 + random_below(seed, 60));
	*quantum = limit.window_ns / (limit.slots == 0 ? 18 : limit.slots);
	if (limit.slots == THROTTLE_EXACT)
		*quantum = limit.window_ns >> 15;
	return limit;
}

struct run {
	struct throttle_limit limit;
	uint64_t now,
		late; /* all quanta so far: how much later than it was a charge may be dated */
	struct past remembered, all;
};

static void one_charge(struct run *r, struct throttle_table *t, uint64_t *seed)
{
	uint64_t quota = r->limit.quota, window = r->limit.window_ns;
	uint64_t cost = random_below(seed, 4) == 0 ? 1 + random_below(seed, quota) : 1;
	struct throttle_outcome o;

	if (take_one(t, 1, cost, r->now, &o)) {
		uint64_t before = sum_since(&r->remembered, r->now, window);

		if (before + cost > quota)
			printf("# %llu and %llu of %llu in %llu ms, slots %u\n",
				(unsigned long long)before, (unsigned long long)cost,
				(unsigned long long)quota, (unsigned long long)(window / MS),
				r->limit.slots);
		assert_true(before + cost <= quota);
		add(&r->remembered, r->now, cost);
		add(&r->all, r->now, cost);
		return;
	}
	assert_true(sum_since(&r->all, r->now, window + r->late) + cost > quota);
	assert_true(o.retry_after_ns > 0 && o.retry_after_ns <= window + r->late);
}

static void random_changes(uint64_t *seed)
{
	static struct run r;
	struct throttle_table *t;
	uint64_t quantum;

	memset(&r, 0, sizeof(r));
	r.now = START + random_below(seed, HOUR);
	r.limit = random_ring(seed, &quantum);
	r.late = quantum + 100 * MS;
	t = open_table(NULL, 1, &r.limit, 1);
	for (unsigned changes = 1 + (unsigned)random_below(seed, 4); changes > 0; changes--) {
		uint64_t window = r.limit.window_ns;

		for (unsigned i = (unsigned)random_below(seed, 120); i > 0; i--) {
			one_charge(&r, t, seed);
			if (random_below(seed, 3) == 0)
				r.now += random_below(seed, 1 + 2 * window / (1 + i));
		}
		r.limit = random_ring(seed, &quantum);
		r.late += quantum + 100 * MS;
		cut(&r.remembered, r.now, window, r.limit.quota);
		change(t, &r.limit, r.now);
		for (unsigned i = 40; i > 0; i--) {
			one_charge(&r, t, seed);
			if (random_below(seed, 2) == 0)
				r.now += random_below(seed, r.limit.window_ns / 8);
		}
	}
	throttle_table_close(t);
}

static void test_random_changes(void **state)
{
	uint64_t seed = random_seed("changes");

	(void)state;
	for (uint64_t n = steps_or(1500); n > 0; n--)
		random_changes(&seed);
}

/* ---- other kinds ----------------------------------------------------------------------------- */

/* What the old kind has in use is in use under the new one, from the change on; and back. */
static void test_kinds(void **state)
{
	struct throttle_limit rings = ring("x", 20, 10 * SECOND), paced = rings, day = rings;
	struct throttle_table *t;

	(void)state;
	paced.kind = THROTTLE_GCRA;
	paced.burst = 20;
	day.kind = THROTTLE_CALENDAR;
	day.period = THROTTLE_DAY;
	t = open_table(NULL, 1, &rings, 1);
	assert_int_equal(take_until_refused(t, 1, START), 20);
	change(t, &paced, START + MS);
	assert_int_equal(take_until_refused(t, 1, START + 2 * MS), 0);
	change(t, &rings, START + 3 * MS);
	assert_int_equal(take_until_refused(t, 1, START + 4 * MS), 0);
	assert_int_equal(take_until_refused(t, 1, START + 9900 * MS), 0);
	assert_int_equal(take_until_refused(t, 1, START + 10100 * MS), 20);
	change(t, &day, START + 10200 * MS);
	assert_int_equal(take_until_refused(t, 1, START + 10300 * MS), 0);
	change(t, &paced, START + 10400 * MS);
	assert_int_equal(take_until_refused(t, 1, START + 10450 * MS), 0);
	assert_int_equal(take_until_refused(t, 1, START + 11450 * MS), 2);
	throttle_table_close(t);
}

/* A quota by the calendar that is lowered and raised again has forgotten nothing. */
static void test_calendar_keeps(void **state)
{
	struct throttle_limit day = ring("x", 20, 10 * SECOND);
	struct throttle_table *t;

	(void)state;
	day.kind = THROTTLE_CALENDAR;
	day.period = THROTTLE_DAY;
	t = open_table(NULL, 1, &day, 1);
	assert_true(take_one(t, 1, 20, START, NULL));
	day.quota = 2;
	change(t, &day, START + SECOND);
	assert_false(take_one(t, 1, 1, START + SECOND, NULL));
	day.quota = 21;
	change(t, &day, START + 2 * SECOND);
	assert_int_equal(take_until_refused(t, 1, START + 3 * SECOND), 1);
	throttle_table_close(t);
}

/* ---- receipts -------------------------------------------------------------------------------- */

/* A limit that a change leaves as it is gives back what was charged before it; one that became
 * another doesn't, and never more than was charged. */
static void test_refunds(void **state)
{
	static const struct {
		uint64_t quota;
		uint32_t slots;
	} forms[] = {{3, 0}, {20, 0}, {20, 7}, {4, 0}, {60, 0}, {60, THROTTLE_EXACT}, {1000, 19}};
	const size_t n = sizeof(forms) / sizeof(forms[0]);

	(void)state;
	for (size_t from = 0; from < n; from++)
		for (size_t to = 0; to < n; to++) {
			struct throttle_limit limits[2] = {
				precise(forms[from].quota, 10 * SECOND, forms[from].slots),
				ring("other", 5, SECOND)};
			struct throttle_table *t = open_table(NULL, 1, limits, 2);
			struct throttle_charge charge = {.caller = key_of(t, 1), .cost = 1};
			struct throttle_receipt receipts[1000];
			struct throttle_verdict v;
			uint64_t now = START, admitted = 0, again;

			for (; admitted < limits[0].quota; admitted++, now += MS / 100)
				throttle_take(t, &charge, 1, now, &v, &receipts[admitted]);
			limits[0] = precise(forms[to].quota, 10 * SECOND, forms[to].slots);
			limits[1].quota++;
			assert_int_equal(throttle_table_apply(t, limits, 2, 0, now, NULL), 0);
			throttle_table_collect(t);
			for (size_t i = 0; i < 2; i++)
				throttle_refund_all(t, &receipts[i], now + MS);
			again = take_until_refused(t, 1, now + 2 * MS);
			assert_true(admitted - 2 + again <= limits[0].quota || again == 0);
			if (from == to)
				assert_int_equal(again, 2);
			throttle_table_close(t);
		}
}

/* What is in flight is given back after any change, also that of the others' room. */
static void test_in_flight(void **state)
{
	struct throttle_limit limit = {.name = "x", .kind = THROTTLE_CONCURRENCY, .quota = 3};
	struct throttle_table *t = open_table(NULL, 1, &limit, 1);
	struct throttle_charge charge = {.caller = key_of(t, 1), .cost = 1};
	struct throttle_receipt receipts[3], more;
	struct throttle_verdict v;

	(void)state;
	for (size_t i = 0; i < 3; i++)
		throttle_take(t, &charge, 1, START, &v, &receipts[i]);
	for (uint64_t quota = 2; quota < 6; quota++) {
		limit.quota = quota;
		assert_int_equal(
			throttle_table_apply(t, &limit, 1, 4000 * quota, START + quota, NULL), 0);
		throttle_table_collect(t);
		throttle_take(t, &charge, 1, START + 9, &v, &more);
		assert_int_equal(v.admitted, quota > 3);
		throttle_release(t, &more, START + 9);
	}
	for (size_t i = 0; i < 3; i++)
		throttle_release(t, &receipts[i], START + 10);
	assert_int_equal(take_until_refused(t, 1, START + 11), 5);
	throttle_table_close(t);
}

/* ---- names ----------------------------------------------------------------------------------- */

enum { NAMES = 3 * THROTTLE_MAX_LIMITS, NAMES_AT_ONCE = 64 };

/* Limits come and go under new names, more than there may be at a time; one stays. */
static void test_names(void **state)
{
	static struct throttle_limit limits[NAMES_AT_ONCE];
	struct throttle_table *t;
	int first_id, stays_id;

	(void)state;
	limits[0] = ring("stays", NAMES, HOUR);
	for (unsigned i = 1; i < NAMES_AT_ONCE; i++)
		limits[i] = ring(i == 1 ? "first" : "", 2, HOUR);
	for (unsigned i = 2; i < NAMES_AT_ONCE; i++)
		snprintf(limits[i].name, sizeof(limits[i].name), "first%u", i);
	t = open_table(NULL, 1, limits, NAMES_AT_ONCE);
	stays_id = throttle_table_find(t, "stays");
	first_id = throttle_table_find(t, limits[1].name);
	for (unsigned named = NAMES_AT_ONCE; named < NAMES; named += NAMES_AT_ONCE - 1) {
		for (unsigned i = 1; i < NAMES_AT_ONCE; i++)
			snprintf(limits[i].name, sizeof(limits[i].name), "n%u", named + i);
		assert_int_equal(throttle_table_apply(t, limits, NAMES_AT_ONCE, 0, START, NULL), 0);
		throttle_table_collect(t);
		assert_true(take_one(t, 1, 1, START, NULL));
		assert_int_equal(throttle_table_find(t, "stays"), stays_id);
		assert_int_equal(throttle_table_find(t, "first"), -1);
		for (unsigned i = 1; i < NAMES_AT_ONCE; i++) {
			int id = throttle_table_find(t, limits[i].name);
			assert_true(id >= 0 && id != first_id && id != stays_id);
		}
	}
	limits[0].quota = 1; /* what it admitted under all of these sets still counts */
	assert_int_equal(throttle_table_apply(t, limits, NAMES_AT_ONCE, 0, START, NULL), 0);
	assert_false(take_one(t, 1, 1, START, NULL));
	throttle_table_close(t);
}

/* A limit with another name continues with what was counted, over a change and over an opening;
 * also its receipts. Once it has counters of its own, its past name is no matter. */
static void test_renamed(void **state)
{
	char folder[] = "throttle-renamed-XXXXXX";
	struct throttle_limit limits[2] = {
		ring("old", 5, HOUR), {.name = "f", .kind = THROTTLE_CONCURRENCY, .quota = 2}};
	struct throttle_charge charges[2];
	struct throttle_verdict verdict;
	struct throttle_receipt receipt;
	struct throttle_table *t;
	char path[64];
	int old;

	(void)state;
	assert_non_null(mkdtemp(folder));
	t = open_table(folder, 1, limits, 2);
	old = throttle_table_find(t, "old");
	for (uint32_t i = 0; i < 2; i++)
		charges[i] =
			(struct throttle_charge){.limit = i, .caller = key_of(t, 1), .cost = 2};
	assert_int_equal(throttle_take(t, charges, 2, START, &verdict, &receipt), 0);
	assert_true(verdict.admitted);

	strcpy(limits[0].name, "new");
	strcpy(limits[0].was, "old");
	strcpy(limits[1].name, "g");
	strcpy(limits[1].was, "f");
	assert_int_equal(throttle_table_apply(t, limits, 2, 0, START, NULL), 0);
	throttle_table_collect(t);
	assert_int_equal(throttle_table_find(t, "old"), -1);
	charges[0].limit = (uint32_t)throttle_table_find(t, "new");
	charges[1].limit = (uint32_t)throttle_table_find(t, "g");
	assert_int_not_equal(charges[0].limit, old);
	throttle_take(t, charges, 1, START, &verdict, NULL);
	assert_int_equal(verdict.outcome[0].remaining, 1);
	throttle_take(t, charges, 2, START, &verdict, NULL);
	assert_false(verdict.admitted);
	/* What was in flight under the old name ends under the new one. */
	throttle_release(t, &receipt, START);
	throttle_peek(t, &charges[1], 1, START, &verdict);
	assert_int_equal(verdict.outcome[0].remaining, 0);
	assert_true(verdict.admitted);
	throttle_table_close(t);

	/* Without `was` it is nobody's: the name is the one that counts. */
	strcpy(limits[0].was, "");
	t = open_table(folder, 1, limits, 1);
	assert_false(take_one(t, 1, 2, START, NULL));
	throttle_table_close(t);
	strcpy(limits[0].name, "third");
	strcpy(limits[0].was, "new");
	t = open_table(folder, 1, limits, 1);
	assert_true(take_one(t, 1, 1, START, NULL));
	assert_false(take_one(t, 1, 1, START, NULL));
	throttle_table_close(t);
	snprintf(path, sizeof(path), "%s/throttle.table", folder);
	unlink(path);
	rmdir(folder);
}

/* A name that another limit has or had is a mistake. */
static void test_renamed_twice(void **state)
{
	struct throttle_limit limits[2] = {ring("a", 5, HOUR), ring("b", 5, HOUR)};
	struct throttle_table_options options = {.callers = 1, .now_ns = START};
	struct throttle_report report;

	(void)state;
	strcpy(limits[1].was, "a");
	assert_null(throttle_table_open(&options, limits, 2, &report));
	assert_int_equal(errno, EINVAL);
	strcpy(limits[0].was, "c");
	strcpy(limits[1].was, "c");
	assert_null(throttle_table_open(&options, limits, 2, &report));
	assert_non_null(strstr(report.text, "\"c\""));
}

UNIT_SUITE(reload_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_expired_stays_out),
		cmocka_unit_test(test_quanta),
		cmocka_unit_test(test_random_changes),
		cmocka_unit_test(test_kinds),
		cmocka_unit_test(test_calendar_keeps),
		cmocka_unit_test(test_refunds),
		cmocka_unit_test(test_in_flight),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_renamed),
		cmocka_unit_test(test_renamed_twice),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
