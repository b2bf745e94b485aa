/* Why a node is without its store: what its workers were told last, and since when. */
#include "store/store_server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "../random.h"
#include "tests/unit/suite.h"

enum { MARKS = 6 };

static struct trouble trouble;
static struct trouble_mark marks[MARKS];

static int begin(void **state)
{
	(void)state;
	trouble_init(&trouble);
	memset(marks, 0, sizeof(marks));
	return 0;
}

static int end(void **state)
{
	(void)state;
	trouble_end(&trouble);
	return 0;
}

static struct trouble_sight look(void)
{
	struct trouble_sight sight;

	trouble_look(&trouble, &sight);
	return sight;
}

static void it_lasts_from_the_first_until_all_are_well(void **state)
{
	(void)state;
	assert_int_equal(look().count, 0);
	trouble_note(&trouble, &marks[0], NULL, 5); /* it was well */
	assert_int_equal(look().count, 0);
	trouble_note(&trouble, &marks[0], "Connection refused", 10);
	trouble_note(&trouble, &marks[1], "NOAUTH Authentication required.", 20);
	trouble_note(&trouble, &marks[0], "LOADING", 30);
	assert_int_equal(look().count, 2);
	assert_int_equal(look().since_ns, 10);
	assert_string_equal(look().why, "LOADING");
	trouble_note(&trouble, &marks[0], NULL, 40);
	assert_int_equal(look().count, 1);
	assert_int_equal(look().since_ns, 10);
	trouble_note(&trouble, &marks[1], NULL, 50);
	assert_int_equal(look().count, 0);
	trouble_note(&trouble, &marks[1], "again", 60);
	assert_int_equal(look().since_ns, 60);
}

static void words_are_printable_and_bounded(void **state)
{
	char text[2 * TROUBLE_BYTES];

	(void)state;
	trouble_note(&trouble, &marks[0],
		"a\n\x1b[2J\x7f\xff"
		"b",
		1);
	assert_string_equal(look().why, "a??[2J??b");
	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	trouble_note(&trouble, &marks[0], text, 1);
	assert_int_equal(strlen(look().why), TROUBLE_BYTES - 1);
}

static void random_marks_beside_a_plain_count(void **state)
{
	struct random random = random_begin("trouble");
	bool is_set[MARKS] = {false};
	uint64_t since = 0;
	unsigned count = 0;

	(void)state;
	for (uint64_t now = 1; now < 5000; now++) {
		size_t n = random_below(&random, MARKS);
		bool sets = random_below(&random, 2) == 0;
		if (sets && count == 0)
			since = now;
		count += sets && !is_set[n];
		count -= !sets && is_set[n];
		is_set[n] = sets;
		trouble_note(&trouble, &marks[n], sets ? "why" : NULL, now);
		assert_int_equal(look().count, count);
		if (count > 0)
			assert_int_equal(look().since_ns, since);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

UNIT_SUITE(test_trouble)
{
	const struct CMUnitTest tests[] = {
		TEST(it_lasts_from_the_first_until_all_are_well),
		TEST(words_are_printable_and_bounded),
		TEST(random_marks_beside_a_plain_count),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
