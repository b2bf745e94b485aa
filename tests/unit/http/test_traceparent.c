#include "http/traceparent.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/suite.h"

#define TRACE  "12345678901234567890123456789012"
#define PARENT "1234567890123456"

/* Those of the specification's own test suite (w3c/trace-context, test/test.py), each once. */
static void cases_of_the_specification(void **state)
{
	static const struct {
		const char *value;
		bool valid;
	} cases[] = {
		{"00-" TRACE "-" PARENT "-01", true},
		{"00-" TRACE "-" PARENT "-00", true},
		/* flags that are not known yet */
		{"00-" TRACE "-" PARENT "-ff", true},
		/* version 00 has nothing behind its flags */
		{"00-" TRACE "-" PARENT "-01.", false},
		{"00-" TRACE "-" PARENT "-01-what-the-future-will-be-like", false},
		/* versions to come may */
		{"cc-" TRACE "-" PARENT "-01", true},
		{"cc-" TRACE "-" PARENT "-01-what-the-future-will-be-like", true},
		{"cc-" TRACE "-" PARENT "-01.what-the-future-will-not-be-like", false},
		{"ff-" TRACE "-" PARENT "-01", false},
		/* the version */
		{".0-" TRACE "-" PARENT "-01", false},
		{"0.-" TRACE "-" PARENT "-01", false},
		{"000-" TRACE "-" PARENT "-01", false},
		{"0000-" TRACE "-" PARENT "-01", false},
		{"0-" TRACE "-" PARENT "-01", false},
		{"-" TRACE "-" PARENT "-01", false},
		{"0A-" TRACE "-" PARENT "-01", false},
		/* the trace id */
		{"00-00000000000000000000000000000000-" PARENT "-01", false},
		{"00-.2345678901234567890123456789012-" PARENT "-01", false},
		{"00-1234567890123456789012345678901.-" PARENT "-01", false},
		{"00-ABCDEF78901234567890123456789012-" PARENT "-01", false},
		{"00-" TRACE "3-" PARENT "-01", false},
		{"00-1234567890123456789012345678901-" PARENT "-01", false},
		/* the parent id */
		{"00-" TRACE "-0000000000000000-01", false},
		{"00-" TRACE "-.234567890123456-01", false},
		{"00-" TRACE "-123456789012345.-01", false},
		{"00-" TRACE "-ABCDEF7890123456-01", false},
		{"00-" TRACE "-12345678901234567-01", false},
		{"00-" TRACE "-123456789012345-01", false},
		/* the flags */
		{"00-" TRACE "-" PARENT "-.0", false},
		{"00-" TRACE "-" PARENT "-0.", false},
		{"00-" TRACE "-" PARENT "-0A", false},
		{"00-" TRACE "-" PARENT "-001", false},
		{"00-" TRACE "-" PARENT "-1", false},
		{"00-" TRACE "-" PARENT "-", false},
		{"00-" TRACE "-" PARENT, false},
		/* and what is none at all */
		{"", false},
		{"00", false},
		{"00_" TRACE "_" PARENT "_01", false},
		{"00-" TRACE " " PARENT "-01", false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (http_traceparent_is_valid(slice_of(cases[i].value)) != cases[i].valid)
			fail_msg("%s: not %d", cases[i].value, cases[i].valid);
	}
}

static void one_byte_changed_is_valid_only_as_hex(void **state)
{
	static const char good[] = "00-" TRACE "-" PARENT "-01";

	(void)state;
	for (size_t at = 3; at < HTTP_TRACEPARENT_BYTES; at++) {
		for (unsigned byte = 0; byte < 256; byte++) {
			char text[sizeof(good)];
			bool is_hex = (byte >= '0' && byte <= '9') || (byte >= 'a' && byte <= 'f');
			memcpy(text, good, sizeof(good));
			text[at] = (char)byte;
			bool valid = http_traceparent_is_valid(
				(struct slice){text, HTTP_TRACEPARENT_BYTES});
			assert_int_equal(valid, good[at] == '-' ? byte == '-' : is_hex);
		}
	}
}

static void what_is_written_is_valid(void **state)
{
	static const uint64_t trace[2] = {0x4bf92f3577b34da6, 0xa3ce929d0e0e4736};
	char text[HTTP_TRACEPARENT_BYTES + 1] = "";

	(void)state;
	http_traceparent_write(text, trace, 0x00f067aa0ba902b7);
	assert_string_equal(text, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01");
	assert_true(http_traceparent_is_valid(slice_of(text)));
}

UNIT_SUITE(test_traceparent)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(cases_of_the_specification),
		cmocka_unit_test(one_byte_changed_is_valid_only_as_hex),
		cmocka_unit_test(what_is_written_is_valid),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
