/* A server for an exchange, and a connection to it: which is taken, what is tried when there is
 * none, and how it waits in line. */
#include "exchange/find_server.h"

#include <errno.h>

#include "exchange/judge.h"
#include "tunnel/passage.h"
#include "fakes/flight.h"
#include "stats/stats.h"
#include "tests/unit/suite.h"

#define DONE "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"

static const struct stage_conf plain = {0};
static const struct stage_conf two = {.upstream = "server = 127.0.0.1:3"};

/* ---- connecting ------------------------------------------------------------------------------ */

static void an_idle_connection_is_used_again(void **state)
{
	struct stage *stage = stage_begin(&plain);
	struct exchange *x = flight_begin(stage, GET);

	(void)state;
	flight_answer(stage, x, DONE);
	x = flight_begin(stage, GET);
	assert_int_equal(stage->server_count, 1);
	assert_int_equal(x->connection->requests, 2);
	assert_int_equal(flight_server(stage)->in_flight, 1);
	stage_end(stage);
}

static void a_connection_takes_its_time(void **state)
{
	const struct stage_conf conf = {.upstream = "connect_timeout = 2s"};
	struct stage *stage = stage_begin(&conf);

	(void)state;
	stage->connects_later = true;
	struct exchange *x = stage_ask(stage, GET);
	assert_int_equal(x->state, EXCHANGE_CONNECTING);
	assert_int_equal(x->connection->wait.reason, WAIT_CONNECT);
	assert_int_equal(x->connection->wait.deadline.at_ms, STAGE_START_MS + 2000);
	stage_server_connected(stage, 0);
	assert_int_equal(x->state, EXCHANGE_FORWARDING);
	assert_has(stage_server_got(stage, 0), "GET / HTTP/1.1\r\n");
	assert_true(stage->client.advanced > 0);
	stage_end(stage);
}

static void too_much_of_it_is_a_failure(void **state)
{
	const struct stage_conf conf = {.upstream = "connect_timeout = 2s\nretries = 0"};
	struct stage *stage = stage_begin(&conf);

	(void)state;
	stage->connects_later = true;
	struct exchange *x = stage_ask(stage, GET);
	stage_pass(stage, &x->connection->wait.deadline);
	assert_int_equal(x->answer.status, 504);
	assert_string_equal(x->outcome, "connect timeout");
	assert_false(x->turn.ticket.failed);
	assert_int_equal(flight_server(stage)->fails, 1);
	assert_has(lines.text, "info upstream u: server 127.0.0.1:2: connect timeout (GET /)");
	stage_end(stage);
}

static void one_that_is_refused_later_is_made_to_another(void **state)
{
	struct stage *stage = stage_begin(&two);

	(void)state;
	stage->connects_later = true;
	struct exchange *x = stage_ask(stage, POST); /* not a byte of it has left */
	stage->connects_later = false;
	memory_peer_reset(stage->servers[0].wire);
	stage_turn(stage);
	assert_int_equal(x->state, EXCHANGE_FORWARDING);
	assert_int_equal(stage->server_count, 2);
	assert_string_not_equal(stage->servers[0].address, stage->servers[1].address);
	assert_int_equal(stage_count(stage, STATS_RETRIES), 1);
	stage_end(stage);
}

static void nobody_can_be_reached(void **state)
{
	struct stage *stage = stage_begin(&two);

	(void)state;
	stage->connect_error = ECONNREFUSED;
	struct exchange *x = stage_ask(stage, GET);
	assert_int_equal(x->answer.status, 502);
	assert_string_equal(x->outcome, "servers failed");
	assert_int_equal(x->attempt.tried, 3);
	assert_int_equal(flight_server(stage)->fails, 1);
	assert_int_equal(stage_count(stage, STATS_RETRIES), 2);
	assert_int_equal(flight_server(stage)->connections, 0);
	stage_end(stage);
}

static void what_is_our_own_fault_blames_no_server(void **state)
{
	static const int errors[] = {EMFILE, ENFILE, ENOBUFS, ENOMEM, EADDRNOTAVAIL};

	(void)state;
	for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		struct stage *stage = stage_begin(&two);
		stage->connect_error = errors[i];
		struct exchange *x = stage_ask(stage, GET);
		assert_int_equal(x->answer.status, 503);
		assert_int_equal(x->answer.retry_after_ms, 1000);
		assert_int_equal(flight_server(stage)->fails, 0);
		assert_int_equal(x->attempt.tried, 0);
		assert_int_equal(stage_count(stage, STATS_RETRIES), 0);
		stage_end(stage);
	}
}

/* What other workers have idle may give one up. */
static void it_waits_for_a_descriptor(void **state)
{
	const struct stage_conf conf = {.two_workers = true, .upstream = "server = 127.0.0.1:3"};
	struct stage *stage = stage_begin(&conf);

	(void)state;
	stage->connect_error = EMFILE;
	struct exchange *x = stage_ask(stage, GET);
	assert_int_equal(x->state, EXCHANGE_QUEUED);
	assert_int_equal(x->turn.deadline.at_ms, STAGE_START_MS + SPARE_LOOK_MS);
	assert_null(x->server);
	assert_int_equal(flight_server(stage)->connections, 0);
	stage_pass(stage, &x->turn.deadline); /* there is none yet */
	assert_int_equal(x->state, EXCHANGE_QUEUED);
	stage->connect_error = 0;
	stage_pass(stage, &x->turn.deadline);
	assert_int_equal(x->state, EXCHANGE_FORWARDING);
	assert_int_equal(x->attempt.tried, 0);
	assert_int_equal(x->attempt.tries, 0);
	flight_answer(stage, x, DONE);
	stage_end(stage);
}

static void it_waits_for_no_descriptor_for_ever(void **state)
{
	const struct stage_conf conf = {.two_workers = true};
	struct stage *stage = stage_begin(&conf);
	unsigned looks;

	(void)state;
	stage->connect_error = EMFILE;
	struct exchange *x = stage_ask(stage, GET);
	for (looks = 0; x->state == EXCHANGE_QUEUED; looks++) {
		spare_answer(stage->workers[1]); /* it has none */
		stage_pass(stage, &x->turn.deadline);
	}
	assert_int_equal(looks, 3);
	assert_int_equal(x->answer.status, 503);
	assert_string_equal(x->outcome, strerror(EMFILE));
	assert_int_equal(flight_server(stage)->fails, 0);
	stage_end(stage);
}

/* Nor beyond queue_timeout, when the other worker does not answer. */
static void queue_timeout_ends_the_wait_for_a_descriptor(void **state)
{
	const struct stage_conf conf = {.two_workers = true, .route = "queue_timeout = 15ms"};
	struct stage *stage = stage_begin(&conf);

	(void)state;
	stage->connect_error = EMFILE;
	struct exchange *x = stage_ask(stage, GET);
	atomic_store(&stage->workers[1]->inbox.commands, 1); /* it is held up: nothing is posted */
	stage_pass(stage, &x->turn.deadline);
	stage_at(stage, 15);
	stage_pass(stage, &x->turn.deadline);
	assert_int_equal(x->answer.status, 503);
	assert_string_equal(x->outcome, "queue timeout");
	stage_end(stage);
}

static void no_more_is_tried_than_retries_allow(void **state)
{
	const struct stage_conf conf = {.upstream = "server = 127.0.0.1:3\nretries = 0"};
	struct stage *stage = stage_begin(&conf);

	(void)state;
	stage->connect_error = ECONNREFUSED;
	struct exchange *x = stage_ask(stage, GET);
	assert_int_equal(x->answer.status, 502);
	assert_string_equal(x->outcome, strerror(ECONNREFUSED));
	assert_int_equal(stage_count(stage, STATS_RETRIES), 0);
	stage_end(stage);
}

static void all_are_out_of_use(void **state)
{
	struct stage *stage = stage_begin(&plain);

	(void)state;
	server_set_mode(&stage->daemon.site->upstreams[0]->servers[0], SERVER_DISABLED);
	struct exchange *x = stage_ask(stage, GET);
	assert_int_equal(x->answer.status, 503);
	assert_string_equal(x->outcome, "no server");
	stage_end(stage);
}

static void failures_have_a_line_now_and_then(void **state)
{
	const struct stage_conf conf = {.upstream = "retries = 0\nmax_fails = 0"};
	struct stage *stage = stage_begin(&conf);

	(void)state;
	stage->connect_error = ECONNREFUSED;
	for (unsigned i = 0; i < 3; i++)
		stage_ask(stage, GET);
	const char *line = strstr(lines.text, "Connection refused (GET /)");
	assert_non_null(line);
	assert_null(strstr(line + 1, "Connection refused (GET /)"));
	stage_at(stage, 10000);
	stage_ask(stage, GET);
	assert_has(lines.text, "(GET /); 2 more failures since the last line\n");
	stage->connect_error = 0;
	struct exchange *x = stage_ask(stage, GET);
	stage_at(stage, 20000);
	find_server_log_failure(x, "test"); /* as the units that see it fail later do */
	assert_has(lines.text, "upstream u: server 127.0.0.1:2: test (GET /)\n");
	stage_end(stage);
}

/* ---- in line --------------------------------------------------------------------------------- */

/* Its stream is a tunnel, so that it has a connection and no place. */
static const struct stage_conf bounded = {.upstream = "server = 127.0.0.1:3 max_connections=1\n"
						      "retries = 0"};

/* The second server takes all; of the first only one connection is to be had, and that is taken by
 * a tunnel. */
static struct passage *fill(struct stage *stage)
{
	struct exchange *x = stage_ask(stage,
		"GET /up HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");

	assert_int_equal(x->state, EXCHANGE_FORWARDING);
	flight_answer(
		stage, x, "HTTP/1.1 101 Go\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
	assert_non_null(tunnel_part(stage->worker)->passages);
	return tunnel_part(stage->worker)->passages;
}

static struct stage *begin_bounded(void)
{
	struct stage *stage = stage_begin(&bounded);

	server_set_mode(&stage->daemon.site->upstreams[0]->servers[0], SERVER_DISABLED);
	return stage;
}

static void it_waits_for_a_connection_that_is_free(void **state)
{
	struct stage *stage = begin_bounded();
	struct passage *tunnel = fill(stage);
	struct exchange *x = stage_other_asks(stage, GET);

	(void)state;
	assert_int_equal(x->state, EXCHANGE_QUEUED);
	assert_non_null(x->attempt.line.waiter);
	assert_int_equal(pool_waits_for(&x->attempt.line), 2);
	assert_int_equal(x->turn.deadline.at_ms, STAGE_START_MS + 200);
	passage_end(tunnel, "test");
	stage_turn(stage);
	assert_int_equal(x->state, EXCHANGE_FORWARDING);
	assert_null(x->attempt.line.waiter);
	assert_int_equal(x->turn.deadline.at_ms, DEADLINE_NEVER);
	stage_end(stage);
}

static void others_stand_behind_it(void **state)
{
	struct stage *stage = begin_bounded();
	struct passage *tunnel = fill(stage);
	struct exchange *first = stage_other_asks(stage, GET),
			*second = stage_other_asks(stage, GET);

	(void)state;
	first->response_progress = second->response_progress = RESPONSE_COMING;
	if (second->state == EXCHANGE_HELD)
		exchange_next(second);
	assert_int_equal(second->state, EXCHANGE_QUEUED);
	passage_end(tunnel, "test");
	stage_turn(stage);
	assert_int_equal(first->state, EXCHANGE_FORWARDING);
	assert_int_equal(second->state, EXCHANGE_QUEUED);
	exchange_end(first);
	stage_turn(stage);
	assert_int_equal(second->state, EXCHANGE_FORWARDING);
	stage_end(stage);
}

static void another_server_may_serve_meanwhile(void **state)
{
	struct stage *stage = begin_bounded();

	(void)state;
	fill(stage);
	struct exchange *x = stage_other_asks(stage, GET);
	stage_pass(stage, &x->turn.deadline);
	assert_int_equal(x->state, EXCHANGE_QUEUED); /* none yet: looks again */
	assert_int_equal(x->turn.deadline.at_ms, STAGE_START_MS + 400);
	server_set_mode(&stage->daemon.site->upstreams[0]->servers[0], SERVER_ENABLED);
	stage_pass(stage, &x->turn.deadline);
	assert_int_equal(x->state, EXCHANGE_FORWARDING);
	assert_int_equal(x->server->index, 0);
	stage_end(stage);
}

/* What could not be connected to when it came into line may be up again. */
static void one_that_failed_before_is_asked_again(void **state)
{
	const struct stage_conf conf = {.upstream = "server = 127.0.0.1:3 max_connections=1"};
	struct stage *stage = stage_begin(&conf);
	struct server *servers = stage->daemon.site->upstreams[0]->servers;

	(void)state;
	server_set_mode(&servers[0], SERVER_DISABLED);
	fill(stage);
	server_set_mode(&servers[0], SERVER_ENABLED);
	stage->connect_error = ECONNREFUSED;
	struct exchange *x = stage_other_asks(stage, GET);
	assert_int_equal(x->state, EXCHANGE_QUEUED);
	assert_int_equal(x->attempt.tried, 1);
	stage->connect_error = 0;
	stage_pass(stage, &x->turn.deadline);
	assert_int_equal(x->state, EXCHANGE_FORWARDING);
	assert_int_equal(x->server->index, 0);
	stage_end(stage);
}

/* The first in line is woken, and finds a connection to another server: the one that became free is
 * for the second. */
static void a_free_one_is_passed_on(void **state)
{
	struct stage *stage = begin_bounded();
	struct server *servers = stage->daemon.site->upstreams[0]->servers;
	struct passage *tunnel = fill(stage);
	struct exchange *first = stage_other_asks(stage, GET);

	(void)state;
	stage->asks = &stage->client;
	struct exchange *second = stage_ask(stage, GET);
	if (second->state == EXCHANGE_HELD)
		exchange_next(second);
	assert_int_equal(second->state, EXCHANGE_QUEUED);
	server_set_weight(&servers[0], 100);
	server_set_mode(&servers[0], SERVER_ENABLED);
	passage_end(tunnel, "test");
	stage_turn(stage);
	assert_int_equal(first->state, EXCHANGE_FORWARDING);
	assert_int_equal(second->state, EXCHANGE_FORWARDING);
	stage_end(stage);
}

static void none_can_come_any_more(void **state)
{
	struct stage *stage = begin_bounded();

	(void)state;
	fill(stage);
	struct exchange *x = stage_other_asks(stage, GET);
	server_set_mode(&stage->daemon.site->upstreams[0]->servers[1], SERVER_DISABLED);
	stage_pass(stage, &x->turn.deadline);
	assert_int_equal(x->answer.status, 503);
	assert_string_equal(x->outcome, "no server");
	stage_end(stage);
}

static void it_waits_no_longer_than_queue_timeout(void **state)
{
	struct stage *stage = begin_bounded();

	(void)state;
	fill(stage);
	struct exchange *x = stage_other_asks(stage, GET);
	stage_at(stage, 30000);
	stage_pass(stage, &x->turn.deadline);
	assert_int_equal(x->answer.status, 503);
	assert_string_equal(x->outcome, "queue timeout");
	assert_null(x->attempt.line.waiter);
	stage_end(stage);
}

/* ---- a connection of its session's own ------------------------------------------------------- */

static const struct stage_conf affinity = {
	.route = "upstream_affinity = session\nsession = header:X-Key"};

#define KEYED(key) "GET / HTTP/1.1\r\nHost: h\r\nX-Key: " key "\r\n\r\n"

static void a_session_has_its_own(void **state)
{
	struct stage *stage = stage_begin(&affinity);
	struct exchange *x = flight_begin(stage, KEYED("a"));

	(void)state;
	flight_answer(stage, x, DONE);
	assert_int_equal(x->state, EXCHANGE_ENDED);
	assert_int_equal(flight_idle(stage), 0); /* in no pool */
	flight_begin(stage, KEYED("b"));
	assert_int_equal(stage->server_count, 2);
	struct exchange *again = stage_other_asks(stage, KEYED("a"));
	assert_int_equal(again->state, EXCHANGE_FORWARDING);
	assert_int_equal(stage->server_count, 2);
	assert_true(again->connection->reused);
	stage_server_got(stage, 1);
	assert_has(stage_server_got(stage, 0), "X-Key: a\r\n");
	stage_end(stage);
}

UNIT_SUITE(test_find_server)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_idle_connection_is_used_again),
		cmocka_unit_test(a_connection_takes_its_time),
		cmocka_unit_test(too_much_of_it_is_a_failure),
		cmocka_unit_test(one_that_is_refused_later_is_made_to_another),
		cmocka_unit_test(nobody_can_be_reached),
		cmocka_unit_test(what_is_our_own_fault_blames_no_server),
		cmocka_unit_test(it_waits_for_a_descriptor),
		cmocka_unit_test(it_waits_for_no_descriptor_for_ever),
		cmocka_unit_test(queue_timeout_ends_the_wait_for_a_descriptor),
		cmocka_unit_test(no_more_is_tried_than_retries_allow),
		cmocka_unit_test(all_are_out_of_use),
		cmocka_unit_test(failures_have_a_line_now_and_then),
		cmocka_unit_test(it_waits_for_a_connection_that_is_free),
		cmocka_unit_test(others_stand_behind_it),
		cmocka_unit_test(another_server_may_serve_meanwhile),
		cmocka_unit_test(one_that_failed_before_is_asked_again),
		cmocka_unit_test(a_free_one_is_passed_on),
		cmocka_unit_test(none_can_come_any_more),
		cmocka_unit_test(it_waits_no_longer_than_queue_timeout),
		cmocka_unit_test(a_session_has_its_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
