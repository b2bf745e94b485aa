/* GRIP on an open socket: control messages of a backend, what is published, keep-alive, and the
 * signature. The socket's server stands for the backend. */
#include "tests/unit/websocket/opened.h"

#include "base/hs256.h"
#include "websocket/filter.h"
#include "websocket/grip.h"
#include "channels/channels_part.h"
#include "channels/publish.h"
#include "websocket/send.h"
#include "tests/unit/suite.h"

static const struct stage_conf plain = {.route = OPENED_ROUTE},
			       narrow = {.node = "channels = 2\n",
				       .route = OPENED_ROUTE "socket_channels = 2\n"};

static struct opened o;

static void begin(const struct stage_conf *conf)
{
	opened_begin(&o, conf);
}

static struct publishing *publishing(void)
{
	return node_publishing(o.stage->worker->node);
}

static uint64_t count_of(enum publish_count count)
{
	return publishing_count(publishing(), count);
}

static void end(void)
{
	if (opened_is_open(&o))
		socket_abort(o.socket, "end of the test");
	assert_int_equal(count_of(PUBLISH_CHANNELS), 0);
	assert_int_equal(count_of(PUBLISH_SUBSCRIPTIONS), 0);
	assert_int_equal(atomic_load(&o.stage->worker->node->sends.bytes), 0);
	opened_end(&o);
}

static void control(const char *json)
{
	socket_take_control(o.socket, slice_of(json));
}

static void subscribe(const char *channel)
{
	char json[128];

	snprintf(json, sizeof(json), "{\"type\":\"subscribe\",\"channel\":\"%s\"}", channel);
	control(json);
}

/* Returns how many are subscribed. */
static uint64_t publish_item(const struct publish_item *item)
{
	uint64_t subscriptions;

	assert_int_equal(publish(publishing(), item, 1, &subscriptions), PUBLISH_DONE);
	loop_wake(&o.stage->worker->loop);
	opened_turn(&o);
	opened_turn(&o);
	return subscriptions;
}

static uint64_t publish_text(const char *channel, const char *text)
{
	return publish_item(&(struct publish_item){.channel = slice_of(channel),
		.action = PUBLISH_SEND,
		.opcode = FRAME_TEXT,
		.content = slice_of(text)});
}

static void subscribed_sockets_get_what_is_published(void **state)
{
	(void)state;
	begin(&plain);
	assert_int_equal(publish_text("room", "to nobody"), 0);
	subscribe("room");
	subscribe("other");
	assert_int_equal(publish_text("room", "1"), 1);
	assert_int_equal(publish_text("other", "2"), 1);
	assert_string_equal(opened_to_client(&o), "text(1) text(2) ");
	control("{\"type\":\"unsubscribe\",\"channel\":\"room\"}");
	assert_int_equal(publish_text("room", "3"), 0);
	assert_int_equal(publish_text("other", "4"), 1);
	assert_string_equal(opened_to_client(&o), "text(4) ");
	assert_int_equal(count_of(PUBLISH_DELIVERIES), 3);
	end();
}

static void subscriptions_end_with_the_socket(void **state)
{
	(void)state;
	begin(&plain);
	subscribe("room");
	assert_int_equal(count_of(PUBLISH_SUBSCRIPTIONS), 1);
	opened_client_closes(&o, 1000, "");
	opened_server_closes(&o, 1000, "");
	assert_false(opened_is_open(&o));
	assert_int_equal(count_of(PUBLISH_CHANNELS), 0);
	assert_int_equal(publish_text("room", "1"), 0);
	end();
}

static bool fits(const char *channel)
{
	struct socket_filter filter = {0};

	assert_int_equal(filter_add(&filter, "channel", channel), FILTER_OK);
	return filter_fits(&filter, o.socket);
}

static void found_by_its_channels(void **state)
{
	struct socket_filter filter = {0};

	(void)state;
	begin(&plain);
	assert_false(fits("room"));
	subscribe("room");
	subscribe("other");
	assert_true(fits("room"));
	assert_true(fits("other"));
	assert_false(fits("roo"));
	assert_false(fits("rooms"));
	control("{\"type\":\"unsubscribe\",\"channel\":\"room\"}");
	assert_false(fits("room"));
	assert_true(fits("other"));
	assert_int_equal(filter_add(&filter, "channel", ""), FILTER_INVALID);
	assert_int_equal(filter_add(&filter, "channel", "\xff"), FILTER_INVALID);
	end();
}

static void bounds_refuse_and_count(void **state)
{
	(void)state;
	begin(&narrow);
	subscribe("1");
	subscribe("2");
	subscribe("3");
	assert_int_equal(count_of(PUBLISH_CONTROLS_REFUSED), 1);
	subscribe("2");
	control("{\"type\":\"subscribe\"}");
	assert_int_equal(count_of(PUBLISH_CONTROLS_REFUSED), 2);
	assert_int_equal(count_of(PUBLISH_CHANNELS), 2);
	assert_true(opened_is_open(&o));
	end();
}

static void detached(void **state)
{
	(void)state;
	begin(&plain);
	assert_false(o.socket->grip.is_detached);
	control("{\"type\":\"detach\"}");
	assert_true(o.socket->grip.is_detached);
	end();
}

/* What was published before a close is not lost by it. */
static void a_published_close(void **state)
{
	(void)state;
	begin(&plain);
	subscribe("room");
	uint64_t subscriptions;
	const struct publish_item items[] = {{.channel = SLICE("room"),
						     .action = PUBLISH_SEND,
						     .opcode = FRAME_TEXT,
						     .content = SLICE("last")},
		{.channel = SLICE("room"),
			.action = PUBLISH_CLOSE,
			.code = 4001,
			.content = SLICE("bye")},
		{.channel = SLICE("room"),
			.action = PUBLISH_SEND,
			.opcode = FRAME_TEXT,
			.content = SLICE("too late")}};
	assert_int_equal(publish(publishing(), items, 3, &subscriptions), PUBLISH_DONE);
	loop_wake(&o.stage->worker->loop);
	opened_turn(&o);
	opened_turn(&o);
	assert_string_equal(opened_to_client(&o), "text(last) close(4001 bye) ");
	assert_string_equal(opened_to_server(&o), "close(1001 bye) ");
	opened_client_closes(&o, 4001, "");
	opened_server_closes(&o, 1001, "");
	assert_false(opened_is_open(&o));
	end();
}

/* ---- filters --------------------------------------------------------------------------------- */

/* To a socket that is subscribed to `room` with these filters and to `other` without. */
static bool gets(const char *filters, const char *user, struct grip_meta meta)
{
	char json[256];
	bool got;

	begin(&plain);
	snprintf(json, sizeof(json), "{\"type\":\"set-meta\",\"name\":\"user\",\"value\":\"%s\"}",
		user);
	control(json);
	snprintf(json, sizeof(json),
		"{\"type\":\"subscribe\",\"channel\":\"room\",\"filters\":[%s]}", filters);
	control(json);
	subscribe("other");
	publish_item(&(struct publish_item){.channel = SLICE("room"),
		.action = PUBLISH_SEND,
		.opcode = FRAME_TEXT,
		.content = SLICE("x"),
		.meta = meta});
	got = strcmp(opened_to_client(&o), "text(x) ") == 0;
	assert_int_equal(count_of(PUBLISH_DELIVERIES), got);
	assert_int_equal(count_of(PUBLISH_CONTROLS_REFUSED), 0);
	end();
	return got;
}

#define SENDER(text) ((struct grip_meta){.sender = SLICE(text)})
#define SKIPS(text)  ((struct grip_meta){.skip_users = SLICE(text)})
#define NEEDS(text)  ((struct grip_meta){.require_sub = SLICE(text)})

static void filters_keep_what_they_say(void **state)
{
	(void)state;
	assert_false(gets("\"skip-self\"", "ann", SENDER("ann")));
	assert_true(gets("\"skip-self\"", "ann", SENDER("anna")));
	assert_true(gets("\"skip-self\"", "", SENDER("")));
	assert_true(gets("", "ann", SENDER("ann")));
	assert_true(gets("\"skip-self\"", "ann", SKIPS("ann")));
	assert_false(gets("\"skip-users\"", "ann", SKIPS("ann")));
	assert_false(gets("\"skip-users\"", "ann", SKIPS("bob, ann ,cid")));
	assert_true(gets("\"skip-users\"", "ann", SKIPS("bob,anna,an,,")));
	assert_true(gets("\"skip-users\"", "", SKIPS("bob,,")));
	assert_false(gets("\"skip-self\",\"skip-users\"", "ann", SKIPS("ann")));
	assert_true(gets("\"require-sub\"", "ann", NEEDS("other")));
	assert_false(gets("\"require-sub\"", "ann", NEEDS("third")));
	assert_true(gets("", "ann", NEEDS("third")));
	assert_true(gets("\"require-sub\"", "ann", SENDER("ann")));
}

/* The last subscription to a channel says which. */
static void filters_follow_the_subscription(void **state)
{
	(void)state;
	begin(&plain);
	control("{\"type\":\"set-meta\",\"name\":\"user\",\"value\":\"ann\"}");
	control("{\"type\":\"subscribe\",\"channel\":\"room\",\"filters\":[\"skip-self\"]}");
	subscribe("room");
	assert_int_equal(count_of(PUBLISH_SUBSCRIPTIONS), 1);
	publish_item(&(struct publish_item){.channel = SLICE("room"),
		.action = PUBLISH_SEND,
		.opcode = FRAME_TEXT,
		.content = SLICE("x"),
		.meta = SENDER("ann")});
	assert_string_equal(opened_to_client(&o), "text(x) ");
	end();
}

/* One that is not known would let messages through that its backend excludes. */
static void unknown_filters_are_refused(void **state)
{
	static const char *const lists[] = {"[\"skip-self\",\"build-id\"]", "[\"var-subst\"]",
		"[\"\"]", "[1]", "{}", "\"skip-self\""};

	(void)state;
	begin(&plain);
	for (unsigned i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
		char json[128];
		snprintf(json, sizeof(json),
			"{\"type\":\"subscribe\",\"channel\":\"room\",\"filters\":%s}", lists[i]);
		control(json);
		assert_int_equal(count_of(PUBLISH_CONTROLS_REFUSED), i + 1);
		assert_int_equal(count_of(PUBLISH_SUBSCRIPTIONS), 0);
	}
	end();
}

static void values_are_bounded(void **state)
{
	char json[1400], value[1025];

	(void)state;
	begin(&plain);
	memset(value, 'v', 1024);
	value[1024] = '\0';
	for (unsigned i = 0; i < 5; i++) {
		snprintf(json, sizeof(json),
			"{\"type\":\"set-meta\",\"name\":\"n%u\",\"value\":\"%s\"}", i, value);
		control(json);
	}
	assert_int_equal(count_of(PUBLISH_CONTROLS_REFUSED), 2); /* 4 kB */
	control("{\"type\":\"set-meta\",\"name\":\"n0\"}");
	control("{\"type\":\"set-meta\",\"name\":\"user\",\"value\":\"ann\"}");
	assert_int_equal(count_of(PUBLISH_CONTROLS_REFUSED), 2);
	assert_true(slice_equal(meta_find(&o.socket->grip.meta, SLICE("user")), SLICE("ann")));
	end();
}

static void a_published_ping(void **state)
{
	(void)state;
	begin(&plain);
	subscribe("room");
	publish_item(&(struct publish_item){.channel = SLICE("room"),
		.action = PUBLISH_SEND,
		.opcode = FRAME_PING,
		.content = SLICE("p")});
	assert_string_equal(opened_to_client(&o), "ping(p) ");
	end();
}

/* ---- keep-alive ------------------------------------------------------------------------------ */

static void keep_alive_when_idle(void **state)
{
	(void)state;
	begin(&plain);
	control("{\"type\":\"keep-alive\",\"content\":\"beat\",\"timeout\":10}");
	opened_turn(&o);
	opened_client(&o, FRAME_PONG, "");
	uint64_t first_ms = opened_due_ms(&o);
	opened_pass(&o);
	opened_turn(&o);
	assert_string_equal(opened_to_client(&o), "text(beat) ");
	opened_server(&o, FRAME_TEXT, "hello"); /* puts it off */
	assert_string_equal(opened_to_client(&o), "text(hello) ");
	assert_int_equal(opened_due_ms(&o), first_ms + 10000);
	control("{\"type\":\"keep-alive\",\"content\":\"other\",\"timeout\":5}");
	opened_client(&o, FRAME_PONG, "");
	assert_int_equal(opened_due_ms(&o), first_ms + 5000);
	opened_pass(&o);
	opened_turn(&o);
	assert_string_equal(opened_to_client(&o), "text(other) ");
	control("{\"type\":\"keep-alive\"}");
	assert_null(o.socket->grip.keep_alive);
	opened_client(&o, FRAME_PONG, "");
	assert_in_range(opened_due_ms(&o), first_ms + 100000, UINT64_MAX);
	end();
}

static void keep_alive_at_intervals(void **state)
{
	(void)state;
	begin(&plain);
	control("{\"type\":\"keep-alive\",\"content-bin\":\"YmVhdA==\",\"timeout\":10,"
		"\"mode\":\"interval\"}");
	opened_server(&o, FRAME_TEXT, "hello");
	uint64_t due_ms = opened_due_ms(&o);
	stage_server_sends(o.stage, 0, ""); /* nothing moves it */
	opened_server(&o, FRAME_TEXT, "again");
	assert_int_equal(opened_due_ms(&o), due_ms);
	opened_pass(&o);
	opened_turn(&o);
	assert_string_equal(opened_to_client(&o), "text(hello) text(again) binary(beat) ");
	end();
}

static void keep_alive_by_pings(void **state)
{
	(void)state;
	begin(&plain);
	control("{\"type\":\"keep-alive\",\"message-type\":\"ping\",\"timeout\":10}");
	for (unsigned i = 0; i < 2; i++) {
		opened_client(&o, FRAME_PONG, "");
		opened_pass(&o);
		opened_turn(&o);
		assert_string_equal(opened_to_client(&o), "ping() ");
	}
	end();
}

/* ---- the signature --------------------------------------------------------------------------- */

static void without_a_key_there_is_no_signature(void **state)
{
	(void)state;
	begin(&plain);
	assert_int_equal(grip_signature(o.stage->worker).len, 0);
	end();
}

static void the_signature(void **state)
{
	static const struct stage_conf with_key = {
		.node = "grip_key = file:the key\ngrip_iss = a \"name\"\n", .route = OPENED_ROUTE};
	struct slice header, claims;
	char room[512], expected[128], first[512];

	(void)state;
	begin(&with_key); /* in tests of a text the path stands for the file's bytes */
	struct slice signature = grip_signature(o.stage->worker);
	assert_in_range(signature.len, 1, sizeof(room));
	assert_true(hs256_open(SLICE("the key"), signature, room, &header, &claims));
	snprintf(expected, sizeof(expected),
		"{\"iss\":\"a \\\"name\\\"\",\"exp\":%llu,\"request\":true}",
		(unsigned long long)(channels_of(o.stage->worker)->signature.made_s + 3600));
	assert_true(slice_equal(claims, slice_of(expected)));
	memcpy(first, signature.at, signature.len);
	assert_memory_equal(first, grip_signature(o.stage->worker).at, signature.len);
	channels_of(o.stage->worker)->signature.made_s -= 60; /* a minute ago */
	o.stage->worker->wall.ns += 2 * CLOCK_NS_PER_S;
	assert_int_equal(channels_of(o.stage->worker)->signature.bytes, signature.len);
	signature = grip_signature(o.stage->worker);
	assert_true(hs256_open(SLICE("the key"), signature, room, &header, &claims));
	assert_memory_not_equal(first, signature.at, signature.len);
	end();
}

UNIT_SUITE(test_grip)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(subscribed_sockets_get_what_is_published),
		cmocka_unit_test(subscriptions_end_with_the_socket),
		cmocka_unit_test(found_by_its_channels),
		cmocka_unit_test(bounds_refuse_and_count),
		cmocka_unit_test(detached),
		cmocka_unit_test(a_published_close),
		cmocka_unit_test(filters_keep_what_they_say),
		cmocka_unit_test(filters_follow_the_subscription),
		cmocka_unit_test(unknown_filters_are_refused),
		cmocka_unit_test(values_are_bounded),
		cmocka_unit_test(a_published_ping),
		cmocka_unit_test(keep_alive_when_idle),
		cmocka_unit_test(keep_alive_at_intervals),
		cmocka_unit_test(keep_alive_by_pings),
		cmocka_unit_test(without_a_key_there_is_no_signature),
		cmocka_unit_test(the_signature),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
