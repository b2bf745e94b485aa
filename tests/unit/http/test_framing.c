/* RFC 9112 section 6: how long a message is, and what makes that ambiguous. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "http/framing.h"
#include "http/parser.h"
#include "tests/unit/suite.h"

struct row {
	const char *fields; /* after the first line, each with CRLF */
	unsigned status;    /* requests: the refusal; responses: 1 means not to be trusted */
	enum http_body body;
	uint64_t length;
	bool keep_alive;
};

static const struct http_parser_limits limits = {65536, 8192, 100};

static void parse(struct http_parser *parser, struct http_head *head, char *text, const char *line,
	const char *fields, bool request)
{
	strcpy(text, line);
	strcat(text, fields);
	strcat(text, "\r\n");
	http_head_init(head);
	if (request)
		http_parser_begin_request(parser, head, &limits);
	else
		http_parser_begin_response(parser, head, &limits);
	assert_int_equal(http_parser_head(parser, text, strlen(text)), HTTP_PARSE_DONE);
}

static void requests(void **state)
{
	static const struct row rows[] = {
		{"Host: h\r\n", 0, HTTP_BODY_NONE, 0, true},
		{"Host: h\r\nContent-Length: 5\r\n", 0, HTTP_BODY_LENGTH, 5, true},
		{"Host: h\r\nContent-Length: 0\r\n", 0, HTTP_BODY_NONE, 0, true},
		{"Host: h\r\nTransfer-Encoding: chunked\r\n", 0, HTTP_BODY_CHUNKED, 0, true},
		{"Host: h\r\nConnection: close\r\n", 0, HTTP_BODY_NONE, 0, false},
		{"Content-Length: 5\r\n", 400, HTTP_BODY_NONE, 0, false},
		{"Host: h\r\nHost: h\r\n", 400, HTTP_BODY_NONE, 0, false},
		{"Host: h\r\nTransfer-Encoding: gzip, chunked\r\n", 501, HTTP_BODY_NONE, 0, false},
		{"Host: h\r\nExpect: magic\r\n", 417, HTTP_BODY_NONE, 0, false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct http_parser parser = {0};
		struct http_head head;
		struct http_framing framing;
		char text[512];
		parse(&parser, &head, text, "POST / HTTP/1.1\r\n", rows[i].fields, true);
		assert_int_equal(http_frame_request(&head, &framing), rows[i].status);
		if (rows[i].status != 0)
			continue;
		assert_int_equal(framing.body, rows[i].body);
		assert_int_equal(framing.length, rows[i].length);
		assert_int_equal(framing.keep_alive, rows[i].keep_alive);
		http_parser_end(&parser);
		http_head_clear(&head);
	}
}

static void responses(void **state)
{
	static const struct {
		const char *line;
		enum http_method method;
		struct row row;
	} rows[] = {
		{"HTTP/1.1 200 OK\r\n", HTTP_METHOD_GET, {"", 0, HTTP_BODY_UNTIL_CLOSE, 0, false}},
		{"HTTP/1.1 200 OK\r\n", HTTP_METHOD_GET,
			{"Content-Length: 7\r\n", 0, HTTP_BODY_LENGTH, 7, true}},
		{"HTTP/1.1 200 OK\r\n", HTTP_METHOD_HEAD,
			{"Content-Length: 7\r\n", 0, HTTP_BODY_NONE, 7, true}},
		{"HTTP/1.1 304 Not Modified\r\n", HTTP_METHOD_GET,
			{"Content-Length: 7\r\n", 0, HTTP_BODY_NONE, 7, true}},
		{"HTTP/1.1 204 No Content\r\n", HTTP_METHOD_GET, {"", 0, HTTP_BODY_NONE, 0, true}},
		{"HTTP/1.1 200 OK\r\n", HTTP_METHOD_GET,
			{"Transfer-Encoding: chunked\r\n", 0, HTTP_BODY_CHUNKED, 0, true}},
		{"HTTP/1.1 200 OK\r\n", HTTP_METHOD_GET,
			{"Transfer-Encoding: gzip\r\n", 1, HTTP_BODY_NONE, 0, false}},
		{"HTTP/1.0 200 OK\r\n", HTTP_METHOD_GET,
			{"Transfer-Encoding: chunked\r\n", 1, HTTP_BODY_NONE, 0, false}},
		{"HTTP/1.0 200 OK\r\n", HTTP_METHOD_GET,
			{"Content-Length: 7\r\n", 0, HTTP_BODY_LENGTH, 7, false}},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct http_parser parser = {0};
		struct http_head head;
		struct http_framing framing;
		char text[512];
		parse(&parser, &head, text, rows[i].line, rows[i].row.fields, false);
		bool trusted = http_frame_response(&head, rows[i].method, &framing);
		assert_int_equal(trusted, rows[i].row.status == 0);
		if (!trusted)
			continue;
		assert_int_equal(framing.body, rows[i].row.body);
		assert_int_equal(framing.length, rows[i].row.length);
		assert_int_equal(framing.keep_alive, rows[i].row.keep_alive);
		http_parser_end(&parser);
		http_head_clear(&head);
	}
}

static void hop_by_hop(void **state)
{
	struct http_parser parser = {0};
	struct http_head head;
	struct http_framing framing;
	char text[512];

	(void)state;
	parse(&parser, &head, text, "GET / HTTP/1.1\r\n",
		"Host: h\r\nX-Mine: 1\r\nConnection: x-mine, keep-alive\r\nTE: trailers\r\nX-End: "
		"2\r\n",
		true);
	assert_int_equal(http_frame_request(&head, &framing), 0);
	assert_int_equal(head.field_count, 5);
	assert_false(head.fields[0].hop);
	assert_true(head.fields[1].hop);
	assert_true(head.fields[2].hop);
	assert_true(head.fields[3].hop);
	assert_false(head.fields[4].hop);
	http_parser_end(&parser);
	http_head_clear(&head);
}

/* RFC 9110 section 7.8: Upgrade goes with `Connection: upgrade`, and HTTP/1.0 has none. */
static void upgrades(void **state)
{
	static const struct {
		const char *line, *fields;
		bool upgrade;
	} rows[] = {
		{"GET / HTTP/1.1\r\n", "Host: h\r\nUpgrade: x\r\nConnection: upgrade\r\n", true},
		{"GET / HTTP/1.1\r\n", "Host: h\r\nUpgrade: x\r\nConnection: a, Upgrade\r\n", true},
		{"GET / HTTP/1.1\r\n", "Host: h\r\nUpgrade: x\r\n", false},
		{"GET / HTTP/1.1\r\n", "Host: h\r\nUpgrade: x\r\nConnection: x\r\n", false},
		{"GET / HTTP/1.1\r\n", "Host: h\r\nConnection: upgrade\r\n", false},
		{"GET / HTTP/1.0\r\n", "Upgrade: x\r\nConnection: upgrade\r\n", false},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct http_parser parser = {0};
		struct http_head head;
		struct http_framing framing;
		char text[512];

		parse(&parser, &head, text, rows[i].line, rows[i].fields, true);
		assert_int_equal(http_frame_request(&head, &framing), 0);
		assert_int_equal(framing.upgrade, rows[i].upgrade);
		http_head_clear(&head);
	}
}

UNIT_SUITE(test_framing)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests),
		cmocka_unit_test(responses),
		cmocka_unit_test(hop_by_hop),
		cmocka_unit_test(upgrades),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
