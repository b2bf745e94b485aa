#include "http/grpc.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "http/parser.h"
#include "http/text_head.h"
#include "tests/unit/suite.h"

static struct http_head head;

/* A request with this field. */
static const struct http_head *with(const char *line)
{
	static char text[512];
	const struct http_parser_limits none = {0};
	struct http_parser parser = {0};

	snprintf(text, sizeof(text), "POST /a.B/C HTTP/1.1\r\nHost: h\r\n%s\r\n\r\n", line);
	http_head_clear(&head);
	http_head_init(&head);
	http_parser_begin_request(&parser, &head, &none);
	assert_int_equal(http_parser_head(&parser, text, strlen(text)), HTTP_PARSE_DONE);
	http_parser_end(&parser);
	return &head;
}

static void calls_are_known_by_their_type(void **state)
{
	(void)state;
	assert_true(http_is_grpc(with("Content-Type: application/grpc")));
	assert_true(http_is_grpc(with("content-type: APPLICATION/grpc+proto")));
	assert_true(http_is_grpc(with("content-type: application/grpc;x=1")));
	assert_false(http_is_grpc(with("content-type: application/grpc-web")));
	assert_false(http_is_grpc(with("content-type: application/json")));
	assert_false(http_is_grpc(with("x: application/grpc")));
}

static void timeouts_are_read(void **state)
{
	static const struct {
		const char *line;
		uint64_t ms;
	} rows[] = {{"grpc-timeout: 1S", 1000}, {"grpc-timeout: 250m", 250},
		{"grpc-timeout: 99999999H", 99999999ULL * 3600000}, {"grpc-timeout: 2M", 120000},
		{"grpc-timeout: 1500u", 2}, {"grpc-timeout: 1n", 1}, {"grpc-timeout: 0m", 1},
		{"grpc-timeout: 5", 0}, {"grpc-timeout: S", 0}, {"grpc-timeout: 5x", 0},
		{"grpc-timeout: -5S", 0}, {"grpc-timeout: 123456789S", 0}, {"x: 1S", 0}};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(http_grpc_timeout_ms(with(rows[i].line)), rows[i].ms);
}

static const char *written(const struct http_problem *problem, unsigned major)
{
	static char text[1024];
	struct field_sink sink = text_head_over(http_out_over(text, sizeof(text) - 1));

	sink.major = (uint8_t)major;
	http_grpc_put_fields(&sink, problem);
	*sink.out.at = '\0';
	return text;
}

static void refusals_are_heads(void **state)
{
	struct http_problem problem = {.status = 429, .retry_after_ms = 6500};

	(void)state;
	assert_string_equal(written(&problem, 2),
		"Content-Type: application/grpc\r\ngrpc-status: 8\r\n"
		"grpc-message: Rate limit exceeded\r\ngrpc-retry-pushback-ms: 6500\r\n");
	problem = (struct http_problem){.status = 504,
		.retry_after_ms = HTTP_PROBLEM_NO_RETRY,
		.detail = SLICE("50% \xc3\xa4\n")};
	assert_string_equal(written(&problem, 1),
		"Content-Type: application/grpc\r\nContent-Length: 0\r\ngrpc-status: 4\r\n"
		"grpc-message: 50%25 %C3%A4%0A\r\n");
	assert_int_equal(http_grpc_status(503), 14);
	assert_int_equal(http_grpc_status(502), 14);
	assert_int_equal(http_grpc_status(599), 2);
}

static int end(void **state)
{
	(void)state;
	http_head_clear(&head);
	return 0;
}

UNIT_SUITE(test_grpc)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(calls_are_known_by_their_type),
		cmocka_unit_test(timeouts_are_read),
		cmocka_unit_test(refusals_are_heads),
	};
	return cmocka_run_group_tests(tests, NULL, end);
}
