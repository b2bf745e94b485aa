/* The slot map that the nodes of a Redis Cluster report, and which node is asked. */
#include "store/cluster_map.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "store/scout.h"
#include "tests/unit/store/fake_redis.h"
#include "tests/unit/suite.h"

static redisReply *node(const char *host, long long port)
{
	return reply_array(
		3, host ? reply_text(host) : reply_nil(), reply_number(port), reply_text("id"));
}

static redisReply *range(long long first, long long last, redisReply *primary)
{
	return reply_array(4, reply_number(first), reply_number(last), primary, node("r", 9));
}

static int begin(void **state)
{
	(void)state;
	fake_begin();
	return 0;
}

/* ---- the map --------------------------------------------------------------------------------- */

static void ranges_have_their_primaries(void **state)
{
	struct cluster_map map = {0};

	(void)state;
	assert_true(cluster_map_read(&map,
		reply_array(4, range(0, 5, node("a", 1)), range(7, 7, node(NULL, 2)),
			range(8, 9, node("", 3)), range(10, 16383, node("a", 1))),
		"self"));
	assert_int_equal(map.count, 4); /* with the replica */
	assert_string_equal(map.nodes[map.owners[0] - 1].host, "a");
	assert_int_equal(map.owners[5], map.owners[16383]);
	assert_int_equal(map.owners[6], 0);
	assert_string_equal(map.nodes[map.owners[7] - 1].host, "self");
	assert_int_equal(map.nodes[map.owners[7] - 1].port, 2);
	assert_string_equal(map.nodes[map.owners[8] - 1].host, "self");
	assert_int_equal(map.nodes[map.owners[8] - 1].port, 3);
	cluster_map_clear(&map);
	assert_int_equal(map.owners[0], 0);
}

static void what_is_no_map(void **state)
{
	struct cluster_map map = {0};

	(void)state;
	redisReply *wrong[] = {
		range(-1, 5, node("a", 1)),
		range(0, 16384, node("a", 1)),
		range(6, 5, node("a", 1)),
		range(0, 5, node("a", 0)),
		range(0, 5, node("a", 65536)),
		range(0, 5, reply_text("a")),
		range(0, 5, reply_array(1, reply_text("a"))),
		range(0, 5, reply_array(2, reply_number(1), reply_number(1))),
		range(0, 5, reply_array(2, reply_text("a"), reply_text("1"))),
		reply_array(2, reply_number(1), reply_number(2)),
		reply_array(3, reply_text("1"), reply_number(2), node("a", 1)),
		reply_text("x"),
	};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		assert_false(cluster_map_read(
			&map, reply_array(2, range(6, 6, node("a", 1)), wrong[i]), "h"));
		assert_int_equal(map.count, 0);
		assert_int_equal(map.owners[6], 0);
	}
	assert_false(cluster_map_read(&map, reply_error("ERR of it"), "h"));
}

static void info_is_read(void **state)
{
	bool is_up;
	uint64_t epoch;

	(void)state;
	cluster_map_read_info(
		"cluster_enabled:1\r\ncluster_state:ok\r\ncluster_current_epoch:12\r\n", &is_up,
		&epoch);
	assert_true(is_up);
	assert_int_equal(epoch, 12);
	cluster_map_read_info("cluster_state:fail\r\n", &is_up, &epoch);
	assert_false(is_up);
	assert_int_equal(epoch, 0);
}

/* ---- the scout ------------------------------------------------------------------------------- */

static struct {
	struct loop loop;
	struct scout scout;
	unsigned found, failed;
} world;

static char a[] = "a", b[] = "b";
static struct store_host hosts[] = {{a, 1}, {b, 2}};
static const struct store_where where = {.hosts = hosts, .host_count = 2, .is_cluster = true};

static void on_found(struct scout *scout)
{
	assert_ptr_equal(scout, &world.scout);
	world.found++;
}

static void on_failed(struct scout *scout)
{
	assert_ptr_equal(scout, &world.scout);
	world.failed++;
}

static int begin_scout(void **state)
{
	begin(state);
	memset(&world, 0, sizeof(world));
	scout_init(&world.scout, &world.loop, NULL, 0, on_found, on_failed);
	scout_ask(&world.scout, &where);
	return 0;
}

static int end_scout(void **state)
{
	(void)state;
	scout_end(&world.scout);
	assert_false(world.scout.is_asking);
	assert_null(world.scout.map.nodes);
	return 0;
}

static void answer_info(unsigned epoch)
{
	char text[80];

	snprintf(text, sizeof(text), "cluster_state:ok\r\ncluster_current_epoch:%u\r\n", epoch);
	assert_string_equal(fake_waiting(0), "CLUSTER INFO");
	fake_answer(reply_text(text));
}

static void find(void)
{
	fake_connect();
	answer_info(5);
	assert_string_equal(fake_waiting(0), "CLUSTER SLOTS");
	fake_answer(reply_array(1, range(0, 16383, node("c", 3))));
	assert_int_equal(world.found, 1);
}

static void the_first_that_knows_is_believed(void **state)
{
	(void)state;
	assert_string_equal(fake.peer->host, "a");
	scout_ask(&world.scout, &where); /* ignored */
	assert_int_equal(fake.opened, 1);
	redis_peer_drop(&world.scout.peer, "away");
	assert_string_equal(fake.peer->host, "b");
	find();
	assert_false(fake.peer->is_open);
	assert_int_equal(world.scout.map.count, 2);
	assert_int_equal(world.failed, 0);
}

static void nodes_that_were_heard_of_are_asked_too(void **state)
{
	static const char *const next[] = {"b", "c", "r", "a"};

	(void)state;
	find();
	scout_ask(&world.scout, &where);
	for (unsigned i = 0; i < 4; i++) {
		assert_string_equal(fake.peer->host, next[i]);
		assert_int_equal(world.failed, 0);
		redis_peer_drop(&world.scout.peer, "away");
	}
	assert_int_equal(world.failed, 1);
	assert_false(world.scout.is_asking);
	assert_int_equal(world.scout.map.count, 2); /* is kept */
}

static void one_that_has_missed_a_failover_is_not_believed(void **state)
{
	(void)state;
	find();
	scout_ask(&world.scout, &where);
	fake_connect();
	answer_info(4);
	assert_string_equal(world.scout.peer.host, "c"); /* the next */
	assert_int_equal(world.found, 1);
	for (unsigned i = 0; i < 3; i++)
		redis_peer_drop(&world.scout.peer, "away");
	assert_int_equal(world.failed, 1);
	/* all that answer know an older one: the cluster has been made again */
	scout_ask(&world.scout, &where);
	fake_connect();
	answer_info(1);
	fake_answer(reply_array(1, range(0, 16383, node("c", 3))));
	assert_int_equal(world.found, 2);
}

static void what_it_cannot_read(void **state)
{
	(void)state;
	fake_connect();
	fake_answer(reply_error("ERR of CLUSTER INFO"));
	fake_answer(reply_error("ERR of it"));
	assert_string_equal(fake.peer->host, "b");
	fake_connect();
	answer_info(1);
	fake_answer(reply_array(0));
	assert_int_equal(world.failed, 1);
	assert_string_equal(world.scout.peer.why, "b:2: it knows no slots");
}

#define WITH(test, begin, end) cmocka_unit_test_setup_teardown(test, begin, end)

UNIT_SUITE(test_cluster_map)
{
	const struct CMUnitTest tests[] = {
		WITH(ranges_have_their_primaries, begin, NULL),
		WITH(what_is_no_map, begin, NULL),
		WITH(info_is_read, begin, NULL),
		WITH(the_first_that_knows_is_believed, begin_scout, end_scout),
		WITH(nodes_that_were_heard_of_are_asked_too, begin_scout, end_scout),
		WITH(one_that_has_missed_a_failover_is_not_believed, begin_scout, end_scout),
		WITH(what_it_cannot_read, begin_scout, end_scout),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
