#include "http/out.h"

void http_out_number(struct http_out *out, uint64_t number)
{
	char digits[20];
	size_t at = sizeof(digits);

	do {
		digits[--at] = (char)('0' + number % 10);
		number /= 10;
	} while (number > 0);
	http_out_slice(out, (struct slice){digits + at, sizeof(digits) - at});
}

static bool is_printable(char c)
{
	return c >= 0x20 && c < 0x7f;
}

void http_out_json(struct http_out *out, struct slice bytes)
{
	static const char hex[] = "0123456789abcdef";

	http_out_char(out, '"');
	for (size_t i = 0; i < bytes.len; i++) {
		char c = bytes.at[i];
		if (c == '"' || c == '\\') {
			char escaped[2] = {'\\', c};
			http_out_slice(out, (struct slice){escaped, 2});
		} else if (is_printable(c)) {
			http_out_char(out, c);
		} else {
			unsigned char byte = (unsigned char)c;
			char escaped[6] = {'\\', 'u', '0', '0', hex[byte >> 4], hex[byte & 15]};
			http_out_slice(out, (struct slice){escaped, sizeof(escaped)});
		}
	}
	http_out_char(out, '"');
}

void http_out_sf_string(struct http_out *out, struct slice bytes)
{
	http_out_char(out, '"');
	for (size_t i = 0; i < bytes.len; i++) {
		char c = bytes.at[i];
		if (c == '"' || c == '\\')
			http_out_char(out, '\\');
		http_out_char(out, (char)(is_printable(c) ? c : '?'));
	}
	http_out_char(out, '"');
}
