#include "head.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

#include "tests/unit/suite.h"

static void known_names(void **state)
{
	static const char *const names[HTTP_FIELDS] = {
		[HTTP_FIELD_CACHE_CONTROL] = "Cache-Control",
		[HTTP_FIELD_CONNECTION] = "Connection",
		[HTTP_FIELD_CONTENT_LENGTH] = "Content-Length",
		[HTTP_FIELD_COOKIE] = "Cookie",
		[HTTP_FIELD_DATE] = "Date",
		[HTTP_FIELD_EXPECT] = "Expect",
		[HTTP_FIELD_FORWARDED] = "Forwarded",
		[HTTP_FIELD_HOST] = "Host",
		[HTTP_FIELD_KEEP_ALIVE] = "Keep-Alive",
		[HTTP_FIELD_MAX_FORWARDS] = "Max-Forwards",
		[HTTP_FIELD_PROXY_CONNECTION] = "Proxy-Connection",
		[HTTP_FIELD_RATELIMIT] = "RateLimit",
		[HTTP_FIELD_RATELIMIT_POLICY] = "RateLimit-Policy",
		[HTTP_FIELD_REFERER] = "Referer",
		[HTTP_FIELD_SLUICE_FENCE] = "Sluice-Fence",
		[HTTP_FIELD_SLUICE_HOP] = "Sluice-Hop",
		[HTTP_FIELD_TE] = "TE",
		[HTTP_FIELD_TRACEPARENT] = "Traceparent",
		[HTTP_FIELD_TRACESTATE] = "Tracestate",
		[HTTP_FIELD_TRAILER] = "Trailer",
		[HTTP_FIELD_TRANSFER_ENCODING] = "Transfer-Encoding",
		[HTTP_FIELD_UPGRADE] = "Upgrade",
		[HTTP_FIELD_USER_AGENT] = "User-Agent",
		[HTTP_FIELD_VIA] = "Via",
		[HTTP_FIELD_X_FORWARDED_FOR] = "X-Forwarded-For",
		[HTTP_FIELD_X_FORWARDED_HOST] = "X-Forwarded-Host",
		[HTTP_FIELD_X_FORWARDED_PORT] = "X-Forwarded-Port",
		[HTTP_FIELD_X_FORWARDED_PROTO] = "X-Forwarded-Proto",
		[HTTP_FIELD_X_REAL_IP] = "X-Real-IP",
		[HTTP_FIELD_X_REQUEST_ID] = "X-Request-ID",
	};

	(void)state;
	for (unsigned id = HTTP_FIELD_UNDERSCORED + 1; id < HTTP_FIELDS; id++) {
		char upper[32] = "", longer[34];
		struct slice name = slice_of(names[id]);
		assert_int_equal(http_field_id(name), id);
		for (size_t i = 0; i < name.len; i++)
			upper[i] = (char)(name.at[i] >= 'a' && name.at[i] <= 'z'
						  ? name.at[i] - 'a' + 'A'
						  : name.at[i]);
		assert_int_equal(http_field_id(slice_of(upper)), id);
		/* A byte more, less or other makes it another name. */
		strcat(strcpy(longer, names[id]), "s");
		assert_int_equal(http_field_id(slice_of(longer)), HTTP_FIELD_OTHER);
		assert_int_equal(
			http_field_id((struct slice){name.at, name.len - 1}), HTTP_FIELD_OTHER);
		upper[name.len - 1] = '_';
		assert_int_equal(http_field_id(slice_of(upper)), HTTP_FIELD_OTHER);
	}
	assert_int_equal(http_field_id(SLICE_NONE), HTTP_FIELD_OTHER);
	assert_int_equal(http_field_id(SLICE("X-Api-Key")), HTTP_FIELD_OTHER);
	assert_int_equal(http_field_id(SLICE("X_Api_Key")), HTTP_FIELD_OTHER);
	assert_int_equal(http_field_id_of(SLICE("X_Api_Key")), HTTP_FIELD_UNDERSCORED);
	assert_int_equal(http_field_id_of(SLICE("X-Api-Key")), HTTP_FIELD_OTHER);
	assert_int_equal(http_field_id_of(SLICE("Host")), HTTP_FIELD_HOST);
}

static void finding(void **state)
{
	struct http_head head;

	(void)state;
	head_of(&head, "Host: a\nX-Api-Key: one\nx-api-key: two\nVia: x\nVIA: y\nEmpty:\n");
	assert_true(slice_equal(http_head_find(&head, HTTP_FIELD_HOST), SLICE("a")));
	assert_true(slice_equal(http_head_find(&head, HTTP_FIELD_VIA), SLICE("x")));
	assert_null(http_head_find(&head, HTTP_FIELD_COOKIE).at);
	assert_true(slice_equal(http_head_find_name(&head, SLICE("x-api-key")), SLICE("one")));
	assert_null(http_head_find_name(&head, SLICE("x-api-ke")).at);
	assert_non_null(http_head_find_name(&head, SLICE("empty")).at);
	assert_int_equal(http_head_count(&head, HTTP_FIELD_VIA), 2);
	assert_int_equal(http_head_count(&head, HTTP_FIELD_DATE), 0);
	assert_int_equal(head.repeated, 1u << HTTP_FIELD_VIA | 1u << HTTP_FIELD_OTHER);
}

/* A key's field: every letter's case, and no byte that only looks like another in lower case. */
static void finding_only(void **state)
{
	static const char *const others[] = {
		"X-Key-~AB1", "X-Key-^AB2", "X-Key-^AC1", "Y-Key-^AB1", "X-Key-^A_1", "X-Key-^AB"};
	struct http_head head;
	bool ambiguous = false;

	(void)state;
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		char text[64];
		snprintf(text, sizeof(text), "%s: a\n", others[i]);
		head_of(&head, text);
		assert_null(http_head_find_only(&head, SLICE("x-key-^ab1"), &ambiguous).at);
	}
	head_of(&head, "Id: b\nX-KEY-^aB1: a\nxKey: c\n");
	assert_true(slice_equal(
		http_head_find_only(&head, SLICE("x-key-^ab1"), &ambiguous), SLICE("a")));
	assert_true(slice_equal(http_head_find_only(&head, SLICE("iD"), &ambiguous), SLICE("b")));
	assert_true(slice_equal(http_head_find_only(&head, SLICE("XkEy"), &ambiguous), SLICE("c")));
	assert_false(ambiguous);
	head_of(&head, "X-Api-Key: one\nx-API-key: two\n");
	assert_true(slice_equal(
		http_head_find_only(&head, SLICE("X-Api-Key"), &ambiguous), SLICE("one")));
	assert_true(ambiguous);
}

UNIT_SUITE(test_field_names)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_names),
		cmocka_unit_test(finding),
		cmocka_unit_test(finding_only),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
