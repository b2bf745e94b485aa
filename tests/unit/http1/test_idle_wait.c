/* How long a client may be idle: from when it has taken what was sent to it. */
#include "http1/idle_wait.h"

#include "connected.h"
#include "exchange/hop.h"
#include "tests/unit/suite.h"

#define NONE "GET /none HTTP/1.1\r\nHost: h\r\n\r\n"

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
			connected_drain(&c);
		assert_int_equal(c.downstream->wait.deadline.at_ms, STAGE_START_MS + rows[i].ms);
		stage_pass(c.stage, &c.downstream->wait.deadline);
		assert_false(connected_is_open(&c));
		connected_end(&c);
	}
}

/* ---- at the internal listener ------------------------------------------------------------------
 */

static const struct stage_conf internal = {
	.more = "[fleet]\nstore = redis://127.0.0.1:5\nbind = 127.0.0.1:7946\n"
		"secret = file:/of/the/fleet\n"};

static void internal_begin(struct connected *c)
{
	*c = (struct connected){.stage = stage_begin(&internal)};
	const struct conf *conf = c->stage->daemon.site->conf;

	c->stage->listener.conf = &conf->listeners[conf->listener_count - 1];
	assert_true(c->stage->listener.conf->is_internal);
}

static void one_that_proves_nothing_is_soon_closed(void **state)
{
	struct connected c;

	(void)state;
	internal_begin(&c);
	c.downstream = connected_accept(c.stage, &c.wire, "192.0.2.1");
	stage_turn(c.stage);
	assert_int_equal(c.downstream->wait.deadline.at_ms, STAGE_START_MS + HOP_SILENCE_MS);
	stage_pass(c.stage, &c.downstream->wait.deadline);
	assert_false(connected_is_open(&c));
	connected_end(&c);
}

static void one_that_has_is_idle_as_any(void **state)
{
	struct connected c;

	(void)state;
	internal_begin(&c);
	c.downstream = connected_accept(c.stage, &c.wire, "192.0.2.1");
	stage_turn(c.stage);
	c.downstream->client.hop->state = HOP_PROVEN;
	c.downstream->client.hop->proven_to = c.stage->daemon.site->serial;
	connected_send(&c, NONE);
	assert_has(connected_got(&c), "HTTP/1.1 421 ");
	assert_int_equal(c.downstream->wait.deadline.at_ms, STAGE_START_MS + 75000);
	connected_end(&c);
}

/* Of too many that have proven nothing the oldest is closed. */
static void strangers_give_way_to_one_another(void **state)
{
	enum { EXTRA = 3, ALL = HOP_UNPROVEN_MOST + EXTRA };
	static struct memory_peer *wires[ALL];
	struct downstream *first = NULL;
	struct connected c;

	(void)state;
	internal_begin(&c);
	for (unsigned i = 0; i < ALL; i++) {
		struct downstream *d = connected_accept(c.stage, &wires[i], "192.0.2.1");
		if (i == 0)
			first = d;
		if (i == HOP_UNPROVEN_MOST - 1)
			assert_int_equal(first->state, DOWNSTREAM_OPEN);
	}
	assert_int_equal(c.stage->listener.unproven_count, HOP_UNPROVEN_MOST);
	assert_int_equal(c.stage->listener.connections, HOP_UNPROVEN_MOST);
	stage_turn(c.stage);
	for (unsigned i = 0; i < ALL; i++) {
		char byte;
		assert_int_equal(memory_peer_receive(wires[i], &byte, 1) < 0, i < EXTRA);
	}
	while (http1_part(c.stage->worker)->downstreams)
		downstream_close(http1_part(c.stage->worker)->downstreams, "the end");
	assert_int_equal(c.stage->listener.unproven_count, 0);
	stage_turn(c.stage);
	for (unsigned i = 1; i < ALL; i++)
		memory_peer_close(wires[i]);
	c.wire = wires[0];
	connected_end(&c);
}

/* ---- what the system still has for the client ------------------------------------------------ */

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
	assert_true(flow_is_empty(&c->downstream->out));
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
	downstream_watch(
		c.downstream); /* nothing has happened: it is not forgotten that much was sent */
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
		connected_drain(&c);
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

UNIT_SUITE(test_idle_wait)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_request_gives_it_its_idle_time_once_more),
		cmocka_unit_test(how_long_one_may_be_idle),
		cmocka_unit_test(one_that_proves_nothing_is_soon_closed),
		cmocka_unit_test(one_that_has_is_idle_as_any),
		cmocka_unit_test(strangers_give_way_to_one_another),
		cmocka_unit_test(its_idle_time_begins_when_all_is_taken),
		cmocka_unit_test(much_may_have_been_taken_late),
		cmocka_unit_test(one_that_takes_nothing_has_send_timeout),
		cmocka_unit_test(a_drain_waits_for_one_that_takes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
