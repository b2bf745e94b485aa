/*
 * The promise, both ways, against a plain list of what was admitted: random limits, precisions,
 * costs, refunds, schedules, clocks that jitter and clocks that step.
 *
 *   never:   the list holds more than L in a window W that ends now
 *   always:  admitted when the list holds at most L - cost in a window of W + the stated error
 */
#include "fixture.h"
#include "tests/unit/suite.h"

struct admitted {
	uint64_t at, cost;
};

struct oracle {
	struct throttle_limit limit;
	uint64_t late; /* how late an admission may be: the stated precision */
	uint64_t now, newest;
	size_t count;
	struct admitted list[8192];
};

static uint64_t used_since(const struct oracle *o, uint64_t now, uint64_t window)
{
	uint64_t used = 0;

	for (size_t i = o->count; i > 0; i--)
		if (o->list[i - 1].at + window > now)
			used += o->list[i - 1].cost;
	return used;
}

static void forget_old(struct oracle *o)
{
	size_t kept = 0;

	for (size_t i = 0; i < o->count; i++)
		if (o->list[i].at + 3 * o->limit.window_ns > o->newest)
			o->list[kept++] = o->list[i];
	o->count = kept;
}

static struct throttle_limit random_limit(uint64_t *seed, uint64_t *late)
{
	static const uint64_t windows[] = {20 * MS, 1000 * MS, 10000 * MS, 3600000 * MS};
	static const uint64_t quotas[] = {1, 2, 3, 7, 19, 20, 21, 31, 32, 50, 100, 400};
	struct throttle_limit limit = ring("oracle", quotas[random_below(seed, 12)],
		windows[random_below(seed, 4)] + random_below(seed, 1000));
	uint64_t slots;

	if (random_below(seed, 3) == 0)
		limit.slots = THROTTLE_EXACT;
	else if (random_below(seed, 2) == 0)
		limit.slots = (uint32_t)(1 + random_below(seed, 60));
	slots = limit.slots == 0 ? 19 : limit.slots;
	/* Two ticks: of a 2^19th of a window and two seconds at the coarsest. */
	*late = (limit.window_ns + 2 * SECOND) / (1 << 16) + 8192;
	if (limit.slots == 0 ? limit.quota > 20 : limit.quota > slots)
		*late += limit.window_ns / slots + slots;
	return limit;
}

static void check_refusal(struct oracle *o, struct throttle_table *table, uint64_t cost,
	const struct throttle_outcome *said)
{
	struct throttle_charge charge = {.caller = key_of(table, 1), .cost = cost};
	struct throttle_verdict verdict;

	if (cost > o->limit.quota) {
		assert_true(said->retry_after_ns == THROTTLE_NEVER);
		return;
	}
	assert_true(said->retry_after_ns > 0);
	assert_true(said->retry_after_ns <= o->newest - o->now + o->limit.window_ns + o->late);
	throttle_peek(table, &charge, 1, o->now + said->retry_after_ns - 1, &verdict);
	assert_false(verdict.admitted);
	/* The last: so far ahead that it drags along what the table holds for the newest time. */
	throttle_peek(table, &charge, 1, o->now + said->retry_after_ns, &verdict);
	assert_true(verdict.admitted);
}

static void step(struct oracle *o, struct throttle_table *table, uint64_t *seed)
{
	uint64_t cost = random_below(seed, 6) == 0 ? 1 + random_below(seed, o->limit.quota + 1) : 1;
	uint64_t jitter = random_below(seed, 4) == 0 ? random_below(seed, 20 * MS) : 0;
	struct throttle_charge charge = {.caller = key_of(table, 1), .cost = cost};
	struct throttle_verdict verdict;
	struct throttle_receipt receipt;
	uint64_t true_now = o->now, judged;

	o->now -= jitter;
	throttle_take(table, &charge, 1, o->now, &verdict, &receipt);
	judged = o->now > o->newest ? o->now : o->newest;
	if (verdict.admitted) {
		assert_true(used_since(o, judged, o->limit.window_ns) + cost <= o->limit.quota);
		assert_true(o->count < 8192);
		o->list[o->count++] = (struct admitted){judged, cost};
		o->newest = judged;
		if (random_below(seed, 10) == 0) {
			throttle_refund(table, &receipt, 0, o->now);
			o->count--;
		} else if (cost > 1 && random_below(seed, 4) == 0) {
			throttle_settle(table, &receipt, 0, cost - 1, o->now);
			o->list[o->count - 1].cost--;
		}
	} else {
		/* A throttle's first time is that of its making, also when that was a refusal. */
		if (o->newest == 0)
			o->newest = judged;
		assert_true(cost > o->limit.quota ||
			    used_since(o, o->now, o->limit.window_ns + o->late) + cost >
				    o->limit.quota);
		if (random_below(seed, 8) == 0 && jitter == 0 && o->now >= o->newest &&
			verdict.outcome[0].retry_after_ns < 900 * MS)
			check_refusal(o, table, cost, &verdict.outcome[0]);
	}
	o->now = true_now;
}

static void run_schedule(uint64_t *seed)
{
	static struct oracle o;
	struct throttle_table *table;
	uint64_t pace;

	memset(&o, 0, sizeof(o));
	o.limit = random_limit(seed, &o.late);
	o.now = START + random_below(seed, SECOND);
	table = open_table(NULL, 1, &o.limit, 1);
	pace = 1 + 2 * o.limit.window_ns / (o.limit.quota * (1 + random_below(seed, 8)));
	for (int i = 0; i < 2000; i++) {
		step(&o, table, seed);
		o.now += random_below(seed, pace);
		if (random_below(seed, 200) == 0) /* idle, or a clock that jumps ahead */
			o.now += random_below(seed, 100) * o.limit.window_ns;
		if (random_below(seed, 64) == 0)
			forget_old(&o);
	}
	throttle_table_close(table);
}

static void test_both_directions(void **state)
{
	uint64_t seed = random_seed("oracle"), rounds = steps_or(1000000) / 2000;

	(void)state;
	for (uint64_t i = 0; i < rounds; i++)
		run_schedule(&seed);
}

/* Schedules that a change of the throttle failed once; long runs had to find them. */
static void test_found_schedules(void **state)
{
	static const uint64_t seeds[] = {
		4486641806894737739, /* a ring made by a refusal, put back behind that time */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(seeds) / sizeof(seeds[0]); i++) {
		uint64_t seed = seeds[i];
		run_schedule(&seed);
	}
}

/* Clocks that go back by more than jitter: nothing is forgiven, by the times that charges were
 * recorded at, and when the clock has caught up all is as before. */
static void test_steps_back(void **state)
{
	uint64_t seed = random_seed("steps back");

	(void)state;
	for (int round = 0; round < 200; round++) {
		uint64_t late, admitted[4096], count = 0, now = START, newest = START;
		struct throttle_limit limit = random_limit(&seed, &late);
		struct throttle_table *table = open_table(NULL, 1, &limit, 1);

		for (int i = 0; i < 1000; i++) {
			struct throttle_outcome o;

			if (take_one(table, 1, 1, now, &o))
				admitted[count++] = o.at_ns;
			newest = now > newest ? now : newest;
			now += random_below(&seed, 3 * limit.window_ns / limit.quota);
			if (random_below(&seed, 100) == 0)
				now -= random_below(&seed, 10 * limit.window_ns) %
				       (now - START + 1);
		}
		for (uint64_t i = 0; i < count; i++) {
			uint64_t in_window = 0;

			assert_true(i == 0 || admitted[i] >= admitted[i - 1]);
			for (uint64_t j = 0; j <= i; j++)
				in_window += admitted[j] + limit.window_ns > admitted[i] + 8192;
			assert_true(in_window <= limit.quota);
		}
		assert_true(take_one(table, 1, 1, newest + limit.window_ns + late + SECOND, NULL));
		throttle_table_close(table);
	}
}

/* The oldest of a long ring is older than its ticks can tell: an idle caller isn't refused. */
static void test_long_idle(void **state)
{
	static const uint64_t quotas[] = {1, 20, 31, 32, 300, 4095};

	(void)state;
	for (size_t q = 0; q < sizeof(quotas) / sizeof(quotas[0]); q++) {
		struct throttle_limit limit = ring("idle", quotas[q], 50 * MS);
		struct throttle_table *table;
		uint64_t now = START;

		limit.slots = THROTTLE_EXACT;
		table = open_table(NULL, 1, &limit, 1);
		for (unsigned bit = 30; bit < 55; bit++) {
			for (uint64_t i = 0; i < quotas[q]; i++)
				assert_true(take_one(table, 1, 1, now, NULL));
			assert_false(take_one(table, 1, 1, now, NULL));
			assert_false(take_one(table, 1, 1, now + 49 * MS, NULL));
			now += UINT64_C(1) << bit;
		}
		throttle_table_close(table);
	}
}

/* After a long rest a refusal or a look forgets what was there: that records nothing. A charge of a
 * clock that is a little behind it is still recorded at its own time. */
static void test_rest_records_nothing(void **state)
{
	static const uint64_t quotas[] = {20, 31, 32, 50, 300, 4095};

	(void)state;
	for (size_t q = 0; q < sizeof(quotas) / sizeof(quotas[0]); q++) {
		struct throttle_limit limit = ring("rest", quotas[q], 1000 * MS);
		struct throttle_table *table;
		struct throttle_charge charge = {.cost = 1};
		struct throttle_verdict verdict;
		struct throttle_outcome o;
		uint64_t now = START;

		limit.slots = THROTTLE_EXACT;
		table = open_table(NULL, 1, &limit, 1);
		charge.caller = key_of(table, 1);
		for (int round = 0; round < 4; round++) {
			for (uint64_t i = 0; i < quotas[q]; i++)
				assert_true(take_one(table, 1, 1, now, NULL));
			now += 80 * SECOND;
			if (round % 2 == 0)
				assert_false(take_one(table, 1, quotas[q] + 1, now, NULL));
			else
				throttle_peek(table, &charge, 1, now, &verdict);
			assert_true(take_one(table, 1, quotas[q], now - 900 * MS, &o));
			assert_true(o.at_ns <= now - 900 * MS);
			assert_false(take_one(table, 1, 1, now + 99 * MS, NULL));
			now += 101 * MS;
		}
		throttle_table_close(table);
	}
}

/* Refusals don't keep what has left the window until its ticks look new again. */
static void test_refusals_keep_nothing(void **state)
{
	struct throttle_limit limit = ring("kept", 4095, 1000 * MS);

	(void)state;
	limit.slots = THROTTLE_EXACT;
	for (uint64_t rest = 40 * SECOND; rest < 150 * SECOND; rest += 500 * MS) {
		struct throttle_table *table = open_table(NULL, 1, &limit, 1);

		assert_true(take_one(table, 1, 4095, START, NULL));
		for (uint64_t then = 5 * SECOND; then < rest; then += 5 * SECOND)
			assert_false(take_one(table, 1, 4096, START + then, NULL));
		assert_true(take_one(table, 1, 1, START + rest, NULL));
		throttle_table_close(table);
	}
}

/* The only charge of a ring is refunded. What is charged after a rest, with or without refusals in
 * it, is recorded when it is made, and blocks others no longer than a window. */
static void charge_emptied(uint64_t quota, uint64_t rest, uint64_t refused_every)
{
	struct throttle_limit limit = ring("emptied", quota, 1000 * MS);
	struct throttle_table *table;
	struct throttle_charge charge = {.cost = 1};
	struct throttle_receipt receipt;
	struct throttle_verdict verdict;
	struct throttle_outcome o;

	limit.slots = THROTTLE_EXACT;
	table = open_table(NULL, 1, &limit, 1);
	charge.caller = key_of(table, 1);
	throttle_take(table, &charge, 1, START, &verdict, &receipt);
	assert_true(verdict.admitted);
	throttle_refund(table, &receipt, 0, START);
	for (uint64_t then = refused_every; refused_every > 0 && then < rest; then += refused_every)
		assert_false(take_one(table, 1, quota + 1, START + then, NULL));
	assert_true(take_one(table, 1, 1, START + rest, &o));
	assert_true(o.at_ns <= START + rest);
	assert_true(take_one(table, 1, quota, START + rest + 1010 * MS, NULL));
	throttle_table_close(table);
}

/* Its tick may look like one ahead of now. */
static void test_emptied_rests(void **state)
{
	static const uint64_t quotas[] = {20, 32, 300, 4095};
	static const uint64_t refused_every[] = {0, 3 * SECOND, 7 * SECOND, 12 * SECOND};

	(void)state;
	for (size_t q = 0; q < sizeof(quotas) / sizeof(quotas[0]); q++)
		for (size_t r = 0; r < sizeof(refused_every) / sizeof(refused_every[0]); r++)
			for (uint64_t rest = 2 * SECOND; rest < 200 * SECOND; rest += 250 * MS)
				charge_emptied(quotas[q], rest, refused_every[r]);
}

UNIT_SUITE(oracle_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_both_directions),
		cmocka_unit_test(test_found_schedules),
		cmocka_unit_test(test_steps_back),
		cmocka_unit_test(test_long_idle),
		cmocka_unit_test(test_rest_records_nothing),
		cmocka_unit_test(test_refusals_keep_nothing),
		cmocka_unit_test(test_emptied_rests),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
