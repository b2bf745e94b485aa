/* A session takes a lock, renews it, loses or releases it: by what the store answers, and by times
 * that the test sets. */
#include "cli/lock/lock_hold.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "base/clock.h"
#include "conf/conf.h"
#include "fake_locks.h"
#include "tests/unit/base/fake_clock.h"
#include "tests/unit/suite.h"

#define LEASE_MS 3000
#define BEGIN_MS 50000

static struct world {
	struct conf conf;
	struct lock_store store;
	struct lock_hold hold;
	struct lock_ask *asked; /* NULL: nothing is under way */
	unsigned asks, changes, cancelled;
} world;

/* ---- in the place of the store and of clocks ------------------------------------------------- */

static void ask(struct locks *locks, struct lock_ask *ask)
{
	assert_ptr_equal(locks, &world.store.locks);
	assert_null(world.asked);
	world.asked = ask;
	world.asks++;
}

static void cancel(struct lock_ask *ask)
{
	assert_ptr_equal(world.asked, ask);
	world.asked = NULL;
	world.cancelled++;
}

static bool look_refused(struct lock_store *store)
{
	return store->is_refused;
}

static uint64_t boot_ns(void)
{
	return world.store.loop.now_ms * CLOCK_NS_PER_MS;
}

/* ---- what happens ---------------------------------------------------------------------------- */

static void on_changed(struct lock_hold *hold)
{
	assert_ptr_equal(hold, &world.hold);
	world.changes++;
}

static void begin_wait(uint64_t wait_ms)
{
	lock_hold_begin(&world.hold, &world.store, "n", LEASE_MS, wait_ms, on_changed);
	world.store.link.state = STORE_READY;
	lock_hold_look(&world.hold);
}

static int begin(void **state)
{
	(void)state;
	memset(&world, 0, sizeof(world));
	fake_clock_boot_ns = boot_ns;
	world.conf.fleet.store_timeout_ms = 100;
	world.store.conf = &world.conf;
	world.store.loop.now_known = true;
	world.store.loop.now_ms = BEGIN_MS;
	return 0;
}

static int end(void **state)
{
	(void)state;
	lock_hold_end(&world.hold);
	assert_null(world.asked);
	return 0;
}

static void pass_one(struct deadline *deadline)
{
	if (deadline->at_ms > world.store.loop.now_ms)
		return;
	deadline_clear(deadline);
	deadline->passed(deadline);
}

static void go_to(uint64_t ms)
{
	world.store.loop.now_ms = BEGIN_MS + ms;
	pass_one(&world.hold.next);
	pass_one(&world.hold.last);
}

static void answer_as(
	enum lock_status status, uint64_t fence, uint64_t left_ms, const char *session)
{
	struct lock_answer answer = {.status = status, .fence = fence, .left_ms = left_ms};
	struct lock_ask *ask = world.asked;

	assert_non_null(ask);
	world.asked = NULL;
	strcpy(answer.session, session);
	ask->done(ask, &answer);
}

static void assert_asked(enum lock_verb verb, uint64_t number)
{
	assert_non_null(world.asked);
	assert_int_equal(world.asked->verb, verb);
	assert_true(world.asked->number == number);
	assert_string_equal(world.asked->name, "n");
	assert_int_equal(world.asked->lease_ms, LEASE_MS);
}

/* By its second ask: the first says at which fence it is born. */
static void take(void)
{
	begin_wait(UINT64_MAX);
	assert_asked(LOCK_TAKE, 0);
	answer_as(LOCK_OVER, 70, 0, "");
	go_to(0);
	assert_asked(LOCK_TAKE, 70);
	answer_as(LOCK_HELD, 71, LEASE_MS, world.hold.session);
	assert_int_equal(world.hold.state, HOLD_HOLDING);
	assert_int_equal(world.hold.fence, 71);
	assert_int_equal(world.changes, 1);
}

static void assert_done(enum lock_hold_end end)
{
	assert_int_equal(world.hold.state, HOLD_DONE);
	assert_int_equal(world.hold.end, end);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void a_lease_is_renewed_from_before_it_was_asked_for(void **state)
{
	(void)state;
	take();
	assert_true(world.hold.until_ns == (BEGIN_MS + LEASE_MS) * CLOCK_NS_PER_MS);
	go_to(999);
	assert_null(world.asked);
	go_to(1000);
	assert_asked(LOCK_USE, 71);
	go_to(1400);
	answer_as(LOCK_HELD, 71, LEASE_MS, world.hold.session);
	assert_true(world.hold.until_ns == (BEGIN_MS + 1000 + LEASE_MS) * CLOCK_NS_PER_MS);
	assert_int_equal(world.changes, 2);
	assert_true(world.hold.last.is_patient);
}

static void a_session_that_was_overtaken_is_lost(void **state)
{
	(void)state;
	take();
	go_to(1000);
	answer_as(LOCK_OVER, 99, 5, "other");
	assert_done(HOLD_LOST);
	assert_string_equal(world.hold.why, "other has taken it");
	go_to(20000);
	assert_null(world.asked);
	assert_int_equal(world.changes, 2);
}

static void without_answers_it_is_asked_until_the_lease_ends(void **state)
{
	(void)state;
	take();
	for (uint64_t ms = 1000; ms < LEASE_MS; ms += 200) {
		go_to(ms);
		assert_asked(LOCK_USE, 71);
		answer_as(LOCK_UNKNOWN, 0, 0, "");
		assert_int_equal(world.hold.state, HOLD_HOLDING);
	}
	go_to(LEASE_MS);
	assert_done(HOLD_LOST);
	assert_string_equal(world.hold.why, "the store has not renewed the lease");
	if (world.asked) /* what comes then changes nothing */
		answer_as(LOCK_HELD, 71, LEASE_MS, world.hold.session);
	assert_done(HOLD_LOST);
}

static void one_that_stood_still_hears_the_answer_first(void **state)
{
	(void)state;
	take();
	go_to(LEASE_MS + 5);
	assert_asked(LOCK_USE, 71);
	assert_int_equal(world.hold.state, HOLD_HOLDING);
	assert_true(world.hold.last.is_patient);
	go_to(LEASE_MS + 900);
	answer_as(LOCK_HELD, 71, LEASE_MS, world.hold.session);
	assert_int_equal(world.hold.state, HOLD_HOLDING);
	go_to(2 * LEASE_MS + 10); /* again, and the store is away now */
	assert_int_equal(world.hold.state, HOLD_HOLDING);
	answer_as(LOCK_UNKNOWN, 0, 0, "");
	go_to(2 * LEASE_MS + 1009);
	assert_int_equal(world.hold.state, HOLD_HOLDING);
	answer_as(LOCK_UNKNOWN, 0, 0, "");
	go_to(2 * LEASE_MS + 1010);
	assert_done(HOLD_LOST);
	if (world.asked)
		answer_as(LOCK_UNKNOWN, 0, 0, "");
}

/* Another may have it by now: the command does not begin by that. */
static void a_grant_that_is_read_late_is_asked_for_again(void **state)
{
	(void)state;
	begin_wait(UINT64_MAX);
	world.store.loop.now_ms = BEGIN_MS + LEASE_MS;
	answer_as(LOCK_HELD, 71, LEASE_MS, world.hold.session);
	assert_int_equal(world.changes, 0);
	assert_asked(LOCK_TAKE, 0);
	go_to(LEASE_MS + 10);
	answer_as(LOCK_HELD, 71, LEASE_MS, world.hold.session);
	assert_int_equal(world.hold.state, HOLD_HOLDING);
	assert_int_equal(world.changes, 1);
	assert_true(world.hold.until_ns == (BEGIN_MS + 2 * LEASE_MS) * CLOCK_NS_PER_MS);
}

static void the_ask_after_a_late_grant_has_its_own_time(void **state)
{
	(void)state;
	begin_wait(0);
	/* Longer than the lease, and than the first answer may take. */
	world.store.loop.now_ms = BEGIN_MS + 6000;
	answer_as(LOCK_HELD, 71, LEASE_MS, world.hold.session);
	go_to(6000);
	assert_asked(LOCK_TAKE, 0);
	assert_int_equal(world.hold.state, HOLD_TAKING);
	go_to(11000);
	assert_done(HOLD_NOT_HAD);
}

static void a_late_grant_makes_no_wait_shorter(void **state)
{
	(void)state;
	begin_wait(60000);
	world.store.loop.now_ms = BEGIN_MS + 6000;
	answer_as(LOCK_HELD, 71, LEASE_MS, world.hold.session);
	answer_as(LOCK_OVER, 99, 0, "");
	go_to(12000);
	assert_int_not_equal(world.hold.state, HOLD_DONE);
}

static void another_may_have_been_faster_then(void **state)
{
	char first[LOCK_SESSION_BYTES];

	(void)state;
	begin_wait(UINT64_MAX);
	strcpy(first, world.hold.session);
	world.store.loop.now_ms = BEGIN_MS + LEASE_MS;
	answer_as(LOCK_HELD, 71, LEASE_MS, world.hold.session);
	answer_as(LOCK_OVER, 99, 5000, "other");
	assert_int_equal(world.hold.state, HOLD_WAITING);
	assert_string_not_equal(world.hold.session, first);
	assert_int_equal(world.changes, 0);
}

static void another_is_waited_for(void **state)
{
	char first[LOCK_SESSION_BYTES];

	(void)state;
	begin_wait(1000);
	strcpy(first, world.hold.session);
	answer_as(LOCK_OVER, 70, 5000, "other");
	assert_string_not_equal(world.hold.session, first); /* born again */
	strcpy(first, world.hold.session);
	assert_int_equal(world.hold.state, HOLD_WAITING);
	go_to(199);
	assert_null(world.asked);
	go_to(200);
	assert_asked(LOCK_TAKE, 70);
	answer_as(LOCK_BUSY, 70, 10, "other");
	assert_string_equal(world.hold.session, first);
	go_to(211);
	assert_asked(LOCK_TAKE, 70);
	answer_as(LOCK_BUSY, 70, 5000, "other");
	go_to(411);
	answer_as(LOCK_UNKNOWN, 0, 0, "");
	assert_string_equal(world.hold.session, first); /* it may have been granted */
	go_to(1000);
	assert_asked(LOCK_TAKE, 70);
	answer_as(LOCK_BUSY, 70, 5000, "other");
	assert_done(HOLD_NOT_HAD);
	assert_string_equal(world.hold.holder, "other");
}

static void a_store_that_is_never_heard_is_given_up(void **state)
{
	(void)state;
	begin_wait(1000);
	answer_as(LOCK_UNKNOWN, 0, 0, "");
	go_to(1999);
	assert_int_equal(world.hold.state, HOLD_TAKING);
	answer_as(LOCK_UNKNOWN, 0, 0, "");
	go_to(2000);
	assert_done(HOLD_NOT_HAD);
}

/* --wait 0: its time is that of a node's store, and not that of a wait. */
static void a_store_that_hangs_is_given_up_after_twice_its_timeout(void **state)
{
	static const struct {
		uint64_t timeout_ms, gives_up_ms;
	} all[] = {{100, 1000}, {1500, 3000}, {10000, 5000}};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		begin(state);
		world.conf.fleet.store_timeout_ms = all[i].timeout_ms;
		begin_wait(0);
		go_to(all[i].gives_up_ms - 1);
		assert_int_equal(world.hold.state, HOLD_TAKING);
		go_to(all[i].gives_up_ms);
		assert_done(HOLD_NOT_HAD);
		end(state);
	}
}

static void a_store_that_refuses_is_no_wait(void **state)
{
	(void)state;
	begin_wait(UINT64_MAX);
	world.store.is_refused = true;
	answer_as(LOCK_UNKNOWN, 0, 0, "");
	assert_done(HOLD_REFUSED);
}

static void it_is_released_once_the_last_ask_is_answered(void **state)
{
	(void)state;
	take();
	go_to(1000);
	lock_hold_release(&world.hold);
	assert_asked(LOCK_USE, 71);
	answer_as(LOCK_HELD, 71, LEASE_MS, world.hold.session);
	assert_asked(LOCK_RELEASE, 71);
	answer_as(LOCK_FREE, 71, 0, "");
	assert_done(HOLD_RELEASED);
}

static void a_release_that_comes_too_late_is_a_loss(void **state)
{
	(void)state;
	take();
	lock_hold_release(&world.hold);
	answer_as(LOCK_OVER, 99, 0, "");
	assert_done(HOLD_LOST);
}

static void a_release_that_is_not_heard_is_tried_for_a_second(void **state)
{
	(void)state;
	take();
	lock_hold_release(&world.hold);
	answer_as(LOCK_UNKNOWN, 0, 0, "");
	go_to(200);
	assert_asked(LOCK_RELEASE, 71);
	answer_as(LOCK_UNKNOWN, 0, 0, "");
	go_to(1000);
	assert_done(HOLD_UNHEARD);
}

static void what_is_given_up_is_released_when_it_is_granted(void **state)
{
	(void)state;
	begin_wait(UINT64_MAX);
	lock_hold_give_up(&world.hold);
	assert_int_equal(world.hold.state, HOLD_TAKING);
	answer_as(LOCK_HELD, 71, LEASE_MS, world.hold.session);
	assert_asked(LOCK_RELEASE, 71);
	answer_as(LOCK_FREE, 71, 0, "");
	assert_done(HOLD_RELEASED);
}

static void a_wait_is_given_up_at_once(void **state)
{
	(void)state;
	begin_wait(UINT64_MAX);
	answer_as(LOCK_OVER, 70, 5000, "other");
	lock_hold_give_up(&world.hold);
	assert_done(HOLD_NOT_HAD);
}

static void an_ask_under_way_ends_with_it(void **state)
{
	(void)state;
	take();
	go_to(1000);
	lock_hold_end(&world.hold);
	assert_int_equal(world.cancelled, 1);
}

static void begin_join(void)
{
	world.store.link.state = STORE_READY;
	lock_hold_begin(&world.hold, &world.store, "n", LEASE_MS, UINT64_MAX, on_changed);
	lock_hold_join(&world.hold, "mine");
	lock_hold_look(&world.hold);
	assert_asked(LOCK_LOOK, 0);
}

static void a_session_is_joined_by_its_fence_and_not_released(void **state)
{
	(void)state;
	begin_join();
	answer_as(LOCK_UNKNOWN, 0, 0, "");
	go_to(200);
	assert_asked(LOCK_LOOK, 0);
	answer_as(LOCK_LAPSED, 71, 0, "mine");
	assert_asked(LOCK_USE, 71);
	answer_as(LOCK_HELD, 71, LEASE_MS, "mine");
	assert_int_equal(world.hold.state, HOLD_HOLDING);
	assert_true(world.hold.until_ns == (BEGIN_MS + 200 + LEASE_MS) * CLOCK_NS_PER_MS);
	go_to(1200);
	assert_asked(LOCK_USE, 71);
	answer_as(LOCK_HELD, 71, LEASE_MS, "mine");
	lock_hold_release(&world.hold);
	assert_null(world.asked);
	assert_done(HOLD_RELEASED);
}

static void a_session_that_is_over_is_not_joined(void **state)
{
	static const struct {
		enum lock_status status;
		const char *session, *why;
	} cases[] = {{LOCK_BUSY, "other", "session mine does not have it; other has it"},
		{LOCK_FREE, "", "session mine does not have it"}};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		begin_join();
		answer_as(cases[i].status, 72, 5, cases[i].session);
		assert_done(HOLD_NOT_HAD);
		assert_string_equal(world.hold.why, cases[i].why);
		lock_hold_end(&world.hold);
	}
	begin_join(); /* overtaken between the two */
	answer_as(LOCK_BUSY, 71, 5, "mine");
	answer_as(LOCK_OVER, 72, 5, "other");
	assert_done(HOLD_NOT_HAD);
}

static void one_given_up_while_it_joins_is_left(void **state)
{
	(void)state;
	begin_join();
	lock_hold_give_up(&world.hold);
	answer_as(LOCK_BUSY, 71, 5, "mine");
	assert_done(HOLD_NOT_HAD);
	assert_null(world.asked);
}

#define HOLD_TEST(test) cmocka_unit_test_setup_teardown(test, begin, end)

UNIT_SUITE(test_lock_hold)
{
	fake_locks_ask = ask;
	fake_locks_cancel = cancel;
	fake_locks_look_refused = look_refused;
	const struct CMUnitTest tests[] = {
		HOLD_TEST(a_lease_is_renewed_from_before_it_was_asked_for),
		HOLD_TEST(a_session_that_was_overtaken_is_lost),
		HOLD_TEST(without_answers_it_is_asked_until_the_lease_ends),
		HOLD_TEST(one_that_stood_still_hears_the_answer_first),
		HOLD_TEST(a_grant_that_is_read_late_is_asked_for_again),
		HOLD_TEST(the_ask_after_a_late_grant_has_its_own_time),
		HOLD_TEST(a_late_grant_makes_no_wait_shorter),
		HOLD_TEST(another_may_have_been_faster_then),
		HOLD_TEST(another_is_waited_for),
		HOLD_TEST(a_store_that_is_never_heard_is_given_up),
		HOLD_TEST(a_store_that_hangs_is_given_up_after_twice_its_timeout),
		HOLD_TEST(a_store_that_refuses_is_no_wait),
		HOLD_TEST(it_is_released_once_the_last_ask_is_answered),
		HOLD_TEST(a_release_that_comes_too_late_is_a_loss),
		HOLD_TEST(a_release_that_is_not_heard_is_tried_for_a_second),
		HOLD_TEST(what_is_given_up_is_released_when_it_is_granted),
		HOLD_TEST(a_wait_is_given_up_at_once),
		HOLD_TEST(an_ask_under_way_ends_with_it),
		HOLD_TEST(a_session_is_joined_by_its_fence_and_not_released),
		HOLD_TEST(a_session_that_is_over_is_not_joined),
		HOLD_TEST(one_given_up_while_it_joins_is_left),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
