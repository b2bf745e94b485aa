/* What a server does not accept of its messages comes again, in front of those that follow. */
#include "gatewayed.h"

#include "tests/unit/random.h"
#include "tests/unit/suite.h"

static void accept_bytes(unsigned bytes, const char *events)
{
	char fields[64];

	snprintf(fields, sizeof(fields), "Content-Bytes-Accepted: %u\r\n", bytes);
	answer_with(fields, events);
}

/* The events of the request that it got, which says how much of them it had before. */
static const char *replay_got(unsigned replayed)
{
	static char events[STAGE_ROOM + 1];
	char line[64];
	const char *head = server_got(), *body = strstr(head, "\r\n\r\n");

	assert_non_null(body);
	snprintf(events, sizeof(events), "%s", body + 4);
	snprintf(line, sizeof(line), "\r\nContent-Bytes-Replayed: %u\r\n", replayed);
	if (replayed > 0)
		assert_has(head, line);
	else
		assert_null(strstr(head, "Content-Bytes-Replayed"));
	return events;
}

/* Four messages, of which a server accepts two at first: none of the others is lost. */
static void the_rest_comes_again(void **state)
{
	(void)state;
	begin();
	say("x");
	assert_string_equal(replay_got(0), "TEXT 1\r\nx\r\n");
	say("ab");
	opened_client(&o, FRAME_BINARY, "cde");
	say("fgh");
	accept_bytes(1, "");
	assert_string_equal(replay_got(0), "TEXT 2\r\nab\r\nBINARY 3\r\ncde\r\nTEXT 3\r\nfgh\r\n");
	accept_bytes(4, "TEXT 3\r\ntwo\r\n");
	assert_string_equal(opened_to_client(&o), "text(two) ");
	assert_string_equal(server_got(), ""); /* it waits for more */
	say("i");
	assert_string_equal(replay_got(4), "BINARY 1\r\ne\r\nTEXT 3\r\nfgh\r\nTEXT 1\r\ni\r\n");
	answer("");
	say("j");
	assert_string_equal(replay_got(0), "TEXT 1\r\nj\r\n");
	answer("");
	assert_int_equal(opened_count(&o, STATS_MESSAGES + STATS_UNLIMITED), 6);
	end();
}

/* A message without content comes again with what is behind the last byte that was accepted. */
static void empty_messages_come_again(void **state)
{
	(void)state;
	begin();
	say("x");
	replay_got(0);
	say("");
	say("ab");
	say("");
	say("c");
	accept_bytes(1, "");
	assert_string_equal(
		replay_got(0), "TEXT 0\r\n\r\nTEXT 2\r\nab\r\nTEXT 0\r\n\r\nTEXT 1\r\nc\r\n");
	accept_bytes(0, "");
	say("d");
	assert_string_equal(replay_got(3),
		"TEXT 0\r\n\r\nTEXT 2\r\nab\r\nTEXT 0\r\n\r\nTEXT 1\r\nc\r\nTEXT 1\r\nd\r\n");
	accept_bytes(2, "");
	say("");
	assert_string_equal(
		replay_got(2), "TEXT 0\r\n\r\nTEXT 1\r\nc\r\nTEXT 1\r\nd\r\nTEXT 0\r\n\r\n");
	accept_bytes(2, ""); /* all */
	say("");
	assert_string_equal(replay_got(0), "TEXT 0\r\n\r\n");
	accept_bytes(0, ""); /* all, too */
	say("e");
	assert_string_equal(replay_got(0), "TEXT 1\r\ne\r\n");
	answer("");
	end();
}

static void silence_brings_it(void **state)
{
	(void)state;
	begin_with("Keep-Alive-Interval: 20\r\n", "OPEN\r\n");
	say("abc");
	replay_got(0);
	accept_bytes(1, "");
	opened_pass(&o);
	assert_string_equal(replay_got(2), "TEXT 2\r\nbc\r\n");
	accept_bytes(2, "");
	opened_pass(&o);
	assert_string_equal(replay_got(0), "");
	answer("");
	end();
}

static void it_comes_before_a_close(void **state)
{
	static const struct {
		unsigned accepted;
		const char *got;
	} rows[] = {{5, "close(1000 bye) end"}, /* the server does not answer it */
		{2, "close(1011 message that was not accepted) end"}};

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		begin();
		say("abc");
		replay_got(0);
		accept_bytes(0, "");
		opened_client_closes(&o, 1000, "bye");
		assert_string_equal(replay_got(3), "TEXT 3\r\nabc\r\nCLOSE 5\r\n\x03\xe8"
						   "bye\r\n");
		accept_bytes(i == 0 ? 8 : rows[i].accepted, "");
		assert_string_equal(opened_to_client(&o), rows[i].got);
		assert_false(gateway_is_left());
		end();
	}
}

static void a_client_that_is_gone_has_none(void **state)
{
	(void)state;
	begin();
	say("abc");
	replay_got(0);
	accept_bytes(0, "");
	memory_peer_reset(o.c.wire);
	opened_turn(&o);
	assert_string_equal(replay_got(0), "DISCONNECT\r\n");
	answer("");
	end();
}

static void what_cannot_be(void **state)
{
	static const struct stage_conf small = {.route = ROUTE "gateway_waiting_bytes = 64k\n"};
	static char large[40000 + 1];

	(void)state;
	begin();
	say("abc");
	accept_bytes(4, "");
	assert_has(opened_to_client(&o), "close(1011 answer that accepts more than was sent) ");
	end();
	memset(large, 'x', sizeof(large) - 1);
	begin_on(&small, "", "OPEN\r\n");
	for (unsigned i = 0; i < 2; i++) {
		opened_client(&o, FRAME_BINARY, large);
		opened_turn(&o);
		server_got();
		assert_true(opened_is_open(&o));
		accept_bytes(0, "");
	}
	assert_has(opened_to_client(&o), "close(1011 answer that accepts too little) ");
	end();
	begin();
	say("abc");
	replay_got(0);
	answer_with("Content-Bytes-Accepted: -1\r\n", ""); /* no number: all */
	say("d");
	assert_string_equal(replay_got(0), "TEXT 1\r\nd\r\n");
	answer("");
	end();
}

/* Whatever it accepts each time, all content arrives once and in order. */
static void any_parts(void **state)
{
	static char sent[4096], arrived[4096];
	struct random random = random_begin("parts");

	(void)state;
	for (unsigned run = 0; run < 200; run++) {
		size_t sent_bytes = 0, arrived_bytes = 0, replayed = 0;
		begin();
		for (unsigned n = 0; n < 12; n++) {
			char text[16];
			size_t len = random_below(&random, 9), content = 0, taken;
			for (size_t i = 0; i < len; i++)
				text[i] = sent[sent_bytes++] =
					(char)('a' + random_below(&random, 26));
			text[len] = '\0';
			say(text);
			const char *came = replay_got((unsigned)replayed);
			struct slice events = slice_of(came);
			struct gateway_event event;
			while (gateway_event_read(&events, &event) == GATEWAY_EVENT_READ) {
				if (event.content.len > 0)
					memcpy(arrived + arrived_bytes + content, event.content.at,
						event.content.len);
				content += event.content.len;
			}
			assert_int_equal(events.len, 0);
			assert_int_equal(arrived_bytes + content, sent_bytes);
			assert_memory_equal(arrived, sent, sent_bytes);
			taken = n == 11 ? content : random_below(&random, content + 1);
			accept_bytes((unsigned)taken, "");
			arrived_bytes += taken;
			replayed = content - taken;
		}
		assert_int_equal(arrived_bytes, sent_bytes);
		end();
	}
}

UNIT_SUITE(test_gateway_replay)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_rest_comes_again),
		cmocka_unit_test(empty_messages_come_again),
		cmocka_unit_test(silence_brings_it),
		cmocka_unit_test(it_comes_before_a_close),
		cmocka_unit_test(a_client_that_is_gone_has_none),
		cmocka_unit_test(what_cannot_be),
		cmocka_unit_test(any_parts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
