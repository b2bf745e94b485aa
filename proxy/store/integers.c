/* MessagePack (github.com/msgpack/msgpack/blob/master/spec.md): arrays and integers. What writes
 * them, Lua's numbers, may also say an integer as a float of 64 bits. */
#include "store/integers.h"

#include <string.h>

enum {
	ARRAY_FIX = 0x90, /* and the count, up to 15 */
	FLOAT_64 = 0xcb,
	UINT_8 = 0xcc,
	UINT_16 = 0xcd,
	UINT_32 = 0xce,
	UINT_64 = 0xcf,
	INT_8 = 0xd0,
	INT_16 = 0xd1,
	INT_32 = 0xd2,
	INT_64 = 0xd3,
	ARRAY_16 = 0xdc,
	ARRAY_32 = 0xdd,
	NEGATIVE_FIX = 0xe0,
};

static size_t put_bytes(uint8_t *out, uint8_t kind, uint64_t number, unsigned bytes)
{
	out[0] = kind;
	for (unsigned i = 0; i < bytes; i++)
		out[1 + i] = (uint8_t)(number >> 8 * (bytes - 1 - i));
	return 1 + bytes;
}

size_t integers_head(uint8_t *out, uint32_t count)
{
	return put_bytes(out, ARRAY_32, count, 4);
}

size_t integers_put(uint8_t *out, uint64_t number)
{
	if (number < 0x80) {
		out[0] = (uint8_t)number;
		return 1;
	}
	if (number <= UINT8_MAX)
		return put_bytes(out, UINT_8, number, 1);
	if (number <= UINT16_MAX)
		return put_bytes(out, UINT_16, number, 2);
	if (number <= UINT32_MAX)
		return put_bytes(out, UINT_32, number, 4);
	return put_bytes(out, UINT_64, number, 8);
}

/* A number of so many bytes, most significant first. */
static uint64_t take_bytes(struct integers *integers, unsigned bytes)
{
	uint64_t number = 0;

	if ((size_t)(integers->end - integers->at) < bytes) {
		integers->wrong = true;
		integers->at = integers->end;
		return 0;
	}
	for (unsigned i = 0; i < bytes; i++)
		number = number << 8 | *integers->at++;
	return number;
}

void integers_begin(struct integers *integers, const void *bytes, size_t len)
{
	const uint8_t *at = bytes;

	*integers = (struct integers){.at = at, .end = at + len};
	uint8_t kind = (uint8_t)take_bytes(integers, 1);
	if (kind == ARRAY_16)
		integers->left = (uint32_t)take_bytes(integers, 2);
	else if (kind == ARRAY_32)
		integers->left = (uint32_t)take_bytes(integers, 4);
	else if ((kind & 0xf0) == ARRAY_FIX)
		integers->left = kind & 0x0f;
	else
		integers->wrong = true;
}

static int64_t float_of(struct integers *integers, uint64_t bits)
{
	double number;

	memcpy(&number, &bits, sizeof(number));
	if (!(number > -0x1p63 && number < 0x1p63)) {
		integers->wrong = true;
		return 0;
	}
	return (int64_t)number;
}

void integers_begin_doubles(struct integers *integers, const void *bytes, size_t len)
{
	const uint8_t *at = bytes;

	*integers = (struct integers){.at = at, .end = at + len, .doubles = true};
	integers->left = (uint32_t)(len / 8);
	integers->wrong = len % 8 != 0 || len / 8 > UINT32_MAX;
}

static int64_t take_double(struct integers *integers)
{
	uint64_t bits = 0;

	for (unsigned i = 0; i < 8; i++)
		bits |= (uint64_t)integers->at[i] << 8 * i;
	integers->at += 8;
	return float_of(integers, bits);
}

int64_t integers_next(struct integers *integers)
{
	if (integers->left == 0 || integers->wrong) {
		integers->wrong = true;
		return 0;
	}
	integers->left--;
	if (integers->doubles)
		return take_double(integers);
	uint8_t kind = (uint8_t)take_bytes(integers, 1);
	if (kind < 0x80)
		return kind;
	if (kind >= NEGATIVE_FIX)
		return (int8_t)kind;
	switch (kind) {
	case UINT_8:
		return (int64_t)take_bytes(integers, 1);
	case UINT_16:
		return (int64_t)take_bytes(integers, 2);
	case UINT_32:
		return (int64_t)take_bytes(integers, 4);
	case UINT_64:
	case INT_64:
		return (int64_t)take_bytes(integers, 8);
	case INT_8:
		return (int8_t)take_bytes(integers, 1);
	case INT_16:
		return (int16_t)take_bytes(integers, 2);
	case INT_32:
		return (int32_t)take_bytes(integers, 4);
	case FLOAT_64:
		return float_of(integers, take_bytes(integers, 8));
	default:
		integers->wrong = true;
		return 0;
	}
}
