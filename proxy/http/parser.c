#include "http/parser.h"

#include <assert.h>
#include <stdlib.h>

#include "http/head_scan.h"

static struct http_parser *parser_of(llhttp_t *llhttp)
{
	return llhttp->data;
}

static int refuse(struct http_parser *parser, uint16_t status)
{
	parser->error_status = status;
	return -1;
}

/* Where in the head llhttp is. */
static uint32_t offset_of(const struct http_parser *parser, const char *at)
{
	return parser->piece_at + (uint32_t)(at - parser->piece);
}

static int on_url(llhttp_t *llhttp, const char *at, size_t len)
{
	struct http_parser *parser = parser_of(llhttp);
	struct http_head *head = parser->head;

	if (head->target_len == 0)
		head->target_at = offset_of(parser, at);
	head->target_len += (uint32_t)len;
	if (parser->limits.target_bytes > 0 && head->target_len > parser->limits.target_bytes)
		return refuse(parser, 414);
	return 0;
}

/* Room for one more field; the inline ones first, then the heap, doubling. */
static struct http_field *add_field(struct http_head *head)
{
	if (head->field_count == head->field_capacity) {
		uint16_t capacity = (uint16_t)(head->field_capacity * 2);
		bool inline_now = head->fields == head->inline_fields;
		struct http_field *fields =
			realloc(inline_now ? NULL : head->fields, capacity * sizeof(*fields));
		if (!fields)
			return NULL;
		if (inline_now)
			memcpy(fields, head->inline_fields, sizeof(head->inline_fields));
		head->fields = fields;
		head->field_capacity = capacity;
	}
	struct http_field *field = &head->fields[head->field_count++];
	*field = (struct http_field){0};
	return field;
}

static int on_header_field(llhttp_t *llhttp, const char *at, size_t len)
{
	struct http_parser *parser = parser_of(llhttp);
	struct http_head *head = parser->head;
	bool begins = parser->in_value || head->field_count == 0;

	parser->in_value = false;
	if (begins) {
		if (parser->limits.fields > 0 && head->field_count >= parser->limits.fields)
			return refuse(parser, 431);
		struct http_field *field = add_field(head);
		if (!field)
			return refuse(parser, 431);
		field->name_at = offset_of(parser, at);
	}
	struct http_field *field = &head->fields[head->field_count - 1];
	if (field->name_len + len > UINT16_MAX)
		return refuse(parser, 431);
	field->name_len = (uint16_t)(field->name_len + len);
	return 0;
}

static int on_header_value(llhttp_t *llhttp, const char *at, size_t len)
{
	struct http_parser *parser = parser_of(llhttp);

	struct http_field *field = &parser->head->fields[parser->head->field_count - 1];
	uint32_t offset = offset_of(parser, at);
	parser->in_value = true;
	if (field->value_at == 0)
		field->value_at = offset;
	else if (field->value_at + field->value_len != offset)
		return refuse(parser, 400); /* a folded line, RFC 9112 section 5.2 */
	field->value_len += (uint32_t)len;
	return 0;
}

static int on_header_value_complete(llhttp_t *llhttp)
{
	parser_of(llhttp)->in_value =
		true; /* also when the value is empty and came with no piece */
	return 0;
}

static int on_headers_complete(llhttp_t *llhttp)
{
	parser_of(llhttp)->headers_done = true;
	return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
	.on_url = on_url,
	.on_header_field = on_header_field,
	.on_header_value = on_header_value,
	.on_header_value_complete = on_header_value_complete,
	.on_headers_complete = on_headers_complete,
};

static void begin(struct http_parser *parser, bool is_request, struct http_head *head,
	const struct http_parser_limits *limits)
{
	parser->is_request = is_request;
	parser->head = head;
	parser->limits = *limits;
	parser->fed = 0;
	parser->is_begun = parser->has_method = parser->in_target = false;
	parser->error_status = 0;
	parser->in_value = parser->headers_done = false;
	http_chunked_begin(&parser->chunked);
	http_head_clear(head);
}

void http_parser_begin_request(
	struct http_parser *parser, struct http_head *head, const struct http_parser_limits *limits)
{
	begin(parser, true, head, limits);
}

void http_parser_begin_response(
	struct http_parser *parser, struct http_head *head, const struct http_parser_limits *limits)
{
	begin(parser, false, head, limits);
}

static enum http_method method_of(uint8_t method)
{
	static const uint8_t map[] = {
		[HTTP_DELETE] = HTTP_METHOD_DELETE,
		[HTTP_GET] = HTTP_METHOD_GET,
		[HTTP_HEAD] = HTTP_METHOD_HEAD,
		[HTTP_POST] = HTTP_METHOD_POST,
		[HTTP_PUT] = HTTP_METHOD_PUT,
		[HTTP_CONNECT] = HTTP_METHOD_CONNECT,
		[HTTP_OPTIONS] = HTTP_METHOD_OPTIONS,
		[HTTP_TRACE] = HTTP_METHOD_TRACE,
	};

	if (method == HTTP_PATCH)
		return HTTP_METHOD_PATCH;
	return method < sizeof(map) ? (enum http_method)map[method] : HTTP_METHOD_OTHER;
}

/* Does llhttp read this method by its name? All others it reads as a POST. */
static bool is_llhttps_method(enum http_method method)
{
	return method <= HTTP_METHOD_PATCH;
}

static bool is_line_end(const char *base, size_t at)
{
	return base[at] == '\r' && base[at + 1] == '\n';
}

static bool is_ows(char c)
{
	return c == ' ' || c == '\t';
}

/*
 * Every byte of a head must be where RFC 9112 puts it, whatever llhttp is lenient about (bare LF or
 * CR as a line's end, space before a colon, several spaces in the request line). The offsets
 * leave no room for anything else when the pieces join without a gap. Trims the values, too.
 */
static bool lines_join(struct http_head *head, size_t at)
{
	const char *base = head->base;

	for (unsigned i = 0; i < head->field_count; i++) {
		struct http_field *field = &head->fields[i];
		if (field->name_len == 0 || field->name_at != at ||
			base[at + field->name_len] != ':' ||
			http_token_len(base + at, field->name_len) < field->name_len)
			return false;
		at += field->name_len + 1u;
		while (at < head->len && is_ows(base[at]))
			at++;
		if (field->value_len == 0)
			field->value_at = (uint32_t)at;
		if (field->value_at != at)
			return false;
		at += field->value_len;
		while (at < head->len && is_ows(base[at]))
			at++;
		while (field->value_len > 0 && is_ows(base[field->value_at + field->value_len - 1]))
			field->value_len--;
		if (at + 2 > head->len || !is_line_end(base, at))
			return false;
		at += 2;
		field->id = (uint8_t)http_field_id_of(http_field_name(head, field));
		http_head_note(head, i);
	}
	return at + 2 == head->len && is_line_end(base, at);
}

static bool request_line_joins(const struct http_head *head, size_t *end)
{
	size_t after = head->target_at + head->target_len;

	/* "GET /x HTTP/1.1\r\n": one space on each side of the target. */
	if (head->target_at < 2 || after + 11 > head->len)
		return false;
	const char *base = head->base;
	/* Empty lines before it are the caller's to skip, llhttp takes a lone CR or LF for one. */
	if (base[0] == '\r' || base[0] == '\n' || base[head->target_at - 1] != ' ' ||
		is_ows(base[head->target_at - 2]))
		return false;
	*end = after + 11;
	return memcmp(base + after, " HTTP/", 6) == 0 && is_line_end(base, after + 9);
}

static bool status_line_joins(const struct http_head *head, size_t *end)
{
	const char *line_end = memchr(head->base, '\n', head->len);

	if (!line_end || line_end == head->base || line_end[-1] != '\r')
		return false;
	*end = (size_t)(line_end - head->base) + 1;
	/* "HTTP/1.1 200\r\n" at least: three digits, and what may be a reason (RFC 9112 section 4).
	 */
	if (*end < 14 || head->base[8] != ' ' || (head->base[12] != ' ' && head->base[12] != '\r'))
		return false;
	for (const char *c = head->base + 12; c < line_end - 1; c++) {
		if (((unsigned char)*c < ' ' && *c != '\t') || *c == 127)
			return false;
	}
	return true;
}

/* Does the first line end in a well-formed version, of whatever number? */
static bool names_version(const char *base, size_t len)
{
	const char *newline = memchr(base, '\n', len);
	const char *end = newline ? newline - 1 : base + len; /* llhttp need not wait for it */

	if (end - base < 11 || (newline && *end != '\r'))
		return false;
	const char *version = end - 9;
	return memcmp(version, " HTTP/", 6) == 0 && version[6] >= '0' && version[6] <= '9' &&
	       version[7] == '.' && version[8] >= '0' && version[8] <= '9';
}

static enum http_parse head_done(struct http_parser *parser, const char *base)
{
	struct http_head *head = parser->head;
	size_t line_end = 0;

	/* Paused behind the last LF; llhttp points at it or right after it, by version. */
	const char *stop = llhttp_get_error_pos(&parser->llhttp);
	if (stop > base && stop[-1] != '\n')
		stop++;
	head->base = base;
	head->len = (uint32_t)(stop - base);
	head->major = llhttp_get_http_major(&parser->llhttp);
	head->minor = llhttp_get_http_minor(&parser->llhttp);
	parser->error_status = 400;
	if (head->major != 1) {
		parser->error_status = names_version(base, head->len) ? 505 : 400;
		return HTTP_PARSE_BAD;
	}
	if (parser->is_request) {
		if (is_llhttps_method(head->method))
			head->method = method_of(llhttp_get_method(&parser->llhttp));
		if (!request_line_joins(head, &line_end))
			return HTTP_PARSE_BAD;
	} else {
		head->status = (uint16_t)llhttp_get_status_code(&parser->llhttp);
		if (!status_line_joins(head, &line_end) || head->status < 100)
			return HTTP_PARSE_BAD;
	}
	if (!lines_join(head, line_end))
		return HTTP_PARSE_BAD;
	parser->error_status = 0;
	return HTTP_PARSE_DONE;
}

/* The status for what llhttp stopped at: was it a version that we do not speak? */
static uint16_t status_for(enum llhttp_errno error, const char *base, size_t len)
{
	if (error == HPE_PAUSED_H2_UPGRADE)
		return 505;
	if (error == HPE_INVALID_VERSION)
		return names_version(base, len) ? 505 : 400;
	return 400;
}

static enum http_parse bad(struct http_parser *parser, uint16_t status)
{
	parser->error_status = status;
	return HTTP_PARSE_BAD;
}

static enum llhttp_errno feed(struct http_parser *parser, const char *piece, size_t at, size_t len)
{
	parser->piece = piece;
	parser->piece_at = (uint32_t)at;
	return llhttp_execute(&parser->llhttp, piece, len);
}

/*
 * The method, a token that this adapter reads, as llhttp knows a list of its own. Of one that is
 * not RFC 9110's llhttp gets `POST` in its place; it continues with the space behind it. DONE: the
 * method is there, and llhttp continues from `*from`; `len` may end at the limit.
 */
static enum http_parse read_method(
	struct http_parser *parser, const char *base, size_t len, bool at_limit, size_t *from)
{
	size_t end = http_token_len(base, len);

	if (end > HTTP_METHOD_LONGEST)
		return bad(parser, 501);
	if (end == len)
		return at_limit ? bad(parser, 414) : HTTP_PARSE_MORE;
	if (end == 0 || base[end] != ' ')
		return bad(parser, 400);
	struct slice name = {base, end};
	if (http_method_is_misspelt(name))
		return bad(parser, 501);
	enum http_method method = http_method_of(name);
	parser->head->method = method;
	parser->has_method = parser->in_target = true;
	parser->target_at = (uint32_t)end + 1;
	*from = 0;
	if (!is_llhttps_method(method)) {
		feed(parser, "POST", 0, 4);
		*from = end;
	}
	return HTTP_PARSE_DONE;
}

/*
 * Gives llhttp the bytes from `from` to `end`, but for those that it takes or not, by version. In
 * their place it gets others of the same role, and judges what is around them:
 *
 *   above 127 in a target   clients send raw UTF-8, and servers get it as it came (RFC 9110
 *                           section 7.7): `x`
 *   tabs behind a target    blanks as good as any (RFC 9110 section 5.6.3), but behind a length:
 *                           spaces. head_done looks at the lines as they are
 */
static enum llhttp_errno execute(
	struct http_parser *parser, const char *base, size_t from, size_t end)
{
	enum llhttp_errno error = HPE_OK;
	size_t at = from > parser->target_at ? from : parser->target_at;

	for (; parser->in_target && at < end && error == HPE_OK; at++) {
		if (base[at] == ' ' || base[at] == '\r' || base[at] == '\n') {
			parser->in_target = false;
		} else if ((unsigned char)base[at] > 127 && at > parser->target_at) {
			if (at > from)
				error = feed(parser, base + from, from, at - from);
			if (error == HPE_OK)
				error = feed(parser, "x", at, 1);
			from = at + 1;
		}
	}
	while (error == HPE_OK && from < end) {
		const char *tab = memchr(base + from, '\t', end - from);
		size_t stop = tab ? (size_t)(tab - base) : end;
		if (stop > from)
			error = feed(parser, base + from, from, stop - from);
		if (error == HPE_OK && tab)
			error = feed(parser, " ", stop++, 1);
		from = stop;
	}
	return error;
}

/* llhttp's way through what has come since the last call. */
static enum http_parse read_head(struct http_parser *parser, const char *base, size_t len)
{
	size_t limit = parser->limits.head_bytes;
	size_t end = limit > 0 && len > limit ? limit : len;

	assert(!parser->headers_done);
	size_t from = parser->fed;
	parser->fed = (uint32_t)end;
	if (parser->is_request && !parser->has_method) {
		bool at_limit = end < len || (limit > 0 && end == limit);
		enum http_parse method = read_method(parser, base, end, at_limit, &from);
		if (method != HTTP_PARSE_DONE)
			return method;
	}
	enum llhttp_errno error = HPE_OK;
	if (end > from)
		error = execute(parser, base, from, end);
	if (parser->headers_done && error == HPE_PAUSED)
		return head_done(parser, base);
	if (error == HPE_OK) {
		if (end < len || (limit > 0 && end == limit)) {
			parser->error_status = parser->head->field_count > 0 ? 431 : 414;
			return HTTP_PARSE_BAD;
		}
		return HTTP_PARSE_MORE;
	}
	/* A version is complete only with its line's end. llhttp continues refusing until then. */
	if ((limit == 0 || len < limit) && error == HPE_INVALID_VERSION && !memchr(base, '\n', len))
		return HTTP_PARSE_MORE;
	if (parser->error_status == 0)
		parser->error_status = status_for(error, base, end);
	return HTTP_PARSE_BAD;
}

static bool scan(struct http_parser *parser, const char *base, size_t len)
{
	return parser->is_request ? http_scan_request(parser->head, base, len, &parser->limits)
				  : http_scan_response(parser->head, base, len, &parser->limits);
}

enum http_parse http_parser_head(struct http_parser *parser, const char *base, size_t len)
{
	if (!parser->is_begun) {
		if (scan(parser, base, len)) {
			parser->headers_done = true;
			return HTTP_PARSE_DONE;
		}
		http_head_clear(parser->head);
		llhttp_init(&parser->llhttp, parser->is_request ? HTTP_REQUEST : HTTP_RESPONSE,
			&settings);
		parser->llhttp.data = parser;
		parser->is_begun = true;
	}
	return read_head(parser, base, len);
}

enum http_parse http_parser_chunked(
	struct http_parser *parser, char *data, size_t len, size_t *consumed, size_t *produced)
{
	enum http_parse result =
		http_chunked_decode(&parser->chunked, data, len, consumed, produced);

	return result == HTTP_PARSE_BAD ? bad(parser, 400) : result;
}

void http_parser_end(struct http_parser *parser)
{
	http_chunked_end(&parser->chunked);
}

bool http_read_response(
	struct http_head *head, struct slice bytes, const struct http_parser_limits *limits)
{
	static const struct http_parser_limits none = {0};
	struct http_parser parser = {0};

	http_parser_begin_response(&parser, head, limits ? limits : &none);
	bool is_whole = http_parser_head(&parser, bytes.at, bytes.len) == HTTP_PARSE_DONE;
	http_parser_end(&parser);
	return is_whole;
}

void http_head_init(struct http_head *head)
{
	head->base = NULL;
	head->len = head->target_at = head->target_len = 0;
	head->method = HTTP_METHOD_GET;
	head->status = 0;
	head->major = head->minor = 0;
	head->field_count = 0;
	head->ids = head->repeated = 0;
	head->field_capacity = HTTP_HEAD_FIELDS_INLINE;
	head->fields = head->inline_fields;
}

void http_head_clear(struct http_head *head)
{
	if (head->field_capacity > HTTP_HEAD_FIELDS_INLINE)
		free(head->fields);
	http_head_init(head);
}
