#include "base/base64.h"

#include <nettle/base64.h>

static bool is_digit(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '+' || c == '/' || c == '=';
}

bool base64_read(struct slice text, char *out, size_t *bytes)
{
	struct base64_decode_ctx context;

	*bytes = BASE64_ROOM(text.len);
	for (size_t i = 0; i < text.len; i++)
		if (!is_digit(text.at[i])) /* nettle skips blanks */
			return false;
	base64_decode_init(&context);
	return base64_decode_update(&context, bytes, (uint8_t *)out, text.len, text.at) &&
	       base64_decode_final(&context);
}
