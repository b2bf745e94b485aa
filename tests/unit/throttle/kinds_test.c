/* What each kind of limit and each setting does, one by one. */
#include "fixture.h"
#include "tests/unit/suite.h"

#define MINUTE (60 * SECOND)
#define HOUR   (60 * MINUTE)
#define DAY    (24 * HOUR)

static bool admits(struct throttle_table *t, uint64_t now)
{
	return take_one(t, 1, 1, now, NULL);
}

static void test_ring_tells(void **state)
{
	struct throttle_limit limit = ring("r", 2, 10 * SECOND);
	struct throttle_table *t = open_table(NULL, 1, &limit, 1);
	struct throttle_outcome o;

	(void)state;
	assert_true(take_one(t, 1, 1, START, &o));
	assert_int_equal(o.remaining, 1);
	assert_true(take_one(t, 1, 1, START + 4 * SECOND, &o));
	assert_int_equal(o.remaining, 0);
	assert_false(take_one(t, 1, 1, START + 5 * SECOND, &o));
	assert_true(o.retry_after_ns >= 5 * SECOND && o.retry_after_ns < 5 * SECOND + 8192);
	assert_true(o.more_ns == o.retry_after_ns);
	assert_true(o.reset_ns >= 9 * SECOND && o.reset_ns < 9 * SECOND + 8192);
	assert_true(take_one(t, 2, 2, START + 5 * SECOND, NULL));
	assert_false(take_one(t, 3, 3, START + 5 * SECOND, &o));
	assert_true(o.retry_after_ns == THROTTLE_NEVER);
	throttle_table_close(t);
}

static void test_gcra_paces(void **state)
{
	struct throttle_limit limit = ring("g", 10, SECOND);
	struct throttle_table *t;
	struct throttle_outcome o;
	uint64_t admitted = 0;

	(void)state;
	limit.kind = THROTTLE_GCRA;
	limit.burst = 3;
	t = open_table(NULL, 1, &limit, 1);
	for (int i = 0; i < 3; i++)
		assert_true(admits(t, START));
	assert_false(take_one(t, 1, 1, START, &o));
	assert_true(o.retry_after_ns > 99 * MS && o.retry_after_ns <= 100 * MS);
	assert_false(admits(t, START + o.retry_after_ns - 1));
	assert_true(admits(t, START + o.retry_after_ns));
	for (uint64_t now = START + SECOND; now < START + 11 * SECOND; now += MS)
		admitted += admits(t, now);
	assert_in_range(admitted, 101, 103);
	throttle_table_close(t);
}

/* The wall clock is set while the table's time continues: periods follow the wall, also over a
 * change of limits, and windows do not notice. */
static void test_calendar_follows_the_wall(void **state)
{
	struct throttle_limit limits[] = {ring("day", 2, 0), ring("r", 2, DAY)};
	const uint64_t midnight = UINT64_C(1700006400) * SECOND, now = midnight - HOUR;
	struct throttle_table *t;
	struct throttle_outcome o;

	(void)state;
	limits[0].kind = THROTTLE_CALENDAR;
	limits[0].period = THROTTLE_DAY;
	t = open_table(NULL, 1, limits, 2);
	for (uint32_t limit = 0; limit < 2; limit++) {
		struct throttle_charge charge = {limit, key_of(t, 1), 2};
		struct throttle_verdict v;

		assert_int_equal(throttle_take(t, &charge, 1, now, &v, NULL), 0);
		assert_true(v.admitted);
	}
	assert_false(take_one(t, 1, 1, now + SECOND, &o));
	assert_true(o.retry_after_ns == HOUR - SECOND);
	/* Two hours ahead, which is the next day. */
	throttle_set_wall(t, now + SECOND, now + SECOND + 2 * HOUR);
	assert_true(take_one(t, 1, 1, now + SECOND, &o));
	assert_true(o.reset_ns == 23 * HOUR - SECOND);
	limits[0].quota = 3;
	assert_int_equal(throttle_table_apply(t, limits, 2, 0, now + 2 * SECOND, NULL), 0);
	assert_true(take_one(t, 1, 2, now + 3 * SECOND, &o));
	assert_true(o.reset_ns == 23 * HOUR - 3 * SECOND);
	/* And back: what was charged in the later day is not forgiven, and that day ends when it
	 * does. */
	throttle_set_wall(t, now + 4 * SECOND, now + 4 * SECOND);
	assert_false(take_one(t, 1, 1, now + 4 * SECOND, &o));
	assert_true(o.retry_after_ns == 25 * HOUR - 4 * SECOND);
	/* The ring went by the table's time. */
	for (uint32_t i = 0; i < 2; i++) {
		struct throttle_charge charge = {1, key_of(t, 1), 1};
		struct throttle_verdict v;

		assert_int_equal(
			throttle_take(t, &charge, 1, now + DAY - SECOND + i * 2 * SECOND, &v, NULL),
			0);
		assert_int_equal(v.admitted, i);
	}
	throttle_table_close(t);
}

/* The reset of an admitted charge counts that charge: at that time all is free, and no moment
 * before. */
static void test_reset_counts_this_charge(void **state)
{
	struct throttle_limit limits[] = {ring("short", 5, 10 * SECOND),
		ring("parts", 1000, 10 * SECOND), ring("exact", 100, 10 * SECOND),
		ring("gcra", 5, 10 * SECOND), ring("hour", 50, 10 * SECOND),
		ring("in bytes", 5000, 10 * SECOND)};

	(void)state;
	limits[2].slots = THROTTLE_EXACT;
	limits[3].kind = THROTTLE_GCRA;
	limits[3].burst = 7;
	limits[4].kind = THROTTLE_CALENDAR;
	limits[5].unit = THROTTLE_BYTES;
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		struct throttle_table *t = open_table(NULL, 1, &limits[i], 1);
		struct throttle_outcome o, then;
		uint64_t now = START;
		for (int n = 0; n < 4; n++, now += o.reset_ns) {
			assert_true(take_one(t, 1, 1, now, &o));
			assert_true(o.more_ns == o.reset_ns && o.reset_ns > SECOND);
			assert_true(
				throttle_explain(t, 0, key_of(t, 1), now + o.reset_ns - 1, &then));
			assert_false(throttle_explain(t, 0, key_of(t, 1), now + o.reset_ns, &then));
		}
		/* Of several, the first leaves before the last. */
		for (int n = 0; n < 4; n++, now += 300 * MS) {
			assert_true(take_one(t, 1, 1, now, &o));
			assert_true(o.more_ns > 0 && o.more_ns <= o.reset_ns);
			assert_true(n == 0 || limits[i].kind == THROTTLE_CALENDAR ||
				    limits[i].quota > 100 || o.more_ns < o.reset_ns);
		}
		assert_false(
			throttle_explain(t, 0, key_of(t, 1), now - 300 * MS + o.reset_ns, &then));
		throttle_table_close(t);
	}
}

static void test_concurrency_is_released(void **state)
{
	struct throttle_limit limit = {.name = "c", .kind = THROTTLE_CONCURRENCY, .quota = 2};
	struct throttle_table *t = open_table(NULL, 1, &limit, 1);
	struct throttle_charge charge = {.caller = key_of(t, 1), .cost = 1};
	struct throttle_receipt receipts[3];
	struct throttle_verdict v;

	(void)state;
	for (int i = 0; i < 3; i++)
		throttle_take(t, &charge, 1, START, &v, &receipts[i]);
	assert_false(v.admitted);
	assert_int_equal(receipts[2].count, 0);
	throttle_release(t, &receipts[0], START + DAY);
	throttle_release(t, &receipts[0], START + DAY);
	throttle_take(t, &charge, 1, START + DAY, &v, &receipts[2]);
	assert_true(v.admitted);
	throttle_take(t, &charge, 1, START + DAY, &v, NULL);
	assert_false(v.admitted);
	throttle_release(t, &receipts[1], START);
	throttle_release(t, &receipts[2], START);
	throttle_peek(t, &charge, 1, START, &v);
	assert_int_equal(v.outcome[0].remaining, 1);
	throttle_table_close(t);
}

/* Epoch seconds of what `date -u` says. */
static void calendar(const char *zone, enum throttle_period period, uint64_t now, uint64_t wait)
{
	struct throttle_limit limit = {
		.name = "cal", .kind = THROTTLE_CALENDAR, .quota = 2, .period = period};
	struct throttle_table_options options = {.callers = 1, .now_ns = now * SECOND};
	struct throttle_table *t;
	struct throttle_outcome o;

	snprintf(limit.zone, sizeof(limit.zone), "%s", zone);
	t = throttle_table_open(&options, &limit, 1, NULL);
	assert_non_null(t);
	assert_true(admits(t, now * SECOND));
	assert_true(admits(t, now * SECOND));
	assert_false(take_one(t, 1, 1, now * SECOND, &o));
	if (o.retry_after_ns != wait * SECOND)
		printf("# %s %llu: wait %llu, not %llu\n", zone, (unsigned long long)now,
			(unsigned long long)(o.retry_after_ns / SECOND), (unsigned long long)wait);
	assert_true(o.retry_after_ns == wait * SECOND);
	assert_false(admits(t, (now + wait) * SECOND - 1));
	assert_true(admits(t, (now + wait) * SECOND));
	throttle_table_close(t);
}

static void test_calendars(void **state)
{
	(void)state;
	calendar("", THROTTLE_DAY, 1700000000, 6400);
	calendar("UTC", THROTTLE_HOUR, 1700000000, 2800);
	/* 2024-02-28 12:00 UTC: a leap day follows */
	calendar("UTC", THROTTLE_MONTH, 1709121600, 2 * 86400 - 43200);
	/* 2023-02-28 12:00 UTC */
	calendar("UTC", THROTTLE_MONTH, 1677585600, 43200);
	/* Wednesday 2024-02-28; the week ends on Monday */
	calendar("UTC", THROTTLE_WEEK, 1709121600, 5 * 86400 - 43200);
	/* Oslo, 2024-03-31 00:30 local (+01): a day of 23 hours */
	calendar("Europe/Oslo", THROTTLE_DAY, 1711841400, 23 * 3600 - 1800);
	/* Oslo, 2024-10-27 00:30 local (+02): a day of 25 hours */
	calendar("Europe/Oslo", THROTTLE_DAY, 1729981800, 25 * 3600 - 1800);
	/* Oslo, 2050-03-27 00:30 local: by the rule in the footer */
	calendar("Europe/Oslo", THROTTLE_DAY, 2531950200, 23 * 3600 - 1800);
	/* New York, 2024-03-10 00:30 local (-05) */
	calendar("America/New_York", THROTTLE_DAY, 1710048600, 23 * 3600 - 1800);
	/* Santiago, 2023-09-02 12:00 local (-04): the next midnight is skipped, the day still ends
	 * then */
	calendar("America/Santiago", THROTTLE_DAY, 1693670400, 43200);
	/* Kathmandu is +05:45: 2024-01-01 12:00 UTC is 17:45 */
	calendar("Asia/Kathmandu", THROTTLE_HOUR, 1704110400, 900);
	/* Sydney, the southern summer: 2024-04-07 00:30 local (+11), 25 hours */
	calendar("Australia/Sydney", THROTTLE_DAY, 1712410200, 25 * 3600 - 1800);
}

static void test_bytes_and_debt(void **state)
{
	struct throttle_limit limit = ring("b", 10000000, SECOND);
	struct throttle_table *t;
	struct throttle_charge charge = {.cost = 1};
	struct throttle_receipt receipt;
	struct throttle_verdict v;

	(void)state;
	limit.unit = THROTTLE_BYTES;
	t = open_table(NULL, 1, &limit, 1);
	charge.caller = key_of(t, 1);
	throttle_take(t, &charge, 1, START, &v, &receipt);
	assert_true(v.admitted);
	throttle_charge(t, &receipt, 0, 12000000, START + 10 * MS);
	throttle_take(t, &charge, 1, START + 20 * MS, &v, NULL);
	assert_false(v.admitted);
	assert_true(v.retry_after_ns > 900 * MS && v.retry_after_ns < 1200 * MS);
	throttle_take(t, &charge, 1, START + 20 * MS + v.retry_after_ns, &v, NULL);
	assert_true(v.admitted);
	throttle_table_close(t);
}

/* Of a limit in the millions: many small ones are no more than their sum, in as many quanta. */
static void test_small_charges(void **state)
{
	struct throttle_limit limit = ring("b", UINT64_C(1) << 30, 1000 * SECOND);
	struct throttle_table *t;
	struct throttle_outcome o;
	uint64_t now = START, used = 0;

	(void)state;
	limit.unit = THROTTLE_BYTES;
	limit.slots = 500;
	t = open_table(NULL, 1, &limit, 1);
	for (int i = 0; i < 400; i++, now += 2 * SECOND) {
		assert_true(take_one(t, 1, 100, now, &o));
		used += 100;
		assert_int_equal(o.quota - o.remaining, used);
	}
	/* And leave no later than a grain does, with the last of them. */
	assert_true(take_one(t, 1, 100, START + 1700 * SECOND, &o));
	assert_true(o.quota - o.remaining <= 5500);
	throttle_table_close(t);
}

static void test_settle(void **state)
{
	static const uint64_t quotas[] = {20, 1000};

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct throttle_limit limit = ring("s", quotas[i], 10 * SECOND);
		struct throttle_table *t = open_table(NULL, 1, &limit, 1);
		struct throttle_charge charge = {.caller = key_of(t, 1), .cost = 10};
		struct throttle_receipt receipt;
		struct throttle_verdict v;

		throttle_take(t, &charge, 1, START, &v, &receipt);
		throttle_settle(t, &receipt, 0, 4, START + SECOND);
		throttle_peek(t, &charge, 1, START + SECOND, &v);
		assert_int_equal(v.outcome[0].remaining, quotas[i] - 4 - 10);
		throttle_take(t, &charge, 1, START + 2 * SECOND, &v, &receipt);
		throttle_settle(t, &receipt, 0, 16, START + 3 * SECOND);
		charge.cost = 0;
		throttle_peek(t, &charge, 1, START + 3 * SECOND, &v);
		assert_int_equal(v.outcome[0].remaining, quotas[i] - 20);
		throttle_table_close(t);
	}
}

static void test_count_refused(void **state)
{
	struct throttle_limit limit = ring("n", 2, 10 * SECOND);
	struct throttle_table *t;
	uint64_t now = START;

	(void)state;
	limit.count_refused = true;
	t = open_table(NULL, 1, &limit, 1);
	assert_true(admits(t, now) && admits(t, now));
	for (int i = 0; i < 20; i++)
		assert_false(admits(t, now += SECOND));
	assert_true(admits(t, now + 11 * SECOND));
	throttle_table_close(t);
}

static void test_ban(void **state)
{
	struct throttle_limit limit = ring("ban", 1, SECOND);
	struct throttle_table *t;
	struct throttle_outcome o;

	(void)state;
	limit.ban_count = 3;
	limit.ban_per_ns = MINUTE;
	limit.ban_for_ns = 5 * MINUTE;
	t = open_table(NULL, 1, &limit, 1);
	assert_true(admits(t, START));
	for (int i = 0; i < 3; i++)
		assert_false(admits(t, START));
	assert_false(take_one(t, 1, 1, START + 2 * SECOND, &o));
	assert_true(o.banned);
	assert_true(o.retry_after_ns <= 298 * SECOND + 8192 && o.retry_after_ns > 297 * SECOND);
	/* What it had used is free again; the ban leaves it nothing all the same. */
	assert_true(throttle_explain(t, 0, key_of(t, 1), START + 2 * SECOND, &o));
	assert_true(o.banned);
	assert_int_equal(o.remaining, 0);
	assert_int_equal(o.more_ns, o.retry_after_ns);
	assert_int_equal(o.reset_ns, o.retry_after_ns);
	assert_false(admits(t, START + 299 * SECOND));
	assert_true(admits(t, START + 301 * SECOND));
	assert_true(throttle_reset(t, 0, key_of(t, 1), START + 301 * SECOND));
	assert_true(admits(t, START + 301 * SECOND));
	throttle_table_close(t);
}

/* Of as many refusals as a long ring holds, and much longer than they are counted for. */
static void test_long_ban(void **state)
{
	struct throttle_limit limit = ring("ban", 1, SECOND);
	struct throttle_table *t;

	(void)state;
	limit.ban_count = 40;
	limit.ban_per_ns = 5 * SECOND;
	limit.ban_for_ns = HOUR;
	t = open_table(NULL, 1, &limit, 1);
	assert_true(admits(t, START));
	for (int i = 0; i < 40; i++)
		assert_false(admits(t, START));
	for (uint64_t now = START + 10 * SECOND; now < START + HOUR; now += 61 * SECOND)
		assert_false(admits(t, now));
	assert_true(admits(t, START + HOUR + SECOND));
	throttle_table_close(t);
}

static void test_shadow_and_delay(void **state)
{
	struct throttle_limit limits[2] = {ring("shadow", 1, SECOND), ring("delay", 3, SECOND)};
	struct throttle_table *t;
	struct throttle_charge charges[2] = {{.limit = 0, .cost = 1}, {.limit = 1, .cost = 1}};
	struct throttle_verdict v;

	(void)state;
	limits[0].mode = THROTTLE_SHADOW;
	limits[1].delay_max_ns = 500 * MS;
	t = open_table(NULL, 1, limits, 2);
	charges[0].caller = charges[1].caller = key_of(t, 1);
	throttle_take(t, charges, 2, START, &v, NULL);
	throttle_take(t, charges, 2, START, &v, NULL);
	assert_true(v.admitted);
	assert_int_equal(v.shadowed, 1);
	throttle_take(t, charges, 2, START, &v, NULL);
	throttle_take(t, charges, 2, START, &v, NULL);
	assert_false(v.admitted);
	assert_false(v.delay);
	throttle_take(t, charges, 2, START + 600 * MS, &v, NULL);
	assert_true(!v.admitted && v.delay);
	throttle_table_close(t);
}

static void test_keys(void **state)
{
	struct throttle_seed seed = {0x0706050403020100, 0x0f0e0d0c0b0a0908};
	struct throttle_key key = throttle_hash(&seed, "", 0), ab, ba;
	struct throttle_hasher h;

	(void)state;
	/* The reference's vectors for 128 bits: no bytes, and the byte 0. */
	assert_true(key.lo == 0xe6a825ba047f81a3 && key.hi == 0x930255c71472f66d);
	key = throttle_hash(&seed, "", 1);
	assert_true(key.lo == 0x44af996bd8c187da && key.hi == 0x45fc229b11597634);
	throttle_hash_begin(&h, &seed, 1);
	throttle_hash_part(&h, "ab", 2);
	throttle_hash_part(&h, "c", 1);
	ab = throttle_hash_end(&h);
	throttle_hash_begin(&h, &seed, 1);
	throttle_hash_part(&h, "a", 1);
	throttle_hash_part(&h, "bc", 2);
	ba = throttle_hash_end(&h);
	assert_true(ab.lo != ba.lo && ab.hi != ba.hi);
}

static void test_wrong_limits(void **state)
{
	struct throttle_limit limit = ring("w", 0, SECOND);
	char why[200];

	(void)state;
	assert_int_equal(throttle_limit_check(&limit, why, sizeof(why)), -1);
	limit = ring("w", 1, 10);
	assert_int_equal(throttle_limit_check(&limit, why, sizeof(why)), -1);
	limit = ring("w", 1, SECOND);
	limit.kind = THROTTLE_CALENDAR;
	snprintf(limit.zone, sizeof(limit.zone), "Europe/Nowhere");
	assert_int_equal(throttle_limit_check(&limit, why, sizeof(why)), -1);
	snprintf(limit.zone, sizeof(limit.zone), "../../../etc/passwd");
	assert_int_equal(throttle_limit_check(&limit, why, sizeof(why)), -1);
	limit = ring("w", 4095, SECOND);
	limit.slots = THROTTLE_EXACT;
	assert_int_equal(throttle_limit_check(&limit, why, sizeof(why)), 0);
	limit.quota = 4096;
	assert_int_equal(throttle_limit_check(&limit, why, sizeof(why)), -1);
	assert_non_null(strstr(why, "4095"));
	assert_non_null(strstr(why, "number of slots"));
}

/* Limits in any order, and one of them twice: still all or nothing. */
static void test_the_same_twice(void **state)
{
	struct throttle_limit limits[2] = {ring("a", 5, 60 * SECOND), ring("b", 100, 60 * SECOND)};
	struct throttle_table *t = open_table(NULL, 1, limits, 2);
	struct throttle_charge charges[3] = {
		{.limit = 1, .cost = 1}, {.limit = 0, .cost = 1}, {.limit = 0, .cost = 1}};
	struct throttle_receipt receipt;
	struct throttle_outcome o;
	struct throttle_verdict v;

	(void)state;
	for (int i = 0; i < 3; i++)
		charges[i].caller = key_of(t, 1);
	for (int n = 1; n <= 3; n++) {
		bool fits = n < 3; /* then four of five are used */

		throttle_take(t, charges, 3, START + n * MS, &v, &receipt);
		assert_int_equal(v.admitted, fits);
		assert_int_equal(receipt.count, fits ? 3 : 0);
		throttle_explain(t, 0, charges[1].caller, START + n * MS, &o);
		assert_int_equal(o.remaining, fits ? 5 - 2 * n : 1);
		throttle_explain(t, 1, charges[0].caller, START + n * MS, &o);
		assert_int_equal(o.remaining, fits ? 100 - n : 98);
	}
	throttle_table_close(t);
}

/* What throttle(3) says that a caller takes up. */
static void test_memory(void **state)
{
	static const struct {
		uint64_t quota;
		size_t bytes;
	} rings[] = {{1, 43}, {4, 43}, {5, 85}, {12, 85}, {13, 128}, {20, 128}, {21, 171},
		{22, 128}, {1000000, 128}, {UINT64_C(1) << 31, 171}};
	struct throttle_limit limit;

	(void)state;
	for (size_t i = 0; i < sizeof(rings) / sizeof(rings[0]); i++) {
		limit = ring("m", rings[i].quota, SECOND);
		assert_int_equal(throttle_limit_bytes(&limit), rings[i].bytes);
	}
	for (int kind = THROTTLE_GCRA; kind <= THROTTLE_CONCURRENCY; kind++) {
		limit = ring("m", 100, SECOND);
		limit.kind = (enum throttle_kind)kind;
		assert_int_equal(throttle_limit_bytes(&limit), kind == THROTTLE_GCRA ? 43 : 21);
	}
	limit = ring("m", 1000, SECOND);
	limit.slots = THROTTLE_EXACT;
	assert_in_range(throttle_limit_bytes(&limit), (24 + 4 * 1000) * 133 / 100,
		(24 + 32 + 4 * 1000) * 134 / 100);
}

UNIT_SUITE(kinds_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_calendar_follows_the_wall),
		cmocka_unit_test(test_ring_tells),
		cmocka_unit_test(test_gcra_paces),
		cmocka_unit_test(test_reset_counts_this_charge),
		cmocka_unit_test(test_concurrency_is_released),
		cmocka_unit_test(test_calendars),
		cmocka_unit_test(test_bytes_and_debt),
		cmocka_unit_test(test_small_charges),
		cmocka_unit_test(test_settle),
		cmocka_unit_test(test_count_refused),
		cmocka_unit_test(test_ban),
		cmocka_unit_test(test_long_ban),
		cmocka_unit_test(test_shadow_and_delay),
		cmocka_unit_test(test_keys),
		cmocka_unit_test(test_wrong_limits),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_the_same_twice),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
