/* What a call of a function of the store says: its texts, and the integers of its request. */
#ifndef TESTS_UNIT_FLEET_CALL_WORDS_H
#define TESTS_UNIT_FLEET_CALL_WORDS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "store/integers.h"

enum { CALL_TEXTS = 16, CALL_NUMBERS = 64, CALL_TEXT_BYTES = 64 };

struct call_words {
	unsigned count, number_count;
	char texts[CALL_TEXTS][CALL_TEXT_BYTES]; /* their beginnings */
	uint64_t numbers[CALL_NUMBERS];          /* of the first text that is an array */
};

static void call_words_numbers(struct call_words *words, const char *bytes, size_t len)
{
	struct integers numbers;

	if (words->number_count > 0 || len == 0 || (unsigned char)bytes[0] != 0xdd)
		return;
	integers_begin(&numbers, bytes, len);
	while (numbers.left > 0) {
		assert_true(words->number_count < CALL_NUMBERS);
		words->numbers[words->number_count++] = (uint64_t)integers_next(&numbers);
	}
	assert_false(numbers.wrong);
	assert_ptr_equal(numbers.at, numbers.end);
}

/* `command`: an array of bulk strings, whole. */
static void call_words_read(struct call_words *words, const char *command, size_t len)
{
	const char *at = command, *end = command + len;
	char *next;

	memset(words, 0, sizeof(*words));
	assert_true(len > 1 && *at == '*');
	words->count = (unsigned)strtoul(at + 1, &next, 10);
	assert_true(words->count <= CALL_TEXTS);
	at = next + 2;
	for (unsigned i = 0; i < words->count; i++) {
		assert_true(at < end && *at == '$');
		size_t text_len = strtoul(at + 1, &next, 10);
		at = next + 2;
		assert_true((size_t)(end - at) >= text_len + 2);
		memcpy(words->texts[i], at,
			text_len < CALL_TEXT_BYTES ? text_len : CALL_TEXT_BYTES - 1);
		call_words_numbers(words, at, text_len);
		assert_memory_equal(at + text_len, "\r\n", 2);
		at += text_len + 2;
	}
	assert_ptr_equal(at, end);
}

#endif
