/* Requests behind others on their connection, and with bodies, while an authority is asked. */
#include "../net/memory_stream.h"
#include "asking.h"

#include <unistd.h>

#include "tests/unit/suite.h"

/* Behind others on its connection its answer waits; its question does not. */
static void a_refusal_that_waits_asks_no_more(void **state)
{
	struct host *host = asking_begin();
	struct peer *peer = peer_new(host);
	struct job *first = peer_request(peer, ROUTE_STRICT, 0, false);
	struct job *second = peer_request(peer, ROUTE_STRICT, 0, false);
	struct fake_question *question = asking_question(second);

	(void)state;
	asking_reply(first, FAKE_ADMIT);
	queue_close_session(world.node.queue, job_session(first), SESSION_CLOSING, world.now_ns);
	world_turn(&world);
	assert_int_equal(asking_state(second), EXCHANGE_REPLYING);
	assert_int_equal(question->fate, FAKE_CANCELLED);
	fake_reply(&world.fakes[0], question, FAKE_ADMIT);
	world_turn(&world);
	assert_int_equal(fake_held(&world.fakes[0]), 1);
	world_pass(&world, AUTHORITY_TIMEOUT_MS);
	assert_int_equal(world.fakes[0].expired, 0);
	job_end(first);
	assert_int_equal(second->status, 503);
	assert_string_equal(second->outcome, "session closed");
	asking_end();
}

/* A question belongs to the site that its exchange began under, as its account does. */
static void a_reload_changes_no_question(void **state)
{
	struct host *host = asking_begin();
	struct job *old = peer_request(peer_new(host), ROUTE_STRICT, 0, false);
	struct job *served = peer_request(peer_new(host), ROUTE_FREE, 0, false);
	struct job *late = peer_request(peer_new(host), ROUTE_FREE, 1, false);

	(void)state;
	asking_reply(served, FAKE_ADMIT);
	assert_true(served->in_service);
	world_reload(&world, 1);
	struct job *new = peer_request(peer_new(host), ROUTE_STRICT, 1, false);
	world_reload(&world, -1);
	struct job *plain = peer_request(peer_new(host), ROUTE_STRICT, 2, false);
	assert_true(plain->in_service);
	assert_false(plain->asked);
	assert_int_equal(world.fakes[0].asked, 3);
	assert_int_equal(world.fakes[1].asked, 1);
	asking_reply(old, FAKE_ADMIT);
	asking_reply(new, FAKE_ADMIT);
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
	asking_end();
}

/* In a pipeline, answers leave in the order of the requests, whichever verdict is there first; one
 * of another session takes its place, and asks, when those before it are answered. */
static void a_pipeline_stays_in_order(void **state)
{
	struct host *host = asking_begin();
	struct peer *peer = peer_new(host);
	struct job *first = peer_request(peer, ROUTE_FREE, 0, false);
	struct job *second = peer_request(peer, ROUTE_FREE, 0, false);
	struct job *other = peer_request(peer, ROUTE_FREE, 1, false);
	struct job *near = peer_request(peer, ROUTE_TABLE, 1, false);

	(void)state;
	assert_int_equal(asking_state(other), EXCHANGE_HELD);
	assert_int_equal(asking_state(near), EXCHANGE_HELD);
	assert_false(other->asked);
	asking_reply(second, FAKE_REFUSE);
	assert_int_equal(asking_state(second), EXCHANGE_REPLYING);
	asking_reply(first, FAKE_ADMIT);
	assert_true(first->in_service);
	job_end(first);
	world_turn(&world);
	assert_int_equal(first->status, 200);
	assert_int_equal(second->status, 429);
	assert_int_equal(asking_state(other), EXCHANGE_ASKING);
	assert_int_equal(asking_state(near), EXCHANGE_HELD);
	asking_reply(other, FAKE_ADMIT);
	job_end(other);
	world_turn(&world);
	assert_true(near->in_service);
	job_end(near);
	asking_end();
}

/* What is answered here passes its limits first, and gives back what it took. */
static void options_end_here_when_admitted(void **state)
{
	struct host *host = asking_begin();
	struct job *admitted = peer_request_options(peer_new(host), ROUTE_STRICT, 0);
	struct job *refused = peer_request_options(peer_new(host), ROUTE_STRICT, 1);

	(void)state;
	asking_reply(admitted, FAKE_ADMIT);
	assert_int_equal(admitted->status, 200);
	assert_int_equal(world.fakes[0].accounts[0].state, FAKE_REFUNDED);
	asking_reply(refused, FAKE_REFUSE);
	assert_int_equal(refused->status, 429);
	asking_end();
}

/* A response that its client does not take: what is behind it takes no place at the server. */
static void behind_a_slow_client(void **state)
{
	struct host *host = asking_begin();
	struct peer *peer = peer_new(host);
	struct job *first = peer_request(peer, ROUTE_FREE, 0, false);
	struct job *second = peer_request(peer, ROUTE_FREE, 0, false);

	(void)state;
	asking_reply(first, FAKE_ADMIT);
	peer->behind = true;
	job_end(first);
	assert_int_equal(asking_state(second), EXCHANGE_ASKING);
	asking_reply(second, FAKE_ADMIT);
	assert_int_equal(asking_state(second), EXCHANGE_HELD);
	world_check_waits(&world);
	peer->behind = false;
	client_advance(&peer->d.client);
	assert_int_equal(first->status, 200);
	assert_true(second->in_service);
	job_end(second);
	asking_end();
}

/* A refusal that waits behind a response keeps nobody of its session from the server. */
static void a_refusal_that_waits_has_no_place(void **state)
{
	struct host *host = asking_begin();
	struct peer *peer = peer_new(host);
	struct job *first = peer_request(peer, ROUTE_STRICT, 0, false);
	struct job *refused = peer_request(peer, ROUTE_STRICT, 0, false);
	struct job *next = peer_request(peer_new(host), ROUTE_STRICT, 0, false);

	(void)state;
	asking_reply(first, FAKE_ADMIT);
	peer->behind = true;
	job_end(first);
	world_turn(&world);
	asking_reply(next, FAKE_ADMIT);
	assert_false(next->in_service);
	asking_reply(refused, FAKE_REFUSE);
	assert_int_equal(asking_state(refused), EXCHANGE_REPLYING);
	assert_true(next->in_service);
	job_end(next);
	peer->behind = false;
	client_advance(&peer->d.client);
	assert_int_equal(refused->status, 429);
	asking_end();
}

static void a_refusal_lets_its_connection_go_on(void **state)
{
	struct host *host = asking_begin();
	struct peer *peer = peer_new(host);
	struct job *first = peer_request(peer, ROUTE_FREE, 0, false);
	struct job *other = peer_request(peer, ROUTE_WRITES, 1, false);

	(void)state;
	assert_int_equal(asking_state(other), EXCHANGE_HELD);
	asking_reply(first, FAKE_REFUSE);
	assert_int_equal(asking_state(other), EXCHANGE_ASKING);
	asking_end();
}

static void ignore(struct stream *stream)
{
	(void)stream;
}

/* Nothing of a body is read before its verdict. */
static void a_body_waits_for_the_verdict(void **state)
{
	static const struct stream_calls calls = {ignore, ignore};
	struct host *host = asking_begin();
	struct peer *peer = peer_new(host), *other = peer_new(host);
	struct memory_peer *far =
		memory_stream_open(&peer->d.stream, &host->worker->streams, 100, &calls);

	(void)state;
	struct job *job = peer_request_body(peer, ROUTE_STRICT, 8);
	struct job *refused = peer_request_body(other, ROUTE_WRITES, 100000);
	assert_int_equal(memory_peer_send(far, "body", 4), 4);
	client_advance(&peer->d.client);
	assert_int_equal(asking_state(job), EXCHANGE_ASKING);
	assert_null(job->exchange->up.source);
	fake_reply(&world.fakes[0], asking_question(refused), FAKE_REFUSE);
	refused->said = FAKE_REFUSE;
	fake_reply(&world.fakes[0], asking_question(job), FAKE_ADMIT);
	job->said = FAKE_ADMIT;
	world_turn(&world);
	assert_int_equal(refused->status, 429);
	assert_int_equal(asking_state(job), EXCHANGE_HELD);
	assert_int_equal(job->exchange->up.content_bytes, 4);
	assert_false(job->in_service);
	assert_int_equal(memory_peer_send(far, "more", 4), 4);
	world_turn(&world);
	client_advance(&peer->d.client);
	assert_true(job->in_service);
	job_end(job);
	stream_close(&peer->d.stream);
	memory_peer_close(far);
	asking_end();
}

UNIT_SUITE(test_asking_pipeline)
{
	const struct CMUnitTest tests[] = {
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
