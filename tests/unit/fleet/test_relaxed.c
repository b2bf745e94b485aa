/* What a worker publishes of callers, when, and what it makes of the sums: without a store, a
 * table, a loop and a clock. */
#include "fleet/relaxed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "store/integers.h"
#include "stats/stats.h"
#include "tests/unit/fleet/call_words.h"
#include "tests/unit/fleet/fake_store.h"
#include "tests/unit/suite.h"
#include "worker/node.h"

enum { INTERVAL_MS = 500, PAUSE_MS = INTERVAL_MS / 2, BEGIN_MS = 100000, MS = 1000000 };
enum { QUOTA = 100, WINDOW_US = 2000000, QUANTUM_US = 70000 };

static const char name[] = "it";

static struct {
	struct node node;
	struct stats *stats;
	struct relaxing relaxing;
	uint64_t used; /* of each caller, in the node's table */
} world;

/* ---- in the place of the node's table -------------------------------------------------------- */

bool __real_throttle_explain(struct throttle_table *t, uint32_t limit, struct throttle_key caller,
	uint64_t now_ns, struct throttle_outcome *outcome);
bool __wrap_throttle_explain(struct throttle_table *t, uint32_t limit, struct throttle_key caller,
	uint64_t now_ns, struct throttle_outcome *outcome);
bool __wrap_throttle_explain(struct throttle_table *t, uint32_t limit, struct throttle_key caller,
	uint64_t now_ns, struct throttle_outcome *outcome)
{
	if (!unit_runs("test_relaxed"))
		return __real_throttle_explain(t, limit, caller, now_ns, outcome);
	assert_int_equal(limit, 7);
	assert_int_equal(caller.hi, 8);
	assert_int_equal(now_ns, fake_store.now_ns);
	*outcome = (struct throttle_outcome){.quota = QUOTA, .remaining = QUOTA - world.used};
	return world.used > 0;
}

/* ---- what a test does ------------------------------------------------------------------------ */

static int begin(void **state)
{
	(void)state;
	memset(&world, 0, sizeof(world));
	fake_store_begin(BEGIN_MS);
	fake_store.conf.fleet =
		(struct conf_fleet){.publish_interval_ms = INTERVAL_MS, .store_timeout_ms = 20};
	world.stats = stats_new(1);
	fake_store.worker.node = &world.node;
	fake_store.worker.stats = stats_block(world.stats, 0);
	relaxing_init(&world.relaxing, &fake_store.worker, &fake_store.link);
	relaxing_take_site(&world.relaxing);
	relaxing_begin(&world.relaxing, "f");
	return 0;
}

static int end(void **state)
{
	(void)state;
	relaxing_end(&world.relaxing);
	stats_free(world.stats);
	return 0;
}

/* As a request's way sets it. */
static struct view *view_of(uint64_t caller)
{
	struct view *view =
		relaxing_view(&world.relaxing, (struct throttle_key){1, caller << 8}, name);

	assert_non_null(view);
	view->rule =
		(struct rule){.quota = QUOTA, .window_us = WINDOW_US, .quantum_us = QUANTUM_US};
	view->number = 7;
	view->here = (struct throttle_key){8, 9};
	view->site = world.relaxing.site;
	return view;
}

static struct view *ask_for(uint64_t caller)
{
	struct view *view = view_of(caller);

	relaxing_ask(&world.relaxing, view);
	return view;
}

/* Of what was taken now. */
static void note(struct view *view, int64_t units)
{
	relaxing_note(&world.relaxing, view, units, fake_store.now_ns);
}

static uint64_t due_ms(void)
{
	return world.relaxing.timer.at_ms;
}

static void run_timer(void)
{
	fake_store_run_timer(&world.relaxing.timer);
}

/* One caller's words in the call that is on its way. */
static void assert_published(uint64_t more, uint64_t less)
{
	struct call_words words;

	assert_non_null(fake_store.call);
	call_words_read(&words, fake_store.call->command, fake_store.call->len);
	assert_int_equal(words.count, 5);
	assert_string_equal(words.texts[1], "sluice_relaxed_1");
	assert_string_equal(words.texts[2], "1");
	assert_string_equal(words.texts[3], "f{00000000000000010000000000000100}it:relaxed");
	assert_int_equal(words.number_count, 4);
	assert_int_equal(words.numbers[0], WINDOW_US);
	assert_int_equal(words.numbers[1], QUANTUM_US);
	assert_int_equal(words.numbers[2], more);
	assert_int_equal(words.numbers[3], less);
}

/* Of `count` callers alike; the array says `said` integers and has all of them. */
static void answer_all(unsigned count, uint32_t said, uint64_t total, uint64_t oldest_us)
{
	static uint8_t bytes[16384];
	size_t len = integers_head(bytes, said);

	for (unsigned i = 0; i < count; i++) {
		len += integers_put(bytes + len, total);
		len += integers_put(bytes + len, oldest_us);
	}
	fake_store_answer(bytes, len);
}

static void answer(uint64_t total, uint64_t oldest_us)
{
	answer_all(1, 2, total, oldest_us);
}

/* ---- when ------------------------------------------------------------------------------------ */

static void a_caller_of_which_nothing_is_known_is_asked_for_at_once(void **state)
{
	(void)state;
	assert_true(due_ms() == DEADLINE_NEVER);
	struct view *view = ask_for(1);
	assert_int_equal(due_ms(), BEGIN_MS);
	run_timer();
	assert_published(0, 0);
	assert_true(view->is_away);
	fake_store_at(BEGIN_MS + 3);
	world.used = 10;
	answer(30, 1500000);
	assert_false(view->is_away);
	assert_int_equal(view->reserved, 20); /* ten are this node's own */
	assert_int_equal(view->asked_ns, (uint64_t)BEGIN_MS * MS);
	assert_int_equal(view->falls_ns, (BEGIN_MS + 1503ull) * MS);
	/* and then twice in the interval */
	assert_true(due_ms() == DEADLINE_NEVER);
	ask_for(1);
	assert_int_equal(due_ms(), BEGIN_MS + PAUSE_MS);
	ask_for(1);
	run_timer();
	answer(30, 0);
	fake_store_at(BEGIN_MS + 2 * PAUSE_MS);
	ask_for(1); /* half an interval old: not yet */
	assert_int_equal(due_ms(), BEGIN_MS + 2 * PAUSE_MS);
	run_timer();
	answer(30, 0);
	fake_store_at(BEGIN_MS + 3 * PAUSE_MS + 1);
	ask_for(1);
	assert_int_equal(due_ms(), BEGIN_MS + 3 * PAUSE_MS + 1);
}

static void one_that_is_not_known_does_not_wait_for_the_others(void **state)
{
	(void)state;
	ask_for(1);
	run_timer();
	answer(0, 0);
	ask_for(1);
	assert_int_equal(due_ms(), BEGIN_MS + PAUSE_MS);
	fake_store_at(BEGIN_MS + 10);
	ask_for(2);
	assert_int_equal(due_ms(), BEGIN_MS + 10);
	run_timer();
	assert_int_equal(world.relaxing.sent_count, 2);
	answer_all(2, 4, 0, 0);
	fake_store_at(BEGIN_MS + 10 + PAUSE_MS);
	ask_for(2);
	run_timer();
	answer_all(1, 2, 0, 0);
	fake_store_at(BEGIN_MS + 11 + PAUSE_MS);
	ask_for(1); /* its sum is older than the last call */
	assert_int_equal(due_ms(), BEGIN_MS + 11 + PAUSE_MS);
	fake_store_at(BEGIN_MS + 1000);
	run_timer();
	/* while a call is on its way, the next waits for its answer */
	ask_for(3);
	assert_int_equal(due_ms(), BEGIN_MS + 1000 + 1000);
	answer_all(1, 2, 0, 0);
	assert_int_equal(due_ms(), BEGIN_MS + 1000 + PAUSE_MS);
}

static void many_leave_in_calls_one_after_the_other(void **state)
{
	(void)state;
	for (uint64_t i = 0; i < 2 * RELAXED_AT_ONCE + 10; i++)
		ask_for(i);
	run_timer();
	assert_int_equal(world.relaxing.sent_count, RELAXED_AT_ONCE);
	answer_all(RELAXED_AT_ONCE, 2 * RELAXED_AT_ONCE, 0, 0);
	assert_int_equal(fake_store.sent, 2);
	answer_all(RELAXED_AT_ONCE, 2 * RELAXED_AT_ONCE, 0, 0);
	assert_int_equal(fake_store.sent, 3);
	assert_int_equal(world.relaxing.sent_count, 10);
	answer_all(10, 20, 0, 0);
	assert_int_equal(fake_store.sent, 3);
	assert_true(due_ms() == DEADLINE_NEVER);
}

/* ---- what ------------------------------------------------------------------------------------ */

static void what_was_admitted_is_published_once(void **state)
{
	struct view *view = ask_for(1);

	(void)state;
	run_timer();
	world.used = 4;
	answer(20, 0);
	assert_int_equal(view->reserved, 16);
	note(view, 3);
	note(view, 1);
	assert_int_equal(due_ms(), BEGIN_MS + PAUSE_MS);
	run_timer();
	assert_published(4, 0);
	assert_int_equal(view->fresh, 0);
	world.used = 6; /* two more, while it is away */
	note(view, 2);
	answer(24, 0);
	assert_int_equal(view->reserved, 20);
	run_timer();
	assert_published(2, 0);
	answer(3, 0); /* fewer than this node has: others have none */
	assert_int_equal(view->reserved, 0);
}

static void what_was_given_back_is_taken_from_the_sum(void **state)
{
	struct view *view = view_of(1);

	(void)state;
	note(view, 3);
	note(view, -5);
	run_timer();
	assert_published(0, 2);
	answer(0, 0);
	assert_int_equal(view->fresh, 0);
}

/* A request that was published long ago ends, and costs nothing. What others have admitted since is
 * younger, and counts for longer. */
static void what_is_given_back_hides_no_younger_admission(void **state)
{
	struct view *view = view_of(1);
	uint64_t began_ns = fake_store.now_ns;

	(void)state;
	world.used = 10;
	note(view, 10);
	run_timer();
	assert_published(10, 0);
	answer(10, 0);
	fake_store_at(BEGIN_MS + 1500);
	note(view, 10);
	relaxing_note(&world.relaxing, view, -10, began_ns);
	run_timer();
	assert_published(10, 10);
	answer(10, 0);
	assert_int_equal(view->reserved, 0);
	fake_store_at(BEGIN_MS + 3000);
	note(view, 10);
	note(view, -10); /* of the same */
	run_timer();
	assert_published(0, 0);
	answer(10, 0);
}

/* While a call is on its way, and when its answer is lost. */
static void what_is_given_back_is_said_once_more(void **state)
{
	struct view *view = view_of(1);
	uint64_t began_ns = fake_store.now_ns;

	(void)state;
	world.used = 10;
	note(view, 10);
	run_timer();
	answer(10, 0);
	fake_store_at(BEGIN_MS + 1500);
	relaxing_note(&world.relaxing, view, -4, began_ns);
	run_timer();
	assert_published(0, 4);
	world.used = 5;
	relaxing_note(&world.relaxing, view, -1, began_ns);
	answer(12, 0); /* 6 of this node, of which the store does not know that one is given back */
	assert_int_equal(view->reserved, 6);
	run_timer();
	assert_published(0, 1);
	fake_store_answer(NULL, 0);
	assert_int_equal(view->given, 0); /* the store may have it: it is not said again */
}

static void what_has_left_the_window_is_not_published(void **state)
{
	struct view *view = view_of(1);

	(void)state;
	world.used = 5;
	note(view, 9);
	run_timer();
	assert_published(5, 0);
	answer(5, 0);
	note(view, -9);
	run_timer();
	assert_published(0, 9);
}

/* Its numbers in the table are of the site before. */
static void a_view_of_another_site_is_left_as_it_is(void **state)
{
	struct view *view = view_of(1);

	(void)state;
	view->reserved = 44;
	note(view, 9);
	relaxing_take_site(&world.relaxing);
	run_timer();
	assert_published(9, 0);
	answer(70, 0);
	assert_int_equal(view->reserved, 44);
	assert_int_equal(view->asked_ns, 0);
}

/* ---- answers that do not come ---------------------------------------------------------------- */

static void what_was_not_published_is_so_again(void **state)
{
	struct view *view = ask_for(1);

	(void)state;
	run_timer();
	world.used = 4;
	answer(10, 0);
	note(view, 4);
	run_timer();
	note(view, 2);
	world.used = 6;
	assert_true(relaxing_hears(&world.relaxing));
	fake_store_at(BEGIN_MS + 2 * PAUSE_MS);
	assert_true(relaxing_hears(&world.relaxing));
	fake_store_at(BEGIN_MS + 2 * PAUSE_MS + 1);
	assert_false(relaxing_hears(&world.relaxing));
	assert_int_equal(due_ms(), BEGIN_MS + PAUSE_MS + 1000);
	run_timer();
	assert_int_equal(fake_store.dropped, 1);
	assert_int_equal(fake_store.dropped_ms, BEGIN_MS + PAUSE_MS);
	fake_store.link.state = STORE_WAITING;
	fake_store_lose_answer();
	assert_int_equal(view->fresh, 6);
	assert_int_equal(view->reserved, 6);
	assert_true(due_ms() == DEADLINE_NEVER);
	ask_for(1);
	assert_true(due_ms() == DEADLINE_NEVER);
	assert_false(relaxing_hears(&world.relaxing));
	fake_store.link.state = STORE_READY;
	assert_false(relaxing_hears(&world.relaxing));
	relaxing_begin(&world.relaxing, "f");
	assert_true(relaxing_hears(&world.relaxing));
	run_timer();
	assert_published(6, 0);
	answer(16, 0);
	assert_int_equal(view->reserved, 10);
}

/* The store may have it, and would take it from the sum once more. */
static void what_was_given_back_is_not_so_again(void **state)
{
	struct view *view = view_of(1);

	(void)state;
	note(view, -5);
	run_timer();
	assert_published(0, 5);
	fake_store_lose_answer();
	assert_int_equal(view->given, 0);
	run_timer();
	assert_published(0, 0);
	answer(12, 0);
	assert_int_equal(view->reserved, 12);
}

static void a_store_that_refuses_is_not_heard(void **state)
{
	struct view *view = view_of(1);

	(void)state;
	world.used = 3;
	note(view, 3);
	run_timer();
	fake_store_lose_answer();
	assert_false(relaxing_hears(&world.relaxing));
	assert_int_equal(due_ms(), BEGIN_MS + PAUSE_MS);
	run_timer();
	assert_published(3, 0);
	answer(3, 0);
	assert_true(relaxing_hears(&world.relaxing));
	fake_store.is_full = true;
	note(view, 1);
	run_timer();
	assert_int_equal(view->fresh, 1);
	assert_false(view->is_away);
	assert_false(relaxing_hears(&world.relaxing));
	assert_int_equal(due_ms(), fake_store.now_ns / MS + PAUSE_MS);
}

/* The first has its sum; of the second it is not known that the store has it. */
static void an_answer_that_is_cut_is_none(void **state)
{
	struct view *first = ask_for(1), *second = ask_for(2);

	(void)state;
	world.used = 1;
	note(first, 1);
	note(second, 1);
	run_timer();
	answer_all(1, 2, 9, 0);
	assert_int_equal(first->fresh, 0);
	assert_int_equal(first->reserved, 8);
	assert_int_equal(second->fresh, 1);
	assert_int_equal(second->reserved, 0);
	assert_false(relaxing_hears(&world.relaxing));
}

static void a_slow_store_has_its_time(void **state)
{
	(void)state;
	fake_store.conf.fleet.store_timeout_ms = 700;
	ask_for(1);
	run_timer();
	assert_int_equal(due_ms(), BEGIN_MS + 1400);
	fake_store_at(BEGIN_MS + 700);
	assert_true(relaxing_hears(&world.relaxing));
	fake_store_at(BEGIN_MS + 701);
	assert_false(relaxing_hears(&world.relaxing));
}

/* ---- leaving --------------------------------------------------------------------------------- */

static void what_there_is_is_published_as_it_leaves(void **state)
{
	struct view *view = view_of(1);

	(void)state;
	world.used = 2;
	note(view, 2);
	relaxing_leave(&world.relaxing);
	assert_published(2, 0);
	relaxing_leave(&world.relaxing); /* it is on its way */
	assert_int_equal(fake_store.sent, 1);
	fake_store_lose_answer();
	fake_store.link.state = STORE_WAITING;
	relaxing_leave(&world.relaxing);
	assert_int_equal(fake_store.sent, 1);
	assert_true(due_ms() == DEADLINE_NEVER);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

UNIT_SUITE(test_relaxed)
{
	const struct CMUnitTest tests[] = {
		TEST(a_caller_of_which_nothing_is_known_is_asked_for_at_once),
		TEST(one_that_is_not_known_does_not_wait_for_the_others),
		TEST(many_leave_in_calls_one_after_the_other),
		TEST(what_was_admitted_is_published_once),
		TEST(what_was_given_back_is_taken_from_the_sum),
		TEST(what_is_given_back_hides_no_younger_admission),
		TEST(what_is_given_back_is_said_once_more),
		TEST(what_has_left_the_window_is_not_published),
		TEST(a_view_of_another_site_is_left_as_it_is),
		TEST(what_was_not_published_is_so_again),
		TEST(what_was_given_back_is_not_so_again),
		TEST(a_store_that_refuses_is_not_heard),
		TEST(an_answer_that_is_cut_is_none),
		TEST(a_slow_store_has_its_time),
		TEST(what_there_is_is_published_as_it_leaves),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
