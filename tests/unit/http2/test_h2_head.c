/* Header blocks become heads of HTTP/1, or are refused. */
#include "http2/h2_head.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/suite.h"

static struct buffer_pool pool;
static struct h2_head head;

/* Pairs of names and values, ended by NULL; the text that they become. */
static const char *text_of(bool has_body, const char *const *fields)
{
	static char text[4096];

	h2_head_begin(&head, &pool, 1000, H2_HEAD_REQUEST);
	for (; fields[0]; fields += 2)
		h2_head_add(&head, slice_of(fields[0]), slice_of(fields[1]));
	struct slice got = h2_head_finish(&head, has_body);
	if (!got.at)
		return NULL;
	memcpy(text, got.at, got.len);
	text[got.len] = '\0';
	return text;
}

#define TEXT(has_body, ...) text_of(has_body, (const char *const[]){__VA_ARGS__, NULL})
#define GOOD                ":method", "GET", ":scheme", "https", ":authority", "h", ":path", "/a?b"

static void a_request_is_translated(void **state)
{
	(void)state;
	assert_string_equal(
		TEXT(false, GOOD, "x", "1"), "GET /a?b HTTP/1.1\r\nhost: h\r\nx: 1\r\n\r\n");
	assert_string_equal(TEXT(false, GOOD), "GET /a?b HTTP/1.1\r\nhost: h\r\n\r\n");
	assert_string_equal(TEXT(false, GOOD, "cookie", "a=1", "x", "1", "cookie", "b=2"),
		"GET /a?b HTTP/1.1\r\nhost: h\r\nx: 1\r\ncookie: a=1; b=2\r\n\r\n");
	assert_string_equal(TEXT(false, GOOD, "host", "H"), "GET /a?b HTTP/1.1\r\nhost: h\r\n\r\n");
	assert_string_equal(
		TEXT(false, ":path", "*", ":scheme", "http", ":method", "OPTIONS", "host", "h"),
		"OPTIONS * HTTP/1.1\r\nhost: h\r\n\r\n");
	assert_string_equal(TEXT(false, ":method", "CONNECT", ":authority", "h:1"),
		"CONNECT h:1 HTTP/1.1\r\nhost: h:1\r\n\r\n");
}

static const char *response_of(bool has_body, const char *const *fields)
{
	static char text[4096];

	h2_head_begin(&head, &pool, 1000, H2_HEAD_RESPONSE);
	for (; fields[0]; fields += 2)
		h2_head_add(&head, slice_of(fields[0]), slice_of(fields[1]));
	struct slice got = h2_head_finish(&head, has_body);
	if (!got.at)
		return NULL;
	memcpy(text, got.at, got.len);
	text[got.len] = '\0';
	return text;
}

#define RESPONSE(has_body, ...) response_of(has_body, (const char *const[]){__VA_ARGS__, NULL})

static void a_response_is_translated(void **state)
{
	(void)state;
	assert_string_equal(RESPONSE(false, ":status", "200"), "HTTP/1.1 200 \r\n\r\n");
	assert_string_equal(
		RESPONSE(true, ":status", "404", "x", "1", "cookie", "a", "cookie", "b"),
		"HTTP/1.1 404 \r\nx: 1\r\ncookie: a\r\ncookie: b\r\n"
		"transfer-encoding: chunked\r\n\r\n");
	assert_string_equal(RESPONSE(true, ":status", "200", "content-length", "3"),
		"HTTP/1.1 200 \r\ncontent-length: 3\r\n\r\n");
	assert_null(RESPONSE(false, "x", "1"));
	assert_null(RESPONSE(false, ":status", "20"));
	assert_null(RESPONSE(false, ":status", "200", ":status", "200"));
	assert_null(RESPONSE(false, ":path", "/", ":status", "200"));
	assert_null(RESPONSE(false, ":status", "200", "connection", "close"));
	assert_null(RESPONSE(false, "x", "1", ":status", "200"));
}

static void a_body_has_a_length_or_chunks(void **state)
{
	(void)state;
	assert_string_equal(TEXT(true, GOOD),
		"GET /a?b HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n");
	assert_string_equal(TEXT(true, GOOD, "content-length", "3"),
		"GET /a?b HTTP/1.1\r\nhost: h\r\ncontent-length: 3\r\n\r\n");
}

static void the_rest_is_refused(void **state)
{
	(void)state;
	assert_null(TEXT(false, GOOD, "host", "other"));
	assert_null(TEXT(false, GOOD, "connection", "close"));
	assert_null(TEXT(false, GOOD, "transfer-encoding", "chunked"));
	assert_null(TEXT(false, GOOD, "upgrade", "h2c"));
	assert_null(TEXT(false, GOOD, "te", "gzip"));
	assert_null(TEXT(false, GOOD, ":path", "/b"));
	assert_null(TEXT(false, GOOD, ":other", "/b"));
	assert_null(TEXT(false, GOOD, "x", "1", ":path", "/b"));
	assert_null(
		TEXT(false, ":method", "GET", ":scheme", "ftp", ":authority", "h", ":path", "/"));
	assert_null(
		TEXT(false, ":method", "GET", ":scheme", "http", ":authority", "h", ":path", "x"));
	assert_null(TEXT(
		false, ":method", "GET", ":scheme", "http", ":authority", "h", ":path", "/ x"));
	assert_null(
		TEXT(false, ":method", "G T", ":scheme", "http", ":authority", "h", ":path", "/"));
	assert_null(TEXT(false, ":method", "GET", ":scheme", "http", ":authority", "h"));
	assert_null(TEXT(false, ":scheme", "http", ":authority", "h", ":path", "/"));
	assert_null(TEXT(false, "x", "1"));
	assert_true(head.is_bad);
}

static void a_head_is_bounded(void **state)
{
	char value[900];

	(void)state;
	memset(value, 'y', sizeof(value));
	value[sizeof(value) - 1] = '\0';
	assert_non_null(TEXT(false, GOOD, "x", value));
	assert_null(TEXT(false, GOOD, "x", value, "y", value));
	assert_true(head.is_too_large);
	assert_null(TEXT(false, GOOD, "cookie", value, "cookie", value));
	assert_true(head.is_too_large);
}

static void trailers_are_lines(void **state)
{
	(void)state;
	h2_head_begin(&head, &pool, 1000, H2_HEAD_TRAILERS);
	h2_head_add(&head, SLICE("x-sum"), SLICE("1"));
	struct slice got = h2_head_finish(&head, false);
	assert_true(slice_equal(got, SLICE("x-sum: 1\r\n")));
	h2_head_begin(&head, &pool, 1000, H2_HEAD_TRAILERS);
	assert_non_null(h2_head_finish(&head, false).at);
	h2_head_begin(&head, &pool, 1000, H2_HEAD_TRAILERS);
	h2_head_add(&head, SLICE(":path"), SLICE("/"));
	assert_null(h2_head_finish(&head, false).at);
}

static int begin(void **state)
{
	(void)state;
	buffer_pool_init(&pool, 256, 4);
	return 0;
}

static int end(void **state)
{
	(void)state;
	h2_head_end(&head);
	buffer_pool_clear(&pool);
	return 0;
}

UNIT_SUITE(test_h2_head)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_request_is_translated),
		cmocka_unit_test(a_response_is_translated),
		cmocka_unit_test(a_body_has_a_length_or_chunks),
		cmocka_unit_test(the_rest_is_refused),
		cmocka_unit_test(a_head_is_bounded),
		cmocka_unit_test(trailers_are_lines),
	};

	return cmocka_run_group_tests(tests, begin, end);
}
