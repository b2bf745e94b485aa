/* What is published to held responses: the bytes that their clients get, and what is refused. */
#include "admin/publish_items.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/suite.h"

static char bytes[4096];

/* NULL: `formats` was read, into `item`. With ' for ". */
static const char *read_into(const char *formats, size_t room_bytes, struct publish_item *item)
{
	static json_t *object;
	struct publish_room room = {bytes, room_bytes};
	char text[4096];

	json_decref(object);
	for (size_t i = 0; i == 0 || formats[i - 1]; i++)
		text[i] = formats[i] == '\'' ? '"' : formats[i];
	object = json_loads(text, JSON_ALLOW_NUL, NULL);
	assert_non_null(object);
	*item = (struct publish_item){0};
	const char *why = publish_http_read(object, &room, item);
	assert_true(room.bytes <= room_bytes);
	assert_ptr_equal(room.at + room.bytes, bytes + room_bytes);
	return why;
}

static void assert_response(const char *response, const char *expected)
{
	struct publish_item item;
	char formats[2048];

	snprintf(formats, sizeof(formats), "{'http-response': {%s}}", response);
	const char *why = read_into(formats, sizeof(bytes), &item);
	if (why || !slice_equal(item.response, slice_of(expected)))
		fail_msg("%s: %s, %.*s", response, why ? why : "", SLICE_ARGS(item.response));
	assert_null(item.stream.at);
}

static void responses(void **state)
{
	(void)state;
	assert_response("", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n");
	assert_response("'body': 'hello'", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
	assert_response("'code': 599, 'reason': 'So Be It', 'headers': {'X-A': '1'}",
		"HTTP/1.1 599 So Be It\r\nX-A: 1\r\nContent-Length: 0\r\n\r\n");
	assert_response("'code': null, 'headers': null, 'body': null, 'body-bin': 'aGk='",
		"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
	/* Its length is that of its content, even if Content-Length differs. */
	assert_response(
		"'body': 'hello', 'headers': [['A', '1'], ['A', '2'], ['CONTENT-LENGTH', '9'],"
		" ['Transfer-Encoding', 'chunked']]",
		"HTTP/1.1 200 OK\r\nA: 1\r\nA: 2\r\nContent-Length: 5\r\n\r\nhello");
}

static void responses_that_are_none(void **state)
{
	static const struct {
		const char *response, *why;
	} wrong[] = {{"'code': 199", ".code"}, {"'code': 600", ".code"}, {"'code': '200'", ".code"},
		{"'reason': 'a\\r\\nX: y'", ".code"}, {"'reason': 'a\\u0000b'", ".code"},
		{"'headers': 'X: y'", ".headers"}, {"'headers': {'X': 1}", ".headers"},
		{"'headers': {'X': 'a\\nY: b'}", ".headers"},
		{"'headers': {'X\\r\\nY': 'b'}", ".headers"}, {"'headers': {'': 'b'}", ".headers"},
		{"'headers': {'X Y': 'b'}", ".headers"},
		{"'headers': {'X': 'a\\u0000b'}", ".headers"}, {"'headers': [['X']]", ".headers"},
		{"'headers': [['X', 'a', 'b']]", ".headers"}, {"'headers': [['X', 1]]", ".headers"},
		{"'headers': [[1, 'a']]", ".headers"}, {"'headers': ['X', 'a']", ".headers"},
		{"'body': 1", "invalid body"}, {"'body-bin': 'a'", "invalid body"},
		{"'body-bin': 1", "invalid body"},
		{"'content-filters': ['x']", ".content-filters"}};
	struct publish_item item;
	char formats[512];

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		snprintf(formats, sizeof(formats), "{'http-response': {%s}}", wrong[i].response);
		const char *why = read_into(formats, sizeof(bytes), &item);
		if (!why || !strstr(why, wrong[i].why))
			fail_msg("%s: %s", wrong[i].response, why ? why : "read");
	}
	assert_non_null(read_into("{'http-response': 1}", sizeof(bytes), &item));
}

/* Each room is one byte too small, but the last. */
static void no_byte_is_written_behind_the_room(void **state)
{
	static const char formats[] =
		"{'http-response': {'headers': {'X-A': '12345'}, 'body-bin': 'aGVsbG8='}}";
	static const char expected[] =
		"HTTP/1.1 200 OK\r\nX-A: 12345\r\nContent-Length: 5\r\n\r\nhello";
	size_t needed =
		strlen(expected) + 5; /* what was coded is beside it: 5 bytes, 6 while it is read */
	struct publish_item item;

	(void)state;
	for (size_t room = 6; room <= needed; room++) {
		memset(bytes, '#', sizeof(bytes));
		const char *why = read_into(formats, room, &item);
		for (size_t i = room; i < sizeof(bytes); i++)
			assert_int_equal(bytes[i], '#');
		assert_int_equal(why == NULL, room == needed);
	}
	assert_true(slice_equal(item.response, slice_of(expected)));
}

static void assert_stream(const char *stream, const char *content, bool closes)
{
	struct publish_item item;
	char formats[512];

	snprintf(formats, sizeof(formats), "{'http-stream': {%s}}", stream);
	const char *why = read_into(formats, sizeof(bytes), &item);
	if (why)
		fail_msg("%s: %s", stream, why);
	assert_int_equal(item.stream.at != NULL, content != NULL);
	if (content)
		assert_true(slice_equal(item.stream, slice_of(content)));
	assert_int_equal(item.closes_stream, closes);
	assert_null(item.response.at);
}

static void streams(void **state)
{
	struct publish_item item;

	(void)state;
	assert_stream("'content': 'hello'", "hello", false);
	assert_stream("'content': ''", "", false);
	assert_stream("'content-bin': 'aGk=', 'action': 'send'", "hi", false);
	assert_stream("'action': 'close'", NULL, true);
	assert_stream("'action': 'close', 'content': 'bye'", "bye", true);
	assert_stream("'action': 'hint', 'content': 'no'", NULL, false);
	assert_non_null(strstr(
		read_into("{'http-stream': {'action': 'stop'}}", sizeof(bytes), &item), ".action"));
	assert_non_null(
		strstr(read_into("{'http-stream': {}}", sizeof(bytes), &item), "no content"));
	assert_non_null(strstr(
		read_into("{'http-stream': 'hello'}", sizeof(bytes), &item), "expected an object"));
}

static void both_or_none(void **state)
{
	struct publish_item item;

	(void)state;
	assert_null(read_into("{'http-stream': {'content': 'a'}, 'http-response': {'body': 'b'}}",
		sizeof(bytes), &item));
	assert_true(item.response.at && item.stream.at);
	assert_null(read_into("{'ws-message': {}}", sizeof(bytes), &item));
	assert_false(item.response.at || item.stream.at || item.closes_stream);
}

UNIT_SUITE(test_publish_http)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(responses),
		cmocka_unit_test(responses_that_are_none),
		cmocka_unit_test(no_byte_is_written_behind_the_room),
		cmocka_unit_test(streams),
		cmocka_unit_test(both_or_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
