/* Control messages of GRIP. */
#include "channels/grip_control.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/unit/suite.h"

static struct grip_control control;

static const char *parse(const char *json)
{
	return grip_control_parse(slice_of(json), &control);
}

static void assert_good(const char *json, enum grip_control_type type, const char *text)
{
	const char *wrong = parse(json);

	if (wrong)
		fail_msg("%s: %s", json, wrong);
	assert_int_equal(control.type, type);
	assert_true(slice_equal((struct slice){control.text, control.bytes}, slice_of(text)));
}

static void assert_wrong(const char *json, const char *expected)
{
	const char *wrong = parse(json);

	if (!wrong || !strstr(wrong, expected))
		fail_msg("%s: %s", json, wrong ? wrong : "good");
}

static void channels(void **state)
{
	(void)state;
	assert_good("{\"type\":\"subscribe\",\"channel\":\"room\"}", GRIP_SUBSCRIBE, "room");
	assert_good(
		"{\"channel\":\"room 1\", \"type\":\"unsubscribe\"}", GRIP_UNSUBSCRIBE, "room 1");
	/* members that are not known, and some of Pushpin's that are not needed */
	assert_good("{\"type\":\"subscribe\",\"channel\":\"r\",\"filters\":[\"skip-self\"],"
		    "\"prev-id\":\"1\",\"new\":{}}",
		GRIP_SUBSCRIBE, "r");
	assert_good("{\"type\":\"subscribe\",\"channel\":\"\\u00e9\"}", GRIP_SUBSCRIBE, "\xc3\xa9");
	assert_good("{\"type\":\"detach\"}", GRIP_DETACH, "");
}

static void a_channel_has_at_most_1_kib(void **state)
{
	char json[GRIP_CHANNEL_BYTES + 128], name[GRIP_CHANNEL_BYTES + 2];

	(void)state;
	for (size_t len = GRIP_CHANNEL_BYTES; len <= GRIP_CHANNEL_BYTES + 1; len++) {
		memset(name, 'x', len);
		name[len] = '\0';
		snprintf(json, sizeof(json), "{\"type\":\"subscribe\",\"channel\":\"%s\"}", name);
		if (len <= GRIP_CHANNEL_BYTES)
			assert_good(json, GRIP_SUBSCRIBE, name);
		else
			assert_wrong(json, "expected a text of 1 to 1024 bytes");
	}
}

static void a_name_may_have_a_nul(void **state)
{
	(void)state;
	assert_null(parse("{\"type\":\"subscribe\",\"channel\":\"a\\u0000b\"}"));
	assert_int_equal(control.bytes, 3);
	assert_memory_equal(control.text, "a\0b", 3);
}

static void wrong_ones(void **state)
{
	static const char channel[] = "expected a text of 1 to 1024 bytes";
	static const struct {
		const char *json, *expected;
	} cases[] = {
		{"", "invalid JSON"},
		{"{", "invalid JSON"},
		{"[]", "expected an object"},
		{"\"subscribe\"", "expected an object"},
		{"{\"type\":\"subscribe\",\"channel\":\"\xff\"}", "invalid JSON"},
		{"{}", "invalid \"type\"; expected a text"},
		{"{\"type\":1}", "invalid \"type\"; expected a text"},
		{"{\"type\":\"join\"}",
			"expected subscribe, unsubscribe, detach, keep-alive or set-meta"},
		{"{\"type\":\"subscribe\"}", channel},
		{"{\"type\":\"subscribe\",\"channel\":\"\"}", channel},
		{"{\"type\":\"subscribe\",\"channel\":null}", channel},
		{"{\"type\":\"unsubscribe\",\"channel\":5}", channel},
		{"{\"type\":\"keep-alive\",\"content\":5}", "invalid \"content\""},
		{"{\"type\":\"keep-alive\",\"content-bin\":\"x\"}", "expected base64"},
		{"{\"type\":\"keep-alive\",\"content-bin\":[]}", "expected base64"},
		{"{\"type\":\"keep-alive\",\"content-bin\":\"/w==\",\"message-type\":\"text\"}",
			"expected UTF-8"},
		{"{\"type\":\"keep-alive\",\"content\":\"a\",\"message-type\":\"close\"}",
			"\"text\", \"binary\", \"ping\" or \"pong\""},
		{"{\"type\":\"set-meta\"}", "invalid \"name\""},
		{"{\"type\":\"set-meta\",\"name\":\"\"}", "expected a text of 1 to 256 bytes"},
		{"{\"type\":\"set-meta\",\"name\":\"n\",\"value\":1}", "invalid \"value\""},
		{"{\"type\":\"keep-alive\",\"content\":\"a\",\"timeout\":0}", "1 to 86400"},
		{"{\"type\":\"keep-alive\",\"content\":\"a\",\"timeout\":86401}", "1 to 86400"},
		{"{\"type\":\"keep-alive\",\"content\":\"a\",\"timeout\":\"5\"}", "1 to 86400"},
		{"{\"type\":\"keep-alive\",\"content\":\"a\",\"mode\":\"x\"}",
			"\"idle\" or \"interval\""},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		assert_wrong(cases[i].json, cases[i].expected);
}

static void long_ones(void **state)
{
	size_t bytes = 64 * 1024;
	char *json = malloc(bytes);

	(void)state;
	memset(json, ' ', bytes);
	json[0] = '{';
	json[bytes - 1] = '}';
	assert_non_null(grip_control_parse((struct slice){json, bytes}, &control));
	memset(json, '[', bytes); /* deep */
	assert_non_null(grip_control_parse((struct slice){json, 16 * 1024}, &control));
	free(json);
}

static void keep_alives(void **state)
{
	(void)state;
	assert_good("{\"type\":\"keep-alive\",\"content\":\"ping\"}", GRIP_KEEP_ALIVE, "ping");
	assert_true(control.has_content);
	assert_false(control.opcode != FRAME_TEXT || control.is_interval);
	assert_int_equal(control.timeout_s, GRIP_KEEP_ALIVE_DEFAULT_S);
	assert_good("{\"type\":\"keep-alive\",\"content-bin\":\"AQI=\",\"timeout\":7,"
		    "\"mode\":\"interval\"}",
		GRIP_KEEP_ALIVE, "\x01\x02");
	assert_true(control.has_content && control.opcode == FRAME_BINARY && control.is_interval);
	assert_int_equal(control.timeout_s, 7);
	assert_good("{\"type\":\"keep-alive\",\"content\":\"b\",\"message-type\":\"binary\","
		    "\"mode\":\"idle\"}",
		GRIP_KEEP_ALIVE, "b");
	assert_true(control.opcode == FRAME_BINARY && !control.is_interval);
	assert_good("{\"type\":\"keep-alive\"}", GRIP_KEEP_ALIVE, "");
	assert_false(control.has_content);
	assert_good("{\"type\":\"keep-alive\",\"message-type\":\"ping\"}", GRIP_KEEP_ALIVE, "");
	assert_true(control.has_content && control.opcode == FRAME_PING);
	assert_good("{\"type\":\"keep-alive\",\"message-type\":\"pong\",\"content\":\"x\"}",
		GRIP_KEEP_ALIVE, "x");
	assert_int_equal(control.opcode, FRAME_PONG);
}

/* A frame of control has at most 125 bytes. */
static void long_pings(void **state)
{
	char json[300];

	(void)state;
	for (int len = 125; len <= 126; len++) {
		snprintf(json, sizeof(json),
			"{\"type\":\"keep-alive\",\"message-type\":\"ping\",\"content\":\"%0*d\"}",
			len, 0);
		const char *wrong = parse(json);
		assert_int_equal(wrong == NULL, len == 125);
		assert_true(!wrong || strstr(wrong, "up to 125 bytes"));
	}
}

static void values(void **state)
{
	(void)state;
	assert_good("{\"type\":\"set-meta\",\"name\":\"user\",\"value\":\"ann\"}", GRIP_SET_META,
		"ann");
	assert_int_equal(control.name_bytes, 4);
	assert_memory_equal(control.name, "user", 4);
	assert_good("{\"type\":\"set-meta\",\"name\":\"user\"}", GRIP_SET_META, "");
}

UNIT_SUITE(test_grip_control)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(channels),
		cmocka_unit_test(a_channel_has_at_most_1_kib),
		cmocka_unit_test(a_name_may_have_a_nul),
		cmocka_unit_test(wrong_ones),
		cmocka_unit_test(long_ones),
		cmocka_unit_test(keep_alives),
		cmocka_unit_test(long_pings),
		cmocka_unit_test(values),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
