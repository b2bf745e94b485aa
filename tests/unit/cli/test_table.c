/* JSON as text for people. */
#include "cli/table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/unit/suite.h"

/* What a table of this one name has, below its title. */
static void expect(const char *name, const char *shown)
{
	static const struct table_column columns[] = {{"NAME", "name", TABLE_TEXT}};
	json_t *rows = json_pack("[{s:s}]", "name", name);
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);

	assert_non_null(rows);
	assert_non_null(out);
	table_print(out, rows, columns, 1);
	table_print_members(out, json_array_get(rows, 0));
	assert_int_equal(fclose(out), 0);
	char *wanted = NULL;
	out = open_memstream(&wanted, &len);
	assert_non_null(out);
	fprintf(out, "NAME\n%s\n%-24s%s\n", shown, "name", shown);
	assert_int_equal(fclose(out), 0);
	assert_string_equal(text, wanted);
	free(text);
	free(wanted);
	json_decref(rows);
}

static void a_name_moves_no_cursor(void **state)
{
	(void)state;
	expect("node-1", "node-1");
	expect("\x1b[2J\x07"
	       "a\nb\tc\x7f",
		"?[2J?a?b?c?");
	expect("\xc2\x9b"
	       "2J",
		"??2J");
	expect("\xc2\xa0\xc3\xbc\xe2\x82\xac", "\xc2\xa0\xc3\xbc\xe2\x82\xac");
	expect("", "");
}

/* The two largest units, rounded down. */
static void a_time_has_two_units(void **state)
{
	static const struct {
		unsigned long long ms;
		const char *text;
	} times[] = {{0, "0ms"}, {999, "999ms"}, {1000, "1.0s"}, {59999, "59.9s"}, {60000, "1m 0s"},
		{3599999, "59m 59s"}, {3600000, "1h 0m"}, {86399999, "23h 59m"},
		{86400000, "1d 0h"}, {270000000, "3d 3h"}};
	char text[TABLE_MS_BYTES];

	(void)state;
	for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++) {
		table_format_ms(times[i].ms, text);
		assert_string_equal(text, times[i].text);
	}
}

UNIT_SUITE(test_table)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_name_moves_no_cursor),
		cmocka_unit_test(a_time_has_two_units),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
