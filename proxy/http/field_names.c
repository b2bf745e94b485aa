/* Field names known to the proxy, and looking them up in a head. */
#include "http/message.h"

#include <strings.h>

#define NAME(id, text) [HTTP_FIELD_##id] = {"" text "", sizeof(text) - 1}

static const struct slice field_names[HTTP_FIELDS] = {
	NAME(OTHER, ""),
	NAME(CACHE_CONTROL, "cache-control"),
	NAME(CONNECTION, "connection"),
	NAME(CONTENT_LENGTH, "content-length"),
	NAME(COOKIE, "cookie"),
	NAME(DATE, "date"),
	NAME(EXPECT, "expect"),
	NAME(FORWARDED, "forwarded"),
	NAME(HOST, "host"),
	NAME(KEEP_ALIVE, "keep-alive"),
	NAME(MAX_FORWARDS, "max-forwards"),
	NAME(PRIORITY, "priority"),
	NAME(PROXY_CONNECTION, "proxy-connection"),
	NAME(RATELIMIT, "ratelimit"),
	NAME(RATELIMIT_POLICY, "ratelimit-policy"),
	NAME(REFERER, "referer"),
	NAME(RETRY_AFTER, "retry-after"),
	NAME(TE, "te"),
	NAME(TRAILER, "trailer"),
	NAME(TRANSFER_ENCODING, "transfer-encoding"),
	NAME(UPGRADE, "upgrade"),
	NAME(USER_AGENT, "user-agent"),
	NAME(VIA, "via"),
	NAME(X_FORWARDED_FOR, "x-forwarded-for"),
	NAME(X_FORWARDED_HOST, "x-forwarded-host"),
	NAME(X_FORWARDED_PROTO, "x-forwarded-proto"),
	NAME(X_REQUEST_ID, "x-request-id"),
};

#define LENGTH_AND_LETTER(len, letter) (((len) << 8) | (unsigned char)(letter))

/* The only known name with this length and first letter. */
static enum http_field_id candidate(size_t len, char first)
{
	switch (LENGTH_AND_LETTER(len, first | 0x20)) {
	case LENGTH_AND_LETTER(2, 't'):
		return HTTP_FIELD_TE;
	case LENGTH_AND_LETTER(3, 'v'):
		return HTTP_FIELD_VIA;
	case LENGTH_AND_LETTER(4, 'd'):
		return HTTP_FIELD_DATE;
	case LENGTH_AND_LETTER(4, 'h'):
		return HTTP_FIELD_HOST;
	case LENGTH_AND_LETTER(6, 'c'):
		return HTTP_FIELD_COOKIE;
	case LENGTH_AND_LETTER(6, 'e'):
		return HTTP_FIELD_EXPECT;
	case LENGTH_AND_LETTER(7, 'r'):
		return HTTP_FIELD_REFERER;
	case LENGTH_AND_LETTER(7, 't'):
		return HTTP_FIELD_TRAILER;
	case LENGTH_AND_LETTER(7, 'u'):
		return HTTP_FIELD_UPGRADE;
	case LENGTH_AND_LETTER(8, 'p'):
		return HTTP_FIELD_PRIORITY;
	case LENGTH_AND_LETTER(9, 'f'):
		return HTTP_FIELD_FORWARDED;
	case LENGTH_AND_LETTER(9, 'r'):
		return HTTP_FIELD_RATELIMIT;
	case LENGTH_AND_LETTER(10, 'c'):
		return HTTP_FIELD_CONNECTION;
	case LENGTH_AND_LETTER(10, 'k'):
		return HTTP_FIELD_KEEP_ALIVE;
	case LENGTH_AND_LETTER(10, 'u'):
		return HTTP_FIELD_USER_AGENT;
	case LENGTH_AND_LETTER(11, 'r'):
		return HTTP_FIELD_RETRY_AFTER;
	case LENGTH_AND_LETTER(12, 'm'):
		return HTTP_FIELD_MAX_FORWARDS;
	case LENGTH_AND_LETTER(12, 'x'):
		return HTTP_FIELD_X_REQUEST_ID;
	case LENGTH_AND_LETTER(13, 'c'):
		return HTTP_FIELD_CACHE_CONTROL;
	case LENGTH_AND_LETTER(14, 'c'):
		return HTTP_FIELD_CONTENT_LENGTH;
	case LENGTH_AND_LETTER(15, 'x'):
		return HTTP_FIELD_X_FORWARDED_FOR;
	case LENGTH_AND_LETTER(16, 'p'):
		return HTTP_FIELD_PROXY_CONNECTION;
	case LENGTH_AND_LETTER(16, 'r'):
		return HTTP_FIELD_RATELIMIT_POLICY;
	case LENGTH_AND_LETTER(16, 'x'):
		return HTTP_FIELD_X_FORWARDED_HOST;
	case LENGTH_AND_LETTER(17, 't'):
		return HTTP_FIELD_TRANSFER_ENCODING;
	case LENGTH_AND_LETTER(17, 'x'):
		return HTTP_FIELD_X_FORWARDED_PROTO;
	default:
		return HTTP_FIELD_OTHER;
	}
}

/* Eight bytes in lower case: letters, and what else a known name has, keep or take the bit. */
static uint64_t lower8(const char *at)
{
	uint64_t word;

	memcpy(&word, at, sizeof(word));
	return word | 0x2020202020202020u;
}

/*
 * `known` is in lower case. Of the bytes that a field name may have only the capital letter becomes
 * a lower-case one by 0x20, and '-' has the bit already (the byte that would become '-' is CR).
 */
static bool is_name(const char *name, const char *known, size_t len)
{
	if (len < 8)
		return strncasecmp(name, known, len) == 0;
	for (size_t i = 0; i + 8 < len; i += 8) {
		if (lower8(name + i) != lower8(known + i))
			return false;
	}
	return lower8(name + len - 8) == lower8(known + len - 8);
}

enum http_field_id http_field_id(struct slice name)
{
	if (name.len == 0)
		return HTTP_FIELD_OTHER;
	enum http_field_id id = candidate(name.len, name.at[0]);
	if (id == HTTP_FIELD_OTHER || !is_name(name.at, field_names[id].at, name.len))
		return HTTP_FIELD_OTHER;
	return id;
}

struct slice http_head_find(const struct http_head *head, enum http_field_id id)
{
	for (unsigned i = 0; i < head->field_count; i++) {
		if (head->fields[i].id == id)
			return http_field_value(head, &head->fields[i]);
	}
	return SLICE_NONE;
}

struct slice http_head_find_name(const struct http_head *head, struct slice name)
{
	for (unsigned i = 0; i < head->field_count; i++) {
		const struct http_field *field = &head->fields[i];
		if (field->name_len == name.len &&
			slice_equal_nocase(http_field_name(head, field), name))
			return http_field_value(head, field);
	}
	return SLICE_NONE;
}

unsigned http_head_count(const struct http_head *head, enum http_field_id id)
{
	unsigned count = 0;

	for (unsigned i = 0; i < head->field_count; i++)
		count += head->fields[i].id == id;
	return count;
}
