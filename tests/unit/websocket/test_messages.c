/* Messages: random frames, most of them by the rules, are read as by a plain oracle, however the
 * bytes are cut. */
#include "frames/messages.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "../random.h"
#include "oracle.h"
#include "tests/unit/suite.h"

#define ROOM 40000

struct drawn {
	uint8_t bytes[ROOM];
	size_t len;
};

static void draw_payload(struct random *random, uint8_t opcode, uint8_t *payload, size_t len)
{
	for (size_t i = 0; i < len; i++)
		payload[i] = (uint8_t)(opcode == 1 ? 'a' + random_below(random, 26)
						   : random_next(random));
	if (opcode == 1 && len >= 2 && random_below(random, 2)) {
		static const char *const wrong[] = {"\xc3\x61", "\x61\xc3"}; /* the latter is cut */
		memcpy(payload + len - 2,
			random_below(random, 20) ? "\xc3\xa5" : wrong[random_below(random, 2)], 2);
	}
	if (opcode == 8 && len >= 2) {
		unsigned code = random_below(random, 10) ? 1000 + (unsigned)random_below(random, 4)
							 : (unsigned)random_below(random, 5100);
		payload[0] = (uint8_t)(code >> 8);
		payload[1] = (uint8_t)code;
		memset(payload + 2, 'r', len - 2);
	}
}

static void draw_frame(
	struct random *random, struct drawn *to, uint8_t opcode, bool fin, uint8_t rsv, bool masked)
{
	size_t len = random_below(random, opcode & 8 ? 126 : random_below(random, 30) ? 200 : 3000);
	uint8_t payload[3000], key[4], *at = to->bytes + to->len;

	if (to->len + len + 20 > ROOM)
		return;
	draw_payload(random, opcode, payload, len);
	*at++ = (uint8_t)(fin << 7 | rsv << 4 | opcode);
	*at++ = (uint8_t)(masked << 7 | (len < 126 ? len : 126));
	if (len >= 126) {
		*at++ = (uint8_t)(len >> 8);
		*at++ = (uint8_t)len;
	}
	if (masked) {
		for (int i = 0; i < 4; i++)
			*at++ = key[i] = (uint8_t)random_next(random);
	}
	for (size_t i = 0; i < len; i++)
		*at++ = payload[i] ^ (masked ? key[i % 4] : 0);
	to->len = (size_t)(at - to->bytes);
}

static void draw(struct random *random, const struct oracle_rules *rules, struct drawn *to)
{
	size_t messages = 1 + random_below(random, 8);
	bool faulty = random_below(random, 3) == 0;

	to->len = 0;
	for (size_t i = 0; i < messages; i++) {
		size_t frames = 1 + random_below(random, 4);
		uint8_t opcode = (uint8_t)(1 + random_below(random, 2));
		uint8_t rsv = rules->deflates && random_below(random, 2) ? 4 : 0;
		for (size_t j = 0; j < frames; j++) {
			bool masked = rules->masked;
			uint8_t code = j ? 0 : opcode;
			while (random_below(random, 3) == 0)
				draw_frame(random, to, (uint8_t)(8 + random_below(random, 3)), true,
					0, masked);
			if (faulty && random_below(random, 8) == 0)
				masked = !masked;
			if (faulty && random_below(random, 8) == 0)
				code = (uint8_t)random_below(random, 16);
			draw_frame(random, to, code, j + 1 == frames,
				faulty && random_below(random, 8) == 0
					? (uint8_t)random_below(random, 8)
				: j ? 0
				    : rsv,
				masked);
		}
	}
	if (random_below(random, 4) == 0 && to->len > 0)
		to->len = random_below(random, to->len);
	if (random_below(random, 6) == 0 && to->len > 0)
		to->bytes[random_below(random, to->len)] ^= (uint8_t)(1 << random_below(random, 8));
}

static void note(
	struct oracle_log *log, const struct message_event *event, struct oracle_log *message)
{
	switch (event->kind) {
	case MESSAGE_MORE:
	case MESSAGE_NO_MEMORY:
		break;
	case MESSAGE_DATA:
		if (event->begins)
			message->len = 0;
		oracle_note(message, event->piece.data.at, event->piece.data.len);
		if (event->ends)
			oracle_note_event(log, "data",
				event->opcode * 8u + (event->compressed ? FRAME_RSV1 : 0),
				message->text, message->len);
		break;
	case MESSAGE_PING:
	case MESSAGE_PONG:
	case MESSAGE_CLOSE:
		oracle_note_event(log, "control",
			event->kind == MESSAGE_PING   ? FRAME_PING
			: event->kind == MESSAGE_PONG ? FRAME_PONG
						      : FRAME_CLOSE,
			event->payload.at, event->payload.len);
		break;
	case MESSAGE_BROKEN:
		oracle_note_event(log, "broken", event->code, "", 0);
		break;
	}
}

/* Reads `drawn` in pieces of up to `step`. */
static void read_cut(struct frame_pool *pool, const struct oracle_rules *rules,
	const struct drawn *drawn, size_t step, struct oracle_log *log)
{
	struct message_reader reader = {.masked = rules->masked,
		.deflates = rules->deflates,
		.max_bytes = rules->max_bytes};
	struct message_event event = {.kind = MESSAGE_MORE};
	struct oracle_log message = {0};
	size_t at = 0;

	while (at < drawn->len && event.kind != MESSAGE_BROKEN) {
		size_t len = drawn->len - at < step ? drawn->len - at : step;
		struct slice input = {(const char *)drawn->bytes + at, len};
		at += len;
		do {
			message_read(pool, &reader, &input, &event);
			assert_int_not_equal(event.kind, MESSAGE_NO_MEMORY);
			note(log, &event, &message);
		} while (event.kind != MESSAGE_MORE && event.kind != MESSAGE_BROKEN);
	}
	message_reader_end(pool, &reader);
	free(message.text);
}

static void test_as_by_the_oracle(void **state)
{
	struct random random = random_begin("messages");
	static struct drawn drawn;
	struct frame_pool pool;
	unsigned broken = 0, whole = 0;

	(void)state;
	frame_pool_init(&pool);
	for (int round = 0; round < 4000; round++) {
		struct oracle_rules rules = {random_below(&random, 2), random_below(&random, 2),
			random_below(&random, 4) ? 0 : 100 + random_below(&random, 2000), false};
		struct oracle_log expected = {0};
		draw(&random, &rules, &drawn);
		oracle_read(&rules, drawn.bytes, drawn.len, &expected);
		for (int way = 0; way < 3; way++) {
			struct oracle_log found = {0};
			size_t step = way == 0   ? drawn.len
				      : way == 1 ? 1
						 : 1 + random_below(&random, 5000);
			read_cut(&pool, &rules, &drawn, step, &found);
			assert_int_equal(found.len, expected.len);
			if (expected.len > 0)
				assert_memory_equal(found.text, expected.text, expected.len);
			free(found.text);
		}
		bool is_broken = expected.len >= 18 &&
				 memcmp(expected.text + expected.len - 18, "broken", 6) == 0;
		broken += is_broken;
		whole += !is_broken;
		free(expected.text);
	}
	/* Both kinds were there. */
	assert_in_range(broken, 400, 3600);
	assert_in_range(whole, 400, 3600);
	frame_pool_clear(&pool);
}

static void test_close_codes(void **state)
{
	static const unsigned good[] = {1000, 1003, 1007, 1014, 3000, 4999};
	static const unsigned bad[] = {0, 999, 1004, 1005, 1006, 1015, 1016, 2999, 5000, 65535};

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_true(close_code_is_valid(good[i]));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_false(close_code_is_valid(bad[i]));
}

static void test_close_payload(void **state)
{
	char payload[FRAME_CONTROL_BYTES], reason[200];
	struct slice made = close_payload(CLOSE_POLICY, SLICE("retry-after-ms=5"), payload);

	(void)state;
	assert_int_equal(made.len, 18);
	assert_memory_equal(made.at, "\x03\xf0retry-after-ms=5", 18);
	assert_int_equal(close_payload(CLOSE_NO_CODE, SLICE("x"), payload).len, 0);
	for (size_t i = 0; i + 1 < sizeof(reason); i += 2)
		memcpy(reason + i, "\xc3\xa5", 2);
	made = close_payload(CLOSE_NORMAL, (struct slice){reason, sizeof(reason)}, payload);
	assert_int_equal(made.len, 2 + 122); /* 123 would cut a character */
	assert_int_equal(oracle_utf8((const uint8_t *)made.at + 2, made.len - 2), ORACLE_UTF8);
}

UNIT_SUITE(test_messages)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_as_by_the_oracle),
		cmocka_unit_test(test_close_codes),
		cmocka_unit_test(test_close_payload),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
