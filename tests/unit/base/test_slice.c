#include "base/slice.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "tests/unit/suite.h"

static void equality(void **state)
{
	(void)state;
	assert_true(slice_equal(SLICE("abc"), SLICE("abc")));
	assert_false(slice_equal(SLICE("abc"), SLICE("abd")));
	assert_false(slice_equal(SLICE("abc"), SLICE("ab")));
	assert_true(slice_equal(SLICE_NONE, SLICE("")));
	assert_true(slice_equal_nocase(SLICE("Keep-Alive"), SLICE("keep-alive")));
	assert_false(slice_equal_nocase(SLICE("Keep-Alive"), SLICE("keep-aliv")));
	assert_true(slice_equal_nocase(SLICE_NONE, SLICE("")));
}

static void trim_takes_only_ows(void **state)
{
	(void)state;
	assert_true(slice_equal(slice_trim(SLICE(" \t a b \t")), SLICE("a b")));
	assert_true(slice_equal(slice_trim(SLICE(" \t ")), SLICE("")));
	assert_true(slice_equal(slice_trim(SLICE("\r\n")), SLICE("\r\n")));
	assert_true(slice_equal(slice_trim(SLICE_NONE), SLICE("")));
}

static void list_skips_empty_elements(void **state)
{
	struct slice rest = SLICE(", a,, b ,\t,c"), element;

	(void)state;
	assert_true(slice_next_element(&rest, &element));
	assert_true(slice_equal(element, SLICE("a")));
	assert_true(slice_next_element(&rest, &element));
	assert_true(slice_equal(element, SLICE("b")));
	assert_true(slice_next_element(&rest, &element));
	assert_true(slice_equal(element, SLICE("c")));
	assert_false(slice_next_element(&rest, &element));
	assert_false(slice_next_element(&rest, &element));
}

static void list_membership_ignores_case(void **state)
{
	(void)state;
	assert_true(slice_list_has(SLICE("Upgrade, Close"), SLICE("close")));
	assert_false(slice_list_has(SLICE("Upgrade, Closed"), SLICE("close")));
	assert_false(slice_list_has(SLICE_NONE, SLICE("close")));
	assert_false(slice_list_has(SLICE(",,,"), SLICE("close")));
}

UNIT_SUITE(test_slice)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equality),
		cmocka_unit_test(trim_takes_only_ows),
		cmocka_unit_test(list_skips_empty_elements),
		cmocka_unit_test(list_membership_ignores_case),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
