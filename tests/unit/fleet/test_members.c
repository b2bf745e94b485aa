/* A node's membership: what it tells the store, when, and what other threads see of the answers. */
#include "fleet/members.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/unit/fleet/call_words.h"
#include "tests/unit/fleet/fake_store.h"
#include "tests/unit/suite.h"

enum { LEASE_MS = 3000, BEGIN_MS = 100000 };

static struct {
	struct members members;
	struct joining joining;
	unsigned before, answered, lost; /* calls */
	bool has_more;                   /* to do before a call */
} world;

static bool on_before(struct joining *joining, bool may_wait)
{
	assert_ptr_equal(joining, &world.joining);
	assert_null(fake_store.call); /* what is owed leaves first */
	world.before++;
	return !world.has_more || !may_wait;
}

static void on_after(struct joining *joining, bool is_answered)
{
	assert_ptr_equal(joining, &world.joining);
	world.answered += is_answered;
	world.lost += !is_answered;
}

static int begin(void **state)
{
	(void)state;
	memset(&world, 0, sizeof(world));
	fake_store_begin(BEGIN_MS);
	members_init(&world.members);
	joining_init(&world.joining, &world.members, &fake_store.worker.loop, &fake_store.link);
	world.joining.before = on_before;
	world.joining.after = on_after;
	return 0;
}

static int end(void **state)
{
	(void)state;
	joining_end(&world.joining);
	members_end(&world.members);
	return 0;
}

static void join_as(const char *name)
{
	joining_begin(&world.joining, "f", name, LEASE_MS);
}

static void answer(const char *lines)
{
	fake_store_answer(lines, strlen(lines));
}

static void says(const char *name, const char *lease)
{
	struct call_words words;

	assert_non_null(fake_store.call);
	call_words_read(&words, fake_store.call->command, fake_store.call->len);
	assert_int_equal(words.count, 8);
	assert_string_equal(words.texts[1], "sluice_join_1");
	assert_string_equal(words.texts[3], "f{nodes}");
	assert_int_equal(strncmp(words.texts[4], "f{nodes}:", 9), 0);
	assert_string_equal(words.texts[4] + 9, name);
	assert_string_equal(words.texts[5], name);
	assert_string_equal(words.texts[6], lease);
	assert_true(strtoull(words.texts[7], NULL, 10) == world.members.process);
	assert_true(fake_store.call->is_lone);
	assert_int_equal(fake_store.call->slot, slot_of_key("f{nodes}", 8));
}

static void a_lease_is_renewed_three_times_in_its_length(void **state)
{
	(void)state;
	join_as("me");
	says("me", "3000");
	for (unsigned n = 1; n <= 3; n++) {
		answer("me 3000");
		assert_int_equal(world.joining.timer.at_ms, BEGIN_MS + n * LEASE_MS / 3);
		fake_store_run_timer(&world.joining.timer);
		says("me", "3000");
		assert_int_equal(world.joining.asked_ms, BEGIN_MS + n * LEASE_MS / 3);
	}
	assert_int_equal(world.before, 4);
	assert_int_equal(world.answered, 3);
}

static void what_the_store_says_is_seen_by_all(void **state)
{
	(void)state;
	assert_null(world.members.lines);
	join_as("me");
	assert_string_equal(world.members.name, "");
	answer("me 3000\nother 2000\nthird 10");
	assert_int_equal(atomic_load(&world.members.count), 3);
	assert_string_equal(world.members.lines, "me 3000\nother 2000\nthird 10");
	assert_string_equal(world.members.name, "me");
	fake_store_run_timer(&world.joining.timer);
	answer("");
	assert_int_equal(atomic_load(&world.members.count), 0);
	assert_string_equal(world.members.lines, "");
}

static void a_lost_answer_leaves_what_was_known(void **state)
{
	(void)state;
	join_as("me");
	answer("me 3000\nother 2000");
	fake_store_run_timer(&world.joining.timer);
	fake_store_lose_answer();
	assert_int_equal(world.lost, 1);
	assert_int_equal(atomic_load(&world.members.count), 2);
	assert_string_equal(world.members.lines, "me 3000\nother 2000");
	fake_store_run_timer(&world.joining.timer);
	says("me", "3000");
}

static void one_call_at_a_time(void **state)
{
	(void)state;
	join_as("me");
	fake_store_run_timer(&world.joining.timer); /* its answer is late */
	assert_int_equal(fake_store.sent, 1);
	assert_int_equal(world.before, 1);
	answer("me 3000");
	fake_store_run_timer(&world.joining.timer);
	assert_int_equal(fake_store.sent, 2);
}

static void a_call_that_cannot_be_sent_is_lost(void **state)
{
	(void)state;
	fake_store.is_full = true;
	join_as("me");
	assert_int_equal(world.before, 1);
	assert_int_equal(world.lost, 1);
	fake_store.is_full = false;
	fake_store_run_timer(&world.joining.timer);
	says("me", "3000");
}

static void without_the_store_nothing_is_renewed_until_it_joins_again(void **state)
{
	(void)state;
	join_as("me");
	answer("me 3000");
	fake_store.link.state = STORE_WAITING;
	fake_store_run_timer(&world.joining.timer);
	assert_int_equal(fake_store.sent, 1);
	assert_true(world.joining.timer.at_ms == DEADLINE_NEVER);
	fake_store.link.state = STORE_READY;
	join_as("me");
	says("me", "3000");
}

static void who_leaves_ends_its_lease(void **state)
{
	(void)state;
	joining_leave(&world.joining); /* it was not there */
	assert_int_equal(fake_store.sent, 0);
	join_as("me");
	answer("me 3000");
	joining_leave(&world.joining);
	says("me", "0");
	assert_true(world.joining.timer.at_ms == DEADLINE_NEVER);
	answer("");
	fake_store.link.state = STORE_WAITING;
	joining_leave(&world.joining);
	assert_int_equal(fake_store.sent, 2);
}

static void what_comes_before_may_take_turns(void **state)
{
	(void)state;
	world.has_more = true;
	join_as("me");
	assert_int_equal(fake_store.sent, 0);
	fake_store_run_timer(&world.joining.timer); /* still at it */
	join_as("other");
	assert_int_equal(world.before, 1);
	fake_store_at(BEGIN_MS + 1700);
	joining_go_on(&world.joining);
	says("other", "3000"); /* a reload has given it another name meanwhile */
	assert_int_equal(world.joining.asked_ms, BEGIN_MS + 1700);
	answer("other 3000");
	fake_store_run_timer(&world.joining.timer);
	fake_store.is_full = true; /* the store is lost meanwhile */
	joining_go_on(&world.joining);
	assert_int_equal(world.lost, 1);
	assert_false(world.joining.is_preparing);
	fake_store.is_full = false;
	fake_store_run_timer(&world.joining.timer);
	assert_true(world.joining.is_preparing);
	joining_leave(&world.joining); /* does not wait */
	says("other", "0");
}

static void a_name_of_its_own_differs_between_processes(void **state)
{
	struct members other;

	(void)state;
	members_init(&other);
	assert_string_not_equal(other.default_name, world.members.default_name);
	members_end(&other);
	join_as(NULL);
	says(world.members.default_name, "3000");
	answer("");
	assert_string_equal(world.members.name, world.members.default_name);
	for (const char *c = world.members.default_name; *c; c++)
		assert_true(*c > ' ' && *c < '\x7f');
}

/* The longest that `check` permits still fits into the command; a longer one asks nothing. */
static void long_words_fit(void **state)
{
	char name[MEMBERS_NAME_BYTES], prefix[130];
	struct call_words words;

	(void)state;
	memset(name, 'n', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	memset(prefix, 'p', sizeof(prefix));
	prefix[129] = '\0';
	joining_begin(&world.joining, prefix, name, LEASE_MS);
	assert_int_equal(fake_store.sent, 0);
	prefix[128] = '\0';
	joining_begin(&world.joining, prefix, name, UINT32_MAX);
	assert_true(fake_store.call->len < sizeof(world.joining.command));
	call_words_read(&words, fake_store.call->command, fake_store.call->len);
	assert_string_equal(words.texts[6], "4294967295");
}

static void epochs_are_those_of_one_store(void **state)
{
	struct members *members = &world.members;
	uint64_t one = members_store_id("redis://a", "f"), two = members_store_id("redis://a", "g");

	(void)state;
	assert_true(one != two);
	assert_true(members_store_id("redis://a", "bf") != members_store_id("redis://ab", "f"));
	assert_int_equal(members_epoch(members, one, 0), 0);
	members_learn_epoch(members, one, 0, 10);
	members_learn_epoch(members, one, SLOT_PARTS, 11);
	assert_int_equal(members_epoch(members, one, 0), 10);
	assert_int_equal(members_epoch(members, one, SLOT_PARTS), 11);
	assert_int_equal(members_epoch(members, two, 0), 0);
	members_learn_epoch(members, two, 0, 20);
	assert_int_equal(members_epoch(members, two, 0), 20);
	assert_int_equal(members_epoch(members, two, SLOT_PARTS), 0); /* the other store's */
	assert_int_equal(members_epoch(members, one, 0), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

UNIT_SUITE(test_members)
{
	const struct CMUnitTest tests[] = {
		TEST(a_lease_is_renewed_three_times_in_its_length),
		TEST(what_the_store_says_is_seen_by_all),
		TEST(a_lost_answer_leaves_what_was_known),
		TEST(one_call_at_a_time),
		TEST(a_call_that_cannot_be_sent_is_lost),
		TEST(without_the_store_nothing_is_renewed_until_it_joins_again),
		TEST(who_leaves_ends_its_lease),
		TEST(what_comes_before_may_take_turns),
		TEST(a_name_of_its_own_differs_between_processes),
		TEST(long_words_fit),
		TEST(epochs_are_those_of_one_store),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
