/* UTF-8 in pieces: the same as in one, and as by its definition. */
#include "frames/messages.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "../random.h"
#include "oracle.h"
#include "tests/unit/suite.h"

static enum oracle_utf8 judge(const uint8_t *bytes, size_t len, size_t cut)
{
	struct utf8 utf8 = {0};

	if (!utf8_continue(&utf8, (struct slice){(const char *)bytes, cut}) ||
		!utf8_continue(&utf8, (struct slice){(const char *)bytes + cut, len - cut}))
		return ORACLE_NOT_UTF8;
	return utf8_is_whole(&utf8) ? ORACLE_UTF8 : ORACLE_UTF8_CUT;
}

static void test_short_texts(void **state)
{
	(void)state;
	for (unsigned n = 0; n < 65536; n++) {
		const uint8_t bytes[] = {(uint8_t)(n >> 8), (uint8_t)n};
		assert_int_equal(judge(bytes, 1, 0), oracle_utf8(bytes, 1));
		assert_int_equal(judge(bytes, 2, n & 1), oracle_utf8(bytes, 2));
	}
}

static void test_edges(void **state)
{
	static const struct {
		const char *text;
		enum oracle_utf8 is;
	} rows[] = {
		{"", ORACLE_UTF8},
		{"\xc3\xa5", ORACLE_UTF8},
		{"\xed\x9f\xbf", ORACLE_UTF8},
		{"\xed\xa0\x80", ORACLE_NOT_UTF8},
		{"\xf4\x8f\xbf\xbf", ORACLE_UTF8},
		{"\xf4\x90\x80\x80", ORACLE_NOT_UTF8},
		{"\xc0\x80", ORACLE_NOT_UTF8},
		{"\xe0\x9f\xbf", ORACLE_NOT_UTF8},
		{"\xf0\x8f\xbf\xbf", ORACLE_NOT_UTF8},
		{"\xf0\x90\x80", ORACLE_UTF8_CUT},
		{"eight by\xf0\x90\x80\x80 and on, after it", ORACLE_UTF8},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const uint8_t *bytes = (const uint8_t *)rows[i].text;
		size_t len = strlen(rows[i].text);
		assert_int_equal(oracle_utf8(bytes, len), rows[i].is);
		for (size_t cut = 0; cut <= len; cut++)
			assert_int_equal(judge(bytes, len, cut), rows[i].is);
	}
}

/* Mostly characters, so that faults come late. */
static size_t draw(struct random *random, uint8_t *bytes, size_t room)
{
	size_t len = 0;

	while (len + 4 <= room && random_below(random, 12) != 0) {
		static const uint8_t firsts[] = {
			'a', 0xc2, 0xdf, 0xe0, 0xe1, 0xed, 0xef, 0xf0, 0xf4};
		uint8_t first = firsts[random_below(random, sizeof(firsts))];
		size_t more = first < 0x80 ? 0 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : 3;
		bytes[len++] = first;
		for (size_t i = 0; i < more; i++)
			bytes[len++] = (uint8_t)(0x80 + random_below(random, 64));
		if (random_below(random, 40) == 0)
			bytes[len - 1] = (uint8_t)random_next(random);
	}
	return len;
}

static void test_random_texts(void **state)
{
	struct random random = random_begin("texts");
	uint8_t bytes[96];

	(void)state;
	for (int round = 0; round < 20000; round++) {
		size_t len = draw(&random, bytes, sizeof(bytes));
		enum oracle_utf8 is = oracle_utf8(bytes, len);
		assert_int_equal(judge(bytes, len, random_below(&random, len + 1)), is);
	}
}

UNIT_SUITE(test_utf8)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_short_texts),
		cmocka_unit_test(test_edges),
		cmocka_unit_test(test_random_texts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
