/* Max-Forwards: a number is one less for the next server, held to arithmetic by hand on texts of
 * any length; all else stays as it came. A zero is answered: tests/e2e/proxy_basic.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "../http/head.h"
#include "../random.h"
#include "exchange/exchange.h"
#include "exchange/entrance.h"
#include "tests/unit/suite.h"

#define LONGEST 60

/* A request with that value, and the line of another field behind it. */
struct asked {
	char bytes[LONGEST + 64], before[LONGEST + 64];
	struct exchange exchange;
};

static struct asked *ask(enum http_method method, const char *value)
{
	static struct asked asked;
	struct exchange *x = &asked.exchange;

	snprintf(asked.bytes, sizeof(asked.bytes), "Max-Forwards: %s\nX: 9\n", value);
	memcpy(asked.before, asked.bytes, sizeof(asked.before));
	*x = (struct exchange){.memory.head = asked.bytes};
	head_of(&x->request, asked.bytes);
	x->request.method = method;
	return &asked;
}

static struct slice found(const struct asked *asked)
{
	return http_field_value(&asked->exchange.request, &asked->exchange.request.fields[0]);
}

static void expect(enum http_method method, const char *value, const char *expected)
{
	struct asked *asked = ask(method, value);

	assert_false(max_forwards_reached(&asked->exchange));
	if (!slice_equal(found(asked), slice_of(expected)))
		fail_msg("%s became %.*s, not %s", value, SLICE_ARGS(found(asked)), expected);
	/* Nothing but the value's own bytes was written. */
	size_t end = strcspn(asked->before, "\n");
	assert_string_equal(asked->bytes + end, asked->before + end);
	/* The line may be sent as it is: what is too much in it became blanks. */
	for (const char *rest = found(asked).at + found(asked).len; *rest != '\n'; rest++)
		assert_int_equal(*rest, ' ');
	if (strcmp(value, expected) == 0)
		assert_string_equal(asked->bytes, asked->before);
}

static void a_number_is_one_less(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		enum http_method method = i == 0 ? HTTP_METHOD_OPTIONS : HTTP_METHOD_TRACE;
		expect(method, "1", "0");
		expect(method, "9", "8");
		expect(method, "10", "9");
		expect(method, "11", "10");
		expect(method, "100", "99");
		expect(method, "2000", "1999");
		expect(method, "99999999999999999999999999", "99999999999999999999999998");
		expect(method, "100000000000000000000000000", "99999999999999999999999999");
	}
}

static void what_is_no_number_stays(void **state)
{
	static const char *const values[] = {
		"", "x", "1x", "-1", "+1", "1 0", "1, 2", "0x10", "1.0", "/", ":", "0-", "00:"};

	(void)state;
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++)
		expect(HTTP_METHOD_OPTIONS, values[i], values[i]);
}

static void other_methods_keep_theirs(void **state)
{
	(void)state;
	for (unsigned method = 0; method <= HTTP_METHOD_OTHER; method++) {
		if (method == HTTP_METHOD_OPTIONS || method == HTTP_METHOD_TRACE)
			continue;
		expect((enum http_method)method, "0", "0");
		expect((enum http_method)method, "5", "5");
	}
}

/* The value of digits, without leading zeros; "" is 0. */
static struct slice number(struct slice digits)
{
	while (digits.len > 0 && digits.at[0] == '0') {
		digits.at++;
		digits.len--;
	}
	return digits;
}

/* Adds one, as on paper. */
static size_t plus_one(struct slice digits, char out[static LONGEST + 2])
{
	int carry = 1;

	out[0] = '0';
	for (size_t i = digits.len; i > 0; i--) {
		int digit = digits.at[i - 1] - '0' + carry;
		carry = digit / 10;
		out[i] = (char)('0' + digit % 10);
	}
	out[0] = (char)('0' + carry);
	return digits.len + 1;
}

static void any_number_with_one_more_is_what_it_was(void **state)
{
	struct random random = random_begin("numbers");

	(void)state;
	for (int round = 0; round < 100000; round++) {
		char value[LONGEST + 1] = "", again[LONGEST + 2];
		size_t len = 1 + random_below(&random, LONGEST - 1);
		for (size_t i = 0; i < len; i++)
			value[i] = "0019"[random_below(&random, 4)];
		if (number(slice_of(value)).len == 0)
			continue; /* zero */
		struct asked *asked = ask(HTTP_METHOD_OPTIONS, value);
		assert_false(max_forwards_reached(&asked->exchange));
		size_t again_len = plus_one(found(asked), again);
		if (!slice_equal(number((struct slice){again, again_len}), number(slice_of(value))))
			fail_msg("%s became %.*s", value, SLICE_ARGS(found(asked)));
	}
}

UNIT_SUITE(test_max_forwards)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_number_is_one_less),
		cmocka_unit_test(what_is_no_number_stays),
		cmocka_unit_test(other_methods_keep_theirs),
		cmocka_unit_test(any_number_with_one_more_is_what_it_was),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
