/* Base64 in both alphabets: what is written is read, and nothing else. */
#include "base/base64.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/suite.h"

#define MOST_BYTES 2000

static bool is_read(struct slice text)
{
	char out[BASE64_ROOM(MOST_BYTES)];
	size_t bytes;

	return base64_read(text, out, &bytes);
}

/* RFC 4648 section 10. */
static void the_examples_of_the_rfc(void **state)
{
	static const char *const rows[][2] = {{"", ""}, {"f", "Zg=="}, {"fo", "Zm8="},
		{"foo", "Zm9v"}, {"foob", "Zm9vYg=="}, {"fooba", "Zm9vYmE="},
		{"foobar", "Zm9vYmFy"}};
	char out[16];
	size_t bytes;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_int_equal(base64_write(slice_of(rows[i][0]), out), strlen(rows[i][1]));
		assert_string_equal(out, rows[i][1]);
		assert_true(base64_read(slice_of(rows[i][1]), out, &bytes));
		assert_true(slice_equal((struct slice){out, bytes}, slice_of(rows[i][0])));
	}
}

/* All lengths around the blocks that are decoded at once, in both alphabets. */
static void every_length_is_read_as_it_was_written(void **state)
{
	char *given = malloc(MOST_BYTES), *text = malloc(BASE64_TEXT_ROOM(MOST_BYTES)),
	     *read = malloc(BASE64_ROOM(BASE64_TEXT_ROOM(MOST_BYTES)));
	size_t bytes;

	(void)state;
	for (size_t i = 0; i < MOST_BYTES; i++)
		given[i] = (char)(i * 7919 >> 3);
	for (size_t len = 0; len <= MOST_BYTES; len++) {
		struct slice whole = {given, len};
		size_t digits = base64_write(whole, text);
		assert_int_equal(digits, BASE64_TEXT_ROOM(len) - 1);
		assert_int_equal(strlen(text), digits);
		assert_true(base64_read((struct slice){text, digits}, read, &bytes));
		assert_true(slice_equal((struct slice){read, bytes}, whole));

		digits = base64url_write(whole, text);
		assert_int_equal(strlen(text), digits);
		assert_null(strpbrk(text, "+/="));
		assert_true(base64url_read((struct slice){text, digits}, read, &bytes));
		assert_true(slice_equal((struct slice){read, bytes}, whole));
	}
	free(given);
	free(text);
	free(read);
}

static void other_texts_are_refused(void **state)
{
	static const char *const texts[] = {"Zg=", "Zg", "Z", "Z===", "====", "=",
		"Zm8=Zm8=", "Zm=v", "Zh==", "Zm9=", " Zm9", "Zm9v\n", "    Zm9v", "Zm9v    ",
		"Zm\n8", "Zm9-", "Zm9_", "Zm9v====", "-AAA", "AAA\x80"};
	char long_text[800];

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (is_read(slice_of(texts[i])))
			fail_msg("\"%s\"", texts[i]);
	}
	assert_false(is_read((struct slice){"Zm9\0", 4}));
	memset(long_text, 'A', sizeof(long_text));
	assert_true(is_read((struct slice){long_text, sizeof(long_text)}));
	for (size_t i = 0; i < sizeof(long_text); i++) {
		long_text[i] = i < sizeof(long_text) - 1 ? '=' : ' ';
		assert_false(is_read((struct slice){long_text, sizeof(long_text)}));
		long_text[i] = 'A';
	}
}

static void base64url_has_no_padding_and_its_own_digits(void **state)
{
	static const char *const texts[] = {
		"Zg==", "Z", "Zh", "Zm9", "ab+c", "ab/c", "Zm8=", "Zm9v "};
	char out[16];
	size_t bytes;

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (base64url_read(slice_of(texts[i]), out, &bytes))
			fail_msg("\"%s\"", texts[i]);
	}
	assert_true(base64url_read(SLICE("-_-_"), out, &bytes));
	assert_memory_equal(out, "\xfb\xff\xbf", 3);
}

UNIT_SUITE(test_base64)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_examples_of_the_rfc),
		cmocka_unit_test(every_length_is_read_as_it_was_written),
		cmocka_unit_test(other_texts_are_refused),
		cmocka_unit_test(base64url_has_no_padding_and_its_own_digits),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
