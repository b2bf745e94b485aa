/* Servers: who is left out, and for how long, also when several workers see it fail at once. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "upstream/upstream.h"
#include "tests/unit/suite.h"

#define WORKERS 4
#define ROUNDS  1000

struct failing {
	struct conf_upstream conf;
	struct conf_server conf_server;
	struct upstream upstream;
	struct server server;
	struct server_state state;
	struct upstream_state upstream_state;
	uint64_t now_ms;
	pthread_barrier_t begin, end;
};

static void failing_init(struct failing *f, uint32_t max_fails, uint64_t most_ms)
{
	memset(f, 0, sizeof(*f));
	f->conf.name = "u";
	f->conf.max_fails = max_fails;
	f->conf.fail_timeout_ms = 10;
	f->conf.fail_timeout_max_ms = most_ms;
	f->conf_server.address.text = "s";
	f->upstream.conf = &f->conf;
	f->upstream.servers = &f->server;
	f->upstream.server_count = 2; /* of one alone nothing depends on this */
	f->server.upstream = &f->upstream;
	f->server.conf = &f->conf_server;
	f->server.state = &f->state;
	f->upstream.state = f->state.upstream = &f->upstream_state;
	f->now_ms = 1000;
}

static void it_is_left_out_ever_longer(void **state)
{
	struct failing f;
	const uint64_t intervals[] = {10, 20, 40, 70, 70};

	(void)state;
	failing_init(&f, 3, 70);
	for (unsigned i = 0; i < 2; i++)
		server_failed(&f.server, "test", f.now_ms);
	assert_true(server_may_serve(&f.server, f.now_ms));
	for (unsigned i = 0; i < sizeof(intervals) / sizeof(intervals[0]); i++) {
		server_failed(&f.server, "test", f.now_ms);
		/* those that were on their way then do not count again */
		server_failed(&f.server, "test", f.now_ms);
		assert_false(server_may_serve(&f.server, f.now_ms + intervals[i] - 1));
		assert_true(server_may_serve(&f.server, f.now_ms + intervals[i]));
		f.now_ms += intervals[i];
	}
	server_succeeded(&f.server);
	for (unsigned i = 0; i < 3; i++)
		server_failed(&f.server, "test", f.now_ms);
	assert_true(server_may_serve(&f.server, f.now_ms + 10));
}

static void *fail_with_the_others(void *ctx)
{
	struct failing *f = ctx;

	for (unsigned i = 0; i < ROUNDS; i++) {
		pthread_barrier_wait(&f->begin);
		server_failed(&f->server, "test", f->now_ms);
		pthread_barrier_wait(&f->end);
	}
	return NULL;
}

static void workers_that_see_it_at_once_double_once(void **state)
{
	struct failing f;
	pthread_t threads[WORKERS];

	(void)state;
	failing_init(&f, 1, UINT32_MAX);
	pthread_barrier_init(&f.begin, NULL, WORKERS + 1);
	pthread_barrier_init(&f.end, NULL, WORKERS + 1);
	for (unsigned i = 0; i < WORKERS; i++)
		pthread_create(&threads[i], NULL, fail_with_the_others, &f);
	unsigned wrong = 0;
	for (unsigned i = 0; i < ROUNDS; i++) {
		uint64_t expected = 10ull << (i % 10);
		pthread_barrier_wait(&f.begin);
		pthread_barrier_wait(&f.end);
		if (server_may_serve(&f.server, f.now_ms + expected - 1) ||
			!server_may_serve(&f.server, f.now_ms + expected))
			wrong++;
		f.now_ms += expected * 4;
		if (i % 10 == 9)
			server_succeeded(&f.server);
	}
	for (unsigned i = 0; i < WORKERS; i++)
		pthread_join(threads[i], NULL);
	pthread_barrier_destroy(&f.begin);
	pthread_barrier_destroy(&f.end);
	assert_int_equal(wrong, 0);
}

static void a_line_in_ten_seconds(void **state)
{
	struct failing f;
	unsigned unlogged = 0;

	(void)state;
	failing_init(&f, 3, 70);
	assert_true(server_may_log(&f.server, 5, &unlogged));
	assert_int_equal(unlogged, 0);
	for (unsigned i = 0; i < 40; i++)
		assert_false(server_may_log(&f.server, 5 + i * 200, &unlogged));
	assert_false(server_may_log(&f.server, 10004, &unlogged));
	assert_true(server_may_log(&f.server, 10005, &unlogged));
	assert_int_equal(unlogged, 41);
	assert_true(server_may_log(&f.server, 50000, &unlogged));
	assert_int_equal(unlogged, 0);
}

static void the_rest_of_a_run_is_counted_once(void **state)
{
	struct failing f;
	unsigned unlogged = 0;

	(void)state;
	failing_init(&f, 3, 70);
	assert_true(server_may_log(&f.server, 5, &unlogged));
	assert_int_equal(server_take_unlogged(&f.server, 20000), 0);
	for (unsigned i = 0; i < 7; i++)
		assert_false(server_may_log(&f.server, 6, &unlogged));
	assert_true(server_has_unlogged(&f.server));
	assert_int_equal(server_take_unlogged(&f.server, 10004), 0); /* not yet */
	assert_int_equal(server_take_unlogged(&f.server, 10005), 7);
	assert_false(server_has_unlogged(&f.server));
	/* that was a line: the next one has its distance from it */
	assert_false(server_may_log(&f.server, 20004, &unlogged));
	assert_true(server_may_log(&f.server, 20005, &unlogged));
	assert_int_equal(unlogged, 1);
}

/* A worker's clock is read once a turn, so one may be behind that of the worker that wrote. */
static void a_clock_that_is_behind_writes_no_line(void **state)
{
	struct failing f;
	unsigned unlogged = 0;

	(void)state;
	failing_init(&f, 3, 70);
	assert_true(server_may_log(&f.server, 5000, &unlogged));
	assert_false(server_may_log(&f.server, 4998, &unlogged));
	assert_int_equal(server_take_unlogged(&f.server, 4999), 0);
	assert_true(server_may_log(&f.server, 15000, &unlogged));
	assert_int_equal(unlogged, 1);
}

/* Of two servers, with weights that change: what the larger ones had earned is not paid back in the
 * smaller ones' unit, request after request. */
static void a_changed_weight_counts_at_once(void **state)
{
	struct conf_upstream conf = {.name = "u"};
	struct conf_server conf_server = {.address.text = "s", .weight = 1};
	static struct upstream_state upstream_state;
	struct upstream upstream = {.conf = &conf, .server_count = 2, .state = &upstream_state};
	struct server servers[2];
	static struct server_idle idle[2];
	static struct server_state states[2];

	(void)state;
	upstream.servers = servers;
	for (int i = 0; i < 2; i++) {
		states[i].idle = &idle[i];
		states[i].upstream = &upstream_state;
		servers[i] = (struct server){.upstream = &upstream,
			.index = (unsigned)i,
			.conf = &conf_server,
			.state = &states[i]};
	}
	server_set_weight(&servers[0], 1000);
	for (int requests = 0; requests < 490; requests++)
		assert_non_null(upstream_pick(&upstream, 0, 3, 0, 1));
	server_set_weight(&servers[0], 1);
	for (int in_a_row = 0, requests = 0; requests < 100; requests++) {
		bool second = upstream_pick(&upstream, 0, 3, 0, 1) == &servers[1];
		in_a_row = second ? in_a_row + 1 : 0;
		assert_in_range(in_a_row, 0, 4);
	}
}

UNIT_SUITE(test_upstream)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_changed_weight_counts_at_once),
		cmocka_unit_test(a_line_in_ten_seconds),
		cmocka_unit_test(a_clock_that_is_behind_writes_no_line),
		cmocka_unit_test(the_rest_of_a_run_is_counted_once),
		cmocka_unit_test(it_is_left_out_ever_longer),
		cmocka_unit_test(workers_that_see_it_at_once_double_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
