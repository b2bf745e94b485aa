/* Responses without a client that waits for their end: switches, and those whose client has left.
 */
#include "exchange/respond.h"

#include "fakes/flight.h"
#include "tests/unit/suite.h"

static const struct stage_conf plain = {0};

/* ---- upgrades -------------------------------------------------------------------------------- */

#define UPGRADE                                                                                    \
	"GET / HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"               \
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
static const struct stage_conf upgrades = {
	.route = "upgrade = websocket", .upstream = "max_streams = 1\ntunnel_timeout = 9s"};

/* One that switches before it has read its request: what is left of that would be the tunnel's. */
static void a_switch_before_the_request_has_left_is_none(void **state)
{
	const struct stage_conf conf = {
		.route = "upgrade = websocket\nrequest_buffering = 64k file 1M"};
	struct stage *stage = stage_begin(&conf);
	static char body[4 * STAGE_ROOM + 1];

	(void)state;
	memset(body, 'b', sizeof(body) - 1);
	struct exchange *x = stage_ask(stage,
		"POST / HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"
		"Content-Length: 262144\r\n\r\n");
	for (size_t sent = 0; x->state == EXCHANGE_HELD; stage_turn(stage)) {
		sent += memory_peer_send(stage->client.wire, body + sent, sizeof(body) - 1 - sent);
		exchange_next(x);
		exchange_run(x);
	}
	assert_int_equal(x->state, EXCHANGE_FORWARDING);
	assert_true(exchange_has_request(x));
	assert_false(exchange_has_sent(x));
	flight_answer(
		stage, x, "HTTP/1.1 101 Go\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
	assert_int_equal(x->answer.status, 502);
	stage_end(stage);
}

static void a_refused_upgrade_is_a_request(void **state)
{
	struct stage *stage = stage_begin(&upgrades);
	struct exchange *x = flight_begin(stage, UPGRADE);

	(void)state;
	assert_string_equal(stage->client.trace, "read-upgrade ");
	stage->client.client.again = false;
	flight_answer(stage, x, "HTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n");
	assert_string_equal(stage->client.trace, "read-upgrade read ended ");
	assert_true(stage->client.client.again); /* what is behind it is the next request */
	assert_int_equal(flight_idle(stage), 1);
	stage_end(stage);
}

/* ---- the client has left --------------------------------------------------------------------- */

/* What has left of the request has an end now: a connection whose output has ended takes no other.
 */
static void a_connection_with_a_part_of_a_request_serves_no_other(void **state)
{
	const struct stage_conf conf = {
		.route = "request_buffering = 64k file 1M", .upstream = "max_in_flight = 1"};
	struct stage *stage = stage_begin(&conf);
	static char body[4 * STAGE_ROOM + 1];

	(void)state;
	memset(body, 'b', sizeof(body) - 1);
	struct exchange *x =
		stage_ask(stage, "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 262144\r\n\r\n");
	for (size_t sent = 0; x->state == EXCHANGE_HELD; stage_turn(stage)) {
		sent += memory_peer_send(stage->client.wire, body + sent, sizeof(body) - 1 - sent);
		exchange_next(x);
		exchange_run(x);
	}
	assert_true(exchange_has_request(x));
	assert_false(exchange_has_sent(x));
	client_close(&stage->client.client, "left");
	assert_int_equal(x->state, EXCHANGE_FORWARDING);
	stage_server_sends(stage, 0, "HTTP/1.1 413 No\r\nContent-Length: 0\r\n\r\n");
	assert_int_equal(x->state, EXCHANGE_ENDED);
	assert_int_equal(flight_idle(stage), 0);
	stage_end(stage);
}

enum ending { CUT, FOLLOWED, GOES_ON };

/* The client leaves; then its server says this. What becomes of the response? */
static enum ending ending(
	const struct stage_conf *conf, const char *request, const char *before, const char *after)
{
	struct stage *stage = stage_begin(conf);
	struct exchange *x = flight_begin(stage, request);

	if (*before)
		flight_answer(stage, x, before);
	client_close(&stage->client.client, "left");
	assert_int_equal(x->state != EXCHANGE_ENDED, exchange_part(stage->worker)->orphans == x);
	assert_string_equal(x->outcome, "client gone");
	if (x->state != EXCHANGE_ENDED && *after)
		stage_server_sends(stage, 0, after);
	enum ending found = x->state != EXCHANGE_ENDED                  ? GOES_ON
			    : x->response_progress == RESPONSE_RECEIVED ? FOLLOWED
									: CUT;
	assert_int_equal(found == GOES_ON, exchange_part(stage->worker)->orphans == x);
	stage_end(stage);
	return found;
}

#define SHORT "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc"
#define PART  "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\na"
#define LONG  "HTTP/1.1 200 OK\r\nContent-Length: 1048577\r\n\r\n"

#define CHUNKED "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n"
#define EVENTS                                                                                     \
	"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"                                   \
	"Transfer-Encoding: chunked\r\n\r\n3\r\n:a\n\r\n"

static void a_write_is_followed_and_a_free_read_is_not(void **state)
{
	const struct stage_conf affinity = {.route = "upstream_affinity = session"};

	(void)state;
	assert_int_equal(FOLLOWED, ending(&plain, POST, "", SHORT));
	assert_int_equal(FOLLOWED, ending(&plain, POST, PART, "bc"));
	assert_int_equal(FOLLOWED, ending(&plain, POST, CHUNKED, "0\r\n\r\n"));
	assert_int_equal(CUT, ending(&plain, GET, "", SHORT));
	assert_int_equal(CUT, ending(&plain, GET, PART, "bc"));
	assert_int_equal(GOES_ON, ending(&plain, POST, "", LONG));
	assert_int_equal(GOES_ON, ending(&plain, POST, LONG, ""));
	/* A read that may end its session's login. */
	assert_int_equal(FOLLOWED, ending(&affinity, GET, PART, "bc"));
	assert_int_equal(CUT, ending(&affinity, GET, CHUNKED, "0\r\n\r\n"));
}

/* Its server works on, and whatever is bounded counts it until the end. */
static void a_read_that_holds_a_place_is_followed(void **state)
{
	static const struct stage_conf bounds[] = {
		{.upstream = "max_in_flight = 4"},
		{.upstream = "max_in_flight = auto"},
		{.upstream = "server = 127.0.0.1:9 max_in_flight=3\n"},
		{.route = "ordering = strict"},
		{.route = "session_in_flight = 2"},
		{.more = "[limit own]\nconcurrency = 2\n", .route = "limits = own"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bounds) / sizeof(bounds[0]); i++) {
		print_message("# %s%s\n", bounds[i].upstream ? bounds[i].upstream : "",
			bounds[i].route ? bounds[i].route : "");
		assert_int_equal(FOLLOWED, ending(&bounds[i], GET, "", SHORT));
		assert_int_equal(FOLLOWED, ending(&bounds[i], GET, PART, "bc"));
		assert_int_equal(FOLLOWED, ending(&bounds[i], GET, CHUNKED, "0\r\n\r\n"));
		assert_int_equal(GOES_ON, ending(&bounds[i], GET, "", ""));
		assert_int_equal(GOES_ON, ending(&bounds[i], GET, CHUNKED, ""));
		assert_int_equal(GOES_ON, ending(&bounds[i], GET, LONG, ""));
		/* What lasts for as long as its client likes ends with it. */
		assert_int_equal(CUT, ending(&bounds[i], GET, EVENTS, ""));
		assert_int_equal(CUT, ending(&bounds[i], GET, "", EVENTS));
	}
	const struct stage_conf paced = {.upstream = "pace = 9 per 1s", .route = "ordering = none"};
	assert_int_equal(CUT, ending(&paced, GET, "", SHORT));
}

/* The switch that it asked for is to nobody's use, and no fault of the server's. */
static void an_upgrade_without_a_client_ends(void **state)
{
	const struct stage_conf conf = {
		.route = "upgrade = websocket", .upstream = "max_in_flight = 1\nmax_fails = 1"};
	struct stage *stage = stage_begin(&conf);
	struct exchange *x = flight_begin(stage, UPGRADE);

	(void)state;
	client_close(&stage->client.client, "left");
	assert_int_equal(x->state, EXCHANGE_FORWARDING);
	stage_server_sends(
		stage, 0, "HTTP/1.1 101 Go\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
	assert_int_equal(x->state, EXCHANGE_ENDED);
	assert_int_equal(flight_server(stage)->fails, 0);
	assert_int_equal(flight_server(stage)->in_flight, 0);
	stage_end(stage);
}

/* Of a request that did not come whole its server gets an end, for which it is not to blame. */
static void a_cut_request_holds_its_place_until_its_server_has_done(void **state)
{
	static const struct stage_conf confs[] = {
		{.upstream = "max_in_flight = 1", .route = "request_buffering = off"},
		{.route = "request_buffering = off"},
	};
	const char *half = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\nab";

	(void)state;
	for (unsigned answers = 0; answers < 2; answers++) {
		struct stage *stage = stage_begin(&confs[0]);
		struct exchange *x = flight_begin(stage, half);
		if (answers)
			client_close(&stage->client.client, "left");
		else
			exchange_request_cut(x);
		assert_int_equal(x->state, EXCHANGE_FORWARDING);
		assert_ptr_equal(exchange_part(stage->worker)->orphans, x);
		char bytes[1024];
		while (memory_peer_receive(stage->servers[0].wire, bytes, sizeof(bytes)) > 0)
			;
		assert_int_equal(
			-1, memory_peer_receive(stage->servers[0].wire, bytes, sizeof(bytes)));
		assert_int_equal(flight_server(stage)->in_flight, 1);
		assert_int_equal(x->connection->wait.reason, WAIT_RESPONSE);
		if (answers)
			stage_server_sends(stage, 0, SHORT);
		else
			memory_peer_end_output(stage->servers[0].wire);
		stage_turn(stage);
		assert_int_equal(x->state, EXCHANGE_ENDED);
		assert_int_equal(flight_server(stage)->in_flight, 0);
		assert_int_equal(flight_server(stage)->fails, 0);
		assert_int_equal(flight_idle(stage), 0);
		stage_end(stage);
	}
	assert_int_equal(CUT, ending(&confs[1], half, "", SHORT));
}

static void what_is_followed_has_bounds(void **state)
{
	const struct stage_conf conf = {.upstream = "idle_timeout = 7s"};
	struct stage *stage = stage_begin(&conf);
	struct exchange *x = flight_begin(stage, POST);

	(void)state;
	flight_answer(stage, x, PART);
	client_close(&stage->client.client, "left");
	assert_int_equal(x->state, EXCHANGE_DRAINING);
	assert_int_equal(x->connection->wait.reason, WAIT_DRAIN);
	assert_int_equal(x->connection->wait.deadline.at_ms, STAGE_START_MS + 7000);
	stage_at(stage, 3000);
	stage_server_sends(stage, 0, "b"); /* which gives it no more time */
	assert_int_equal(x->connection->wait.deadline.at_ms, STAGE_START_MS + 7000);
	assert_int_equal(x->down.max_bytes - x->down.content_bytes, 1024 * 1024 - 1);
	stage_pass(stage, &x->connection->wait.deadline);
	assert_int_equal(x->state, EXCHANGE_ENDED);
	assert_int_equal(flight_server(stage)->fails, 0); /* not its fault */
	stage_end(stage);
}

static void at_the_end_of_all_nothing_is_followed(void **state)
{
	struct stage *stage = stage_begin(&plain);
	struct exchange *x = flight_begin(stage, POST);

	(void)state;
	stage->worker->stopping = true;
	client_close(&stage->client.client, "shutdown");
	assert_int_equal(x->state, EXCHANGE_ENDED);
	assert_string_equal(x->outcome, "shutdown");
	stage_end(stage);
}

static void a_held_interim_response_holds_no_orphan(void **state)
{
	struct stage *stage = stage_begin(&plain);
	struct exchange *x = flight_begin(stage, POST);

	(void)state;
	stage->client.out.body = SLICE("rest");
	flight_answer(stage, x, "HTTP/1.1 103 Early\r\n\r\n" SHORT);
	assert_true(x->interim.heads == INTERIM_HELD);
	client_close(&stage->client.client, "left");
	assert_int_equal(x->connection->wait.reason, WAIT_RESPONSE);
	stage_turn(stage); /* what is here already is read */
	stage_turn(stage);
	assert_int_equal(x->state, EXCHANGE_ENDED);
	assert_true(x->response_progress == RESPONSE_RECEIVED);
	stage->client.out.body = SLICE_NONE;
	stage_end(stage);
}

UNIT_SUITE(test_respond_alone)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_switch_before_the_request_has_left_is_none),
		cmocka_unit_test(a_refused_upgrade_is_a_request),
		cmocka_unit_test(a_write_is_followed_and_a_free_read_is_not),
		cmocka_unit_test(a_read_that_holds_a_place_is_followed),
		cmocka_unit_test(an_upgrade_without_a_client_ends),
		cmocka_unit_test(a_cut_request_holds_its_place_until_its_server_has_done),
		cmocka_unit_test(a_connection_with_a_part_of_a_request_serves_no_other),
		cmocka_unit_test(what_is_followed_has_bounds),
		cmocka_unit_test(at_the_end_of_all_nothing_is_followed),
		cmocka_unit_test(a_held_interim_response_holds_no_orphan),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
