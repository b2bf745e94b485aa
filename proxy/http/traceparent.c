#include "http/traceparent.h"

#include <stddef.h>

enum { FLAGS_AT = 53 };

/* Lower case only. */
static bool is_hex(const char *at, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		if (!(at[i] >= '0' && at[i] <= '9') && !(at[i] >= 'a' && at[i] <= 'f'))
			return false;
	}
	return true;
}

static bool is_id(const char *at, size_t len)
{
	size_t zeros = 0;

	while (zeros < len && at[zeros] == '0')
		zeros++;
	return zeros < len && is_hex(at, len);
}

bool http_traceparent_is_valid(struct slice value)
{
	const char *at = value.at;

	if (value.len < HTTP_TRACEPARENT_BYTES || !is_hex(at, 2) || (at[0] == 'f' && at[1] == 'f'))
		return false;
	if (value.len > HTTP_TRACEPARENT_BYTES &&
		((at[0] == '0' && at[1] == '0') || at[HTTP_TRACEPARENT_BYTES] != '-'))
		return false;
	return at[2] == '-' && is_id(at + HTTP_TRACE_ID_AT, HTTP_TRACE_ID_BYTES) &&
	       at[HTTP_PARENT_ID_AT - 1] == '-' &&
	       is_id(at + HTTP_PARENT_ID_AT, HTTP_PARENT_ID_BYTES) && at[FLAGS_AT - 1] == '-' &&
	       is_hex(at + FLAGS_AT, 2);
}

static char *put_hex(char *to, uint64_t number)
{
	static const char digits[] = "0123456789abcdef";

	for (int shift = 60; shift >= 0; shift -= 4)
		*to++ = digits[number >> shift & 15];
	return to;
}

void http_traceparent_write(
	char text[static HTTP_TRACEPARENT_BYTES], const uint64_t trace[static 2], uint64_t parent)
{
	char *at = text;

	*at++ = '0';
	*at++ = '0';
	*at++ = '-';
	at = put_hex(at, trace[0]);
	at = put_hex(at, trace[1]);
	*at++ = '-';
	at = put_hex(at, parent);
	*at++ = '-';
	*at++ = '0';
	*at = '1';
}
