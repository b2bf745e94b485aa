/* Publishing: each worker takes what has subscribers there, in the order of publication and a
 * bounded number of steps a turn. The sockets are only subscribers here: deliver is the
 * test's. */
#include "channels/publish.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "channels/channels.h"
#include "frames/frames.h"
#include "frames/shared_frame.h"
#include "worker/worker.h"
#include "tests/unit/suite.h"

#define WORKERS 2

static struct node node;
static struct worker workers[WORKERS];
static struct publish_line *lines[WORKERS];

/* A subscriber, and what it got as one text. */
struct listener {
	struct subscriber subscriber;
	unsigned worker;
	unsigned count;
	const char *at; /* of the last payload */
	char text[4096];
};

static struct listener *leaves; /* at its first delivery */
static unsigned deliveries;

static struct channel_view *view_of(const struct listener *listener)
{
	return publish_line_view(lines[listener->worker]);
}

static bool deliver(const struct subscription *subscription, const struct delivery *delivery);
static const struct subscriber_calls listener_calls = {.deliver = deliver};

static void listen_to(struct listener *listener, const char *name)
{
	static const struct channel_bounds bounds = {1 << 20, 10000};

	listener->subscriber.calls = &listener_calls;
	assert_int_equal(channel_subscribe(
				 view_of(listener), &listener->subscriber, slice_of(name), &bounds),
		CHANNEL_SUBSCRIBED);
}

static void leave(struct listener *listener)
{
	channel_unsubscribe_all(view_of(listener), &listener->subscriber);
}

static bool deliver(const struct subscription *subscription, const struct delivery *delivery)
{
	struct shared_frame *frame = delivery->frame;
	struct subscriber *subscriber = subscription->subscriber;
	struct listener *listener = CONTAINER_OF(subscriber, struct listener, subscriber);
	const char *payload = frame->at + frame->bytes - frame->payload_bytes;
	size_t used = strlen(listener->text);

	deliveries++;
	listener->count++;
	listener->at = payload;
	snprintf(listener->text + used, sizeof(listener->text) - used, "%s%.*s ",
		frame->opcode == FRAME_TEXT     ? ""
		: frame->opcode == FRAME_BINARY ? "b:"
						: "close:",
		(int)frame->payload_bytes, payload);
	if (leaves) {
		leave(leaves);
		leaves = NULL;
	}
	return true;
}

/* ---- the stage ------------------------------------------------------------------------------- */

static int begin(void **state)
{
	(void)state;
	memset(&node, 0, sizeof(node));
	memset(workers, 0, sizeof(workers));
	node.worker_count = WORKERS;
	node.shared[NODE_PUBLISHING] = publishing_new(&node);
	assert_non_null(node_publishing(&node));
	for (unsigned i = 0; i < WORKERS; i++) {
		workers[i].node = &node;
		workers[i].index = i;
		assert_int_equal(loop_init(&workers[i].loop), 0);
		lines[i] = publishing_enter(node_publishing(&node), &workers[i]);
	}
	deliveries = 0;
	return 0;
}

static int end(void **state)
{
	(void)state;
	assert_int_equal(publishing_count(node_publishing(&node), PUBLISH_SUBSCRIPTIONS), 0);
	for (unsigned i = 0; i < WORKERS; i++)
		loop_end(&workers[i].loop);
	assert_false(publishing_leave(node_publishing(&node)));
	assert_true(publishing_leave(node_publishing(&node)));
	assert_int_equal(atomic_load(&node.sends.bytes), 0);
	return 0;
}

/* Without waiting for events when there are none. */
static void turn(unsigned worker)
{
	struct loop *loop = &workers[worker].loop;

	loop_wake(loop);
	loop_enter(loop);
	assert_int_equal(loop_run_turn(loop), 0);
	publish_line_end_turn(lines[worker]);
	loop_enter(NULL);
}

static void turns(unsigned count)
{
	for (unsigned i = 0; i < count * WORKERS; i++)
		turn(i % WORKERS);
}

static struct publish_item text_to(const char *channel, const char *text)
{
	return (struct publish_item){.channel = slice_of(channel),
		.action = PUBLISH_SEND,
		.opcode = FRAME_TEXT,
		.content = slice_of(text)};
}

static uint64_t publish_all(const struct publish_item *items, size_t count)
{
	uint64_t subscriptions;

	assert_int_equal(
		publish(node_publishing(&node), items, count, &subscriptions), PUBLISH_DONE);
	return subscriptions;
}

static uint64_t publish_text(const char *channel, const char *text)
{
	struct publish_item item = text_to(channel, text);

	return publish_all(&item, 1);
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void each_subscriber_gets_it_once(void **state)
{
	struct listener a = {.worker = 0}, b = {.worker = 1}, c = {.worker = 1};

	(void)state;
	listen_to(&a, "x");
	listen_to(&b, "x");
	listen_to(&c, "y");
	assert_int_equal(publish_text("x", "1"), 2);
	assert_int_equal(publish_text("nobody", "2"), 0);
	assert_int_equal(publish_text("y", "3"), 1);
	turns(1);
	assert_string_equal(a.text, "1 ");
	assert_string_equal(b.text, "1 ");
	assert_string_equal(c.text, "3 ");
	assert_ptr_equal(a.at, b.at); /* composed once */
	assert_int_equal(publishing_count(node_publishing(&node), PUBLISH_ITEMS), 3);
	assert_int_equal(publishing_count(node_publishing(&node), PUBLISH_DELIVERIES), 3);
	assert_int_equal(publishing_count(node_publishing(&node), PUBLISH_SUBSCRIPTIONS), 3);
	leave(&a);
	leave(&b);
	leave(&c);
}

static void kinds_of_items(void **state)
{
	struct listener a = {.worker = 0};
	struct publish_item items[] = {text_to("x", "text"), text_to("x", "binary"),
		text_to("x", "nothing"),
		{.channel = SLICE("x"),
			.action = PUBLISH_CLOSE,
			.code = 0x4142,
			.content = SLICE("why")}};

	(void)state;
	items[1].opcode = FRAME_BINARY;
	items[2].action = PUBLISH_NOTHING;
	listen_to(&a, "x");
	assert_int_equal(publish_all(items, 4), 3);
	turns(1);
	assert_string_equal(a.text, "text b:binary close:ABwhy ");
	leave(&a);
}

static void a_worker_without_subscribers_has_no_turn_of_it(void **state)
{
	struct listener a = {.worker = 0};

	(void)state;
	listen_to(&a, "x");
	publish_text("x", "1");
	assert_null(atomic_load(&workers[1].loop.inbox));
	assert_non_null(atomic_load(&workers[0].loop.inbox));
	publish_text("none", "2");
	turn(0);
	assert_false(loop_has_ready(&workers[0].loop));
	leave(&a);
}

/* Of many items, and of many subscribers, a turn has at most PUBLISH_STEPS. */
static void a_turn_is_bounded(void **state)
{
	static struct listener many[3 * PUBLISH_STEPS];
	static struct publish_item items[1000];

	(void)state;
	memset(many, 0, sizeof(many));
	for (size_t i = 0; i < 3 * PUBLISH_STEPS; i++)
		listen_to(&many[i], "x");
	publish_text("x", "1");
	publish_text("x", "2");
	for (unsigned before = 0; deliveries < 6 * PUBLISH_STEPS; before = deliveries) {
		turn(0);
		assert_in_range(deliveries - before, 1, PUBLISH_STEPS);
		assert_true(loop_has_ready(&workers[0].loop) || deliveries == 6 * PUBLISH_STEPS);
	}
	for (size_t i = 0; i < 3 * PUBLISH_STEPS; i++) {
		assert_string_equal(many[i].text, "1 2 ");
		if (i > 0)
			leave(&many[i]);
	}
	for (size_t i = 0; i < 1000; i++)
		items[i] = text_to(i % 2 ? "x" : "none", "-");
	assert_int_equal(publish_all(items, 1000), 500);
	for (unsigned before = deliveries, n = 0; n < 1000 / PUBLISH_STEPS; n++) {
		turn(0);
		assert_in_range(deliveries - before, 1, PUBLISH_STEPS);
		before = deliveries;
	}
	turns(3);
	assert_int_equal(many[0].count, 502);
	leave(&many[0]);
}

/* Whatever the sizes: an attempt before this one had no room for the 33rd. */
static void any_number_of_items(void **state)
{
	static struct publish_item items[1000];
	char text[8];

	(void)state;
	for (size_t count = 1; count <= 1000; count += count < 70 ? 1 : 186) {
		struct listener a = {.worker = 1};
		listen_to(&a, "x");
		snprintf(text, sizeof(text), "%zu", count);
		for (size_t i = 0; i < count; i++)
			items[i] = text_to("x", text);
		assert_int_equal(publish_all(items, count), count);
		turns(10);
		assert_int_equal(a.count, count);
		leave(&a);
	}
}

static void those_that_leave_meanwhile(void **state)
{
	struct listener a = {.worker = 0}, b = {.worker = 0}, c = {.worker = 0};

	(void)state;
	listen_to(&a, "x");
	listen_to(&b, "x");
	listen_to(&c, "x");
	leaves = &b; /* the next one, while c gets it */
	publish_text("x", "1");
	turns(1);
	assert_string_equal(c.text, "1 ");
	assert_string_equal(b.text, "");
	assert_string_equal(a.text, "1 ");
	leaves = &a; /* itself, the last one */
	publish_text("x", "2");
	leave(&c);
	turns(1);
	publish_text("x", "3"); /* to nobody */
	turns(1);
	assert_string_equal(a.text, "1 2 ");
	assert_string_equal(c.text, "1 ");
}

static void too_much_is_refused(void **state)
{
	struct listener a = {.worker = 0};
	struct publish_item items[] = {text_to("x", "12345678"), text_to("x", "12345678")};
	uint64_t subscriptions;

	(void)state;
	listen_to(&a, "x");
	atomic_store(&node.sends.most, 100); /* one of them has room, two have not */
	assert_int_equal(publish(node_publishing(&node), items, 2, &subscriptions), PUBLISH_FULL);
	assert_int_equal(atomic_load(&node.sends.bytes), 0);
	assert_int_equal(publishing_count(node_publishing(&node), PUBLISH_ITEMS), 0);
	atomic_store(&node.sends.most, 0);
	items[0].action = PUBLISH_NOTHING;
	for (unsigned i = 0; i < PUBLICATIONS_WAITING; i++)
		publish_all(&items[1], 1);
	assert_int_equal(publish(node_publishing(&node), items, 1, &subscriptions), PUBLISH_FULL);
	turns(1);
	assert_int_equal(publish(node_publishing(&node), items, 1, &subscriptions), PUBLISH_DONE);
	leave(&a);
}

/* What a worker has not come to at its end is freed with its line. */
static void an_end_in_the_middle(void **state)
{
	static struct listener many[2 * PUBLISH_STEPS];

	(void)state;
	memset(many, 0, sizeof(many));
	for (size_t i = 0; i < 2 * PUBLISH_STEPS; i++)
		listen_to(&many[i], "x");
	publish_text("x", "1");
	publish_text("x", "2");
	turn(0);
	for (size_t i = 0; i < 2 * PUBLISH_STEPS; i++)
		leave(&many[i]);
	assert_int_equal(publishing_count(node_publishing(&node), PUBLISH_CHANNELS), 1);
}

UNIT_SUITE(test_publish)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
	const struct CMUnitTest tests[] = {
		TEST(each_subscriber_gets_it_once),
		TEST(kinds_of_items),
		TEST(a_worker_without_subscribers_has_no_turn_of_it),
		TEST(a_turn_is_bounded),
		TEST(any_number_of_items),
		TEST(those_that_leave_meanwhile),
		TEST(too_much_is_refused),
		TEST(an_end_in_the_middle),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
