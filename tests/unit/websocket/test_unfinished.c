/* What sockets hold of messages that are not passed on: counted for the node, and bounded. */
#include "opened.h"
#include "tests/unit/suite.h"

static const struct stage_conf plain = {.route = OPENED_ROUTE "max_message_size = 1M"};

static struct opened o;
static char payload[50000];

static struct node_unfinished *unfinished(void)
{
	return &o.stage->daemon.node.unfinished;
}

static uint64_t held(void)
{
	return atomic_load(&unfinished()->bytes);
}

static void begin(void)
{
	memset(payload, 'x', sizeof(payload));
	opened_begin(&o, &plain);
}

static void send_part(uint8_t first, size_t bytes)
{
	opened_send(&o, o.client.wire, true, first, (struct slice){payload, bytes});
}

static void a_whole_one_is_not_counted(void **state)
{
	(void)state;
	begin();
	opened_client(&o, FRAME_TEXT, "hello");
	assert_int_equal(held(), 0);
	send_part(OPENED_FIN | FRAME_BINARY, sizeof(payload));
	assert_int_equal(held(), 0);
	assert_string_equal(opened_to_server(&o), "text(hello) binary(x x 50000) ");
	opened_end(&o);
}

static void one_that_goes_on_is_counted(void **state)
{
	(void)state;
	begin();
	send_part(FRAME_BINARY, 1);
	uint64_t least = held(), all = 1;
	assert_in_range(least, 1, 4096); /* no block of its own */
	for (; all < 200001; all += 50000) {
		send_part(FRAME_CONTINUATION, 50000);
		assert_string_equal(opened_to_client(&o), "");
		assert_in_range(held(), all + 50000, 2 * (all + 50000) + 4096);
	}
	send_part(OPENED_FIN | FRAME_CONTINUATION, 1);
	assert_int_equal(held(), 0);
	while (o.socket->client.first)
		opened_to_server(&o);
	send_part(FRAME_TEXT, 1);
	assert_int_equal(held(), least);
	opened_end(&o); /* its end gives it back */
}

static void its_end_gives_it_back(void **state)
{
	(void)state;
	begin();
	send_part(FRAME_BINARY, 50000);
	assert_true(held() >= 50000);
	socket_abort(o.socket, "test");
	assert_int_equal(held(), 0);
	opened_end(&o);
}

/* Others hold nearly all there is. */
static void one_too_many_is_closed(void **state)
{
	(void)state;
	unsigned parts = 0;
	begin();
	atomic_store(&unfinished()->bytes, 140000);
	atomic_store(&unfinished()->most, 400000);
	send_part(FRAME_BINARY, 20000);
	assert_in_range(held(), 160000, 400000);
	for (; parts < 10 && !o.socket->closing.begun; parts++)
		send_part(FRAME_CONTINUATION, 50000);
	assert_in_range(parts, 2, 5);
	assert_int_equal(held(), 140000);
	assert_null(o.socket->message.at);
	assert_string_equal(opened_to_client(&o), "close(1013 too many unfinished messages) ");
	assert_string_equal(opened_to_server(&o), "close(1001 too many unfinished messages) ");
	send_part(FRAME_CONTINUATION, 50000); /* too late */
	assert_int_equal(held(), 140000);
	atomic_store(&unfinished()->bytes, 0);
	opened_end(&o);
}

/* Others can hold all there is: nobody is closed for a short message because of them. */
static void a_short_one_is_never_too_many(void **state)
{
	(void)state;
	begin();
	atomic_store(&unfinished()->most, 200000);
	atomic_store(&unfinished()->bytes, 200000);
	send_part(OPENED_FIN | FRAME_BINARY, 100); /* whole */
	send_part(FRAME_BINARY, 3000);
	assert_in_range(held(), 203000, 204096);
	send_part(FRAME_CONTINUATION, 900);
	assert_in_range(held(), 203900, 204096);
	assert_string_equal(opened_to_client(&o), "");
	send_part(FRAME_CONTINUATION, 1000);
	assert_int_equal(held(), 200000);
	assert_string_equal(opened_to_client(&o), "close(1013 too many unfinished messages) ");
	atomic_store(&unfinished()->bytes, 0);
	opened_end(&o);
}

/* ---- those that are whole and wait ----------------------------------------------------------- */

static const struct stage_conf hourly = {.more = "[limit l]\nkey = ip\nrate = 1 per 1h\n",
	.route = OPENED_ROUTE "message_limits = l\n"};

/* What a limit delays has had its turn in the queue, whose bounds do not count it. */
static void one_that_waits_is_counted(void **state)
{
	struct queue_counts counts;

	(void)state;
	opened_begin(&o, &hourly);
	opened_client(&o, FRAME_TEXT, "first");
	assert_int_equal(held(), 0);
	send_part(OPENED_FIN | FRAME_BINARY, sizeof(payload));
	assert_int_equal(o.socket->client.first->state, EXCHANGE_DELAYED);
	queue_count(o.stage->worker->node->queue, &counts);
	assert_int_equal(counts.queued_bytes, 0);
	assert_in_range(held(), sizeof(payload), 2 * sizeof(payload) + 4096);
	stage_pass(o.stage, &o.socket->client.first->turn.deadline);
	opened_turn(&o);
	assert_null(o.socket->client.first);
	assert_int_equal(held(), 0);
	opened_end(&o);
}

static void a_short_one_that_waits_holds_no_block(void **state)
{
	(void)state;
	opened_begin(&o, &hourly);
	opened_client(&o, FRAME_TEXT, "first");
	opened_client(&o, FRAME_TEXT, "waits");
	assert_in_range(held(), 1, 4096);
	stage_pass(o.stage, &o.socket->client.first->turn.deadline);
	opened_turn(&o);
	assert_int_equal(held(), 0);
	assert_string_equal(opened_to_server(&o), "text(first) text(waits) ");
	opened_end(&o);
}

static void one_too_many_that_waits_is_given_up(void **state)
{
	(void)state;
	memset(payload, 'x', sizeof(payload));
	opened_begin(&o, &hourly);
	opened_client(&o, FRAME_TEXT, "first");
	atomic_store(&unfinished()->most, 200000);
	atomic_store(&unfinished()->bytes, 199999);
	send_part(OPENED_FIN | FRAME_TEXT, 5000);
	assert_null(o.socket->client.first);
	assert_null(o.socket->message.at);
	assert_int_equal(held(), 199999);
	assert_string_equal(opened_to_client(&o), "close(1013 too many unfinished messages) ");
	assert_string_equal(
		opened_to_server(&o), "text(first) close(1001 too many unfinished messages) ");
	atomic_store(&unfinished()->bytes, 0);
	opened_end(&o);
}

UNIT_SUITE(test_unfinished)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_whole_one_is_not_counted),
		cmocka_unit_test(one_that_goes_on_is_counted),
		cmocka_unit_test(its_end_gives_it_back),
		cmocka_unit_test(one_too_many_is_closed),
		cmocka_unit_test(a_short_one_is_never_too_many),
		cmocka_unit_test(one_that_waits_is_counted),
		cmocka_unit_test(a_short_one_that_waits_holds_no_block),
		cmocka_unit_test(one_too_many_that_waits_is_given_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
