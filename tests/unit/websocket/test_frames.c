/* Frames: what is written is what is read, however both are cut; a connection between frames has no
 * memory of wslay's. */
#include "frames/frames.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "../random.h"
#include "tests/unit/suite.h"

struct bytes {
	struct frame_sink sink;
	char *at;
	size_t len, room;
	bool is_full; /* it takes no more */
};

static bool put(struct frame_sink *sink, struct slice bytes)
{
	struct bytes *to = (struct bytes *)sink;

	if (to->is_full)
		return false;
	if (to->len + bytes.len > to->room) {
		to->room = 2 * (to->len + bytes.len);
		to->at = realloc(to->at, to->room);
		assert_non_null(to->at);
	}
	if (bytes.len > 0)
		memcpy(to->at + to->len, bytes.at, bytes.len);
	to->len += bytes.len;
	return true;
}

static void fill(struct random *random, char *at, size_t len)
{
	for (size_t i = 0; i < len; i++)
		at[i] = (char)random_next(random);
}

/* Reads one frame out of all of `bytes`, given in pieces of up to `step`. */
static void read_back(struct frame_pool *pool, const struct bytes *bytes, size_t step,
	const struct frame *frame, const char *payload)
{
	struct frame_reader reader = {0};
	struct frame_piece piece;
	size_t at = 0, got = 0;
	bool ended = false;

	while (!ended || at < bytes->len) {
		size_t len = bytes->len - at < step ? bytes->len - at : step;
		struct slice input = {bytes->at + at, len};
		at += len;
		for (;;) {
			enum frame_result result = frame_read(pool, &reader, &input, &piece);
			if (result == FRAME_MORE)
				break;
			assert_int_equal(result, FRAME_PIECE);
			assert_false(ended);
			assert_int_equal(piece.begins, got == 0);
			assert_int_equal(piece.frame.opcode, frame->opcode);
			assert_int_equal(piece.frame.rsv, frame->rsv);
			assert_int_equal(piece.frame.fin, frame->fin);
			assert_int_equal(piece.frame.masked, frame->masked);
			assert_int_equal(piece.frame.length, frame->length);
			assert_memory_equal(piece.data.at, payload + got, piece.data.len);
			got += piece.data.len;
			ended = piece.ends;
			assert_int_equal(ended, got == frame->length);
		}
		assert_int_equal(input.len, 0);
	}
	assert_null(reader.context);
	assert_false(frame_reader_is_ahead(&reader));
}

static const size_t lengths[] = {0, 1, 124, 125, 126, 127, 4090, 4096, 5000, 65535, 65536, 200000};

static void test_round_trip(void **state)
{
	struct random random = random_begin("frames");
	struct frame_pool pool;
	char *payload = malloc(200000);

	(void)state;
	frame_pool_init(&pool);
	fill(&random, payload, 200000);
	for (size_t i = 0; i < 2 * sizeof(lengths) / sizeof(lengths[0]); i++) {
		struct bytes bytes = {.sink = {put}};
		struct frame_writer writer = {0};
		struct frame frame = {.opcode = FRAME_BINARY,
			.rsv = random_below(&random, 2) ? FRAME_RSV1 : 0,
			.fin = random_below(&random, 2),
			.masked = i % 2,
			.length = lengths[i / 2]};
		size_t at = 0;
		do {
			size_t len = random_below(&random, frame.length - at + 1);
			assert_true(frame_write(&pool, &writer, &frame,
				(struct slice){payload + at, len}, &bytes.sink));
			at += len;
		} while (writer.context);
		assert_int_equal(at, frame.length);
		read_back(&pool, &bytes, bytes.len, &frame, payload);
		read_back(&pool, &bytes, 1 + random_below(&random, 7000), &frame, payload);
		if (bytes.len < 5000)
			read_back(&pool, &bytes, 1, &frame, payload);
		free(bytes.at);
	}
	free(payload);
	frame_pool_clear(&pool);
}

/* A key a frame, that nobody can guess; the payload of an unmasked one is as it is, also when the
 * same thread masks others. */
static void test_masks(void **state)
{
	struct frame_pool pool;
	char keys[300][4];

	(void)state;
	frame_pool_init(&pool);
	for (size_t i = 0; i < 300; i++) {
		struct bytes bytes = {.sink = {put}}, plain = {.sink = {put}};
		assert_true(
			frame_write_whole(&pool, FRAME_TEXT, 0, true, SLICE("hello"), &bytes.sink));
		assert_true(frame_write_whole(
			&pool, FRAME_TEXT, 0, false, SLICE("hello"), &plain.sink));
		assert_int_equal(bytes.len, 2 + 4 + 5);
		assert_int_equal(plain.len, 2 + 5);
		assert_memory_equal(plain.at, "\x81\x05hello", 7);
		memcpy(keys[i], bytes.at + 2, 4);
		for (size_t j = 0; j < 5; j++)
			assert_int_equal(bytes.at[6 + j] ^ keys[i][j % 4], "hello"[j]);
		free(bytes.at);
		free(plain.at);
	}
	size_t same = 0;
	for (size_t i = 0; i < 300; i++)
		for (size_t j = 0; j < i; j++)
			same += memcmp(keys[i], keys[j], 4) == 0;
	assert_in_range(same, 0, 2); /* of 45000 pairs, each by a chance of 1 in 4 billion */
	frame_pool_clear(&pool);
}

static void test_no_room(void **state)
{
	struct frame_pool pool;
	struct bytes bytes = {.sink = {put}, .is_full = true};

	(void)state;
	frame_pool_init(&pool);
	for (int i = 0; i < 2; i++) {
		assert_false(
			frame_write_whole(&pool, FRAME_TEXT, 0, i, SLICE("hello"), &bytes.sink));
		assert_int_equal(pool.kept_count[i], 0); /* it may be within a frame */
	}
	frame_pool_clear(&pool);
}

/* Two frames and the beginning of a third in one piece: what is read ahead belongs to its reader.
 */
static void test_read_ahead(void **state)
{
	static const char text[] = "\x81\x03one\x82\x03two\x89";
	struct frame_pool pool;
	struct frame_reader reader = {0}, other = {0};
	struct frame_piece piece;
	struct slice input = {text, sizeof(text) - 1}, theirs = SLICE("\x81\x02hi"),
		     end = SLICE("\0");

	(void)state;
	frame_pool_init(&pool);
	assert_int_equal(frame_read(&pool, &reader, &input, &piece), FRAME_PIECE);
	assert_memory_equal(piece.data.at, "one", 3);
	assert_true(frame_reader_is_ahead(&reader));
	assert_int_equal(frame_read(&pool, &other, &theirs, &piece), FRAME_PIECE);
	assert_memory_equal(piece.data.at, "hi", 2);
	assert_false(frame_reader_is_ahead(&other));
	assert_int_equal(frame_read(&pool, &other, &theirs, &piece), FRAME_MORE);
	assert_null(other.context);
	assert_int_equal(frame_read(&pool, &reader, &input, &piece), FRAME_PIECE);
	assert_memory_equal(piece.data.at, "two", 3);
	assert_int_equal(frame_read(&pool, &reader, &input, &piece), FRAME_MORE);
	assert_non_null(reader.context);
	end.len = 1;
	assert_int_equal(frame_read(&pool, &reader, &end, &piece), FRAME_PIECE);
	assert_int_equal(piece.frame.opcode, FRAME_PING);
	assert_int_equal(frame_read(&pool, &reader, &end, &piece), FRAME_MORE);
	assert_null(reader.context);
	assert_int_equal(pool.kept_count[0], 2);
	frame_pool_clear(&pool);
}

UNIT_SUITE(test_frames)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_masks),
		cmocka_unit_test(test_no_room),
		cmocka_unit_test(test_read_ahead),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
