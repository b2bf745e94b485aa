/* Traces: which traceparent fields are passed on, begun or dropped, by mode and by what came. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/unit/http/head.h"
#include "record/trace.h"
#include "worker/worker.h"
#include "tests/unit/suite.h"

#define GOOD  "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
#define OTHER "00-1af7651916cd43dd8448eb211c80319c-c7ad6b7169203331-01"

struct asked {
	struct worker worker;
	struct http_head request;
	enum trace_kind kind;
	char text[HTTP_TRACEPARENT_BYTES];
};

/* The worker stays the same. */
static struct asked *ask(enum conf_traceparent mode, const char *fields)
{
	static struct asked asked;

	asked.request = (struct http_head){0};
	memset(asked.text, 0, sizeof(asked.text));
	head_of(&asked.request, fields);
	asked.kind = trace_begin(&asked.worker, mode, &asked.request, asked.text);
	return &asked;
}

static const uint32_t both = HTTP_FIELD_BIT(TRACEPARENT) | HTTP_FIELD_BIT(TRACESTATE);

static void a_valid_one_is_passed_on(void **state)
{
	(void)state;
	for (int mode = CONF_TRACEPARENT_PASS; mode <= CONF_TRACEPARENT_BEGIN; mode++) {
		const struct asked *x = ask((enum conf_traceparent)mode,
			"A: b\ntraceparent: " GOOD "\ntracestate: x=1\n");
		assert_int_equal(x->kind, TRACE_GIVEN);
		assert_memory_equal(x->text, GOOD, HTTP_TRACEPARENT_BYTES);
		assert_int_equal(trace_omitted(x->kind), 0);
	}
}

static void off_looks_at_nothing(void **state)
{
	static const char *const all[] = {"", "traceparent: " GOOD "\n", "traceparent: x\n"};

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		const struct asked *x = ask(CONF_TRACEPARENT_OFF, all[i]);
		assert_int_equal(x->kind, TRACE_NONE);
		assert_int_equal(trace_omitted(x->kind), 0);
	}
}

static void without_one_it_is_begun_in_that_mode_only(void **state)
{
	(void)state;
	const struct asked *x = ask(CONF_TRACEPARENT_PASS, "tracestate: x=1\n");
	assert_int_equal(x->kind, TRACE_NONE);
	assert_int_equal(trace_omitted(x->kind), 0);
	x = ask(CONF_TRACEPARENT_BEGIN, "tracestate: x=1\n");
	assert_int_equal(x->kind, TRACE_BEGUN);
	assert_int_equal(trace_omitted(x->kind), both);
}

static void an_invalid_or_doubtful_one_goes_with_its_state(void **state)
{
	static const char *const wrong[] = {"traceparent: \n", "traceparent: x\n",
		"traceparent: 00-00000000000000000000000000000000-b7ad6b7169203331-01\n",
		"traceparent: " GOOD "\ntraceparent: " GOOD "\n",
		"traceparent: " GOOD "\nTraceparent: " OTHER "\n"};

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		const struct asked *x = ask(CONF_TRACEPARENT_PASS, wrong[i]);
		if (x->kind != TRACE_DROPPED)
			fail_msg("%s: %d", wrong[i], x->kind);
		assert_int_equal(trace_omitted(x->kind), both);
		x = ask(CONF_TRACEPARENT_BEGIN, wrong[i]);
		if (x->kind != TRACE_BEGUN)
			fail_msg("%s: %d", wrong[i], x->kind);
		assert_int_equal(trace_omitted(x->kind), both);
	}
}

/* Connection names it: it is for the hop before. */
static void one_of_the_hop_is_none(void **state)
{
	struct asked *x = ask(CONF_TRACEPARENT_BEGIN, "traceparent: " GOOD "\n");

	(void)state;
	assert_int_equal(x->kind, TRACE_GIVEN);
	x->request.fields[0].hop = true;
	x->kind = trace_begin(&x->worker, CONF_TRACEPARENT_BEGIN, &x->request, x->text);
	assert_int_equal(x->kind, TRACE_BEGUN);
	assert_memory_not_equal(x->text, GOOD, HTTP_TRACEPARENT_BYTES);
}

/* Of 16 digits each: the trace's two halves and the parent. */
static const size_t parts[] = {3, 19, 36};

static int compare(const void *a, const void *b)
{
	return memcmp(a, b, 16);
}

static void those_that_are_begun_are_valid_and_differ(void **state)
{
	enum { COUNT = 20000 };
	static char begun[3][COUNT][16];

	(void)state;
	for (size_t i = 0; i < COUNT; i++) {
		const struct asked *x = ask(CONF_TRACEPARENT_BEGIN, "");
		struct slice text = {x->text, HTTP_TRACEPARENT_BYTES};
		assert_true(http_traceparent_is_valid(text));
		for (size_t part = 0; part < 3; part++)
			memcpy(begun[part][i], text.at + parts[part], 16);
	}
	for (size_t part = 0; part < 3; part++) {
		qsort(begun[part], COUNT, 16, compare);
		for (size_t i = 1; i < COUNT; i++)
			assert_memory_not_equal(begun[part][i - 1], begun[part][i], 16);
	}
}

UNIT_SUITE(test_trace)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_valid_one_is_passed_on),
		cmocka_unit_test(off_looks_at_nothing),
		cmocka_unit_test(without_one_it_is_begun_in_that_mode_only),
		cmocka_unit_test(an_invalid_or_doubtful_one_goes_with_its_state),
		cmocka_unit_test(one_of_the_hop_is_none),
		cmocka_unit_test(those_that_are_begun_are_valid_and_differ),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
