/* Tokens by which publishers are known. */
#include "admin/tokens.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "base/hs256.h"
#include "tests/unit/suite.h"

#define NOW 1700000000

/* From node's @fanoutio/grip 4.3.0: Jwt({iss: "me"}, "key"), without `typ`, exp in the year 2100.
 */
#define OF_A_LIBRARY                                                                               \
	"Bearer eyJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJtZSIsImV4cCI6NDEwMjQ0NDgwMH0."                     \
	"_JDcelzbWRMJLsW-dib-8xpdBJIPpSiBOJIXq-u3z3c"

static bool is_good(const char *claims, uint64_t now_s)
{
	char field[1024] = "Bearer ";
	size_t len = hs256_sign(SLICE("key"), slice_of(claims), field + 7);

	field[7 + len] = '\0';
	return publish_token_is_good(SLICE("key"), field, now_s);
}

static void times(void **state)
{
	(void)state;
	assert_true(is_good("{\"exp\":1700000100}", NOW));
	assert_true(is_good("{\"iss\":\"anybody\",\"exp\":1700000100.5,\"nbf\":1699999999}", NOW));
	assert_true(is_good("{\"exp\":1700000000}", NOW + PUBLISH_TOKEN_LEEWAY_S - 1));
	assert_false(is_good("{\"exp\":1700000000}", NOW + PUBLISH_TOKEN_LEEWAY_S));
	assert_true(is_good("{\"exp\":1800000000,\"nbf\":1700000060}", NOW));
	assert_false(is_good("{\"exp\":1800000000,\"nbf\":1700000061}", NOW));
}

static void claims_that_are_wrong(void **state)
{
	static const char *const claims[] = {"", "{}", "[]", "{\"exp\":null}",
		"{\"exp\":\"1800000000\"}", "{\"exp\":1800000000", "{\"exp\":[1800000000]}",
		"{\"exp\":1800000000,\"nbf\":\"x\"}", "{\"exp\":1800000000,\"nbf\":null}",
		"{\"iss\":\"sluice\",\"exp\":1800000000,\"request\":true}"};

	(void)state;
	for (size_t i = 0; i < sizeof(claims) / sizeof(claims[0]); i++) {
		if (is_good(claims[i], NOW))
			fail_msg("%s", claims[i]);
	}
}

static void fields_and_keys(void **state)
{
	char field[256] = "bearer  ", long_field[PUBLISH_TOKEN_BYTES + 16] = "Bearer ";
	size_t len = hs256_sign(SLICE("key"), SLICE("{\"exp\":1800000000}"), field + 8);

	(void)state;
	memcpy(field + 8 + len, " ", 2);
	assert_true(publish_token_is_good(SLICE("key"), field, NOW));
	assert_false(publish_token_is_good(SLICE("kez"), field, NOW));
	assert_false(publish_token_is_good(SLICE_NONE, field, NOW));
	assert_false(publish_token_is_good(SLICE("key"), NULL, NOW));
	assert_false(publish_token_is_good(SLICE("key"), "", NOW));
	assert_false(publish_token_is_good(SLICE("key"), "Bearer ", NOW));
	assert_false(publish_token_is_good(SLICE("key"), "Basic YTpi", NOW));
	assert_false(publish_token_is_good(SLICE("key"), field + 8, NOW));
	memset(long_field + 7, 'a', PUBLISH_TOKEN_BYTES + 1);
	assert_false(publish_token_is_good(SLICE("key"), long_field, NOW));
}

/* A signature alone is not enough: the header must say how it was made, and want nothing else. */
static void headers(void **state)
{
	static const char *const tokens[] = {
		/* {"alg":"none"}, {"alg":"HS512"}, {"alg":"HS256","crit":["x"]}, [] */
		"Bearer "
		"eyJhbGciOiJub25lIn0.eyJleHAiOjQxMDI0NDQ4MDB9.Tb8wXKGGerfavt_rOW-i0gqz5r_"
		"zjxvsaTSV9yEF3N8",
		"Bearer "
		"eyJhbGciOiJIUzUxMiJ9.eyJleHAiOjQxMDI0NDQ4MDB9.hdmk5WQPjDp6uQ5Haa0agiWwBD-"
		"8GCqgdxv47GtX1zM",
		"Bearer "
		"eyJhbGciOiJIUzI1NiIsImNyaXQiOlsieCJdfQ.eyJleHAiOjQxMDI0NDQ4MDB9.qwlCTQQnkqV0x_"
		"IF3dCwtoxymLiFqd3_0pUKKyYpXyk",
		"Bearer W10.eyJleHAiOjQxMDI0NDQ4MDB9.Oe92RzanqDX7wKDJ1KUDzb2QlLeerA7lb0r5r0NqeZ4"};

	(void)state;
	assert_true(publish_token_is_good(SLICE("key"), OF_A_LIBRARY, NOW));
	for (size_t i = 0; i < sizeof(tokens) / sizeof(tokens[0]); i++) {
		if (publish_token_is_good(SLICE("key"), tokens[i], NOW))
			fail_msg("%s", tokens[i]);
	}
}

UNIT_SUITE(test_publish_token)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(times),
		cmocka_unit_test(claims_that_are_wrong),
		cmocka_unit_test(fields_and_keys),
		cmocka_unit_test(headers),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
