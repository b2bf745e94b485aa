#include "frames/utf8.h"

#include <string.h>

/* The first byte of a character. The second one's bounds keep out surrogates, what is longer than
 * it has to be, and what is above U+10FFFF. */
static bool begin(struct utf8 *utf8, uint8_t byte)
{
	utf8->low = 0x80;
	utf8->high = 0xbf;
	if (byte >= 0xc2 && byte <= 0xdf) {
		utf8->left = 1;
	} else if (byte >= 0xe0 && byte <= 0xef) {
		utf8->left = 2;
		if (byte == 0xe0)
			utf8->low = 0xa0;
		if (byte == 0xed)
			utf8->high = 0x9f;
	} else if (byte >= 0xf0 && byte <= 0xf4) {
		utf8->left = 3;
		if (byte == 0xf0)
			utf8->low = 0x90;
		if (byte == 0xf4)
			utf8->high = 0x8f;
	} else {
		return false;
	}
	return true;
}

/* How many of the first bytes are ASCII, eight at a time. */
static size_t skip_ascii(struct slice bytes)
{
	size_t at = 0;

	for (uint64_t word; at + sizeof(word) <= bytes.len; at += sizeof(word)) {
		memcpy(&word, bytes.at + at, sizeof(word));
		if (word & UINT64_C(0x8080808080808080))
			break;
	}
	return at;
}

bool utf8_continue(struct utf8 *utf8, struct slice bytes)
{
	size_t i = utf8->left == 0 ? skip_ascii(bytes) : 0;

	while (i < bytes.len) {
		uint8_t byte = (uint8_t)bytes.at[i++];
		if (utf8->left > 0) {
			if (byte < utf8->low || byte > utf8->high)
				return false;
			utf8->low = 0x80;
			utf8->high = 0xbf;
			if (--utf8->left == 0)
				i += skip_ascii((struct slice){bytes.at + i, bytes.len - i});
		} else if (byte >= 0x80 && !begin(utf8, byte)) {
			return false;
		}
	}
	return true;
}

bool utf8_is_valid(struct slice text)
{
	struct utf8 utf8 = {0};

	return utf8_continue(&utf8, text) && utf8_is_whole(&utf8);
}
