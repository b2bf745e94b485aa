/* Deadlines: called once, not before their time, and no timer is touched to move one later. Time is
 * the subject: the loop runs for some tens of milliseconds. */
#include "loop/deadline.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "base/clock.h"
#include "tests/unit/random.h"
#include "tests/unit/suite.h"

struct item {
	struct deadline deadline;
	struct event_base *base;
	unsigned passed;
	uint64_t passed_ms, again_ms;
	bool ends;
};

static void on_passed(struct deadline *deadline)
{
	struct item *item = (struct item *)deadline;

	item->passed++;
	item->passed_ms = clock_monotonic_ms();
	assert_true(deadline->at_ms == DEADLINE_NEVER);
	if (item->again_ms > 0) {
		deadline_set(deadline, item->passed_ms + item->again_ms, item->passed_ms);
		item->again_ms = 0;
	} else if (item->ends) {
		deadline_end(deadline);
	}
}

static void begin(struct item *item, struct event_base *base)
{
	*item = (struct item){.base = base};
	deadline_init(&item->deadline, base, on_passed);
}

/* Until nothing is armed any more. */
static void run(struct event_base *base)
{
	event_base_dispatch(base);
}

static void passes_once(void **state)
{
	struct event_base *base = event_base_new();
	struct item item;
	uint64_t now_ms = clock_monotonic_ms();

	(void)state;
	begin(&item, base);
	deadline_set(&item.deadline, now_ms + 20, now_ms);
	run(base);
	assert_int_equal(item.passed, 1);
	assert_true(item.passed_ms >= now_ms + 20);
	/* One in the past passes as well. */
	deadline_set(&item.deadline, now_ms, clock_monotonic_ms());
	run(base);
	assert_int_equal(item.passed, 2);
	deadline_end(&item.deadline);
	event_base_free(base);
}

static void moves(void **state)
{
	struct event_base *base = event_base_new();
	struct item later, nearer, cleared, back;
	uint64_t now_ms = clock_monotonic_ms();

	(void)state;
	begin(&later, base);
	begin(&nearer, base);
	begin(&cleared, base);
	begin(&back, base);
	deadline_set(&later.deadline, now_ms + 10, now_ms);
	for (uint64_t ms = 11; ms <= 40; ms++) {
		deadline_set(&later.deadline, now_ms + ms, now_ms);
		assert_true(later.deadline.armed_ms == now_ms + 10); /* the timer stays */
	}
	deadline_set(&nearer.deadline, now_ms + 3600000, now_ms);
	deadline_set(&nearer.deadline, now_ms + 15, now_ms);
	assert_true(nearer.deadline.armed_ms == now_ms + 15);
	deadline_set(&cleared.deadline, now_ms + 10, now_ms);
	deadline_clear(&cleared.deadline);
	deadline_set(&back.deadline, now_ms + 10, now_ms);
	deadline_clear(&back.deadline);
	deadline_set(&back.deadline, now_ms + 25, now_ms);
	run(base);
	assert_int_equal(later.passed, 1);
	assert_true(later.passed_ms >= now_ms + 40);
	assert_int_equal(nearer.passed, 1);
	assert_true(nearer.passed_ms >= now_ms + 15);
	assert_int_equal(cleared.passed, 0);
	assert_int_equal(back.passed, 1);
	assert_true(back.passed_ms >= now_ms + 25);
	deadline_end(&later.deadline);
	deadline_end(&nearer.deadline);
	deadline_end(&cleared.deadline);
	deadline_end(&back.deadline);
	event_base_free(base);
}

/* The system gives libevent no more memory. */
static bool lacks_memory;

static void *grow(void *at, size_t bytes)
{
	return lacks_memory ? NULL : realloc(at, bytes);
}

/* It is not taken for armed, so the next time that it is set arms it. */
static void arms_when_there_is_memory_again(void **state)
{
	struct event_base *base;
	struct item item;
	uint64_t now_ms = clock_monotonic_ms();

	(void)state;
	event_set_mem_functions(malloc, grow, free);
	base = event_base_new();
	begin(&item, base);
	lacks_memory = true;
	deadline_set(&item.deadline, now_ms, now_ms);
	assert_false(event_pending(&item.deadline.timer, EV_TIMEOUT, NULL));
	lacks_memory = false;
	deadline_set(&item.deadline, now_ms, now_ms);
	run(base);
	assert_int_equal(item.passed, 1);
	deadline_end(&item.deadline);
	event_base_free(base);
}

static void within_a_call(void **state)
{
	struct event_base *base = event_base_new();
	struct item again, ends;
	uint64_t now_ms = clock_monotonic_ms();

	(void)state;
	begin(&again, base);
	begin(&ends, base);
	again.again_ms = 15;
	ends.ends = true;
	deadline_set(&again.deadline, now_ms + 5, now_ms);
	deadline_set(&ends.deadline, now_ms + 5, now_ms);
	run(base);
	assert_int_equal(again.passed, 2);
	assert_true(again.passed_ms >= now_ms + 20);
	assert_int_equal(ends.passed, 1);
	deadline_end(&again.deadline);
	event_base_free(base);
}

static void hold_up(uint64_t until_ms)
{
	while (clock_monotonic_ms() < until_ms)
		;
}

static void turn(struct event_base *base)
{
	assert_int_equal(event_base_loop(base, EVLOOP_ONCE), 0);
}

/* What came while the loop was held up is looked at before a deadline about a peer passes, and the
 * peer has time once more; but once only. */
static void a_patient_one_waits_after_a_hold_up(void **state)
{
	struct event_base *base = event_base_new();
	struct item moved, kept, plain;
	uint64_t now_ms = clock_monotonic_ms();

	(void)state;
	begin(&moved, base);
	begin(&kept, base);
	begin(&plain, base);
	moved.deadline.is_patient = kept.deadline.is_patient = true;
	deadline_set(&moved.deadline, now_ms + 5, now_ms);
	deadline_set(&kept.deadline, now_ms + 5, now_ms);
	deadline_set(&plain.deadline, now_ms + 5, now_ms);
	hold_up(now_ms + 50);
	turn(base);
	assert_int_equal(plain.passed, 1);
	assert_int_equal(moved.passed + kept.passed, 0);
	assert_true(kept.deadline.at_ms >= now_ms + 50 + 1000);
	deadline_clear(&moved.deadline);   /* progress was found */
	hold_up(kept.deadline.at_ms + 30); /* late again, which is no excuse any more */
	turn(base);
	assert_int_equal(kept.passed, 1);
	run(base);
	assert_int_equal(moved.passed, 0);
	/* By as much as it was late, when that is more. */
	now_ms = clock_monotonic_ms();
	kept.deadline.is_patient = true;
	deadline_set(&kept.deadline, now_ms - 5000, now_ms);
	turn(base);
	assert_int_equal(kept.passed, 1);
	assert_true(kept.deadline.at_ms >= now_ms + 5000);
	deadline_end(&moved.deadline);
	deadline_end(&kept.deadline);
	deadline_end(&plain.deadline);
	event_base_free(base);
}

/* Many, moved about before the loop runs: each passes once, at its last time or after, or never. */
static void many(void **state)
{
	enum { COUNT = 500 };
	struct random random = random_begin("deadlines");
	struct event_base *base = event_base_new();
	static struct item items[COUNT];
	static uint64_t wanted_ms[COUNT];
	uint64_t now_ms = clock_monotonic_ms();

	(void)state;
	for (int i = 0; i < COUNT; i++) {
		begin(&items[i], base);
		for (size_t moves_left = 1 + random_below(&random, 5); moves_left > 0;
			moves_left--) {
			wanted_ms[i] = now_ms + random_below(&random, 40);
			deadline_set(&items[i].deadline, wanted_ms[i], now_ms);
			if (random_below(&random, 5) == 0) {
				wanted_ms[i] = DEADLINE_NEVER;
				deadline_clear(&items[i].deadline);
			}
		}
	}
	run(base);
	for (int i = 0; i < COUNT; i++) {
		assert_int_equal(items[i].passed, wanted_ms[i] != DEADLINE_NEVER);
		assert_true(items[i].passed == 0 || items[i].passed_ms >= wanted_ms[i]);
		deadline_end(&items[i].deadline);
	}
	event_base_free(base);
}

UNIT_SUITE(test_deadline)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(passes_once),
		cmocka_unit_test(moves),
		cmocka_unit_test(arms_when_there_is_memory_again),
		cmocka_unit_test(within_a_call),
		cmocka_unit_test(a_patient_one_waits_after_a_hold_up),
		cmocka_unit_test(many),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
