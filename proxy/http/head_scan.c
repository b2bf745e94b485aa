#include "http/head_scan.h"

#include <string.h>

#include "http/bytes16.h"

/* tchar of RFC 9110 section 5.6.2, with ':' and everything else 0. */
static const bool is_tchar[256] = {
	['!'] = 1,
	['#'] = 1,
	['$'] = 1,
	['%'] = 1,
	['&'] = 1,
	['\''] = 1,
	['*'] = 1,
	['+'] = 1,
	['-'] = 1,
	['.'] = 1,
	['^'] = 1,
	['_'] = 1,
	['`'] = 1,
	['|'] = 1,
	['~'] = 1,
	['0' ... '9'] = 1,
	['A' ... 'Z'] = 1,
	['a' ... 'z'] = 1,
};

size_t http_token_len(const char *at, size_t len)
{
	size_t i = 0;

	while (i < len && is_tchar[(unsigned char)at[i]])
		i++;
	return i;
}

/* The bytes still to be read. There are 16 at least from the head's first byte to the end. */
struct scan {
	const char *at, *end;
};

typedef unsigned run_end(const char *at);

/*
 * The first byte from `at` on that ends the run, or the end. Where fewer than 16 bytes are left the
 * last 16 are looked at, and those in front of `at` shifted out.
 */
static inline const char *find_on(const char *at, const char *end, run_end *ends_run)
{
	const char *last = end - 16;

	for (; at <= last; at += 16) {
		unsigned found = ends_run(at);
		if (found)
			return at + (unsigned)__builtin_ctz(found);
	}
	unsigned found = at < end ? ends_run(last) >> (at - last) : 0;
	return found ? at + (unsigned)__builtin_ctz(found) : end;
}

/* The same; most runs end within 16 bytes, and these are looked at without a loop. */
static inline const char *find(const char *at, const char *end, run_end *ends_run)
{
	unsigned found = at <= end - 16 ? ends_run(at) : 0;

	return found ? at + (unsigned)__builtin_ctz(found) : find_on(at, end, ends_run);
}

/* The CR of the CRLF behind a field value or reason phrase, of which tabs are part, with another
 * two bytes at least behind it. NULL: there is none. */
static inline const char *find_crlf(const char *at, const char *end)
{
	for (;; at++) {
		at = find(at, end, bytes16_controls);
		if (at > end - 4)
			return NULL;
		if (memcmp(at, "\r\n", 2) == 0)
			return at;
		if (*at != '\t')
			return NULL;
	}
}

/* "HTTP/1.0" or "HTTP/1.1". */
static bool scan_version(struct scan *scan, struct http_head *head)
{
	if (scan->end - scan->at < 8 || memcmp(scan->at, "HTTP/1.", 7) != 0 ||
		(scan->at[7] & ~1) != '0')
		return false;
	head->major = 1;
	head->minor = (uint8_t)(scan->at[7] - '0');
	scan->at += 8;
	return true;
}

static bool scan_crlf(struct scan *scan)
{
	if (scan->end - scan->at < 2 || scan->at[0] != '\r' || scan->at[1] != '\n')
		return false;
	scan->at += 2;
	return true;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_ows(char c)
{
	return c == ' ' || c == '\t';
}

#define SHORTEST_REST 5 /* ":\r\n\r\n", behind the last field's name */

/* The colon behind a name of any tchars, of which those up to `at` are letters and '-'. NULL: there
 * is none with SHORTEST_REST from it on. A name with an underscore is noted in `ids`. */
static const char *find_colon(const char *at, const char *end, uint32_t *ids)
{
	const char *last = end - SHORTEST_REST;

	for (; at <= last && *at != ':'; at++) {
		if (!is_tchar[(unsigned char)*at])
			return NULL;
		if (*at == '_')
			*ids |= HTTP_FIELD_BIT(UNDERSCORED);
	}
	return at <= last ? at : NULL;
}

/* A field line from `at` on. Returns where the next line begins, or NULL. */
static inline const char *scan_field(
	const char *base, const char *at, const char *end, struct http_field *field, uint32_t *ids)
{
	const char *name = at;

	at = find(at, end, bytes16_not_name);
	if (at > end - SHORTEST_REST || (*at != ':' && !(at = find_colon(at, end, ids))))
		return NULL;
	size_t name_len = (size_t)(at - name);
	if (name_len - 1 >= UINT16_MAX)
		return NULL;
	at++;
	/* Mostly one space in front and none behind; bytes below it, also by sign, take the loop.
	 */
	if (at[0] == ' ' && at[1] > ' ') {
		at++;
	} else {
		while (at < end && is_ows(*at))
			at++;
	}
	const char *value = at, *next = find_crlf(at, end), *value_end = next;
	if (!value_end)
		return NULL;
	if (value_end[-1] <= ' ') {
		while (value_end > value && is_ows(value_end[-1]))
			value_end--;
	}
	field->name_at = (uint32_t)(name - base);
	field->value_at = (uint32_t)(value - base);
	field->value_len = (uint32_t)(value_end - value);
	field->name_len = (uint16_t)name_len;
	field->id = (uint8_t)http_field_id((struct slice){name, name_len});
	field->hop = false;
	return next + 2;
}

/* 1*DIGIT that fits and nothing behind it, where llhttp has rules of its own. */
static bool is_length(const char *base, const struct http_field *field)
{
	const char *value = base + field->value_at;

	if (field->value_len == 0 || field->value_len > 18 || value[field->value_len] != '\r')
		return false;
	for (uint32_t i = 0; i < field->value_len; i++) {
		if (!is_digit(value[i]))
			return false;
	}
	return true;
}

#define BIT(id) HTTP_FIELD_BIT(id)

/* Has llhttp rules of its own for this field, of which those in front of it have `ids`? */
static inline bool is_llhttps(const char *base, const struct http_field *field, uint32_t ids)
{
	static const uint32_t some = BIT(TRANSFER_ENCODING) | BIT(UPGRADE) | BIT(CONTENT_LENGTH);

	if (!(some >> field->id & 1))
		return false;
	return field->id != HTTP_FIELD_CONTENT_LENGTH || ids & BIT(CONTENT_LENGTH) ||
	       !is_length(base, field);
}

/* Names with an underscore are rare: all are looked at again when there is one. */
static void mark_underscored(struct http_head *head)
{
	head->ids = head->repeated = 0;
	for (unsigned i = 0; i < head->field_count; i++) {
		struct http_field *field = &head->fields[i];
		if (field->id == HTTP_FIELD_OTHER)
			field->id = (uint8_t)http_field_id_of(http_field_name(head, field));
		http_head_note(head, i);
	}
}

/* All field lines from `at` on, and the empty line, which ends the head. */
static bool scan_fields(
	const char *base, const char *at, const char *end, unsigned limit, struct http_head *head)
{
	unsigned count = 0,
		 most = limit - 1 < HTTP_HEAD_FIELDS_INLINE ? limit : HTTP_HEAD_FIELDS_INLINE;
	struct http_field *field = head->fields;
	uint32_t ids = 0, repeated = 0;

	if (end - at < 2)
		return false;
	for (;; field++, count++) { /* of what is left two bytes at least */
		if (*at == '\r') {
			head->base = base;
			head->field_count = (uint16_t)count;
			head->len = (uint32_t)(at + 2 - base);
			head->ids = ids;
			head->repeated = repeated;
			if (ids & BIT(UNDERSCORED))
				mark_underscored(head);
			return at[1] == '\n';
		}
		if (count == most || !(at = scan_field(base, at, end, field, &ids)))
			return false;
		uint32_t bit = UINT32_C(1) << field->id;
		if (is_llhttps(base, field, ids))
			return false;
		repeated |= ids & bit;
		if (!(ids & bit))
			head->first[field->id] = (uint16_t)count;
		ids |= bit;
	}
}

static bool scan_method(struct scan *scan, struct http_head *head)
{
	static const struct {
		char name[8]; /* with its space */
		uint8_t len, method;
	} methods[] = {
		{"GET ", 4, HTTP_METHOD_GET},
		{"POST ", 5, HTTP_METHOD_POST},
		{"PUT ", 4, HTTP_METHOD_PUT},
		{"HEAD ", 5, HTTP_METHOD_HEAD},
		{"PATCH ", 6, HTTP_METHOD_PATCH},
		{"DELETE ", 7, HTTP_METHOD_DELETE},
		{"OPTIONS ", 8, HTTP_METHOD_OPTIONS},
	};

	for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
		if (memcmp(scan->at, methods[i].name, methods[i].len) == 0) {
			head->method = (enum http_method)methods[i].method;
			scan->at += methods[i].len;
			return true;
		}
	}
	return false;
}

/* The part of `len` bytes that may be read: at most a head's bound. */
static struct scan scan_of(const char *base, size_t len, const struct http_parser_limits *limits)
{
	size_t most = limits->head_bytes > 0 ? limits->head_bytes : UINT32_MAX;

	return (struct scan){base, base + (len < most ? len : most)};
}

#define SHORTEST_HEAD 17 /* "HTTP/1.1 200 \r\n\r\n" */

bool http_scan_request(struct http_head *head, const char *base, size_t len,
	const struct http_parser_limits *limits)
{
	struct scan scan = scan_of(base, len, limits);

	if (scan.end - scan.at < SHORTEST_HEAD || !scan_method(&scan, head))
		return false;
	const char *target = scan.at;
	if (*target != '/')
		return false;
	scan.at = find_on(scan.at, scan.end, bytes16_not_target);
	head->target_at = (uint32_t)(target - base);
	head->target_len = (uint32_t)(scan.at - target);
	if (limits->target_bytes > 0 && head->target_len > limits->target_bytes)
		return false;
	if (scan.at == scan.end || *scan.at != ' ')
		return false;
	scan.at++;
	return scan_version(&scan, head) && scan_crlf(&scan) &&
	       scan_fields(base, scan.at, scan.end, limits->fields, head);
}

bool http_scan_response(struct http_head *head, const char *base, size_t len,
	const struct http_parser_limits *limits)
{
	struct scan scan = scan_of(base, len, limits);

	if (scan.end - scan.at < SHORTEST_HEAD || !scan_version(&scan, head))
		return false;
	const char *code = scan.at;
	if (code[0] != ' ' || code[1] < '1' || !is_digit(code[1]) || !is_digit(code[2]) ||
		!is_digit(code[3]) || code[4] != ' ')
		return false;
	head->status = (uint16_t)((code[1] - '0') * 100 + (code[2] - '0') * 10 + (code[3] - '0'));
	scan.at += 5;
	const char *reason_end = find_crlf(scan.at, scan.end);
	return reason_end && scan_fields(base, reason_end + 2, scan.end, limits->fields, head);
}
