/*
 * Histories of many limits, to their extremes: windows of a millisecond and of 400 days, waits of
 * thousands of windows, clocks that go back by several, refunds again and again within one instant.
 *
 * Random limits, costs, schedules and clock steps against the oracle, in both directions of the
 * promise. THROTTLE_SEED and THROTTLE_STEPS (for each limit) make it another or a longer run; what
 * fails prints the seed that does it again.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "throttle/throttle.h"
#include "oracle.h"
#include "tests/unit/suite.h"

#define SECOND UINT64_C(1000000000)
#define START  (UINT64_C(1700000000) * SECOND)

static uint64_t run_seed;

struct run {
	struct throttle_table *table;
	struct throttle_limit limit;
	struct throttle_key caller;
	struct oracle_log log;
	uint64_t random, seed;
	uint64_t now;    /* as passed in: may step */
	uint64_t latest; /* the latest ever passed in */
	uint64_t slack;  /* of must() */
	uint64_t admitted, refused, step;
};

static void blame(const struct run *r, const char *what, const struct throttle_outcome *o,
	uint64_t sum, uint64_t cost)
{
	fail_msg("%s: seed %llu step %llu: L %llu W %llu slots %u cost %llu, in window %llu; now "
		 "+%llu ns, latest +%llu, at +%llu, remaining %llu, retry %llu",
		what, (unsigned long long)r->seed, (unsigned long long)r->step,
		(unsigned long long)r->limit.quota, (unsigned long long)r->limit.window_ns,
		r->limit.slots, (unsigned long long)cost, (unsigned long long)sum,
		(unsigned long long)(r->now - START), (unsigned long long)(r->latest - START),
		(unsigned long long)(o->at_ns - START), (unsigned long long)o->remaining,
		(unsigned long long)o->retry_after_ns);
}

static struct throttle_limit random_ring(uint64_t *random)
{
	static const uint64_t windows[] = {1000000, 7000003, SECOND, 10 * SECOND, 60 * SECOND,
		86400 * SECOND, UINT64_C(400) * 86400 * SECOND};
	static const uint64_t quotas[] = {1, 2, 3, 7, 19, 20, 21, 22, 100, 1000};
	struct throttle_limit l = {.name = "ring", .kind = THROTTLE_RING};

	l.quota = quotas[oracle_below(random, 10)];
	l.window_ns = windows[oracle_below(random, 7)];
	if (oracle_below(random, 3) == 0)
		l.window_ns += oracle_below(random, l.window_ns / 2);
	if (l.window_ns > windows[6])
		l.window_ns = windows[6];
	switch (oracle_below(random, 4)) {
	case 0:
		l.slots = THROTTLE_EXACT;
		break;
	case 1:
		l.slots = 1 + (uint32_t)oracle_below(random, 200);
		break;
	default:
		break;
	}
	return l;
}

/* How late a quota may come back: three ticks of an exact ring, a quantum of another. A tick is at
 * most a 2^18th of the window and two seconds. */
static uint64_t slack_of(const struct throttle_limit *l)
{
	uint64_t slots = l->slots == 0 ? 19 : l->slots;
	uint64_t ticks = 3 * (((l->window_ns + 2 * SECOND) >> 18) + 2048);

	if (l->slots == THROTTLE_EXACT || l->quota <= slots || (l->slots == 0 && l->quota == 20))
		return ticks;
	return ticks + l->window_ns / slots + slots;
}

static void step_clock(struct run *r)
{
	uint64_t w = r->limit.window_ns, kind = oracle_below(&r->random, 1000);

	if (kind < 300)
		return;
	if (kind < 700)
		r->now += oracle_below(&r->random, w / r->limit.quota + 1);
	else if (kind < 900)
		r->now += oracle_below(&r->random, 2 * w / r->limit.quota + 1);
	else if (kind < 980)
		r->now += oracle_below(&r->random, w);
	else if (kind < 990)
		r->now += w + oracle_below(&r->random, 4);
	else if (kind < 992)
		r->now -= oracle_below(&r->random, SECOND);
	else if (kind < 994)
		r->now -= oracle_below(&r->random, 3 * w < r->now - START ? 3 * w : r->now - START);
	else if (kind < 996)
		r->now = r->latest;
	else if (kind < 997)
		r->now += oracle_below(&r->random, 5000) * w;
	else
		r->now += oracle_below(&r->random, 3 * w);
	if (r->now < START)
		r->now = START;
	/* The longest windows come to the end of time. */
	if (r->now > START * 2)
		r->now = r->latest;
	if (r->now > r->latest)
		r->latest = r->now;
}

/* The time that a charge counts at: see "The exact rule" in throttle.h. */
static uint64_t time_of(const struct run *r, const struct throttle_outcome *o)
{
	uint64_t at = r->now > o->at_ns ? r->now : o->at_ns;

	if (r->log.end > r->log.first && r->log.at[r->log.end - 1] > at)
		at = r->log.at[r->log.end - 1];
	return at;
}

/* A verdict against the list. Clocks that are behind make only the safe direction certain. */
static void judge(struct run *r, const struct throttle_verdict *v, uint64_t cost)
{
	const struct throttle_outcome *o = &v->outcome[0];
	uint64_t w = r->limit.window_ns, time = time_of(r, o);
	uint64_t sum = oracle_sum(&r->log, time, w), late;

	if (v->admitted) {
		if (sum + cost > r->limit.quota)
			blame(r, "admitted above the limit", o, sum, cost);
		if (o->remaining > r->limit.quota - sum - cost)
			blame(r, "remaining is too much", o, sum, cost);
		return;
	}
	if (r->now < r->latest)
		return;
	late = oracle_sum(&r->log, r->now, w + r->slack + time - r->now);
	if (late + cost <= r->limit.quota)
		blame(r, "refused what fits", o, late, cost);
	if (cost > r->limit.quota) {
		if (o->retry_after_ns != THROTTLE_NEVER)
			blame(r, "told to wait for what never fits", o, late, cost);
		return;
	}
	/* At the time told it fits; the promise says it can't be before. */
	if (o->retry_after_ns == 0 || o->retry_after_ns > time - r->now + w + r->slack)
		blame(r, "a wait that can't be", o, late, cost);
	if (oracle_sum(&r->log, r->now + o->retry_after_ns, w) + cost > r->limit.quota)
		blame(r, "told to come back too soon", o, late, cost);
	if (o->retry_after_ns > r->slack &&
		oracle_sum(&r->log, r->now + o->retry_after_ns - r->slack, w) + cost <=
			r->limit.quota &&
		oracle_sum(&r->log, r->now + o->retry_after_ns - r->slack - 1, w) + cost <=
			r->limit.quota)
		blame(r, "told to come back too late", o, late, cost);
}

static void one_step(struct run *r, bool refunds)
{
	struct throttle_charge charge = {.caller = r->caller, .cost = 1};
	struct throttle_verdict peeked, taken;
	struct throttle_receipt receipt;
	uint64_t what = oracle_below(&r->random, 100);

	step_clock(r);
	if (what < 25)
		charge.cost = 1 + oracle_below(&r->random, r->limit.quota + (what < 3));
	assert_int_equal(throttle_peek(r->table, &charge, 1, r->now, &peeked), 0);
	assert_int_equal(throttle_take(r->table, &charge, 1, r->now, &taken, &receipt), 0);
	if (peeked.admitted != taken.admitted)
		blame(r, "peek and take differ", &taken.outcome[0], 0, charge.cost);
	judge(r, &taken, charge.cost);
	if (!taken.admitted) {
		r->refused++;
		return;
	}
	r->admitted++;
	if (refunds && oracle_below(&r->random, 4) == 0) {
		throttle_refund(r->table, &receipt, 0, r->now);
		return;
	}
	oracle_add(&r->log, time_of(r, &taken.outcome[0]), charge.cost);
	oracle_forget(&r->log,
		r->latest > 5 * r->limit.window_ns ? r->latest - 5 * r->limit.window_ns : 0);
}

static void run_limits(uint64_t limits, uint64_t steps, bool refunds)
{
	static struct run r;
	uint64_t random = run_seed, admitted = 0, refused = 0;

	for (uint64_t i = 0; i < limits; i++) {
		struct throttle_seed seed = {1, 2};
		struct throttle_table_options options = {
			.callers = 100, .now_ns = START, .seed = &seed};
		struct throttle_report report;

		memset(&r, 0, sizeof(r));
		r.seed = random;
		r.limit = random_ring(&random);
		/* After a refund the next charge is recorded a tick later than the last. */
		r.slack = slack_of(&r.limit) * (refunds ? 2 : 1);
		r.random = oracle_random(&random);
		r.now = r.latest = START;
		r.caller.hi = oracle_random(&random);
		r.caller.lo = oracle_random(&random);
		r.table = throttle_table_open(&options, &r.limit, 1, &report);
		if (r.table == NULL)
			fail_msg("%s", report.text);
		for (r.step = 0; r.step < steps; r.step++)
			one_step(&r, refunds);
		throttle_table_close(r.table);
		admitted += r.admitted;
		refused += r.refused;
	}
	print_message("seed %llu: %llu admitted, %llu refused, none in error\n",
		(unsigned long long)run_seed, (unsigned long long)admitted,
		(unsigned long long)refused);
}

static void test_takes(void **state)
{
	(void)state;
	run_limits(200, oracle_steps("THROTTLE_STEPS", 5000), false);
}

static void test_takes_and_refunds(void **state)
{
	(void)state;
	run_limits(200, oracle_steps("THROTTLE_STEPS", 5000), true);
}

UNIT_SUITE(histories_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_takes),
		cmocka_unit_test(test_takes_and_refunds),
	};

	run_seed = oracle_seed("THROTTLE_SEED");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
