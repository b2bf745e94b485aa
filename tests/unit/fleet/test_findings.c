/* What a prober publishes: what is written is read again, and nothing else is taken for it. */
#include "fleet/probing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/unit/random.h"
#include "tests/unit/suite.h"

static const struct findings_head head = {
	.fence = 1795472400000001, .number = 7, .lease_ms = 10000};

static struct findings_line line_of(const char *address, const char *saw)
{
	return (struct findings_line){.is_known = true,
		.is_up = true,
		.since_ago_ms = 5,
		.checked_ago_ms = 3,
		.addresses_id = UINT64_MAX,
		.address = slice_of(address),
		.saw = slice_of(saw)};
}

static void assert_same(const struct findings_line *a, const struct findings_line *b)
{
	assert_int_equal(a->is_known, b->is_known);
	assert_int_equal(a->is_up, b->is_up);
	assert_int_equal(a->since_ago_ms, b->since_ago_ms);
	assert_int_equal(a->checked_ago_ms, b->checked_ago_ms);
	assert_true(a->addresses_id == b->addresses_id);
	assert_true(slice_equal(a->address, b->address));
	assert_true(slice_equal(a->saw, b->saw));
}

static void written_and_read(void **state)
{
	char text[512];
	struct findings_writer writer = {.at = text, .size = sizeof(text)};
	struct findings_line lines[] = {line_of("10.0.0.1:80", "status 200"),
		line_of("h:1", "a\nnew 1 2 3"), line_of("[::1]:80", ""), line_of("h:2", "timeout")};
	struct findings_reader reader;
	struct findings_head got;
	struct findings_line line;

	(void)state;
	lines[1].is_up = false;
	lines[2].is_known = lines[2].is_up = false;
	lines[3].is_up = false;
	assert_true(findings_begin(&writer, &head));
	for (unsigned i = 0; i < 4; i++)
		assert_true(findings_add(&writer, &lines[i]));
	assert_true(findings_read_head(&reader, text, writer.len, &got));
	assert_true(got.fence == head.fence && got.number == 7 && got.lease_ms == 10000);
	for (unsigned i = 0; i < 4; i++) {
		assert_true(findings_read_line(&reader, &line));
		assert_same(&line, &lines[i]);
	}
	assert_false(findings_read_line(&reader, &line));
}

/* A server that has no room is left out whole. */
static void without_room(void **state)
{
	struct findings_line line = line_of("10.0.0.1:80", "status 200"), got;
	struct findings_reader reader;
	struct findings_head as_read;

	(void)state;
	for (size_t size = 1; size < 200; size++) {
		char *text = malloc(size);
		struct findings_writer writer = {.at = text, .size = size};
		unsigned count = 0, read = 0;
		if (findings_begin(&writer, &head)) {
			while (findings_add(&writer, &line))
				count++;
			assert_true(writer.len < size);
			assert_true(findings_read_head(&reader, text, writer.len, &as_read));
			while (findings_read_line(&reader, &got))
				read++;
			assert_int_equal(read, count);
		} else {
			assert_int_equal(writer.len, 0);
		}
		free(text);
	}
}

static bool is_head(const char *text)
{
	struct findings_reader reader;
	struct findings_head got;

	return findings_read_head(&reader, text, strlen(text), &got);
}

static void what_is_no_head(void **state)
{
	static const char *const wrong[] = {"", "1", "1 ", "1 2 3 4", "2 1 2 3\n", "1 1 2\n",
		"1 1 2 3 \n", "1  2 3 4\n", "1 -1 2 3\n", "1 99999999999999999999 2 3\n",
		"1 18446744073709551616 2 3\n", "x"};

	(void)state;
	assert_true(is_head("1 2 3 4\n"));
	assert_true(is_head("1 18446744073709551615 3 4\n"));
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		assert_false(is_head(wrong[i]));
}

/* Of a store that says anything: nothing is read beyond the end, which a sanitizer sees. */
static void any_bytes(void **state)
{
	static const char seeds[] = "1 9 1 5\nup 1 2 3 4 2 h:12 ok\ndown 1 2 3 1 0 x \n";
	struct random random = random_begin("findings");

	(void)state;
	for (unsigned round = 0; round < 20000; round++) {
		size_t len = random_below(&random, sizeof(seeds));
		char *text = malloc(len + 1);
		struct findings_reader reader;
		struct findings_head got;
		struct findings_line line;
		memcpy(text, seeds, len);
		for (unsigned i = 0; i < 3 && len > 0; i++) {
			if (random_below(&random, 2))
				text[random_below(&random, len)] =
					"0123456789 \nudnx"[random_below(&random, 16)];
		}
		text = realloc(text, len > 0 ? len : 1);
		bool good = findings_read_head(&reader, text, len, &got);
		for (unsigned i = 0; good && i < 100 && findings_read_line(&reader, &line); i++)
			assert_true(line.address.len + line.saw.len < len);
		free(text);
	}
}

UNIT_SUITE(test_findings)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(written_and_read),
		cmocka_unit_test(without_room),
		cmocka_unit_test(what_is_no_head),
		cmocka_unit_test(any_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
