/* Nodes of a Redis Cluster are asked one after the other which slots they have: without
 * connections. */
#include "store/scout.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/unit/store/fake_redis.h"
#include "tests/unit/suite.h"

static struct {
	struct loop loop;
	struct scout scout;
	unsigned found, failed;
} world;

static char user[] = "u", password[] = "p", a[] = "a", b[] = "b";
static struct store_host hosts[] = {{a, 1}, {b, 2}};
static const struct store_where where = {
	.hosts = hosts, .host_count = 2, .user = user, .password = password, .is_cluster = true};

static void on_found(struct scout *scout)
{
	assert_ptr_equal(scout, &world.scout);
	assert_false(scout->is_asking);
	assert_false(scout->peer.is_open); /* nothing stays connected */
	world.found++;
}

static void on_failed(struct scout *scout)
{
	assert_ptr_equal(scout, &world.scout);
	assert_false(scout->is_asking);
	world.failed++;
}

static int begin(void **state)
{
	(void)state;
	fake_begin();
	memset(&world, 0, sizeof(world));
	scout_init(&world.scout, &world.loop, NULL, 0, on_found, on_failed);
	return 0;
}

static int end(void **state)
{
	(void)state;
	scout_end(&world.scout);
	assert_int_equal(fake.ended, 1);
	assert_int_equal(world.scout.map.count, 0);
	return 0;
}

static void ask(void)
{
	scout_ask(&world.scout, &where);
}

static void asks(const char *host, uint16_t port)
{
	assert_true(world.scout.is_asking);
	assert_true(world.scout.peer.is_open);
	assert_string_equal(world.scout.peer.host, host);
	assert_int_equal(world.scout.peer.port, port);
	assert_string_equal(world.scout.peer.user, user);
	assert_string_equal(world.scout.peer.password, password);
}

static void lose(void)
{
	redis_peer_drop(&world.scout.peer, "refused");
}

static redisReply *info(unsigned epoch)
{
	char text[64];

	snprintf(text, sizeof(text), "cluster_state:ok\r\ncluster_current_epoch:%u\r\n", epoch);
	return reply_text(text);
}

static redisReply *slots_of(const char *host, long long port)
{
	return reply_array(1, reply_array(3, reply_number(0), reply_number(SLOTS - 1),
				      reply_array(2, reply_text(host), reply_number(port))));
}

/* The node that is asked now knows this epoch, and one primary of all slots. */
static void answer(unsigned epoch, const char *host, long long port)
{
	fake_connect();
	assert_string_equal(fake_waiting(0), "CLUSTER INFO");
	assert_string_equal(fake_waiting(1), "CLUSTER SLOTS");
	fake_answer(info(epoch));
	if (world.scout.peer.redis)
		fake_answer(slots_of(host, port));
}

static void the_first_that_knows_is_believed(void **state)
{
	(void)state;
	ask();
	asks("a", 1);
	ask(); /* ignored while it asks */
	assert_int_equal(fake.opened, 1);
	answer(3, "p", 7000);
	assert_int_equal(world.found, 1);
	assert_int_equal(world.scout.map.count, 1);
	assert_string_equal(world.scout.map.nodes[0].host, "p");
	assert_int_equal(world.scout.map.owners[0], 1);
	assert_int_equal(world.scout.map.owners[SLOTS - 1], 1);
}

static void each_is_asked_once_before_it_is_a_failure(void **state)
{
	(void)state;
	ask();
	lose();
	asks("b", 2);
	assert_int_equal(world.failed, 0);
	lose();
	assert_int_equal(world.failed, 1);
	assert_string_equal(world.scout.peer.why, "refused");
	assert_int_equal(fake.opened, 2);
	ask();
	asks("a", 1);
}

static void nodes_that_were_heard_of_are_asked_too(void **state)
{
	(void)state;
	ask();
	answer(3, "p", 7000);
	ask();
	asks("b", 2);
	lose();
	asks("p", 7000);
	lose();
	asks("a", 1);
	lose();
	assert_int_equal(world.failed, 1);
	assert_int_equal(world.scout.map.count, 1); /* what was known stays */
}

static void a_node_that_cannot_say_it_is_named(void **state)
{
	redisReply *const wrong[] = {reply_array(0), reply_nil(), reply_text("no"),
		reply_array(1, reply_array(3, reply_number(5), reply_number(SLOTS),
				       reply_array(2, reply_text("p"), reply_number(1))))};

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		ask();
		world.scout.left = 0; /* it is the only one */
		fake_connect();
		fake_answer(info(3));
		fake_answer(wrong[i]);
		assert_int_equal(world.failed, i + 1);
		assert_string_equal(world.scout.peer.why,
			i % 2 == 0 ? "a:1: it knows no slots" : "b:2: it knows no slots");
	}
	assert_int_equal(world.found, 0);
}

static void an_error_is_repeated(void **state)
{
	(void)state;
	ask();
	fake_connect();
	fake_answer(reply_error("ERR This instance has cluster support disabled"));
	fake_answer(reply_error("ERR This instance has cluster support disabled"));
	asks("b", 2);
	fake_connect();
	fake_answer(reply_error("NOAUTH Authentication required."));
	fake_answer(reply_error("NOAUTH Authentication required."));
	assert_int_equal(world.failed, 1);
	assert_string_equal(world.scout.peer.why, "b:2: NOAUTH Authentication required.");
}

static void who_has_missed_a_failover_is_not_believed(void **state)
{
	(void)state;
	ask();
	answer(5, "p", 7000);
	ask();
	answer(4, "old", 7001); /* b */
	assert_int_equal(world.found, 1);
	asks("p", 7000);
	answer(6, "new", 7002);
	assert_int_equal(world.found, 2);
	assert_string_equal(world.scout.map.nodes[0].host, "new");
	assert_false(scout_knows(&world.scout, 5));
	assert_true(scout_knows(&world.scout, 6));
}

/* A cluster that was made again begins at its first epoch. */
static void when_all_know_an_older_epoch_it_is_believed_the_next_time(void **state)
{
	(void)state;
	assert_true(scout_knows(&world.scout, 9));
	ask();
	answer(1, "p", 7000);
	answer(1, "p", 7000);
	assert_int_equal(world.failed, 1);
	assert_string_equal(world.scout.peer.why, "b:2: it has missed a failover");
	ask();
	answer(1, "p", 7000);
	assert_int_equal(world.found, 1);
}

static void one_that_is_closed_reports_nothing(void **state)
{
	(void)state;
	ask();
	fake_connect();
	scout_close(&world.scout);
	assert_int_equal(world.found + world.failed, 0);
	assert_false(world.scout.is_asking);
	ask();
	asks("b", 2);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

UNIT_SUITE(test_scout)
{
	const struct CMUnitTest tests[] = {
		TEST(the_first_that_knows_is_believed),
		TEST(each_is_asked_once_before_it_is_a_failure),
		TEST(nodes_that_were_heard_of_are_asked_too),
		TEST(a_node_that_cannot_say_it_is_named),
		TEST(an_error_is_repeated),
		TEST(who_has_missed_a_failover_is_not_believed),
		TEST(when_all_know_an_older_epoch_it_is_believed_the_next_time),
		TEST(one_that_is_closed_reports_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
