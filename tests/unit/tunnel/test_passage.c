/* What an exchange becomes behind a 101: how it begins, what passes, and each way in which it ends.
 */
#include "tunnel/passage.h"

#include <malloc.h>

#include "daemon/wait_check.h"
#include "tests/unit/exchange/fakes/flight.h"
#include "stats/stats.h"
#include "tests/unit/suite.h"

#define UPGRADE                                                                                    \
	"GET /chat?token=x HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"   \
	"User-Agent: test/1\r\nReferer: /from\r\n"                                                 \
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
#define SWITCHED "HTTP/1.1 101 Go\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n"

static const struct stage_conf upgrades = {
	.route = "upgrade = websocket", .upstream = "max_streams = 1\ntunnel_timeout = 9s"};

static struct passage *passage_of(struct stage *stage, const char *answer)
{
	stage_ask(stage, UPGRADE);
	stage_server_got(stage, 0);
	stage_server_sends(stage, 0, answer);
	exchange_run(stage->client.client.first);
	stage_turn(stage);
	assert_non_null(tunnel_part(stage->worker)->passages);
	return tunnel_part(stage->worker)->passages;
}

static struct passage *opened(struct stage **stage, const struct stage_conf *conf)
{
	*stage = stage_begin(conf);
	struct passage *p = passage_of(*stage, SWITCHED);
	assert_has(stage_client_got(*stage), "HTTP/1.1 101 Go\r\n");
	return p;
}

static void server_sends(struct stage *stage, const char *bytes)
{
	stage_server_sends(stage, 0, bytes);
}

static void client_sends(struct stage *stage, const char *bytes)
{
	stage_client_sends(stage, bytes);
	stage_turn(stage);
}

static bool has_ended(const struct stage *stage)
{
	return !tunnel_part(stage->worker)->passages;
}

/* ---- beginning ------------------------------------------------------------------------------- */

static void it_takes_over_what_the_exchange_had(void **state)
{
	struct queue_counts counts;
	struct stage *stage;
	struct passage *p = opened(&stage, &upgrades);

	(void)state;
	assert_string_equal(stage->client.trace, "read-upgrade tunnel leave ");
	assert_int_equal(flight_server(stage)->in_flight, 0); /* a place is for what ends */
	assert_int_equal(flight_server(stage)->streams, 1);
	assert_int_equal(exchange_part(stage->worker)->count, 1);
	assert_int_equal(stage->listener.connections, 1);
	queue_count(stage->daemon.node.queue, &counts);
	assert_int_equal(counts.detached, 1); /* it orders nothing any more */
	assert_non_null(p->ticket.session);
	assert_null(wait_check_passage(p));
	passage_end(p, "test");
	assert_int_equal(stage->listener.connections, 0);
	assert_int_equal(flight_server(stage)->streams, 0);
	stage_end(stage); /* nothing is left */
}

/* While nothing passes it has no block, and of its request only what its line says. */
static void it_is_small_while_nothing_passes(void **state)
{
	struct stage *stage;
	struct passage *p = opened(&stage, &upgrades);

	(void)state;
	client_sends(stage, "up");
	server_sends(stage, "down");
	assert_null(p->up.in->at);
	assert_null(p->down.in->at);
	assert_null(p->up.flow->prefix.at);
	assert_null(p->down.flow->prefix.at);
	assert_null(p->account.receipt);
	assert_true(malloc_usable_size(p) + malloc_usable_size(p->account.line) < 1700);
	stage_end(stage);
}

static void what_comes_with_the_101_is_not_lost(void **state)
{
	struct stage *stage = stage_begin(&upgrades);

	(void)state;
	stage_ask(stage, UPGRADE);
	assert_has(stage_server_got(stage, 0), "Upgrade: websocket\r\n");
	stage_client_sends(stage, "early");
	stage_server_sends(stage, 0, SWITCHED "with it");
	exchange_run(stage->client.client.first);
	stage_turn(stage);
	const char *got = stage_client_got(stage);
	assert_has(got, "HTTP/1.1 101 Go\r\n");
	assert_string_equal(got + strlen(got) - 7, "with it");
	assert_string_equal(stage_server_got(stage, 0), "early");
	stage_end(stage);
}

/* ---- bytes ----------------------------------------------------------------------------------- */

static void bytes_pass_both_ways(void **state)
{
	struct stage *stage;
	struct passage *p = opened(&stage, &upgrades);

	(void)state;
	client_sends(stage, "to the server");
	assert_string_equal(stage_server_got(stage, 0), "to the server");
	server_sends(stage, "to the client");
	assert_string_equal(stage_client_got(stage), "to the client");
	assert_int_equal(p->up.bytes, 13);
	assert_int_equal(p->down.bytes, 13);
	stage_end(stage);
}

/* What the one side does not take holds the other back, and loses nothing. */
static void a_side_that_takes_nothing_holds_the_other_back(void **state)
{
	static char block[STAGE_ROOM];
	struct stage *stage;
	size_t sent = 0, got = 0;

	(void)state;
	memset(block, 'b', sizeof(block));
	opened(&stage, &upgrades);
	for (unsigned i = 0; i < 8; i++) {
		sent += memory_peer_send(stage->client.wire, block, sizeof(block));
		stage_turn(stage);
	}
	assert_true(sent > STAGE_ROOM && sent < 4 * STAGE_ROOM);
	for (unsigned i = 0; i < 16; i++) {
		got += strlen(stage_server_got(stage, 0));
		stage_turn(stage);
	}
	assert_int_equal(got, sent);
	stage_end(stage);
}

static void each_way_ends_by_itself(void **state)
{
	struct stage *stage;
	char end[8];

	(void)state;
	opened(&stage, &upgrades);
	memory_peer_end_output(stage->client.wire);
	stage_turn(stage);
	assert_int_equal(memory_peer_receive(stage->servers[0].wire, end, sizeof(end)), -1);
	assert_false(has_ended(stage));
	server_sends(stage, "still");
	assert_string_equal(stage_client_got(stage), "still");
	memory_peer_end_output(stage->servers[0].wire);
	stage_turn(stage);
	assert_true(has_ended(stage));
	assert_lacks(lines.text, "outcome=");
	stage_end(stage);
}

/* ---- ends ------------------------------------------------------------------------------------ */

static void nobody_speaks(void **state)
{
	struct stage *stage;
	struct passage *p = opened(&stage, &upgrades);

	(void)state;
	assert_int_equal(p->wait.reason, WAIT_TUNNEL);
	stage_at(stage, 4000);
	server_sends(stage, "x");
	assert_int_equal(p->wait.deadline.at_ms, STAGE_START_MS + 13000);
	stage_at(stage, 5000);
	stream_expect_input(&p->client); /* nothing came: no more time */
	stage_turn(stage);
	assert_int_equal(p->wait.deadline.at_ms, STAGE_START_MS + 13000);
	stage_pass(stage, &p->wait.deadline);
	assert_true(has_ended(stage));
	assert_has(lines.text, "outcome=\"tunnel idle\"");
	stage_end(stage);
}

static void a_reset_of_the_server(void **state)
{
	struct stage *stage;
	char end[8];

	(void)state;
	opened(&stage, &upgrades);
	memory_peer_reset(stage->servers[0].wire);
	stage_turn(stage);
	assert_true(has_ended(stage));
	assert_int_equal(memory_peer_receive(stage->client.wire, end, sizeof(end)), -2);
	assert_has(lines.text, "outcome=\"tunnel cut\"");
	stage_end(stage);
}

static void a_reset_of_the_client(void **state)
{
	struct stage *stage;
	char end[8];

	(void)state;
	opened(&stage, &upgrades);
	memory_peer_reset(stage->client.wire);
	stage_turn(stage);
	assert_true(has_ended(stage));
	assert_int_equal(memory_peer_receive(stage->servers[0].wire, end, sizeof(end)), -2);
	assert_has(lines.text, "outcome=\"client gone\"");
	stage_end(stage);
}

/* A reset throws away what its receiver has not taken yet: that goes first. */
static void bytes_go_before_a_reset(void **state)
{
	struct stage *stage;
	struct passage *p = opened(&stage, &upgrades);
	char end[8];

	(void)state;
	server_sends(stage, "last");
	memory_peer_reset(stage->servers[0].wire);
	stage_turn(stage);
	for (unsigned i = 0; i < 3; i++) {
		assert_false(has_ended(stage));
		assert_null(wait_check_passage(p));
		stage_pass(stage, &p->wait.deadline);
	}
	client_sends(stage, "too late");
	assert_string_equal(stage_client_got(stage), "last");
	stage_pass(stage, &p->wait.deadline);
	assert_true(has_ended(stage));
	assert_int_equal(memory_peer_receive(stage->client.wire, end, sizeof(end)), -2);
	assert_has(lines.text, "outcome=\"tunnel cut\"");
	stage_end(stage);
}

static void a_reset_waits_no_longer_than_its_receiver_takes(void **state)
{
	struct stage *stage;
	struct passage *p = opened(&stage, &upgrades);
	unsigned looks = 0;

	(void)state;
	server_sends(stage, "never read");
	memory_peer_reset(stage->servers[0].wire);
	stage_turn(stage);
	for (; looks < 2000 && !has_ended(stage); looks++)
		stage_pass(stage, &p->wait.deadline);
	assert_in_range(looks, 10, 1000);
	assert_in_range(
		worker_now_ms(stage->worker), STAGE_START_MS + 5000, STAGE_START_MS + 30000);
	stage_end(stage);
}

/* Its receiver is gone, too. */
static void a_reset_of_both(void **state)
{
	struct stage *stage;

	(void)state;
	opened(&stage, &upgrades);
	server_sends(stage, "last");
	memory_peer_reset(stage->servers[0].wire);
	stage_turn(stage);
	assert_false(has_ended(stage));
	memory_peer_reset(stage->client.wire);
	stage_turn(stage);
	assert_true(has_ended(stage));
	stage_end(stage);
}

/* The client has ended its half, and then takes nothing more. */
static void a_reset_behind_the_end(void **state)
{
	struct stage *stage;
	char end[8];

	(void)state;
	opened(&stage, &upgrades);
	memory_peer_end_output(stage->client.wire);
	stage_turn(stage);
	memory_peer_reset(stage->client.wire);
	server_sends(stage, "more");
	assert_true(has_ended(stage));
	assert_int_equal(memory_peer_receive(stage->servers[0].wire, end, sizeof(end)), -2);
	stage_end(stage);
}

/* The server takes nothing, so the client is not read: its reset is seen nevertheless. */
static void a_reset_behind_what_is_not_read(void **state)
{
	static char block[STAGE_ROOM];
	struct stage *stage;
	struct passage *p = opened(&stage, &upgrades);

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		memory_peer_send(stage->client.wire, block, sizeof(block));
		stage_turn(stage);
	}
	memory_peer_reset(stage->client.wire);
	stage_turn(stage);
	assert_ptr_equal(p->resets, &p->server);
	for (unsigned i = 0; i < 1000 && !has_ended(stage); i++)
		stage_pass(stage, &p->wait.deadline);
	assert_true(has_ended(stage));
	assert_has(lines.text, "outcome=\"client gone\"");
	stage_end(stage);
}

static void abort_sessions(struct stage *stage)
{
	queue_close_all(stage->daemon.node.queue, SESSION_ABORTED, worker_now_ns(stage->worker));
}

static void its_session_is_aborted(void **state)
{
	struct stage *stage;

	(void)state;
	opened(&stage, &upgrades);
	abort_sessions(stage);
	assert_false(has_ended(stage));
	stage_turn(stage);
	assert_true(has_ended(stage));
	assert_has(lines.text, "outcome=\"session aborted\"");
	stage_end(stage);
}

/* It ends while the queue's message is under way: its memory waits for that. */
static void it_ends_before_the_queues_message(void **state)
{
	struct stage *stage;
	struct passage *p = opened(&stage, &upgrades);

	(void)state;
	abort_sessions(stage);
	passage_end(p, "test");
	assert_true(p->awaits_message);
	assert_has(lines.text, "outcome=\"test\"");
	stage_turn(stage);
	stage_end(stage);
}

/* ---- account --------------------------------------------------------------------------------- */

static uint64_t route_count(const struct stage *stage, unsigned slot)
{
	uint64_t slots[STATS_ROUTE_SLOTS];

	stats_sum(stage->daemon.node.stats, STATS_ROUTE, stage->daemon.site->rows.routes[0], slots);
	return slots[slot];
}

static void its_line_says_what_its_request_said(void **state)
{
	const struct stage_conf conf = {
		.more = "[limit l]\nrate = 5 per 1h\nkey = query:token", .route = "limits = l"};
	struct stage *stage;
	struct passage *p = opened(&stage, &conf);

	(void)state;
	client_sends(stage, "12345");
	server_sends(stage, "123");
	stage_at(stage, 2500);
	lines_clear();
	passage_end(p, NULL);
	assert_has(lines.text, "192.0.2.1 - - [");
	assert_has(
		lines.text, "\"GET /chat?token=*** HTTP/1.1\" 101 3 \"/from\" \"test/1\" id=0000");
	assert_has(lines.text, " limit=l verdict=admit queue_ms=0.000 upstream=u "
			       "upstream_status=101 upstream_ms=2500.000 total_ms=2500.000");
	assert_int_equal(route_count(stage, STATS_RECEIVED_BYTES), 5);
	assert_int_equal(route_count(stage, STATS_SENT_BYTES), 3);
	stage_end(stage);
}

/* What its limits admitted counts when it begins, the request when it is over. */
static void its_verdict_counts_at_once(void **state)
{
	const struct stage_conf conf = {
		.more = "[limit l]\nconcurrency = 1\nkey = ip", .route = "limits = l"};
	uint64_t slots[STATS_LIMIT_SLOTS];
	struct stage *stage;
	struct passage *p = opened(&stage, &conf);
	const unsigned admitted = STATS_REQUESTS + 1 * STATS_VERDICTS + STATS_ADMIT;

	(void)state;
	stats_sum(stage->daemon.node.stats, STATS_LIMIT, stage->daemon.site->rows.limits[0], slots);
	assert_int_equal(slots[STATS_LIMIT_VERDICT + STATS_LIMIT_ADMITTED], 1);
	assert_int_equal(route_count(stage, admitted), 0);
	assert_non_null(p->account.receipt); /* its place among those in flight */
	stage->asks = &stage->other;
	assert_int_equal(stage_ask(stage, GET)->answer.status, 429);
	passage_end(p, NULL);
	assert_int_equal(route_count(stage, admitted), 1);
	stage_forget(stage);
	assert_int_equal(stage_ask(stage, GET)->state, EXCHANGE_FORWARDING);
	stage_end(stage);
}

/* Limits in bytes are charged while they pass. */
static void its_bytes_are_charged(void **state)
{
	const struct stage_conf conf = {
		.more = "[limit l]\nrate = 10B per 1h\nkey = ip", .route = "limits = l"};
	struct stage *stage;

	(void)state;
	opened(&stage, &conf);
	client_sends(stage, "0123456789abcdef");
	stage->asks = &stage->other;
	assert_int_equal(stage_ask(stage, GET)->answer.status, 429);
	stage_end(stage);
}

UNIT_SUITE(test_passage)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_takes_over_what_the_exchange_had),
		cmocka_unit_test(it_is_small_while_nothing_passes),
		cmocka_unit_test(what_comes_with_the_101_is_not_lost),
		cmocka_unit_test(bytes_pass_both_ways),
		cmocka_unit_test(a_side_that_takes_nothing_holds_the_other_back),
		cmocka_unit_test(each_way_ends_by_itself),
		cmocka_unit_test(nobody_speaks),
		cmocka_unit_test(a_reset_of_the_server),
		cmocka_unit_test(a_reset_of_the_client),
		cmocka_unit_test(bytes_go_before_a_reset),
		cmocka_unit_test(a_reset_waits_no_longer_than_its_receiver_takes),
		cmocka_unit_test(a_reset_of_both),
		cmocka_unit_test(a_reset_behind_the_end),
		cmocka_unit_test(a_reset_behind_what_is_not_read),
		cmocka_unit_test(its_session_is_aborted),
		cmocka_unit_test(it_ends_before_the_queues_message),
		cmocka_unit_test(its_line_says_what_its_request_said),
		cmocka_unit_test(its_verdict_counts_at_once),
		cmocka_unit_test(its_bytes_are_charged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
