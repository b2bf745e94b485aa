/* Content is borrowed until it was taken, or moves into a sworker.blocks. */
#include "http2/h2_sink.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/suite.h"

static struct worker worker;
static struct h2_link link_of_sink = {.worker = &worker}; /* without a session */
static unsigned resumed;

static void none(struct h2_sink *sink)
{
	(void)sink;
}

static void resume(struct h2_sink *sink)
{
	(void)sink;
	resumed++;
}

static struct body_sink *begin(struct h2_sink *sink)
{
	resumed = 0;
	buffer_pool_init(&worker.blocks, 64, 4);
	h2_sink_init(sink, &link_of_sink, 1);
	sink->look_later = none;
	sink->resume = resume;
	return &sink->sink;
}

static void a_run_is_borrowed(void **state)
{
	struct h2_sink sink;
	struct body_sink *body = begin(&sink);
	uint64_t written = 0;

	(void)state;
	assert_true(body_sink_push(body, SLICE("hello"), false));
	assert_int_equal(resumed, 1);
	assert_int_equal(body->calls->flush(body, &written), BODY_FULL);
	h2_sink_took(&sink, 2);
	assert_true(slice_equal(h2_sink_front(&sink), SLICE("llo")));
	h2_sink_took(&sink, 3);
	sink.sent = 14;
	assert_int_equal(body->calls->flush(body, &written), BODY_EMPTY);
	assert_int_equal(written, 14);
	assert_true(body_sink_is_empty(body));
	assert_true(body->calls->end(body, &(struct body_end){.trailers = SLICE_NONE}));
	assert_false(body_sink_is_empty(body));
	sink.has_ended = true;
	assert_true(body_sink_is_empty(body));
	h2_sink_end(&sink);
	buffer_pool_clear(&worker.blocks);
}

static void a_stream_that_is_closed_fails_it(void **state)
{
	struct h2_sink sink;
	struct body_sink *body = begin(&sink);
	uint64_t written = 0;

	(void)state;
	assert_true(body_sink_push(body, SLICE("hello"), true));
	assert_true(h2_sink_is_last(&sink));
	sink.has_failed = true;
	assert_int_equal(body->calls->flush(body, &written), BODY_FAILED);
	h2_sink_end(&sink);
	buffer_pool_clear(&worker.blocks);
}

static void what_a_client_does_not_take_moves_into_a_spool(void **state)
{
	const struct spool_limits limits = {64 * 1024, 0, SPOOL_RESPONSE};
	struct spool_store store = {.memory_max = 1 << 20};
	struct h2_sink sink;
	struct body_sink *body = begin(&sink);

	(void)state;
	assert_true(body_sink_push(body, SLICE("first "), false));
	assert_int_equal(body->calls->spill(body, &store, limits, 0), BODY_EMPTY);
	assert_true(body->calls->has_spilled(body));
	assert_true(body_sink_push(body, SLICE("second"), true));
	assert_false(h2_sink_is_last(&sink));
	assert_true(slice_equal(h2_sink_front(&sink), SLICE("first ")));
	h2_sink_took(&sink, 6);
	assert_false(body->calls->has_spilled(body));
	assert_true(slice_equal(h2_sink_front(&sink), SLICE("second")));
	assert_true(h2_sink_is_last(&sink));
	h2_sink_end(&sink);
	buffer_pool_clear(&worker.blocks);
}

UNIT_SUITE(test_h2_sink)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_run_is_borrowed),
		cmocka_unit_test(a_stream_that_is_closed_fails_it),
		cmocka_unit_test(what_a_client_does_not_take_moves_into_a_spool),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
