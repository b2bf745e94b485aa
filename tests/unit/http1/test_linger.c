/* Lingering: a connection whose last response is written while its client still sends, and each end
 * that it has. */
#include "http1/linger.h"

#include "connected.h"
#include "tests/unit/suite.h"

/* Its body is too long to be worth reading. */
#define UPLOAD "PUT /none HTTP/1.1\r\nHost: h\r\nContent-Length: 900000\r\n\r\nabc"

#define ROUTE .route = "path = /api/"

/* A refused upload, whose answer is out. */
static void refuse(struct connected *c, const struct stage_conf *conf)
{
	connected_open(c, conf);
	connected_send(c, UPLOAD);
	assert_has(connected_got(c), "HTTP/1.1 404 ");
}

static const struct stage_conf plain = {ROUTE};

static void what_still_comes_is_thrown_away(void **state)
{
	struct connected c;
	char end[4];

	(void)state;
	refuse(&c, &plain);
	assert_int_equal(c.downstream->state, DOWNSTREAM_LINGERING);
	assert_int_equal(memory_peer_receive(c.wire, end, sizeof(end)), -1); /* its end is shut */
	assert_int_equal(c.stage->listener.lingering, 1);
	assert_null(c.downstream->in.at); /* and holds no buffer */
	connected_send(&c, "more");
	assert_true(connected_is_open(&c));
	assert_null(c.downstream->in.at);
	assert_int_equal(c.downstream->lingered_bytes, 7);
	memory_peer_end_output(c.wire);
	stage_turn(c.stage);
	assert_false(connected_is_open(&c));
	connected_end(&c);
}

static void silence_ends_it(void **state)
{
	struct connected c;

	(void)state;
	refuse(&c, &plain);
	assert_int_equal(c.downstream->wait.reason, WAIT_LINGER);
	assert_int_equal(c.downstream->wait.deadline.at_ms, STAGE_START_MS + 5000);
	stage_at(c.stage, 4000);
	connected_send(&c, "x");
	assert_int_equal(c.downstream->wait.deadline.at_ms, STAGE_START_MS + 9000);
	stage_pass(c.stage, &c.downstream->wait.deadline);
	assert_false(connected_is_open(&c));
	connected_end(&c);
}

static void linger_timeout_is_the_latest(void **state)
{
	const struct stage_conf conf = {ROUTE, .listener = "linger_timeout = 7s"};
	struct connected c;

	(void)state;
	refuse(&c, &conf);
	stage_at(c.stage, 4000);
	connected_send(&c, "x");
	assert_int_equal(c.downstream->wait.deadline.at_ms, STAGE_START_MS + 7000);
	connected_end(&c);
}

static void one_that_was_slow_has_two_seconds(void **state)
{
	struct connected c;

	(void)state;
	connected_slow(&c, &plain);
	assert_int_equal(c.downstream->state, DOWNSTREAM_LINGERING);
	assert_int_equal(c.downstream->wait.deadline.at_ms, worker_now_ms(c.stage->worker) + 2000);
	connected_end(&c);
}

static void linger_size_is_the_most(void **state)
{
	const struct stage_conf conf = {ROUTE, .listener = "linger_size = 5k"};
	struct connected c;
	char block[5118];

	(void)state;
	refuse(&c, &conf);
	memset(block, 'x', sizeof(block) - 1);
	block[5116] = '\0';
	connected_send(&c, block);
	assert_true(connected_is_open(&c)); /* 5119 */
	connected_send(&c, "x");
	assert_false(connected_is_open(&c));
	connected_end(&c);
}

static void where_none_may_it_is_closed_at_once(void **state)
{
	const struct stage_conf conf = {ROUTE, .listener = "max_lingering = 0"};
	struct connected c;

	(void)state;
	connected_open(&c, &conf);
	connected_send(&c, UPLOAD);
	assert_false(connected_is_open(&c));
	assert_has(connected_got(&c), "HTTP/1.1 404 ");
	connected_end(&c);
}

static void it_gives_way(void **state)
{
	struct connected c;

	(void)state;
	refuse(&c, &plain);
	assert_true(downstream_give_way(&c.stage->listener));
	assert_false(connected_is_open(&c));
	assert_false(downstream_give_way(&c.stage->listener));
	connected_end(&c);
}

static void a_drain_shortens_it(void **state)
{
	const struct stage_conf conf = {ROUTE, .node = "shutdown_timeout = 1s"};

	(void)state;
	for (unsigned soon = 0; soon < 2; soon++) {
		struct connected c;
		refuse(&c, soon ? &conf : &plain);
		c.stage->worker->draining = true;
		c.stage->worker->drain_began_ms = worker_now_ms(c.stage->worker);
		linger_drain(c.downstream);
		assert_int_equal(
			c.downstream->wait.deadline.at_ms, STAGE_START_MS + (soon ? 500 : 1000));
		connected_end(&c);
	}
}

UNIT_SUITE(test_linger)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_still_comes_is_thrown_away),
		cmocka_unit_test(silence_ends_it),
		cmocka_unit_test(linger_timeout_is_the_latest),
		cmocka_unit_test(one_that_was_slow_has_two_seconds),
		cmocka_unit_test(linger_size_is_the_most),
		cmocka_unit_test(where_none_may_it_is_closed_at_once),
		cmocka_unit_test(it_gives_way),
		cmocka_unit_test(a_drain_shortens_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
