/* How content leaves: as it is, or in chunks with their end and trailers behind. */
#include "http1/http1_sink.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/suite.h"

#define BLOCK 512

struct sink {
	struct buffer_pool pool;
	struct flow flow;
	struct http1_sink body;
};

static void begin(struct sink *s, bool chunked)
{
	memset(s, 0, sizeof(*s));
	buffer_pool_init(&s->pool, BLOCK, 8);
	http1_sink_init(&s->body, NULL, &s->flow, &s->pool);
	s->body.chunked = chunked;
}

static bool put_end(struct sink *s, struct slice trailers)
{
	const struct body_end end = {.trailers = trailers};

	return s->body.sink.calls->end(&s->body.sink, &end);
}

/* All that is in the flow, in its order; the flow is empty then. */
static const char *left(struct sink *s)
{
	static char text[2 * BLOCK];
	const struct flow *flow = &s->flow;

	assert_true(flow_bytes(flow) < sizeof(text));
	snprintf(text, sizeof(text), "%.*s%.*s%.*s", (int)buffer_used(&flow->prefix),
		flow->prefix.at ? buffer_head(&flow->prefix) : "", (int)flow->body.len,
		flow->body.len > 0 ? flow->body.at : "", (int)flow->suffix.len,
		flow->suffix.len > 0 ? flow->suffix.at : "");
	flow_clear(&s->flow, &s->pool);
	return text;
}

static void end(struct sink *s)
{
	flow_clear(&s->flow, &s->pool);
	buffer_pool_clear(&s->pool);
}

static void content_as_it_is(void **state)
{
	struct slice content = SLICE("abc");
	struct sink s;

	(void)state;
	begin(&s, false);
	flow_append(&s.flow, &s.pool, SLICE("head "));
	assert_true(body_sink_push(&s.body.sink, content, false));
	assert_ptr_equal(s.flow.body.at, content.at); /* borrowed, never copied */
	assert_string_equal(left(&s), "head abc");
	end(&s);
}

/* An end is nothing but the head's length, or the close. */
static void an_end_of_content_as_it_is(void **state)
{
	struct sink s;

	(void)state;
	begin(&s, false);
	assert_true(body_sink_push(&s.body.sink, SLICE("abc"), true));
	assert_string_equal(left(&s), "abc");
	assert_true(put_end(&s, SLICE("X-Sum: 7\r\n")));
	assert_true(body_sink_is_empty(&s.body.sink));
	end(&s);
}

static void content_in_chunks(void **state)
{
	static char long_run[260];
	struct slice content = SLICE("abc");
	struct sink s;

	(void)state;
	begin(&s, true);
	flow_append(&s.flow, &s.pool, SLICE("head "));
	assert_true(body_sink_push(&s.body.sink, content, false));
	assert_ptr_equal(s.flow.body.at, content.at);
	assert_string_equal(left(&s), "head 3\r\nabc\r\n");
	memset(long_run, 'x', sizeof(long_run));
	assert_true(
		body_sink_push(&s.body.sink, (struct slice){long_run, sizeof(long_run)}, false));
	assert_int_equal(strncmp(left(&s), "104\r\nxxx", 8), 0);
	end(&s);
}

/* The last chunk leaves with the content, unless trailers come between. */
static void the_end_behind_the_last_content(void **state)
{
	struct sink s;

	(void)state;
	begin(&s, true);
	assert_true(body_sink_push(&s.body.sink, SLICE("abc"), true));
	assert_string_equal(left(&s), "3\r\nabc\r\n0\r\n\r\n");
	assert_true(body_sink_push(&s.body.sink, SLICE("abc"), false));
	assert_string_equal(left(&s), "3\r\nabc\r\n");
	assert_true(put_end(&s, SLICE("X-Sum: 7\r\n")));
	assert_string_equal(left(&s), "0\r\nX-Sum: 7\r\n\r\n");
	end(&s);
}

static void an_end_without_content_or_trailers(void **state)
{
	struct sink s;

	(void)state;
	begin(&s, true);
	assert_true(put_end(&s, SLICE_NONE));
	assert_string_equal(left(&s), "0\r\n\r\n");
	end(&s);
}

/* Its rules say which trailers pass (http/trailers.h); their end comes even if none does. */
static void trailers_that_may_not_pass(void **state)
{
	struct sink s;

	(void)state;
	begin(&s, true);
	assert_true(put_end(
		&s, SLICE("Content-Length: 1\r\nX-Sum: 7\r\nTransfer-Encoding: chunked\r\n")));
	assert_string_equal(left(&s), "0\r\nX-Sum: 7\r\n\r\n");
	assert_true(put_end(&s, SLICE("Content-Length: 1\r\n")));
	assert_string_equal(left(&s), "0\r\n\r\n");
	end(&s);
}

/* Longer than a block: room is made for all of them. */
static void long_trailers(void **state)
{
	char line[BLOCK + 64];
	struct sink s;

	(void)state;
	begin(&s, true);
	snprintf(line, sizeof(line), "X-Sum: %0*d\r\n", BLOCK + 40, 7);
	assert_true(put_end(&s, (struct slice){line, strlen(line)}));
	const char *text = left(&s);
	assert_int_equal(strlen(text), 3 + strlen(line) + 2);
	assert_string_equal(text + strlen(text) - 6, "07\r\n\r\n");
	end(&s);
}

UNIT_SUITE(test_http1_sink)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(content_as_it_is),
		cmocka_unit_test(an_end_of_content_as_it_is),
		cmocka_unit_test(content_in_chunks),
		cmocka_unit_test(the_end_behind_the_last_content),
		cmocka_unit_test(an_end_without_content_or_trailers),
		cmocka_unit_test(trailers_that_may_not_pass),
		cmocka_unit_test(long_trailers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
