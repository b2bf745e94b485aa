/* See base64.h. libcrypto has the digits of section 4 only, and decodes more than it encodes:
 * blanks, padding anywhere, unused bits. So what it has decoded is encoded again and compared, in
 * blocks. */
#include "base/base64.h"

#include <openssl/evp.h>
#include <string.h>

#define BLOCK_BYTES  384
#define BLOCK_DIGITS (BLOCK_BYTES / 3 * 4)

/* The digits of both alphabets that differ. */
static void exchange_digits(
	char *text, size_t len, const char from[static 2], const char to[static 2])
{
	for (size_t i = 0; i < len; i++) {
		if (text[i] == from[0])
			text[i] = to[0];
		else if (text[i] == from[1])
			text[i] = to[1];
	}
}

size_t base64_write(struct slice bytes, char *out)
{
	size_t len = 0;

	out[0] = '\0';
	for (size_t at = 0; at < bytes.len; at += BLOCK_BYTES) {
		size_t block = bytes.len - at < BLOCK_BYTES ? bytes.len - at : BLOCK_BYTES;
		len += (size_t)EVP_EncodeBlock((unsigned char *)out + len,
			(const unsigned char *)bytes.at + at, (int)block);
	}
	return len;
}

size_t base64url_write(struct slice bytes, char *out)
{
	size_t len = base64_write(bytes, out);

	while (len > 0 && out[len - 1] == '=')
		len--;
	out[len] = '\0';
	exchange_digits(out, len, "+/", "-_");
	return len;
}

/* `digits` is without padding; `special` are the two digits of its alphabet that differ. */
static bool decode(struct slice digits, const char special[static 2], char *out, size_t *bytes)
{
	*bytes = 0;
	for (size_t at = 0; at < digits.len; at += BLOCK_DIGITS) {
		size_t len = digits.len - at < BLOCK_DIGITS ? digits.len - at : BLOCK_DIGITS;
		size_t whole = (len + 3) / 4 * 4;
		unsigned char *decoded = (unsigned char *)out + *bytes;
		char block[BLOCK_DIGITS + 1];

		memcpy(block, digits.at + at, len);
		memset(block + len, '=', whole - len);
		exchange_digits(block, len, special, "+/");
		if (EVP_DecodeBlock(decoded, (const unsigned char *)block, (int)whole) !=
			(int)(whole / 4 * 3))
			return false;
		EVP_EncodeBlock((unsigned char *)block, decoded, (int)(len * 3 / 4));
		exchange_digits(block, len, "+/", special);
		if (memcmp(block, digits.at + at, len) != 0)
			return false;
		*bytes += len * 3 / 4;
	}
	return true;
}

bool base64_read(struct slice text, char *out, size_t *bytes)
{
	struct slice digits = text;

	while (digits.len > 0 && text.len - digits.len < 2 && digits.at[digits.len - 1] == '=')
		digits.len--;
	return text.len % 4 == 0 && decode(digits, "+/", out, bytes);
}

bool base64url_read(struct slice text, char *out, size_t *bytes)
{
	return decode(text, "-_", out, bytes);
}
