/* What runs of content a body's bytes are, by each framing, however they come in pieces. */
#include "http1/http1_source.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../random.h"
#include "tests/unit/suite.h"

struct source {
	struct http_head head;
	struct http_parser parser;
	struct stream stream;
	struct buffer_pool pool;
	struct http1_source body;
	char bytes[4096], content[4096];
	struct buffer in;
	size_t content_len;
};

static void begin(struct source *s, enum http_body body, uint64_t length)
{
	static const char text[] = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
	static const struct http_parser_limits limits = {0};

	memset(s, 0, sizeof(*s));
	http_head_init(&s->head);
	http_parser_begin_response(&s->parser, &s->head, &limits);
	assert_int_equal(http_parser_head(&s->parser, text, strlen(text)), HTTP_PARSE_DONE);
	s->in = (struct buffer){s->bytes, 0, 0, sizeof(s->bytes)};
	buffer_pool_init(&s->pool, 512, 1);
	http1_source_init(&s->body, &s->stream, &s->in, &s->pool, &s->parser);
	const struct http_framing framing = {.body = body, .length = length};
	http1_source_open(&s->body, &framing);
}

static void end(struct source *s)
{
	http_parser_end(&s->parser);
}

/* Its connection has ended: is that the body's end? */
static bool ends(struct source *s)
{
	struct buffer in = s->in;
	unsigned turns = 1;

	s->stream.read_ended = true;
	s->in.at = NULL;
	bool has_ended = s->body.source.calls->fetch(&s->body.source, &turns) == BODY_FETCHED;
	s->in = in;
	assert_int_equal(has_ended, s->body.source.ended);
	return has_ended;
}

static struct slice trailers_of(const struct source *s)
{
	return s->body.source.trailers;
}

/* These bytes come; then a run of at most `most` bytes is taken. */
static bool take(struct source *s, const char *bytes, size_t len, size_t most)
{
	struct slice content;
	uint32_t start = s->in.start;

	assert_true(len <= buffer_room(&s->in));
	memcpy(s->in.at + s->in.end, bytes, len);
	s->in.end += (uint32_t)len;
	if (!s->body.source.calls->lend(&s->body.source, most, &content))
		return false;
	assert_true(s->in.start - start <= most); /* no more is taken than was asked for */
	assert_true(content.len <= s->in.start - start);
	assert_true(s->content_len + content.len < sizeof(s->content));
	if (content.len > 0)
		memcpy(s->content + s->content_len, content.at, content.len);
	s->content_len += content.len;
	s->content[s->content_len] = '\0';
	return true;
}

static void without_a_body_nothing_is_taken(void **state)
{
	struct source s;

	(void)state;
	begin(&s, HTTP_BODY_NONE, 0);
	assert_true(take(&s, "GET /", 5, 100));
	assert_true(s.body.source.ended);
	assert_string_equal(s.content, "");
	assert_int_equal(buffer_used(&s.in), 5);
	end(&s);
}

static void a_length_ends_where_it_says(void **state)
{
	struct source s;

	(void)state;
	begin(&s, HTTP_BODY_LENGTH, 5);
	assert_true(take(&s, "", 0, 100));
	assert_false(s.body.source.ended);
	assert_true(take(&s, "abc", 3, 2));
	assert_string_equal(s.content, "ab");
	assert_int_equal(s.body.source.left, 3);
	assert_true(take(&s, "", 0, 100));
	assert_false(s.body.source.ended);
	assert_false(ends(&s)); /* here it would be cut short */
	assert_false(s.body.source.ended);
	assert_true(take(&s, "deGET /", 7, 100));
	assert_true(s.body.source.ended);
	assert_string_equal(s.content, "abcde");
	assert_memory_equal(buffer_head(&s.in), "GET /", 5);
	assert_int_equal(buffer_used(&s.in), 5);
	end(&s);
}

static void until_the_close_all_is_content(void **state)
{
	struct source s;

	(void)state;
	begin(&s, HTTP_BODY_UNTIL_CLOSE, 0);
	assert_true(take(&s, "0\r\n\r\n", 5, 100));
	assert_true(take(&s, "ab", 2, 100));
	assert_false(s.body.source.ended);
	assert_true(ends(&s));
	assert_true(s.body.source.ended);
	assert_string_equal(s.content, "0\r\n\r\nab");
	assert_int_equal(trailers_of(&s).len, 0);
	end(&s);
}

static void chunks_lose_their_framing(void **state)
{
	static const char text[] = "2;ext=1\r\nab\r\n3\r\ncde\r\n0\r\nX-Sum: 7\r\n\r\n";
	struct random random = random_begin("chunks");

	(void)state;
	for (unsigned round = 0; round < 200; round++) {
		struct source s;
		size_t len = strlen(text), sent = 0;
		begin(&s, HTTP_BODY_CHUNKED, 0);
		assert_true(take(&s, "", 0, 100));
		for (unsigned runs = 0; !s.body.source.ended; runs++) {
			assert_true(runs < 1000);
			size_t n = random_below(&random, len - sent + 1);
			assert_true(take(&s, text + sent, n, 1 + random_below(&random, 9)));
			sent += n;
			assert_true(sent <= len);
			if (!s.body.source.ended)
				assert_false(ends(&s));
		}
		assert_string_equal(s.content, "abcde");
		assert_int_equal(sent, len); /* the last byte is the body's */
		assert_int_equal(buffer_used(&s.in), 0);
		assert_true(slice_equal(trailers_of(&s), SLICE("X-Sum: 7\r\n")));
		end(&s);
	}
}

static void chunks_that_are_none(void **state)
{
	static const char *const texts[] = {"oh\r\n", "2\r\nabc\r\n", "-1\r\n", "2\nab\n"};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct source s;
		begin(&s, HTTP_BODY_CHUNKED, 0);
		bool is_good = true;
		for (unsigned run = 0; is_good && run < 8; run++)
			is_good = take(&s, texts[i], run == 0 ? strlen(texts[i]) : 0, 100);
		if (is_good)
			fail_msg("\"%s\" is taken for chunks", texts[i]);
		end(&s);
	}
}

static void trailers_are_one_bodys(void **state)
{
	const struct http_framing next = {.body = HTTP_BODY_LENGTH, .length = 1};
	struct source s;

	(void)state;
	begin(&s, HTTP_BODY_CHUNKED, 0);
	assert_true(take(&s, "0\r\nA: b\r\n\r\n", 11, 100));
	assert_true(slice_equal(trailers_of(&s), SLICE("A: b\r\n")));
	http1_source_open(&s.body, &next);
	assert_int_equal(trailers_of(&s).len, 0);
	end(&s);
}

/* What was lent and has not left is here once more, where its framing is not lost. */
static void what_was_lent_is_taken_back(void **state)
{
	struct source s;

	(void)state;
	begin(&s, HTTP_BODY_LENGTH, 5);
	assert_true(take(&s, "abcde", 5, 100));
	assert_true(s.body.source.ended);
	assert_true(s.body.source.calls->take_back(&s.body.source, 3));
	assert_false(s.body.source.ended);
	assert_int_equal(s.body.source.left, 3);
	assert_true(take(&s, "", 0, 100));
	assert_string_equal(s.content, "abcdecde");
	assert_true(s.body.source.ended);
	end(&s);
	begin(&s, HTTP_BODY_CHUNKED, 0);
	assert_true(take(&s, "1\r\na\r\n", 6, 100));
	assert_true(s.body.source.calls->take_back(&s.body.source, 0));
	assert_false(s.body.source.calls->take_back(&s.body.source, 1));
	end(&s);
}

UNIT_SUITE(test_http1_source)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_a_body_nothing_is_taken),
		cmocka_unit_test(a_length_ends_where_it_says),
		cmocka_unit_test(until_the_close_all_is_content),
		cmocka_unit_test(chunks_lose_their_framing),
		cmocka_unit_test(chunks_that_are_none),
		cmocka_unit_test(trailers_are_one_bodys),
		cmocka_unit_test(what_was_lent_is_taken_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
