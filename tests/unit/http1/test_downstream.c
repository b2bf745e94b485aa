/* A client's connection from its first byte to its end: the order of its responses, when they are
 * written, its deadlines, drains, and each way in which it closes. */
#include "http1/downstream.h"

#include "connected.h"
#include "exchange/hop.h"
#include "stats/stats.h"
#include "tests/unit/suite.h"

#define OK1    "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na"
#define NONE   "GET /none HTTP/1.1\r\nHost: h\r\n\r\n"
#define CLOSES "GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
#define OLD    "GET / HTTP/1.0\r\n\r\n"

static const struct stage_conf plain = {.route = "path = =/"};

/* ---- the beginning --------------------------------------------------------------------------- */

static void what_is_known_of_it(void **state)
{
	struct connected c;

	(void)state;
	connected_open(&c, &plain);
	assert_true(slice_equal(forwarded_peer_text(&c.downstream->peer), SLICE("192.0.2.1")));
	assert_int_equal(c.stage->daemon.node.clients, 1);
	assert_int_equal(stage_count(c.stage, STATS_CONNECTIONS), 1);
	assert_int_equal(c.downstream->state, DOWNSTREAM_OPEN);
	assert_false(c.downstream->peer.trusted);
	connected_end(&c);
}

static void several_close_in_any_order(void **state)
{
	static const unsigned orders[][3] = {{0, 1, 2}, {2, 1, 0}, {1, 0, 2}, {1, 2, 0}};

	(void)state;
	for (unsigned o = 0; o < 4; o++) {
		struct stage *stage = stage_begin(&plain);
		struct memory_peer *wires[3];
		struct downstream *at[3];
		for (unsigned i = 0; i < 3; i++)
			at[i] = connected_accept(stage, &wires[i], "192.0.2.1");
		for (unsigned i = 0; i < 3; i++) {
			downstream_close(at[orders[o][i]], "test");
			downstream_close(at[orders[o][i]], "again"); /* nothing more */
			assert_int_equal(stage->daemon.node.clients, 2 - i);
			assert_int_equal(stage->listener.connections, 2 - i);
			unsigned left = 0;
			for (struct downstream *d = http1_part(stage->worker)->downstreams; d;
				d = d->next)
				left++;
			assert_int_equal(left, 2 - i);
		}
		stage_turn(stage);
		for (unsigned i = 0; i < 3; i++)
			memory_peer_close(wires[i]);
		stage_end(stage);
	}
}

/* A reload may trust other proxies, and changes nothing of the request that is under way. */
static void a_peer_is_judged_again_under_a_new_site(void **state)
{
	struct connected c;

	(void)state;
	connected_open(&c, &plain);
	const struct conf_listener *before = c.stage->listener.conf;
	struct conf_listener after = *before;
	struct conf_cidr cidr = {.address = {[10] = 0xff, [11] = 0xff}, .prefix = 96};
	after.trusted_proxies = (struct conf_cidrs){&cidr, 1};
	c.stage->listener.conf = &after;
	downstream_judge_peer(c.downstream);
	assert_false(c.downstream->peer.trusted); /* the same site */
	c.stage->daemon.site->serial++;
	downstream_judge_peer(c.downstream);
	assert_true(c.downstream->peer.trusted);
	assert_int_equal(c.downstream->judged_by, c.stage->daemon.site->serial);
	c.stage->listener.conf = before;
	connected_end(&c);
}

/* ---- order and writing ----------------------------------------------------------------------- */

static void answers_of_our_own_wait_for_those_before(void **state)
{
	struct connected c;

	(void)state;
	connected_open(&c, &plain);
	connected_send(&c, GET NONE GET);
	assert_int_equal(c.downstream->exchange_count, 3);
	assert_string_equal(connected_got(&c), "");
	connected_answer(&c, 0, OK1);
	const char *got = connected_got(&c);
	assert_has(got, "\r\n\r\na");
	const char *second = strstr(got, "HTTP/1.1 404 ");
	assert_non_null(second);
	assert_true(second > strstr(got, "\r\n\r\na"));
	assert_int_equal(c.downstream->exchange_count, 1);
	connected_answer(&c, 0, OK1);
	assert_has(connected_got(&c), "\r\n\r\na");
	assert_int_equal(c.downstream->exchange_count, 0);
	connected_end(&c);
}

/* A turn has its share of requests: the rest is read in the next. */
static void it_leaves_turns_to_others(void **state)
{
	const struct stage_conf conf = {.listener = "pipeline_depth = 1000", .route = "path = =/"};
	struct connected c;
	char *many = calloc(1, 100 * strlen(NONE) + 1);
	unsigned turns = 0;

	(void)state;
	assert_non_null(many);
	for (unsigned i = 0; i < 100; i++)
		strcat(many, NONE);
	connected_open(&c, &conf);
	assert_int_equal(memory_peer_send(c.wire, many, strlen(many)), strlen(many));
	while (c.downstream->begun < 100) {
		uint64_t before = c.downstream->begun;
		stage_at(c.stage, ++turns);
		stage_turn(c.stage);
		assert_true(c.downstream->begun > before);
		assert_true(c.downstream->begun <= before + DOWNSTREAM_TURN_WORK);
		connected_got(&c);
	}
	assert_true(turns >= 100 / DOWNSTREAM_TURN_WORK);
	free(many);
	connected_end(&c);
}

static void no_request_behind_an_answer_that_closes(void **state)
{
	struct connected c;

	(void)state;
	connected_open(&c, &plain);
	connected_send(&c, GET GET);
	c.downstream->client.first->close_client = true;
	connected_answer(&c, 0, OK1);
	assert_has(connected_got(&c), "Connection: close\r\n");
	assert_false(connected_is_open(&c));
	assert_int_equal(stage_count(c.stage, STATS_CLIENT_GONE), 0);
	connected_end(&c);
}

/* ---- its end --------------------------------------------------------------------------------- */

static void after_the_last_answer_it_closes(void **state)
{
	struct connected c;

	(void)state;
	connected_open(&c, &plain);
	connected_send(&c, CLOSES);
	assert_int_equal(c.downstream->state, DOWNSTREAM_FINISHING);
	connected_answer(&c, 0, OK1);
	char byte;
	assert_has(connected_got(&c), "\r\n\r\na");
	assert_false(connected_is_open(&c));
	assert_int_equal(memory_peer_receive(c.wire, &byte, 1), -1); /* and no reset */
	connected_end(&c);
}

/* Of a request that was refused the rest may come: where it can't, nobody waits for it. */
static void it_lingers_where_more_may_come(void **state)
{
	(void)state;
	for (unsigned ended = 0; ended < 2; ended++) {
		struct connected c;
		connected_open(&c, &plain);
		static const char put[] =
			"PUT /none HTTP/1.1\r\nHost: h\r\nContent-Length: 900000\r\n\r\n";
		memory_peer_send(c.wire, put, strlen(put));
		if (ended)
			memory_peer_end_output(c.wire);
		stage_turn(c.stage);
		stage_turn(c.stage);
		assert_has(connected_got(&c), "HTTP/1.1 404 ");
		assert_int_equal(connected_is_open(&c), !ended);
		if (!ended)
			assert_int_equal(c.downstream->state, DOWNSTREAM_LINGERING);
		connected_end(&c);
	}
}

/* Of a body that the close would end, a reset tells that it is not whole. */
static void one_that_is_cut_is_reset_where_its_end_would_lie(void **state)
{
	(void)state;
	for (unsigned cut = 0; cut < 2; cut++) {
		struct connected c;
		char byte;
		connected_open(&c, &plain);
		connected_send(&c, OLD);
		connected_answer(&c, 0, "HTTP/1.1 200 OK\r\n\r\nab");
		assert_has(connected_got(&c), "\r\n\r\nab");
		if (cut)
			downstream_close(c.downstream, "test");
		else
			memory_peer_end_output(c.stage->servers[0].wire);
		stage_turn(c.stage);
		assert_false(connected_is_open(&c));
		assert_int_equal(memory_peer_receive(c.wire, &byte, 1), cut ? -2 : -1);
		connected_end(&c);
	}
}

static void a_client_that_half_closed_is_asked_once_whether_it_left(void **state)
{
	static const struct {
		const char *request;
		bool is_probed;
	} rows[] = {{GET, true}, {OLD, false}};

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct connected c;
		connected_open(&c, &plain);
		connected_send(&c, rows[i].request);
		memory_peer_end_output(c.wire);
		stage_turn(c.stage);
		stage_turn(c.stage);
		assert_string_equal(connected_got(&c),
			rows[i].is_probed ? "HTTP/1.1 100 Continue\r\n\r\n" : "");
		stream_wake(&c.downstream->stream);
		stage_turn(c.stage);
		assert_string_equal(connected_got(&c), "");
		assert_true(connected_is_open(&c));
		connected_end(&c);
	}
}

static void one_that_takes_nothing_is_cut(void **state)
{
	const struct stage_conf conf = {
		.route = "path = =/\nresponse_buffering = off", .listener = "send_timeout = 4s"};
	struct connected c;
	char *block = malloc(60001);

	(void)state;
	assert_non_null(block);
	memset(block, 'x', 60000);
	block[60000] = '\0';
	connected_open(&c, &conf);
	connected_send(&c, GET);
	connected_answer(&c, 0, "HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n\r\n");
	for (unsigned i = 0; i < 3; i++) {
		memory_peer_send(c.stage->servers[0].wire, block, 60000);
		stage_turn(c.stage);
	}
	assert_int_equal(c.downstream->wait.reason, WAIT_TAKE);
	assert_int_equal(c.downstream->wait.deadline.at_ms, STAGE_START_MS + 4000);
	stage_pass(c.stage, &c.downstream->wait.deadline);
	assert_false(connected_is_open(&c));
	assert_has(lines.text, "outcome=\"send timeout\"");
	free(block);
	connected_end(&c);
}

static void a_body_that_does_not_come_is_answered_408(void **state)
{
	const struct stage_conf conf = {.route = "path = =/", .listener = "body_timeout = 6s"};
	struct connected c;

	(void)state;
	connected_open(&c, &conf);
	connected_send(&c, "PUT / HTTP/1.1\r\nHost: h\r\nContent-Length: 9\r\n\r\na");
	assert_int_equal(c.downstream->wait.reason, WAIT_BODY);
	assert_int_equal(c.downstream->wait.deadline.at_ms, STAGE_START_MS + 6000);
	stage_pass(c.stage, &c.downstream->wait.deadline);
	assert_has(connected_got(&c), "HTTP/1.1 408 ");
	assert_true(c.downstream->was_slow);
	connected_end(&c);
}

/* ---- drains ---------------------------------------------------------------------------------- */

/* A request that came at the last moment is answered. */
static void one_that_has_just_asked_is_answered(void **state)
{
	struct connected c;

	(void)state;
	connected_open(&c, &plain);
	connected_drain(&c);
	memory_peer_send(c.wire, GET, strlen(GET));
	c.downstream->stream.readable = false;
	stage_pass(c.stage, &c.downstream->wait.deadline);
	stage_turn(c.stage);
	assert_true(connected_is_open(&c));
	connected_answer(&c, 0, OK1);
	assert_has(connected_got(&c), "Connection: close\r\n");
	assert_false(connected_is_open(&c));
	connected_end(&c);
}

static void which_is_the_last_in_a_drain(void **state)
{
	struct connected c;

	(void)state;
	connected_open(&c, &plain);
	connected_send(&c, GET);
	struct exchange *x = c.downstream->client.first;
	connected_drain(&c);
	assert_true(downstream_is_last(c.downstream, x));
	c.downstream->stream.readable = true; /* more is there */
	assert_false(downstream_is_last(c.downstream, x));
	stage_at(c.stage, 1000);
	assert_false(downstream_is_last(c.downstream, x));
	stage_at(c.stage, 1001); /* it does not continue for ever */
	assert_true(downstream_is_last(c.downstream, x));
	connected_send(&c, GET);
	assert_false(downstream_is_last(c.downstream, x));
	assert_true(downstream_is_last(c.downstream, x->next));
	connected_end(&c);
}

/* As one of another node's, which has proven that it is. */
static void be_of_a_node(struct connected *c)
{
	assert_null(hop_open(&c->downstream->client, worker_now_ms(c->stage->worker)));
	idle_list_take_out(&c->stage->listener.unproven, &c->downstream->client.hop->unproven);
	c->stage->listener.unproven_count--;
	c->downstream->client.hop->asker = NULL;
	c->downstream->client.hop->state = HOP_PROVEN;
}

/* A request may be on its way when it closes: that is answered before, and goes nowhere. */
static void one_of_a_node_closes_with_an_answer_to_what_may_be_under_way(void **state)
{
	struct connected c;

	(void)state;
	connected_open(&c, &plain);
	be_of_a_node(&c);
	connected_drain(&c);
	stage_pass(c.stage, &c.downstream->wait.deadline);
	stage_turn(c.stage);
	const char *got = connected_got(&c);
	assert_has(got, "HTTP/1.1 421 ");
	assert_has(got, "\r\nSluice-Hop: closing\r\n");
	assert_int_equal(c.downstream->state, DOWNSTREAM_LINGERING);
	connected_send(&c, POST); /* it crosses that */
	assert_true(connected_is_open(&c));
	assert_int_equal(c.stage->server_count, 0);
	assert_string_equal(connected_got(&c), "");
	memory_peer_end_output(c.wire);
	stage_turn(c.stage);
	assert_false(connected_is_open(&c));
	connected_end(&c);
}

/* As one that gives way does, which can't wait for that. */
static void one_of_a_node_that_closes_at_once_says_so_too(void **state)
{
	struct connected c;

	(void)state;
	connected_open(&c, &plain);
	be_of_a_node(&c);
	downstream_close(c.downstream, "test");
	assert_has(connected_got(&c), "\r\nSluice-Hop: closing\r\n");
	connected_end(&c);
}

/* What it has asked is answered as ever, or cut. */
static void but_not_where_a_request_is_under_way(void **state)
{
	struct connected c;

	(void)state;
	connected_open(&c, &plain);
	connected_send(&c, GET);
	be_of_a_node(&c);
	downstream_close(c.downstream, "test");
	assert_string_equal(connected_got(&c), "");
	connected_end(&c);
}

static const struct transport *memory;
static uint64_t exchanges_at_close;

static void close_and_look(struct stream *stream)
{
	exchanges_at_close =
		exchange_part(CONTAINER_OF(stream, struct downstream, stream)->worker)->count;
	memory->close(stream);
}

/* Who sees the end may ask again at once, and has the place that was held. */
static void its_peer_sees_the_end_when_all_is_given_back(void **state)
{
	struct connected c;

	(void)state;
	connected_open(&c, &plain);
	connected_send(&c, GET GET);
	memory = c.downstream->stream.transport;
	struct transport looking = *memory;
	looking.close = close_and_look;
	c.downstream->stream.transport = &looking;
	exchanges_at_close = UINT64_MAX;
	downstream_close(c.downstream, "test");
	assert_int_equal(exchanges_at_close, 0);
	stage_turn(c.stage);
	connected_end(&c);
}

UNIT_SUITE(test_downstream)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_known_of_it),
		cmocka_unit_test(several_close_in_any_order),
		cmocka_unit_test(a_peer_is_judged_again_under_a_new_site),
		cmocka_unit_test(answers_of_our_own_wait_for_those_before),
		cmocka_unit_test(it_leaves_turns_to_others),
		cmocka_unit_test(no_request_behind_an_answer_that_closes),
		cmocka_unit_test(after_the_last_answer_it_closes),
		cmocka_unit_test(it_lingers_where_more_may_come),
		cmocka_unit_test(one_that_is_cut_is_reset_where_its_end_would_lie),
		cmocka_unit_test(a_client_that_half_closed_is_asked_once_whether_it_left),
		cmocka_unit_test(one_that_takes_nothing_is_cut),
		cmocka_unit_test(a_body_that_does_not_come_is_answered_408),
		cmocka_unit_test(one_that_has_just_asked_is_answered),
		cmocka_unit_test(which_is_the_last_in_a_drain),
		cmocka_unit_test(one_of_a_node_closes_with_an_answer_to_what_may_be_under_way),
		cmocka_unit_test(one_of_a_node_that_closes_at_once_says_so_too),
		cmocka_unit_test(but_not_where_a_request_is_under_way),
		cmocka_unit_test(its_peer_sees_the_end_when_all_is_given_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
