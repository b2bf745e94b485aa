/* What a gateway is made of and has no state: when it tries again, what a server has it remember,
 * the answer to a handshake. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "http/text_head.h"
#include "websocket/handshake.h"
#include "channels/meta.h"
#include "gateway/gateway_replay.h"
#include "tests/unit/suite.h"

/* ---- tries ----------------------------------------------------------------------------------- */

static void three_tries_over_three_seconds(void **state)
{
	uint64_t least_ms = 0, most_ms = 0;
	unsigned failed = 1;

	(void)state;
	for (; retry_after_ms(failed, 3, 0) > 0; failed++) {
		least_ms += retry_after_ms(failed, 3, 0);
		most_ms += retry_after_ms(failed, 3, 100 << (failed - 1));
	}
	assert_int_equal(failed, 3);
	assert_int_equal(least_ms, 3000);
	assert_int_equal(most_ms, 3300);
}

static void random_numbers_move_a_try_by_a_tenth(void **state)
{
	(void)state;
	for (uint64_t random = 0; random < 5000; random += 7) {
		assert_in_range(retry_after_ms(1, 3, random), 1000, 1100);
		assert_in_range(retry_after_ms(2, 3, UINT64_MAX - random), 2000, 2200);
	}
	assert_int_equal(retry_after_ms(0, 3, 1), 0);
	assert_int_equal(retry_after_ms(3, 3, 1), 0);
	assert_int_equal(retry_after_ms(UINT32_MAX, 3, 1), 0);
	assert_int_equal(retry_after_ms(1, 1, 1), 0);
	assert_int_equal(retry_after_ms(9, RETRY_TRIES_MOST, 0), 256000);
	assert_int_equal(retry_after_ms(10, RETRY_TRIES_MOST, 0), 0);
	assert_int_equal(retry_after_ms(70, UINT32_MAX, 0), 0);
}

/* ---- meta values ----------------------------------------------------------------------------- */

static const char *lines_of(const struct meta *meta)
{
	static char text[META_BYTES + META_COUNT * 16];
	struct field_sink sink = text_head_over(http_out_over(text, meta_field_bytes(meta)));

	meta_put_fields(meta, &sink);
	assert_false(sink.out.overflow);
	assert_ptr_equal(sink.out.at, sink.out.end); /* the room is exact */
	*sink.out.at = '\0';
	return text;
}

static void sets_and_forgets(void **state)
{
	struct meta meta = {0};

	(void)state;
	assert_string_equal(lines_of(&meta), "");
	assert_int_equal(meta_set(&meta, SLICE("User"), SLICE("alice")), META_SET);
	assert_int_equal(meta_set(&meta, SLICE("Room"), SLICE("1")), META_SET);
	assert_string_equal(lines_of(&meta), "Meta-User: alice\r\nMeta-Room: 1\r\n");
	assert_int_equal(meta_set(&meta, SLICE("user"), SLICE("bob")), META_SET);
	assert_string_equal(lines_of(&meta), "Meta-user: bob\r\nMeta-Room: 1\r\n");
	assert_true(slice_equal(meta_find(&meta, SLICE("USER")), SLICE("bob")));
	assert_int_equal(meta_set(&meta, SLICE("USER"), SLICE("")), META_SET);
	assert_string_equal(lines_of(&meta), "Meta-Room: 1\r\n");
	assert_null(meta_find(&meta, SLICE("User")).at);
	assert_int_equal(meta_set(&meta, SLICE("never"), SLICE("")), META_SET);
	meta_clear(&meta);
	assert_int_equal(meta.count + meta.bytes, 0);
}

static void count_is_bounded(void **state)
{
	struct meta meta = {0};
	char name[16];

	(void)state;
	for (unsigned i = 0; i < META_COUNT; i++) {
		snprintf(name, sizeof(name), "n%u", i);
		assert_int_equal(meta_set(&meta, slice_of(name), SLICE("v")), META_SET);
	}
	assert_int_equal(meta_set(&meta, SLICE("more"), SLICE("v")), META_FULL);
	assert_int_equal(meta_set(&meta, SLICE("n7"), SLICE("w")), META_SET);
	assert_int_equal(meta_set(&meta, SLICE("n7"), SLICE("")), META_SET);
	assert_int_equal(meta_set(&meta, SLICE("more"), SLICE("v")), META_SET);
	assert_int_equal(meta.count, META_COUNT);
	meta_clear(&meta);
}

static void bytes_are_bounded(void **state)
{
	static char value[META_BYTES + 1];
	struct meta meta = {0};

	(void)state;
	memset(value, 'x', sizeof(value));
	assert_int_equal(meta_set(&meta, SLICE("a"), (struct slice){value, META_BYTES}), META_FULL);
	assert_int_equal(meta_set(&meta, SLICE("a"), (struct slice){value, SIZE_MAX}), META_FULL);
	assert_int_equal(
		meta_set(&meta, SLICE("a"), (struct slice){value, META_BYTES - 1}), META_SET);
	assert_int_equal(meta_set(&meta, SLICE("b"), SLICE("1")), META_FULL);
	assert_int_equal(meta_set(&meta, SLICE("a"), SLICE("short")), META_SET);
	assert_int_equal(meta_set(&meta, SLICE("b"), SLICE("1")), META_SET);
	assert_int_equal(meta.bytes, strlen("ashortb1"));
	assert_int_equal(meta_set(&meta, SLICE(""), SLICE("1")), META_FULL);
	meta_clear(&meta);
}

/* ---- the handshake --------------------------------------------------------------------------- */

static void accepts_as_rfc_6455_says(void **state)
{
	static const struct {
		const char *key, *accept;
	} rows[] = {
		{"dGhlIHNhbXBsZSBub25jZQ==", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="},
		/* So long that the length is in a block of its own, and longer (hashlib of Python)
		 */
		{"x3JJHMbDL1EzLkh9GBhXDw==", "HSmrc0sMlYUkAGmm5OPpG2HaGWk="},
		{"aaaaaaaaaaaaaaaaaaa", "yzaGyu0mcUukN7CdsSwa30tnCpc="},
		{"", "Kfh9QIsMVZcl6xEPYxPHzW8SZ8w="},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		char accept[ACCEPT_BYTES + 1] = {0};
		accept_make(slice_of(rows[i].key), accept);
		assert_string_equal(accept, rows[i].accept);
	}
}

UNIT_SUITE(test_gateway_parts)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(three_tries_over_three_seconds),
		cmocka_unit_test(random_numbers_move_a_try_by_a_tenth),
		cmocka_unit_test(sets_and_forgets),
		cmocka_unit_test(count_is_bounded),
		cmocka_unit_test(bytes_are_bounded),
		cmocka_unit_test(accepts_as_rfc_6455_says),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
