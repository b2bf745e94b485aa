#include "base/digest.h"

#include <nettle/sha2.h>
#include <stdbool.h>
#include <string.h>

static const char digits[] = "0123456789abcdef";

void digest_make(struct slice data, unsigned char digest[static DIGEST_BYTES])
{
	struct sha256_ctx context;

	sha256_init(&context);
	sha256_update(&context, data.len, (const uint8_t *)data.at);
	sha256_digest(&context, DIGEST_BYTES, digest);
}

void digest_text(struct slice data, char out[static DIGEST_TEXT_BYTES])
{
	unsigned char digest[DIGEST_BYTES];

	digest_make(data, digest);
	memcpy(out, DIGEST_PREFIX, strlen(DIGEST_PREFIX));
	out += strlen(DIGEST_PREFIX);
	for (size_t i = 0; i < sizeof(digest); i++) {
		*out++ = digits[digest[i] >> 4];
		*out++ = digits[digest[i] & 0xf];
	}
}

bool digest_is_text(struct slice text)
{
	size_t prefix = strlen(DIGEST_PREFIX);

	if (text.len != DIGEST_TEXT_BYTES || memcmp(text.at, DIGEST_PREFIX, prefix) != 0)
		return false;
	for (size_t i = prefix; i < text.len; i++) {
		if (!memchr(digits, text.at[i], sizeof(digits) - 1))
			return false;
	}
	return true;
}
