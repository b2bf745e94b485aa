/* Content comes in pieces of any size, and leaves as credit. */
#include "http2/h2_source.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/suite.h"

static struct buffer_pool pool;
static size_t credited;

static void credit(struct h2_source *source, size_t bytes)
{
	(void)source;
	credited += bytes;
}

static void begin(struct h2_source *source)
{
	credited = 0;
	buffer_pool_init(&pool, 64, 4);
	h2_source_init(source, &pool, credit);
}

static void end(struct h2_source *source)
{
	h2_source_end(source);
	buffer_pool_clear(&pool);
}

static void bytes_come_in_their_order(void **state)
{
	struct h2_source source;
	char sent[300], got[300];
	size_t taken = 0;
	struct slice run;

	(void)state;
	begin(&source);
	for (size_t i = 0; i < sizeof(sent); i++)
		sent[i] = (char)i;
	struct body_source *body = h2_source_open(&source, true, sizeof(sent));
	for (size_t i = 0; i < sizeof(sent); i += 50)
		assert_true(h2_source_put(&source, (const uint8_t *)sent + i, 50));
	source.came_whole = true;
	while (!body->ended) {
		assert_true(body->calls->lend(body, 33, &run));
		memcpy(got + taken, run.at, run.len);
		taken += run.len;
		body->calls->release(body);
	}
	assert_int_equal(taken, sizeof(sent));
	assert_memory_equal(got, sent, sizeof(sent));
	assert_int_equal(credited, sizeof(sent));
	assert_int_equal(body->left, 0);
	assert_null(source.first);
	end(&source);
}

static void what_was_lent_is_taken_back(void **state)
{
	struct h2_source source;
	struct slice run;

	(void)state;
	begin(&source);
	struct body_source *body = h2_source_open(&source, true, 5);
	assert_true(h2_source_put(&source, (const uint8_t *)"12345", 5));
	source.came_whole = true;
	assert_true(body->calls->lend(body, SIZE_MAX, &run));
	assert_true(body->ended);
	assert_true(body->calls->take_back(body, 5));
	assert_false(body->ended);
	assert_int_equal(body->left, 5);
	assert_int_equal(body->calls->here(body), 5);
	assert_int_equal(credited, 0);
	end(&source);
}

static void the_end_may_come_alone(void **state)
{
	struct h2_source source;
	unsigned turns = 4;

	(void)state;
	begin(&source);
	struct body_source *body = h2_source_open(&source, false, 0);
	assert_int_equal(body->calls->fetch(body, &turns), BODY_NOT_NOW);
	assert_true(h2_source_put_trailers(&source, SLICE("x: 1\r\n")));
	source.came_whole = true;
	assert_int_equal(body->calls->fetch(body, &turns), BODY_FETCHED);
	assert_true(body->ended);
	assert_true(slice_equal(body->trailers, SLICE("x: 1\r\n")));
	end(&source);
	begin(&source);
	body = h2_source_open(&source, false, 0);
	source.is_cut = true;
	assert_int_equal(body->calls->fetch(body, &turns), BODY_CUT);
	end(&source);
}

UNIT_SUITE(test_h2_source)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_come_in_their_order),
		cmocka_unit_test(what_was_lent_is_taken_back),
		cmocka_unit_test(the_end_may_come_alone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
