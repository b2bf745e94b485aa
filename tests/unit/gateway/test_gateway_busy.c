/* A gateway's socket whose server has no place free: how it tells of its end, and what silence
 * does. */
#include "gatewayed.h"
#include "tests/unit/suite.h"

static const struct stage_conf busy = {.upstream = "max_in_flight = 1", .route = ROUTE},
			       full = {.upstream = "max_in_flight = 1",
				       .route = ROUTE,
				       .node = "queue_total = 1"};

/* Others that hold the only place, and wait for it. */
static struct ticket others[2];

static struct upstream_state *upstream(void)
{
	return site_part(o.stage->worker)->use->site->upstreams[0]->state;
}

static void other_enters(unsigned i)
{
	const struct site *site = site_part(o.stage->worker)->use->site;

	ticket_init(&others[i], 0);
	queue_enter(o.stage->worker->node->queue, &site->policies[0], upstream()->run_queue,
		(struct session_key){{i + 1, i + 1}}, &others[i], worker_now_ns(o.stage->worker));
}

static void other_leaves(unsigned i)
{
	queue_done(o.stage->worker->node->queue, &others[i], worker_now_ns(o.stage->worker));
	opened_turn(&o);
}

static struct gateway *the_gateway(void)
{
	return gateways_of(o.stage->worker)->first;
}

static struct deadline *deadline_of_first(void)
{
	return &the_gateway()->client.first->turn.deadline;
}

static void client_resets(void)
{
	memory_peer_reset(o.c.wire);
	opened_turn(&o);
}

static void an_end_goes_before_others(void **state)
{
	(void)state;
	begin_on(&busy, "", "OPEN\r\n");
	other_enters(0);
	client_resets();
	assert_string_equal(server_got(), "");
	other_leaves(0);
	assert_string_equal(request_got(), "DISCONNECT\r\n");
	assert_int_equal(upstream()->unplaced, 0);
	answer("");
	assert_false(gateway_is_left());
	end();
}

static void an_end_does_not_wait_long(void **state)
{
	(void)state;
	begin_on(&busy, "", "OPEN\r\n");
	other_enters(0);
	client_resets();
	assert_int_equal(
		deadline_of_first()->at_ms, worker_now_ms(o.stage->worker) + TURN_END_WAIT_MS);
	stage_pass(o.stage, deadline_of_first());
	opened_turn(&o);
	assert_string_equal(request_got(), "DISCONNECT\r\n");
	assert_int_equal(upstream()->unplaced, 1);
	answer("");
	assert_int_equal(upstream()->unplaced, 0);
	assert_false(gateway_is_left());
	other_leaves(0);
	end();
}

/* A drain gives up the message that waits, and not what tells the server of the end. */
static void an_end_is_not_given_up(void **state)
{
	(void)state;
	begin_on(&busy, "", "OPEN\r\n");
	other_enters(0);
	say("waits");
	opened_client_closes(&o, 1000, "");
	socket_hurry(o.socket, "drained");
	socket_run(o.socket);
	opened_turn(&o);
	assert_string_equal(server_got(), "");
	other_leaves(0);
	assert_string_equal(request_got(), "CLOSE 2\r\n\x03\xe8\r\n");
	answer("");
	assert_string_equal(opened_to_client(&o), "close(1001 going away) end");
	assert_false(gateway_is_left());
	end();
}

/* Nor where the client is told before the server is. */
static void an_end_that_is_late(void **state)
{
	(void)state;
	begin_on(&busy, "", "OPEN\r\n");
	other_enters(0);
	socket_finish(o.socket, CLOSE_GOING_AWAY, SLICE("drained"), "drained");
	socket_run(o.socket);
	socket_close_late(o.socket);
	socket_run(o.socket);
	assert_string_equal(opened_to_client(&o), "close(1001 drained) ");
	assert_string_equal(server_got(), "");
	other_leaves(0);
	assert_has(request_got(), "CLOSE 9\r\n");
	answer("");
	opened_client_closes(&o, 1001, "");
	assert_false(gateway_is_left());
	end();
}

/* Not too many at once. */
static void ends_without_a_place_are_few(void **state)
{
	(void)state;
	begin_on(&busy, "", "OPEN\r\n");
	other_enters(0);
	client_resets();
	upstream()->unplaced = TURN_UNPLACED_MOST;
	stage_pass(o.stage, deadline_of_first());
	opened_turn(&o);
	assert_string_equal(server_got(), "");
	assert_int_equal(upstream()->unplaced, TURN_UNPLACED_MOST);
	upstream()->unplaced--;
	stage_pass(o.stage, deadline_of_first());
	opened_turn(&o);
	assert_string_equal(request_got(), "DISCONNECT\r\n");
	answer("");
	assert_int_equal(upstream()->unplaced, TURN_UNPLACED_MOST - 1);
	upstream()->unplaced = 0;
	other_leaves(0);
	end();
}

/* What protects the server in any window holds for it, too. */
static void an_end_keeps_to_the_pace(void **state)
{
	static const struct stage_conf paced = {.upstream = "pace = 1 per 1h", .route = ROUTE};

	(void)state;
	begin_on(&paced, "", "OPEN\r\n");
	client_resets();
	for (unsigned i = 0; i < 3; i++) {
		stage_pass(o.stage, deadline_of_first());
		opened_turn(&o);
		assert_string_equal(server_got(), "");
		assert_int_equal(upstream()->unplaced, 0);
	}
	struct pace *pace = atomic_exchange(&upstream()->pace, NULL);
	stage_pass(o.stage, deadline_of_first());
	opened_turn(&o);
	assert_string_equal(request_got(), "DISCONNECT\r\n");
	atomic_store(&upstream()->pace, pace);
	answer("");
	assert_false(gateway_is_left());
	end();
}

/* Nor is it lost where no more may wait. */
static void an_end_is_not_turned_away(void **state)
{
	(void)state;
	begin_on(&full, "", "OPEN\r\n");
	other_enters(0);
	other_enters(1); /* waits */
	upstream()->unplaced = TURN_UNPLACED_MOST;
	client_resets();
	assert_string_equal(server_got(), "");
	upstream()->unplaced = 0;
	stage_pass(o.stage, deadline_of_first());
	opened_turn(&o);
	assert_string_equal(request_got(), "DISCONNECT\r\n");
	answer("");
	assert_int_equal(upstream()->unplaced, 0);
	assert_false(gateway_is_left());
	other_leaves(1);
	other_leaves(0);
	end();
}

static void silence_gives_way(void **state)
{
	(void)state;
	begin_on(&busy, "Keep-Alive-Interval: 20\r\n", "OPEN\r\n");
	other_enters(0);
	stage_pass(o.stage, &o.passage->wait.deadline);
	assert_int_equal(the_gateway()->waiting, 1);
	say("a");
	say("b");
	assert_int_equal(the_gateway()->waiting, 2);
	other_leaves(0);
	assert_string_equal(request_got(), "TEXT 1\r\na\r\nTEXT 1\r\nb\r\n");
	answer("");
	end();
}

/* It was to keep the socket, and is not its end. */
static void silence_that_is_turned_away(void **state)
{
	(void)state;
	begin_on(&busy, "Keep-Alive-Interval: 20\r\n", "OPEN\r\n");
	other_enters(0);
	stage_pass(o.stage, &o.passage->wait.deadline);
	stage_pass(o.stage, deadline_of_first()); /* queue_timeout */
	opened_turn(&o);
	assert_int_equal(the_gateway()->waiting, 0);
	assert_string_equal(opened_to_client(&o), "");
	other_leaves(0);
	stage_pass(o.stage, &o.passage->wait.deadline);
	assert_string_equal(request_got(), "");
	assert_int_equal(the_gateway()->waiting, 1);
	answer("TEXT 4\r\nnews\r\n");
	assert_string_equal(opened_to_client(&o), "text(news) ");
	end();
}

/* A close frame does not wait for it, and is answered by the server's. */
static void a_close_while_silence_is_asked_about(void **state)
{
	(void)state;
	begin_on(&busy, "Keep-Alive-Interval: 20\r\n", "OPEN\r\n");
	stage_pass(o.stage, &o.passage->wait.deadline);
	assert_string_equal(request_got(), "");
	opened_client_closes(&o, 3001, "bye");
	answer("");
	assert_string_equal(opened_to_client(&o), "");
	assert_has(request_got(), "CLOSE 5\r\n");
	answer("CLOSE 2\r\n\x0b\xba\r\n");
	assert_string_equal(opened_to_client(&o), "close(3002 ) end");
	end();
}

/* ---- the memory of what waits ---------------------------------------------------------------- */

/* Until the server has answered it, or the socket has ended. */
static void what_waits_is_counted(void **state)
{
	(void)state;
	begin();
	_Atomic uint64_t *held = &o.stage->daemon.node.unfinished.bytes;
	say("first");
	assert_int_equal(atomic_load(held), 5);
	say("behind it");
	assert_int_equal(atomic_load(held), 14);
	answer("");
	assert_int_equal(atomic_load(held), 9);
	answer("");
	assert_int_equal(atomic_load(held), 0);
	say("last");
	assert_int_equal(atomic_load(held), 4);
	socket_abort(o.socket, "test");
	assert_int_equal(atomic_load(held), 0);
	end();
}

static void one_too_many_that_waits_is_given_up(void **state)
{
	static char text[5000];

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	begin();
	say("first");
	atomic_store(&o.stage->daemon.node.unfinished.most, 10);
	say(text);
	assert_int_equal(atomic_load(&o.stage->daemon.node.unfinished.bytes), 5);
	assert_int_equal(gateway_of(o.socket->gateway)->waiting, 1);
	assert_has(opened_to_client(&o), "close(1013 too many unfinished messages) ");
	end();
}

UNIT_SUITE(test_gateway_busy)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_end_goes_before_others),
		cmocka_unit_test(an_end_does_not_wait_long),
		cmocka_unit_test(an_end_is_not_given_up),
		cmocka_unit_test(an_end_that_is_late),
		cmocka_unit_test(ends_without_a_place_are_few),
		cmocka_unit_test(an_end_keeps_to_the_pace),
		cmocka_unit_test(an_end_is_not_turned_away),
		cmocka_unit_test(silence_gives_way),
		cmocka_unit_test(silence_that_is_turned_away),
		cmocka_unit_test(a_close_while_silence_is_asked_about),
		cmocka_unit_test(what_waits_is_counted),
		cmocka_unit_test(one_too_many_that_waits_is_given_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
