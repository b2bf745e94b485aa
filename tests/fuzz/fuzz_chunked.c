/*
 * Chunked bodies. The first two bytes say where the rest is cut. What must hold:
 *
 *   - whole and cut lead to the same content, the same trailers, the same end, or both to a refusal
 *   - what is accepted is what a reader of RFC 9112 section 7.1 by the letter finds
 *   - with deviations forgiven, too, cuts do not matter, and what needs none is read as without
 */
#include "fuzz_message.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct body {
	enum http_parse result;
	unsigned found;
	size_t consumed, produced, trailers_len;
	char *content, *trailers;
};

static void decode(struct body *body, unsigned forgiven, const char *text, size_t len, size_t first,
	size_t step)
{
	static const char head_text[] =
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
	static const struct http_parser_limits limits = {0};
	struct http_parser parser = {0};
	struct http_head head;
	size_t at = 0, end = first < len ? first : len;

	*body = (struct body){.result = HTTP_PARSE_MORE, .content = malloc(len + 1)};
	MUST(body->content);
	http_head_init(&head);
	http_parser_begin_request(&parser, &head, &limits);
	MUST(http_parser_head(&parser, head_text, strlen(head_text)) == HTTP_PARSE_DONE);
	parser.chunked.forgiven = (uint8_t)forgiven;
	while (body->result == HTTP_PARSE_MORE && at < len) {
		if (end == at)
			end = step < len - at ? at + step : len;
		size_t consumed = 0, produced = 0;
		char *piece = fuzz_copy(text + at, end - at);
		body->result = http_parser_chunked(&parser, piece, end - at, &consumed, &produced);
		if (body->result != HTTP_PARSE_BAD) {
			MUST(consumed <= end - at && produced <= consumed);
			MUST(body->result == HTTP_PARSE_DONE || consumed == end - at);
			memcpy(body->content + body->produced, piece, produced);
			body->produced += produced;
			body->consumed += consumed;
		} else {
			MUST(parser.error_status >= 400);
		}
		free(piece);
		at = end;
	}
	body->trailers = fuzz_copy(parser.chunked.trailers_len ? parser.chunked.trailers : "",
		parser.chunked.trailers_len);
	body->trailers_len = parser.chunked.trailers_len;
	body->found = parser.chunked.found;
	http_head_clear(&head);
	http_parser_end(&parser);
}

static void body_end(struct body *body)
{
	free(body->content);
	free(body->trailers);
}

static bool is_token(char c)
{
	return c > ' ' && c < 127 && !strchr("\"(),/:;<=>?@[\\]{}", c);
}

static const char *skip_blanks(const char *at)
{
	while (*at == ' ' || *at == '\t')
		at++;
	return at;
}

static const char *skip_token(const char *at)
{
	MUST(is_token(*at));
	while (is_token(*at))
		at++;
	return at;
}

static const char *skip_quoted(const char *at)
{
	for (at++; *at != '"'; at++) {
		if (*at == '\\')
			at++;
		MUST((unsigned char)*at >= ' ' || *at == '\t');
		MUST(*at != 127);
	}
	return at + 1;
}

/* *( BWS ";" BWS name [ BWS "=" BWS value ] ), up to a CR that is there. */
static void assert_extensions(const char *at, const char *line)
{
	while (at < line) {
		at = skip_blanks(at);
		MUST(*at == ';');
		at = skip_token(skip_blanks(at + 1));
		const char *equals = skip_blanks(at);
		if (*equals != '=')
			continue;
		at = skip_blanks(equals + 1);
		at = *at == '"' ? skip_quoted(at) : skip_token(at);
	}
	MUST(at == line);
}

/* Reads it by the letter. */
static void assert_by_the_letter(const struct body *body, const char *text)
{
	const char *at = text, *end = text + body->consumed;
	size_t produced = 0;

	for (;;) {
		uint64_t size = 0;
		unsigned digits = 0;
		for (; at < end && memchr("0123456789abcdefABCDEF", *at, 22); at++, digits++)
			size = size << 4 |
			       (uint64_t)(*at <= '9' ? *at - '0' : (*at | 32) - 'a' + 10);
		MUST(digits > 0 && (size >> 60) == 0);
		const char *line = fuzz_line_end(at, end);
		assert_extensions(at, line);
		at = line + 2;
		if (size == 0)
			break;
		MUST(size <= (uint64_t)(end - at));
		MUST(memcmp(body->content + produced, at, size) == 0);
		produced += size;
		at += size;
		MUST(end - at >= 2 && memcmp(at, "\r\n", 2) == 0);
		at += 2;
	}
	MUST(produced == body->produced);
	for (;;) {
		const char *line = fuzz_line_end(at, end);
		if (line == at)
			break;
		MUST(memchr(at, ':', (size_t)(line - at)));
		at = line + 2;
	}
	MUST(at + 2 == end);
}

/* What is seen of a body without reading it is what reading finds. */
static void assert_extent(const struct body *body, const char *text, size_t len)
{
	struct http_chunked_extent extent;
	bool is_whole = http_chunked_is_whole(text, len, &extent);

	if (body->result == HTTP_PARSE_BAD)
		return;
	MUST(is_whole == (body->result == HTTP_PARSE_DONE));
	if (!is_whole)
		return;
	MUST(extent.content_bytes == body->produced);
	MUST(extent.has_trailers == (body->trailers_len > 0));
}

static void assert_same(const struct body *a, const struct body *b)
{
	MUST(a->result == b->result && a->found == b->found);
	if (a->result == HTTP_PARSE_BAD)
		return;
	MUST(a->consumed == b->consumed && a->produced == b->produced);
	MUST(memcmp(a->content, b->content, a->produced) == 0);
	MUST(a->trailers_len == b->trailers_len);
	MUST(memcmp(a->trailers, b->trailers, a->trailers_len) == 0);
}

/* Of a body that is read whole; `first`, `step`: where it is cut. */
static void decode_all_ways(struct body *whole, unsigned forgiven, const char *text, size_t len,
	size_t first, size_t step)
{
	struct body cut;

	decode(whole, forgiven, text, len, len, 1);
	MUST((whole->found & ~forgiven) == 0);
	for (int way = 0; way < 2; way++) {
		decode(&cut, forgiven, text, len, first, way ? step : len + 1);
		assert_same(whole, &cut);
		body_end(&cut);
	}
	if (whole->result == HTTP_PARSE_DONE && !whole->found)
		assert_by_the_letter(whole, text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct body strict, forgiving;

	if (size < 2)
		return 0;
	const char *text = (const char *)data + 2;
	size_t len = size - 2, first = len ? ((size_t)data[0] << 8 | data[1]) % (len + 1) : 0;
	size_t step = 1u + data[0] % 5u;

	decode_all_ways(&strict, 0, text, len, first, step);
	assert_extent(&strict, text, len);
	for (unsigned forgiven = 1; forgiven <= (HTTP_CHUNKED_BLANKS | HTTP_CHUNKED_LF);
		forgiven++) {
		decode_all_ways(&forgiving, forgiven, text, len, first, step);
		if (strict.result == HTTP_PARSE_DONE || !forgiving.found)
			assert_same(&strict, &forgiving);
		body_end(&forgiving);
	}
	body_end(&strict);
	return 0;
}
