/* Order within a session: strict, writes, none; lanes and their bound; leaving in each state. */
#include "tests/unit/queue/harness.h"
#include "tests/unit/suite.h"

#define JOBS 32

struct fixture {
	struct world world;
	struct job job[JOBS];
	unsigned jobs;
};

static struct fixture *open_fixture(enum queue_ordering ordering)
{
	struct fixture *fixture = test_calloc(1, sizeof(*fixture));

	world_open(&fixture->world, ordering);
	return fixture;
}

static void close_fixture(struct fixture *fixture)
{
	world_close(&fixture->world);
	test_free(fixture);
}

/* Enters a client's exchanges, one letter each, of which `p` and `q` read paths of that name, and
 * checks which go at once. */
static void enter(struct fixture *fixture, const char *kinds, const char *verdicts)
{
	for (unsigned i = 0; kinds[i] != '\0'; i++) {
		unsigned n = fixture->jobs++;
		enum queue_verdict expected = verdicts[i] == 'g' ? QUEUE_GO : QUEUE_WAIT;
		bool polls = kinds[i] == 'p' || kinds[i] == 'q';
		job_init(&fixture->job[n], 1, n, polls ? 'r' : kinds[i]);
		fixture->job[n].ticket.path = polls ? (uint32_t)kinds[i] : 0;
		assert_int_equal(world_enter(&fixture->world, &fixture->job[n]), expected);
	}
}

static void done(struct fixture *fixture, unsigned n)
{
	world_done(&fixture->world, &fixture->job[n]);
}

/* The next messages are GO for these jobs, in this order, and nothing else. */
static void expect(struct fixture *fixture, const char *ids)
{
	for (; *ids != '\0'; ids++) {
		unsigned n = (unsigned)(*ids >= 'a' ? *ids - 'a' + 10 : *ids - '0');
		world_expect(&fixture->world, &fixture->job[n], QUEUE_GO);
	}
	world_expect_none(&fixture->world);
}

static void strict_is_one_at_a_time(void **state)
{
	struct fixture *fixture = open_fixture(QUEUE_STRICT);

	(void)state;
	enter(fixture, "rrwr", "gwww");
	for (unsigned n = 0; n < 4; n++) {
		char next[2] = {(char)('1' + n), '\0'};
		done(fixture, n);
		expect(fixture, n < 3 ? next : "");
	}
	close_fixture(fixture);
}

static void writes_are_barriers_both_ways(void **state)
{
	struct fixture *fixture = open_fixture(QUEUE_WRITES);

	(void)state;
	/*             0123456789 */
	enter(fixture, "rrwrrwwr", "ggwwwwww");
	done(fixture, 1);
	expect(fixture, ""); /* the write waits for every read before it */
	done(fixture, 0);
	expect(fixture, "2"); /* alone */
	done(fixture, 2);
	expect(fixture, "34"); /* the reads behind it together */
	done(fixture, 4);
	expect(fixture, "");
	done(fixture, 3);
	expect(fixture, "5");
	done(fixture, 5);
	expect(fixture, "6");
	done(fixture, 6);
	expect(fixture, "7");
	done(fixture, 7);
	close_fixture(fixture);
}

/* The head of a read's response is enough for the write behind it; what is behind the write waits
 * for all of its response. */
static void a_write_waits_for_the_heads_of_reads(void **state)
{
	struct fixture *fixture = open_fixture(QUEUE_WRITES);
	struct world *world = &fixture->world;

	(void)state;
	enter(fixture, "rr", "gg");
	queue_answered(world->queue, &fixture->job[0].ticket, world->now_ns);
	enter(fixture, "wr", "ww");
	expect(fixture, "");
	queue_answered(world->queue, &fixture->job[1].ticket, world->now_ns);
	expect(fixture, "2");
	queue_answered(world->queue, &fixture->job[2].ticket, world->now_ns);
	expect(fixture, "");
	done(fixture, 2);
	expect(fixture, "3");
	/* all reads have their heads before the write comes: nothing to wait for */
	queue_answered(world->queue, &fixture->job[3].ticket, world->now_ns);
	enter(fixture, "w", "w");
	expect(fixture, "4");
	for (unsigned n = 0; n < 5; n++) {
		if (n != 2)
			done(fixture, n);
	}
	close_fixture(fixture);
}

/* A read that says nothing holds a write back for read_hold from its own turn, and then no more. */
static void a_write_waits_for_read_hold_at_most(void **state)
{
	struct fixture *fixture = open_fixture(QUEUE_WRITES);
	struct world *world = &fixture->world;

	(void)state;
	world->policy.read_hold_ms = 1000;
	enter(fixture, "r", "g");
	world->now_ns += 300 * MS;
	enter(fixture, "rw", "gw");
	assert_int_equal(world->timer_ns, world->now_ns + 700 * MS);
	world->now_ns += 700 * MS;
	assert_int_equal(queue_expire(world->queue, world->now_ns), world->now_ns + 300 * MS);
	expect(fixture, ""); /* the second has 300 ms left */
	world->now_ns += 300 * MS - 1;
	queue_expire(world->queue, world->now_ns);
	expect(fixture, "");
	world->now_ns += 1;
	assert_int_equal(queue_expire(world->queue, world->now_ns), QUEUE_NEVER);
	expect(fixture, "2");
	enter(fixture, "wr", "ww");
	done(fixture, 2);
	expect(fixture, "3"); /* the earlier reads hold nothing any more */
	done(fixture, 3);
	expect(fixture, "4");
	for (unsigned n = 0; n < 5; n += n == 1 ? 3 : 1)
		done(fixture, n);
	close_fixture(fixture);
}

/* A read that was silent for all of read_hold is taken for a long poll: for the session's idle time
 * reads of its path hold no write back. Those of another path do, and all wait for a write. */
static void a_long_poll_holds_one_write_back(void **state)
{
	struct fixture *fixture = open_fixture(QUEUE_WRITES);
	struct world *world = &fixture->world;

	(void)state;
	world->policy.read_hold_ms = 1000;
	enter(fixture, "pw", "gw");
	world->now_ns += SEC;
	queue_expire(world->queue, world->now_ns);
	expect(fixture, "1");
	done(fixture, 0);
	done(fixture, 1);
	for (unsigned n = 2; n < 8; n += 3) { /* however often, and with nothing between them */
		enter(fixture, "pwp", "gww");
		expect(fixture, n == 2 ? "3" : "6");
		done(fixture, n);
		done(fixture, n + 1);
		expect(fixture, n == 2 ? "4" : "7"); /* it sees the write */
		done(fixture, n + 2);
	}
	enter(fixture, "qw", "gw");
	expect(fixture, "");
	done(fixture, 8);
	expect(fixture, "9");
	done(fixture, 9);
	for (unsigned n = 10; n < 12; n++) { /* the session goes on, its poll is forgotten */
		world->now_ns += 31 * SEC;
		queue_expire(world->queue, world->now_ns);
		enter(fixture, "q", "g");
		done(fixture, n);
	}
	enter(fixture, "pw", "gw");
	expect(fixture, "");
	done(fixture, 12);
	expect(fixture, "d");
	done(fixture, 13);
	close_fixture(fixture);
}

/* Neither one that was answered in time, nor any where read_hold is 0, is a long poll. */
static void a_read_that_is_answered_is_no_long_poll(void **state)
{
	struct fixture *fixture = open_fixture(QUEUE_WRITES);
	struct world *world = &fixture->world;

	(void)state;
	world->policy.read_hold_ms = 1000;
	enter(fixture, "p", "g");
	queue_answered(world->queue, &fixture->job[0].ticket, world->now_ns);
	world->now_ns += 2 * SEC;
	enter(fixture, "w", "w");
	expect(fixture, "1");
	done(fixture, 0);
	done(fixture, 1);
	world->policy.read_hold_ms = 0;
	enter(fixture, "pw", "gw");
	expect(fixture, "3");
	done(fixture, 2);
	done(fixture, 3);
	world->policy.read_hold_ms = 1000;
	enter(fixture, "pw", "gw");
	done(fixture, 4);
	expect(fixture, "5");
	done(fixture, 5);
	close_fixture(fixture);
}

/* The one that is held back leaves, or its session is closed: nothing is left of the wait. */
static void a_held_write_leaves(void **state)
{
	struct fixture *fixture = open_fixture(QUEUE_WRITES);
	struct world *world = &fixture->world;

	(void)state;
	world->policy.read_hold_ms = 1000;
	enter(fixture, "rw", "gw");
	assert_int_equal(
		queue_leave(world->queue, &fixture->job[1].ticket, world->now_ns), QUEUE_LEFT);
	done(fixture, 0);
	world->now_ns += 2 * SEC;
	queue_expire(world->queue, world->now_ns);
	enter(fixture, "rw", "gw");
	queue_close_session(world->queue, key_of(1), SESSION_CLOSING, world->now_ns);
	world_expect(world, &fixture->job[3], QUEUE_CLOSED);
	world->now_ns += 2 * SEC;
	queue_expire(world->queue, world->now_ns);
	done(fixture, 2);
	close_fixture(fixture);
}

/* One whose client is not known keeps no order, whatever the policy says. */
static void an_unordered_one_waits_for_nothing(void **state)
{
	struct fixture *fixture = open_fixture(QUEUE_WRITES);
	struct job *job = fixture->job;

	(void)state;
	for (unsigned n = 0; n < 3; n++) {
		job_init(&job[n], 1, n, "wrw"[n]);
		job[n].ticket.unordered = true;
		assert_int_equal(world_enter(&fixture->world, &job[n]), QUEUE_GO);
	}
	for (unsigned n = 0; n < 3; n++)
		done(fixture, n);
	close_fixture(fixture);
}

static bool is_next(struct fixture *fixture, unsigned n)
{
	return queue_is_next(fixture->world.queue, &fixture->job[n].ticket);
}

/* Those that may leave with the one in flight, without passing any other. */
static void the_next_may_go_along(void **state)
{
	struct fixture *fixture = open_fixture(QUEUE_WRITES);
	struct job *job = fixture->job;

	(void)state;
	job_init(&job[4], 1, 4, 'w');
	assert_false(is_next(fixture, 4)); /* it is in no queue */
	enter(fixture, "wwrw", "gwww");
	assert_false(is_next(fixture, 0)); /* it is in flight */
	assert_true(is_next(fixture, 1));
	assert_false(is_next(fixture, 2));
	done(fixture, 1);
	assert_true(is_next(fixture, 2));
	assert_false(is_next(fixture, 3));
	done(fixture, 0);
	assert_false(is_next(fixture, 2)); /* its turn has come */
	expect(fixture, "2");
	assert_true(is_next(fixture, 3));
	done(fixture, 2);
	expect(fixture, "3");
	done(fixture, 3);
	close_fixture(fixture);
}

static void without_order_all_that_are_aside_may(void **state)
{
	struct fixture *fixture = open_fixture(QUEUE_NONE);
	struct job *job = fixture->job;

	(void)state;
	for (unsigned n = 0; n < 3; n++) {
		job_init(&job[n], 1, n, 'w');
		job[n].ticket.unready = n > 0;
		assert_int_equal(
			world_enter(&fixture->world, &job[n]), n > 0 ? QUEUE_WAIT : QUEUE_GO);
		assert_int_equal(is_next(fixture, n), n > 0);
	}
	for (unsigned n = 0; n < 3; n++)
		done(fixture, n);
	close_fixture(fixture);
}

static void none_overlaps_and_is_bounded(void **state)
{
	struct fixture *fixture = open_fixture(QUEUE_NONE);

	(void)state;
	fixture->world.policy.session_in_flight = 3;
	enter(fixture, "wrwwr", "gggww");
	done(fixture, 1);
	expect(fixture, "3");
	done(fixture, 0);
	expect(fixture, "4");
	done(fixture, 2);
	done(fixture, 3);
	done(fixture, 4);
	close_fixture(fixture);
}

static void reads_are_bounded_too(void **state)
{
	struct fixture *fixture = open_fixture(QUEUE_WRITES);

	(void)state;
	fixture->world.policy.session_in_flight = 2;
	enter(fixture, "rrrw", "ggww");
	done(fixture, 0);
	expect(fixture, "2");
	done(fixture, 1);
	expect(fixture, "");
	done(fixture, 2);
	expect(fixture, "3");
	done(fixture, 3);
	close_fixture(fixture);
}

static void high_goes_first_but_not_over_flight(void **state)
{
	struct fixture *fixture = open_fixture(QUEUE_STRICT);

	(void)state;
	enter(fixture, "rrrRR", "gwwww");
	done(fixture, 0);
	expect(fixture, "3");
	done(fixture, 3);
	expect(fixture, "4");
	done(fixture, 4);
	expect(fixture, "1");
	done(fixture, 1);
	expect(fixture, "2");
	done(fixture, 2);
	close_fixture(fixture);
}

static void high_read_passes_a_waiting_write(void **state)
{
	struct fixture *fixture = open_fixture(QUEUE_WRITES);

	(void)state;
	fixture->world.policy.high_burst = 2;
	/* 0 flies, 1 waits for it; 2 and 3 pass, 4 may not: the burst is used up */
	enter(fixture, "rwRRR", "gwggw");
	done(fixture, 0);
	done(fixture, 2);
	expect(fixture, "");
	done(fixture, 3);
	expect(fixture, "1");
	done(fixture, 1);
	expect(fixture, "4");
	done(fixture, 4);
	close_fixture(fixture);
}

/* However many high ones keep coming, one normal goes after every high_burst of them. */
static void high_burst_bounds_starvation(void **state)
{
	struct fixture *fixture = open_fixture(QUEUE_STRICT);
	struct world *world = &fixture->world;
	struct job high[200], normal[20], *current;
	unsigned highs = 0, run = 0, served_normal = 0;

	(void)state;
	world->policy.high_burst = 5;
	job_init(&high[0], 1, 0, 'R');
	assert_int_equal(world_enter(world, &high[highs++]), QUEUE_GO);
	for (unsigned i = 0; i < 20; i++) {
		job_init(&normal[i], 1, i, 'r');
		assert_int_equal(world_enter(world, &normal[i]), QUEUE_WAIT);
	}
	current = &high[0];
	while (served_normal < 20) {
		/* two more high ones for each that goes, as long as there are any */
		for (unsigned i = 0; i < 2 && highs < 200; i++) {
			job_init(&high[highs], 1, highs, 'R');
			world_enter(world, &high[highs++]);
		}
		world_done(world, current);
		current = world_next(world);
		assert_non_null(current);
		if (current->ticket.lane == QUEUE_LANE_HIGH) {
			assert_true(++run <= 5);
		} else {
			assert_int_equal(current->id, served_normal++);
			run = 0;
		}
	}
	while (current != NULL) {
		world_done(world, current);
		current = world_next(world);
	}
	close_fixture(fixture);
}

static void leaving_while_waiting_lets_others_go(void **state)
{
	struct fixture *fixture = open_fixture(QUEUE_WRITES);
	struct queue *queue = fixture->world.queue;
	uint64_t now = fixture->world.now_ns;

	(void)state;
	enter(fixture, "rwrrwr", "gwwwww");
	assert_int_equal(queue_leave(queue, &fixture->job[1].ticket, now), QUEUE_LEFT);
	expect(fixture, "23"); /* nothing stands between them and the read in flight any more */
	assert_int_equal(queue_leave(queue, &fixture->job[1].ticket, now), QUEUE_LEFT);
	assert_int_equal(queue_leave(queue, &fixture->job[5].ticket, now), QUEUE_LEFT);
	assert_int_equal(queue_leave(queue, &fixture->job[0].ticket, now), QUEUE_IN_FLIGHT);
	done(fixture, 0);
	done(fixture, 2);
	done(fixture, 3);
	expect(fixture, "4");
	done(fixture, 4);
	close_fixture(fixture);
}

static void leaving_with_the_dispatch_under_way(void **state)
{
	struct fixture *fixture = open_fixture(QUEUE_STRICT);
	struct world *world = &fixture->world;

	(void)state;
	enter(fixture, "rrr", "gww");
	done(fixture, 0);
	/* 1 was dispatched but its owner has not learned of it: it leaves, and 2 goes at once */
	assert_int_equal(
		queue_leave(world->queue, &fixture->job[1].ticket, world->now_ns), QUEUE_UNDER_WAY);
	world_expect(world, &fixture->job[1], QUEUE_GONE);
	world_expect(world, &fixture->job[2], QUEUE_GO);
	assert_int_equal(
		queue_leave(world->queue, &fixture->job[1].ticket, world->now_ns), QUEUE_LEFT);
	done(fixture, 2);

	/* the same by queue_done, and twice */
	enter(fixture, "rr", "gw");
	done(fixture, 3);
	assert_int_equal(
		queue_done(world->queue, &fixture->job[4].ticket, world->now_ns), QUEUE_UNDER_WAY);
	assert_int_equal(
		queue_done(world->queue, &fixture->job[4].ticket, world->now_ns), QUEUE_UNDER_WAY);
	world_expect(world, &fixture->job[4], QUEUE_GONE);
	close_fixture(fixture);
}

static void a_ticket_that_never_entered_may_leave(void **state)
{
	struct fixture *fixture = open_fixture(QUEUE_STRICT);
	struct job job;

	(void)state;
	job_init(&job, 1, 0, 'r');
	assert_int_equal(queue_leave(fixture->world.queue, &job.ticket, 1), QUEUE_LEFT);
	assert_int_equal(queue_done(fixture->world.queue, &job.ticket, 1), QUEUE_LEFT);
	close_fixture(fixture);
}

static void a_tunnel_orders_nothing(void **state)
{
	struct fixture *fixture = open_fixture(QUEUE_STRICT);
	struct world *world = &fixture->world;
	struct queue_counts counts;

	(void)state;
	enter(fixture, "rr", "gw");
	queue_detach(world->queue, &fixture->job[0].ticket, world->now_ns);
	expect(fixture, "1");
	done(fixture, 1);
	queue_count(world->queue, &counts);
	assert_int_equal(counts.detached, 1);
	assert_int_equal(counts.idle_sessions, 0); /* the tunnel keeps it */
	world->now_ns += 3600 * SEC;
	queue_expire(world->queue, world->now_ns);
	enter(fixture, "r", "g");
	done(fixture, 2);
	done(fixture, 0);
	queue_count(world->queue, &counts);
	assert_int_equal(counts.idle_sessions, 1);
	assert_int_equal(counts.opened, 1);
	close_fixture(fixture);
}

static void waits_are_measured(void **state)
{
	struct fixture *fixture = open_fixture(QUEUE_STRICT);
	struct world *world = &fixture->world;

	(void)state;
	enter(fixture, "rr", "gw");
	world->now_ns += 7 * MS;
	done(fixture, 0);
	expect(fixture, "1");
	assert_int_equal(
		fixture->job[1].ticket.started_ns - fixture->job[1].ticket.entered_ns, 7 * MS);
	assert_int_equal(fixture->job[0].ticket.started_ns - fixture->job[0].ticket.entered_ns, 0);
	done(fixture, 1);
	close_fixture(fixture);
}

/* Behind one in flight it is the first of those that wait, behind one that waits the next; bounds
 * and a drain do not turn it away. */
static void a_place_behind_another(void **state)
{
	struct fixture *fixture = open_fixture(QUEUE_WRITES);
	struct world *world = &fixture->world;

	(void)state;
	enter(fixture, "www", "gww");
	world->policy.depth = 2;
	assert_int_equal(
		queue_close_session(world->queue, key_of(1), SESSION_DRAINING, world->now_ns),
		SESSION_DRAINING);
	for (unsigned n = 3, behind = 0; n < 5; behind = n++) {
		job_init(&fixture->job[n], 1, n, 'w');
		fixture->job[n].ticket.behind = &fixture->job[behind].ticket;
		assert_int_equal(world_enter(world, &fixture->job[n]), QUEUE_WAIT);
	}
	job_init(&fixture->job[5], 1, 5, 'w');
	assert_int_equal(world_enter(world, &fixture->job[5]), QUEUE_CLOSED);
	for (const char *n = "03412"; n[1] != '\0'; n++) {
		char next[2] = {n[1], '\0'};
		done(fixture, (unsigned)(*n - '0'));
		expect(fixture, next);
	}
	done(fixture, 2);
	close_fixture(fixture);
}

/* The turn that another of its session would have had next at a bounded upstream is its own. */
static void a_place_behind_another_without_order(void **state)
{
	struct run_queue_config bounded = {.max_in_flight = 1};
	struct fixture *fixture = test_calloc(1, sizeof(*fixture));
	struct world *world = &fixture->world;

	(void)state;
	world_open_with(world, QUEUE_NONE, NULL, &bounded);
	enter(fixture, "ww", "gw");
	job_init(&fixture->job[2], 1, 2, 'w');
	fixture->job[2].ticket.behind = &fixture->job[0].ticket;
	assert_int_equal(world_enter(world, &fixture->job[2]), QUEUE_WAIT);
	done(fixture, 0);
	expect(fixture, "2");
	done(fixture, 2);
	expect(fixture, "1");
	done(fixture, 1);
	close_fixture(fixture);
}

UNIT_SUITE(test_order)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(strict_is_one_at_a_time),
		cmocka_unit_test(writes_are_barriers_both_ways),
		cmocka_unit_test(a_write_waits_for_the_heads_of_reads),
		cmocka_unit_test(a_write_waits_for_read_hold_at_most),
		cmocka_unit_test(a_long_poll_holds_one_write_back),
		cmocka_unit_test(a_read_that_is_answered_is_no_long_poll),
		cmocka_unit_test(a_held_write_leaves),
		cmocka_unit_test(an_unordered_one_waits_for_nothing),
		cmocka_unit_test(the_next_may_go_along),
		cmocka_unit_test(without_order_all_that_are_aside_may),
		cmocka_unit_test(none_overlaps_and_is_bounded),
		cmocka_unit_test(reads_are_bounded_too),
		cmocka_unit_test(high_goes_first_but_not_over_flight),
		cmocka_unit_test(high_read_passes_a_waiting_write),
		cmocka_unit_test(high_burst_bounds_starvation),
		cmocka_unit_test(leaving_while_waiting_lets_others_go),
		cmocka_unit_test(leaving_with_the_dispatch_under_way),
		cmocka_unit_test(a_ticket_that_never_entered_may_leave),
		cmocka_unit_test(a_tunnel_orders_nothing),
		cmocka_unit_test(waits_are_measured),
		cmocka_unit_test(a_place_behind_another),
		cmocka_unit_test(a_place_behind_another_without_order),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
