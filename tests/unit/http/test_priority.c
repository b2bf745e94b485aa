#include "http/priority.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "http/structured.h"
#include "tests/unit/suite.h"

static void urgencies(void **state)
{
	static const struct {
		const char *field;
		int urgency;
	} cases[] = {
		{"", -1},
		{"u=0", 0},
		{"u=7, i", 7},
		{"i, u=2", 2},
		{"\t u=1 ,i ", 1},
		{"u=1;x=2", 1},
		{"u=1 ;x", 1},
		{"i;u=1", -1},
		{"u", -1},
		{"u=8", -1},
		{"u=-1", -1},
		{"u=10", -1},
		{"u=1.0", -1},
		{"u=\"1\"", -1},
		{"U=1", -1},
		{"uu=1", -1},
		/* the last one counts, also when it says nothing */
		{"u=1, u=5", 5},
		{"u=1, u=9", -1},
		{"u=1, u", -1},
		/* what is in a string is no member, no parameter, and no end */
		{"a=\", u=1\"", -1},
		{"a=\"\\\", u=1\", u=3", 3},
		{"a=\"\\\\\", u=3", 3},
		{"a=\";\";b=\",\", u=4", 4},
		{"u=2;x=\", u=6\"", 2},
		/* a string without an end: the field is ignored */
		{"u=1, a=\"", -1},
		{"u=1, a=\"\\\"", -1},
		{"u=1, a=\"\\", -1},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		/* Memory of its very size: a read beyond it is seen by the sanitizer. */
		size_t len = strlen(cases[i].field);
		char *copy = malloc(len + 1);
		assert_non_null(copy);
		memcpy(copy, cases[i].field, len);
		int urgency = http_priority_urgency((struct slice){copy, len});
		free(copy);
		if (urgency != cases[i].urgency)
			fail_msg("%s: %d", cases[i].field, urgency);
	}
	assert_int_equal(http_priority_urgency(SLICE_NONE), -1);
}

static void pieces(void **state)
{
	struct slice rest = SLICE(" a , \"b,c\\\",\";d=1 ,, e"), piece;
	static const char *const expected[] = {"a", "\"b,c\\\",\";d=1", "", "e"};

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		assert_true(http_sf_next(&rest, ',', &piece));
		assert_int_equal(piece.len, strlen(expected[i]));
		assert_memory_equal(piece.at, expected[i], piece.len);
	}
	assert_false(http_sf_next(&rest, ',', &piece));
}

UNIT_SUITE(test_priority)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(urgencies),
		cmocka_unit_test(pieces),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
