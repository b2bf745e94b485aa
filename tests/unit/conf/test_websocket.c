/* What a route's file says of WebSockets: values, and keys that need or exclude each other. */
#include "config.h"

#include "text.h"

#include "conf/reference.h"
#include "tests/unit/suite.h"

/* TEXT_BASE's own route becomes one of messages: the first line of `lines` is line 12. */
#define TEXT_MESSAGES TEXT_BASE "websocket = messages\n"

static void a_tunnel_has_none_of_it(void **state)
{
	static const char *const lines[] = {"message_limits = base", "on_message_exceed = drop",
		"message_notice = x", "max_message_size = 1k", "message_timeout = 1s",
		"max_sockets = base", "websocket_origin = https://a", "websocket_protocols = a",
		"ping_interval = 1s", "ping_timeout = 1s", "socket_idle_timeout = 1s",
		"socket_lifetime = 1s", "close_timeout = 1s", "socket_queue_bytes = 1k",
		"socket_type = x", "socket_queue_messages = 1", "on_socket_queue_full = drop",
		"socket_queue_messages = 1", "on_socket_queue_full = drop", "socket_channels = 5",
		"gateway_waiting = 5", "gateway_tries = 1", "log_messages = on"};

	(void)state;
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		bad_text(10, "has no effect without websocket = ", TEXT_BASE "%s\n", lines[i]);
		bad_text(11,
			"has no effect without websocket = ", TEXT_BASE "websocket = tunnel\n%s\n",
			lines[i]);
	}
	conf_release(parse_good(TEXT_BASE "websocket = tunnel\n"));
}

#ifdef HAVE_WEBSOCKET
static void messages_have_no_gateway(void **state)
{
	static const char *const lines[] = {"gateway_waiting = 5", "gateway_waiting_bytes = 1k",
		"gateway_batch = 1", "gateway_answer_size = 1k", "gateway_tries = 1"};
	char text[1024];

	(void)state;
	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		bad_text(11, "has no effect without websocket = gateway; expected that as well",
			TEXT_MESSAGES "%s\n", lines[i]);
		snprintf(text, sizeof(text), TEXT_BASE "websocket = gateway\n%s\n", lines[i]);
		conf_release(parse_good(text));
	}
	conf_release(parse_good(
		TEXT_BASE "grip_hold = on\ngateway_answer_size = 1k\nsocket_channels = 5\n"));
}

static const struct conf_websocket *websocket_of(const struct conf *conf)
{
	return &conf->routes[0].websocket;
}

static void values(void **state)
{
	const struct conf *conf = parse_good(
		TEXT_MESSAGES "message_limits = base\non_message_exceed = delay 1500ms\n"
			      "websocket_origin = HTTPS://App.Example.com:8443, http://*.b\n"
			      "websocket_protocols = chat, V1.x\n");
	const struct conf_websocket *websocket = websocket_of(conf);

	(void)state;
	assert_int_equal(websocket->mode, CONF_WEBSOCKET_MESSAGES);
	assert_int_equal(websocket->limits.count, 1);
	assert_string_equal(websocket->limits.items[0]->name, "base");
	assert_false(websocket->limits.plan);
	assert_int_equal(websocket->on_exceed, CONF_MESSAGE_DELAY);
	assert_int_equal(websocket->delay_max_ms, 1500);
	assert_int_equal(websocket->origins.count, 2);
	assert_string_equal(websocket->origins.items[0], "https://app.example.com:8443");
	assert_string_equal(websocket->protocols.items[1], "V1.x");
	assert_int_equal(websocket->max_message_bytes, 1 << 20);
	conf_release(conf);
	conf = parse_good(TEXT_MESSAGES);
	assert_int_equal(websocket_of(conf)->on_exceed, CONF_MESSAGE_DELAY);
	assert_true(websocket_of(conf)->delay_max_ms == UINT64_MAX);
	conf_release(conf);
	conf = parse_good(TEXT_MESSAGES "on_message_exceed = drop\nmessage_notice = slow down\n");
	assert_int_equal(websocket_of(conf)->on_exceed, CONF_MESSAGE_DROP);
	assert_string_equal(websocket_of(conf)->notice, "slow down");
	conf_release(conf);
}

static void wrong_values(void **state)
{
	static const char *const wrong[] = {"on_message_exceed = reject",
		"on_message_exceed = drop 1s", "on_message_exceed = delay 5",
		"on_message_exceed = delay 0s", "websocket_origin = app.example.com",
		"websocket_origin = https://", "websocket_origin = https://a/path",
		"websocket_origin = https://a*", "websocket_protocols = a b",
		"max_message_size = 0", "ping_timeout = 0"};

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
		bad_text(11, "expected", TEXT_MESSAGES "%s\n", wrong[i]);
	parse_bad(TEXT_BASE "websocket = gate\n", 10, "expected tunnel, messages or gateway");
}

static void what_goes_together(void **state)
{
	(void)state;
	parse_bad(TEXT_MESSAGES "upgrade = off\n", 10, "expected upgrade = websocket");
	parse_bad(TEXT_MESSAGES "upgrade = chat\n", 10, "expected upgrade = websocket");
	parse_bad(TEXT_MESSAGES "message_notice = x\n", 11, "expected on_message_exceed = drop");
	parse_bad(TEXT_MESSAGES "max_sockets = base\n", 11, "expected a limit with concurrency");
	parse_bad(TEXT_MESSAGES "max_sockets = bse\n", 11, "did you mean \"base\"?");
	parse_bad(TEXT_MESSAGES "message_limits = base, base\n", 11, "is given twice");
	parse_bad(TEXT_MESSAGES "message_limits = plan\n", 11, "has no effect without [plans]");
	parse_bad(TEXT_MESSAGES "method = POST\n", 11, "expected GET among the methods");
	conf_release(parse_good(TEXT_MESSAGES "method = POST, GET\n"));
}

/* What breaks each handshake, or each request of a gateway. */
static void fields_of_the_protocol(void **state)
{
	static const char *const words[] = {
		"Sec-WebSocket-Key", "sec-websocket-accept", "Sec-WebSocket-Version"};
	static const char *const keys[] = {"request_header_set", "request_header_remove",
		"response_header_set", "response_header_remove"};
	char text[1024];

	(void)state;
	for (size_t i = 0; i < 12; i++) {
		snprintf(text, sizeof(text), TEXT_BASE "%s = %s%s\n", keys[i / 3], words[i % 3],
			i / 3 % 2 == 0 ? ": x" : "");
		parse_bad(text, 10, "expected another field");
	}
	parse_bad(TEXT_BASE "websocket = gateway\nrequest_header_set = content-type: x\n", 11,
		"expected another field");
	parse_bad(TEXT_BASE "websocket = gateway\nrequest_header_remove = X-A, Accept\n", 11,
		"expected another field");
	conf_release(parse_good(TEXT_BASE "websocket = gateway\nrequest_header_set = X: Accept\n"
					  "response_header_set = Content-Type: x\n"));
	conf_release(parse_good(TEXT_BASE "request_header_set = Content-Type: x\n"));
}

/* The handshake passes limits and max_sockets together. */
static void how_many_limits(void **state)
{
	char text[8192] = "", *at = text, *of_route = NULL;
	size_t most = 0;

	(void)state;
	for (int count = 1; count < 40; count++) {
		at = text + sprintf(text, TEXT_MESSAGES "max_sockets = c\nlimits = base");
		for (int i = 1; i < count; i++)
			at += sprintf(at, ", l%d", i);
		at += sprintf(at, "\n[limit c]\nconcurrency = 1\n");
		for (int i = 1; i < count; i++)
			at += sprintf(at, "[limit l%d]\nrate = 1 per 1s\n", i);
		struct conf_errors errors;
		const struct conf *conf = conf_parse(text, strlen(text), "t", NULL, &errors);
		conf_errors_free(&errors);
		if (!conf)
			break;
		conf_release(conf);
		most = (size_t)count;
	}
	of_route = strstr(text, "max_sockets = c\n");
	assert_in_range(most, 2, 38);
	memmove(of_route, of_route + strlen("max_sockets = c\n"),
		strlen(of_route + strlen("max_sockets = c\n")) + 1);
	conf_release(parse_good(text)); /* one more without */
}

static void a_dump_reads_as_the_same(void **state)
{
	const struct conf *conf = parse_good(
		TEXT_MESSAGES "message_limits = base\n[route t]\nupstream = u\npath = =/t\n");
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);

	(void)state;
	reference_dump(conf, out);
	fclose(out);
	conf_release(parse_good(text));
	free(text);
	conf_release(conf);
}
#else
static void it_needs_a_library(void **state)
{
	(void)state;
	parse_bad(TEXT_BASE "websocket = messages\n", 10, "a build with libwslay");
}
#endif

UNIT_SUITE(test_websocket)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_tunnel_has_none_of_it),
#ifdef HAVE_WEBSOCKET
		cmocka_unit_test(messages_have_no_gateway),
		cmocka_unit_test(values),
		cmocka_unit_test(wrong_values),
		cmocka_unit_test(what_goes_together),
		cmocka_unit_test(fields_of_the_protocol),
		cmocka_unit_test(how_many_limits),
		cmocka_unit_test(a_dump_reads_as_the_same),
#else
		cmocka_unit_test(it_needs_a_library),
#endif
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
