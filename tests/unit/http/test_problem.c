#include "http/problem.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "http/message.h"
#include "http/out.h"
#include "http/status.h"
#include "http/text_head.h"
#include "tests/unit/suite.h"

/* Fields and content, behind a status line; the length, or 0 if they do not fit. */
static size_t write_problem(char *to, size_t capacity, const struct http_problem *problem)
{
	char content[HTTP_PROBLEM_BYTES];
	struct http_out out = http_out_over(content, sizeof(content));
	struct field_sink sink = text_head_over(http_out_over(to, capacity));

	http_problem_put_content(&out, problem);
	struct slice whole = {content, (size_t)(out.at - content)};
	text_head_status(&sink, problem->status, SLICE_NONE);
	http_problem_put_fields(&sink, problem, whole.len);
	text_head_end(&sink);
	http_out_slice(&sink.out, whole);
	return out.overflow || sink.out.overflow ? 0 : (size_t)(sink.out.at - to);
}

static char reply[HTTP_PROBLEM_BYTES + 1];

static const char *written(const struct http_problem *problem)
{
	size_t len = write_problem(reply, HTTP_PROBLEM_BYTES, problem);

	assert_true(len > 0);
	reply[len] = '\0';
	return reply;
}

static void refused_by_quota(void **state)
{
	const struct slice policies[] = {SLICE("burst"), SLICE("a\"b")};
	struct http_problem problem = {
		.status = 429,
		.retry_after_ms = 6001,
		.policies = policies,
		.policy_count = 2,
	};

	(void)state;
	assert_string_equal(written(&problem),
		"HTTP/1.1 429 Too Many Requests\r\n"
		"Content-Type: application/problem+json\r\n"
		"Content-Length: 289\r\n"
		"Cache-Control: no-store\r\n"
		"Retry-After: 7\r\n"
		"\r\n"
		"{\"type\":\"https://iana.org/assignments/http-problem-types#quota-exceeded\","
		"\"title\":\"Request cannot be satisfied as assigned quota has been exceeded\","
		"\"status\":429,"
		"\"detail\":\"Rate limit exceeded; retry after the time in Retry-After.\","
		"\"violated-policies\":[\"burst\",\"a\\\"b\"],\"retry-after-ms\":6001}\n");
	assert_int_equal(strlen(strstr(reply, "\r\n\r\n") + 4), 289);
}

static void retry_after_rounds_up(void **state)
{
	static const struct {
		uint64_t ms;
		const char *line;
	} cases[] = {{0, "Retry-After: 1\r\n"}, {1, "Retry-After: 1\r\n"},
		{1000, "Retry-After: 1\r\n"}, {1001, "Retry-After: 2\r\n"},
		{UINT64_MAX - 1, "Retry-After: 18446744073709552\r\n"}};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct http_problem problem = {.status = 503, .retry_after_ms = cases[i].ms};
		assert_non_null(strstr(written(&problem), cases[i].line));
	}
	struct http_problem unknown = {.status = 503, .retry_after_ms = HTTP_PROBLEM_NO_RETRY};
	assert_null(strstr(written(&unknown), "Retry-After:"));
	assert_null(strstr(reply, "retry-after-ms"));
}

static void reduced_capacity(void **state)
{
	struct http_problem problem = {
		.status = 503, .retry_after_ms = 700, .reduced_capacity = true};

	(void)state;
	assert_non_null(strstr(written(&problem),
		"{\"type\":\"https://iana.org/assignments/"
		"http-problem-types#temporary-reduced-capacity\",\"title\":\"Request cannot be "
		"satisfied due to temporary server capacity constraints\",\"status\":503,"));
	assert_non_null(strstr(reply, "Retry-After: 1\r\n"));
	assert_non_null(strstr(reply, "\"retry-after-ms\":700}\n"));
}

static void all_statuses(void **state)
{
	static const unsigned statuses[] = {
		400, 403, 404, 405, 408, 413, 414, 417, 429, 431, 500, 501, 502, 503, 504, 505};

	(void)state;
	for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++) {
		struct http_problem problem = {
			.status = statuses[i], .retry_after_ms = HTTP_PROBLEM_NO_RETRY};
		char line[64];
		struct slice reason = http_status_reason(statuses[i]);
		assert_true(reason.len > 0);
		snprintf(line, sizeof(line), "HTTP/1.1 %u %.*s\r\n", statuses[i],
			SLICE_ARGS(reason));
		assert_memory_equal(written(&problem), line, strlen(line));
		assert_non_null(strstr(reply, "\"type\":\"about:blank\""));
		const char *body = strstr(reply, "\r\n\r\n") + 4;
		assert_int_equal(
			strtoul(strstr(reply, "Content-Length: ") + 16, NULL, 10), strlen(body));
	}
	struct http_problem unknown = {.status = 299, .retry_after_ms = HTTP_PROBLEM_NO_RETRY};
	assert_memory_equal(written(&unknown), "HTTP/1.1 299 \r\n", 15);
	assert_non_null(strstr(reply, ",\"status\":299}"));
	assert_int_equal(http_status_reason(299).len, 0);
	assert_int_equal(http_status_reason(99).len, 0);
	assert_int_equal(http_status_reason(512).len, 0);
}

static void allow(void **state)
{
	char text[HTTP_ALLOW_BYTES];
	size_t len = http_allow_text(UINT64_MAX, text);
	struct http_problem problem = {.status = 405,
		.retry_after_ms = HTTP_PROBLEM_NO_RETRY,
		.allow = (struct slice){text, len}};

	(void)state;
	assert_non_null(strstr(written(&problem),
		"\r\nAllow: GET, HEAD, POST, PUT, DELETE, CONNECT, OPTIONS, TRACE, PATCH, ACL, "));
	len = http_allow_text(1u << HTTP_METHOD_GET | 1u << HTTP_METHOD_POST, text);
	assert_true(slice_equal((struct slice){text, len}, SLICE("GET, POST")));
}

static void answer_to_options(void **state)
{
	struct http_problem answer = {.status = 200,
		.retry_after_ms = HTTP_PROBLEM_NO_RETRY,
		.allow = SLICE("GET, OPTIONS")};
	const char *text = written(&answer);

	(void)state;
	assert_non_null(strstr(text, "\r\nContent-Length: 0\r\n"));
	assert_non_null(strstr(text, "\r\nAllow: GET, OPTIONS\r\n"));
	assert_null(strstr(text, "Content-Type"));
	assert_string_equal(strstr(text, "\r\n\r\n"), "\r\n\r\n");
}

static void capacity(void **state)
{
	char small[512], *detail = malloc(HTTP_PROBLEM_BYTES);
	struct http_problem problem = {.status = 404, .retry_after_ms = HTTP_PROBLEM_NO_RETRY};
	size_t len = write_problem(small, sizeof(small), &problem);

	(void)state;
	assert_true(len > 0);
	for (size_t i = 0; i < len; i++)
		assert_int_equal(write_problem(small, i, &problem), 0);
	assert_int_equal(write_problem(small, len, &problem), len);
	memset(detail, '\1', HTTP_PROBLEM_BYTES);
	problem.detail = (struct slice){detail, 1024};
	assert_true(write_problem(reply, HTTP_PROBLEM_BYTES, &problem) > 6 * 1024);
	problem.detail.len = HTTP_PROBLEM_BYTES;
	assert_int_equal(write_problem(reply, HTTP_PROBLEM_BYTES, &problem), 0);
	free(detail);
}

static void any_bytes_make_valid_json(void **state)
{
	char bytes[256], text[2048];
	struct http_out out = http_out_over(text, sizeof(text));

	(void)state;
	for (unsigned i = 0; i < 256; i++)
		bytes[i] = (char)i;
	http_out_json(&out, (struct slice){bytes, sizeof(bytes)});
	assert_false(out.overflow);
	for (const char *at = text + 1; at < out.at - 1; at++) {
		assert_true(*at >= 0x20 && *at < 0x7f);
		assert_true(*at != '"');
		if (*at == '\\')
			at += at[1] == 'u' ? 5 : 1;
	}
	out = http_out_over(text, sizeof(text));
	http_out_sf_string(&out, SLICE("a\"b\\c\x01\xff"));
	assert_true(slice_equal(
		(struct slice){text, (size_t)(out.at - text)}, SLICE("\"a\\\"b\\\\c??\"")));
	out = http_out_over(text, sizeof(text));
	http_out_number(&out, UINT64_MAX);
	http_out_number(&out, 0);
	assert_true(slice_equal(
		(struct slice){text, (size_t)(out.at - text)}, SLICE("184467440737095516150")));
}

static void assert_number(uint64_t number)
{
	char expected[24], text[24];
	size_t len = (size_t)snprintf(expected, sizeof(expected), "%" PRIu64, number);
	struct http_out out = http_out_over(text, len);

	http_out_number(&out, number);
	assert_false(out.overflow);
	assert_ptr_equal(out.at, text + len);
	assert_memory_equal(text, expected, len);
	/* A byte too few: none of it is written. */
	memset(text, '.', sizeof(text));
	out = http_out_over(text, len - 1);
	http_out_number(&out, number);
	assert_true(out.overflow);
	assert_ptr_equal(out.at, text);
	assert_int_equal(text[0], '.');
}

static void numbers_of_every_length(void **state)
{
	(void)state;
	for (unsigned bit = 0; bit < 64; bit++) {
		assert_number((UINT64_C(1) << bit) - 1);
		assert_number(UINT64_C(1) << bit);
	}
	for (uint64_t power = 1;; power *= 10) {
		assert_number(power - 1);
		assert_number(power);
		assert_number(power / 3 * 7);
		if (power > UINT64_MAX / 10)
			break;
	}
	assert_number(UINT64_MAX);
}

UNIT_SUITE(test_problem)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(refused_by_quota),
		cmocka_unit_test(retry_after_rounds_up),
		cmocka_unit_test(reduced_capacity),
		cmocka_unit_test(all_statuses),
		cmocka_unit_test(allow),
		cmocka_unit_test(answer_to_options),
		cmocka_unit_test(capacity),
		cmocka_unit_test(any_bytes_make_valid_json),
		cmocka_unit_test(numbers_of_every_length),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
