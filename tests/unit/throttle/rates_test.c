/*
 * A larger limit never admits less: by how much a caller is served who asks again as soon as the
 * last refusal said, or at every one of a thousand times a window, for all small limits one after
 * the other, and some large ones, of each precision.
 */
#include "fixture.h"
#include "tests/unit/suite.h"

#define LEAST 3  /* windows before it is as it stays, */
#define MOST  15 /* and to the end */

/* So much was admitted in so long. */
struct rate {
	uint64_t admitted, ns;
};

struct caller {
	struct throttle_table *table;
	uint64_t now, admitted;
	uint64_t step; /* 0: whenever a refusal said */
};

/* On to the beginning of the next burst: the first admission after a refusal. */
static void next_burst(struct caller *c)
{
	struct throttle_outcome o;
	bool is_refused = false;

	for (;;) {
		bool is_admitted = take_one(c->table, 1, 1, c->now, &o);

		if (is_admitted && is_refused) {
			c->admitted++;
			return;
		}
		c->admitted += is_admitted;
		is_refused |= !is_admitted;
		if (c->step > 0)
			c->now += c->step;
		else if (!is_admitted)
			c->now += o.retry_after_ns;
	}
}

/* From the beginning of one burst to that of another: no part of one is counted. */
static struct rate measure(uint64_t quota, uint64_t window, uint32_t slots, uint64_t step)
{
	struct throttle_limit limit = ring("rate", quota, window);
	struct caller c = {.now = START, .step = step};
	struct rate begin;

	limit.slots = slots;
	c.table = open_table(NULL, 1, &limit, 1);
	while (c.now < START + LEAST * window)
		next_burst(&c);
	begin = (struct rate){c.admitted, c.now};
	while (c.now < START + MOST * window)
		next_burst(&c);
	throttle_table_close(c.table);
	return (struct rate){c.admitted - begin.admitted, c.now - begin.ns};
}

static void expect_no_less(uint64_t quota, const struct rate *rate, uint64_t last_quota,
	const struct rate *last, uint64_t slack_ns)
{
	bool is_less = (unsigned __int128)rate->admitted * (last->ns + slack_ns) <
		       (unsigned __int128)last->admitted * rate->ns;

	if (is_less)
		printf("# limit %llu: %llu in %llu ns; limit %llu: %llu in %llu ns\n",
			(unsigned long long)quota, (unsigned long long)rate->admitted,
			(unsigned long long)rate->ns, (unsigned long long)last_quota,
			(unsigned long long)last->admitted, (unsigned long long)last->ns);
	assert_false(is_less);
}

static void climb(uint64_t window, uint32_t slots, uint64_t step)
{
	static const uint64_t large[] = {201, 255, 256, 257, 300, 1000, 4000};
	struct rate last = {0, 1}, rate;
	uint64_t last_quota = 0;

	for (uint64_t i = 1; i <= 200 + sizeof(large) / sizeof(large[0]); i++) {
		const uint64_t quota = i <= 200 ? i : large[i - 201];

		if (quota * step >= window)
			break; /* it doesn't ask often enough to be refused */
		rate = measure(quota, window, slots, step);
		/* Who asks by a clock may be one tick of it late in each window. */
		expect_no_less(quota, &rate, last_quota, &last, (MOST - LEAST) * step);
		last = rate;
		last_quota = quota;
	}
}

static void test_as_soon_as_it_can(void **state)
{
	static const uint64_t windows[] = {1 * MS, 10 * MS + 1, 1000 * MS, 60000 * MS + 12345,
		3600 * SECOND, 30 * 86400 * SECOND};
	static const uint32_t slots[] = {0, 1, 2, 5, 20, 32, 33, 64, 100, 199};

	(void)state;
	for (size_t w = 0; w < sizeof(windows) / sizeof(windows[0]); w++)
		for (size_t s = 0; s < sizeof(slots) / sizeof(slots[0]); s++)
			climb(windows[w], slots[s], 0);
}

/* Of any quota and window, whatever is drawn. */
static void test_at_random(void **state)
{
	uint64_t seed = random_seed("rates"), rounds = steps_or(500);

	(void)state;
	while (rounds-- > 0) {
		uint64_t window =
			MS + random_below(&seed, UINT64_C(1) << (20 + random_below(&seed, 35)));
		uint32_t slots =
			random_below(&seed, 2) == 0 ? 0 : (uint32_t)(1 + random_below(&seed, 200));
		uint64_t small = random_below(&seed, 4) == 0 ? slots + (slots == 0) * 20
							     : 1 + random_below(&seed, 300);
		uint64_t quota = small + 1 + random_below(&seed, 2) * random_below(&seed, 300);
		struct rate last = measure(small, window, slots, 0);
		struct rate rate = measure(quota, window, slots, 0);

		expect_no_less(quota, &rate, small, &last, 0);
	}
}

static void test_by_a_clock(void **state)
{
	static const uint32_t slots[] = {0, 5, 40};

	(void)state;
	for (size_t s = 0; s < sizeof(slots) / sizeof(slots[0]); s++)
		climb(1000 * MS, slots[s], MS);
}

UNIT_SUITE(rates_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_as_soon_as_it_can),
		cmocka_unit_test(test_at_random),
		cmocka_unit_test(test_by_a_clock),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
