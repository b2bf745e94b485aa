/* Messages that a client writes at once: they leave in one write, in their order, each with its own
 * verdict; and those that must not pass others, do not. */
#include "exchange/turn_place.h"
#include "opened.h"
#include "tests/unit/suite.h"

#define LIMIT(rate)  "[limit l]\nkey = ip\nrate = " rate "\n"
#define IN_ORDER     OPENED_ROUTE "ordering = strict\n"
#define AT_ONCE_MOST 128

static struct opened o;

/* ---- a client that writes many, and how often the server is written to ----------------------- */

static const struct transport *under;
static struct transport counting;
static unsigned writes;

static enum stream_result count_write(
	struct stream *stream, const struct iovec *pieces, int count, size_t *written)
{
	writes++;
	return under->write(stream, pieces, count, written);
}

static void open_counted(const struct stage_conf *conf)
{
	opened_begin(&o, conf);
	under = o.passage->server.transport;
	counting = *under;
	counting.write = count_write;
	o.passage->server.transport = &counting;
	writes = 0;
}

static void end_counted(void)
{
	if (opened_is_open(&o))
		o.passage->server.transport = under;
	opened_end(&o);
}

/* One byte each: a, b, c ... */
static void put(unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		const uint8_t frame[] = {0x81, 0x81, 0, 0, 0, 0, (uint8_t)('a' + i % 26)};
		assert_int_equal(memory_peer_send(o.client.wire, frame, sizeof(frame)), 7);
	}
}

/* The last of what the server's connection does not take holds the session. */
static void fill_server(void)
{
	static char payload[40000];

	for (unsigned i = 0; i < 2; i++)
		opened_send(
			&o, o.client.wire, true, 0x82, (struct slice){payload, sizeof(payload)});
	assert_non_null(o.socket->client.first);
}

static void send_at_once(unsigned count)
{
	put(count);
	opened_turn(&o);
}

static const char *letters(unsigned from, unsigned to)
{
	static char text[AT_ONCE_MOST * sizeof("text(a) ")];

	text[0] = '\0';
	for (unsigned i = from; i < to; i++)
		sprintf(text + strlen(text), "text(%c) ", 'a' + i % 26);
	return text;
}

/* ---- together -------------------------------------------------------------------------------- */

static void they_leave_in_one_write(void **state)
{
	static const struct stage_conf confs[] = {
		{.route = OPENED_ROUTE},
		{.route = IN_ORDER},
		{.upstream = "max_in_flight = 1", .route = IN_ORDER},
		{.more = LIMIT("100 per 10s"), .route = OPENED_ROUTE "message_limits = l"},
		{.more = LIMIT("100 per 10s"),
			.route = IN_ORDER "message_limits = l\non_message_exceed = close"},
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(confs) / sizeof(confs[0]); i++) {
		struct queue_counts counts;
		open_counted(&confs[i]);
		struct queue *queue = o.stage->worker->node->queue;
		queue_count(queue, &counts);
		uint64_t entered = counts.entered, done = counts.done;
		send_at_once(64);
		assert_int_equal(writes, 1);
		assert_string_equal(opened_to_server(&o), letters(0, 64));
		assert_int_equal(o.socket->received.messages, 64);
		assert_null(o.socket->client.first);
		assert_null(o.socket->last);
		assert_int_equal(opened_count(&o, STATS_CLIENT_MESSAGE_BYTES), 64);
		queue_count(queue, &counts);
		assert_int_equal(counts.entered - entered, 64);
		assert_int_equal(counts.done - done, 64);
		assert_int_equal(counts.in_flight, 0);
		end_counted();
	}
}

static void control_frames_keep_their_place(void **state)
{
	(void)state;
	open_counted(&(struct stage_conf){.route = IN_ORDER});
	put(2);
	memory_peer_send(o.client.wire, (uint8_t[]){0x89, 0x81, 0, 0, 0, 0, 'p'}, 7);
	put(1);
	memory_peer_send(o.client.wire, (uint8_t[]){0x88, 0x82, 0, 0, 0, 0, 3, 0xe8}, 8);
	opened_turn(&o);
	assert_string_equal(opened_to_server(&o), "text(a) text(b) ping(p) text(a) close(1000 ) ");
	assert_int_equal(writes, 1);
	end_counted();
}

/* As much as may be composed ahead, then it is written: memory has a bound. */
static void long_ones_leave_in_several_writes(void **state)
{
	static char payload[9000];

	(void)state;
	open_counted(&(struct stage_conf){.route = OPENED_ROUTE});
	for (unsigned i = 0; i < 6; i++) {
		memset(payload, (char)('a' + i), sizeof(payload));
		opened_send(
			&o, o.client.wire, true, 0x82, (struct slice){payload, sizeof(payload)});
		assert_true(flow_bytes(o.passage->up.flow) <= SOCKET_AHEAD_BYTES + 9014);
	}
	assert_string_equal(opened_to_server(&o),
		"binary(a x 9000) binary(b x 9000) binary(c x 9000) binary(d x 9000) "
		"binary(e x 9000) binary(f x 9000) ");
	end_counted();
}

/* ---- each with its verdict ------------------------------------------------------------------- */

/* The fourth is charged when it leaves, and not with those before it. */
static void one_over_the_limit_is_delayed(void **state)
{
	static const struct stage_conf three = {
		.more = LIMIT("3 per 10s"), .route = IN_ORDER "message_limits = l"};

	(void)state;
	open_counted(&three);
	send_at_once(5);
	assert_string_equal(opened_to_server(&o), letters(0, 3));
	assert_int_equal(writes, 1);
	struct exchange *message = o.socket->client.first;
	assert_int_equal(message->state, EXCHANGE_DELAYED);
	assert_ptr_equal(o.socket->last, message);
	assert_int_equal(o.socket->received.messages, 4);
	stage_pass(o.stage, &message->turn.deadline);
	opened_turn(&o);
	assert_string_equal(opened_to_server(&o), letters(3, 5));
	end_counted();
}

/* What passes is charged as it passes, also to those that go together. */
static void one_over_a_limit_in_bytes_is_delayed(void **state)
{
	static const struct stage_conf two = {
		.more = LIMIT("2B per 10s"), .route = IN_ORDER "message_limits = l"};

	(void)state;
	open_counted(&two);
	send_at_once(5);
	assert_string_equal(opened_to_server(&o), letters(0, 2));
	assert_int_equal(writes, 1);
	assert_int_equal(o.socket->client.first->state, EXCHANGE_DELAYED);
	end_counted();
}

static void one_over_the_limit_is_dropped(void **state)
{
	static const struct stage_conf three = {.more = LIMIT("3 per 1h"),
		.route = IN_ORDER "message_limits = l\non_message_exceed = drop\n"
				  "message_notice = slow"};

	(void)state;
	open_counted(&three);
	send_at_once(5);
	assert_string_equal(opened_to_server(&o), letters(0, 3));
	assert_string_equal(opened_to_client(&o), "text(slow) text(slow) ");
	assert_int_equal(opened_count(&o, STATS_MESSAGES + STATS_ADMIT), 3);
	assert_int_equal(opened_count(&o, STATS_MESSAGES + STATS_REFUSE), 2);
	assert_null(o.socket->last);
	end_counted();
}

static void one_over_the_limit_closes_behind_those_before_it(void **state)
{
	static const struct stage_conf three = {.more = LIMIT("3 per 1h"),
		.route = IN_ORDER "message_limits = l\non_message_exceed = close"};

	(void)state;
	open_counted(&three);
	send_at_once(5);
	assert_has(opened_to_server(&o), "text(a) text(b) text(c) close(1001 retry-after-ms=");
	assert_has(opened_to_client(&o), "close(1008 retry-after-ms=");
	end_counted();
}

/* ---- none is passed -------------------------------------------------------------------------- */

/* A write of the session's that comes while the server does not take what is on its way. */
static void enter_write(struct ticket *ticket)
{
	const struct exchange *lead = o.socket->client.first;
	struct worker *worker = o.stage->worker;

	ticket_init(ticket, 0);
	ticket->unsafe = true;
	assert_int_equal(
		queue_enter(worker->node->queue, &site_part(worker)->use->site->policies[0],
			o.passage->account.upstream->state->run_queue,
			(struct session_key){
				{lead->gate->verdict.session.hi, lead->gate->verdict.session.lo}},
			ticket, worker_now_ns(worker)),
		QUEUE_WAIT);
}

/* Of another socket or a request: its turn is before those that are read later. */
static void one_that_waits_in_the_session_goes_first(void **state)
{
	struct ticket other;

	(void)state;
	open_counted(&(struct stage_conf){.route = IN_ORDER});
	struct worker *worker = o.stage->worker;
	struct queue *queue = worker->node->queue;
	fill_server();
	struct exchange *lead = o.socket->client.first;
	assert_int_equal(lead->state, EXCHANGE_FORWARDING);
	assert_true(queue_lets_follow(queue, &lead->turn.ticket));
	enter_write(&other);
	assert_false(queue_lets_follow(queue, &lead->turn.ticket));
	queue_leave(queue, &other, worker_now_ns(worker));
	assert_true(queue_lets_follow(queue, &lead->turn.ticket));
	opened_end(&o);
}

/* One that does not go with them has its place behind them at once. */
static void one_that_cannot_follow_keeps_its_place(void **state)
{
	static const struct stage_conf three = {
		.more = LIMIT("3 per 10s"), .route = IN_ORDER "message_limits = l"};
	static char payload[STAGE_ROOM - 8];
	struct ticket later;

	(void)state;
	open_counted(&three);
	opened_send(&o, o.client.wire, true, 0x82, (struct slice){payload, sizeof(payload) - 8});
	/* The server's connection is full but for a few bytes. */
	assert_null(o.socket->client.first);
	send_at_once(3);
	struct exchange *message = o.socket->last;
	assert_int_equal(o.socket->received.messages, 4);
	assert_int_equal(o.socket->client.first->state, EXCHANGE_FORWARDING);
	assert_int_equal(message->state, EXCHANGE_HELD);
	enter_write(&later);
	opened_to_server(&o);
	opened_turn(&o);
	assert_ptr_equal(o.socket->client.first, message);
	assert_int_equal(message->state, EXCHANGE_DELAYED);
	assert_false(later.posted); /* it waits for that one */
	queue_leave(o.stage->worker->node->queue, &later, worker_now_ns(o.stage->worker));
	end_counted();
}

/* A pace is of messages, however many come at once. */
static void a_pace_is_kept(void **state)
{
	static const struct stage_conf paced = {
		.upstream = "pace = 1 per 10s", .route = IN_ORDER "queue_timeout = 1h"};

	(void)state;
	open_counted(&paced);
	send_at_once(5);
	assert_true(o.socket->received.messages < 3);
	assert_non_null(o.socket->client.first);
	assert_int_equal(o.socket->client.first->state, EXCHANGE_QUEUED);
	end_counted();
}

/* ---- by slots of a semaphore ----------------------------------------------------------------- */

static const struct stage_conf placed = {.upstream = "max_in_flight = 2", .route = IN_ORDER};

static struct semaphore_slots *slots_of(const struct opened *opened)
{
	return &opened->passage->account.upstream->state->semaphore;
}

/* Between its place and its leaving the slots have become another node's. */
static void one_that_lost_its_slot_takes_a_place_again(void **state)
{
	(void)state;
	open_counted(&placed);
	semaphore_slots_set(slots_of(&o), UINT64_MAX, UINT64_MAX);
	send_at_once(2);
	struct exchange *message = o.socket->client.first;
	assert_non_null(message);
	assert_true(message->turn.ticket.placed_ns > 0);
	assert_int_equal(message->state, EXCHANGE_DELAYED);
	assert_ptr_equal(o.socket->last, message); /* none is read behind it */
	stage_pass(o.stage, &message->turn.deadline);
	assert_int_equal(message->state, EXCHANGE_DELAYED); /* there are no others yet */
	assert_int_equal(writes, 0);
	assert_string_equal(opened_to_server(&o), "");
	semaphore_slots_set(slots_of(&o), 0, UINT64_MAX);
	stage_pass(o.stage, &message->turn.deadline);
	opened_turn(&o);
	assert_string_equal(opened_to_server(&o), letters(0, 2));
	assert_null(o.socket->client.first);
	semaphore_slots_set(slots_of(&o), 0, 1); /* the lease is over */
	send_at_once(1);
	assert_string_equal(opened_to_server(&o), "");
	end_counted();
}

static void none_follows_one_that_lost_its_slot(void **state)
{
	(void)state;
	open_counted(&placed);
	fill_server();
	struct exchange *lead = o.socket->client.first, follower = *lead;
	assert_int_equal(lead->state, EXCHANGE_FORWARDING);
	assert_true(lead->turn.ticket.placed_ns > 0);
	follower.tunnel.lead = lead;
	assert_true(follow_lead(&follower));
	semaphore_slots_set(slots_of(&o), UINT64_MAX, UINT64_MAX);
	assert_false(follow_lead(&follower));
	opened_end(&o);
}

/* ---- a server that does not take them -------------------------------------------------------- */

static void a_server_that_goes_ends_all(void **state)
{
	(void)state;
	open_counted(&(struct stage_conf){.route = IN_ORDER});
	fill_server();
	/* What was composed waits for the server; nothing more is read for it. */
	assert_false(socket_reads_client(o.socket));
	uint64_t received = o.socket->received.messages;
	send_at_once(30);
	assert_int_equal(o.socket->received.messages, received);
	memory_peer_reset(o.server.wire);
	opened_turn(&o);
	assert_string_equal(opened_to_client(&o), "close(1011 server gone) ");
	assert_null(o.socket->client.first);
	opened_end(&o);
}

UNIT_SUITE(test_together)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(they_leave_in_one_write),
		cmocka_unit_test(control_frames_keep_their_place),
		cmocka_unit_test(long_ones_leave_in_several_writes),
		cmocka_unit_test(one_over_the_limit_is_delayed),
		cmocka_unit_test(one_over_a_limit_in_bytes_is_delayed),
		cmocka_unit_test(one_over_the_limit_is_dropped),
		cmocka_unit_test(one_over_the_limit_closes_behind_those_before_it),
		cmocka_unit_test(one_that_waits_in_the_session_goes_first),
		cmocka_unit_test(one_that_cannot_follow_keeps_its_place),
		cmocka_unit_test(a_pace_is_kept),
		cmocka_unit_test(one_that_lost_its_slot_takes_a_place_again),
		cmocka_unit_test(none_follows_one_that_lost_its_slot),
		cmocka_unit_test(a_server_that_goes_ends_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
