/* Exchanges whose limits are judged elsewhere, by an authority that answers at once, late, in any
 * order, twice, or never. */
#include "asking.h"

#include <unistd.h>

#include "exchange/delay_line.h"
#include "tests/unit/suite.h"

/* Two of one session, each by a client of its own; both verdicts are pending. */
static struct host *begin_two(struct job **first, struct job **second, bool is_write)
{
	struct host *host = asking_begin();

	*first = peer_request(peer_new(host), ROUTE_STRICT, 0, is_write);
	*second = peer_request(peer_new(host), ROUTE_STRICT, 0, is_write);
	assert_int_equal(asking_state(*first), EXCHANGE_ASKING);
	assert_int_equal(asking_state(*second), EXCHANGE_ASKING);
	return host;
}

/* The one that came first goes first, though its verdict comes last. */
static void order_is_that_of_places(void **state)
{
	struct job *first, *second;
	struct host *host = begin_two(&first, &second, false);
	struct job *other = peer_request(peer_new(host), ROUTE_STRICT, 1, false);

	(void)state;
	assert_int_equal(asking_state(first), EXCHANGE_ASKING);
	assert_int_equal(asking_state(second), EXCHANGE_ASKING);
	world_check_waits(&world);
	asking_reply(second, FAKE_ADMIT);
	assert_false(second->in_service);
	asking_reply(other, FAKE_ADMIT);
	assert_true(other->in_service); /* another session waits for neither */
	asking_reply(first, FAKE_ADMIT);
	assert_true(first->in_service);
	assert_false(second->in_service);
	job_end(first);
	world_turn(&world);
	assert_true(second->in_service);
	assert_int_equal(first->status, 200);
	job_end(second);
	job_end(other);
	world_turn(&world);
	assert_int_equal(host->served, 3);
	asking_end();
}

/* What waited since its verdict is asked about again when its turn comes, and keeps its place; what
 * the old verdict took goes back. */
static void an_old_verdict_is_renewed(void **state)
{
	struct job *first, *second;
	struct host *host = begin_two(&first, &second, false);

	(void)state;
	asking_reply(first, FAKE_ADMIT);
	asking_reply(second, FAKE_ADMIT);
	assert_true(first->in_service);
	assert_int_equal(fake_held(&world.fakes[0]) + fake_held(&world.fakes[1]), 2);
	world_pass(&world, 101);
	job_end(first);
	world_turn(&world);
	assert_int_equal(asking_state(second), EXCHANGE_ASKING);
	assert_false(second->in_service);
	assert_int_equal(fake_held(&world.fakes[0]) + fake_held(&world.fakes[1]), 0);
	world_check_waits(&world);
	asking_reply(second, FAKE_ADMIT);
	assert_true(second->in_service);
	job_end(second);
	world_turn(&world);
	assert_int_equal(second->status, 200);
	assert_int_equal(host->served, 2);
	asking_end();
}

/* So is one that was old when it was read; what is said when the time is over is of then. */
static void an_answer_may_be_old_already(void **state)
{
	struct job *first, *second;

	(void)state;
	begin_two(&first, &second, false);
	struct fake_question *question = asking_question(first);
	world.now_ns += 150 * CLOCK_NS_PER_MS; /* nothing ran */
	first->peer->host->worker->loop.now_ns = world.now_ns;
	first->said = FAKE_ADMIT;
	fake_reply(&world.fakes[0], question, FAKE_ADMIT);
	world_turn(&world);
	assert_false(first->in_service);
	assert_int_equal(asking_state(first), EXCHANGE_ASKING);
	asking_reply(first, FAKE_ADMIT);
	assert_true(first->in_service);
	job_end(first);
	world_turn(&world);
	asking_reply(second, FAKE_REFUSE);
	asking_end();
}

/* Then it may be refused, and the place is the next one's. */
static void a_renewed_verdict_may_refuse(void **state)
{
	struct job *first, *second, *third;
	struct host *host = begin_two(&first, &second, true);

	(void)state;
	third = peer_request(peer_new(host), ROUTE_STRICT, 0, true);
	asking_reply(third, FAKE_ADMIT);
	asking_reply(second, FAKE_ADMIT);
	asking_reply(first, FAKE_ADMIT);
	world_pass(&world, 101);
	job_end(first);
	world_turn(&world);
	asking_reply(second, FAKE_REFUSE);
	assert_int_equal(second->status, 429);
	world_turn(&world);
	asking_reply(third, FAKE_ADMIT);
	assert_true(third->in_service);
	job_end(third);
	asking_end();
}

/* ---- admitted at once ------------------------------------------------------------------------ */

static bool admits(void *ctx, const struct authority_question *question)
{
	(void)ctx;
	return job_admitted(question);
}

/* It needs no question, and no place to wait for its verdict in. */
static void what_is_there_admits_at_once(void **state)
{
	struct host *host = asking_begin();

	(void)state;
	world.fakes[0].admits = admits;
	struct job *job = peer_request(peer_new(host), ROUTE_STRICT, 0, false);
	assert_true(job->in_service);
	assert_int_equal(world.fakes[0].at_once, 1);
	assert_int_equal(world.fakes[0].asked, 0);
	assert_int_equal(fake_held(&world.fakes[0]), 1);
	job_end(job);
	world_turn(&world);
	assert_int_equal(job->status, 200);
	assert_int_equal(fake_held(&world.fakes[0]), 0);
	asking_end();
}

/* What came before it goes first, though its verdict is still to come; and what it has got is old
 * by then. */
static void it_passes_none_that_is_asked_about(void **state)
{
	struct host *host = asking_begin();
	struct job *first = peer_request(peer_new(host), ROUTE_STRICT, 0, false);

	(void)state;
	world.fakes[0].admits = admits;
	struct job *second = peer_request(peer_new(host), ROUTE_STRICT, 0, false);
	struct job *third = peer_request(peer_new(host), ROUTE_STRICT, 0, false);
	assert_int_equal(asking_state(first), EXCHANGE_ASKING);
	assert_int_equal(asking_state(second), EXCHANGE_QUEUED);
	world_check_waits(&world);
	asking_reply(first, FAKE_ADMIT);
	job_end(first);
	world_turn(&world);
	assert_true(second->in_service); /* by what it has got */
	assert_false(third->in_service);
	world_pass(&world, 101);
	job_end(second);
	world_turn(&world);
	assert_int_equal(asking_state(third), EXCHANGE_ASKING);
	assert_int_equal(fake_held(&world.fakes[0]), 0);
	asking_reply(third, FAKE_ADMIT);
	assert_true(third->in_service);
	job_end(third);
	world_turn(&world);
	assert_int_equal(host->served, 3);
	assert_int_equal(world.fakes[0].at_once, 2);
	asking_end();
}

/* Without room in the queue it is turned away, and what it has got goes back. */
static void without_room_it_gives_back(void **state)
{
	struct host *host = asking_begin();
	struct job *jobs[6];

	(void)state;
	world.fakes[0].admits = admits;
	for (unsigned i = 0; i < 6; i++)
		jobs[i] = peer_request(peer_new(host), ROUTE_SHALLOW, 0, false);
	assert_true(jobs[2]->in_service);
	assert_int_equal(asking_state(jobs[4]), EXCHANGE_QUEUED);
	assert_int_equal(jobs[5]->status, 503);
	assert_string_equal(jobs[5]->outcome, "queue full");
	world_turn(&world);
	assert_int_equal(fake_held(&world.fakes[0]), 5);
	for (unsigned i = 0; i < 5; i++) {
		job_end(jobs[i]);
		world_turn(&world);
	}
	assert_int_equal(host->served, 5);
	asking_end();
}

/* ---- refused --------------------------------------------------------------------------------- */

/* A refusal gives the place up. */
static void a_refused_one_lets_the_next_go(void **state)
{
	struct job *first, *second;

	(void)state;
	begin_two(&first, &second, true);
	asking_reply(second, FAKE_ADMIT);
	assert_false(second->in_service);
	asking_reply(first, FAKE_REFUSE);
	assert_int_equal(first->status, 429);
	assert_string_equal(first->outcome, "limit");
	world_turn(&world);
	assert_true(second->in_service);
	job_end(second);
	asking_end();
}

/* Of one session without order all are asked for at once: those that then wait for the upstream,
 * which has 3 places, are as many as queue_depth lets. */
static void those_that_wait_are_bounded(void **state)
{
	struct host *host = asking_begin();
	struct job *jobs[8];
	unsigned served = 0, queued = 0;

	(void)state;
	for (unsigned i = 0; i < 8; i++)
		jobs[i] = peer_request(peer_new(host), ROUTE_SHALLOW, 0, false);
	for (unsigned i = 0; i < 8; i++) {
		assert_int_equal(
			asking_state(jobs[i]), EXCHANGE_ASKING); /* nobody is refused yet */
		asking_reply(jobs[i], FAKE_ADMIT);
		served += jobs[i]->in_service;
		queued += !jobs[i]->in_service && asking_state(jobs[i]) == EXCHANGE_QUEUED;
		if (i >= 5) {
			assert_int_equal(jobs[i]->status, 503);
			assert_string_equal(jobs[i]->outcome, "queue full");
		}
	}
	assert_int_equal(served, 3);
	assert_int_equal(queued, 2);
	job_end(jobs[0]); /* the next takes its place, and leaves room for another */
	world_turn(&world);
	assert_true(jobs[3]->in_service);
	struct job *late = peer_request(peer_new(host), ROUTE_SHALLOW, 0, false);
	asking_reply(late, FAKE_ADMIT);
	assert_int_equal(asking_state(late), EXCHANGE_QUEUED);
	for (unsigned i = 1; i < 5; i++) {
		job_end(jobs[i]);
		world_turn(&world);
	}
	assert_true(late->in_service);
	job_end(late);
	asking_end();
}

/* Those behind it in its session's lane take no room from the one at its head. */
static void the_first_is_not_refused_for_those_behind_it(void **state)
{
	struct host *host = asking_begin();
	struct job *busy[3], *first, *write;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		busy[i] = peer_request(peer_new(host), ROUTE_FREE, 1 + i, false);
		asking_reply(busy[i], FAKE_ADMIT);
		assert_true(busy[i]->in_service);
	}
	first = peer_request(peer_new(host), ROUTE_NARROW, 0, false);
	write = peer_request(peer_new(host), ROUTE_NARROW, 0, true);
	asking_reply(write, FAKE_ADMIT);
	asking_reply(first, FAKE_ADMIT);
	assert_int_equal(asking_state(first), EXCHANGE_QUEUED);
	assert_int_equal(asking_state(write), EXCHANGE_QUEUED);
	for (unsigned i = 0; i < 3; i++)
		job_end(busy[i]);
	world_turn(&world);
	assert_true(first->in_service);
	job_end(first);
	world_turn(&world);
	assert_true(write->in_service);
	job_end(write);
	asking_end();
}

static void no_answer_in_time_is_503(void **state)
{
	struct job *first, *second;

	(void)state;
	begin_two(&first, &second, false);
	struct fake_question *question = asking_question(first);
	world_pass(&world, AUTHORITY_TIMEOUT_MS - 1);
	assert_int_equal(asking_state(first), EXCHANGE_ASKING);
	asking_reply(second, FAKE_ADMIT);
	assert_false(second->in_service);
	world_pass(&world, 1);
	assert_int_equal(first->status, 503);
	assert_string_equal(first->outcome, "limits unavailable");
	assert_true(second->in_service);
	assert_int_equal(world.fakes[0].expired, 1);
	/* Too late: what it took goes back. */
	fake_reply(&world.fakes[0], question, FAKE_ADMIT);
	world_turn(&world);
	assert_int_equal(fake_held(&world.fakes[0]), 1); /* the second's */
	job_end(second);
	asking_end();
}

static enum fake_word admit(void *ctx, const struct authority_question *question)
{
	(void)ctx;
	job_of_question(question)->said = FAKE_ADMIT;
	return FAKE_ADMIT;
}

/* What happens when time is over is the authority's policy. */
static void an_authority_may_admit_at_the_end_of_time(void **state)
{
	struct host *host = asking_begin();

	(void)state;
	world.fakes[0].at_expiry = admit;
	struct job *job = peer_request(peer_new(host), ROUTE_WRITES, 0, false);
	world_pass(&world, AUTHORITY_TIMEOUT_MS);
	assert_true(job->in_service);
	job_end(job);
	assert_int_equal(world.fakes[0].accounts[0].state, FAKE_SETTLED);
	asking_end();
}

static void a_client_that_leaves_is_not_waited_for(void **state)
{
	struct host *host = asking_begin();
	struct peer *peer = peer_new(host);
	struct job *job = peer_request(peer, ROUTE_STRICT, 0, false);
	struct fake_question *question = asking_question(job);

	(void)state;
	peer_leave(peer);
	assert_int_equal(asking_state(job), EXCHANGE_ENDED);
	assert_int_equal(question->fate, FAKE_CANCELLED);
	assert_int_equal(exchange_part(host->worker)->count, 0);
	assert_int_equal(host->worker->questions.open, 0);
	fake_reply(&world.fakes[0], question, FAKE_ADMIT);
	world_turn(&world);
	assert_int_equal(fake_held(&world.fakes[0]), 0);
	asking_end();
}

static void a_second_answer_is_ignored(void **state)
{
	struct host *host = asking_begin();
	struct job *job = peer_request(peer_new(host), ROUTE_STRICT, 0, false);
	struct fake_question *question = asking_question(job);

	(void)state;
	job->said = FAKE_ADMIT;
	fake_reply(&world.fakes[0], question, FAKE_ADMIT);
	fake_reply(&world.fakes[0], question, FAKE_ADMIT);
	fake_reply(&world.fakes[0], question, FAKE_REFUSE);
	world_turn(&world);
	assert_true(job->in_service);
	assert_int_equal(fake_held(&world.fakes[0]), 1);
	job_end(job);
	fake_reply(&world.fakes[0], question, FAKE_ADMIT);
	world_turn(&world);
	assert_int_equal(job->status, 200);
	asking_end();
}

/* A delay: waits at the head of its session, asks again, and may be delayed once more. */
static void a_delayed_one_asks_again(void **state)
{
	struct job *first, *second;
	struct host *host = begin_two(&first, &second, false);

	(void)state;
	asking_reply(second, FAKE_ADMIT);
	asking_reply(first, FAKE_DELAY);
	assert_int_equal(asking_state(first), EXCHANGE_DELAYED);
	world_pass(&world, 49);
	assert_int_equal(asking_state(first), EXCHANGE_DELAYED);
	world_pass(&world, 3);
	assert_int_equal(asking_state(first), EXCHANGE_ASKING);
	world_check_waits(&world);
	asking_reply(first, FAKE_DELAY);
	assert_int_equal(asking_state(first), EXCHANGE_DELAYED);
	world_pass(&world, 52);
	asking_reply(first, FAKE_ADMIT);
	assert_true(first->in_service);
	assert_false(second->in_service);
	job_end(first);
	world_turn(&world);
	asking_reply(second, FAKE_ADMIT); /* its verdict is 104 ms old */
	assert_true(second->in_service);
	job_end(second);
	assert_int_equal(world.fakes[0].asked, 5);
	/* Asked again, it may be refused, or get no answer. */
	struct job *refused = peer_request(peer_new(host), ROUTE_WRITES, 0, true);
	struct job *silent = peer_request(peer_new(host), ROUTE_WRITES, 1, true);
	asking_reply(refused, FAKE_DELAY);
	asking_reply(silent, FAKE_DELAY);
	world_pass(&world, 52);
	asking_reply(refused, FAKE_REFUSE);
	assert_int_equal(refused->status, 429);
	world_pass(&world, AUTHORITY_TIMEOUT_MS);
	assert_int_equal(silent->status, 503);
	asking_end();
}

/* Delayed once more, it waits for its limit and for no place, though the upstream has none. */
/* What becomes free while its authority is asked may be behind the verdict that comes then. */
static void one_that_is_woken_while_it_asks_asks_again(void **state)
{
	struct host *host = asking_begin();
	struct job *job = peer_request(peer_new(host), ROUTE_FREE, 0, false);

	(void)state;
	asking_reply(job, FAKE_DELAY);
	world_pass(&world, 52);
	assert_int_equal(asking_state(job), EXCHANGE_ASKING);
	delay_freed(node_delays(&world.node), &job->exchange->gate->identity);
	delay_run(host->worker);
	assert_int_equal(asking_state(job), EXCHANGE_ASKING);
	asking_reply(job, FAKE_DELAY);
	assert_int_equal(asking_state(job), EXCHANGE_DELAYED);
	world_pass(&world, 1);
	assert_int_equal(asking_state(job), EXCHANGE_ASKING);
	/* Once. */
	asking_reply(job, FAKE_DELAY);
	world_pass(&world, 1);
	assert_int_equal(asking_state(job), EXCHANGE_DELAYED);
	world_pass(&world, 51);
	asking_reply(job, FAKE_ADMIT);
	assert_true(job->in_service);
	job_end(job);
	asking_end();
}

static void a_delayed_one_wants_no_place(void **state)
{
	struct host *host = asking_begin();
	struct job *delayed = peer_request(peer_new(host), ROUTE_FREE, 0, false), *others[3];

	(void)state;
	asking_reply(delayed, FAKE_DELAY);
	for (unsigned i = 0; i < 3; i++) {
		others[i] = peer_request(peer_new(host), ROUTE_FREE, 1 + i, false);
		asking_reply(others[i], FAKE_ADMIT);
		assert_true(others[i]->in_service);
	}
	world_pass(&world, 52);
	asking_reply(delayed, FAKE_DELAY);
	assert_int_equal(asking_state(delayed), EXCHANGE_DELAYED);
	world_pass(&world, 52);
	asking_reply(delayed, FAKE_ADMIT);
	assert_int_equal(asking_state(delayed), EXCHANGE_QUEUED);
	world_check_waits(&world);
	job_end(others[0]);
	world_turn(&world);
	assert_true(delayed->in_service);
	job_end(delayed);
	job_end(others[1]);
	job_end(others[2]);
	asking_end();
}

/* Sessions that are aborted, closed and drained under a pending question. */
static void sessions_end_under_a_question(void **state)
{
	struct host *host = asking_begin();
	struct job *asks[3], *waits[3];

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		asks[i] = peer_request(peer_new(host), ROUTE_STRICT, i, false);
		waits[i] = peer_request(peer_new(host), ROUTE_STRICT, i, false);
		queue_close_session(world.node.queue, job_session(asks[i]),
			(enum session_state)(SESSION_DRAINING + i), world.now_ns);
	}
	world_turn(&world);
	world_check_waits(&world);
	/* Drained: what is there continues. Closed: what has had its turn continues. */
	assert_int_equal(asking_state(asks[0]), EXCHANGE_ASKING);
	assert_int_equal(asking_state(waits[0]), EXCHANGE_ASKING);
	assert_int_equal(asking_state(asks[1]), EXCHANGE_ASKING);
	assert_int_equal(waits[1]->status, 503);
	assert_string_equal(waits[1]->outcome, "session closed");
	/* Aborted: both are cut. */
	assert_string_equal(asks[2]->outcome, "session aborted");
	assert_string_equal(waits[2]->outcome, "session aborted");
	assert_int_equal(world.fakes[0].cancelled, 3);
	asking_reply(asks[0], FAKE_ADMIT);
	asking_reply(asks[1], FAKE_ADMIT);
	assert_true(asks[0]->in_service && asks[1]->in_service);
	job_end(asks[0]);
	job_end(asks[1]);
	asking_reply(waits[0], FAKE_ADMIT);
	job_end(waits[0]);
	asking_end();
}

UNIT_SUITE(test_asking)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(order_is_that_of_places),
		cmocka_unit_test(an_old_verdict_is_renewed),
		cmocka_unit_test(an_answer_may_be_old_already),
		cmocka_unit_test(a_renewed_verdict_may_refuse),
		cmocka_unit_test(what_is_there_admits_at_once),
		cmocka_unit_test(it_passes_none_that_is_asked_about),
		cmocka_unit_test(without_room_it_gives_back),
		cmocka_unit_test(a_refused_one_lets_the_next_go),
		cmocka_unit_test(those_that_wait_are_bounded),
		cmocka_unit_test(the_first_is_not_refused_for_those_behind_it),
		cmocka_unit_test(no_answer_in_time_is_503),
		cmocka_unit_test(an_authority_may_admit_at_the_end_of_time),
		cmocka_unit_test(a_client_that_leaves_is_not_waited_for),
		cmocka_unit_test(a_second_answer_is_ignored),
		cmocka_unit_test(a_delayed_one_asks_again),
		cmocka_unit_test(one_that_is_woken_while_it_asks_asks_again),
		cmocka_unit_test(a_delayed_one_wants_no_place),
		cmocka_unit_test(sessions_end_under_a_question),
	};

	alarm(60);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
