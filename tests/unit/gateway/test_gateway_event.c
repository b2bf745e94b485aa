/* Events of the WebSocket-over-HTTP protocol, read and written. */
#include "gateway/gateway_event.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/suite.h"

static enum gateway_event_result read_one(struct slice *bytes, struct gateway_event *event)
{
	return gateway_event_read(bytes, event);
}

static void reads_what_the_protocol_shows(void **state)
{
	struct slice bytes =
		SLICE("OPEN\r\nTEXT B\r\nhello world\r\nBINARY 0\r\n\r\nPING\r\n"
		      "CLOSE 2\r\n\x03\xe8\r\nDISCONNECT\r\nTEXT a\r\n0123\r\n6789\r\n");
	static const struct {
		enum gateway_event_kind kind;
		bool has_content;
		struct slice content;
	} rows[] = {
		{GATEWAY_EVENT_OPEN, false, SLICE("")},
		{GATEWAY_EVENT_TEXT, true, SLICE("hello world")},
		{GATEWAY_EVENT_BINARY, true, SLICE("")},
		{GATEWAY_EVENT_PING, false, SLICE("")},
		{GATEWAY_EVENT_CLOSE, true, SLICE("\x03\xe8")},
		{GATEWAY_EVENT_DISCONNECT, false, SLICE("")},
		{GATEWAY_EVENT_TEXT, true, SLICE("0123\r\n6789")},
	};
	struct gateway_event event;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		assert_int_equal(read_one(&bytes, &event), GATEWAY_EVENT_READ);
		assert_int_equal(event.kind, rows[i].kind);
		assert_int_equal(event.has_content, rows[i].has_content);
		assert_int_equal(event.content.len, rows[i].content.len);
		if (event.content.len > 0)
			assert_memory_equal(
				event.content.at, rows[i].content.at, event.content.len);
	}
	assert_int_equal(read_one(&bytes, &event), GATEWAY_EVENT_NONE);
}

static void later_events_are_unknown(void **state)
{
	struct slice bytes = SLICE("FUTURE 3\r\nabc\r\nText 1\r\nx\r\n");
	struct gateway_event event;

	(void)state;
	assert_int_equal(read_one(&bytes, &event), GATEWAY_EVENT_READ);
	assert_int_equal(event.kind, GATEWAY_EVENT_UNKNOWN);
	assert_int_equal(event.content.len, 3);
	assert_int_equal(read_one(&bytes, &event), GATEWAY_EVENT_READ);
	assert_int_equal(event.kind, GATEWAY_EVENT_UNKNOWN);
}

static void refuses_the_malformed(void **state)
{
	static const struct slice rows[] = {SLICE("OPEN"), SLICE("OPEN\n"), SLICE("\r\n"),
		SLICE(" 5\r\nhello\r\n"), SLICE("TEXT \r\nx\r\n"), SLICE("TEXT 5\r\nhell"),
		SLICE("TEXT 5\r\nhello"), SLICE("TEXT 5\r\nhello\r"), SLICE("TEXT 5\r\nhello!\r\n"),
		SLICE("TEXT 4\r\nhello\r\n"), SLICE("TEXT g\r\nx\r\n"), SLICE("TEXT -1\r\nx\r\n"),
		SLICE("TEXT 0x1\r\nx\r\n"), SLICE("TEXT 1 \r\nx\r\n"), SLICE("TEXT  1\r\nx\r\n"),
		SLICE("TEXT FFFFFFFF\r\nx\r\n"), SLICE("TEXT 100000000\r\nx\r\n"),
		SLICE("TEXT ffffffffffffffff\r\nx\r\n"), SLICE("TE1T 1\r\nx\r\n"),
		SLICE("ANAMETHATISTOOLONGFORANYEVENTTHATTHEREIS\r\n"), SLICE("\0\r\n")};
	struct gateway_event event;

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct slice bytes = rows[i];
		assert_int_equal(read_one(&bytes, &event), GATEWAY_EVENT_MALFORMED);
	}
}

static void reads_what_it_writes(void **state)
{
	static char content[70000], bytes[70100];

	(void)state;
	for (unsigned n = 0; n < 2000; n++) {
		struct gateway_event written = {
			.kind = (enum gateway_event_kind)(n % GATEWAY_EVENT_UNKNOWN),
			.has_content = n % 3 > 0,
		};
		struct gateway_event event;
		if (written.has_content)
			written.content = (struct slice){content, (size_t)n * 33};
		size_t len = gateway_event_bytes(&written);
		assert_in_range(len, 1, sizeof(bytes) - 1);
		bytes[len] = '!';
		gateway_event_write(&written, bytes);
		assert_int_equal(bytes[len], '!');
		struct slice rest = {bytes, len};
		assert_int_equal(read_one(&rest, &event), GATEWAY_EVENT_READ);
		assert_int_equal(rest.len, 0);
		assert_int_equal(event.kind, written.kind);
		assert_int_equal(event.has_content, written.has_content);
		assert_int_equal(event.content.len, written.content.len);
	}
}

static void lengths_are_hexadecimal(void **state)
{
	const struct gateway_event event = {
		GATEWAY_EVENT_TEXT, true, SLICE("0123456789abcdefghijk")};
	char bytes[64];

	(void)state;
	gateway_event_write(&event, bytes);
	assert_memory_equal(bytes, "TEXT 15\r\n0123456789abcdefghijk\r\n", 32);
}

UNIT_SUITE(test_gateway_event)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_what_the_protocol_shows),
		cmocka_unit_test(later_events_are_unknown),
		cmocka_unit_test(refuses_the_malformed),
		cmocka_unit_test(reads_what_it_writes),
		cmocka_unit_test(lengths_are_hexadecimal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
