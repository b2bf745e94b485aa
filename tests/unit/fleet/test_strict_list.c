/* What the first worker tells the store's list of nodes, and what it makes of the answers: without
 * a store, a loop and a clock. */
#include "fleet/strict_list.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "store/integers.h"
#include "fleet/ladder.h"
#include "tests/unit/fleet/call_words.h"
#include "tests/unit/fleet/fake_store.h"
#include "tests/unit/suite.h"

enum { LEASE_MS = 3000, KEPT_MS = 16000, BEGIN_MS = 100000, MS = 1000000 };

/* In an answer. */
#define HALF (STRICT_PARTS / 2)

static struct {
	struct ladder ladder;
	struct strict_list list;
} world;

/* ---- what a test does ------------------------------------------------------------------------ */

static void begin_list(void)
{
	strict_list_begin(&world.list, "f", true);
}

static int begin(void **state)
{
	(void)state;
	memset(&world, 0, sizeof(world));
	fake_store_begin(BEGIN_MS);
	fake_store.conf.fleet = (struct conf_fleet){.membership_lease_ms = LEASE_MS,
		.lost_share_ms = KEPT_MS,
		.nodes = 2,
		.store_timeout_ms = 20};
	ladder_init(&world.ladder);
	fake_store.lone = &world.list.leaving;
	strict_list_init(&world.list, &fake_store.worker, &world.ladder, &fake_store.link);
	return 0;
}

static int end(void **state)
{
	(void)state;
	strict_list_end(&world.list);
	ladder_end(&world.ladder);
	return 0;
}

/* The words of a request; the call is a command of six bulk strings. */
struct said {
	uint64_t number, lease_us, kept_us, nodes, held, echo_us, since_us;
};

static struct said read_call(const struct store_call *call)
{
	struct call_words words;
	struct said said;

	assert_non_null(call);
	call_words_read(&words, call->command, call->len);
	assert_int_equal(words.count, 6);
	assert_string_equal(words.texts[0], "FCALL");
	assert_string_equal(words.texts[1], "sluice_strict_1");
	assert_string_equal(words.texts[2], "1");
	assert_string_equal(words.texts[3], "f{strict}");
	assert_int_equal(words.number_count, 7);
	memcpy(&said, words.numbers, sizeof(said));
	return said;
}

static void answer_with(uint64_t now_us, uint64_t since_us, uint64_t divisor, uint64_t lost)
{
	const uint64_t words[] = {now_us, since_us, divisor, lost, 2, 2};
	uint8_t bytes[64];
	size_t len = integers_head(bytes, 6);

	for (unsigned i = 0; i < 6; i++)
		len += integers_put(bytes + len, words[i]);
	fake_store_answer(bytes, len);
}

static void run_timer(void)
{
	fake_store_run_timer(&world.list.timer);
}

static struct strict_view view(void)
{
	return strict_look(&world.ladder.strict);
}

static void owe(uint64_t cost)
{
	const struct debt debt = {
		.caller = {1, 2}, .rule = {.quota = 9, .window_us = 60000000}, .limit = "it"};

	assert_true(debts_add(&world.ladder.debts, &debt, cost, 100, fake_store.now_ns, NULL));
}

static bool pay_all(void *whose, const struct debt *debt, uint64_t cost)
{
	(void)whose;
	(void)debt;
	(void)cost;
	return true;
}

static void pay(void)
{
	debts_pay(&world.ladder.debts, fake_store.now_ns, pay_all, NULL);
	debts_paid(&world.ladder.debts, true, fake_store.now_ns);
}

/* ---- calls and answers ----------------------------------------------------------------------- */

static void a_new_node_says_that_it_holds_nothing(void **state)
{
	(void)state;
	begin_list();
	struct said said = read_call(fake_store.call);
	assert_int_equal(said.number, 1);
	assert_int_equal(said.lease_us, LEASE_MS * 1000);
	assert_int_equal(said.kept_us, KEPT_MS * 1000);
	assert_int_equal(said.nodes, 2);
	assert_int_equal(said.held, 0);
	assert_int_equal(said.echo_us, 0);
	assert_int_equal(said.since_us, 0);
	assert_int_equal(view().asked_ns, 0);
	begin_list(); /* while it is on its way */
	assert_int_equal(fake_store.sent, 1);
}

static void an_answer_is_as_old_as_its_question(void **state)
{
	(void)state;
	begin_list();
	fake_store_at(BEGIN_MS + 300);
	answer_with(7000, 5000, 3, HALF);
	assert_int_equal(view().asked_ns, (uint64_t)BEGIN_MS * MS);
	assert_int_equal(view().answered_ns, (BEGIN_MS + 300ull) * MS);
	assert_int_equal(view().divisor, 3);
	assert_int_equal(view().lost, HALF);
	assert_int_equal(view().ahead_ns, 0);
	/* three calls in a lease, from the question on */
	assert_int_equal(world.list.timer.at_ms, BEGIN_MS + LEASE_MS / 3);
	run_timer();
	struct said said = read_call(fake_store.call);
	assert_int_equal(said.number, 2);
	assert_int_equal(said.held, 3);
	assert_int_equal(said.echo_us, 7000);
	assert_int_equal(said.since_us, 5000);
	fake_store_at(BEGIN_MS + LEASE_MS / 3 + 990);
	answer_with(8000, 5000, 3, 0);
	assert_int_equal(world.list.timer.at_ms, BEGIN_MS + LEASE_MS / 3 + 990 + 20);
}

static void what_is_no_answer_changes_nothing(void **state)
{
	(void)state;
	begin_list();
	answer_with(7000, 5000, 3, STRICT_PARTS + 1);
	assert_int_equal(view().asked_ns, 0);
	run_timer();
	answer_with(7000, 5000, 3, STRICT_PARTS);
	assert_int_equal(view().lost, STRICT_PARTS);
	run_timer();
	uint8_t cut[8];
	size_t len = integers_head(cut, 6) + 1;
	cut[len - 1] = 1;
	fake_store_answer(cut, len);
	assert_int_equal(view().divisor, 3);
	assert_int_equal(view().asked_ns, (BEGIN_MS + 1000ull) * MS);
}

static void a_call_that_is_lost_is_made_again(void **state)
{
	(void)state;
	begin_list();
	assert_int_equal(world.list.timer.at_ms, BEGIN_MS + 1000); /* its time */
	run_timer();
	assert_int_equal(fake_store.dropped, 1);
	assert_int_equal(fake_store.dropped_ms, BEGIN_MS);
	fake_store_lose_answer();
	assert_int_equal(world.list.timer.at_ms, BEGIN_MS + 1000 + LEASE_MS / 3);
	fake_store.is_full = true;
	run_timer();
	assert_null(fake_store.call);
	fake_store.is_full = false;
	run_timer();
	assert_int_equal(read_call(fake_store.call).number, 3);
	/* and nothing while the store is away */
	fake_store.link.state = STORE_WAITING;
	fake_store_lose_answer();
	assert_true(world.list.timer.at_ms == DEADLINE_NEVER);
	fake_store.conf.fleet.store_timeout_ms = 700;
	fake_store.link.state = STORE_READY;
	begin_list();
	assert_int_equal(world.list.timer.at_ms, fake_store.now_ns / MS + 1400);
}

/* ---- live nodes ----------------------------------------------------------------------------- */

static void who_owes_something_is_not_live(void **state)
{
	(void)state;
	owe(1);
	begin_list();
	answer_with(7000, 5000, 3, 0);
	run_timer();
	assert_int_equal(read_call(fake_store.call).echo_us, 0);
	pay();
	answer_with(8000, 5000, 3, 0);
	run_timer();
	assert_int_equal(read_call(fake_store.call).echo_us, 8000);
}

/* A worker that had looked at the share just before the answer admits by it just after it. */
static void who_owes_again_does_not_become_live(void **state)
{
	(void)state;
	begin_list();
	answer_with(7000, 5000, 3, 0);
	owe(1);
	run_timer();
	assert_int_equal(read_call(fake_store.call).echo_us, 0);
	answer_with(8000, 5000, 3, 0);
	pay();
	run_timer();
	assert_int_equal(read_call(fake_store.call).echo_us, 7000);
	answer_with(9000, 5000, 3, 0);
	run_timer();
	assert_int_equal(read_call(fake_store.call).echo_us, 9000);
}

static void a_list_that_began_again_has_heard_nothing(void **state)
{
	(void)state;
	begin_list();
	answer_with(7000, 5000, 3, 0);
	run_timer();
	assert_int_equal(read_call(fake_store.call).since_us, 5000);
	owe(1);
	answer_with(9000, 8500, 3, 0);
	run_timer();
	assert_int_equal(read_call(fake_store.call).since_us, 8500);
	assert_int_equal(read_call(fake_store.call).echo_us, 0);
	answer_with(9100, 8600, 3, 0);
	pay(); /* what it echoes was said by the list before */
	run_timer();
	assert_int_equal(read_call(fake_store.call).since_us, 8600);
	assert_int_equal(read_call(fake_store.call).echo_us, 0);
	answer_with(9500, 8600, 3, 0);
	run_timer();
	assert_int_equal(read_call(fake_store.call).echo_us, 9500);
}

static void a_share_is_not_held_for_ever(void **state)
{
	(void)state;
	begin_list();
	answer_with(7000, 5000, 3, 0);
	fake_store.link.state = STORE_WAITING;
	run_timer();
	fake_store_at(BEGIN_MS + KEPT_MS - KEPT_MS / 16 - 1);
	fake_store.link.state = STORE_READY;
	begin_list();
	assert_int_equal(read_call(fake_store.call).held, 3);
	fake_store_lose_answer();
	fake_store_at(BEGIN_MS + KEPT_MS - KEPT_MS / 16);
	begin_list();
	assert_int_equal(read_call(fake_store.call).held, 0);
}

/* ---- leaving --------------------------------------------------------------------------------- */

static void who_leaves_has_no_share_and_is_a_new_node(void **state)
{
	(void)state;
	strict_list_leave(&world.list); /* it was not there */
	assert_int_equal(fake_store.sent, 0);
	begin_list();
	uint64_t process = world.list.process;
	answer_with(7000, 5000, 3, 0);
	strict_list_begin(&world.list, "f", false);
	assert_int_equal(read_call(fake_store.lone).lease_us, 0);
	assert_int_equal(read_call(fake_store.lone).number, 2);
	assert_int_equal(view().divisor, 0);
	assert_int_equal(view().asked_ns, (uint64_t)BEGIN_MS * MS); /* of the others it knows */
	assert_true(world.list.process != process);
	assert_true(world.list.timer.at_ms == DEADLINE_NEVER);
	strict_list_begin(&world.list, "f", false);
	assert_int_equal(fake_store.sent, 2);
	begin_list();
	assert_int_equal(view().asked_ns, 0);
	struct said said = read_call(fake_store.call);
	assert_int_equal(said.number, 1);
	assert_int_equal(said.since_us, 0);
	assert_int_equal(said.echo_us, 0);
	assert_int_equal(said.held, 0);
}

static void who_owes_something_leaves_without_a_word(void **state)
{
	(void)state;
	begin_list();
	answer_with(7000, 5000, 3, 0);
	owe(1);
	strict_list_leave(&world.list);
	assert_false(fake_store.lone_left);
	assert_int_equal(view().divisor, 0);
	pay();
	begin_list();
	answer_with(7000, 5000, 3, 0);
	fake_store.link.state = STORE_WAITING;
	strict_list_leave(&world.list);
	assert_false(fake_store.lone_left);
	assert_int_equal(view().divisor, 0);
}

static void an_answer_to_who_has_left_is_ignored(void **state)
{
	(void)state;
	begin_list();
	strict_list_leave(&world.list);
	answer_with(7000, 5000, 3, 0);
	assert_int_equal(view().divisor, 0);
	assert_int_equal(view().asked_ns, 0);
	/* while its last call is on its way, a new node waits */
	begin_list();
	strict_list_leave(&world.list);
	struct store_call *call = fake_store.call;
	begin_list();
	assert_ptr_equal(fake_store.call, call);
	answer_with(8000, 5000, 4, 0);
	assert_int_equal(view().divisor, 0);
	run_timer();
	assert_int_equal(read_call(fake_store.call).number, 1);
	answer_with(9000, 5000, 4, 0);
	assert_int_equal(view().divisor, 4);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

UNIT_SUITE(test_strict_list)
{
	const struct CMUnitTest tests[] = {
		TEST(a_new_node_says_that_it_holds_nothing),
		TEST(an_answer_is_as_old_as_its_question),
		TEST(what_is_no_answer_changes_nothing),
		TEST(a_call_that_is_lost_is_made_again),
		TEST(who_owes_something_is_not_live),
		TEST(who_owes_again_does_not_become_live),
		TEST(a_list_that_began_again_has_heard_nothing),
		TEST(a_share_is_not_held_for_ever),
		TEST(who_leaves_has_no_share_and_is_a_new_node),
		TEST(who_owes_something_leaves_without_a_word),
		TEST(an_answer_to_who_has_left_is_ignored),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
