/* What INFO replication says of the store's replicas, and whatever else it may say. */
#include "fleet/health.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "../random.h"
#include "tests/unit/exchange/fakes/lines.h"
#include "tests/unit/fleet/fake_store.h"
#include "tests/unit/suite.h"

static struct health_sight read_text(const char *text)
{
	struct health_sight sight = {0};

	health_read(text, strlen(text), &sight);
	return sight;
}

static void replicas_are_listed_with_what_they_lack(void **state)
{
	struct health_sight sight = read_text(
		"# Replication\r\nrole:master\r\nconnected_slaves:3\r\n"
		"slave0:ip=10.0.0.2,port=6379,state=online,offset=1000,lag=1\r\n"
		"slave1:ip=fd00::3,port=6380,state=wait_bgsave,offset=0,lag=0\r\n"
		"slave12:ip=store.test,port=1,state=online,offset=1200,lag=0,io-thread=0\r\n"
		"master_replid:0123\r\nmaster_repl_offset:1100\r\nslave_repl_offset:7\r\n");

	(void)state;
	assert_int_equal(sight.connected, 3);
	assert_int_equal(sight.count, 3);
	assert_string_equal(sight.replicas[0].address, "10.0.0.2:6379");
	assert_true(sight.replicas[0].is_online);
	assert_int_equal(sight.replicas[0].behind_bytes, 100);
	assert_int_equal(sight.replicas[0].silent_s, 1);
	assert_string_equal(sight.replicas[1].address, "fd00::3:6380");
	assert_false(sight.replicas[1].is_online);
	assert_int_equal(sight.replicas[1].behind_bytes, 1100);
	assert_int_equal(sight.replicas[2].behind_bytes, 0);
}

static void a_store_that_may_evict_is_known(void **state)
{
	static const char *const none[] = {"", "maxmemory:0\r\nmaxmemory_policy:allkeys-lru\r\n",
		"maxmemory:100\r\nmaxmemory_policy:noeviction\r\n", "maxmemory:100\r\n",
		"maxmemory_policy:allkeys-lru\r\n",
		"maxmemory:x\r\nmaxmemory_policy:allkeys-lru\r\n",
		"maxmemory_human:1K\r\nmaxmemory_policy:volatile-ttl\r\n"};

	(void)state;
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
		assert_string_equal(read_text(none[i]).eviction, "");
	assert_string_equal(read_text("# Memory\r\nused_memory:1\r\nmaxmemory:100\r\n"
				      "maxmemory_human:100B\r\nmaxmemory_policy:volatile-ttl\r\n")
				    .eviction,
		"volatile-ttl");
	assert_string_equal(read_text("maxmemory_policy:a\x1b\"Z\nmaxmemory:1").eviction, "a???");
}

/* ---- asking ---------------------------------------------------------------------------------- */

static struct health health;
static struct checking checking;

static int begin(void **state)
{
	(void)state;
	fake_store_begin(1000);
	lines_clear();
	health_init(&health);
	checking_init(&checking, &health, &fake_store.link);
	return 0;
}

static int end(void **state)
{
	(void)state;
	health_end(&health);
	return 0;
}

static void ask(const char *text)
{
	checking_ask(&checking);
	fake_store_answer(text, text ? strlen(text) : 0);
}

static const char *eviction(void)
{
	static struct health_sight sight;

	health_look(&health, &sight);
	return sight.eviction;
}

static unsigned warnings(void)
{
	unsigned count = 0;

	for (const char *c = lines.text; *c; c++)
		count += *c == '\n';
	return count;
}

static const char evicts[] = "maxmemory:9\r\nmaxmemory_policy:allkeys-lru\r\n";
static const char keeps[] = "maxmemory:9\r\nmaxmemory_policy:noeviction\r\n";

static void it_warns_of_eviction_once_for_a_connection(void **state)
{
	(void)state;
	checking_ask(&checking);
	checking_ask(&checking); /* one at a time */
	assert_int_equal(fake_store.sent, 1);
	assert_true(fake_store.call->may_fail);
	fake_store_lose_answer(); /* NOPERM: nothing is known */
	assert_string_equal(eviction(), "");
	ask(evicts);
	ask(evicts);
	assert_string_equal(eviction(), "allkeys-lru");
	assert_int_equal(warnings(), 1);
	checking_renew(&checking);
	ask(evicts);
	assert_int_equal(warnings(), 2);
	ask(keeps);
	assert_string_equal(eviction(), "");
	ask(evicts);
	assert_int_equal(warnings(), 3);
}

static void primaries_of_a_cluster_are_asked_in_turn(void **state)
{
	static struct cluster cluster;
	uint16_t first = 0;

	(void)state;
	fake_store.link.cluster = &cluster;
	checking_ask(&checking);
	first = fake_store.call->slot;
	fake_store_answer(keeps, strlen(keeps));
	checking_ask(&checking);
	assert_int_not_equal(fake_store.call->slot / 5461, first / 5461);
	fake_store_answer(evicts, strlen(evicts));
	for (unsigned i = 0; i < 15; i++) {
		ask(keeps);
		assert_string_equal(eviction(), "allkeys-lru");
	}
	ask(keeps);
	assert_string_equal(eviction(), "");
	assert_int_equal(warnings(), 1);
}

/* ---- INFO, whatever it is -------------------------------------------------------------------- */

static void what_is_no_replica_is_passed_over(void **state)
{
	static const char *const none[] = {"", "\r\n", "slave0", "slave0:", "slave0:ip=a,port=1",
		"slave0:ip=a,port=1,offset=", "slave0:ip=a,port=1,offset=1x",
		"slave0:ip=a,port=1,offset=99999999999999999999", "slavery:ip=a,port=1,offset=1",
		"master_repl_offset:5", "slave0 ip=a,port=1,offset=1"};

	(void)state;
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
		assert_int_equal(read_text(none[i]).connected, 0);
	assert_string_equal(
		read_text("slave0:ip=\"\x01\\\xff,port=1,offset=1").replicas[0].address, "????:1");
}

static void more_than_fit_are_counted(void **state)
{
	char text[100 * 64];
	size_t len = 0;

	(void)state;
	for (int i = 0; i < 100; i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len,
			"slave%d:ip=10.0.0.%d,port=6379,offset=%d\n", i, i, i);
	struct health_sight sight = {0};
	health_read(text, len, &sight);
	assert_int_equal(sight.connected, 100);
	assert_int_equal(sight.count, HEALTH_REPLICAS);
}

static void random_bytes_do_no_harm(void **state)
{
	static const char *const words[] = {"slave", "0:", "ip=", "port=", ",",
		"offset=", "lag=", "\r", "\n", "master_repl_offset:", "18446744073709551615", "9",
		"=", ":", "state=online"};
	struct random random = random_begin("health");

	(void)state;
	for (int round = 0; round < 20000; round++) {
		size_t len = 0, count = random_below(&random, 40);
		char *text = malloc(40 * 24);
		struct health_sight sight;
		assert_non_null(text);
		for (size_t i = 0; i < count; i++) {
			const char *word = words[random_below(&random, 15)];
			if (random_below(&random, 8) == 0)
				text[len++] = (char)random_below(&random, 256);
			memcpy(text + len, word, strlen(word));
			len += strlen(word);
		}
		char *exact = malloc(len + !len);
		assert_non_null(exact);
		memcpy(exact, text, len);
		health_read(exact, len, &sight);
		assert_true(sight.count <= HEALTH_REPLICAS && sight.count <= sight.connected);
		free(exact);
		free(text);
	}
}

UNIT_SUITE(test_health)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(replicas_are_listed_with_what_they_lack),
		cmocka_unit_test(a_store_that_may_evict_is_known),
		cmocka_unit_test_setup_teardown(
			it_warns_of_eviction_once_for_a_connection, begin, end),
		cmocka_unit_test_setup_teardown(
			primaries_of_a_cluster_are_asked_in_turn, begin, end),
		cmocka_unit_test(what_is_no_replica_is_passed_over),
		cmocka_unit_test(more_than_fit_are_counted),
		cmocka_unit_test(random_bytes_do_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
