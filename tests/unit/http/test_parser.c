/* Heads: what is read, what is refused with which status, and that neither depends on how the
 * bytes were cut or where they lay. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "http/parser.h"
#include "tests/unit/random.h"
#include "tests/unit/suite.h"

static const struct http_parser_limits wide = {
	.head_bytes = 65536, .target_bytes = 8192, .fields = 500};

/* What a head came to; 0 in status: good, 1: not all there. */
struct outcome {
	unsigned status;
	uint32_t len;
	struct http_head head;
};

static bool is_response(const char *text, size_t len)
{
	return len >= 5 && memcmp(text, "HTTP/", 5) == 0;
}

/* Parses text cut at each of `cuts` (ascending), from memory of another place at every call. */
static void parse_cut(struct outcome *outcome, const char *text, size_t len, const size_t *cuts,
	size_t cut_count, const struct http_parser_limits *limits)
{
	struct http_parser parser = {0};
	enum http_parse result = HTTP_PARSE_MORE;
	char *last = NULL;

	*outcome = (struct outcome){.status = 1};
	if (is_response(text, len))
		http_parser_begin_response(&parser, &outcome->head, limits);
	else
		http_parser_begin_request(&parser, &outcome->head, limits);
	for (size_t i = 0; i <= cut_count && result == HTTP_PARSE_MORE; i++) {
		size_t given = i < cut_count ? cuts[i] : len;
		char *copy = malloc(given > 0 ? given : 1);
		assert_non_null(copy);
		memcpy(copy, text, given);
		result = http_parser_head(&parser, copy, given);
		/* What the connection compares with to know whether there is more to offer. */
		if (result == HTTP_PARSE_MORE)
			assert_int_equal(parser.fed, given);
		free(last); /* only now, so that the next is elsewhere */
		last = copy;
	}
	if (result == HTTP_PARSE_DONE) {
		outcome->status = 0;
		outcome->len = outcome->head.len;
		assert_ptr_equal(outcome->head.base, last);
		outcome->head.base = text; /* offsets hold wherever the bytes are */
	} else if (result == HTTP_PARSE_BAD) {
		outcome->status = parser.error_status;
		assert_true(outcome->status >= 400);
	}
	free(last);
	http_parser_end(&parser);
}

static void assert_same(const struct outcome *a, const struct outcome *b)
{
	assert_int_equal(a->status, b->status);
	if (a->status != 0)
		return;
	assert_int_equal(a->len, b->len);
	assert_int_equal(a->head.target_at, b->head.target_at);
	assert_int_equal(a->head.target_len, b->head.target_len);
	assert_int_equal(a->head.method, b->head.method);
	assert_int_equal(a->head.status, b->head.status);
	assert_int_equal(a->head.minor, b->head.minor);
	assert_int_equal(a->head.field_count, b->head.field_count);
	for (unsigned i = 0; i < a->head.field_count; i++) {
		const struct http_field *x = &a->head.fields[i], *y = &b->head.fields[i];
		assert_int_equal(x->name_at, y->name_at);
		assert_int_equal(x->name_len, y->name_len);
		assert_int_equal(x->value_at, y->value_at);
		assert_int_equal(x->value_len, y->value_len);
		assert_int_equal(x->id, y->id);
	}
}

/* Once whole, once at every cut, once byte by byte: all the same. */
static void parse(struct outcome *outcome, const char *text, size_t len,
	const struct http_parser_limits *limits)
{
	struct outcome other;
	size_t *bytes = malloc((len + 1) * sizeof(*bytes));

	assert_non_null(bytes);
	parse_cut(outcome, text, len, NULL, 0, limits);
	for (size_t cut = 0; cut <= len; cut++) {
		bytes[cut] = cut;
		parse_cut(&other, text, len, &cut, 1, limits);
		if (other.status != outcome->status)
			fail_msg("%u whole, %u when cut at %zu: %s", outcome->status, other.status,
				cut, text);
		assert_same(outcome, &other);
		http_head_clear(&other.head);
	}
	parse_cut(&other, text, len, bytes, len, limits);
	assert_same(outcome, &other);
	http_head_clear(&other.head);
	free(bytes);
}

struct row {
	unsigned status; /* 0: good */
	size_t len;      /* a NUL may be in the text */
	const char *text;
};

#define ROW(status, literal)                                                                       \
	{                                                                                          \
		status, sizeof(literal) - 1, literal                                               \
	}

static void check_rows(const struct row *rows, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		struct outcome outcome;
		parse(&outcome, rows[i].text, rows[i].len, &wide);
		if (outcome.status != rows[i].status)
			fail_msg("row %zu: %u instead of %u: %s", i, outcome.status, rows[i].status,
				rows[i].text);
		http_head_clear(&outcome.head);
	}
}

#define ROWS(rows) check_rows(rows, sizeof(rows) / sizeof(rows[0]))

#define GET       "GET / HTTP/1.1\r\n"
#define OK        "HTTP/1.1 200 OK\r\n"
#define HOST      "Host: h\r\n"
#define METHOD_64 "0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF0123456789ABCDEF"

static void good_requests(void **state)
{
	static const struct row rows[] = {
		ROW(0, GET "\r\n"),
		ROW(0, GET HOST "\r\n"),
		ROW(0, GET "Host:h\r\n\r\n"),
		ROW(0, GET "Host: \t h \t \r\n\r\n"),
		ROW(0, GET "Empty:\r\n\r\n"),
		ROW(0, GET "Empty: \t\r\nA: b\r\n\r\n"),
		ROW(0, GET "A: b:c; \"d\" \xe4\x80\xff\r\n\r\n"),
		ROW(0, GET "!#$%&'*+-.^_`|~09azAZ: token\r\n\r\n"),
		ROW(0, "GET http://h:8/p?q HTTP/1.1\r\n\r\n"),
		ROW(0, "OPTIONS * HTTP/1.1\r\n\r\n"),
		ROW(0, "CONNECT h:443 HTTP/1.1\r\n\r\n"),
		ROW(0, "PROPFIND /dav HTTP/1.1\r\n\r\n"),
		ROW(0, "GET / HTTP/1.0\r\n\r\n"),
		ROW(0, GET HOST "\r\nbody that is not looked at \r\r\n"),
		ROW(0, "POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc"),
		ROW(0, "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
	};

	(void)state;
	ROWS(rows);
}

/* RFC 9112 sections 2.2, 3 and 5: what another reader could take for something else. */
static void ambiguous_requests(void **state)
{
	static const struct row rows[] = {
		/* line ends */
		ROW(400, "GET / HTTP/1.1\nHost: h\n\n"),
		ROW(400, GET "Host: h\n\r\n"),
		ROW(400, GET "A: b\nC: d\r\n\r\n"),
		ROW(400, GET HOST "\n"),
		ROW(400, GET "A: b\rC: d\r\n\r\n"),
		ROW(400, GET "A: b\r\r\n\r\n"),
		ROW(400, GET "A:\rb\r\n\r\n"),
		ROW(400, "GET / HTTP/1.1\rHost: h\r\n\r\n"),
		ROW(400, "GET /\rx HTTP/1.1\r\n\r\n"),
		ROW(400, "GET /\nHost: h\r\n\r\n"),
		/* obs-fold */
		ROW(400, GET "A: b\r\n c\r\n\r\n"),
		ROW(400, GET "A: b\r\n\tc\r\n\r\n"),
		ROW(400, GET "A:\r\n b\r\n\r\n"),
		ROW(400, GET "A: b\r\n \r\n\r\n"),
		ROW(400, GET " A: b\r\n\r\n"),
		ROW(400, GET "\tA: b\r\n\r\n"),
		/* names */
		ROW(400, GET "A : b\r\n\r\n"),
		ROW(400, GET "A\t: b\r\n\r\n"),
		ROW(400, GET "A B: b\r\n\r\n"),
		ROW(400, GET ": b\r\n\r\n"),
		ROW(400, GET "A\r\n\r\n"),
		ROW(400, GET "A(: b\r\n\r\n"),
		ROW(400, GET "A\x80: b\r\n\r\n"),
		ROW(400, GET "A@B: b\r\n\r\n"),
		/* NUL and controls */
		ROW(400, GET "A: b\0c\r\n\r\n"),
		ROW(400, GET "A\0: b\r\n\r\n"),
		ROW(400, "GET /\0 HTTP/1.1\r\n\r\n"),
		ROW(400, GET "A: b\x01\r\n\r\n"),
		ROW(400, GET "A: b\x7f\r\n\r\n"),
		ROW(400, "GET /\x01 HTTP/1.1\r\n\r\n"),
		ROW(400, "GET /\x7f HTTP/1.1\r\n\r\n"),
		/* the request line */
		ROW(400, "GET  / HTTP/1.1\r\n\r\n"),
		ROW(400, "GET /  HTTP/1.1\r\n\r\n"),
		ROW(400, "GET / HTTP/1.1 \r\n\r\n"),
		ROW(400, "GET\t/ HTTP/1.1\r\n\r\n"),
		ROW(400, "GET /\tHTTP/1.1\r\n\r\n"),
		ROW(400, "GET /a b HTTP/1.1\r\n\r\n"),
		ROW(400, " GET / HTTP/1.1\r\n\r\n"),
		ROW(400, "\rGET / HTTP/1.1\r\n\r\n"),
		ROW(400, "\nGET / HTTP/1.1\r\n\r\n"),
		ROW(400, "\r\r\nGET / HTTP/1.1\r\n\r\n"),
		ROW(400, "\r\nGET / HTTP/1.1\r\n\r\n"), /* the caller skips these */
		ROW(400, "GET HTTP/1.1\r\n\r\n"),
		ROW(400, "GET /\r\n\r\n"),
		ROW(400, "/ HTTP/1.1\r\n\r\n"),
		ROW(400, "G(T / HTTP/1.1\r\n\r\n"),
		/* RFC 9112 section 6.3, both framings: found here already */
		ROW(400, "POST / HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n"),
		ROW(400, "POST / HTTP/1.1\r\nContent-Length: +3\r\n\r\n"),
		ROW(400, "POST / HTTP/1.1\r\nContent-Length: 3, 3\r\n\r\n"),
		ROW(400, "POST / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n"),
	};

	(void)state;
	ROWS(rows);
}

static void methods_and_versions(void **state)
{
	static const struct row rows[] = {
		ROW(0, "FOO / HTTP/1.1\r\n\r\n"),
		ROW(0, "M-SEARCH+1 /a HTTP/1.1\r\nHost: h\r\n\r\n"),
		ROW(0, "QUERY http://h/a HTTP/1.0\r\n\r\n"),
		ROW(0, "SOURCE /a HTTP/1.1\r\n\r\n"),
		ROW(400, "SOURCE /a ICE/1.0\r\n\r\n"),
		ROW(400, "FOO  / HTTP/1.1\r\n\r\n"),
		ROW(400, "FOO\t/ HTTP/1.1\r\n\r\n"),
		ROW(400, " / HTTP/1.1\r\n\r\n"),
		ROW(400, "QUERY h:443 HTTP/1.1\r\n\r\n"),
		ROW(501, "Propfind / HTTP/1.1\r\n\r\n"),
		ROW(0, "GET /\xc3\xa4\xff?\x80=\xe4 HTTP/1.1\r\nHost: h\r\n\r\n"),
		ROW(0, "QUERY /\xc3\xa4 HTTP/1.1\r\nHost: h\r\n\r\n"),
		ROW(0, "GET http://h/\xc3\xa4 HTTP/1.1\r\nHost: h\r\n\r\n"),
		ROW(400, "GET \xc3\xa4 HTTP/1.1\r\nHost: h\r\n\r\n"),
		ROW(400, "GET /\xc3\x7f HTTP/1.1\r\nHost: h\r\n\r\n"),
		ROW(400, "GET /\xc3\xa4\x01 HTTP/1.1\r\nHost: h\r\n\r\n"),
		ROW(400, "GET /\xc3\xa4\r\n\r\n"),
		ROW(400, "GET / \xc3HTTP/1.1\r\nHost: h\r\n\r\n"),
		ROW(400, "G\xc3T / HTTP/1.1\r\nHost: h\r\n\r\n"),
		ROW(0, METHOD_64 " / HTTP/1.1\r\n\r\n"),
		ROW(501, METHOD_64 "A / HTTP/1.1\r\n\r\n"),
		ROW(400, "GET / HTTP/2.1Host: a\r\n\r\n"),
		ROW(400, "FO( / HTTP/1.1\r\n\r\n"),
		ROW(400, "FOO( / HTTP/1.1\r\n\r\n"),
		ROW(400, "FOO\r\n\r\n"),
		ROW(501, "get / HTTP/1.1\r\n\r\n"),
		ROW(0, "GETX / HTTP/1.1\r\n\r\n"),
		ROW(0, "X-THING / HTTP/1.1\r\n\r\n"),
		ROW(505, "GET / HTTP/2.0\r\n\r\n"),
		ROW(505, "GET / HTTP/0.9\r\n\r\n"),
		ROW(505, "GET / HTTP/1.2\r\n\r\n"),
		ROW(505, "GET / HTTP/3.0\r\nHost: h\r\n\r\n"),
		ROW(505, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
		ROW(400, "GET / HTTP/1\r\n\r\n"),
		ROW(400, "GET / HTTP/1.11\r\n\r\n"),
		ROW(400, "GET / HTTP/11.1\r\n\r\n"),
		ROW(400, "GET / HTTP/+1.1\r\n\r\n"),
		ROW(400, "GET / http/1.1\r\n\r\n"),
		ROW(400, "GET / HTTP 1.1\r\n\r\n"),
		ROW(400, "GET / RTSP/1.0\r\n\r\n"),
	};

	(void)state;
	ROWS(rows);
}

/* RFC 9112 section 4: what a server sends. A refusal's status is of no use, but it is one. */
static void responses(void **state)
{
	static const struct row rows[] = {
		ROW(0, OK "\r\n"),
		ROW(0, OK "A: b\r\nSet-Cookie: c\r\n\r\nbody"),
		ROW(0, OK "Content-Length: 3\r\n\r\nabc"),
		ROW(0, OK "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
		ROW(0, "HTTP/1.0 404 Not Found\r\n\r\n"),
		ROW(0, "HTTP/1.1 200 \r\n\r\n"),
		ROW(0, "HTTP/1.1 200\r\n\r\n"),
		ROW(0, "HTTP/1.1 200 a \tb \xe4\xff\r\n\r\n"),
		ROW(0, "HTTP/1.1 100 Continue\r\n\r\n" OK "\r\n"),
		ROW(0, "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: "
		       "x\r\n\r\n"),
		ROW(0, "HTTP/1.1 999 Odd\r\n\r\n"),
		/* the status */
		ROW(400, "HTTP/1.1 0550 X\r\n\r\n"),
		ROW(400, "HTTP/1.1 2000 X\r\n\r\n"),
		ROW(400, "HTTP/1.1 20 X\r\n\r\n"),
		ROW(400, "HTTP/1.1 099 X\r\n\r\n"),
		ROW(400, "HTTP/1.1 2x0 X\r\n\r\n"),
		ROW(400, "HTTP/1.1  200 X\r\n\r\n"),
		ROW(400, "HTTP/1.1\t200 X\r\n\r\n"),
		ROW(400, "HTTP/1.1 200\tX\r\n\r\n"),
		/* the reason: nothing in it may end the line for another reader */
		ROW(400, "HTTP/1.1 200 O\0K\r\n\r\n"),
		ROW(400, "HTTP/1.1 200 O\x01K\r\n\r\n"),
		ROW(400, "HTTP/1.1 200 O\x7fK\r\n\r\n"),
		ROW(400, "HTTP/1.1 200 O\rK\r\n\r\n"),
		ROW(400, "HTTP/1.1 200 OK\r\r\n\r\n"),
		/* line ends, folds, spaces */
		ROW(400, "HTTP/1.1 200 OK\nA: b\n\n"),
		ROW(400, OK "A: b\n\r\n"),
		ROW(400, OK "A: b\r\n c\r\n\r\n"),
		ROW(400, OK "A : b\r\n\r\n"),
		ROW(400, OK "no colon\r\n\r\n"),
		/* the version */
		ROW(400, "HTTP/2.0 200 OK\r\n\r\n"),
		ROW(400, "HTTP/1 200 OK\r\n\r\n"),
	};

	(void)state;
	ROWS(rows);
}

static void limits(void **state)
{
	static const char text[] = "GET /abc HTTP/1.1\r\nA: b\r\nC: d\r\n\r\n";
	const size_t len = sizeof(text) - 1;
	const struct {
		struct http_parser_limits limits;
		unsigned status;
	} rows[] = {
		{{.target_bytes = 4}, 0},
		{{.target_bytes = 3}, 414},
		{{.fields = 2}, 0},
		{{.fields = 1}, 431},
		{{.head_bytes = (uint32_t)len}, 0},
		{{.head_bytes = (uint32_t)len - 1}, 431},
		{{.head_bytes = 10}, 414}, /* in the request line */
		{{0}, 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct outcome outcome;
		parse_cut(&outcome, text, len, NULL, 0, &rows[i].limits);
		if (outcome.status != rows[i].status)
			fail_msg("row %zu: %u instead of %u", i, outcome.status, rows[i].status);
		http_head_clear(&outcome.head);
	}
}

static void many_fields(void **state)
{
	char text[4096];

	(void)state;
	for (int count = 31; count <= 130; count += 11) {
		struct outcome outcome;
		int len = snprintf(text, sizeof(text), "GET / HTTP/1.1\r\n");
		for (int i = 0; i < count; i++)
			len += snprintf(
				text + len, sizeof(text) - (size_t)len, "X%d: v%d\r\n", i, i);
		len += snprintf(text + len, sizeof(text) - (size_t)len, "\r\n");
		parse_cut(&outcome, text, (size_t)len, NULL, 0, &wide);
		assert_int_equal(outcome.status, 0);
		assert_int_equal(outcome.head.field_count, count);
		for (int i = 0; i < count; i++) {
			char value[16];
			snprintf(value, sizeof(value), "v%d", i);
			assert_true(slice_equal(
				http_field_value(&outcome.head, &outcome.head.fields[i]),
				slice_of(value)));
		}
		http_head_clear(&outcome.head);
	}
}

static void random_cuts(void **state)
{
	static const char text[] = "POST /a?b HTTP/1.1\r\nHost: h\r\nEmpty:\r\nA: \t b c \t\r\n"
				   "Content-Length: 3\r\n\r\nabc";
	struct random random = random_begin("random_cuts");
	struct outcome whole, cut;

	(void)state;
	parse_cut(&whole, text, sizeof(text) - 1, NULL, 0, &wide);
	assert_int_equal(whole.status, 0);
	for (int round = 0; round < 2000; round++) {
		size_t cuts[sizeof(text)], count = 0, step = 1 + random_below(&random, 20);
		for (size_t at = random_below(&random, step); at < sizeof(text) - 1;
			at += 1 + random_below(&random, step))
			cuts[count++] = at;
		parse_cut(&cut, text, sizeof(text) - 1, cuts, count, &wide);
		assert_same(&whole, &cut);
	}
}

UNIT_SUITE(test_parser)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good_requests),
		cmocka_unit_test(ambiguous_requests),
		cmocka_unit_test(methods_and_versions),
		cmocka_unit_test(responses),
		cmocka_unit_test(limits),
		cmocka_unit_test(many_fields),
		cmocka_unit_test(random_cuts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
