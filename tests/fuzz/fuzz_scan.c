/*
 * The quick way through a head against llhttp's: what the scan accepts, llhttp accepts, with the
 * same fields at the same places. The first byte says request (even) or response (odd).
 */
#include <assert.h>
#include <stdlib.h>

#include "http/head_scan.h"
#include "http/parser.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void assert_same(const struct http_head *scanned, const struct http_head *parsed)
{
	assert(scanned->base == parsed->base && scanned->len == parsed->len);
	assert(scanned->target_at == parsed->target_at);
	assert(scanned->target_len == parsed->target_len);
	assert(scanned->method == parsed->method && scanned->status == parsed->status);
	assert(scanned->major == parsed->major && scanned->minor == parsed->minor);
	assert(scanned->field_count == parsed->field_count && scanned->ids == parsed->ids);
	assert(scanned->repeated == parsed->repeated);
	for (unsigned i = 0; i < scanned->field_count; i++) {
		const struct http_field *a = &scanned->fields[i], *b = &parsed->fields[i];
		assert(a->name_at == b->name_at && a->name_len == b->name_len);
		assert(a->value_len == b->value_len && a->id == b->id);
		assert(a->value_len == 0 || a->value_at == b->value_at);
		assert(!a->hop && !b->hop);
		assert(scanned->first[a->id] == parsed->first[a->id]);
	}
}

/* A first call with less than the shortest head sends the parser llhttp's way. */
static enum http_parse parse(struct http_parser *parser, const char *base, size_t len)
{
	enum http_parse parsed = http_parser_head(parser, base, 1);

	return parsed == HTTP_PARSE_MORE ? http_parser_head(parser, base, len) : parsed;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct http_parser_limits limits = {4096, 1024, 24};
	struct http_head scanned, parsed;
	struct http_parser parser = {0};

	if (size < 2)
		return 0;
	bool is_request = (data[0] & 1) == 0;
	size_t len = size - 1;
	char *copy = malloc(len); /* so that a read beyond the end is seen */
	assert(copy);
	memcpy(copy, data + 1, len);
	http_head_init(&scanned);
	http_head_init(&parsed);
	bool plain = is_request ? http_scan_request(&scanned, copy, len, &limits)
				: http_scan_response(&scanned, copy, len, &limits);
	if (plain) {
		if (is_request)
			http_parser_begin_request(&parser, &parsed, &limits);
		else
			http_parser_begin_response(&parser, &parsed, &limits);
		enum http_parse result = parse(&parser, copy, len);
		assert(result == HTTP_PARSE_DONE);
		(void)result;
		assert_same(&scanned, &parsed);
	}
	http_head_clear(&scanned);
	http_head_clear(&parsed);
	http_parser_end(&parser);
	free(copy);
	return 0;
}
