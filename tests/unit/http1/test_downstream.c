/* A client's connection from its first byte to its end: the order of its responses, when they are
 * written, its deadlines, drains, and each way in which it closes. */
#include "http1/downstream.h"

#include "connected.h"
#include "stats/stats.h"

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
	assert_int_equal(c.stage->relay.node.clients, 1);
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
			assert_int_equal(stage->relay.node.clients, 2 - i);
			assert_int_equal(stage->listener.connections, 2 - i);
			unsigned left = 0;
			for (struct downstream *d = stage->worker->downstreams; d; d = d->next)
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
	struct conf_cidr cidr = {.prefix = 0};
	after.trusted_proxies = (struct conf_cidrs){&cidr, 1};
	c.stage->listener.conf = &after;
	downstream_judge_peer(c.downstream);
	assert_false(c.downstream->peer.trusted); /* the same site */
	c.stage->relay.site->serial++;
	downstream_judge_peer(c.downstream);
	assert_true(c.downstream->peer.trusted);
	assert_int_equal(c.downstream->judged_by, c.stage->relay.site->serial);
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

static void each_request_gives_it_its_idle_time_once_more(void **state)
{
	const struct stage_conf conf = {.route = "path = =/", .listener = "idle_timeout = 5s"};
	struct connected c;

	(void)state;
	connected_open(&c, &conf);
	assert_int_equal(c.downstream->wait.deadline.at_ms, STAGE_START_MS + 5000);
	stage_at(c.stage, 1000);
	downstream_watch(c.downstream); /* nothing has happened */
	assert_int_equal(c.downstream->wait.deadline.at_ms, STAGE_START_MS + 5000);
	connected_send(&c, NONE);
	assert_int_equal(c.downstream->wait.deadline.at_ms, STAGE_START_MS + 6000);
	connected_end(&c);
}

static void begin_drain(struct connected *c)
{
	c->stage->worker->draining = true;
	c->stage->worker->drain_began_ms = worker_now_ms(c->stage->worker);
	if (c->stage->worker->downstreams)
		downstream_drain(c->downstream);
}

/* ---- what the system still has for the client -------------------------------------------------
 */

#define MUCH 20000

static char thousand[1001];

/* It has answered with this many bytes, all of which the system has taken. */
static void answer_with(struct connected *c, unsigned bytes)
{
	char head[64];

	connected_send(c, GET);
	memset(thousand, 'x', sizeof(thousand) - 1);
	snprintf(head, sizeof(head), "HTTP/1.1 200 OK\r\nContent-Length: %u\r\n\r\n", bytes);
	connected_answer(c, 0, head);
	for (unsigned left = bytes; left > 0; left -= 1000)
		connected_answer(c, 0, thousand);
	assert_null(c->downstream->client.first);
	assert_true(flow_is_empty(&c->downstream->client.out));
}

/* The deadlines pass until it is closed; when, since the stage's beginning. */
static uint64_t pass_until_closed(struct connected *c)
{
	while (connected_is_open(c))
		stage_pass(c->stage, &c->downstream->wait.deadline);
	return worker_now_ms(c->stage->worker) - STAGE_START_MS;
}

static void take(struct connected *c, size_t bytes)
{
	char some[STAGE_ROOM];

	assert_true(memory_peer_receive(c->wire, some, bytes) > 0);
}

/* Whether little or much was sent. */
static void its_idle_time_begins_when_all_is_taken(void **state)
{
	const struct stage_conf conf = {.listener = "idle_timeout = 2s\nsend_timeout = 1m"};

	(void)state;
	for (unsigned bytes = 1000; bytes <= MUCH; bytes += MUCH - 1000) {
		struct connected c;
		connected_open(&c, &conf);
		answer_with(&c, bytes);
		while (worker_now_ms(c.stage->worker) < STAGE_START_MS + 9000) {
			stage_pass(c.stage, &c.downstream->wait.deadline);
			assert_true(connected_is_open(&c));
			take(&c, 50);
		}
		uint64_t at_ms = worker_now_ms(c.stage->worker) - STAGE_START_MS;
		take(&c, STAGE_ROOM);
		uint64_t closed_ms = pass_until_closed(&c);
		assert_true(closed_ms >= at_ms + 2000 && closed_ms <= at_ms + 2501);
		connected_end(&c);
	}
}

/* Before the first look: it has no less time for that. */
static void much_may_have_been_taken_late(void **state)
{
	const struct stage_conf conf = {.listener = "idle_timeout = 2s"};
	struct connected c;

	(void)state;
	connected_open(&c, &conf);
	answer_with(&c, MUCH);
	stage_at(c.stage, 490);
	take(&c, STAGE_ROOM);
	uint64_t closed_ms = pass_until_closed(&c);
	assert_true(closed_ms >= 2490 && closed_ms <= 2991);
	connected_end(&c);
	/* A little is taken at once: no look before its time is over. */
	connected_open(&c, &conf);
	answer_with(&c, 1000);
	take(&c, STAGE_ROOM);
	assert_int_equal(pass_until_closed(&c), 2000);
	connected_end(&c);
}

static void one_that_takes_nothing_has_send_timeout(void **state)
{
	const struct stage_conf conf = {.listener = "idle_timeout = 1s\nsend_timeout = 7s"};
	struct connected c;

	(void)state;
	connected_open(&c, &conf);
	answer_with(&c, 1000);
	uint64_t closed_ms = pass_until_closed(&c);
	assert_true(closed_ms >= 8000 && closed_ms <= 8251); /* counted from the first look */
	connected_end(&c);
}

static void a_drain_waits_for_one_that_takes(void **state)
{
	static const struct {
		const char *node;
		bool takes;
		uint64_t least_ms, most_ms;
	} rows[] = {
		{"shutdown_timeout = 40s", true, 35000, 35251},
		{"shutdown_timeout = 40s", false, 6000, 6251},
		{"shutdown_timeout = 4s", false, 3500, 3751},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct stage_conf conf = {.node = rows[i].node};
		struct connected c;
		connected_open(&c, &conf);
		answer_with(&c, MUCH);
		begin_drain(&c);
		while (connected_is_open(&c)) {
			stage_pass(c.stage, &c.downstream->wait.deadline);
			if (rows[i].takes)
				take(&c, 10);
		}
		uint64_t closed_ms = worker_now_ms(c.stage->worker) - STAGE_START_MS;
		assert_true(closed_ms >= rows[i].least_ms && closed_ms <= rows[i].most_ms);
		connected_end(&c);
	}
}

/* ---- drains ---------------------------------------------------------------------------------- */

static void how_long_one_may_be_idle(void **state)
{
	static const struct {
		const char *node, *listener;
		bool drains;
		uint64_t ms;
	} rows[] = {
		{"", "idle_timeout = 3s", false, 3000},
		{"", "idle_timeout = 3s", true, 1000},
		{"", "idle_timeout = 500ms", true, 500},
		{"shutdown_timeout = 1s", "idle_timeout = 3s", true, 500},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct stage_conf conf = {.node = rows[i].node, .listener = rows[i].listener};
		struct connected c;
		connected_open(&c, &conf);
		if (rows[i].drains)
			begin_drain(&c);
		assert_int_equal(c.downstream->wait.deadline.at_ms, STAGE_START_MS + rows[i].ms);
		stage_pass(c.stage, &c.downstream->wait.deadline);
		assert_false(connected_is_open(&c));
		connected_end(&c);
	}
}

/* A request that came at the last moment is answered. */
static void one_that_has_just_asked_is_answered(void **state)
{
	struct connected c;

	(void)state;
	connected_open(&c, &plain);
	begin_drain(&c);
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
	begin_drain(&c);
	assert_true(downstream_is_last(c.downstream, x));
	c.downstream->stream.readable = true; /* more is there */
	assert_false(downstream_is_last(c.downstream, x));
	stage_at(c.stage, 1000);
	assert_false(downstream_is_last(c.downstream, x));
	stage_at(c.stage, 1001); /* it does not go on for ever */
	assert_true(downstream_is_last(c.downstream, x));
	connected_send(&c, GET);
	assert_false(downstream_is_last(c.downstream, x));
	assert_true(downstream_is_last(c.downstream, x->next));
	connected_end(&c);
}

int main(void)
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
		cmocka_unit_test(each_request_gives_it_its_idle_time_once_more),
		cmocka_unit_test(its_idle_time_begins_when_all_is_taken),
		cmocka_unit_test(much_may_have_been_taken_late),
		cmocka_unit_test(one_that_takes_nothing_has_send_timeout),
		cmocka_unit_test(a_drain_waits_for_one_that_takes),
		cmocka_unit_test(how_long_one_may_be_idle),
		cmocka_unit_test(one_that_has_just_asked_is_answered),
		cmocka_unit_test(which_is_the_last_in_a_drain),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
