/* What the first worker tells the store of the node's parts of limits, and what it makes of the
 * answers: without a store, a loop and a clock. */
#include "fleet/split.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "store/integers.h"
#include "tests/unit/fleet/call_words.h"
#include "tests/unit/fleet/fake_store.h"
#include "tests/unit/suite.h"

enum { LEASE_MS = 3200, HELD_MS = LEASE_MS - LEASE_MS / 16, BEGIN_MS = 100000, MS = 1000000 };
enum { QUOTA = 100, WINDOW_MS = 2000, FIRST = 3 }; /* FIRST: the number of the first limit */

static struct {
	struct conf_limit limits[3];
	struct shares shares;
	struct splitting splitting;
} world;

/* ---- in the place of the gate ---------------------------------------------------------------- */

uint32_t __real_gate_limit_number(const struct gate *gate, const struct conf_limit *limit);
uint32_t __wrap_gate_limit_number(const struct gate *gate, const struct conf_limit *limit);
uint32_t __wrap_gate_limit_number(const struct gate *gate, const struct conf_limit *limit)
{
	if (!unit_runs("test_split"))
		return __real_gate_limit_number(gate, limit);
	return FIRST + (uint32_t)(limit - world.limits);
}

/* ---- what a test does ------------------------------------------------------------------------ */

static void set_limits(size_t count)
{
	static char names[][8] = {"it", "other", "exact"};

	for (size_t i = 0; i < 3; i++)
		world.limits[i] = (struct conf_limit){.name = names[i],
			.amount = QUOTA,
			.per_ns = (uint64_t)WINDOW_MS * MS,
			.of_fleet = true,
			.fleet_way = i < 2 ? CONF_FLEET_SPLIT : CONF_FLEET_EXACT};
	fake_store.conf.limits = world.limits;
	fake_store.conf.limit_count = count;
}

static int begin(void **state)
{
	(void)state;
	memset(&world, 0, sizeof(world));
	fake_store_begin(BEGIN_MS);
	fake_store.conf.fleet =
		(struct conf_fleet){.membership_lease_ms = LEASE_MS, .store_timeout_ms = 20};
	set_limits(1);
	shares_init(&world.shares);
	splitting_init(&world.splitting, &fake_store.worker, &world.shares, &fake_store.link);
	return 0;
}

static int end(void **state)
{
	(void)state;
	splitting_end(&world.splitting);
	shares_end(&world.shares);
	return 0;
}

static void begin_splitting(void)
{
	splitting_begin(&world.splitting, "f", "me");
}

static struct call_words words(void)
{
	struct call_words words;

	assert_non_null(fake_store.call);
	call_words_read(&words, fake_store.call->command, fake_store.call->len);
	assert_string_equal(words.texts[0], "FCALL");
	assert_string_equal(words.texts[1], "sluice_split_1");
	assert_string_equal(words.texts[3], "f{split}");
	assert_string_equal(words.texts[4], "f{split}:since");
	assert_string_equal(words.texts[5], "me");
	return words;
}

/* Of one limit: what the node says that it holds. */
static void assert_held(unsigned limit, uint64_t units, uint64_t judged, uint64_t since)
{
	struct call_words said = words();
	const uint64_t *of = &said.numbers[4 + 5 * limit];

	assert_int_equal(of[2], units);
	assert_int_equal(of[3], judged);
	assert_int_equal(of[4], since);
}

struct given {
	uint64_t units, judged, since, nodes, more_us;
};

static void answer_all(const struct given *given, unsigned count, uint32_t numbers)
{
	uint8_t bytes[256];
	size_t len = integers_head(bytes, numbers);

	len += integers_put(bytes + len, 1);
	for (unsigned i = 0; i < count; i++) {
		len += integers_put(bytes + len, given[i].units);
		len += integers_put(bytes + len, given[i].judged);
		len += integers_put(bytes + len, given[i].since);
		len += integers_put(bytes + len, given[i].nodes);
		len += integers_put(bytes + len, given[i].more_us);
	}
	fake_store_answer(bytes, len);
}

static void answer(uint64_t units, uint64_t judged, uint64_t more_us)
{
	answer_all(&(struct given){units, judged, 70, 3, more_us}, 1, 6);
}

static void run_timer(void)
{
	fake_store_run_timer(&world.splitting.timer);
}

static uint64_t due_ms(void)
{
	return world.splitting.timer.at_ms;
}

static struct share share(uint32_t limit)
{
	return shares_read(
		&world.shares, FIRST + limit, world.limits[limit].amount, fake_store.now_ns);
}

/* ---- calls and answers ----------------------------------------------------------------------- */

static void a_node_asks_for_its_part(void **state)
{
	(void)state;
	begin_splitting();
	struct call_words said = words();
	assert_int_equal(said.count, 8);
	assert_string_equal(said.texts[7], "it");
	assert_int_equal(said.number_count, 9);
	assert_true(said.numbers[0] < UINT64_C(1) << 53);
	assert_int_equal(said.numbers[1], 1);
	assert_int_equal(said.numbers[2], LEASE_MS * 1000);
	assert_int_equal(said.numbers[3], 200000);
	assert_int_equal(said.numbers[4], QUOTA);
	assert_int_equal(said.numbers[5], WINDOW_MS * 1000);
	assert_held(0, 0, 0, 0);
	assert_int_equal(share(0).kind, SHARE_NONE);
}

static void it_holds_it_from_before_it_asked(void **state)
{
	(void)state;
	begin_splitting();
	fake_store_at(BEGIN_MS + 300);
	answer(33, 0, 0);
	assert_int_equal(share(0).kind, SHARE_UNITS);
	assert_int_equal(share(0).units, 33);
	assert_int_equal(share(0).until_ns, (BEGIN_MS + (uint64_t)HELD_MS) * MS);
	assert_int_equal(due_ms(), BEGIN_MS + 300 + LEASE_MS / 3);
	run_timer();
	assert_held(0, 33, 0, 70);
	assert_int_equal(words().numbers[1], 2);
	fake_store_lose_answer();
	fake_store_at(BEGIN_MS + HELD_MS - 1);
	assert_int_equal(share(0).units, 33);
	fake_store_at(BEGIN_MS + HELD_MS);
	assert_int_equal(share(0).kind, SHARE_NONE);
	run_timer();
	assert_held(0, 0, 0, 70);
}

static void that_it_uses_less_is_said_at_once(void **state)
{
	(void)state;
	begin_splitting();
	answer(50, 0, 0);
	assert_null(fake_store.call); /* more than before */
	run_timer();
	answer(33, 0, 0);
	assert_int_equal(share(0).units, 33);
	assert_held(0, 33, 0, 70);
	answer(33, 0, 0);
	assert_null(fake_store.call);
	run_timer();
	answer(0, 1, 0); /* the store is to judge */
	assert_int_equal(share(0).kind, SHARE_EXACT);
	assert_held(0, 0, 1, 70);
	answer(0, 1, 0);
	assert_null(fake_store.call);
	run_timer();
	answer(0, 0, 0);
	assert_int_equal(share(0).kind, SHARE_UNITS);
	assert_held(0, 0, 0, 70);
}

static void it_asks_again_when_there_may_be_more(void **state)
{
	(void)state;
	begin_splitting();
	answer(10, 0, 500000);
	assert_int_equal(share(0).grows_ns, (BEGIN_MS + 500ull) * MS);
	assert_int_equal(due_ms(), BEGIN_MS + 520);
	run_timer();
	answer(10, 0, 5000000);
	assert_int_equal(due_ms(), BEGIN_MS + 520 + LEASE_MS / 3);
}

static void what_is_no_answer_changes_nothing(void **state)
{
	(void)state;
	set_limits(3);
	begin_splitting();
	assert_int_equal(words().count, 9); /* the third is not split */
	answer_all((const struct given[]){{30, 0, 70, 3, 0}, {40, 0, 71, 3, 0}}, 2, 11);
	assert_int_equal(share(1).units, 40);
	run_timer();
	answer_all((const struct given[]){{QUOTA + 1, 0, 70, 3, 0}, {41, 0, 71, 3, 0}}, 2, 11);
	assert_int_equal(share(0).units, 30);
	assert_int_equal(share(1).units, 41);
	run_timer();
	answer_all((const struct given[]){{35, 0, 70, 3, 0}}, 1, 11);
	assert_int_equal(share(0).units, 35);
	assert_int_equal(share(1).units, 41);
}

static void a_silent_store_is_dropped(void **state)
{
	(void)state;
	begin_splitting();
	assert_int_equal(due_ms(), BEGIN_MS + 1000);
	run_timer();
	assert_int_equal(fake_store.dropped, 1);
	assert_int_equal(fake_store.dropped_ms, BEGIN_MS);
	fake_store.link.state = STORE_WAITING;
	fake_store_lose_answer();
	assert_true(due_ms() == DEADLINE_NEVER);
	fake_store.link.state = STORE_READY;
	fake_store.is_full = true;
	begin_splitting();
	assert_int_equal(due_ms(), BEGIN_MS + 1000 + LEASE_MS / 3);
	fake_store.is_full = false;
	run_timer();
	assert_non_null(fake_store.call);
}

/* Else a store that has forgotten it would keep what nobody holds any more. */
static void what_the_store_remembers_is_said_while_it_may_count(void **state)
{
	(void)state;
	begin_splitting();
	answer(33, 0, 0);
	fake_store.link.state = STORE_WAITING;
	run_timer();
	fake_store.link.state = STORE_READY;
	fake_store_at(BEGIN_MS + LEASE_MS + WINDOW_MS + 199);
	begin_splitting();
	assert_held(0, 0, 0, 70);
	fake_store_lose_answer();
	fake_store_at(BEGIN_MS + LEASE_MS + WINDOW_MS + 200);
	begin_splitting();
	assert_held(0, 0, 0, 0);
}

/* ---- reloads and the end --------------------------------------------------------------------- */

static void a_reload_is_in_the_next_call(void **state)
{
	(void)state;
	begin_splitting();
	answer(50, 0, 0);
	run_timer();
	set_limits(2);
	world.limits[0].amount = 10;
	assert_int_equal(share(0).units, 5); /* at once */
	begin_splitting();
	assert_int_equal(words().count, 8); /* the call before */
	answer(50, 0, 0);
	assert_int_equal(share(0).units, 5);
	assert_int_equal(words().count, 9);
	assert_int_equal(words().numbers[4], 10);
	assert_held(0, 5, 0, 70);
	assert_held(1, 0, 0, 0);
}

static void who_leaves_holds_nothing(void **state)
{
	(void)state;
	begin_splitting();
	answer(50, 0, 0);
	splitting_leave(&world.splitting);
	assert_int_equal(share(0).kind, SHARE_NONE);
	assert_int_equal(words().numbers[2], 0);
	assert_held(0, 0, 0, 70);
	assert_true(due_ms() == DEADLINE_NEVER);
	fake_store_lose_answer();
	begin_splitting();
	splitting_leave(&world.splitting); /* while a call is on its way */
	assert_int_equal(fake_store.sent, 3);
	assert_int_equal(words().numbers[2], LEASE_MS * 1000);
	fake_store_lose_answer();
	fake_store.link.state = STORE_WAITING;
	splitting_leave(&world.splitting);
	assert_int_equal(fake_store.sent, 3);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

UNIT_SUITE(test_split)
{
	const struct CMUnitTest tests[] = {
		TEST(a_node_asks_for_its_part),
		TEST(it_holds_it_from_before_it_asked),
		TEST(that_it_uses_less_is_said_at_once),
		TEST(it_asks_again_when_there_may_be_more),
		TEST(what_is_no_answer_changes_nothing),
		TEST(a_silent_store_is_dropped),
		TEST(what_the_store_remembers_is_said_while_it_may_count),
		TEST(a_reload_is_in_the_next_call),
		TEST(who_leaves_holds_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
