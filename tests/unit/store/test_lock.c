/* What the store is asked about locks, and how its answers are read. */
#include "store/lock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/unit/random.h"
#include "tests/unit/suite.h"

static void names_and_sessions_are_checked(void **state)
{
	char longest[LOCK_NAME_BYTES + 1] = "", session[LOCK_SESSION_BYTES + 1] = "";
	static const char *const good[] = {"a", "A-Z", "0:9", "_", ".", "deploy.prod_1:x-y"};
	static const char *const bad[] = {"", "a b", "a/b", "\xc3\xa4", "a\n", "a{b}", "a*"};

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_true(lock_name_is_valid(good[i]));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(lock_name_is_valid(bad[i]));
	memset(longest, 'x', LOCK_NAME_BYTES - 1);
	assert_true(lock_name_is_valid(longest));
	longest[LOCK_NAME_BYTES - 1] = 'x';
	assert_false(lock_name_is_valid(longest));
	assert_true(lock_session_is_valid("host/7"));
	assert_false(lock_session_is_valid(""));
	assert_false(lock_session_is_valid("-"));
	assert_false(lock_session_is_valid("a b"));
	assert_false(lock_session_is_valid("a\n"));
	memset(session, 'x', LOCK_SESSION_BYTES);
	assert_false(lock_session_is_valid(session));
}

static void a_call_has_its_locks_and_their_words(void **state)
{
	struct lock_ask take = {.kind = LOCK_OF_COMMANDS,
		.verb = LOCK_TAKE,
		.name = "a",
		.session = "s/1",
		.number = LOCK_BORN_ANY,
		.lease_ms = 1000,
		.keep_ms = 60000};
	struct lock_ask use = take, *asks[] = {&take, &use};
	size_t len;

	(void)state;
	use.verb = LOCK_USE;
	use.name = "bc";
	use.number = 17;
	use.value = "x\r\n";
	use.value_len = 3;
	char *text = lock_compose("p", 0, asks, 2, &len);
	assert_string_equal(text,
		"*18\r\n$5\r\nFCALL\r\n$13\r\nsluice_lock_1\r\n$1\r\n3\r\n"
		"$14\r\np{locks}lock:a\r\n$15\r\np{locks}lock:bc\r\n$12\r\np{locks}lock\r\n"
		"$4\r\ntake\r\n$3\r\ns/1\r\n$2\r\n-1\r\n$4\r\n1000\r\n$5\r\n60000\r\n$0\r\n\r\n"
		"$3\r\nuse\r\n$3\r\ns/"
		"1\r\n$2\r\n17\r\n$4\r\n1000\r\n$5\r\n60000\r\n$3\r\nx\r\n\r\n");
	assert_int_equal(len, strlen(text));
	free(text);

	take.dropped = 1800000000000000;
	text = lock_compose("p", 0, asks, 1, &len);
	assert_non_null(strstr(text, "$3\r\ns/1\r\n$17\r\n-1800000000000001\r\n"));
	free(text);

	take.kind = LOCK_OF_SESSIONS;
	take.verb = LOCK_LOOK;
	take.session = NULL;
	take.number = 0;
	text = lock_compose("p", 1, asks, 1, &len);
	assert_non_null(strstr(text, "$15\r\np{000}session:a\r\n$13\r\np{000}session\r\n"
				     "$4\r\nlook\r\n$0\r\n\r\n$1\r\n0\r\n"));
	free(text);
	text = lock_compose_list("p", 0, LOCK_OF_COMMANDS, "42", &len);
	assert_string_equal(text, "*5\r\n$5\r\nFCALL\r\n$14\r\nsluice_locks_1\r\n$1\r\n1\r\n"
				  "$12\r\np{locks}lock\r\n$2\r\n42\r\n");
	free(text);
}

static void to_own_is_to_take_or_to_use(void **state)
{
	struct lock_ask ask = {0};

	(void)state;
	lock_ask_own(&ask, 0);
	assert_int_equal(ask.verb, LOCK_TAKE);
	assert_true(ask.number == LOCK_BORN_ANY);
	lock_ask_own(&ask, 9);
	assert_int_equal(ask.verb, LOCK_USE);
	assert_int_equal(ask.number, 9);
}

static void answers_are_read_one_by_one(void **state)
{
	static const char text[] = "held 1800000000000000 1000 s/1 0\n\nbusy 5 7 n-1 4\na\nbc\n"
				   "free 6 0 - 0\n\n";
	struct lock_reader reader = {text, text + sizeof(text) - 1};
	struct lock_answer answer;

	(void)state;
	assert_true(lock_read(&reader, &answer));
	assert_int_equal(answer.status, LOCK_HELD);
	assert_true(answer.fence == 1800000000000000);
	assert_int_equal(answer.left_ms, 1000);
	assert_string_equal(answer.session, "s/1");
	assert_int_equal(answer.value_len, 0);
	assert_true(lock_read(&reader, &answer));
	assert_int_equal(answer.status, LOCK_BUSY);
	assert_int_equal(answer.value_len, 4);
	assert_memory_equal(answer.value, "a\nbc", 4);
	assert_true(lock_read(&reader, &answer));
	assert_int_equal(answer.status, LOCK_FREE);
	assert_string_equal(answer.session, "");
	assert_false(lock_read(&reader, &answer));
	assert_int_equal(answer.status, LOCK_UNKNOWN);
}

static void no_answer_is_unknown(void **state)
{
	static const char *const wrong[] = {"", "held", "held ", "held 1 2 s 0", "held 1 2 s 0\n",
		"hold 1 2 s 0\n\n", "held x 2 s 0\n\n", "held 1 2  0\n\n", "held -1 2 s 0\n\n",
		"held 1 2 s 5\nabcd\n", "held 1 2 s 18446744073709551615\n\n",
		"held 99999999999999999999 2 s 0\n\n", "held 1 2 s 1\n\n"};
	struct lock_answer answer;

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct lock_reader reader = {wrong[i], wrong[i] + strlen(wrong[i])};
		assert_false(lock_read(&reader, &answer));
		assert_int_equal(answer.status, LOCK_UNKNOWN);
		assert_null(answer.value);
	}
}

/* Whatever bytes come, no byte behind them is looked at: the sanitizers say so. */
static void any_bytes_are_read(void **state)
{
	static const char valid[] = "busy 5 7 n-1 4\na\nbc\n";
	struct random random = random_begin("bytes");

	(void)state;
	for (int i = 0; i < 20000; i++) {
		size_t len = random_below(&random, sizeof(valid));
		char *bytes = malloc(len + 1);
		memcpy(bytes, valid, len);
		if (len > 0)
			bytes[random_below(&random, len)] = (char)random_next(&random);
		char *exact = realloc(bytes, len > 0 ? len : 1);
		struct lock_reader reader = {exact, exact + len};
		struct lock_answer answer;
		while (lock_read(&reader, &answer))
			assert_true(answer.value + answer.value_len < exact + len);
		free(exact);
	}
}

static void keys_of_the_list_have_names(void **state)
{
	(void)state;
	assert_string_equal(lock_name_in_key("p{locks}lock:a:b", "p", 0, LOCK_OF_COMMANDS), "a:b");
	assert_string_equal(lock_name_in_key("p{000}probe:a", "p", 1, LOCK_OF_PROBES), "a");
	assert_null(lock_name_in_key("p{locks}lock:a", "q", 0, LOCK_OF_COMMANDS));
	assert_null(lock_name_in_key("p{locks}lock:a", "p", 0, LOCK_OF_SESSIONS));
	assert_null(lock_name_in_key("p{locks}lock:", "p", 0, LOCK_OF_COMMANDS));
	assert_null(lock_name_in_key("p{locks}lock:\x1b[2J", "p", 0, LOCK_OF_COMMANDS));
	assert_null(lock_name_in_key("p", "p", 0, LOCK_OF_COMMANDS));
}

UNIT_SUITE(test_lock)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(names_and_sessions_are_checked),
		cmocka_unit_test(a_call_has_its_locks_and_their_words),
		cmocka_unit_test(to_own_is_to_take_or_to_use),
		cmocka_unit_test(answers_are_read_one_by_one),
		cmocka_unit_test(no_answer_is_unknown),
		cmocka_unit_test(any_bytes_are_read),
		cmocka_unit_test(keys_of_the_list_have_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
