/* The quick way through a head: what it passes over, 16 bytes at a time and at the buffer's end. */
#include "http/head_scan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "http/bytes16.h"
#include "tests/unit/suite.h"

static bool is_control(unsigned c)
{
	return c < 0x20 || c == 0x7f;
}

static bool is_no_name(unsigned c)
{
	return !((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-');
}

static bool is_no_target(unsigned c)
{
	return c <= 0x20 || c >= 0x7f || c == '#';
}

static bool is_no_host(unsigned c)
{
	return !((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.');
}

static unsigned not_host(const char *at)
{
	return bytes16_not_host(at, at + 8);
}

static unsigned not_host_plain(const char *at)
{
	return bytes16_not_host_plain(at, at + 8);
}

/* Every byte at every place among bytes that end the run and among bytes that don't. */
static void every_byte(void **state)
{
	static const struct {
		bool (*ends_run)(unsigned c);
		unsigned (*fast)(const char *at), (*plain)(const char *at);
	} rows[] = {
		{is_control, bytes16_controls, bytes16_controls_plain},
		{is_no_name, bytes16_not_name, bytes16_not_name_plain},
		{is_no_target, bytes16_not_target, bytes16_not_target_plain},
		{is_no_host, not_host, not_host_plain},
	};
	static const char around[] = {'a', '\0', '\x7f', '\xff', '#'};
	char bytes[16];

	(void)state;
	for (size_t row = 0; row < sizeof(rows) / sizeof(rows[0]); row++) {
		for (size_t i = 0; i < sizeof(around) * 16 * 256; i++) {
			unsigned c = i % 256, place = i / 256 % 16;
			unsigned char other = (unsigned char)around[i / 256 / 16];
			unsigned all = rows[row].ends_run(other) ? 0xffff : 0;
			unsigned bit = 1u << place;
			unsigned expected = rows[row].ends_run(c) ? all | bit : all & ~bit;
			memset(bytes, other, sizeof(bytes));
			bytes[place] = (char)c;
			assert_int_equal(rows[row].fast(bytes), expected);
			assert_int_equal(rows[row].plain(bytes), expected);
		}
	}
}

/* Scans a copy with nothing behind it, so that a read beyond the end is seen. */
static bool scans(const char *text, size_t len, struct http_head *head)
{
	static const struct http_parser_limits none = {0};
	char *copy = malloc(len);

	assert_non_null(copy);
	memcpy(copy, text, len);
	http_head_init(head);
	bool plain = http_scan_request(head, copy, len, &none);
	free(copy);
	return plain;
}

#define MOST 40

static char *fill(char *at, char c, size_t len)
{
	memset(at, c, len);
	return at + len;
}

/* A head whose target, name and value have these lengths; returns the head's. */
static size_t compose(char *out, size_t target, size_t name, size_t value)
{
	char *at = fill(stpcpy(out, "GET /"), 't', target);

	at = fill(stpcpy(at, " HTTP/1.1\r\n"), 'n', name);
	at = fill(stpcpy(at, ": "), 'v', value);
	at = stpcpy(at, "\r\n\r\n");
	return (size_t)(at - out);
}

static void every_length(void **state)
{
	char text[4 * MOST];
	struct http_head head;

	(void)state;
	for (size_t i = 0; i < MOST * MOST; i++) {
		size_t name = 1 + i % MOST, value = i / MOST, target = (name * 7 + value) % MOST;
		size_t len = compose(text, target, name, value);
		assert_true(scans(text, len, &head));
		assert_int_equal(head.len, len);
		assert_int_equal(head.target_len, 1 + target);
		assert_int_equal(head.field_count, 1);
		assert_int_equal(head.fields[0].name_len, name);
		assert_int_equal(head.fields[0].value_len, value);
		for (size_t part = 0; part < len; part++)
			assert_false(scans(text, part, &head));
	}
}

/* One byte of every kind at every place of target, name and value. */
static void every_place(void **state)
{
	char text[4 * MOST];
	struct http_head head;

	(void)state;
	for (size_t i = 0; i < 256 * MOST; i++) {
		size_t place = i % MOST;
		unsigned c = (unsigned)(i / MOST);
		bool is_tchar = c != 0 && c < 0x80 &&
				(!is_no_name(c) || strchr("!#$%&'*+.^_`|~0123456789", (int)c));

		size_t len = compose(text, MOST, 1, 1);
		text[strlen("GET /") + place] = (char)c;
		/* A space ends the target; what follows isn't a version then. */
		assert_int_equal(scans(text, len, &head), !is_no_target(c));

		len = compose(text, 0, MOST, 1);
		text[strlen("GET / HTTP/1.1\r\n") + place] = (char)c;
		/* So does a colon the name, with the rest as value; not with nothing in front. */
		assert_int_equal(scans(text, len, &head), is_tchar || (c == ':' && place > 0));

		len = compose(text, 0, 1, MOST);
		text[strlen("GET / HTTP/1.1\r\nn: ") + place] = (char)c;
		assert_int_equal(scans(text, len, &head), !is_control(c) || c == '\t');
	}
}

UNIT_SUITE(test_head_scan)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_byte),
		cmocka_unit_test(every_length),
		cmocka_unit_test(every_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
