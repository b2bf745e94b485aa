/* What is published, in GRIP's format. */
#include "admin/publish_items.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/suite.h"
#include "frames/frames.h"

static char why[512];

/* A document of one item to channel `c` with these formats. */
#define FORMATS(formats) "{\"items\":[{\"channel\":\"c\",\"formats\":" formats "}]}"
#define MESSAGE(members) FORMATS("{\"ws-message\":{" members "}}")

static struct publish_items read_good(const char *text)
{
	struct publish_items items;

	if (!publish_items_read(slice_of(text), &items, why, sizeof(why)))
		fail_msg("%s: %s", text, why);
	return items;
}

static void assert_item(const char *text, enum publish_action action, bool is_binary,
	const char *content, size_t bytes)
{
	struct publish_items items = read_good(text);

	assert_int_equal(items.count, 1);
	assert_true(slice_equal(items.items[0].channel, SLICE("c")));
	assert_int_equal(items.items[0].action, action);
	if (action == PUBLISH_SEND)
		assert_int_equal(items.items[0].opcode, is_binary ? FRAME_BINARY : FRAME_TEXT);
	assert_int_equal(items.items[0].content.len, bytes);
	if (bytes > 0)
		assert_memory_equal(items.items[0].content.at, content, bytes);
	publish_items_end(&items);
}

static void contents(void **state)
{
	(void)state;
	assert_item(MESSAGE("\"content\":\"hello\""), PUBLISH_SEND, false, "hello", 5);
	assert_item(MESSAGE("\"content\":\"\",\"action\":\"send\""), PUBLISH_SEND, false, "", 0);
	assert_item(MESSAGE("\"content\":\"a\\u0000b\""), PUBLISH_SEND, false, "a\0b", 3);
	assert_item(MESSAGE("\"content-bin\":\"AP8=\""), PUBLISH_SEND, true, "\0\xff", 2);
	assert_item(MESSAGE("\"content-bin\":\"\""), PUBLISH_SEND, true, "", 0);
	assert_item(MESSAGE("\"content-bin\":\"aGk=\",\"type\":\"text\""), PUBLISH_SEND, false,
		"hi", 2);
	assert_item(MESSAGE("\"content\":\"hi\",\"type\":\"binary\""), PUBLISH_SEND, true, "hi", 2);
	assert_item(
		MESSAGE("\"content\":null,\"content-bin\":\"aGk=\""), PUBLISH_SEND, true, "hi", 2);
}

static void closes(void **state)
{
	struct publish_items items;

	(void)state;
	items = read_good(MESSAGE("\"action\":\"close\""));
	assert_int_equal(items.items[0].action, PUBLISH_CLOSE);
	assert_int_equal(items.items[0].code, 1000);
	assert_int_equal(items.items[0].content.len, 0);
	publish_items_end(&items);
	items = read_good(MESSAGE("\"action\":\"close\",\"code\":4999,\"reason\":\"enough\""));
	assert_int_equal(items.items[0].code, 4999);
	assert_true(slice_equal(items.items[0].content, SLICE("enough")));
	publish_items_end(&items);
}

/* Other formats than that of WebSockets, and hints, are for others. */
static void nothing_to_send(void **state)
{
	(void)state;
	assert_item(
		FORMATS("{\"http-stream\":{\"content\":\"x\"}}"), PUBLISH_NOTHING, false, "", 0);
	assert_item(MESSAGE("\"action\":\"hint\""), PUBLISH_NOTHING, false, "", 0);
}

static void many(void **state)
{
	size_t room = PUBLISH_ITEMS_MOST * 80 + 200, used;
	char *text = malloc(room);

	(void)state;
	for (size_t count = 1; count <= PUBLISH_ITEMS_MOST + 1;
		count += count < 40 ? 1 : 9961 / 3) {
		struct publish_items items;
		used = (size_t)sprintf(text, "{\"items\":[");
		for (size_t i = 0; i < count; i++)
			used += (size_t)sprintf(text + used,
				"%s{\"channel\":\"%zu\",\"id\":\"%zu\",\"formats\":{\"ws-message\":"
				"{"
				"\"content-bin\":\"QUJD\"}}}",
				i ? "," : "", i, i);
		used += (size_t)sprintf(text + used, "]}");
		bool good =
			publish_items_read((struct slice){text, used}, &items, why, sizeof(why));
		assert_int_equal(good, count <= PUBLISH_ITEMS_MOST);
		if (!good) {
			assert_string_equal(
				why, "items: invalid value; expected an array of 1 to 10000 items");
			continue;
		}
		assert_int_equal(items.count, count);
		for (size_t i = 0; i < count; i++)
			assert_memory_equal(items.items[i].content.at, "ABC", 3);
		publish_items_end(&items);
	}
	free(text);
}

#define TEN       "0123456789"
#define LONG_PING TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN "123456"

static void pings_and_meta(void **state)
{
	struct publish_items items = read_good(MESSAGE("\"type\":\"ping\""));

	(void)state;
	assert_int_equal(items.items[0].action, PUBLISH_SEND);
	assert_int_equal(items.items[0].opcode, FRAME_PING);
	assert_int_equal(items.items[0].content.len, 0);
	assert_true(grip_meta_is_empty(&items.items[0].meta));
	publish_items_end(&items);
	items = read_good(
		MESSAGE("\"type\":\"pong\",\"content-bin\":\"/w==\",\"content-filters\":[]"));
	assert_int_equal(items.items[0].opcode, FRAME_PONG);
	assert_true(slice_equal(items.items[0].content, SLICE("\xff")));
	publish_items_end(&items);
	items = read_good(
		"{\"items\":[{\"channel\":\"c\",\"meta\":{\"sender\":\"ann\",\"skip_users\":"
		"\"b,c\",\"require_sub\":\"d\",\"other\":1},\"formats\":{\"ws-message\":{"
		"\"action\":\"refresh\"}}}]}");
	assert_int_equal(items.items[0].action, PUBLISH_REFRESH);
	assert_true(slice_equal(items.items[0].meta.sender, SLICE("ann")));
	assert_true(slice_equal(items.items[0].meta.skip_users, SLICE("b,c")));
	assert_true(slice_equal(items.items[0].meta.require_sub, SLICE("d")));
	publish_items_end(&items);
}

static void wrong_ones(void **state)
{
	static const struct {
		const char *text, *why;
	} cases[] = {
		{"", "invalid JSON: "},
		{"{\"items\":", "invalid JSON: "},
		{"\"\xff\"", "invalid JSON: "},
		{"[]", "items: invalid value; expected an array of 1 to 10000 items"},
		{"{\"items\":{}}", "items: invalid value; expected an array"},
		{"{\"items\":[]}", "items: invalid value; expected an array of 1 to"},
		{"{\"items\":[1]}", "items[0]: invalid type; expected an object"},
		{"{\"items\":[{}]}", "items[0].channel: invalid value; expected a text of 1 to "},
		{"{\"items\":[{\"channel\":\"\"}]}", "items[0].channel: invalid value"},
		{"{\"items\":[{\"channel\":7}]}", "items[0].channel: invalid value"},
		{"{\"items\":[{\"channel\":\"c\"}]}", "items[0].formats: invalid value; expected"},
		{"{\"items\":[{\"channel\":\"c\",\"id\":5,\"formats\":{}}]}",
			"items[0]: invalid id or prev-id; expected a text"},
		{"{\"items\":[{\"channel\":\"c\",\"prev-id\":{},\"formats\":{}}]}",
			"items[0]: invalid id or prev-id; expected a text"},
		{FORMATS("[]"), "items[0].formats: invalid value; expected an object"},
		{FORMATS("{}"), "items[0].formats: invalid value; expected an object"},
		{FORMATS("{\"ws-message\":\"x\"}"),
			"items[0].formats.ws-message: invalid type; expected an object"},
		{MESSAGE(""), "ws-message: no content; expected content or content-bin"},
		{MESSAGE("\"content\":5"), "ws-message.content: invalid type; expected a text"},
		{MESSAGE("\"content-bin\":5"), "content-bin: invalid type; expected base64"},
		{MESSAGE("\"content-bin\":\"QQ\""),
			"content-bin: invalid base64; expected it with"},
		{MESSAGE("\"content-bin\":\"Q Q==\""), "content-bin: invalid base64"},
		{MESSAGE("\"content-bin\":\"QQ=\""), "content-bin: invalid base64"},
		{MESSAGE("\"content-bin\":\"_-8=\""), "content-bin: invalid base64"},
		{MESSAGE("\"content-bin\":\"/w==\",\"type\":\"text\""),
			"content-bin: invalid UTF-8; expected it in a text"},
		{MESSAGE("\"content\":\"x\",\"type\":\"close\""),
			"type: invalid value; expected text, binary, ping or pong"},
		{MESSAGE("\"type\":\"text\""), "no content; expected content or content-bin"},
		{MESSAGE("\"type\":\"ping\",\"content\":\"" LONG_PING "\""),
			"expected up to 125 bytes in a ping or pong"},
		{MESSAGE("\"content\":\"x\",\"content-filters\":[\"skip-users\"]"),
			"content-filters: not supported; expected none"},
		{MESSAGE("\"content\":\"x\",\"content-filters\":\"a\""),
			"content-filters: not supported; expected none"},
		{FORMATS("{\"http-stream\":{\"content\":\"x\",\"content-filters\":[\"build-id\"]}"
			 "}"),
			"http-stream.content-filters: not supported; expected none"},
		{FORMATS("{\"http-response\":{\"body\":\"x\",\"content-filters\":{}}}"),
			"http-response.content-filters: not supported; expected none"},
		{"{\"items\":[{\"channel\":\"c\",\"meta\":1,\"formats\":{}}]}",
			"items[0].meta: invalid type; expected an object"},
		{"{\"items\":[{\"channel\":\"c\",\"meta\":{\"skip_users\":[]},\"formats\":{}}]}",
			"items[0].meta: invalid sender, skip_users or require_sub; expected a "
			"text"},
		{MESSAGE("\"action\":\"reload\""),
			"action: unknown value; expected send, close, refresh or"},
		{MESSAGE("\"action\":1"), "action: invalid type; expected a text"},
		{MESSAGE("\"action\":\"close\",\"code\":\"1000\""), "code: invalid value"},
		{MESSAGE("\"action\":\"close\",\"code\":1005"),
			"code: invalid value; expected a close"},
		{MESSAGE("\"action\":\"close\",\"code\":-1"), "code: invalid value"},
		{MESSAGE("\"action\":\"close\",\"code\":4294968296"), "code: invalid value"},
		{MESSAGE("\"action\":\"close\",\"reason\":5"),
			"reason: invalid value; expected a text"},
	};
	struct publish_items items;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (publish_items_read(slice_of(cases[i].text), &items, why, sizeof(why)) ||
			!strstr(why, cases[i].why))
			fail_msg("%s: %s", cases[i].text, why);
	}
}

/* The place of the item, and nothing of the ones before is held. */
static void a_later_one(void **state)
{
	struct publish_items items;

	(void)state;
	assert_false(publish_items_read(
		SLICE("{\"items\":[{\"channel\":\"c\",\"formats\":{\"ws-message\":{\"content\":"
		      "\"a\"}}},"
		      "{\"channel\":\"c\",\"formats\":{\"ws-message\":{\"content-bin\":\"!\"}}}]}"),
		&items, why, sizeof(why)));
	assert_string_equal(why,
		"items[1].formats.ws-message.content-bin: invalid base64; expected it "
		"with its padding");
}

UNIT_SUITE(test_publish_items)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(contents),
		cmocka_unit_test(closes),
		cmocka_unit_test(nothing_to_send),
		cmocka_unit_test(many),
		cmocka_unit_test(pings_and_meta),
		cmocka_unit_test(wrong_ones),
		cmocka_unit_test(a_later_one),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
