/* The run queue: turns, weights, newcomers, pace, shedding, Retry-After. */
#include "tests/unit/queue/jobs.h"
#include "tests/unit/suite.h"

static void leaving_the_line(void **state)
{
	struct fixture *fixture =
		open_fixture(QUEUE_STRICT, &(struct run_queue_config){.max_in_flight = 1});
	struct world *world = &fixture->world;
	struct job *first = enter(fixture, 1, 1, 'r', 1, QUEUE_GO);
	struct job *leaver = enter(fixture, 2, 1, 'r', 1, QUEUE_WAIT);
	struct job *last = enter(fixture, 3, 1, 'r', 1, QUEUE_WAIT);
	struct queue_counts counts;

	(void)state;
	assert_int_equal(queue_leave(world->queue, &leaver->ticket, world->now_ns), QUEUE_LEFT);
	queue_count(world->queue, &counts);
	assert_int_equal(counts.idle_sessions, 1); /* out of the line, so its idle time runs */
	world_done(world, first);
	world_expect(world, last, QUEUE_GO);
	world_done(world, last);
	close_fixture(fixture);
}

/* 3 : 1 by weight, in turns of quantum * weight, both for sessions whose work is all runnable and
 * for strict ones that have one exchange in flight at a time. */
static void turns_follow_weights(void **state)
{
	const enum queue_ordering orderings[] = {QUEUE_NONE, QUEUE_WRITES, QUEUE_STRICT};

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		struct fixture *fixture =
			open_fixture(orderings[i], &(struct run_queue_config){.max_in_flight = 1});
		struct job *job = enter(fixture, 0, 1, 'r', 1, QUEUE_GO);
		unsigned went[3];

		enter(fixture, 1, 500, 'r', 3, QUEUE_WAIT);
		enter(fixture, 2, 500, 'r', 1, QUEUE_WAIT);
		/* each is a newcomer once, then the circle */
		job = run(fixture, job, 2, went, 3);
		assert_int_equal(went[1], 1);
		assert_int_equal(went[2], 1);
		job = run(fixture, job, 400, went, 3);
		assert_int_equal(went[1], 300);
		assert_int_equal(went[2], 100);
		job = run(fixture, job, 30, went, 3);
		assert_int_equal(went[1], 30); /* a turn: quantum 10 times 3 */
		job = run(fixture, job, 10, went, 3);
		assert_int_equal(went[2], 10);
		finish(fixture, job);
		close_fixture(fixture);
	}
}

/* Requests of high-lane customers go before those of others that queued long before them. */
static void high_sessions_go_first(void **state)
{
	struct fixture *fixture =
		open_fixture(QUEUE_NONE, &(struct run_queue_config){.max_in_flight = 1});
	struct job *job = enter(fixture, 0, 1, 'r', 1, QUEUE_GO);
	unsigned went[5];

	(void)state;
	fixture->world.policy.high_burst = 16;
	enter(fixture, 1, 30, 'r', 1, QUEUE_WAIT);
	enter(fixture, 2, 30, 'r', 1, QUEUE_WAIT);
	enter(fixture, 3, 5, 'R', 1, QUEUE_WAIT);
	enter(fixture, 4, 5, 'R', 1, QUEUE_WAIT);
	job = run(fixture, job, 10, went, 5);
	assert_int_equal(went[3] + went[4], 10);
	enter(fixture, 3, 40, 'R', 1, QUEUE_WAIT);
	job = run(fixture, job, 34, went, 5);
	assert_true(went[1] + went[2] >= 2); /* one for 16 */
	assert_true(went[1] + went[2] <= 3);
	finish(fixture, job);
	close_fixture(fixture);
}

/* A session in line for a normal request gets a high one: it need not wait for the normal turn. */
static void a_high_one_promotes_its_session(void **state)
{
	struct fixture *fixture =
		open_fixture(QUEUE_NONE, &(struct run_queue_config){.max_in_flight = 1});
	struct job *job = enter(fixture, 0, 1, 'r', 1, QUEUE_GO), *high;

	(void)state;
	enter(fixture, 1, 10, 'r', 1, QUEUE_WAIT);
	enter(fixture, 2, 1, 'r', 1, QUEUE_WAIT);
	high = enter(fixture, 2, 1, 'R', 1, QUEUE_WAIT);
	world_done(&fixture->world, job);
	world_expect(&fixture->world, high, QUEUE_GO);
	finish(fixture, high);
	close_fixture(fixture);
}

/* Random arrivals of both lanes over several sessions, one place: whenever a normal one goes while
 * a high one waits, high_burst high ones went before it; and never more than that while one waits.
 * QUEUE_SEED repeats a run. */
static void high_burst_protects_the_others(void **state)
{
	const char *given = getenv("QUEUE_SEED");
	uint64_t first = given ? strtoull(given, NULL, 10) : 1;

	(void)state;
	for (uint64_t seed = first; seed < first + (given ? 1 : 300); seed++) {
		uint64_t random = (seed + 1) * 0x9e3779b97f4a7c15ull;
		struct fixture *fixture =
			open_fixture(QUEUE_NONE, &(struct run_queue_config){.max_in_flight = 1});
		unsigned burst = 1 + (unsigned)((random_next(&random) >> 33) % 6);
		unsigned waiting[QUEUE_LANES] = {0, 0}, passed = 0;
		struct job *job;

		fixture->world.policy.high_burst = burst;
		job = enter(fixture, 0, 1, 'r', 1, QUEUE_GO);
		while (job != NULL) {
			unsigned dice = (unsigned)(random_next(&random) >> 33);
			/* the lane is the customer's: sessions 1 to 4 are normal, 5 to 8 high */
			if (dice % 3 != 0 && fixture->jobs < 300) {
				bool high = dice / 3 % 2 == 0;
				enter(fixture, 1 + dice / 6 % 4 + (high ? 4 : 0), 1,
					high ? 'R' : 'r', 1, QUEUE_WAIT);
				waiting[high ? QUEUE_LANE_HIGH : QUEUE_LANE_NORMAL]++;
				continue;
			}
			world_done(&fixture->world, job);
			job = world_next(&fixture->world);
			if (job == NULL)
				break;
			bool normal = job->ticket.lane == QUEUE_LANE_NORMAL;
			bool right = normal ? waiting[QUEUE_LANE_HIGH] == 0 || passed == burst
					    : waiting[QUEUE_LANE_NORMAL] == 0 || passed < burst;
			if (!right)
				printf("# QUEUE_SEED=%llu\n", (unsigned long long)seed);
			assert_true(right);
			passed = !normal && waiting[QUEUE_LANE_NORMAL] > 0 ? passed + 1 : 0;
			waiting[job->ticket.lane]--;
		}
		assert_int_equal(waiting[0] + waiting[1], 0);
		close_fixture(fixture);
	}
	printf("# 300 runs from seed %llu\n", (unsigned long long)first);
}

/* Max-min: what one does not use goes to the others, equally. */
static void idle_shares_are_used(void **state)
{
	struct fixture *fixture =
		open_fixture(QUEUE_NONE, &(struct run_queue_config){.max_in_flight = 1});
	struct job *job = enter(fixture, 0, 1, 'r', 1, QUEUE_GO);
	unsigned went[4];

	(void)state;
	enter(fixture, 1, 20, 'r', 1, QUEUE_WAIT);
	enter(fixture, 2, 400, 'r', 1, QUEUE_WAIT);
	enter(fixture, 3, 400, 'r', 1, QUEUE_WAIT);
	job = run(fixture, job, 420, went, 4);
	assert_int_equal(went[1], 20);
	assert_in_range(went[2], 190, 210);
	assert_in_range(went[3], 190, 210);
	finish(fixture, job);
	close_fixture(fixture);
}

static void a_lone_session_is_drained_in_one_go(void **state)
{
	struct fixture *fixture =
		open_fixture(QUEUE_STRICT, &(struct run_queue_config){.max_in_flight = 2});
	struct job *job = enter(fixture, 1, 1, 'r', 1, QUEUE_GO);
	unsigned went[2];

	(void)state;
	enter(fixture, 1, 300, 'r', 1, QUEUE_WAIT);
	job = run(fixture, job, 300, went, 2);
	assert_int_equal(went[1], 300);
	finish(fixture, job);
	close_fixture(fixture);
}

/* Newcomers without end do not starve who is in the circle: one of quantum + 1 is theirs. */
static void newcomers_starve_nobody(void **state)
{
	struct fixture *fixture =
		open_fixture(QUEUE_NONE, &(struct run_queue_config){.max_in_flight = 1});
	struct job *job = enter(fixture, 1, 1, 'r', 1, QUEUE_GO);
	unsigned old = 0;

	(void)state;
	enter(fixture, 1, 50, 'r', 1, QUEUE_WAIT);
	for (unsigned i = 0; i < 500; i++) {
		enter(fixture, 1000 + 2 * i, 1, 'r', 1, QUEUE_WAIT);
		enter(fixture, 1001 + 2 * i, 1, 'r', 1, QUEUE_WAIT);
		world_done(&fixture->world, job);
		job = world_next(&fixture->world);
		old += job->client == 1;
	}
	assert_in_range(old, 500 / 11 - 1, 500 / 11 + 5);
	finish(fixture, job);
	close_fixture(fixture);
}

/* Who comes back at once after its newcomer's exchange is none again before a round has passed. */
static void coming_back_is_not_new(void **state)
{
	struct fixture *fixture =
		open_fixture(QUEUE_NONE, &(struct run_queue_config){.max_in_flight = 1});
	struct job *job = enter(fixture, 0, 1, 'r', 1, QUEUE_GO);
	unsigned went[4] = {0};

	(void)state;
	enter(fixture, 1, 300, 'r', 1, QUEUE_WAIT);
	enter(fixture, 2, 300, 'r', 1, QUEUE_WAIT);
	enter(fixture, 3, 1, 'r', 1, QUEUE_WAIT);
	for (unsigned i = 0; i < 300; i++) {
		world_done(&fixture->world, job);
		job = world_next(&fixture->world);
		went[job->client]++;
		if (job->client == 3)
			enter(fixture, 3, 1, 'r', 1, QUEUE_WAIT);
	}
	/* one or two a round of twenty, not one for each of the others */
	assert_in_range(went[3], 10, 35);
	finish(fixture, job);
	close_fixture(fixture);
}

/* A reload gave the session's later requests another upstream: when its last one for the old
 * leaves, nothing of the session may stay there, as the old one's owner ends it. */
static void leaving_the_line_for_another(void **state)
{
	struct world world;
	struct job busy, other, first, second;
	struct run_queue *old, *new;

	(void)state;
	world_open_with(&world, QUEUE_STRICT, NULL, &(struct run_queue_config){.max_in_flight = 1});
	old = world.upstream;
	new = run_queue_create(world.queue, &(struct run_queue_config){.max_in_flight = 1});
	job_init(&busy, 1, 0, 'w');
	job_init(&first, 2, 1, 'w');
	job_init(&other, 3, 2, 'w');
	job_init(&second, 2, 3, 'w');
	assert_int_equal(world_enter(&world, &busy), QUEUE_GO);
	assert_int_equal(world_enter(&world, &first), QUEUE_WAIT);
	world.upstream = new;
	assert_int_equal(world_enter(&world, &other), QUEUE_GO);
	assert_int_equal(world_enter(&world, &second), QUEUE_WAIT);

	assert_int_equal(queue_leave(world.queue, &first.ticket, world.now_ns), QUEUE_LEFT);
	world_expect_none(&world); /* the second is in line at the new one now, which is full */
	world_done(&world, &busy);
	world_expect_none(&world);
	run_queue_destroy(old);
	world_done(&world, &other);
	world_expect(&world, &second, QUEUE_GO);
	world_done(&world, &second);
	world_close(&world);
}

static void reload_changes_the_bound(void **state)
{
	struct fixture *fixture =
		open_fixture(QUEUE_NONE, &(struct run_queue_config){.max_in_flight = 1});
	struct world *world = &fixture->world;
	struct run_queue_counts counts;

	(void)state;
	enter(fixture, 1, 1, 'r', 1, QUEUE_GO);
	enter(fixture, 2, 5, 'r', 1, QUEUE_WAIT);
	run_queue_configure(
		world->upstream, &(struct run_queue_config){.max_in_flight = 3}, world->now_ns);
	assert_int_equal(world->mails, 2);
	run_queue_configure(world->upstream, &(struct run_queue_config){0}, world->now_ns);
	assert_int_equal(world->mails, 5); /* no bound: all go */
	run_queue_configure(
		world->upstream, &(struct run_queue_config){.max_in_flight = 2}, world->now_ns);
	enter(fixture, 3, 1, 'r', 1, QUEUE_WAIT);
	while (world_next(world) != NULL)
		;
	for (unsigned i = 0; i < 6; i++)
		world_done(world, &fixture->job[i]);
	world_expect(world, &fixture->job[6], QUEUE_GO);
	world_done(world, &fixture->job[6]);
	run_queue_count(world->upstream, &counts);
	assert_int_equal(counts.in_flight, 0);
	close_fixture(fixture);
}

/* ---- pace ----------------------------------------------------------------------------------- */

/* Two in each window of 10 ms, and a count of what it let go. */
struct pacer {
	uint64_t window_ns;
	unsigned used, charged;
};

static uint64_t pace(void *ctx, uint64_t now_ns)
{
	struct pacer *pacer = ctx;
	uint64_t window = now_ns / (10 * MS);

	if (window != pacer->window_ns) {
		pacer->window_ns = window;
		pacer->used = 0;
	}
	if (pacer->used == 2)
		return (window + 1) * 10 * MS - now_ns;
	pacer->used++;
	pacer->charged++;
	return 0;
}

static void pace_delays_and_never_rejects(void **state)
{
	struct pacer pacer = {0};
	struct fixture *fixture = open_fixture(
		QUEUE_NONE, &(struct run_queue_config){.pace = pace, .pace_ctx = &pacer});
	struct world *world = &fixture->world;
	struct run_queue_counts counts;

	(void)state;
	enter(fixture, 1, 2, 'r', 1, QUEUE_GO);
	enter(fixture, 1, 3, 'r', 1, QUEUE_WAIT);
	enter(fixture, 2, 2, 'r', 1, QUEUE_WAIT);
	world_expect_none(world);
	assert_int_equal(world->timer_ns, SEC + 10 * MS);
	assert_int_equal(queue_next_deadline_ns(world->queue), SEC + 10 * MS);
	assert_int_equal(queue_expire(world->queue, SEC + 5 * MS), SEC + 10 * MS);
	world_expect_none(world);

	for (unsigned step = 1; step <= 3; step++) {
		unsigned left = step < 3 ? 2 : 1;
		world->now_ns = SEC + step * 10 * MS;
		uint64_t next = queue_expire(world->queue, world->now_ns);
		assert_int_equal(world->mails, left);
		assert_int_equal(next, step < 3 ? world->now_ns + 10 * MS : QUEUE_NEVER);
		while (world_next(world) != NULL)
			;
	}
	assert_int_equal(pacer.charged, 7);
	run_queue_count(world->upstream, &counts);
	assert_true(counts.paced > 0);
	assert_int_equal(counts.in_flight, 7);
	for (unsigned i = 0; i < 7; i++)
		world_done(world, &fixture->job[i]);
	close_fixture(fixture);
}

static void leavers_are_not_charged(void **state)
{
	struct pacer pacer = {0};
	struct fixture *fixture = open_fixture(
		QUEUE_NONE, &(struct run_queue_config){.pace = pace, .pace_ctx = &pacer});
	struct world *world = &fixture->world;
	struct job *waiting;

	(void)state;
	enter(fixture, 1, 2, 'r', 1, QUEUE_GO);
	waiting = enter(fixture, 1, 2, 'r', 1, QUEUE_WAIT);
	queue_leave(world->queue, &waiting[0].ticket, world->now_ns);
	queue_leave(world->queue, &waiting[1].ticket, world->now_ns);
	world->now_ns += 10 * MS;
	queue_expire(world->queue, world->now_ns);
	assert_int_equal(pacer.charged, 2);
	world_done(world, &fixture->job[0]);
	world_done(world, &fixture->job[1]);
	close_fixture(fixture);
}

/* ---- overload ------------------------------------------------------------------------------- */

static void overload_sheds_who_waited_too_long(void **state)
{
	struct fixture *fixture = open_fixture(QUEUE_NONE,
		&(struct run_queue_config){
			.max_in_flight = 1, .shed_target_ms = 50, .shed_interval_ms = 100});
	struct world *world = &fixture->world;
	struct job *first = enter(fixture, 0, 1, 'r', 1, QUEUE_GO), *next;
	struct run_queue_counts counts;

	(void)state;
	enter(fixture, 1, 3, 'r', 1, QUEUE_WAIT);
	world->now_ns += 90 * MS;
	/* 90 ms are over the target, but the line has not been busy for the interval yet */
	world_done(world, first);
	world_expect(world, &fixture->job[1], QUEUE_GO);
	world->now_ns += 20 * MS;
	next = enter(fixture, 2, 1, 'r', 1, QUEUE_WAIT);
	world_done(world, &fixture->job[1]);
	/* the newcomer is fresh; the two old ones are shed at their turn */
	world_expect(world, next, QUEUE_GO);
	world_expect_none(world);
	world_done(world, next);
	world_expect(world, &fixture->job[2], QUEUE_SHED);
	assert_true(fixture->job[2].ticket.retry_after_ms >= 1);
	world_expect(world, &fixture->job[3], QUEUE_SHED);
	world_expect_none(world);
	run_queue_count(world->upstream, &counts);
	assert_int_equal(counts.shed, 2);
	assert_int_equal(counts.in_flight, 0);

	/* and the next one goes as if nothing had been */
	next = enter(fixture, 1, 1, 'r', 1, QUEUE_GO);
	world_done(world, next);
	close_fixture(fixture);
}

/* ---- drain rate ----------------------------------------------------------------------------- */

static void retry_after_follows_the_drain_rate(void **state)
{
	struct fixture *fixture =
		open_fixture(QUEUE_NONE, &(struct run_queue_config){.max_in_flight = 1});
	struct world *world = &fixture->world;
	struct job *job = enter(fixture, 0, 1, 'r', 1, QUEUE_GO);
	unsigned went[2];

	(void)state;
	assert_int_equal(run_queue_retry_after_ms(world->upstream), 1000);
	enter(fixture, 1, 400, 'r', 1, QUEUE_WAIT);
	for (unsigned i = 0; i < 200; i++) {
		world->now_ns += 20 * MS; /* 50 a second */
		job = run(fixture, job, 1, went, 2);
	}
	/* 200 wait, 20 ms each */
	assert_in_range(run_queue_retry_after_ms(world->upstream), 3800, 4400);
	finish(fixture, job);
	close_fixture(fixture);
}

/* Without a bound tickets wait for their own session only, and that drains at a rate, too. */
static void retry_after_without_a_bound(void **state)
{
	struct fixture *fixture = open_fixture(QUEUE_STRICT, NULL);
	struct world *world = &fixture->world;
	struct job *job;
	unsigned went[3];

	(void)state;
	world->now_ns += 3600 * SEC; /* long before anything waits */
	job = enter(fixture, 1, 1, 'r', 1, QUEUE_GO);
	enter(fixture, 1, 100, 'r', 1, QUEUE_WAIT);
	for (unsigned i = 0; i < 90; i++) {
		world->now_ns += 30 * MS;
		job = run(fixture, job, 1, went, 3);
	}
	assert_in_range(run_queue_retry_after_ms(world->upstream), 250, 350);
	finish(fixture, job);
	close_fixture(fixture);
}

UNIT_SUITE(test_run_queue)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(leaving_the_line),
		cmocka_unit_test(leaving_the_line_for_another),
		cmocka_unit_test(high_sessions_go_first),
		cmocka_unit_test(a_high_one_promotes_its_session),
		cmocka_unit_test(high_burst_protects_the_others),
		cmocka_unit_test(turns_follow_weights),
		cmocka_unit_test(idle_shares_are_used),
		cmocka_unit_test(a_lone_session_is_drained_in_one_go),
		cmocka_unit_test(newcomers_starve_nobody),
		cmocka_unit_test(coming_back_is_not_new),
		cmocka_unit_test(reload_changes_the_bound),
		cmocka_unit_test(pace_delays_and_never_rejects),
		cmocka_unit_test(leavers_are_not_charged),
		cmocka_unit_test(overload_sheds_who_waited_too_long),
		cmocka_unit_test(retry_after_follows_the_drain_rate),
		cmocka_unit_test(retry_after_without_a_bound),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
