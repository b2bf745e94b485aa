/* Tokens signed with HS256. */
#include "base/hs256.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "tests/unit/suite.h"

/* RFC 7515 appendix A.1: its key, and its token, which has line breaks in the JSON. */
static const unsigned char rfc_key[] = {3, 35, 53, 75, 43, 15, 165, 188, 131, 126, 6, 101, 119, 123,
	166, 143, 90, 179, 40, 230, 240, 84, 201, 40, 169, 15, 132, 178, 210, 80, 46, 191, 211, 251,
	90, 146, 210, 6, 71, 239, 150, 138, 180, 195, 119, 98, 61, 34, 61, 46, 33, 114, 5, 46, 79,
	8, 192, 205, 154, 245, 103, 208, 128, 163};
#define RFC_TOKEN                                                                                  \
	"eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9."                                                \
	"eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0" \
	"cnVlfQ.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"

static struct slice key_of_rfc(void)
{
	return (struct slice){(const char *)rfc_key, sizeof(rfc_key)};
}

static void the_example_of_the_rfc_is_read(void **state)
{
	struct slice header, claims;
	char room[sizeof(RFC_TOKEN)];

	(void)state;
	assert_true(hs256_open(key_of_rfc(), SLICE(RFC_TOKEN), room, &header, &claims));
	assert_true(slice_equal(header, SLICE("{\"typ\":\"JWT\",\r\n \"alg\":\"HS256\"}")));
	assert_true(slice_equal(claims, SLICE("{\"iss\":\"joe\",\r\n \"exp\":1300819380,\r\n "
					      "\"http://example.com/is_root\":true}")));
}

static void what_is_signed_is_read_again(void **state)
{
	static const char text[] = "{\"iss\":\"sluice\",\"exp\":1700000000}";
	struct slice header, claims;
	char token[HS256_TOKEN_BYTES(sizeof(text))], room[sizeof(token)];

	(void)state;
	for (size_t len = 0; len < sizeof(text); len++) {
		struct slice signed_claims = {text, len};
		size_t bytes = hs256_sign(SLICE("key"), signed_claims, token);
		assert_true(bytes < HS256_TOKEN_BYTES(len));
		assert_null(memchr(token, '=', bytes));
		assert_true(hs256_open(
			SLICE("key"), (struct slice){token, bytes}, room, &header, &claims));
		assert_true(slice_equal(header, SLICE("{\"typ\":\"JWT\",\"alg\":\"HS256\"}")));
		assert_true(slice_equal(claims, signed_claims));
		assert_false(hs256_open(
			SLICE("kez"), (struct slice){token, bytes}, room, &header, &claims));
	}
}

/* Each byte of a token counts, also the bits of the last digit that decode to nothing. */
static void a_changed_token_is_refused(void **state)
{
	struct slice header, claims;
	char token[] = RFC_TOKEN, room[sizeof(RFC_TOKEN)];

	(void)state;
	for (size_t i = 0; i < sizeof(token) - 1; i++) {
		for (unsigned c = 1; c < 256; c++) {
			if ((char)c == RFC_TOKEN[i])
				continue;
			token[i] = (char)c;
			if (hs256_open(key_of_rfc(), (struct slice){token, sizeof(token) - 1}, room,
				    &header, &claims))
				fail_msg("byte %zu as %u", i, c);
		}
		token[i] = RFC_TOKEN[i];
	}
	for (size_t len = 0; len < sizeof(token) - 1; len++)
		assert_false(hs256_open(
			key_of_rfc(), (struct slice){token, len}, room, &header, &claims));
}

static void other_forms_are_refused(void **state)
{
	static const char *const tokens[] = {"", ".", "..", "...", "a.b.c", "=.=.=", RFC_TOKEN ".",
		RFC_TOKEN "=", RFC_TOKEN " ", " " RFC_TOKEN, RFC_TOKEN "A"};
	struct slice header, claims;
	char room[sizeof(RFC_TOKEN) + 8];

	(void)state;
	for (size_t i = 0; i < sizeof(tokens) / sizeof(tokens[0]); i++) {
		if (hs256_open(key_of_rfc(), slice_of(tokens[i]), room, &header, &claims))
			fail_msg("\"%s\"", tokens[i]);
	}
}

UNIT_SUITE(test_hs256)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_example_of_the_rfc_is_read),
		cmocka_unit_test(what_is_signed_is_read_again),
		cmocka_unit_test(a_changed_token_is_refused),
		cmocka_unit_test(other_forms_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
