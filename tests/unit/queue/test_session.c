/* Sessions: their number, the idle timer, listing, counts. */
#include "tests/unit/queue/harness.h"
#include "tests/unit/suite.h"

static void count(struct world *world, struct queue_counts *counts)
{
	queue_count(world->queue, counts);
}

static void the_oldest_idle_session_makes_room(void **state)
{
	struct world world;
	struct job job[4];
	struct queue_counts counts;

	(void)state;
	world_open_with(
		&world, QUEUE_STRICT, &(struct queue_config){.shards = 1, .max_sessions = 2}, NULL);
	for (unsigned i = 0; i < 4; i++)
		job_init(&job[i], i, i, 'w');
	assert_int_equal(world_enter(&world, &job[0]), QUEUE_GO);
	assert_int_equal(world_enter(&world, &job[1]), QUEUE_GO);
	assert_int_equal(world_enter(&world, &job[2]), QUEUE_FULL_SESSIONS);
	world_done(&world, &job[0]);
	assert_int_equal(world_enter(&world, &job[2]), QUEUE_GO);
	count(&world, &counts);
	assert_int_equal(counts.sessions, 2);
	assert_int_equal(counts.rolled, 1);
	assert_int_equal(counts.full_sessions, 1);
	world_done(&world, &job[1]);
	world_done(&world, &job[2]);
	world_close(&world);
}

/* ---- the idle timer ------------------------------------------------------------------------- */

static void it_runs_from_the_last_completion(void **state)
{
	struct world world;
	struct job a, b;
	struct queue_counts counts;

	(void)state;
	world_open(&world, QUEUE_WRITES);
	world.policy.session_idle_ms = 1000;
	job_init(&a, 1, 0, 'r');
	job_init(&b, 1, 1, 'r');
	assert_int_equal(world_enter(&world, &a), QUEUE_GO);
	assert_int_equal(world_enter(&world, &b), QUEUE_GO);
	assert_int_equal(queue_next_deadline_ns(world.queue), QUEUE_NEVER);
	world.now_ns += 5 * SEC;
	world_done(&world, &a);
	assert_int_equal(world.timer_changes, 0); /* b is still in flight */
	world.now_ns += 5 * SEC;
	queue_expire(world.queue, world.now_ns);
	count(&world, &counts);
	assert_int_equal(counts.rolled, 0);
	world_done(&world, &b);
	assert_int_equal(world.timer_ns, world.now_ns + SEC);

	/* used again in time, it runs again; the timer is early once and sleeps on */
	world.now_ns += SEC / 2;
	assert_int_equal(world_enter(&world, &a), QUEUE_GO);
	assert_int_equal(queue_expire(world.queue, world.timer_ns), QUEUE_NEVER);
	world.now_ns += 5 * SEC;
	world_done(&world, &a);
	assert_int_equal(world.timer_ns, world.now_ns + SEC);
	assert_int_equal(queue_expire(world.queue, world.timer_ns - 1), world.timer_ns);
	count(&world, &counts);
	assert_int_equal(counts.sessions, 1);
	assert_int_equal(queue_expire(world.queue, world.timer_ns), QUEUE_NEVER);
	count(&world, &counts);
	assert_int_equal(counts.sessions, 0);
	assert_int_equal(counts.rolled, 1);
	world_close(&world);
}

static void refused_arrivals_do_not_touch_it(void **state)
{
	struct world world;
	struct job a, b, refused;
	uint64_t deadline;

	(void)state;
	world_open_with(&world, QUEUE_STRICT, NULL, &(struct run_queue_config){.max_in_flight = 1});
	world.policy.session_idle_ms = 1000;
	job_init(&a, 1, 0, 'r');
	job_init(&b, 2, 1, 'r');
	job_init(&refused, 1, 2, 'r');
	world_enter(&world, &a);
	world_done(&world, &a);
	deadline = world.timer_ns;
	assert_int_equal(world_enter(&world, &b), QUEUE_GO);
	/* the idle session's client comes, finds the upstream full and may not wait */
	world.now_ns += SEC / 2;
	world.policy.depth = 0;
	assert_int_equal(world_enter(&world, &refused), QUEUE_FULL_SESSION);
	assert_int_equal(queue_next_deadline_ns(world.queue), deadline);
	queue_expire(world.queue, deadline);
	struct queue_counts counts;
	count(&world, &counts);
	assert_int_equal(counts.rolled, 1);
	/* and one that has no session leaves none behind */
	assert_int_equal(world_enter(&world, &refused), QUEUE_FULL_SESSION);
	count(&world, &counts);
	assert_int_equal(counts.sessions, 1);
	world_done(&world, &b);
	world_close(&world);
}

static void waiting_keeps_the_session(void **state)
{
	struct world world;
	struct job a, b;
	struct queue_counts counts;

	(void)state;
	world_open_with(&world, QUEUE_STRICT, NULL, &(struct run_queue_config){.max_in_flight = 1});
	world.policy.session_idle_ms = 1000;
	job_init(&a, 1, 0, 'r');
	job_init(&b, 2, 1, 'r');
	world_enter(&world, &b);
	world_done(&world, &b); /* 2 is idle */
	world_enter(&world, &a);
	assert_int_equal(world_enter(&world, &b), QUEUE_WAIT); /* and waits now */
	world.now_ns += 3600 * SEC;
	queue_expire(world.queue, world.now_ns);
	count(&world, &counts);
	assert_int_equal(counts.rolled, 0);
	assert_int_equal(counts.sessions, 2);
	world_done(&world, &a);
	world_expect(&world, &b, QUEUE_GO);
	world_done(&world, &b);
	world_close(&world);
}

static void idle_time_zero_rolls_at_once(void **state)
{
	struct world world;
	struct job job;
	struct queue_counts counts;

	(void)state;
	world_open(&world, QUEUE_STRICT);
	world.policy.session_idle_ms = 0;
	job_init(&job, 1, 0, 'r');
	world_enter(&world, &job);
	world_done(&world, &job);
	count(&world, &counts);
	assert_int_equal(counts.sessions, 0);
	assert_int_equal(counts.rolled, 1);
	assert_int_equal(world.timer_changes, 0);
	world_close(&world);
}

/* What a session remembers is its connection, and how fast it goes; others leave nothing behind. */
static void what_remembers_nothing_ends_at_once(void **state)
{
	struct world world;
	struct job job, pinned, waits[4];
	struct queue_counts counts;
	int pin;

	(void)state;
	world_open(&world, QUEUE_STRICT);
	world.policy.forgets = true;
	job_init(&job, 1, 0, 'r');
	world_enter(&world, &job);
	world_done(&world, &job);
	count(&world, &counts);
	assert_int_equal(counts.sessions, 0);
	assert_int_equal(world.timer_changes, 0);

	job_init(&pinned, 2, 0, 'r');
	world_enter(&world, &pinned);
	assert_true(queue_pin(world.queue, &pinned.ticket, &pin));
	world_done(&world, &pinned);
	for (unsigned i = 0; i < 4; i++) {
		job_init(&waits[i], 3, i, 'w');
		world_enter(&world, &waits[i]);
	}
	for (unsigned i = 0; i < 4; i++) {
		world.now_ns += 10 * MS;
		world_done(&world, &waits[i]);
		if (i < 3)
			world_expect(&world, &waits[i + 1], QUEUE_GO);
	}
	count(&world, &counts);
	assert_int_equal(counts.sessions, 2);
	assert_int_equal(counts.idle_sessions, 2);
	queue_expire(world.queue, world.now_ns + 61 * SEC);
	count(&world, &counts);
	assert_int_equal(counts.sessions, 0);
	assert_ptr_equal(world.unpinned, &pin);
	world_close(&world);
}

/* More idle times than lists: sessions then stay a little longer, never shorter, never for ever. */
static void many_idle_times(void **state)
{
	enum { TIMES = 40 };
	struct world world;
	struct job job[TIMES];
	struct queue_counts counts;

	(void)state;
	world_open_with(&world, QUEUE_STRICT, &(struct queue_config){.shards = 1}, NULL);
	for (unsigned i = 0; i < TIMES; i++) {
		world.policy.session_idle_ms = 1000 * (TIMES - i);
		job_init(&job[i], i, i, 'r');
		world_enter(&world, &job[i]);
		world_done(&world, &job[i]);
	}
	for (unsigned s = 1; s <= TIMES; s++) {
		queue_expire(world.queue, world.now_ns + s * SEC);
		count(&world, &counts);
		assert_true(counts.rolled <= s);
	}
	assert_int_equal(counts.sessions, 0);
	world_close(&world);
}

/* 200,000 idle sessions: nothing to do before the first is over, and 256 bytes each. */
static void many_idle_sessions_cost_nothing(void **state)
{
	enum { SESSIONS = 200000 };
	struct world world;
	struct job job;
	struct queue_counts counts;
	uint64_t first;

	(void)state;
	world_open_with(&world, QUEUE_WRITES, &(struct queue_config){.shards = 256}, NULL);
	for (unsigned i = 0; i < SESSIONS; i++) {
		job_init(&job, i, i, 'r');
		world_enter(&world, &job);
		world_done(&world, &job);
		world.now_ns += 1000;
	}
	first = SEC + 60 * SEC;
	assert_int_equal(world.timer_changes, 1);
	assert_int_equal(world.timer_ns, first);
	assert_int_equal(queue_next_deadline_ns(world.queue), first);
	count(&world, &counts);
	assert_int_equal(counts.idle_sessions, SESSIONS);
	assert_int_equal(queue_expire(world.queue, first), first + 1000);
	count(&world, &counts);
	assert_int_equal(counts.rolled, 1);
	assert_int_equal(queue_expire(world.queue, world.now_ns + 61 * SEC), QUEUE_NEVER);
	count(&world, &counts);
	assert_int_equal(counts.rolled, SESSIONS);
	assert_int_equal(world.timer_changes, 1);
	world_close(&world);
}

/* ---- listing -------------------------------------------------------------------------------- */

struct seen {
	unsigned sessions, stop_after;
	uint32_t queued, in_flight;
	unsigned idle;
};

static bool see(void *ctx, const struct session_view *view)
{
	struct seen *seen = ctx;

	seen->sessions++;
	seen->queued += view->queued[0] + view->queued[1];
	seen->in_flight += view->in_flight;
	seen->idle += view->idle_deadline_ns != QUEUE_NEVER;
	assert_int_equal(view->state, SESSION_OPEN);
	assert_string_equal(session_state_name(view->state), "open");
	return seen->sessions != seen->stop_after;
}

static void sessions_are_listed(void **state)
{
	enum { SESSIONS = 1000 };
	struct world world;
	struct job *job = test_calloc(SESSIONS * 2, sizeof(*job));
	struct seen seen = {0};

	(void)state;
	world_open(&world, QUEUE_STRICT);
	for (unsigned i = 0; i < SESSIONS * 2; i++) {
		job_init(&job[i], i / 2, i, 'w');
		world_enter(&world, &job[i]);
	}
	assert_true(queue_each_session(world.queue, see, &seen));
	assert_int_equal(seen.sessions, SESSIONS);
	assert_int_equal(seen.queued, SESSIONS);
	assert_int_equal(seen.in_flight, SESSIONS);
	assert_int_equal(seen.idle, 0);
	seen = (struct seen){.stop_after = 7};
	queue_each_session(world.queue, see, &seen);
	assert_int_equal(seen.sessions, 7);
	for (unsigned i = 0; i < SESSIONS * 2; i++) {
		world_done(&world, &job[i]);
		world_next(&world);
	}
	world_close(&world);
	test_free(job);
}

UNIT_SUITE(test_session)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_oldest_idle_session_makes_room),
		cmocka_unit_test(it_runs_from_the_last_completion),
		cmocka_unit_test(refused_arrivals_do_not_touch_it),
		cmocka_unit_test(waiting_keeps_the_session),
		cmocka_unit_test(idle_time_zero_rolls_at_once),
		cmocka_unit_test(what_remembers_nothing_ends_at_once),
		cmocka_unit_test(many_idle_times),
		cmocka_unit_test(many_idle_sessions_cost_nothing),
		cmocka_unit_test(sessions_are_listed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
