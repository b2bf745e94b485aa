/* Texts of clients in the access log: never longer than they may be, always what a reader can read.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "record/access_text.h"
#include "tests/unit/suite.h"

typedef void put_text(struct http_out *out, struct slice text, size_t most);

static const char *written(put_text *put, const char *text, size_t len, size_t most)
{
	static char bytes[8192];
	struct http_out out = http_out_over(bytes, sizeof(bytes) - 1);

	put(&out, (struct slice){text, len}, most);
	assert_false(out.overflow);
	*out.at = '\0';
	return bytes;
}

static void escapes(void **state)
{
	(void)state;
	assert_string_equal(written(access_put_quoted, "a \"b\\\r\n\xff", 8, 100),
		"\"a \\x22b\\x5c\\x0d\\x0a\\xff\"");
	assert_string_equal(written(access_put_quoted, "", 0, 100), "\"-\"");
	assert_string_equal(written(access_put_json, "a \"b\\\r\n\xff", 8, 100),
		"\"a \\\"b\\\\\\u000d\\u000a\\u00ff\"");
	assert_string_equal(written(access_put_json, "", 0, 100), "\"\"");
}

static void cuts_between_escapes(void **state)
{
	(void)state;
	assert_string_equal(written(access_put_escaped, "0123456789", 10, 10), "0123456789");
	assert_string_equal(written(access_put_escaped, "0123456789a", 11, 10), "0123456...");
	assert_string_equal(written(access_put_escaped, "\"\"", 2, 8), "\\x22\\x22");
	assert_string_equal(written(access_put_escaped, "\"\"\"", 3, 8), "\\x22...");
	assert_string_equal(
		written(access_put_json, "\x01\x02\x03", 3, 17), "\"\\u0001\\u0002...\"");
	assert_string_equal(written(access_put_json, "ab\x02\x03", 4, 8), "\"ab...\"");
}

/* All kinds of bytes, all lengths about a bound: within it, and no escape is cut. */
static void never_beyond(void **state)
{
	static const char signs[] = "a\"\\\x01\xfe z";
	char text[64];

	(void)state;
	for (size_t len = 0; len < sizeof(text); len++) {
		for (size_t shift = 0; shift < 7; shift++) {
			for (size_t i = 0; i < len; i++)
				text[i] = signs[(i * (shift + 1) + shift) % (sizeof(signs) - 1)];
			for (size_t most = 3; most < 120; most++) {
				const char *quoted = written(access_put_escaped, text, len, most);
				assert_true(strlen(quoted) <= most);
				const char *json = written(access_put_json, text, len, most);
				assert_true(strlen(json) <= most + 2);
				for (const char *c = json + 1; c[1]; c++) {
					assert_true(*c != '"' && *c >= ' ' && *c < 127);
					if (*c == '\\')
						c += c[1] == 'u' ? 5 : 1;
				}
			}
		}
	}
}

static void secrets(void **state)
{
	static const char *names[] = {"api_key", "sig"};
	static const char *const cases[][2] = {
		{"/a", "/a"},
		{"/a?", "/a?"},
		{"/a?x=1&api_key=abc", "/a?x=1&api_key=***"},
		{"/a?api_key=abc&x=1", "/a?api_key=***&x=1"},
		{"/a?api_key=a=b;c?d&x=1", "/a?api_key=***&x=1"},
		{"/a?api_key=", "/a?api_key=***"},
		{"/a?api_key", "/a?api_key"},
		{"/a?api_keys=1&xsig=2", "/a?api_keys=1&xsig=2"},
		{"/a?API%5fkey=abc&s%69g=d&sig=e&sig=f",
			"/a?API%5fkey=***&s%69g=***&sig=***&sig=***"},
		{"/a;api_key=b", "/a;api_key=b"},
		{"/a?b=c;sig=d", "/a?b=c;sig=***"},
		{"/a?b=c?sig=d", "/a?b=c?sig=***"},
		{"/?%=1&%4=2&%zz=3", "/?%=1&%4=2&%zz=3"},
		{"http://h/?sig=a b\"c", "http://h/?sig=***"},
	};
	const struct conf_text_list list = {names, 2}, none = {0};
	char scratch[100];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct slice found =
			access_redact(slice_of(cases[i][0]), &list, scratch, sizeof(scratch));
		if (!slice_equal(found, slice_of(cases[i][1])))
			fail_msg("%s: %.*s", cases[i][0], SLICE_ARGS(found));
	}
	assert_true(access_redact(SLICE("/?sig=x"), &none, NULL, 0).at[2] == 's');
	/* Too long for the scratch: cut, never in the clear. */
	struct slice cut = access_redact(SLICE("/?sig=secret&a=b"), &list, scratch, 7);
	assert_null(memmem(cut.at, cut.len, "sec", 3));
}

UNIT_SUITE(test_access_text)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(escapes),
		cmocka_unit_test(cuts_between_escapes),
		cmocka_unit_test(never_beyond),
		cmocka_unit_test(secrets),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
