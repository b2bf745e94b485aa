/* The places of an upstream: the bound over sessions, and what gives a place back. */
#include "tests/unit/queue/jobs.h"
#include "tests/unit/suite.h"

static void the_bound_holds_over_sessions(void **state)
{
	struct fixture *fixture =
		open_fixture(QUEUE_NONE, &(struct run_queue_config){.max_in_flight = 3});
	struct run_queue_counts counts;
	struct job *job = enter(fixture, 1, 1, 'r', 1, QUEUE_GO);

	(void)state;
	enter(fixture, 2, 2, 'r', 1, QUEUE_GO);
	enter(fixture, 3, 2, 'r', 1, QUEUE_WAIT);
	enter(fixture, 1, 1, 'r', 1, QUEUE_WAIT);
	run_queue_count(fixture->world.upstream, &counts);
	assert_int_equal(counts.in_flight, 3);
	assert_int_equal(counts.waiting, 3);
	assert_int_equal(counts.sessions, 2);
	world_expect_none(&fixture->world);
	for (unsigned i = 0; i < 3; i++) {
		world_done(&fixture->world, &job[i]);
		assert_non_null(world_next(&fixture->world));
		world_expect_none(&fixture->world);
		run_queue_count(fixture->world.upstream, &counts);
		assert_int_equal(counts.in_flight, 3);
	}
	for (unsigned i = 3; i < 6; i++)
		world_done(&fixture->world, &job[i]);
	run_queue_count(fixture->world.upstream, &counts);
	assert_int_equal(counts.in_flight, 0);
	assert_int_equal(counts.dispatched, 6);
	close_fixture(fixture);
}

static void a_tunnel_gives_its_place_back(void **state)
{
	struct fixture *fixture =
		open_fixture(QUEUE_WRITES, &(struct run_queue_config){.max_in_flight = 1});
	struct job *tunnel = enter(fixture, 1, 1, 'r', 1, QUEUE_GO);
	struct job *other = enter(fixture, 2, 1, 'r', 1, QUEUE_WAIT);

	(void)state;
	queue_detach(fixture->world.queue, &tunnel->ticket, fixture->world.now_ns);
	world_expect(&fixture->world, other, QUEUE_GO);
	world_done(&fixture->world, tunnel);
	world_done(&fixture->world, other);
	close_fixture(fixture);
}

/* A response without end gives its place back, and what must not overlap with it still does not. */
static void a_stream_gives_its_place_back(void **state)
{
	struct fixture *fixture =
		open_fixture(QUEUE_STRICT, &(struct run_queue_config){.max_in_flight = 1});
	struct job *stream = enter(fixture, 1, 1, 'r', 1, QUEUE_GO);
	struct job *behind = enter(fixture, 1, 1, 'r', 1, QUEUE_WAIT);
	struct job *other = enter(fixture, 2, 1, 'r', 1, QUEUE_WAIT);
	struct run_queue_counts counts;

	(void)state;
	queue_give_place(fixture->world.queue, &stream->ticket, fixture->world.now_ns);
	world_expect(&fixture->world, other, QUEUE_GO);
	world_done(&fixture->world, other);
	run_queue_count(fixture->world.upstream, &counts);
	assert_int_equal(counts.in_flight, 0);
	world_done(&fixture->world, stream);
	world_expect(&fixture->world, behind, QUEUE_GO);
	world_done(&fixture->world, behind);
	run_queue_count(fixture->world.upstream, &counts);
	assert_int_equal(counts.in_flight, 0);
	close_fixture(fixture);
}

/* A job that waits for its limit has no place meanwhile, and comes before the others of its lane
 * afterwards. */
static void a_place_given_back_while_waiting(void **state)
{
	struct world world;
	struct job slow, behind, other, late;
	struct queue_counts counts;

	(void)state;
	world_open_with(&world, QUEUE_STRICT, NULL, &(struct run_queue_config){.max_in_flight = 1});
	job_init(&slow, 1, 0, 'w');
	job_init(&behind, 1, 1, 'w');
	job_init(&other, 2, 2, 'w');
	job_init(&late, 3, 3, 'w');
	assert_int_equal(world_enter(&world, &slow), QUEUE_GO);
	assert_int_equal(world_enter(&world, &behind), QUEUE_WAIT);
	assert_int_equal(world_enter(&world, &other), QUEUE_WAIT);
	assert_true(queue_yield(world.queue, &slow.ticket, world.now_ns));
	assert_false(queue_yield(world.queue, &slow.ticket, world.now_ns));
	world_expect(&world, &other, QUEUE_GO); /* another's, but nothing of its own session */
	world_expect_none(&world);

	assert_int_equal(world_enter(&world, &late), QUEUE_WAIT);
	assert_int_equal(queue_ready(world.queue, &slow.ticket, world.now_ns), QUEUE_WAIT);
	world_expect_none(&world);
	queue_count(world.queue, &counts);
	assert_int_equal(counts.queued, 3);
	assert_int_equal(counts.in_flight, 1);
	world_done(&world, &other);
	world_expect(&world, &late, QUEUE_GO);
	world_done(&world, &late);
	world_expect(&world, &slow, QUEUE_GO);
	world_done(&world, &slow);
	world_expect(&world, &behind, QUEUE_GO);
	world_done(&world, &behind);
	world_close(&world);
}

/* With the upstream free it continues at once; one that is to be cut stays where it is. */
static void a_place_wanted_again(void **state)
{
	struct world world;
	struct job job;

	(void)state;
	world_open_with(&world, QUEUE_STRICT, NULL, &(struct run_queue_config){.max_in_flight = 1});
	job_init(&job, 1, 0, 'w');
	assert_int_equal(world_enter(&world, &job), QUEUE_GO);
	assert_true(queue_yield(world.queue, &job.ticket, world.now_ns));
	assert_int_equal(queue_ready(world.queue, &job.ticket, world.now_ns), QUEUE_GO);
	assert_true(queue_yield(world.queue, &job.ticket, world.now_ns));
	queue_close_session(world.queue, key_of(1), SESSION_ABORTED, world.now_ns);
	assert_int_equal(queue_ready(world.queue, &job.ticket, world.now_ns), QUEUE_WAIT);
	world_expect(&world, &job, QUEUE_ABORTED);
	world_done(&world, &job);
	world_close(&world);
}

/* One that waits for a connection of its session's own keeps the session's others out, until it
 * leaves or ends: they would wait for the same. Its place at the upstream is free for others. */
static void a_place_given_back_but_not_the_part(void **state)
{
	struct world world;
	struct job first, second, third, other;

	(void)state;
	world_open_with(&world, QUEUE_NONE, NULL, &(struct run_queue_config){.max_in_flight = 1});
	world.policy.session_in_flight = 1;
	job_init(&first, 1, 0, 'r');
	job_init(&second, 1, 1, 'r');
	job_init(&third, 1, 2, 'r');
	job_init(&other, 2, 3, 'r');
	assert_int_equal(world_enter(&world, &first), QUEUE_GO);
	assert_int_equal(world_enter(&world, &second), QUEUE_WAIT);
	assert_int_equal(world_enter(&world, &third), QUEUE_WAIT);
	assert_true(queue_yield_place(world.queue, &first.ticket, world.now_ns));
	world_expect_none(&world); /* with queue_yield it would be the second */
	assert_int_equal(world_enter(&world, &other), QUEUE_GO);
	assert_int_equal(queue_ready(world.queue, &first.ticket, world.now_ns), QUEUE_WAIT);
	world_done(&world, &other);
	world_expect(&world, &first, QUEUE_GO);
	assert_true(queue_yield_place(world.queue, &first.ticket, world.now_ns));
	world_expect_none(&world);
	assert_int_equal(queue_leave(world.queue, &first.ticket, world.now_ns), QUEUE_LEFT);
	world_expect(&world, &second, QUEUE_GO);
	world_expect_none(&world);
	world_done(&world, &second);
	world_expect(&world, &third, QUEUE_GO);
	world_done(&world, &third);
	world_close(&world);
}

UNIT_SUITE(test_places)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_bound_holds_over_sessions),
		cmocka_unit_test(a_tunnel_gives_its_place_back),
		cmocka_unit_test(a_stream_gives_its_place_back),
		cmocka_unit_test(a_place_given_back_while_waiting),
		cmocka_unit_test(a_place_wanted_again),
		cmocka_unit_test(a_place_given_back_but_not_the_part),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
