/* Lists through fields of their elements: both ends, and each place in between. */
#include "base/list.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/suite.h"

struct letter {
	char name;
	struct letter *prev, *next, *older, *newer;
};

static struct letter letters[4] = {{.name = 'a'}, {.name = 'b'}, {.name = 'c'}, {.name = 'd'}};
static struct letter *const a = &letters[0], *const b = &letters[1], *const c = &letters[2],
			    *const d = &letters[3];

static void reads(const struct letter *first, const struct letter *last, const char *expected)
{
	char forth[8] = "", back[8] = "";
	size_t count = 0;

	for (const struct letter *at = first; at; at = at->next)
		forth[count++] = at->name;
	for (const struct letter *at = last; at; at = at->prev)
		back[--count] = at->name;
	assert_string_equal(forth, expected);
	assert_string_equal(back, expected);
}

static void a_list_has_two_ends(void **state)
{
	struct letter *first = NULL, *last = NULL;

	(void)state;
	LIST_APPEND(first, last, b, prev, next);
	reads(first, last, "b");
	LIST_APPEND(first, last, d, prev, next);
	LIST_INSERT(first, last, c, d, prev, next);
	LIST_INSERT(first, last, a, first, prev, next);
	reads(first, last, "abcd");
	LIST_REMOVE(first, last, c, prev, next);
	reads(first, last, "abd");
	LIST_REMOVE(first, last, a, prev, next);
	reads(first, last, "bd");
	LIST_REMOVE(first, last, d, prev, next);
	reads(first, last, "b");
	LIST_REMOVE(first, last, b, prev, next);
	reads(first, last, "");
}

static void a_chain_begins_with_the_newest(void **state)
{
	struct letter *newest = NULL;

	(void)state;
	CHAIN_PUSH(newest, a, newer, older);
	CHAIN_PUSH(newest, b, newer, older);
	CHAIN_PUSH(newest, c, newer, older);
	assert_ptr_equal(newest, c);
	CHAIN_REMOVE(newest, b, newer, older);
	assert_ptr_equal(newest->older, a);
	assert_ptr_equal(a->newer, c);
	CHAIN_REMOVE(newest, c, newer, older);
	assert_ptr_equal(newest, a);
	assert_null(a->newer);
	CHAIN_REMOVE(newest, a, newer, older);
	assert_null(newest);
}

UNIT_SUITE(test_list)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_list_has_two_ends),
		cmocka_unit_test(a_chain_begins_with_the_newest),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
