/* Sentinels are asked one after the other where the primary is, and one of them is heard. */
#include "store/sentinel.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/container.h"
#include "tests/unit/store/fake_redis.h"
#include "tests/unit/suite.h"

struct world {
	struct loop loop;
	struct sentinel sentinel;
	unsigned found, failed;
};

static struct world world;

static char name_of[] = "it", user[] = "u", password[] = "p", a[] = "a", b[] = "b", c[] = "c";
static struct store_host hosts[] = {{a, 1}, {b, 2}, {c, 3}};
static const struct store_where where = {.hosts = hosts,
	.host_count = 3,
	.sentinel = name_of,
	.sentinel_user = user,
	.sentinel_password = password};

static void on_found(struct sentinel *sentinel)
{
	assert_ptr_equal(sentinel, &world.sentinel);
	world.found++;
}

static void on_failed(struct sentinel *sentinel)
{
	assert_ptr_equal(sentinel, &world.sentinel);
	world.failed++;
}

static int begin(void **state)
{
	(void)state;
	fake_begin();
	memset(&world, 0, sizeof(world));
	assert_int_equal(loop_init(&world.loop), 0);
	world.loop.now_known = true;
	world.loop.now_ms = 5000;
	sentinel_init(&world.sentinel, &world.loop, NULL, on_found, on_failed);
	sentinel_ask(&world.sentinel, &where);
	return 0;
}

static int end(void **state)
{
	(void)state;
	sentinel_end(&world.sentinel);
	assert_false(fake.peer->is_open);
	assert_int_equal(fake.ended, 1);
	assert_false(world.sentinel.is_asking);
	assert_true(world.sentinel.timer.at_ms == DEADLINE_NEVER);
	assert_true(world.sentinel.timer.armed_ms == DEADLINE_NEVER);
	loop_end(&world.loop);
	return 0;
}

static void drop(void)
{
	redis_peer_drop(&world.sentinel.peer, "lost");
}

static void answer_place(const char *host, const char *port)
{
	fake_answer(reply_array(2, reply_text(host), reply_text(port)));
}

/* One is heard: it has said that the primary is at p:6379. */
static void hear(void)
{
	fake_connect();
	answer_place("p", "6379");
	assert_int_equal(world.found, 1);
}

static void pass_time(void)
{
	assert_int_equal(world.sentinel.timer.at_ms, 6000);
	world.sentinel.timer.at_ms = DEADLINE_NEVER;
	world.sentinel.timer.passed(&world.sentinel.timer);
}

/* ---- asking ---------------------------------------------------------------------------------- */

static void the_first_that_knows_is_heard(void **state)
{
	(void)state;
	assert_string_equal(fake.peer->host, "a");
	assert_int_equal(fake.peer->port, 1);
	assert_string_equal(fake.peer->user, "u");
	assert_string_equal(fake.peer->password, "p");
	fake_connect();
	assert_string_equal(fake_waiting(0), "SENTINEL get-master-addr-by-name it");
	assert_string_equal(fake_waiting(1), "SUBSCRIBE +switch-master");
	assert_int_equal(fake.entered, 0);
	answer_place("10.0.0.7", "6380");
	assert_int_equal(world.found, 1);
	assert_int_equal(fake.entered, 1);
	assert_int_equal(fake.opened, 1);
	assert_true(fake.peer->is_open);
	assert_string_equal(world.sentinel.host, "10.0.0.7");
	assert_int_equal(world.sentinel.port, 6380);
}

static void one_after_the_other(void **state)
{
	(void)state;
	drop();
	assert_string_equal(fake.peer->host, "b");
	assert_int_equal(fake.peer->port, 2);
	assert_int_equal(world.failed, 0);
	drop();
	assert_string_equal(fake.peer->host, "c");
	assert_int_equal(fake.opened, 3);
	hear();
	assert_int_equal(world.failed, 0);
	assert_true(world.sentinel.timer.at_ms == DEADLINE_NEVER);
}

static void when_none_knows_all_are_asked_again_after_a_second(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++)
		drop();
	assert_int_equal(fake.opened, 3);
	assert_int_equal(world.failed, 1);
	assert_false(world.sentinel.is_asking);
	pass_time();
	assert_int_equal(fake.opened, 4);
	assert_string_equal(fake.peer->host, "a");
	for (int i = 0; i < 2; i++)
		drop();
	assert_int_equal(world.failed, 1);
	assert_int_equal(fake.opened, 6);
	drop();
	assert_int_equal(world.failed, 2);
}

static void what_is_no_place_is_refused(void **state)
{
	char longest[REDIS_HOST_BYTES], too_long[REDIS_HOST_BYTES + 1];

	(void)state;
	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	memset(too_long, 'x', sizeof(too_long) - 1);
	too_long[sizeof(too_long) - 1] = '\0';
	redisReply *wrong[] = {
		reply_nil(),
		reply_number(1),
		reply_text("p"),
		reply_array(1, reply_text("p")),
		reply_array(3, reply_text("p"), reply_text("1"), reply_text("1")),
		reply_array(2, reply_text("p"), reply_number(1)),
		reply_array(2, reply_number(1), reply_text("1")),
		reply_array(2, reply_text(""), reply_text("1")),
		reply_array(2, reply_text("p"), reply_text("")),
		reply_array(2, reply_text("p"), reply_text("x")),
		reply_array(2, reply_text("p"), reply_text("0")),
		reply_array(2, reply_text("p"), reply_text("65536")),
		reply_array(2, reply_text(too_long), reply_text("1")),
	};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		unsigned opened = fake.opened;
		sentinel_ask(&world.sentinel, &where);
		fake_connect();
		fake_answer(wrong[i]);
		assert_int_equal(fake.opened, opened + 2);
		assert_int_equal(fake.entered, 0);
	}
	assert_int_equal(world.found, 0);
	fake_connect();
	answer_place(longest, "65535");
	assert_int_equal(world.found, 1);
	assert_string_equal(world.sentinel.host, longest);
	assert_int_equal(world.sentinel.port, 65535);
}

static void why_it_failed_is_of_the_last(void **state)
{
	(void)state;
	drop();
	drop();
	fake_connect();
	fake_answer(reply_nil());
	assert_int_equal(world.failed, 1);
	assert_string_equal(
		world.sentinel.peer.why, "Sentinel c:3: it knows no primary of the name");
	pass_time();
	drop();
	drop();
	fake_connect();
	fake_answer(reply_error("NOPERM no"));
	assert_string_equal(world.sentinel.peer.why, "Sentinel c:3: NOPERM no");
}

/* ---- hearing --------------------------------------------------------------------------------- */

static void report(const char *text)
{
	fake_report(reply_array(
		3, reply_text("message"), reply_text("+switch-master"), reply_text(text)));
}

static void another_primary_is_reported(void **state)
{
	(void)state;
	hear();
	report("it p 6379 a.longer.one 6380");
	assert_int_equal(world.found, 2);
	assert_string_equal(world.sentinel.host, "a.longer.one");
	assert_int_equal(world.sentinel.port, 6380);
	report("it a.longer.one 6380 q 6381");
	assert_string_equal(world.sentinel.host, "q");
}

static void what_is_no_report_of_it_is_ignored(void **state)
{
	(void)state;
	hear();
	report("it2 p 6379 q 6380");
	report("i p 6379 q 6380");
	report("other p 6379 q 6380");
	report("it p 6379 q");
	report("it p 6379");
	report("it");
	report("it p 6379 q x");
	report("it p 6379  6380");
	fake_report(reply_array(3, reply_text("subscribe"), reply_text("+switch-master"),
		reply_text("it p 6379 q 6380")));
	fake_report(reply_array(3, reply_number(1), reply_text("x"), reply_text("it p 1 q 1")));
	fake_report(reply_array(3, reply_text("message"), reply_text("x"), reply_number(1)));
	fake_report(reply_array(2, reply_text("message"), reply_text("it p 6379 q 6380")));
	fake_report(reply_error("message"));
	fake_report(NULL);
	assert_int_equal(world.found, 1);
	assert_string_equal(world.sentinel.host, "p");
	assert_true(fake.peer->is_open);
}

static void one_that_is_lost_is_no_failure(void **state)
{
	(void)state;
	hear();
	drop();
	assert_int_equal(world.failed, 0);
	assert_int_equal(fake.opened, 1);
	pass_time();
	assert_int_equal(fake.opened, 2);
	assert_string_equal(fake.peer->host, "b");
	assert_true(world.sentinel.is_asking);
	assert_int_equal(world.sentinel.left, 2);
}

static void a_closed_one_asks_nobody(void **state)
{
	(void)state;
	fake_connect();
	sentinel_close(&world.sentinel);
	assert_false(fake.peer->is_open);
	assert_false(world.sentinel.is_asking);
	assert_int_equal(world.found + world.failed, 0);
	sentinel_ask(&world.sentinel, &where);
	for (int i = 0; i < 3; i++)
		drop();
	sentinel_close(&world.sentinel);
	assert_true(world.sentinel.timer.at_ms == DEADLINE_NEVER);
	sentinel_ask(&world.sentinel, &where);
	sentinel_ask(&world.sentinel, &where);
	assert_true(fake.peer->is_open);
}

UNIT_SUITE(test_sentinel)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(the_first_that_knows_is_heard, begin, end),
		cmocka_unit_test_setup_teardown(one_after_the_other, begin, end),
		cmocka_unit_test_setup_teardown(
			when_none_knows_all_are_asked_again_after_a_second, begin, end),
		cmocka_unit_test_setup_teardown(what_is_no_place_is_refused, begin, end),
		cmocka_unit_test_setup_teardown(why_it_failed_is_of_the_last, begin, end),
		cmocka_unit_test_setup_teardown(another_primary_is_reported, begin, end),
		cmocka_unit_test_setup_teardown(what_is_no_report_of_it_is_ignored, begin, end),
		cmocka_unit_test_setup_teardown(one_that_is_lost_is_no_failure, begin, end),
		cmocka_unit_test_setup_teardown(a_closed_one_asks_nobody, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
