/* The end of a run of failures: what had no line is counted, once. */
#include "daemon/failure_lines.h"

#include "base/clock.h"
#include "main_turn.h"
#include "tests/unit/suite.h"

static const struct stage_conf two = {.more = "[upstream v]\nserver = 127.0.0.1:4\n"};

/* So many failures, of which the first may have a line. */
static void fail_times(struct server *server, unsigned times, uint64_t now_ms)
{
	unsigned unlogged;

	for (unsigned i = 0; i < times; i++)
		server_may_log(server, now_ms, &unlogged);
}

static bool is_set(const struct stage *stage)
{
	return event_pending(stage->daemon.failure_lines.timer, EV_TIMEOUT, NULL);
}

static void what_is_left_is_written_at_the_end(void **state)
{
	struct stage *stage = stage_begin(&two);
	struct server *first = &stage->daemon.site->upstreams[0]->servers[0];
	struct server *second = &stage->daemon.site->upstreams[1]->servers[0];

	(void)state;
	assert_true(failure_lines_begin(&stage->daemon));
	failure_lines_write_all(&stage->daemon);
	assert_string_equal(lines.text, "");
	fail_times(first, 4, 1000);
	fail_times(second, 1, 1000); /* it has its line */
	failure_lines_write_all(&stage->daemon);
	assert_string_equal(lines.text,
		"info upstream u: server 127.0.0.1:2: 3 more failures since the last line\n");
	lines_clear();
	failure_lines_write_all(&stage->daemon);
	assert_string_equal(lines.text, "");
	struct site *site = stage->daemon.site;
	stage->daemon.site = NULL; /* the start failed */
	failure_lines_write_all(&stage->daemon);
	stage->daemon.site = site;
	failure_lines_end(&stage->daemon);
	failure_lines_end(&stage->daemon);
	stage_end(stage);
}

static void a_failure_sets_the_timer(void **state)
{
	struct stage *stage = stage_begin(&two);
	struct daemon *daemon = &stage->daemon;

	(void)state;
	assert_true(failure_lines_begin(daemon));
	assert_false(is_set(stage));
	node_note_failure(&daemon->node);
	assert_false(is_set(stage)); /* on the main thread */
	main_turn(stage);
	assert_true(is_set(stage));
	assert_true(daemon->node.failures.is_reported);
	failure_lines_end(daemon);
	stage_end(stage);
}

/* The timer writes what is old enough, and looks again while there is more. */
static void it_looks_until_nothing_is_left(void **state)
{
	struct stage *stage = stage_begin(&two);
	struct daemon *daemon = &stage->daemon;
	struct server *first = &daemon->site->upstreams[0]->servers[0];
	struct server *second = &daemon->site->upstreams[1]->servers[0];
	const uint64_t now_ms = clock_monotonic_ms();

	(void)state;
	assert_true(failure_lines_begin(daemon));
	daemon->node.failures.is_reported = true;
	fail_times(first, 3, now_ms - 20000);
	fail_times(second, 3, now_ms); /* not old enough */
	event_active(daemon->failure_lines.timer, EV_TIMEOUT, 0);
	main_turn(stage);
	assert_has(lines.text, "upstream u: server 127.0.0.1:2: 2 more failures");
	assert_lacks(lines.text, "upstream v");
	assert_true(daemon->node.failures.is_reported);
	main_turn(stage);
	assert_true(is_set(stage));
	server_take_unlogged(second, UINT64_MAX);
	event_active(daemon->failure_lines.timer, EV_TIMEOUT, 0);
	main_turn(stage);
	main_turn(stage);
	assert_false(daemon->node.failures.is_reported);
	failure_lines_end(daemon);
	stage_end(stage);
}

/* Those of the internal listener have the same timer, whatever upstreams there are. */
static void what_came_to_the_internal_listener_is_counted(void **state)
{
	struct stage *stage = stage_begin(&two);
	struct daemon *daemon = &stage->daemon;
	struct node_hops *hops = &daemon->node.hops;
	const uint64_t now_ms = clock_monotonic_ms();
	unsigned unlogged;

	(void)state;
	assert_true(failure_lines_begin(daemon));
	daemon->node.failures.is_reported = true;
	for (unsigned i = 0; i < 6; i++)
		log_pace_may_log(&hops->strangers, now_ms - 20000, &unlogged);
	for (unsigned i = 0; i < 3; i++)
		log_pace_may_log(&hops->unread, now_ms, &unlogged); /* not old enough */
	event_active(daemon->failure_lines.timer, EV_TIMEOUT, 0);
	main_turn(stage);
	assert_string_equal(lines.text, "warn listener fleet: 5 more connections without the "
					"fleet's secret since the last line\n");
	assert_true(daemon->node.failures.is_reported);
	lines_clear();
	struct site *site = daemon->site;
	daemon->site = NULL;
	failure_lines_write_all(daemon);
	daemon->site = site;
	assert_string_equal(lines.text, "warn listener fleet: 2 more requests that this node does "
					"not understand since the last line\n");
	failure_lines_end(daemon);
	stage_end(stage);
}

UNIT_SUITE(test_failure_lines)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_left_is_written_at_the_end),
		cmocka_unit_test(a_failure_sets_the_timer),
		cmocka_unit_test(it_looks_until_nothing_is_left),
		cmocka_unit_test(what_came_to_the_internal_listener_is_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
