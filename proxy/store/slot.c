#include "store/slot.h"

#include <string.h>

/* CRC-16/XMODEM: polynomial 0x1021, nothing reflected, begun with 0. */
static uint16_t crc16(const char *bytes, size_t len)
{
	uint32_t crc = 0;

	for (size_t i = 0; i < len; i++) {
		crc ^= (uint32_t)(unsigned char)bytes[i] << 8;
		for (int bit = 0; bit < 8; bit++)
			crc = crc & 0x8000 ? crc << 1 ^ 0x1021 : crc << 1;
		crc &= 0xffff;
	}
	return (uint16_t)crc;
}

uint16_t slot_of_key(const char *key, size_t len)
{
	const char *open = memchr(key, '{', len);
	const char *close = open ? memchr(open, '}', len - (size_t)(open - key)) : NULL;

	if (close && close > open + 1)
		return crc16(open + 1, (size_t)(close - open - 1)) % SLOTS;
	return crc16(key, len) % SLOTS;
}

void slot_write_tag(unsigned part, char tag[SLOT_TAG_BYTES])
{
	static const char digits[] = "0123456789abcdef";
	unsigned number = (part - 1) % SLOT_PARTS;

	tag[0] = digits[number >> 8];
	tag[1] = digits[number >> 4 & 15];
	tag[2] = digits[number & 15];
	tag[3] = '\0';
}

uint16_t slot_of_part(unsigned part)
{
	char tag[SLOT_TAG_BYTES];

	if (part == 0)
		return 0;
	slot_write_tag(part, tag);
	return crc16(tag, SLOT_TAG_BYTES - 1) % SLOTS;
}
