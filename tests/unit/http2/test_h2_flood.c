/* Frames are counted by kind, wherever the bytes are cut. */
#include "http2/h2_flood.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "tests/unit/suite.h"

#define SECOND CLOCK_NS_PER_S

static size_t put(uint8_t *at, unsigned type, unsigned flags, size_t len)
{
	const uint8_t head[9] = {(uint8_t)(len >> 16), (uint8_t)(len >> 8), (uint8_t)len,
		(uint8_t)type, (uint8_t)flags, 0, 0, 0, 1};

	memcpy(at, head, sizeof(head));
	memset(at + sizeof(head), 1, len);
	return sizeof(head) + len;
}

/* How many of these frames are taken at once, cut into pieces of `piece` bytes. */
static unsigned taken(unsigned type, unsigned flags, size_t len, unsigned most, size_t piece)
{
	struct h2_flood flood = {.preface_left = 0, .block_most = 1000};
	uint8_t bytes[2048];
	size_t frame = put(bytes, type, flags, len);

	for (unsigned count = 0; count < most; count++) {
		for (size_t at = 0; at < frame; at += piece) {
			size_t part = frame - at < piece ? frame - at : piece;
			if (h2_flood_walk(&flood, bytes + at, part, SECOND) != H2_FLOOD_NONE)
				return count;
		}
	}
	return most;
}

static void each_kind_has_a_burst(void **state)
{
	(void)state;
	for (size_t piece = 1; piece < 20; piece += 6) {
		assert_int_equal(taken(6, 0, 8, 10000, piece), 100);  /* PING */
		assert_int_equal(taken(4, 0, 6, 10000, piece), 30);   /* SETTINGS */
		assert_int_equal(taken(3, 0, 4, 10000, piece), 500);  /* RST_STREAM */
		assert_int_equal(taken(2, 0, 5, 10000, piece), 2000); /* PRIORITY */
		assert_int_equal(taken(16, 0, 5, 10000, piece), 2000);
		assert_int_equal(taken(8, 0, 4, 10000, piece), 2000); /* WINDOW_UPDATE */
		assert_int_equal(taken(0, 0, 0, 10000, piece), 200);  /* DATA */
		assert_int_equal(taken(99, 0, 3, 10000, piece), 200);
	}
}

static void content_is_no_flood(void **state)
{
	(void)state;
	assert_int_equal(taken(0, 0, 1, 10000, 7), 10000);
	assert_int_equal(taken(0, 1, 0, 10000, 7), 10000); /* END_STREAM */
	assert_int_equal(taken(0, 8, 3, 10000, 7), 10000); /* of 3 bytes, one is padding */
	assert_int_equal(taken(0, 8, 2, 10000, 7), 200);   /* all of it */
	assert_int_equal(taken(1, 4, 900, 10000, 7), 10000);
}

static void header_blocks_are_bounded(void **state)
{
	(void)state;
	assert_int_equal(taken(1, 4, 1001, 10, 7), 0);
	struct h2_flood flood = {.block_most = 1000};
	uint8_t bytes[2048];
	size_t head = put(bytes, 1, 0, 500), more = put(bytes + head, 9, 0, 501);
	assert_int_equal(h2_flood_walk(&flood, bytes, head, SECOND), H2_FLOOD_NONE);
	assert_int_equal(h2_flood_walk(&flood, bytes + head, more, SECOND), H2_FLOOD_HEADERS);
	flood = (struct h2_flood){.block_most = 1000};
	for (unsigned i = 0; i < 8; i++) {
		size_t len = put(bytes, i == 0 ? 1 : 9, 0, 0);
		assert_int_equal(h2_flood_walk(&flood, bytes, len, SECOND), H2_FLOOD_NONE);
	}
	size_t len = put(bytes, 9, 0, 0);
	assert_int_equal(h2_flood_walk(&flood, bytes, len, SECOND), H2_FLOOD_HEADERS);
}

static void time_and_data_fill_it_again(void **state)
{
	struct h2_flood flood = {.preface_left = 0};

	(void)state;
	while (h2_flood_count(&flood, H2_FLOOD_PING, SECOND))
		;
	assert_true(h2_flood_count(&flood, H2_FLOOD_PING, SECOND + SECOND / 10));
	assert_false(h2_flood_count(&flood, H2_FLOOD_PING, SECOND + SECOND / 10));
	uint8_t bytes[16];
	size_t len = put(bytes, 8, 0, 4);
	for (unsigned i = 0; i < 2000; i++)
		assert_int_equal(h2_flood_walk(&flood, bytes, len, SECOND), H2_FLOOD_NONE);
	h2_flood_sent_data(&flood);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(h2_flood_walk(&flood, bytes, len, SECOND), H2_FLOOD_NONE);
	assert_int_equal(h2_flood_walk(&flood, bytes, len, SECOND), H2_FLOOD_WINDOW);
}

static void the_preface_is_no_frame(void **state)
{
	struct h2_flood flood = {.preface_left = 24};
	const uint8_t preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

	(void)state;
	assert_int_equal(h2_flood_walk(&flood, preface, 10, SECOND), H2_FLOOD_NONE);
	assert_int_equal(h2_flood_walk(&flood, preface + 10, 14, SECOND), H2_FLOOD_NONE);
	assert_int_equal(flood.head_len, 0);
}

UNIT_SUITE(test_h2_flood)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_kind_has_a_burst),
		cmocka_unit_test(content_is_no_flood),
		cmocka_unit_test(header_blocks_are_bounded),
		cmocka_unit_test(time_and_data_fill_it_again),
		cmocka_unit_test(the_preface_is_no_frame),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
