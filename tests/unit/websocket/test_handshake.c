/* Handshakes: what of a request is passed on, what is refused, and which answers can be read. */
#include "websocket/handshake.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/slice.h"
#include "../http/head.h"
#include "tests/unit/suite.h"

static const char *origin_items[] = {"https://app.test", "https://*.wild.test"};
static const char *protocol_items[] = {"chat", "v1.x"};
static const struct conf_websocket open_conf = {.mode = CONF_WEBSOCKET_MESSAGES};

static struct conf_websocket strict_conf(void)
{
	struct conf_websocket conf = open_conf;

	conf.origins = (struct conf_text_list){origin_items, 2};
	conf.protocols = (struct conf_text_list){protocol_items, 2};
	return conf;
}

/* Judges a head with these fields besides the version. `passed` gets what of the field `name` is
 * passed on, all of them with '|' between. */
static unsigned judge(
	const struct conf_websocket *conf, const char *fields, const char *name, char passed[256])
{
	struct http_head head;
	const char *why = NULL;
	char bytes[512];

	snprintf(bytes, sizeof(bytes), "%s", fields);
	head_of(&head, bytes);
	unsigned status = handshake_judge(conf, &head, bytes, &why);
	assert_int_equal(status == 0, why == NULL);
	passed[0] = '\0';
	for (unsigned i = 0; i < head.field_count; i++) {
		const struct http_field *field = &head.fields[i];
		if (field->hop ||
			!slice_equal_nocase(http_field_name(&head, field), slice_of(name)))
			continue;
		if (passed[0])
			strcat(passed, "|");
		strncat(passed, head.base + field->value_at, field->value_len);
	}
	return status;
}

#define VERSION "Sec-WebSocket-Version: 13\n"

static void versions(void **state)
{
	char passed[256];

	(void)state;
	assert_int_equal(judge(&open_conf, VERSION, "x", passed), 0);
	assert_int_equal(judge(&open_conf, "A: b\n", "x", passed), 426);
	assert_int_equal(judge(&open_conf, "Sec-WebSocket-Version: 8\n", "x", passed), 426);
	assert_int_equal(judge(&open_conf, VERSION VERSION, "x", passed), 426);
}

/* Where sluice is the server (RFC 6455 section 4.2.1). */
static void keys_of_gateways(void **state)
{
	static const struct {
		const char *fields;
		enum http_method method;
		unsigned status;
	} rows[] = {
		{"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\n", HTTP_METHOD_GET, 0},
		{"Sec-WebSocket-Key: zzzzzzzzzzzzzzzzzzzz+/==\n", HTTP_METHOD_GET, 0},
		{"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\n", HTTP_METHOD_POST, 400},
		{"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\n", HTTP_METHOD_HEAD, 400},
		{"", HTTP_METHOD_GET, 400},
		{"Sec-WebSocket-Key:\n", HTTP_METHOD_GET, 400},
		{"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25j\n", HTTP_METHOD_GET, 400},
		{"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQo=\n", HTTP_METHOD_GET, 400},
		{"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ*=\n", HTTP_METHOD_GET, 400},
		{"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\n"
		 "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\n",
			HTTP_METHOD_GET, 400},
	};
	struct conf_websocket gateway = open_conf;

	(void)state;
	gateway.mode = CONF_WEBSOCKET_GATEWAY;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct http_head head;
		const char *why = NULL;
		char bytes[256];
		snprintf(bytes, sizeof(bytes), VERSION "%s", rows[i].fields);
		head_of(&head, bytes);
		head.method = rows[i].method;
		assert_int_equal(handshake_judge(&gateway, &head, bytes, &why), rows[i].status);
		/* Else it is the server's affair. */
		head_of(&head, bytes);
		assert_int_equal(handshake_judge(&open_conf, &head, bytes, &why), 0);
	}
}

static void extensions(void **state)
{
	static const struct {
		const char *fields, *passed;
	} rows[] = {
		{"Sec-WebSocket-Extensions: permessage-deflate\n", "permessage-deflate"},
		{"Sec-WebSocket-Extensions: x, PerMessage-Deflate ; a=1 , y\n",
			"PerMessage-Deflate ; a=1"},
		{"Sec-WebSocket-Extensions: permessage-deflate; b, permessage-deflate\n",
			"permessage-deflate; b,permessage-deflate"},
		{"Sec-WebSocket-Extensions: x-webkit-deflate-frame\n", ""},
		{"Sec-WebSocket-Extensions: permessage-deflated, permessage\n", ""},
		{"Sec-WebSocket-Extensions:\n", ""},
		{"Sec-WebSocket-Extensions: x\nsec-websocket-extensions: permessage-deflate\n",
			"permessage-deflate"},
	};
	struct conf_websocket drops = open_conf;
	char passed[256], fields[256];

	(void)state;
	drops.on_exceed = CONF_MESSAGE_DROP;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		snprintf(fields, sizeof(fields), VERSION "%s", rows[i].fields);
		assert_int_equal(judge(&open_conf, fields, "sec-websocket-extensions", passed), 0);
		assert_string_equal(passed, rows[i].passed);
		assert_int_equal(judge(&drops, fields, "sec-websocket-extensions", passed), 0);
		assert_string_equal(passed, "");
	}
}

static void protocols(void **state)
{
	const struct conf_websocket conf = strict_conf();
	char passed[256];

	(void)state;
	assert_int_equal(judge(&conf, VERSION, "sec-websocket-protocol", passed), 0);
	assert_int_equal(judge(&conf, VERSION "Sec-WebSocket-Protocol: a, chat ,b, v1.x\n",
				 "sec-websocket-protocol", passed),
		0);
	assert_string_equal(passed, "chat,v1.x");
	assert_int_equal(judge(&conf, VERSION "Sec-WebSocket-Protocol: Chat\n",
				 "sec-websocket-protocol", passed),
		403);
	assert_int_equal(judge(&open_conf, VERSION "Sec-WebSocket-Protocol: any, other\n",
				 "sec-websocket-protocol", passed),
		0);
	assert_string_equal(passed, "any,other");
}

static void origins(void **state)
{
	static const struct {
		const char *origin;
		unsigned status;
	} rows[] = {{"https://app.test", 0}, {"HTTPS://APP.TEST", 0},
		{"https://app.test.evil", 403}, {"https://a.wild.test", 0},
		{"https://a.b.wild.test", 0}, {"https://wild.test", 403},
		{"https://.wild.test", 403}, {"http://a.wild.test", 403}, {"null", 403}, {"", 403}};
	const struct conf_websocket conf = strict_conf();
	char passed[256], fields[256];

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		snprintf(fields, sizeof(fields), VERSION "Origin: %s\n", rows[i].origin);
		assert_int_equal(judge(&conf, fields, "origin", passed), rows[i].status);
		assert_int_equal(judge(&open_conf, fields, "origin", passed), 0);
	}
	assert_int_equal(judge(&conf, VERSION, "origin", passed), 0);
	assert_int_equal(
		judge(&conf, VERSION "Origin: https://app.test\nOrigin: https://app.test\n",
			"origin", passed),
		403);
}

static void answers(void **state)
{
	static const struct {
		const char *response;
		bool offered, good, deflates;
	} rows[] = {
		{"A: b\n", true, true, false},
		{"Sec-WebSocket-Extensions: permessage-deflate; c\n", true, true, true},
		{"Sec-WebSocket-Extensions: permessage-deflate\n", false, false, true},
		{"Sec-WebSocket-Extensions: x\n", true, false, false},
		{"Sec-WebSocket-Extensions: permessage-deflate, x\n", true, false, true},
		{"Sec-WebSocket-Extensions: permessage-deflate, permessage-deflate\n", true, false,
			true},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct http_head request, response;
		char bytes[256];
		const char *why;
		bool deflates;
		snprintf(bytes, sizeof(bytes), VERSION "Sec-WebSocket-Extensions: %s\n",
			rows[i].offered ? "permessage-deflate" : "x");
		head_of(&request, bytes);
		assert_int_equal(handshake_judge(&open_conf, &request, bytes, &why), 0);
		head_of(&response, rows[i].response);
		assert_int_equal(handshake_agreed(&response, &request, &deflates), rows[i].good);
		assert_int_equal(deflates, rows[i].deflates);
	}
}

UNIT_SUITE(test_handshake)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(versions),
		cmocka_unit_test(keys_of_gateways),
		cmocka_unit_test(extensions),
		cmocka_unit_test(protocols),
		cmocka_unit_test(origins),
		cmocka_unit_test(answers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
