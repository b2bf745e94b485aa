/* Exchanges whose limits are judged elsewhere, by an authority that answers at once, late, in any
 * order, twice, or never. */
#include "../net/memory_stream.h"
#include "asking_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <unistd.h>

static struct world world;

static enum fake_word plan_pending(void *ctx, const struct authority_question *question)
{
	(void)ctx;
	job_asked(question);
	return FAKE_PENDING;
}

static enum fake_word unavailable(void *ctx, const struct authority_question *question)
{
	(void)ctx;
	job_of_question(question)->said = FAKE_UNAVAILABLE;
	return FAKE_UNAVAILABLE;
}

static struct host *begin(void)
{
	world_open(&world, 1, 0, true);
	for (int i = 0; i < 2; i++) {
		world.fakes[i].plan = plan_pending;
		world.fakes[i].at_expiry = unavailable;
		world.fakes[i].delay_ns = 50 * CLOCK_NS_PER_MS;
	}
	loop_enter(&world.hosts[0].worker->loop);
	return &world.hosts[0];
}

static void end(void)
{
	for (unsigned i = 0; i < world.hosts[0].peer_count; i++)
		peer_leave(&world.hosts[0].peers[i]);
	world_close(&world);
}

static struct fake_question *question_of(const struct job *job)
{
	const struct exchange *x = job->exchange;
	struct fake_authority *fake =
		(struct fake_authority *)(void *)x->gate.identity.authority; /* its first */

	return fake_find(fake, &x->worker->questions, x->turn.question);
}

static void reply(struct job *job, enum fake_word word)
{
	struct fake_question *question = question_of(job);
	struct fake_authority *fake =
		(struct fake_authority *)(void *)job->exchange->gate.identity.authority;

	assert_non_null(question);
	job->said = word;
	fake_reply(fake, question, word);
	world_turn(&world);
	world_check_waits(&world);
}

static enum exchange_state state_of(const struct job *job)
{
	return job->exchange ? job->exchange->state : EXCHANGE_ENDED;
}

/* Two of one session, each by a client of its own; both verdicts are pending. */
static struct host *begin_two(struct job **first, struct job **second, bool is_write)
{
	struct host *host = begin();

	*first = peer_request(peer_new(host), ROUTE_STRICT, 0, is_write);
	*second = peer_request(peer_new(host), ROUTE_STRICT, 0, is_write);
	assert_int_equal(state_of(*first), EXCHANGE_ASKING);
	assert_int_equal(state_of(*second), EXCHANGE_ASKING);
	return host;
}

/* The one that came first goes first, though its verdict comes last. */
static void order_is_that_of_places(void **state)
{
	struct job *first, *second;
	struct host *host = begin_two(&first, &second, false);
	struct job *other = peer_request(peer_new(host), ROUTE_STRICT, 1, false);

	(void)state;
	assert_int_equal(state_of(first), EXCHANGE_ASKING);
	assert_int_equal(state_of(second), EXCHANGE_ASKING);
	world_check_waits(&world);
	reply(second, FAKE_ADMIT);
	assert_false(second->in_service);
	reply(other, FAKE_ADMIT);
	assert_true(other->in_service); /* another session waits for neither */
	reply(first, FAKE_ADMIT);
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
	end();
}

/* A refusal gives the place up. */
static void a_refused_one_lets_the_next_go(void **state)
{
	struct job *first, *second;

	(void)state;
	begin_two(&first, &second, true);
	reply(second, FAKE_ADMIT);
	assert_false(second->in_service);
	reply(first, FAKE_REFUSE);
	assert_int_equal(first->status, 429);
	assert_string_equal(first->outcome, "limit");
	world_turn(&world);
	assert_true(second->in_service);
	job_end(second);
	end();
}

/* Of one session without order all are asked for at once: those that then wait for the upstream,
 * which has 3 places, are as many as queue_depth lets. */
static void those_that_wait_are_bounded(void **state)
{
	struct host *host = begin();
	struct job *jobs[8];
	unsigned served = 0, queued = 0;

	(void)state;
	for (unsigned i = 0; i < 8; i++)
		jobs[i] = peer_request(peer_new(host), ROUTE_SHALLOW, 0, false);
	for (unsigned i = 0; i < 8; i++) {
		assert_int_equal(state_of(jobs[i]), EXCHANGE_ASKING); /* nobody is refused yet */
		reply(jobs[i], FAKE_ADMIT);
		served += jobs[i]->in_service;
		queued += !jobs[i]->in_service && state_of(jobs[i]) == EXCHANGE_QUEUED;
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
	reply(late, FAKE_ADMIT);
	assert_int_equal(state_of(late), EXCHANGE_QUEUED);
	for (unsigned i = 1; i < 5; i++) {
		job_end(jobs[i]);
		world_turn(&world);
	}
	assert_true(late->in_service);
	job_end(late);
	end();
}

/* Those behind it in its session's lane take no room from the one at its head. */
static void the_first_is_not_refused_for_those_behind_it(void **state)
{
	struct host *host = begin();
	struct job *busy[3], *first, *write;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		busy[i] = peer_request(peer_new(host), ROUTE_FREE, 1 + i, false);
		reply(busy[i], FAKE_ADMIT);
		assert_true(busy[i]->in_service);
	}
	first = peer_request(peer_new(host), ROUTE_NARROW, 0, false);
	write = peer_request(peer_new(host), ROUTE_NARROW, 0, true);
	reply(write, FAKE_ADMIT);
	reply(first, FAKE_ADMIT);
	assert_int_equal(state_of(first), EXCHANGE_QUEUED);
	assert_int_equal(state_of(write), EXCHANGE_QUEUED);
	for (unsigned i = 0; i < 3; i++)
		job_end(busy[i]);
	world_turn(&world);
	assert_true(first->in_service);
	job_end(first);
	world_turn(&world);
	assert_true(write->in_service);
	job_end(write);
	end();
}

static void no_answer_in_time_is_503(void **state)
{
	struct job *first, *second;

	(void)state;
	begin_two(&first, &second, false);
	struct fake_question *question = question_of(first);
	world_pass(&world, AUTHORITY_TIMEOUT_MS - 1);
	assert_int_equal(state_of(first), EXCHANGE_ASKING);
	reply(second, FAKE_ADMIT);
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
	end();
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
	struct host *host = begin();

	(void)state;
	world.fakes[0].at_expiry = admit;
	struct job *job = peer_request(peer_new(host), ROUTE_WRITES, 0, false);
	world_pass(&world, AUTHORITY_TIMEOUT_MS);
	assert_true(job->in_service);
	job_end(job);
	assert_int_equal(world.fakes[0].accounts[0].state, FAKE_SETTLED);
	end();
}

static void a_client_that_leaves_is_not_waited_for(void **state)
{
	struct host *host = begin();
	struct peer *peer = peer_new(host);
	struct job *job = peer_request(peer, ROUTE_STRICT, 0, false);
	struct fake_question *question = question_of(job);

	(void)state;
	peer_leave(peer);
	assert_int_equal(state_of(job), EXCHANGE_ENDED);
	assert_int_equal(question->fate, FAKE_CANCELLED);
	assert_int_equal(host->worker->exchange_count, 0);
	assert_int_equal(host->worker->questions.open, 0);
	fake_reply(&world.fakes[0], question, FAKE_ADMIT);
	world_turn(&world);
	assert_int_equal(fake_held(&world.fakes[0]), 0);
	end();
}

static void a_second_answer_is_ignored(void **state)
{
	struct host *host = begin();
	struct job *job = peer_request(peer_new(host), ROUTE_STRICT, 0, false);
	struct fake_question *question = question_of(job);

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
	end();
}

/* A delay: waits at the head of its session, asks again, and may be delayed once more. */
static void a_delayed_one_asks_again(void **state)
{
	struct job *first, *second;
	struct host *host = begin_two(&first, &second, false);

	(void)state;
	reply(second, FAKE_ADMIT);
	reply(first, FAKE_DELAY);
	assert_int_equal(state_of(first), EXCHANGE_DELAYED);
	world_pass(&world, 49);
	assert_int_equal(state_of(first), EXCHANGE_DELAYED);
	world_pass(&world, 3);
	assert_int_equal(state_of(first), EXCHANGE_ASKING);
	world_check_waits(&world);
	reply(first, FAKE_DELAY);
	assert_int_equal(state_of(first), EXCHANGE_DELAYED);
	world_pass(&world, 52);
	reply(first, FAKE_ADMIT);
	assert_true(first->in_service);
	assert_false(second->in_service);
	job_end(first);
	world_turn(&world);
	assert_true(second->in_service);
	job_end(second);
	assert_int_equal(world.fakes[0].asked, 4);
	/* Asked again, it may be refused, or get no answer. */
	struct job *refused = peer_request(peer_new(host), ROUTE_WRITES, 0, true);
	struct job *silent = peer_request(peer_new(host), ROUTE_WRITES, 1, true);
	reply(refused, FAKE_DELAY);
	reply(silent, FAKE_DELAY);
	world_pass(&world, 52);
	reply(refused, FAKE_REFUSE);
	assert_int_equal(refused->status, 429);
	world_pass(&world, AUTHORITY_TIMEOUT_MS);
	assert_int_equal(silent->status, 503);
	end();
}

/* Delayed once more, it waits for its limit and for no place, though the upstream has none. */
static void a_delayed_one_wants_no_place(void **state)
{
	struct host *host = begin();
	struct job *delayed = peer_request(peer_new(host), ROUTE_FREE, 0, false), *others[3];

	(void)state;
	reply(delayed, FAKE_DELAY);
	for (unsigned i = 0; i < 3; i++) {
		others[i] = peer_request(peer_new(host), ROUTE_FREE, 1 + i, false);
		reply(others[i], FAKE_ADMIT);
		assert_true(others[i]->in_service);
	}
	world_pass(&world, 52);
	reply(delayed, FAKE_DELAY);
	assert_int_equal(state_of(delayed), EXCHANGE_DELAYED);
	world_pass(&world, 52);
	reply(delayed, FAKE_ADMIT);
	assert_int_equal(state_of(delayed), EXCHANGE_QUEUED);
	world_check_waits(&world);
	job_end(others[0]);
	world_turn(&world);
	assert_true(delayed->in_service);
	job_end(delayed);
	job_end(others[1]);
	job_end(others[2]);
	end();
}

/* Sessions that are aborted, closed and drained under a pending question. */
static void sessions_end_under_a_question(void **state)
{
	struct host *host = begin();
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
	/* Drained: what is there goes on. Closed: what has had its turn goes on. */
	assert_int_equal(state_of(asks[0]), EXCHANGE_ASKING);
	assert_int_equal(state_of(waits[0]), EXCHANGE_ASKING);
	assert_int_equal(state_of(asks[1]), EXCHANGE_ASKING);
	assert_int_equal(waits[1]->status, 503);
	assert_string_equal(waits[1]->outcome, "session closed");
	/* Aborted: both are cut. */
	assert_string_equal(asks[2]->outcome, "session aborted");
	assert_string_equal(waits[2]->outcome, "session aborted");
	assert_int_equal(world.fakes[0].cancelled, 3);
	reply(asks[0], FAKE_ADMIT);
	reply(asks[1], FAKE_ADMIT);
	assert_true(asks[0]->in_service && asks[1]->in_service);
	job_end(asks[0]);
	job_end(asks[1]);
	reply(waits[0], FAKE_ADMIT);
	job_end(waits[0]);
	end();
}

/* Behind others on its connection its answer waits; its question does not. */
static void a_refusal_that_waits_asks_no_more(void **state)
{
	struct host *host = begin();
	struct peer *peer = peer_new(host);
	struct job *first = peer_request(peer, ROUTE_STRICT, 0, false);
	struct job *second = peer_request(peer, ROUTE_STRICT, 0, false);
	struct fake_question *question = question_of(second);

	(void)state;
	reply(first, FAKE_ADMIT);
	queue_close_session(world.node.queue, job_session(first), SESSION_CLOSING, world.now_ns);
	world_turn(&world);
	assert_int_equal(state_of(second), EXCHANGE_REPLYING);
	assert_int_equal(question->fate, FAKE_CANCELLED);
	fake_reply(&world.fakes[0], question, FAKE_ADMIT);
	world_turn(&world);
	assert_int_equal(fake_held(&world.fakes[0]), 1);
	world_pass(&world, AUTHORITY_TIMEOUT_MS);
	assert_int_equal(world.fakes[0].expired, 0);
	job_end(first);
	assert_int_equal(second->status, 503);
	assert_string_equal(second->outcome, "session closed");
	end();
}

/* A question belongs to the site that its exchange began under, as its account does. */
static void a_reload_changes_no_question(void **state)
{
	struct host *host = begin();
	struct job *old = peer_request(peer_new(host), ROUTE_STRICT, 0, false);
	struct job *served = peer_request(peer_new(host), ROUTE_FREE, 0, false);
	struct job *late = peer_request(peer_new(host), ROUTE_FREE, 1, false);

	(void)state;
	reply(served, FAKE_ADMIT);
	assert_true(served->in_service);
	world_reload(&world, 1);
	struct job *new = peer_request(peer_new(host), ROUTE_STRICT, 1, false);
	world_reload(&world, -1);
	struct job *plain = peer_request(peer_new(host), ROUTE_STRICT, 2, false);
	assert_true(plain->in_service);
	assert_false(plain->asked);
	assert_int_equal(world.fakes[0].asked, 3);
	assert_int_equal(world.fakes[1].asked, 1);
	reply(old, FAKE_ADMIT);
	reply(new, FAKE_ADMIT);
	job_end(served);
	world_turn(&world);
	job_end(old);
	job_end(new);
	job_end(plain);
	assert_int_equal(world.fakes[0].accounts[0].state, FAKE_SETTLED);
	assert_int_equal(world.fakes[0].accounts[1].state, FAKE_SETTLED);
	assert_int_equal(world.fakes[1].accounts[0].state, FAKE_SETTLED);
	world_pass(&world, AUTHORITY_TIMEOUT_MS);
	assert_int_equal(late->status, 503);
	end();
}

/* In a pipeline, answers leave in the order of the requests, whichever verdict is there first; one
 * of another session takes its place, and asks, when those before it are answered. */
static void a_pipeline_stays_in_order(void **state)
{
	struct host *host = begin();
	struct peer *peer = peer_new(host);
	struct job *first = peer_request(peer, ROUTE_FREE, 0, false);
	struct job *second = peer_request(peer, ROUTE_FREE, 0, false);
	struct job *other = peer_request(peer, ROUTE_FREE, 1, false);
	struct job *near = peer_request(peer, ROUTE_TABLE, 1, false);

	(void)state;
	assert_int_equal(state_of(other), EXCHANGE_HELD);
	assert_int_equal(state_of(near), EXCHANGE_HELD);
	assert_false(other->asked);
	reply(second, FAKE_REFUSE);
	assert_int_equal(state_of(second), EXCHANGE_REPLYING);
	reply(first, FAKE_ADMIT);
	assert_true(first->in_service);
	job_end(first);
	world_turn(&world);
	assert_int_equal(first->status, 200);
	assert_int_equal(second->status, 429);
	assert_int_equal(state_of(other), EXCHANGE_ASKING);
	assert_int_equal(state_of(near), EXCHANGE_HELD);
	reply(other, FAKE_ADMIT);
	job_end(other);
	world_turn(&world);
	assert_true(near->in_service);
	job_end(near);
	end();
}

/* What is answered here passes its limits first, and gives back what it took. */
static void options_end_here_when_admitted(void **state)
{
	struct host *host = begin();
	struct job *admitted = peer_request_options(peer_new(host), ROUTE_STRICT, 0);
	struct job *refused = peer_request_options(peer_new(host), ROUTE_STRICT, 1);

	(void)state;
	reply(admitted, FAKE_ADMIT);
	assert_int_equal(admitted->status, 200);
	assert_int_equal(world.fakes[0].accounts[0].state, FAKE_REFUNDED);
	reply(refused, FAKE_REFUSE);
	assert_int_equal(refused->status, 429);
	end();
}

/* A response that its client does not take: what is behind it takes no place at the server. */
static void behind_a_slow_client(void **state)
{
	struct host *host = begin();
	struct peer *peer = peer_new(host);
	struct job *first = peer_request(peer, ROUTE_FREE, 0, false);
	struct job *second = peer_request(peer, ROUTE_FREE, 0, false);

	(void)state;
	reply(first, FAKE_ADMIT);
	peer->behind = true;
	job_end(first);
	assert_int_equal(state_of(second), EXCHANGE_ASKING);
	reply(second, FAKE_ADMIT);
	assert_int_equal(state_of(second), EXCHANGE_HELD);
	world_check_waits(&world);
	peer->behind = false;
	client_advance(&peer->d.client);
	assert_int_equal(first->status, 200);
	assert_true(second->in_service);
	job_end(second);
	end();
}

/* A refusal that waits behind a response keeps nobody of its session from the server. */
static void a_refusal_that_waits_has_no_place(void **state)
{
	struct host *host = begin();
	struct peer *peer = peer_new(host);
	struct job *first = peer_request(peer, ROUTE_STRICT, 0, false);
	struct job *refused = peer_request(peer, ROUTE_STRICT, 0, false);
	struct job *next = peer_request(peer_new(host), ROUTE_STRICT, 0, false);

	(void)state;
	reply(first, FAKE_ADMIT);
	peer->behind = true;
	job_end(first);
	world_turn(&world);
	reply(next, FAKE_ADMIT);
	assert_false(next->in_service);
	reply(refused, FAKE_REFUSE);
	assert_int_equal(state_of(refused), EXCHANGE_REPLYING);
	assert_true(next->in_service);
	job_end(next);
	peer->behind = false;
	client_advance(&peer->d.client);
	assert_int_equal(refused->status, 429);
	end();
}

static void a_refusal_lets_its_connection_go_on(void **state)
{
	struct host *host = begin();
	struct peer *peer = peer_new(host);
	struct job *first = peer_request(peer, ROUTE_FREE, 0, false);
	struct job *other = peer_request(peer, ROUTE_WRITES, 1, false);

	(void)state;
	assert_int_equal(state_of(other), EXCHANGE_HELD);
	reply(first, FAKE_REFUSE);
	assert_int_equal(state_of(other), EXCHANGE_ASKING);
	end();
}

static void ignore(struct stream *stream)
{
	(void)stream;
}

/* Nothing of a body is read before its verdict. */
static void a_body_waits_for_the_verdict(void **state)
{
	static const struct stream_calls calls = {ignore, ignore};
	struct host *host = begin();
	struct peer *peer = peer_new(host), *other = peer_new(host);
	struct memory_peer *far =
		memory_stream_open(&peer->d.stream, &host->worker->streams, 100, &calls);

	(void)state;
	struct job *job = peer_request_body(peer, ROUTE_STRICT, 8);
	struct job *refused = peer_request_body(other, ROUTE_WRITES, 100000);
	assert_int_equal(memory_peer_send(far, "body", 4), 4);
	client_advance(&peer->d.client);
	assert_int_equal(state_of(job), EXCHANGE_ASKING);
	assert_null(job->exchange->up.in);
	fake_reply(&world.fakes[0], question_of(refused), FAKE_REFUSE);
	refused->said = FAKE_REFUSE;
	fake_reply(&world.fakes[0], question_of(job), FAKE_ADMIT);
	job->said = FAKE_ADMIT;
	world_turn(&world);
	assert_int_equal(refused->status, 429);
	assert_int_equal(state_of(job), EXCHANGE_HELD);
	assert_int_equal(job->exchange->up.content_bytes, 4);
	assert_false(job->in_service);
	assert_int_equal(memory_peer_send(far, "more", 4), 4);
	world_turn(&world);
	client_advance(&peer->d.client);
	assert_true(job->in_service);
	job_end(job);
	stream_close(&peer->d.stream);
	memory_peer_close(far);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(order_is_that_of_places),
		cmocka_unit_test(a_refused_one_lets_the_next_go),
		cmocka_unit_test(those_that_wait_are_bounded),
		cmocka_unit_test(the_first_is_not_refused_for_those_behind_it),
		cmocka_unit_test(no_answer_in_time_is_503),
		cmocka_unit_test(an_authority_may_admit_at_the_end_of_time),
		cmocka_unit_test(a_client_that_leaves_is_not_waited_for),
		cmocka_unit_test(a_second_answer_is_ignored),
		cmocka_unit_test(a_delayed_one_asks_again),
		cmocka_unit_test(a_delayed_one_wants_no_place),
		cmocka_unit_test(sessions_end_under_a_question),
		cmocka_unit_test(a_refusal_that_waits_asks_no_more),
		cmocka_unit_test(a_reload_changes_no_question),
		cmocka_unit_test(a_pipeline_stays_in_order),
		cmocka_unit_test(behind_a_slow_client),
		cmocka_unit_test(a_refusal_that_waits_has_no_place),
		cmocka_unit_test(a_refusal_lets_its_connection_go_on),
		cmocka_unit_test(a_body_waits_for_the_verdict),
		cmocka_unit_test(options_end_here_when_admitted),
	};
	alarm(60);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
