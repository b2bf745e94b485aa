/* Bounds of what waits: of a session and of all, in tickets and in bytes. */
#include "tests/unit/queue/harness.h"
#include "tests/unit/suite.h"

static void count(struct world *world, struct queue_counts *counts)
{
	queue_count(world->queue, counts);
}

static void depth_is_bounded(void **state)
{
	struct world world;
	struct job job[4];
	struct queue_counts counts;

	(void)state;
	world_open(&world, QUEUE_STRICT);
	world.policy.depth = 2;
	for (unsigned i = 0; i < 4; i++) {
		const enum queue_verdict expected[] = {
			QUEUE_GO, QUEUE_WAIT, QUEUE_WAIT, QUEUE_FULL_SESSION};
		job_init(&job[i], 1, i, 'w');
		assert_int_equal(world_enter(&world, &job[i]), expected[i]);
	}
	assert_true(job[3].ticket.retry_after_ms >= 1);
	/* a high one that may go at once needs no room; here it may not */
	job_init(&job[3], 1, 3, 'W');
	assert_int_equal(world_enter(&world, &job[3]), QUEUE_FULL_SESSION);
	count(&world, &counts);
	assert_int_equal(counts.full_session, 2);
	assert_int_equal(counts.queued, 2);
	for (unsigned i = 0; i < 3; i++) {
		world_done(&world, &job[i]);
		world_next(&world);
	}
	world_close(&world);
}

static void retry_after_of_a_full_session_is_its_own(void **state)
{
	struct world world;
	struct job job[20];

	(void)state;
	world_open(&world, QUEUE_STRICT);
	world.policy.depth = 10;
	for (unsigned i = 0; i < 11; i++) {
		job_init(&job[i], 1, i, 'w');
		world_enter(&world, &job[i]);
	}
	for (unsigned i = 0; i < 9; i++) {
		world.now_ns += 200 * MS;
		world_done(&world, &job[i]);
		assert_ptr_equal(world_next(&world), &job[i + 1]);
		if (i < 2) {
			job_init(&job[11 + i], 1, 11 + i, 'w');
			assert_int_equal(world_enter(&world, &job[11 + i]), QUEUE_WAIT);
		}
	}
	world.policy.depth = 3;
	job_init(&job[15], 1, 15, 'w');
	assert_int_equal(world_enter(&world, &job[15]), QUEUE_FULL_SESSION);
	assert_int_equal(job[15].ticket.retry_after_ms, 3 * 200);
	for (unsigned i = 9; i < 13; i++) {
		world_done(&world, &job[i]);
		world_next(&world);
	}
	world_close(&world);
}

static void totals_are_bounded(void **state)
{
	struct world world;
	struct job job[8];
	struct queue_counts counts;

	(void)state;
	world_open_with(&world, QUEUE_STRICT,
		&(struct queue_config){.shards = 4, .max_queued = 3, .max_queued_bytes = 1000},
		NULL);
	for (unsigned i = 0; i < 8; i++) {
		const uint64_t bytes[8] = {5000, 600, 5000, 401, 400, 0, 1, 0};
		const enum queue_verdict expected[8] = {QUEUE_GO, QUEUE_WAIT, QUEUE_GO,
			QUEUE_FULL_BYTES, QUEUE_WAIT, QUEUE_WAIT, QUEUE_FULL_TOTAL,
			QUEUE_FULL_TOTAL};
		const unsigned client[8] = {1, 1, 2, 2, 2, 1, 2, 1};
		job_init(&job[i], client[i], i, 'w');
		job[i].ticket.bytes = bytes[i];
		assert_int_equal(world_enter(&world, &job[i]), expected[i]);
	}
	count(&world, &counts);
	assert_int_equal(counts.full_total, 2);
	assert_int_equal(counts.full_bytes, 1);
	assert_int_equal(counts.queued_bytes, 1000);
	/* a leaver makes room */
	queue_leave(world.queue, &job[1].ticket, world.now_ns);
	job_init(&job[7], 2, 7, 'w');
	job[7].ticket.bytes = 600;
	assert_int_equal(world_enter(&world, &job[7]), QUEUE_WAIT);
	queue_close_all(world.queue, SESSION_CLOSING, world.now_ns);
	while (world_next(&world) != NULL)
		;
	world_done(&world, &job[0]);
	world_done(&world, &job[2]);
	world_close(&world);
}

static void bytes_of_a_session_are_bounded(void **state)
{
	struct world world;
	struct job job[8];
	struct queue_counts counts;

	(void)state;
	world_open(&world, QUEUE_STRICT);
	world.policy.bytes = 1000;
	for (unsigned i = 0; i < 8; i++) {
		const uint64_t bytes[8] = {5000, 600, 401, 1001, 400, 1, 0, 1000};
		const enum queue_verdict expected[8] = {QUEUE_GO, QUEUE_WAIT,
			QUEUE_FULL_SESSION_BYTES, QUEUE_FULL_SESSION_BYTES, QUEUE_WAIT,
			QUEUE_FULL_SESSION_BYTES, QUEUE_WAIT, QUEUE_GO};
		job_init(&job[i], i == 7 ? 2 : 1, i, 'w');
		job[i].ticket.bytes = bytes[i];
		assert_int_equal(world_enter(&world, &job[i]), expected[i]);
		if (expected[i] == QUEUE_FULL_SESSION_BYTES)
			assert_true(job[i].ticket.retry_after_ms >= 1);
	}
	count(&world, &counts);
	assert_int_equal(counts.full_session_bytes, 3);
	assert_int_equal(counts.queued_bytes, 1000);
	/* who goes makes room */
	world_done(&world, &job[0]);
	world_expect(&world, &job[1], QUEUE_GO);
	job[5].ticket.bytes = 600;
	assert_int_equal(world_enter(&world, &job[5]), QUEUE_WAIT);
	for (unsigned i = 1; i < 7; i++) {
		if (i != 2 && i != 3)
			world_done(&world, &job[i]);
		world_next(&world);
	}
	world_done(&world, &job[7]);
	world_close(&world);
}

UNIT_SUITE(test_bounds)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(depth_is_bounded),
		cmocka_unit_test(retry_after_of_a_full_session_is_its_own),
		cmocka_unit_test(totals_are_bounded),
		cmocka_unit_test(bytes_of_a_session_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
