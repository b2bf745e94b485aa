/* Sessions that are drained, closed or aborted, and their pins. */
#include "tests/unit/queue/harness.h"
#include "tests/unit/suite.h"

static void count(struct world *world, struct queue_counts *counts)
{
	queue_count(world->queue, counts);
}

/* ---- states --------------------------------------------------------------------------------- */

static void draining_finishes_what_it_accepted(void **state)
{
	struct world world;
	struct job job[4];
	struct queue_counts counts;

	(void)state;
	world_open(&world, QUEUE_STRICT);
	for (unsigned i = 0; i < 4; i++)
		job_init(&job[i], 1, i, 'w');
	for (unsigned i = 0; i < 3; i++)
		world_enter(&world, &job[i]);
	assert_int_equal(
		queue_close_session(world.queue, key_of(1), SESSION_DRAINING, world.now_ns),
		SESSION_DRAINING);
	assert_int_equal(
		queue_close_session(world.queue, key_of(2), SESSION_DRAINING, world.now_ns),
		SESSION_OPEN);
	assert_int_equal(world_enter(&world, &job[3]), QUEUE_CLOSED);
	assert_true(job[3].ticket.retry_after_ms >= 1);
	world.now_ns += 3600 * SEC; /* however slow */
	queue_expire(world.queue, world.now_ns);
	for (unsigned i = 0; i < 2; i++) {
		world_done(&world, &job[i]);
		world_expect(&world, &job[i + 1], QUEUE_GO);
		assert_int_equal(world_enter(&world, &job[3]), QUEUE_CLOSED);
	}
	world_done(&world, &job[2]);
	count(&world, &counts);
	assert_int_equal(counts.closed, 1);
	assert_int_equal(counts.rolled, 0);
	/* then a new session begins */
	assert_int_equal(world_enter(&world, &job[3]), QUEUE_GO);
	world_done(&world, &job[3]);
	world_close(&world);
}

static void closing_refuses_what_is_queued(void **state)
{
	struct world world;
	struct job job[3];
	struct queue_counts counts;

	(void)state;
	world_open(&world, QUEUE_STRICT);
	for (unsigned i = 0; i < 3; i++) {
		job_init(&job[i], 1, i, 'w');
		world_enter(&world, &job[i]);
	}
	queue_close_session(world.queue, key_of(1), SESSION_CLOSING, world.now_ns);
	/* milder than what it is: nothing changes */
	queue_close_session(world.queue, key_of(1), SESSION_DRAINING, world.now_ns);
	world_expect(&world, &job[1], QUEUE_CLOSED);
	/* the owner of 2 left before it heard: it is out already, so it only frees it */
	assert_int_equal(queue_leave(world.queue, &job[2].ticket, world.now_ns), QUEUE_UNDER_WAY);
	world_expect(&world, &job[2], QUEUE_GONE);
	world_expect_none(&world);
	world_done(&world, &job[0]);
	count(&world, &counts);
	assert_int_equal(counts.sessions, 0);
	assert_int_equal(counts.closed, 1);
	world_close(&world);
}

static void aborting_cuts_what_is_in_flight(void **state)
{
	struct world world;
	struct job job[5];
	struct queue_counts counts;

	(void)state;
	world_open_with(&world, QUEUE_WRITES, NULL, &(struct run_queue_config){.max_in_flight = 4});
	for (unsigned i = 0; i < 5; i++) {
		job_init(&job[i], 1, i, i == 4 ? 'w' : 'r');
		world_enter(&world, &job[i]);
	}
	queue_detach(world.queue, &job[3].ticket, world.now_ns);
	queue_close_session(world.queue, key_of(1), SESSION_ABORTED, world.now_ns);
	/* completed before it learned of the cut: stays until the message is there */
	assert_int_equal(queue_done(world.queue, &job[1].ticket, world.now_ns), QUEUE_UNDER_WAY);
	for (unsigned i = 0; i < 5; i++) {
		struct job *next = world_next(&world);
		assert_non_null(next);
		if (next == &job[1]) {
			assert_int_equal(next->verdict, QUEUE_GONE);
			continue;
		}
		assert_int_equal(next->verdict, QUEUE_ABORTED);
		assert_int_equal(queue_done(world.queue, &next->ticket, world.now_ns), QUEUE_LEFT);
	}
	world_expect_none(&world);
	count(&world, &counts);
	assert_int_equal(counts.sessions, 0);
	world_close(&world);
}

/* A tunnel that hears it ends with its session; another one keeps the session as long as it likes.
 */
static void tunnels_hear_that_their_session_ends(void **state)
{
	const enum session_state states[] = {SESSION_DRAINING, SESSION_CLOSING};

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct world world;
		struct job heard, deaf, waiting;
		struct queue_counts counts;

		world_open(&world, QUEUE_STRICT);
		job_init(&deaf, 1, 0, 'r');
		job_init(&heard, 1, 1, 'r');
		job_init(&waiting, 1, 2, 'w');
		assert_int_equal(world_enter(&world, &deaf), QUEUE_GO);
		queue_detach(world.queue, &deaf.ticket, world.now_ns);
		assert_int_equal(world_enter(&world, &heard), QUEUE_GO);
		assert_int_equal(world_enter(&world, &waiting), QUEUE_WAIT);
		heard.ticket.hears_end = true;
		queue_close_session(world.queue, key_of(1), states[i], world.now_ns);
		if (states[i] == SESSION_CLOSING)
			world_expect(&world, &waiting, QUEUE_CLOSED);
		world_expect_none(&world); /* in flight it is finished, and hears nothing */
		queue_detach(world.queue, &heard.ticket, world.now_ns);
		world_expect(&world, &heard, QUEUE_ENDING);
		if (states[i] == SESSION_DRAINING) {
			world_expect(&world, &waiting, QUEUE_GO);
			world_done(&world, &waiting);
		}
		world_expect_none(&world);
		world_done(&world, &heard);
		count(&world, &counts);
		assert_int_equal(counts.detached, 1);
		world_done(&world, &deaf);
		count(&world, &counts);
		assert_int_equal(counts.sessions, 0);
		world_close(&world);
	}
}

static void tunnels_hear_it_before_what_they_queue_is_refused(void **state)
{
	struct world world;
	struct job tunnel, in_flight, waiting;

	(void)state;
	world_open(&world, QUEUE_STRICT);
	job_init(&tunnel, 1, 0, 'r');
	job_init(&in_flight, 1, 1, 'w');
	job_init(&waiting, 1, 2, 'w');
	world_enter(&world, &tunnel);
	tunnel.ticket.hears_end = true;
	queue_detach(world.queue, &tunnel.ticket, world.now_ns);
	world_enter(&world, &in_flight);
	world_enter(&world, &waiting);
	queue_close_session(world.queue, key_of(1), SESSION_CLOSING, world.now_ns);
	/* What is under way to it becomes sterner, and is not sent twice. */
	queue_close_session(world.queue, key_of(1), SESSION_ABORTED, world.now_ns);
	world_expect(&world, &tunnel, QUEUE_ABORTED);
	world_expect(&world, &waiting, QUEUE_CLOSED);
	world_expect(&world, &in_flight, QUEUE_ABORTED);
	world_expect_none(&world);
	world_done(&world, &tunnel);
	world_done(&world, &in_flight);
	world_close(&world);
}

/* In other memory it keeps its session, and hears what is said from then on. */
static void a_tunnel_goes_on_in_other_memory(void **state)
{
	struct world world;
	struct job tunnels[3], heirs[3];
	struct queue_counts counts;

	(void)state;
	world_open(&world, QUEUE_STRICT);
	for (unsigned i = 0; i < 3; i++) {
		job_init(&tunnels[i], 1, i, 'r');
		job_init(&heirs[i], 1, 3 + i, 'r');
		assert_int_equal(world_enter(&world, &tunnels[i]), QUEUE_GO);
		tunnels[i].ticket.hears_end = i != 2;
		queue_detach(world.queue, &tunnels[i].ticket, world.now_ns);
	}
	for (unsigned i = 0; i < 3; i++) /* the first, one in between, and the last of the list */
		assert_int_equal(queue_pass_on(world.queue, &tunnels[i].ticket, &heirs[i].ticket,
					 world.now_ns),
			QUEUE_LEFT);
	count(&world, &counts);
	assert_int_equal(counts.detached, 3);
	world_done(&world, &tunnels[1]); /* it is out already */
	world_done(&world, &heirs[1]);
	queue_close_session(world.queue, key_of(1), SESSION_CLOSING, world.now_ns);
	world_expect(&world, &heirs[0], QUEUE_ENDING);
	world_expect_none(&world);
	world_done(&world, &heirs[0]);
	count(&world, &counts);
	assert_int_equal(counts.sessions, 1);
	world_done(&world, &heirs[2]);
	count(&world, &counts);
	assert_int_equal(counts.detached, 0);
	assert_int_equal(counts.sessions, 0);
	world_close(&world);
}

/* What was under way to it is the other's; the memory of the first stays until it has come. */
static void a_tunnel_goes_on_while_its_session_is_aborted(void **state)
{
	struct world world;
	struct job tunnel, heir;

	(void)state;
	world_open(&world, QUEUE_STRICT);
	job_init(&tunnel, 1, 0, 'r');
	job_init(&heir, 1, 1, 'r');
	world_enter(&world, &tunnel);
	queue_detach(world.queue, &tunnel.ticket, world.now_ns);
	queue_close_session(world.queue, key_of(1), SESSION_ABORTED, world.now_ns);
	assert_int_equal(queue_pass_on(world.queue, &tunnel.ticket, &heir.ticket, world.now_ns),
		QUEUE_UNDER_WAY);
	world_expect(&world, &tunnel, QUEUE_GONE);
	world_expect(&world, &heir, QUEUE_ABORTED);
	world_expect_none(&world);
	world_done(&world, &heir);
	world_close(&world);
}

static void aborting_overtakes_a_dispatch(void **state)
{
	struct world world;
	struct job a, b;

	(void)state;
	world_open(&world, QUEUE_STRICT);
	job_init(&a, 1, 0, 'w');
	job_init(&b, 1, 1, 'w');
	world_enter(&world, &a);
	world_enter(&world, &b);
	world_done(&world, &a); /* b's GO is under way */
	queue_close_session(world.queue, key_of(1), SESSION_ABORTED, world.now_ns);
	world_expect(&world, &b, QUEUE_ABORTED);
	world_expect_none(&world);
	world_done(&world, &b);
	world_close(&world);
}

static bool note_state(void *ctx, const struct session_view *view)
{
	*(enum session_state *)ctx = view->state;
	return true;
}

/* From every state to every other: it only grows sterner, and what each means for a ticket in
 * flight, one that waits and one that comes. */
static void every_transition(void **state)
{
	const enum session_state states[] = {
		SESSION_OPEN, SESSION_DRAINING, SESSION_CLOSING, SESSION_ABORTED};

	(void)state;
	for (unsigned from = 0; from < 4; from++) {
		for (unsigned to = 1; to < 4; to++) {
			enum session_state sterner = states[from > to ? from : to], found;
			struct world world;
			struct job in_flight, waiting, late;
			struct queue_counts counts;

			world_open(&world, QUEUE_STRICT);
			job_init(&in_flight, 1, 0, 'w');
			job_init(&waiting, 1, 1, 'w');
			job_init(&late, 1, 2, 'w');
			assert_int_equal(world_enter(&world, &in_flight), QUEUE_GO);
			assert_int_equal(world_enter(&world, &waiting), QUEUE_WAIT);
			if (from > 0)
				queue_close_session(
					world.queue, key_of(1), states[from], world.now_ns);
			assert_int_equal(queue_close_session(
						 world.queue, key_of(1), states[to], world.now_ns),
				sterner);
			queue_each_session(world.queue, note_state, &found);
			assert_int_equal(found, sterner);
			assert_int_equal(world_enter(&world, &late), QUEUE_CLOSED);

			/* Who was told to go away before is not told again. */
			bool told_closed = sterner == SESSION_CLOSING ||
					   (from == SESSION_CLOSING && to == SESSION_ABORTED);
			if (told_closed)
				world_expect(&world, &waiting, QUEUE_CLOSED);
			else if (sterner == SESSION_ABORTED)
				world_expect(&world, &waiting, QUEUE_ABORTED);
			if (sterner == SESSION_ABORTED)
				world_expect(&world, &in_flight, QUEUE_ABORTED);
			world_expect_none(&world);
			world_done(&world, &in_flight);
			if (sterner == SESSION_DRAINING) {
				world_expect(&world, &waiting, QUEUE_GO);
				world_done(&world, &waiting);
			}
			count(&world, &counts);
			assert_int_equal(counts.sessions, 0);
			assert_int_equal(counts.closed, 1);
			assert_int_equal(counts.rolled, 0);
			assert_int_equal(world_enter(&world, &late), QUEUE_GO); /* a new one */
			world_done(&world, &late);
			world_close(&world);
		}
	}
}

/* The idle time is over in the same moment in which a request comes, or one that is drained
 * completes: whichever is first, no work is lost and the session does not stay. */
static void a_roll_and_a_request_meet(void **state)
{
	struct world world;
	struct job a, b;
	struct queue_counts counts;

	(void)state;
	for (unsigned first = 0; first < 2; first++) {
		world_open(&world, QUEUE_STRICT);
		world.policy.session_idle_ms = 1000;
		job_init(&a, 1, 0, 'w');
		job_init(&b, 1, 1, 'w');
		world_enter(&world, &a);
		world_done(&world, &a);
		world.now_ns = world.timer_ns;
		if (first == 0)
			queue_expire(world.queue, world.now_ns);
		assert_int_equal(world_enter(&world, &b), QUEUE_GO);
		if (first == 1)
			queue_expire(world.queue, world.now_ns);
		count(&world, &counts);
		assert_int_equal(counts.sessions, 1);
		assert_int_equal(counts.rolled, first == 0 ? 1 : 0);
		assert_int_equal(counts.opened, first == 0 ? 2 : 1);
		/* with it in flight the time does not run, whatever the clock says */
		queue_expire(world.queue, world.now_ns + 3600 * SEC);
		count(&world, &counts);
		assert_int_equal(counts.sessions, 1);
		queue_close_session(world.queue, key_of(1), SESSION_DRAINING, world.now_ns);
		queue_expire(world.queue, world.now_ns + 3600 * SEC);
		world_done(&world, &b);
		count(&world, &counts);
		assert_int_equal(counts.sessions, 0);
		assert_int_equal(counts.closed, 1);
		assert_int_equal(queue_expire(world.queue, world.now_ns + 7200 * SEC), QUEUE_NEVER);
		world_close(&world);
	}
}

static void closing_an_idle_session_rolls_it(void **state)
{
	struct world world;
	struct job job;
	struct queue_counts counts;
	int pin;

	(void)state;
	world_open(&world, QUEUE_STRICT);
	job_init(&job, 1, 0, 'w');
	world_enter(&world, &job);
	assert_true(queue_pin(world.queue, &job.ticket, &pin));
	world_done(&world, &job);
	assert_int_equal(queue_close_all(world.queue, SESSION_DRAINING, world.now_ns), 1);
	count(&world, &counts);
	assert_int_equal(counts.sessions, 0);
	assert_int_equal(counts.closed, 1);
	assert_int_equal(world.unpins, 1);
	world_close(&world);
}

/* ---- pins ----------------------------------------------------------------------------------- */

static void pins_live_as_long_as_their_session(void **state)
{
	struct world world;
	struct job job;
	struct queue_counts counts;
	int one, two;

	(void)state;
	world_open(&world, QUEUE_STRICT);
	job_init(&job, 1, 0, 'w');
	world_enter(&world, &job);
	assert_null(queue_take_pin(world.queue, &job.ticket));
	assert_true(queue_pin(world.queue, &job.ticket, &one));
	assert_false(queue_pin(world.queue, &job.ticket, &two)); /* it has one */
	count(&world, &counts);
	assert_int_equal(counts.pinned, 1);
	world_done(&world, &job);
	assert_false(queue_pin(world.queue, &job.ticket, &two)); /* out */

	/* the next of the session takes it, and while it has it the session has none */
	world_enter(&world, &job);
	assert_ptr_equal(queue_take_pin(world.queue, &job.ticket), &one);
	assert_null(queue_take_pin(world.queue, &job.ticket));
	assert_true(queue_pin(world.queue, &job.ticket, &two));
	world_done(&world, &job);
	assert_int_equal(world.unpins, 0);
	queue_expire(world.queue, world.timer_ns);
	assert_int_equal(world.unpins, 1);
	assert_ptr_equal(world.unpinned, &two);
	count(&world, &counts);
	assert_int_equal(counts.pinned, 0);
	world_close(&world);
}

static bool is_even(void *ctx, const void *pin)
{
	return ((const int *)pin - (const int *)ctx) % 2 == 0;
}

static void pins_are_swept(void **state)
{
	enum { SESSIONS = 1000 };
	static int pins[SESSIONS];
	struct world world;
	struct job job;
	struct queue_counts counts;

	(void)state;
	world_open(&world, QUEUE_STRICT);
	for (unsigned i = 0; i < SESSIONS; i++) {
		job_init(&job, i, i, 'w');
		world_enter(&world, &job);
		assert_true(queue_pin(world.queue, &job.ticket, &pins[i]));
		world_done(&world, &job);
	}
	queue_sweep_pins(world.queue, is_even, pins);
	assert_int_equal(world.unpins, SESSIONS / 2);
	count(&world, &counts);
	assert_int_equal(counts.pinned, SESSIONS / 2);
	assert_int_equal(counts.sessions, SESSIONS);
	queue_sweep_pins(world.queue, is_even, pins);
	assert_int_equal(world.unpins, SESSIONS / 2);
	queue_close_all(world.queue, SESSION_ABORTED, world.now_ns);
	assert_int_equal(world.unpins, SESSIONS);
	world_close(&world);
}

UNIT_SUITE(test_states)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(draining_finishes_what_it_accepted),
		cmocka_unit_test(closing_refuses_what_is_queued),
		cmocka_unit_test(aborting_cuts_what_is_in_flight),
		cmocka_unit_test(tunnels_hear_that_their_session_ends),
		cmocka_unit_test(tunnels_hear_it_before_what_they_queue_is_refused),
		cmocka_unit_test(a_tunnel_goes_on_in_other_memory),
		cmocka_unit_test(a_tunnel_goes_on_while_its_session_is_aborted),
		cmocka_unit_test(aborting_overtakes_a_dispatch),
		cmocka_unit_test(every_transition),
		cmocka_unit_test(a_roll_and_a_request_meet),
		cmocka_unit_test(closing_an_idle_session_rolls_it),
		cmocka_unit_test(pins_live_as_long_as_their_session),
		cmocka_unit_test(pins_are_swept),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
