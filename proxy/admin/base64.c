#include "admin/base64.h"

#include <stdint.h>
#include <string.h>

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/* 0 to 63, or -1. */
static int value_of(char c)
{
	const char *at = c ? strchr(digits, c) : NULL;

	return at ? (int)(at - digits) : -1;
}

/* Four digits, of which the last `padding` are '='. */
static bool decode_four(const char *text, unsigned padding, char out[3])
{
	uint32_t bits = 0;

	for (unsigned i = 0; i < 4; i++) {
		int value = i < 4 - padding ? value_of(text[i]) : 0;
		if (value < 0)
			return false;
		bits = bits << 6 | (uint32_t)value;
	}
	/* What padding leaves over of the last digit is 0. */
	if (bits & ((UINT32_C(1) << 8 * padding) - 1))
		return false;
	out[0] = (char)(bits >> 16);
	if (padding < 2)
		out[1] = (char)(bits >> 8);
	if (padding < 1)
		out[2] = (char)bits;
	return true;
}

bool base64_decode(const char *text, size_t len, char *out, size_t *bytes)
{
	unsigned padding = 0;

	*bytes = 0;
	if (len % 4 != 0)
		return false;
	while (padding < 2 && len > padding && text[len - 1 - padding] == '=')
		padding++;
	for (size_t i = 0; i < len; i += 4) {
		unsigned of = i + 4 == len ? padding : 0;
		if (!decode_four(text + i, of, out + *bytes))
			return false;
		*bytes += 3 - of;
	}
	return true;
}
