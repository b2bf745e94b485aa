/* Chunked bodies: content, trailers, and how much of the bytes was the body, at every cut; and what
 * is no chunked body. */
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

#define NEXT "GET /next HTTP/1.1\r\n" /* what stands behind the body on its connection */

static const struct http_parser_limits limits = {65536, 8192, 100};

/* What a body came to. */
struct outcome {
	enum http_parse result;
	size_t consumed, produced;
	unsigned status;
	char content[4096], trailers[4096];
};

/* A parser that is behind the head of a chunked message. */
static void begin(struct http_parser *parser, struct http_head *head, bool is_request)
{
	static const char request[] =
		"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
	static const char response[] = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
	const char *text = is_request ? request : response;

	if (is_request)
		http_parser_begin_request(parser, head, &limits);
	else
		http_parser_begin_response(parser, head, &limits);
	assert_int_equal(http_parser_head(parser, text, strlen(text)), HTTP_PARSE_DONE);
	assert_int_equal(head->len, strlen(text));
}

/* Gives one piece, in memory of its very size. */
static void give(struct http_parser *parser, struct outcome *outcome, const char *at, size_t len)
{
	char *piece = malloc(len > 0 ? len : 1);
	size_t consumed = SIZE_MAX, produced = SIZE_MAX;

	assert_non_null(piece);
	memcpy(piece, at, len);
	outcome->result = http_parser_chunked(parser, piece, len, &consumed, &produced);
	if (outcome->result != HTTP_PARSE_BAD) {
		assert_true(consumed <= len && produced <= consumed);
		assert_true(outcome->result == HTTP_PARSE_DONE || consumed == len);
		assert_true(outcome->produced + produced < sizeof(outcome->content));
		memcpy(outcome->content + outcome->produced, piece, produced);
		outcome->produced += produced;
		outcome->consumed += consumed;
	}
	free(piece);
}

static void decode(struct outcome *outcome, const char *text, size_t len, const size_t *cuts,
	size_t cut_count, bool is_request)
{
	struct http_parser parser = {0};
	struct http_head head;
	size_t at = 0;

	*outcome = (struct outcome){.result = HTTP_PARSE_MORE};
	http_head_init(&head);
	begin(&parser, &head, is_request);
	for (size_t i = 0; i <= cut_count && outcome->result == HTTP_PARSE_MORE; i++) {
		size_t end = i < cut_count ? cuts[i] : len;
		if (end > at) /* nothing is never given: there is nothing to read then */
			give(&parser, outcome, text + at, end - at);
		at = end;
	}
	outcome->status = outcome->result == HTTP_PARSE_BAD ? parser.error_status : 0;
	if (outcome->result == HTTP_PARSE_DONE) {
		assert_true(parser.chunked.trailers_len < sizeof(outcome->trailers));
		if (parser.chunked.trailers_len > 0)
			memcpy(outcome->trailers, parser.chunked.trailers,
				parser.chunked.trailers_len);
	}
	http_head_clear(&head);
	http_parser_end(&parser);
}

static void assert_same(
	const struct outcome *a, const struct outcome *b, const char *text, size_t one, size_t two)
{
	if (a->result != b->result || a->status != b->status)
		fail_msg("%d, %u whole; %d, %u when cut at %zu and %zu: %s", a->result, a->status,
			b->result, b->status, one, two, text);
	if (a->result == HTTP_PARSE_BAD)
		return;
	if (a->consumed != b->consumed)
		fail_msg("%zu consumed whole, %zu when cut at %zu and %zu: %s", a->consumed,
			b->consumed, one, two, text);
	assert_int_equal(a->produced, b->produced);
	assert_memory_equal(a->content, b->content, a->produced);
	assert_string_equal(a->trailers, b->trailers);
}

/* Whole, at every one and two cuts, and byte by byte: all the same. */
static void decode_all_ways(struct outcome *outcome, const char *text, size_t len, bool is_request)
{
	static struct outcome other;
	size_t cuts[2], *every = malloc((len + 1) * sizeof(*every));

	assert_non_null(every);
	decode(outcome, text, len, NULL, 0, is_request);
	for (cuts[0] = 0; cuts[0] <= len; cuts[0]++) {
		every[cuts[0]] = cuts[0];
		for (cuts[1] = cuts[0]; cuts[1] <= len; cuts[1]++) {
			decode(&other, text, len, cuts, 2, is_request);
			assert_same(outcome, &other, text, cuts[0], cuts[1]);
		}
	}
	decode(&other, text, len, every, len + 1, is_request);
	assert_same(outcome, &other, text, 1, 1);
	free(every);
}

/* Whole and byte by byte. */
static enum http_parse decode_forgiving(
	const char *text, unsigned forgiven, char *content, unsigned *found)
{
	enum http_parse result[2];
	size_t len = strlen(text), consumed, produced;

	for (unsigned way = 0; way < 2; way++) {
		struct http_chunked chunked = {.forgiven = (uint8_t)forgiven};
		char copy[256], *to = content;
		http_chunked_begin(&chunked);
		result[way] = HTTP_PARSE_MORE;
		for (size_t at = 0; at < len && result[way] == HTTP_PARSE_MORE;) {
			size_t step = way == 0 ? len : 1;
			memcpy(copy, text + at, step);
			result[way] =
				http_chunked_decode(&chunked, copy, step, &consumed, &produced);
			memcpy(to, copy, produced);
			to += produced;
			at += consumed;
		}
		*to = '\0';
		*found = chunked.found;
		if (chunked.trailers_len > 0)
			assert_memory_equal(chunked.trailers, "X: y\r\n", chunked.trailers_len);
		http_chunked_end(&chunked);
	}
	assert_int_equal(result[0], result[1]);
	return result[0];
}

static void forgiven_bodies(void **state)
{
	static const struct {
		unsigned needed;
		const char *body;
	} cases[] = {
		{0, "5\r\nhello\r\n0\r\n\r\n"},
		{0, "5 ;a\r\nhello\r\n0\r\n\r\n"},
		{HTTP_CHUNKED_BLANKS, "5 \t\r\nhello\r\n0\r\n\r\n"},
		{HTTP_CHUNKED_BLANKS, "5\r\nhello\r\n0 \r\n\r\n"},
		{HTTP_CHUNKED_LF, "5\nhello\n0\n\n"},
		{HTTP_CHUNKED_LF, "5\r\nhello\r\n0\r\nX: y\n\r\n"},
		{HTTP_CHUNKED_LF, "5\nhello\n0\nX: y \n\n"},
		{HTTP_CHUNKED_LF | HTTP_CHUNKED_BLANKS, "5 \nhello\r\n0\r\n\r\n"},
	};
	char content[256];
	unsigned found;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		for (unsigned forgiven = 0; forgiven < 4; forgiven++) {
			bool is_good = (forgiven & cases[i].needed) == cases[i].needed;
			assert_int_equal(decode_forgiving(cases[i].body, forgiven, content, &found),
				is_good ? HTTP_PARSE_DONE : HTTP_PARSE_BAD);
			if (!is_good)
				continue;
			assert_string_equal(content, "hello");
			assert_int_equal(found, cases[i].needed);
		}
	}
}

static void bodies_that_are_not_forgiven(void **state)
{
	static const char *const cases[] = {
		" 5\r\nhello\r\n0\r\n\r\n",
		"5 5\r\nhello\r\n0\r\n\r\n",
		"5;a\nhello\r\n0\r\n\r\n",
		"5;a \r\nhello\r\n0\r\n\r\n",
		"5;a=\"b\n\"\r\nhello\r\n0\r\n\r\n",
		"5\r\r\nhello\r\n0\r\n\r\n",
		"5\n\nhello\r\n0\r\n\r\n",
		"5\r\nhello \r\n0\r\n\r\n",
		"5\r\nhello\n\n0\r\n\r\n",
		"5\nhello\n0\nX\n\n",
		"5\nhello\n0\nX: y\n z\n\n",
		"\n5\r\nhello\r\n0\r\n\r\n",
	};
	char content[256];
	unsigned found;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_int_equal(decode_forgiving(cases[i], 3, content, &found), HTTP_PARSE_BAD);
}

static void good_bodies(void **state)
{
	static const struct {
		const char *body, *content, *trailers;
	} cases[] = {
		{"0\r\n\r\n", "", ""},
		{"000\r\n\r\n", "", ""},
		{"3\r\nabc\r\n0\r\n\r\n", "abc", ""},
		{"3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n", "abcd", ""},
		{"a\r\n0123456789\r\nA\r\n0123456789\r\n0\r\n\r\n", "01234567890123456789", ""},
		{"004\r\n\r\n\r\n\r\n0\r\n\r\n", "\r\n\r\n", ""},
		{"1;x\r\na\r\n0;y=z\r\n\r\n", "a", ""},
		{"3;a=b;c=d\r\nabc\r\n0;e;f=\"g\"\r\n\r\n", "abc", ""},
		{"3;a=\"q\\\"x\"\r\nabc\r\n0\r\n\r\n", "abc", ""},
		{"1;a=\"\\\\\"\r\na\r\n0\r\n\r\n", "a", ""},
		{"1;a=\";\t \xff\"\r\na\r\n0\r\n\r\n", "a", ""},
		{"1 ; a = b ;\tc =\"\" ;d\r\na\r\n0\r\n\r\n", "a", ""},
		{"0\r\nA: b \t\r\nB:\tc d\xc3\xa9 \"\\\r\n\r\n", "",
			"A: b\r\nB: c d\xc3\xa9 \"\\\r\n"},
		{"5\r\n0\r\n\r\n\r\n0\r\n\r\n", "0\r\n\r\n", ""},
		{"0\r\nA: b\r\n\r\n", "", "A: b\r\n"},
		{"0\r\nA: \t b  c\r\n\r\n", "", "A: b  c\r\n"},
		{"1\r\na\r\n0\r\nX-Sum: 1\r\nB:2\r\nEmpty:\r\n\r\n", "a",
			"X-Sum: 1\r\nB: 2\r\nEmpty: \r\n"},
	};
	static struct outcome outcome;
	char text[512];

	(void)state;
	for (size_t i = 0; i < 2 * sizeof(cases) / sizeof(cases[0]); i++) {
		const char *body = cases[i / 2].body;
		sprintf(text, "%s%s", body, NEXT);
		decode_all_ways(&outcome, text, strlen(text), i % 2);
		if (outcome.result != HTTP_PARSE_DONE || outcome.consumed != strlen(body))
			fail_msg("%d, %zu of %zu: %s", outcome.result, outcome.consumed,
				strlen(body), body);
		assert_int_equal(outcome.produced, strlen(cases[i / 2].content));
		assert_memory_equal(outcome.content, cases[i / 2].content, outcome.produced);
		assert_string_equal(outcome.trailers, cases[i / 2].trailers);
		/* Not a byte less is a body. */
		decode_all_ways(&outcome, body, strlen(body) - 1, i % 2);
		assert_int_equal(outcome.result, HTTP_PARSE_MORE);
	}
}

static void bad_bodies(void **state)
{
	static const char *const cases[] = {
		"\r\n0\r\n\r\n",
		"x\r\n",
		"-1\r\na\r\n0\r\n\r\n",
		"+1\r\na\r\n0\r\n\r\n",
		"0x1\r\na\r\n0\r\n\r\n",
		" 1\r\na\r\n0\r\n\r\n",
		"1\na\r\n0\r\n\r\n",
		"1\r\nab\r\n0\r\n\r\n",
		"1\r\na0\r\n\r\n",
		"1\r\na\n0\r\n\r\n",
		"1\r\na\r\r\n0\r\n\r\n",
		"ffffffffffffffff1\r\n",
		"10000000000000000\r\n",
		"1 x\r\na\r\n0\r\n\r\n",
		"1;x\na\r\n0\r\n\r\n",
		"1 \r\na\r\n0\r\n\r\n",
		"1;\r\na\r\n0\r\n\r\n",
		"1; \r\na\r\n0\r\n\r\n",
		"1;;a\r\na\r\n0\r\n\r\n",
		"1;a=\r\na\r\n0\r\n\r\n",
		"1;=b\r\na\r\n0\r\n\r\n",
		"1;a \r\na\r\n0\r\n\r\n",
		"1;a=b \r\na\r\n0\r\n\r\n",
		"1;a b\r\na\r\n0\r\n\r\n",
		"1;a=b c\r\na\r\n0\r\n\r\n",
		"1;a,b\r\na\r\n0\r\n\r\n",
		"1;a=b=c\r\na\r\n0\r\n\r\n",
		"1;a=\"b\r\na\r\n0\r\n\r\n",
		"1;a=\"b\"c\r\na\r\n0\r\n\r\n",
		"1;a=b\"c\"\r\na\r\n0\r\n\r\n",
		"1;a=\"b\\\r\n\"\r\na\r\n0\r\n\r\n",
		"1;a=\"\x7f\"\r\na\r\n0\r\n\r\n",
		"1;a\x01\r\na\r\n0\r\n\r\n",
		"1;a=\x80\r\na\r\n0\r\n\r\n",
		"1;a\r\r\na\r\n0\r\n\r\n",
		"1;a=\"\n\"\r\na\r\n0\r\n\r\n",
		"1, 2\r\na\r\n0\r\n\r\n",
		"0\r\nA: \x01\r\n\r\n",
		"0\r\nA: \x7f\r\n\r\n",
		"0\r\nA: b\rc\r\n\r\n",
		"0\r\nA(: b\r\n\r\n",
		"0\r\n: b\r\n\r\n",
		"0\r\nno colon\r\n\r\n",
		"0\r\nspace : b\r\n\r\n",
		"0\r\nA: b\n\r\n",
		"0\r\n A: b\r\n\r\n",
		"0\r\nA: b\r\n c\r\n\r\n",
		"0\r\nA: b\r\n\t \tc\r\n\r\n",
		"0\r\nA:\r\n b\r\n\r\n",
		"0\r\nA: b\r\n\t\r\n\r\n",
		"0\r\nA:\r\n \r\nB: c\r\n\r\n",
		"0\r\nA: b\r\nB: c \r\n d\r\n\r\n",
		"0\r\n\n",
		"1\r\na\r\n0\r\n\n",
		"0\r\nA: b\r\n\n",
		"0\n\r\n",
	};
	static struct outcome outcome;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		for (int is_request = 0; is_request < 2; is_request++) {
			decode_all_ways(&outcome, cases[i], strlen(cases[i]), is_request);
			if (outcome.result != HTTP_PARSE_BAD || outcome.status != 400)
				fail_msg("%d, %u: %s", outcome.result, outcome.status, cases[i]);
		}
	}
}

/* A parser continues with the next message on its connection, whatever was before. */
static void one_after_the_other(void **state)
{
	static struct outcome outcome;
	struct http_parser parser = {0};
	struct http_head head;

	(void)state;
	http_head_init(&head);
	for (unsigned i = 0; i < 20; i++) {
		const char *body =
			i % 3 == 0 ? "3\r\nabc\r\n0\r\nT: u\r\n\r\n" : "2\r\nab\r\n0\r\n\r\n";
		if (i % 4 == 1) { /* one without a body between them */
			http_parser_begin_request(&parser, &head, &limits);
			assert_int_equal(
				http_parser_head(&parser, "GET / HTTP/1.1\r\nHost: a\r\n\r\n", 27),
				HTTP_PARSE_DONE);
		}
		outcome = (struct outcome){0};
		begin(&parser, &head, i % 2);
		assert_int_equal(parser.chunked.trailers_len, 0);
		give(&parser, &outcome, body, strlen(body));
		assert_int_equal(outcome.result, HTTP_PARSE_DONE);
		assert_int_equal(outcome.consumed, strlen(body));
		assert_int_equal(outcome.produced, i % 3 == 0 ? 3 : 2);
		assert_int_equal(parser.chunked.trailers_len, i % 3 == 0 ? 6 : 0);
	}
	http_head_clear(&head);
	http_parser_end(&parser);
}

/* Bodies that are made up come out as they were put in, however they are cut. */
static void random_bodies(void **state)
{
	static struct outcome outcome;
	static char text[8192], content[4096];

	(void)state;
	struct random random = random_begin("chunked bodies");
	for (unsigned round = 0; round < 3000; round++) {
		size_t len = 0, produced = 0, cuts[64], cut_count = 0;
		for (unsigned chunks = (unsigned)random_below(&random, 6); chunks > 0; chunks--) {
			size_t size =
				1 + random_below(&random, random_below(&random, 4) ? 20 : 600);
			len += (size_t)sprintf(text + len,
				random_below(&random, 2) ? "%zx%s" : "%zX%s", size,
				random_below(&random, 4) ? "\r\n" : ";a=b\r\n");
			for (size_t i = 0; i < size; i++)
				content[produced + i] = text[len + i] =
					"\r\n0;a"[random_below(&random, 5)];
			produced += size;
			len += size;
			memcpy(text + len, "\r\n", 2);
			len += 2;
		}
		len += (size_t)sprintf(
			text + len, "0\r\n%s\r\n", random_below(&random, 4) ? "" : "A: b\r\n");
		size_t body = len;
		len += (size_t)sprintf(text + len, NEXT);
		for (size_t at = 0; cut_count < 64 && (at += 1 + random_below(&random, 60)) < len;)
			cuts[cut_count++] = at;
		decode(&outcome, text, len, cuts, cut_count, random_below(&random, 2));
		assert_int_equal(outcome.result, HTTP_PARSE_DONE);
		assert_int_equal(outcome.consumed, body);
		assert_int_equal(outcome.produced, produced);
		assert_memory_equal(outcome.content, content, produced);
	}
}

/* Framing without content has an end: a peer cannot keep us reading for ever. */
static void overhead_is_bounded(void **state)
{
	struct http_parser parser = {0};
	struct http_head head;
	char piece[1000];
	size_t consumed, produced, given = 0;

	(void)state;
	memset(piece, 'x', sizeof(piece));
	http_head_init(&head);
	begin(&parser, &head, true);
	memcpy(piece, "1;", 2);
	enum http_parse result = HTTP_PARSE_MORE;
	while (result == HTTP_PARSE_MORE && given < 10u << 20) {
		result = http_parser_chunked(&parser, piece, sizeof(piece), &consumed, &produced);
		given += sizeof(piece);
		memset(piece, 'x', sizeof(piece));
	}
	assert_int_equal(result, HTTP_PARSE_BAD);
	assert_int_equal(parser.error_status, 400);
	http_head_clear(&head);
	http_parser_end(&parser);
}

/* The same where each chunk has a byte of content; and content pays for what comes with it. */
static void overhead_is_paid_by_content(void **state)
{
	static struct outcome outcome;
	struct http_parser parser = {0};
	struct http_head head;
	char piece[400], *large = malloc(100000);
	size_t given = 0;

	(void)state;
	assert_non_null(large);
	http_head_init(&head);
	begin(&parser, &head, true);
	memset(piece, 'x', sizeof(piece));
	memcpy(piece, "1;", 2);
	memcpy(piece + sizeof(piece) - 5, "\r\na\r\n", 5);
	outcome = (struct outcome){.result = HTTP_PARSE_MORE};
	for (; outcome.result == HTTP_PARSE_MORE && given < 1u << 20; given += sizeof(piece))
		give(&parser, &outcome, piece, sizeof(piece));
	assert_int_equal(outcome.result, HTTP_PARSE_BAD);
	assert_true(given < 2 * HTTP_CHUNKED_EXCESS);

	begin(&parser, &head, true);
	for (unsigned i = 0; i < 100; i++) {
		size_t consumed = 0, produced = 0, line = (size_t)sprintf(large, "%x;a=", 80000);
		memset(large + line, 'x', 10000);
		memcpy(large + line + 10000, "\r\n", 2);
		memset(large + line + 10002, 'y', 80000);
		memcpy(large + line + 90002, "\r\n", 2);
		assert_int_equal(
			http_parser_chunked(&parser, large, line + 90004, &consumed, &produced),
			HTTP_PARSE_MORE);
		assert_int_equal(produced, 80000);
	}
	free(large);
	http_head_clear(&head);
	http_parser_end(&parser);
}

/* A body is whole with its last byte and not before, also when more stands behind it. */
/* Does decoding these bytes find what was seen of them? */
static void assert_is(const char *body, size_t len, const struct http_chunked_extent *extent)
{
	struct http_chunked chunked = {0};
	size_t consumed, produced;
	char text[256];

	memcpy(text, body, len);
	http_chunked_begin(&chunked);
	enum http_parse result = http_chunked_decode(&chunked, text, len, &consumed, &produced);
	assert_int_not_equal(result, HTTP_PARSE_MORE);
	if (result == HTTP_PARSE_DONE) {
		assert_int_equal(extent->content_bytes, produced);
		assert_int_equal(extent->has_trailers, chunked.trailers_len > 0);
	}
	http_chunked_end(&chunked);
}

static void seen_whole(void **state)
{
	static const char *const bodies[] = {
		"0\r\n\r\n",
		"000;last\r\n\r\n",
		"3\r\nabc\r\n0\r\n\r\n",
		"a;x="
		"\"y\"\r\n0\r\n\r\n0\r\n\r\r\n1F\r\n0123456789012345678901234567890\r\n0\r\n\r\n",
		"3\r\n\r\n0\r\n0\r\nDigest: x\r\nOther: y\r\n\r\n",
	};
	static const char *const never[] = {"", "0", "\r\n",
		"FFFFFFFFFFFFFFFFFFFFFFFF\r\nabc\r\n0\r\n\r\n", "5\r\nabc\r\n0\r\n\r\n",
		"10\r\n0\r\n\r\n"};
	struct http_chunked_extent extent;

	(void)state;
	for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
		char text[256];
		size_t len = strlen(bodies[i]);

		for (size_t cut = 0; cut < len; cut++) {
			if (http_chunked_is_whole(bodies[i], cut, &extent))
				fail_msg("%zu: whole after %zu", i, cut);
		}
		assert_true(http_chunked_is_whole(bodies[i], len, &extent));
		assert_is(bodies[i], len, &extent);
		len = (size_t)sprintf(text, "%s" NEXT, bodies[i]);
		assert_true(http_chunked_is_whole(text, len, &extent));
		assert_is(text, len, &extent);
	}
	for (size_t i = 0; i < sizeof(never) / sizeof(never[0]); i++)
		assert_false(http_chunked_is_whole(never[i], strlen(never[i]), &extent));
}

UNIT_SUITE(test_chunked)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good_bodies),
		cmocka_unit_test(forgiven_bodies),
		cmocka_unit_test(bodies_that_are_not_forgiven),
		cmocka_unit_test(bad_bodies),
		cmocka_unit_test(one_after_the_other),
		cmocka_unit_test(random_bodies),
		cmocka_unit_test(overhead_is_bounded),
		cmocka_unit_test(overhead_is_paid_by_content),
		cmocka_unit_test(seen_whole),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
