/* What INFO replication says of the store's replicas, and whatever else it may say. */
#include "fleet/health.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "../random.h"

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(replicas_are_listed_with_what_they_lack),
		cmocka_unit_test(what_is_no_replica_is_passed_over),
		cmocka_unit_test(more_than_fit_are_counted),
		cmocka_unit_test(random_bytes_do_no_harm),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
