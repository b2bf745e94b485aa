/* Field names known to the proxy, and looking them up in a head. */
#include "http/message.h"

#include <strings.h>

#define NAME(id, text) [HTTP_FIELD_##id] = {"" text "", sizeof(text) - 1}

const struct slice http_field_names[HTTP_FIELDS] = {
	NAME(OTHER, ""),
	NAME(UNDERSCORED, ""),
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
	NAME(PROXY_CONNECTION, "proxy-connection"),
	NAME(RATELIMIT, "ratelimit"),
	NAME(RATELIMIT_POLICY, "ratelimit-policy"),
	NAME(REFERER, "referer"),
	NAME(SLUICE_FENCE, "sluice-fence"),
	NAME(SLUICE_HOP, "sluice-hop"),
	NAME(TE, "te"),
	NAME(TRACEPARENT, "traceparent"),
	NAME(TRACESTATE, "tracestate"),
	NAME(TRAILER, "trailer"),
	NAME(TRANSFER_ENCODING, "transfer-encoding"),
	NAME(UPGRADE, "upgrade"),
	NAME(USER_AGENT, "user-agent"),
	NAME(VIA, "via"),
	NAME(X_FORWARDED_FOR, "x-forwarded-for"),
	NAME(X_FORWARDED_HOST, "x-forwarded-host"),
	NAME(X_FORWARDED_PORT, "x-forwarded-port"),
	NAME(X_FORWARDED_PROTO, "x-forwarded-proto"),
	NAME(X_REAL_IP, "x-real-ip"),
	NAME(X_REQUEST_ID, "x-request-id"),
};

#define AT(len, letter) [len][(letter)&31]

const uint8_t http_field_candidates[HTTP_FIELD_NAME_LONGEST + 1][32] = {
	AT(2, 't') = HTTP_FIELD_TE,
	AT(3, 'v') = HTTP_FIELD_VIA,
	AT(4, 'd') = HTTP_FIELD_DATE,
	AT(4, 'h') = HTTP_FIELD_HOST,
	AT(6, 'c') = HTTP_FIELD_COOKIE,
	AT(6, 'e') = HTTP_FIELD_EXPECT,
	AT(7, 'r') = HTTP_FIELD_REFERER,
	AT(7, 't') = HTTP_FIELD_TRAILER,
	AT(7, 'u') = HTTP_FIELD_UPGRADE,
	AT(9, 'f') = HTTP_FIELD_FORWARDED,
	AT(9, 'r') = HTTP_FIELD_RATELIMIT,
	AT(9, 'x') = HTTP_FIELD_X_REAL_IP,
	AT(10, 'c') = HTTP_FIELD_CONNECTION,
	AT(10, 'k') = HTTP_FIELD_KEEP_ALIVE,
	AT(10, 's') = HTTP_FIELD_SLUICE_HOP,
	AT(10, 't') = HTTP_FIELD_TRACESTATE,
	AT(10, 'u') = HTTP_FIELD_USER_AGENT,
	AT(11, 't') = HTTP_FIELD_TRACEPARENT,
	AT(12, 'm') = HTTP_FIELD_MAX_FORWARDS,
	AT(12, 's') = HTTP_FIELD_SLUICE_FENCE,
	AT(12, 'x') = HTTP_FIELD_X_REQUEST_ID,
	AT(13, 'c') = HTTP_FIELD_CACHE_CONTROL,
	AT(14, 'c') = HTTP_FIELD_CONTENT_LENGTH,
	AT(15, 'x') = HTTP_FIELD_X_FORWARDED_FOR,
	AT(16, 'p') = HTTP_FIELD_PROXY_CONNECTION,
	AT(16, 'r') = HTTP_FIELD_RATELIMIT_POLICY,
	AT(16, 'x') = HTTP_FIELD_X_FORWARDED_HOST,
	AT(17, 't') = HTTP_FIELD_TRANSFER_ENCODING,
	AT(17, 'x') = HTTP_FIELD_X_FORWARDED_PROTO,
};

#undef AT

/* See http_field_is. */
static bool is_name(const char *name, const char *known, size_t len)
{
	if (len < 4)
		return strncasecmp(name, known, len) == 0;
	if (len < 8)
		return http_lower4(name) == http_lower4(known) &&
		       http_lower4(name + len - 4) == http_lower4(known + len - 4);
	for (size_t i = 0; i + 8 < len; i += 8) {
		if (http_lower8(name + i) != http_lower8(known + i))
			return false;
	}
	return http_lower8(name + len - 8) == http_lower8(known + len - 8);
}

bool http_field_is_any(const char *name, enum http_field_id id)
{
	return is_name(name, http_field_names[id].at, http_field_names[id].len);
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

/* Is one of eight bytes '~'? In lower case '^' is, too. */
static bool has_tilde(uint64_t word)
{
	word ^= 0x7e7e7e7e7e7e7e7eu;
	return ((word - 0x0101010101010101u) & ~word & 0x8080808080808080u) != 0;
}

/* Eight bytes of two names in lower case: not 0 where they differ, or could by '^' and '~'. */
static inline uint64_t differ8(const char *name, const char *known)
{
	uint64_t word = http_lower8(known);

	return (http_lower8(name) ^ word) | has_tilde(word);
}

/* As slice_equal_nocase of two names of this length, for most without that. */
static inline bool is_alike(const char *name, struct slice known)
{
	const size_t step = sizeof(uint64_t);
	uint64_t differ = 0;

	if (known.len < step)
		return slice_equal_nocase((struct slice){name, known.len}, known);
	for (size_t i = 0; i < known.len - step; i += step)
		differ |= differ8(name + i, known.at + i);
	differ |= differ8(name + known.len - step, known.at + known.len - step);
	return differ == 0 || slice_equal_nocase((struct slice){name, known.len}, known);
}

struct slice http_head_find_only(const struct http_head *head, struct slice name, bool *ambiguous)
{
	struct slice found = SLICE_NONE;

	for (unsigned i = 0; i < head->field_count; i++) {
		const struct http_field *field = &head->fields[i];
		if (field->name_len != name.len || !is_alike(head->base + field->name_at, name))
			continue;
		*ambiguous |= found.at || field->hop;
		if (!found.at)
			found = http_field_value(head, field);
	}
	return found;
}

unsigned http_head_count(const struct http_head *head, enum http_field_id id)
{
	unsigned count = 0;

	for (unsigned i = 0; i < head->field_count; i++)
		count += head->fields[i].id == id;
	return count;
}
