/* Arrays of integers as the store reads and writes them. */
#include "store/integers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "../random.h"
#include "tests/unit/suite.h"

static void what_is_put_is_read(void **state)
{
	enum { MOST = 200 };
	struct random random = random_begin("integers");
	uint8_t bytes[INTEGERS_HEAD_BYTES + MOST * INTEGERS_MOST_BYTES];
	uint64_t numbers[MOST];

	(void)state;
	for (unsigned round = 0; round < 500; round++) {
		unsigned count = (unsigned)random_below(&random, MOST);
		size_t len = integers_head(bytes, count);
		for (unsigned i = 0; i < count; i++) {
			numbers[i] = random_next(&random) >> random_below(&random, 63) >> 1;
			len += integers_put(bytes + len, numbers[i]);
		}
		struct integers read;
		integers_begin(&read, bytes, len);
		assert_int_equal(read.left, count);
		for (unsigned i = 0; i < count; i++)
			assert_int_equal(integers_next(&read), numbers[i]);
		assert_false(read.wrong);
		assert_ptr_equal(read.at, bytes + len);
		integers_next(&read);
		assert_true(read.wrong);
	}
}

/* Each form that MessagePack has for an integer, and floats that are none. */
static void each_form_is_read(void **state)
{
	static const struct {
		const char *bytes;
		size_t len;
		int64_t number;
	} forms[] = {
		{"\x91\x7f", 2, 127},
		{"\x91\xff", 2, -1},
		{"\x91\xe0", 2, -32},
		{"\x91\xcc\x80", 3, 128},
		{"\x91\xcd\x01\x00", 4, 256},
		{"\x91\xce\x00\x01\x00\x00", 6, 65536},
		{"\x91\xcf\x00\x00\x00\x01\x00\x00\x00\x00", 10, INT64_C(1) << 32},
		{"\x91\xd0\x80", 3, -128},
		{"\x91\xd1\xff\x00", 4, -256},
		{"\x91\xd2\xff\xff\x00\x00", 6, -65536},
		{"\x91\xd3\xff\xff\xff\xff\x00\x00\x00\x00", 10, -(INT64_C(1) << 32)},
		{"\x91\xcb\x40\x08\x00\x00\x00\x00\x00\x00", 10, 3},
		{"\x91\xcb\x43\xd0\x00\x00\x00\x00\x00\x00", 10, INT64_C(1) << 62},
		{"\xdc\x00\x01\x05", 4, 5},
		{"\xdd\x00\x00\x00\x01\x05", 6, 5},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		struct integers read;
		integers_begin(&read, forms[i].bytes, forms[i].len);
		assert_int_equal(integers_next(&read), forms[i].number);
		assert_false(read.wrong);
		for (size_t len = 0; len < forms[i].len; len++) {
			integers_begin(&read, forms[i].bytes, len);
			integers_next(&read);
			assert_true(read.wrong);
		}
	}
}

/* Bytes from the store may be any. */
static void others_are_wrong(void **state)
{
	static const char *const others[] = {"\xc0", "\xa1x", "\x91\xc0", "\x91\xa1x",
		"\x91\x91\x01", "\x91\xcb\x7f\xf8\x00\x00\x00\x00\x00\x01",
		"\x91\xcb\x7f\xef\xff\xff\xff\xff\xff\xff"};
	struct random random = random_begin("bytes");

	(void)state;
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		struct integers read;
		integers_begin(&read, others[i], 11);
		integers_next(&read);
		assert_true(read.wrong);
	}
	for (unsigned round = 0; round < 20000; round++) {
		uint8_t bytes[40];
		struct integers read;
		for (size_t i = 0; i < sizeof(bytes); i++)
			bytes[i] = (uint8_t)random_next(&random);
		bytes[0] = 0xdc;
		integers_begin(&read, bytes, random_below(&random, sizeof(bytes)));
		for (unsigned i = 0; i < 50; i++)
			integers_next(&read);
		assert_true(read.at <= read.end);
	}
}

UNIT_SUITE(test_integers)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_put_is_read),
		cmocka_unit_test(each_form_is_read),
		cmocka_unit_test(others_are_wrong),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
