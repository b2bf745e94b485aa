/* Connections that sessions keep to themselves: parked when an exchange is over, taken by the next,
 * closed when they are of no use any more. */
#include "exchange/pin.h"

#include "fakes/flight.h"
#include "queue/queue.h"
#include "site/site.h"
#include "tests/unit/suite.h"

#define KEYED(key) "GET /u/ HTTP/1.1\r\nHost: h\r\nX-Key: " key "\r\n\r\n"
#define OK1        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na"
#define AFFINITY   "upstream_affinity = session\nsession = header:X-Key\n"

static const struct stage_conf plain = {.route = AFFINITY};

static unsigned parked;
static const void *last_parked;

static bool look_at(void *ctx, const void *pin)
{
	(void)ctx;
	parked++;
	last_parked = pin;
	return true;
}

static unsigned count_parked(struct stage *stage)
{
	parked = 0;
	queue_sweep_pins(stage->daemon.node.queue, look_at, NULL);
	return parked;
}

/* A request of a session, which the n-th connection gets, and answers. */
static void serve(struct stage *stage, unsigned n, const char *request)
{
	struct exchange *x = flight_begin(stage, request);
	char key[16];

	snprintf(key, sizeof(key), "%.8s", strstr(request, "X-Key: "));
	assert_has(stage_server_got(stage, n), key);
	stage_server_sends(stage, n, OK1);
	flight_run(stage, x);
	assert_int_equal(x->state, EXCHANGE_ENDED);
	stage_client_got(stage);
}

static void the_next_of_the_session_has_it(void **state)
{
	struct stage *stage = stage_begin(&plain);

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		serve(stage, 0, KEYED("a"));
		assert_int_equal(stage->server_count, 1);
		assert_int_equal(count_parked(stage), 1);
		assert_int_equal(flight_idle(stage), 0); /* nobody else's */
	}
	serve(stage, 1, KEYED("b"));
	assert_int_equal(count_parked(stage), 2);
	serve(stage, 0, KEYED("a"));
	serve(stage, 1, KEYED("b"));
	assert_int_equal(stage->server_count, 2);
	stage_end(stage);
}

static void one_that_ended_or_spoke_is_useless(void **state)
{
	(void)state;
	for (unsigned speaks = 0; speaks < 2; speaks++) {
		struct stage *stage = stage_begin(&plain);
		serve(stage, 0, KEYED("a"));
		if (speaks)
			memory_peer_send(stage->servers[0].wire, "HTTP/1.1 408 ", 13);
		else
			memory_peer_end_output(stage->servers[0].wire);
		serve(stage, 1, KEYED("a"));
		assert_int_equal(stage->server_count, 2);
		assert_int_equal(count_parked(stage), 1);
		stage_end(stage);
	}
}

static void one_whose_server_is_disabled_is_closed(void **state)
{
	const struct stage_conf two = {.upstream = "server = 127.0.0.1:3", .route = AFFINITY};
	struct stage *stage = stage_begin(&two);
	struct server *servers = stage->daemon.site->upstreams[0]->servers;

	(void)state;
	serve(stage, 0, KEYED("a"));
	unsigned first = strcmp(stage->servers[0].address, "127.0.0.1:2") == 0 ? 0 : 1;
	server_set_mode(&servers[first], SERVER_DRAINING); /* those that it has stay with it */
	serve(stage, 0, KEYED("a"));
	assert_int_equal(stage->server_count, 1);
	server_set_mode(&servers[first], SERVER_DISABLED);
	serve(stage, 1, KEYED("a"));
	assert_int_equal(stage->server_count, 2);
	assert_string_not_equal(stage->servers[0].address, stage->servers[1].address);
	assert_int_equal(count_parked(stage), 1);
	server_set_mode(&servers[first], SERVER_ENABLED);
	stage_end(stage);
}

/* One that is left out after failures is not asked, unless it is the only one. */
static void one_whose_server_is_left_out_is_closed(void **state)
{
	const struct stage_conf confs[] = {{.upstream = "max_fails = 1", .route = AFFINITY},
		{.upstream = "server = 127.0.0.1:3\nmax_fails = 1", .route = AFFINITY}};

	(void)state;
	for (unsigned others = 0; others < 2; others++) {
		struct stage *stage = stage_begin(&confs[others]);
		struct server *servers = stage->daemon.site->upstreams[0]->servers;
		serve(stage, 0, KEYED("a"));
		unsigned first = strcmp(stage->servers[0].address, "127.0.0.1:2") == 0 ? 0 : 1;
		server_failed(&servers[first], "test", STAGE_START_MS);
		serve(stage, others, KEYED("a"));
		assert_int_equal(stage->server_count, 1 + others);
		stage_end(stage);
	}
}

/* Its server's place is another's: it gets no other connection, keeps this one, and waits. */
static void one_whose_server_is_full_waits_for_its_place(void **state)
{
	const struct stage_conf full = {
		.more = "[upstream v]\nserver = 127.0.0.1:4 max_in_flight=1\n"
			"server = 127.0.0.1:5\n[route full]\nupstream = v\n" AFFINITY,
		.route = "path = /r/"};
	struct stage *stage = stage_begin(&full);
	struct server *servers = stage->daemon.site->upstreams[1]->servers;

	(void)state;
	server_set_mode(&servers[1], SERVER_DISABLED);
	serve(stage, 0, KEYED("a"));
	struct exchange *busy = flight_begin(stage, KEYED("b"));
	assert_string_equal(stage->servers[1].address, "127.0.0.1:4");
	server_set_mode(&servers[1], SERVER_ENABLED);
	stage->asks = &stage->other;
	struct exchange *waits = stage_ask(stage, KEYED("a"));
	assert_int_equal(waits->state, EXCHANGE_QUEUED);
	assert_int_equal(stage->server_count, 2);
	assert_int_equal(count_parked(stage), 1);
	stage_server_sends(stage, 1, OK1);
	flight_run(stage, busy);
	stage_turn(stage);
	assert_int_equal(waits->state, EXCHANGE_FORWARDING);
	assert_int_equal(stage->server_count, 2);
	stage_end(stage);
}

/* As after a reload, which gave the session's route another upstream. */
static void one_of_another_upstream_is_closed(void **state)
{
	const struct stage_conf two = {.upstream = "max_in_flight = 1",
		.more = "[upstream v]\nserver = 127.0.0.1:4\n",
		.route = AFFINITY};
	struct stage *stage = stage_begin(&two);
	uint64_t full = 0;

	(void)state;
	serve(stage, 0, KEYED("a"));
	flight_begin(stage, KEYED("b"));
	stage->asks = &stage->other;
	struct exchange *x = stage_ask(stage, KEYED("a"));
	assert_int_equal(x->state, EXCHANGE_QUEUED);
	struct upstream *own = x->upstream;
	x->upstream = stage->daemon.site->upstreams[1];
	assert_int_equal(pin_take(x, NULL, &full), PIN_NONE);
	assert_null(x->connection);
	assert_int_equal(count_parked(stage), 0);
	x->upstream = own;
	assert_int_equal(pin_take(x, NULL, &full), PIN_NONE); /* there is none now */
	stage_end(stage);
}

static void an_end_of_the_process_keeps_none(void **state)
{
	struct stage *stage = stage_begin(&plain);
	struct exchange *x = flight_begin(stage, KEYED("a"));

	(void)state;
	stage->worker->stopping = true;
	flight_answer(stage, x, OK1);
	assert_int_equal(count_parked(stage), 0);
	stage->worker->stopping = false;
	stage_end(stage);
}

static void one_that_ended_with_its_response_is_not_parked(void **state)
{
	struct stage *stage = stage_begin(&plain);
	struct exchange *x = flight_begin(stage, KEYED("a"));

	(void)state;
	memory_peer_send(stage->servers[0].wire, OK1, strlen(OK1));
	memory_peer_end_output(stage->servers[0].wire);
	stage_turn(stage);
	flight_run(stage, x);
	assert_int_equal(count_parked(stage), 0);
	stage_end(stage);
}

static void whose_site_it_is_of(void **state)
{
	struct stage *stage = stage_begin(&plain);

	(void)state;
	serve(stage, 0, KEYED("a"));
	assert_int_equal(count_parked(stage), 1);
	assert_true(pin_is_of_site(stage->daemon.site, last_parked));
	assert_false(pin_is_of_site(NULL, last_parked));
	const struct conf no_upstreams = {.upstream_count = 0};
	struct site other = {.conf = &no_upstreams};
	assert_false(pin_is_of_site(&other, last_parked));
	/* A sweep closes those of no site, and gives back what they counted. */
	queue_sweep_pins(stage->daemon.node.queue, pin_is_of_site, stage->daemon.site);
	assert_int_equal(count_parked(stage), 1);
	assert_int_equal(flight_server(stage)->connections, 1);
	queue_sweep_pins(stage->daemon.node.queue, pin_is_of_site, NULL);
	assert_int_equal(flight_server(stage)->connections, 0);
	assert_int_equal(count_parked(stage), 0);
	char byte;
	stage_server_got(stage, 0);
	assert_int_equal(memory_peer_receive(stage->servers[0].wire, &byte, 1), -1);
	stage_end(stage);
}

UNIT_SUITE(test_pin)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_next_of_the_session_has_it),
		cmocka_unit_test(one_that_ended_or_spoke_is_useless),
		cmocka_unit_test(one_whose_server_is_disabled_is_closed),
		cmocka_unit_test(one_whose_server_is_left_out_is_closed),
		cmocka_unit_test(one_whose_server_is_full_waits_for_its_place),
		cmocka_unit_test(one_of_another_upstream_is_closed),
		cmocka_unit_test(an_end_of_the_process_keeps_none),
		cmocka_unit_test(one_that_ended_with_its_response_is_not_parked),
		cmocka_unit_test(whose_site_it_is_of),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
