#include "http/out.h"

/* How many decimal digits it has, from its bits: each is worth log10(2), 1233 / 4096. */
static unsigned count_digits(uint64_t number)
{
	static const uint64_t powers[] = {0, UINT64_C(10), UINT64_C(100), UINT64_C(1000),
		UINT64_C(10000), UINT64_C(100000), UINT64_C(1000000), UINT64_C(10000000),
		UINT64_C(100000000), UINT64_C(1000000000), UINT64_C(10000000000),
		UINT64_C(100000000000), UINT64_C(1000000000000), UINT64_C(10000000000000),
		UINT64_C(100000000000000), UINT64_C(1000000000000000), UINT64_C(10000000000000000),
		UINT64_C(100000000000000000), UINT64_C(1000000000000000000),
		UINT64_C(10000000000000000000)};
	unsigned bits = 64 - (unsigned)__builtin_clzll(number | 1);
	unsigned digits = bits * 1233 >> 12;

	return digits + (number >= powers[digits]);
}

void http_out_number(struct http_out *out, uint64_t number)
{
	static const char pairs[] = "00010203040506070809101112131415161718192021222324"
				    "25262728293031323334353637383940414243444546474849"
				    "50515253545556575859606162636465666768697071727374"
				    "75767778798081828384858687888990919293949596979899";

	if (number < 10) {
		http_out_char(out, (char)('0' + number));
		return;
	}
	unsigned digits = count_digits(number);
	if (!http_out_has_room(out, digits))
		return;
	char *at = out->at += digits;
	for (; number >= 100; number /= 100)
		memcpy(at -= 2, pairs + 2 * (number % 100), 2);
	if (number >= 10)
		memcpy(at -= 2, pairs + 2 * number, 2);
	else
		*--at = (char)('0' + number);
}

static bool is_printable(char c)
{
	return c >= 0x20 && c < 0x7f;
}

#define ONES  UINT64_C(0x0101010101010101)
#define HIGHS (ONES * 0x80)

/* Is there a byte in the word below n (up to 128)? Exact for whether, not for where. */
static uint64_t has_below(uint64_t word, unsigned n)
{
	return (word - ONES * n) & ~word & HIGHS;
}

/* Eight bytes that all stand for themselves: printable, no quote, no backslash. */
static bool are_plain(const char *at)
{
	uint64_t word;

	memcpy(&word, at, sizeof(word));
	return ((word & HIGHS) | has_below(word, 0x20) | has_below(word ^ (ONES * '"'), 1) |
		       has_below(word ^ (ONES * '\\'), 1) | has_below(word ^ (ONES * 0x7f), 1)) ==
	       0;
}

/* The same of one byte. */
static const bool is_plain[256] = {
	[' ' ... '!'] = true,
	['#' ... '['] = true,
	[']' ... '~'] = true,
};

/* How many bytes from the front stand for themselves in a JSON string. */
static size_t plain_run(struct slice bytes)
{
	size_t len = 0;

	while (len + 8 <= bytes.len && are_plain(bytes.at + len))
		len += 8;
	while (len < bytes.len && is_plain[(unsigned char)bytes.at[len]])
		len++;
	return len;
}

static void put_json_escape(struct http_out *out, unsigned char byte)
{
	static const char hex[] = "0123456789abcdef";
	char escaped[6] = {'\\', 'u', '0', '0', hex[byte >> 4], hex[byte & 15]};

	if (byte == '"' || byte == '\\') {
		escaped[1] = (char)byte;
		http_out_slice(out, (struct slice){escaped, 2});
	} else {
		http_out_slice(out, (struct slice){escaped, sizeof(escaped)});
	}
}

void http_out_json(struct http_out *out, struct slice bytes)
{
	http_out_char(out, '"');
	while (bytes.len > 0) {
		size_t run = plain_run(bytes);
		http_out_slice(out, (struct slice){bytes.at, run});
		if (run < bytes.len)
			put_json_escape(out, (unsigned char)bytes.at[run++]);
		bytes.at += run;
		bytes.len -= run;
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
