/* What a gateway makes of an answer's fields and events: what of them is the client's, and what no
 * client may get. */
#include "gatewayed.h"

#include "websocket/close.h"
#include "tests/unit/suite.h"

/* ---- its fields ------------------------------------------------------------------------------ */

static void begin_with_extensions(const char *value)
{
	char fields[200];

	snprintf(fields, sizeof(fields), "Sec-WebSocket-Extensions: %s\r\n", value);
	begin_with(fields, "OPEN\r\n");
}

/* With GRIP, a message without the prefix is not for the client, and `c:` is for nobody else. */
static void the_prefix_says_whose_it_is(void **state)
{
	(void)state;
	begin_with_extensions("grip");
	say("x");
	answer("TEXT 1\r\na\r\nTEXT 3\r\nm:b\r\nTEXT 4\r\nc:{}\r\nTEXT 2\r\nm:\r\nTEXT 1\r\nm\r\n");
	assert_string_equal(opened_to_client(&o), "text(b) text() ");
	end();
	begin_with_extensions("permessage-deflate, GRIP; message-prefix=\"to:\"");
	say("x");
	answer("TEXT 3\r\nm:a\r\nTEXT 4\r\nto:b\r\nTEXT 4\r\nc:{}\r\n");
	assert_string_equal(opened_to_client(&o), "text(b) ");
	end();
	begin_with_extensions("grip; message-prefix=\"\"");
	say("x");
	answer("TEXT 3\r\nm:a\r\nTEXT 4\r\nc:{}\r\n");
	assert_string_equal(opened_to_client(&o), "text(m:a) ");
	end();
	begin_with_extensions("gripped");
	say("x");
	answer("TEXT 4\r\nc:{}\r\n");
	assert_string_equal(opened_to_client(&o), "text(c:{}) ");
	end();
}

/* One that is too long to be kept is as none: `m:`. */
static void the_longest_prefix(void **state)
{
	(void)state;
	assert_int_equal(GATEWAY_PREFIX_BYTES, 16);
	begin_with_extensions("grip; message-prefix=0123456789abcdef");
	say("x");
	answer("TEXT 11\r\n0123456789abcdefa\r\nTEXT 3\r\nm:b\r\n");
	assert_string_equal(opened_to_client(&o), "text(a) ");
	end();
	begin_with_extensions("grip; message-prefix=0123456789abcdefg");
	say("x");
	answer("TEXT 12\r\n0123456789abcdefga\r\nTEXT 3\r\nm:b\r\n");
	assert_string_equal(opened_to_client(&o), "text(b) ");
	end();
}

static void keep_alive_interval(void **state)
{
	static const struct {
		const char *value;
		uint64_t ms;
	} rows[] = {
		{"20", 20000},
		{"999999", 999999000},
		{"0", 0},
		{"", 0},
		{"1000000", 0}, /* no seven digits */
		{"99999999999999999999999", 0},
		{"1.5", 0},
		{"-1", 0},
		{"1s", 0},
	};
	char fields[100];

	(void)state;
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		snprintf(fields, sizeof(fields), "Keep-Alive-Interval: %s\r\n", rows[i].value);
		begin_with(fields, "OPEN\r\n");
		assert_int_equal(gateway_of(o.socket->gateway)->keep_alive_ms, rows[i].ms);
		end();
	}
}

/* ---- its memory ------------------------------------------------------------------------------ */

/* All memory for answers is in use. */
static void fill_memory(void)
{
	struct spool_store *store = &o.stage->daemon.node.store;

	atomic_fetch_add(&store->uses[SPOOL_GATEWAY].memory, store->gateway_max);
	atomic_fetch_add(&store->memory, store->memory_max);
}

static void free_memory(void)
{
	struct spool_store *store = &o.stage->daemon.node.store;

	atomic_fetch_sub(&store->uses[SPOOL_GATEWAY].memory, store->gateway_max);
	atomic_fetch_sub(&store->memory, store->memory_max);
}

static const char *long_events(unsigned bytes)
{
	static char events[20100];

	snprintf(events, sizeof(events), "TEXT %x\r\n%0*d\r\n", bytes, (int)bytes, 0);
	return events;
}

/* A short answer always fits; a long one is an overload, and not the server's fault. It hears of
 * the end. */
static void there_is_no_memory_for_it(void **state)
{
	(void)state;
	begin();
	fill_memory();
	say("x");
	request_got();
	answer("TEXT 5\r\nshort\r\n");
	assert_string_equal(opened_to_client(&o), "text(short) ");
	say("x");
	request_got();
	answer(long_events(20000));
	assert_string_equal(opened_to_client(&o), "close(1013 no memory) ");
	opened_client_closes(&o, 1013, "");
	assert_string_equal(request_got(), "DISCONNECT\r\n");
	answer("");
	assert_int_equal(opened_count(&o, STATS_UPSTREAM_FAILURES), 0);
	assert_false(gateway_is_left());
	free_memory();
	end();
}

static void there_is_no_memory_for_that_to_a_handshake(void **state)
{
	static char events[20200];

	(void)state;
	ask();
	fill_memory();
	snprintf(events, sizeof(events), "OPEN\r\n%s", long_events(20000));
	answer(events);
	assert_has(connected_got(&o.c), "HTTP/1.1 503 ");
	assert_string_equal(request_got(), "DISCONNECT\r\n");
	free_memory();
	end();
}

/* Its size has a bound of its own, which is the server's fault. */
static void it_is_too_large(void **state)
{
	static const struct stage_conf small = {.route = ROUTE "gateway_answer_size = 1k\n"};

	(void)state;
	begin_on(&small, "", "OPEN\r\n");
	say("x");
	answer(long_events(2000));
	assert_string_equal(opened_to_client(&o), "close(1011 answer too large) ");
	end();
}

/* ---- its events ------------------------------------------------------------------------------ */

/* What is in a control frame fits one (RFC 6455 section 5.5), or the answer is none. */
static void the_longest_control_frame(void **state)
{
	static const char *const kinds[] = {"PING", "PONG"};
	char events[200];

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		begin();
		say("x");
		snprintf(events, sizeof(events), "%s 7d\r\n%0*d\r\n", kinds[i], FRAME_CONTROL_BYTES,
			0);
		answer(events);
		assert_has(opened_to_client(&o), i == 0 ? "ping(0" : "pong(0");
		say("x");
		snprintf(events, sizeof(events), "%s 7e\r\n%0*d\r\n", kinds[i],
			FRAME_CONTROL_BYTES + 1, 0);
		answer(events);
		assert_has(opened_to_client(&o), "close(1011 malformed answer) ");
		end();
	}
}

/* A code that may not be sent, or a reason that is no text, is as none. A reason that is too long
 * is cut between two characters. */
static void codes_and_reasons(void **state)
{
	static const struct {
		const char *events, *close;
	} rows[] = {
		{"CLOSE 4\r\n\x0f\xa0no\r\n", "close(4000 no) "},
		{"CLOSE 2\r\n\x0f\xa0\r\n", "close(4000 ) "},
		{"CLOSE\r\n", "close() "},
		{"CLOSE 1\r\n\x0f\r\n", "close() "},
		{"CLOSE 4\r\n\x03\xedno\r\n", "close() "}, /* 1005 is for none */
		{"CLOSE 4\r\n\x03\xeeno\r\n", "close() "}, /* 1006 for one that was cut */
		{"CLOSE 4\r\n\x01\x01no\r\n", "close() "},
		{"CLOSE 4\r\n\x13\x88no\r\n", "close() "}, /* 5000 */
		{"CLOSE 4\r\n\x0f\xa0n\xff\r\n", "close(4000 ) "},
	};
	char events[300], reason[FRAME_CONTROL_BYTES + 1];

	(void)state;
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		begin();
		say("x");
		answer(rows[i].events);
		assert_string_equal(opened_to_client(&o), rows[i].close);
		end();
	}
	snprintf(
		reason, sizeof(reason), "%0*d", FRAME_CONTROL_BYTES - 3, 0); /* 122, and two more */
	snprintf(events, sizeof(events), "CLOSE 7e\r\n\x0f\xa0%s\xc3\xa9\r\n", reason);
	begin();
	say("x");
	answer(events);
	const char *close = strstr(opened_to_client(&o), "close(4000 0");
	assert_non_null(close);
	assert_null(strchr(close, '\xc3'));
	end();
}

/* Behind CLOSE it has nothing more to say. */
static void nothing_behind_its_close(void **state)
{
	(void)state;
	begin();
	say("x");
	answer("TEXT 1\r\na\r\nCLOSE 2\r\n\x0f\xa0\r\nPING 1\r\np\r\nTEXT 1\r\nb\r\n"
	       "CLOSE 2\r\n\x0f\xa1\r\nDISCONNECT\r\n");
	assert_string_equal(opened_to_client(&o), "text(a) close(4000 ) ");
	assert_true(o.socket && !socket_has_ended(o.socket)); /* the client's is still to come */
	opened_client_closes(&o, 4000, "");
	assert_string_equal(opened_to_client(&o), "end");
	assert_int_equal(opened_count(&o, STATS_SERVER_MESSAGES), 1);
	end();
}

/* A message of the server is use of the socket; that it is there, and a ping, are none. */
static void its_messages_are_use(void **state)
{
	(void)state;
	begin_with("Keep-Alive-Interval: 20\r\n", "OPEN\r\n");
	uint64_t opened_ms = o.socket->active_ms;
	opened_pass(&o);
	assert_string_equal(request_got(), "");
	answer("PING\r\n");
	assert_int_equal(o.socket->active_ms, opened_ms);
	opened_pass(&o);
	assert_string_equal(request_got(), "");
	answer("TEXT 1\r\na\r\n");
	assert_int_equal(o.socket->active_ms, opened_ms + 40000);
	end();
}

UNIT_SUITE(test_gateway_answer)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_prefix_says_whose_it_is),
		cmocka_unit_test(the_longest_prefix),
		cmocka_unit_test(keep_alive_interval),
		cmocka_unit_test(there_is_no_memory_for_it),
		cmocka_unit_test(there_is_no_memory_for_that_to_a_handshake),
		cmocka_unit_test(it_is_too_large),
		cmocka_unit_test(the_longest_control_frame),
		cmocka_unit_test(codes_and_reasons),
		cmocka_unit_test(nothing_behind_its_close),
		cmocka_unit_test(its_messages_are_use),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
