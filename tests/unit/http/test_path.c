#include "http/path.h"
#include "http/path_readings.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>

#include "../random.h"
#include "tests/unit/suite.h"

static void normal_forms(void **state)
{
	static const struct {
		const char *raw, *normal;
	} cases[] = {
		{"/", "/"},
		{"/a/b", "/a/b"},
		{"/.well-known/x", "/.well-known/x"},
		{"/a/...", "/a/..."},
		{"/a.b/.c..", "/a.b/.c.."},
		{"/%7Euser", "/~user"},
		{"/%41%2d%2E%5f", "/A-._"},
		{"/a%2fb", "/a%2Fb"},
		{"/a%20b%c3%a9", "/a%20b%C3%A9"},
		{"/a b|\"\xc3", "/a%20b%7C%22%C3"},
		{"/a\\b", "/a%5Cb"},
		{"/.", "/"},
		{"/..", "/"},
		{"/../../a", "/a"},
		{"/a/.", "/a/"},
		{"/a/..", "/"},
		{"/a/b/..", "/a/"},
		{"/a/b/../c", "/a/c"},
		{"/a/./b/%2e/c/%2E%2e/d", "/a/b/d"},
		{"/a//../b", "/a/b"},
		{"/a//b/", "/a//b/"},
		{"//", "//"},
		{"//..", "/"},
		{"//../..", "/"},
		{"/a;x=1/b", "/a;x=1/b"},
		{"/a/;../b", "/a/;../b"},
		{"/%252e%252e/x", "/%252e%252e/x"},
		{"/a%2Fb.c", "/a%2Fb.c"},
		{"/%5B%5D[]", "/%5B%5D[]"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char out[256];
		struct slice path;
		bool odd;
		enum http_path_result result =
			http_path_normalise(slice_of(cases[i].raw), out, sizeof(out), &path, &odd);
		if (result != HTTP_PATH_OK || !slice_equal(path, slice_of(cases[i].normal)))
			fail_msg("%s: %d, %.*s", cases[i].raw, (int)result, SLICE_ARGS(path));
	}
}

static void refused(void **state)
{
	static const char *const bad[] = {"", "a", "*", "/%", "/%4", "/%4g", "/%g1", "/%00", "/%0a",
		"/%0D", "/%7f", "/a\n", "/a\x7f", "/#", "/a/..;/b", "/..;x=1", "/.;/a", "/a/..%2fb",
		"/a/%2e%2e%2Fb", "/a/b%2f..", "/a/..\\b", "/a/..%5cb", "/x%2f.%2fy", "/a/.%2e;/b",
		"/a\\..\\b"};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char out[256];
		struct slice path;
		bool odd;
		if (http_path_normalise(slice_of(bad[i]), out, sizeof(out), &path, &odd) !=
			HTTP_PATH_INVALID)
			fail_msg("taken: %s", bad[i]);
	}
	char out[8];
	bool odd;
	struct slice path, nul = {"/a\0b", 4};
	assert_int_equal(
		http_path_normalise(nul, out, sizeof(out), &path, &odd), HTTP_PATH_INVALID);
}

static void nothing_to_do_is_no_copy(void **state)
{
	struct slice raw = SLICE("/v1/things/17"), path;
	bool odd;

	(void)state;
	assert_int_equal(http_path_normalise(raw, NULL, 0, &path, &odd), HTTP_PATH_OK);
	assert_ptr_equal(path.at, raw.at);
	assert_int_equal(path.len, raw.len);
	assert_false(odd);
}

static void odd_paths(void **state)
{
	static const char *const odd_ones[] = {
		"//", "/a//b", "/a;b", "/a%2fb", "/a\\b", "/a/./b", "/%2e%2e", "/a%3bb"};
	static const char *const plain[] = {"/", "/a/b", "/a/.b", "/a:b@c,d"};

	(void)state;
	for (size_t i = 0; i < sizeof(odd_ones) / sizeof(odd_ones[0]); i++) {
		char out[64];
		struct slice path;
		bool odd;
		assert_int_equal(
			http_path_normalise(slice_of(odd_ones[i]), out, sizeof(out), &path, &odd),
			HTTP_PATH_OK);
		assert_true(odd);
	}
	for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
		struct slice path;
		bool odd;
		assert_int_equal(http_path_normalise(slice_of(plain[i]), NULL, 0, &path, &odd),
			HTTP_PATH_OK);
		assert_false(odd);
	}
}

static void readings(void **state)
{
	static const struct {
		const char *raw, *reading;
		unsigned features;
	} cases[] = {
		{"//admin", "/admin", HTTP_PATH_MERGED},
		{"//admin", "//admin", HTTP_PATH_DECODED | HTTP_PATH_CUT | HTTP_PATH_RESOLVED},
		{"/admin%2Fx", "/admin/x", HTTP_PATH_DECODED},
		{"/admin%2fx", "/admin%2Fx", HTTP_PATH_MERGED | HTTP_PATH_CUT},
		{"/%2Fadmin", "/admin", HTTP_PATH_DECODED | HTTP_PATH_MERGED},
		{"/.//admin", "//admin", HTTP_PATH_RESOLVED},
		{"/.//admin", "/admin", HTTP_PATH_RESOLVED | HTTP_PATH_MERGED},
		{"/x/..//admin", "//admin", HTTP_PATH_RESOLVED},
		{"/x/..//admin", "/admin", HTTP_PATH_RESOLVED | HTTP_PATH_MERGED},
		{"/x/..//admin", "/x/../admin", HTTP_PATH_MERGED},
		{"/x//../admin", "/x/admin", HTTP_PATH_RESOLVED},
		{"/x//../admin", "/admin", HTTP_PATH_RESOLVED | HTTP_PATH_MERGED},
		{"/x%2Fy/../admin", "/admin", HTTP_PATH_RESOLVED},
		{"/x%2Fy/../admin", "/x/admin", HTTP_PATH_RESOLVED | HTTP_PATH_DECODED},
		{"/admin;a/x", "/admin/x", HTTP_PATH_CUT},
		{"/;a/admin", "/admin", HTTP_PATH_CUT | HTTP_PATH_MERGED},
		{"/admin%3Ba/x", "/admin/x", HTTP_PATH_CUT | HTTP_PATH_DECODED},
		{"/a;%2Fb", "/a", HTTP_PATH_CUT},
		{"/a\\b", "/a/b", HTTP_PATH_DECODED},
		{"/%61%40%20%25", "/a%40%20%25", 0},
		{"/%61%40%20%25", "/a@%20%25", HTTP_PATH_DECODED},
		{"/a/%2e%2e/b", "/a/../b", 0},
		{"/a/..", "/", HTTP_PATH_RESOLVED},
		{"/..", "/", HTTP_PATH_RESOLVED},
		{"/a/", "/a/", HTTP_PATH_MERGED},
		{"/", "/", 15},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char out[64];
		struct slice raw = slice_of(cases[i].raw);
		struct slice reading = http_path_reading(raw, cases[i].features, out, sizeof(out));
		if (!slice_equal(reading, slice_of(cases[i].reading)))
			fail_msg("%s: %.*s", cases[i].raw, SLICE_ARGS(reading));
	}
	char out[2];
	assert_null(http_path_reading(SLICE("/ab"), 0, out, sizeof(out)).at);
}

static void capacity(void **state)
{
	char out[8];
	struct slice path;
	bool odd;

	(void)state;
	assert_int_equal(http_path_normalise(SLICE("/\"\""), out, 7, &path, &odd), HTTP_PATH_OK);
	assert_int_equal(
		http_path_normalise(SLICE("/\"\""), out, 6, &path, &odd), HTTP_PATH_TOO_LONG);
	assert_int_equal(
		http_path_normalise(SLICE("/%20"), out, 3, &path, &odd), HTTP_PATH_TOO_LONG);
	assert_int_equal(
		http_path_normalise(SLICE("/./"), out, 0, &path, &odd), HTTP_PATH_TOO_LONG);
}

static void prefixes(void **state)
{
	(void)state;
	assert_true(http_path_has_prefix(SLICE("/api"), SLICE("/api")));
	assert_true(http_path_has_prefix(SLICE("/api/x"), SLICE("/api")));
	assert_true(http_path_has_prefix(SLICE("/api/"), SLICE("/api/")));
	assert_true(http_path_has_prefix(SLICE("/api/x"), SLICE("/api/")));
	assert_true(http_path_has_prefix(SLICE("/x"), SLICE("/")));
	assert_false(http_path_has_prefix(SLICE("/apix"), SLICE("/api")));
	assert_false(http_path_has_prefix(SLICE("/api"), SLICE("/api/")));
	assert_false(http_path_has_prefix(SLICE("/ap"), SLICE("/api")));
}

/* ---- properties ---------------------------------------------------------------------------- */

static size_t random_path(struct random *random, char *out, size_t capacity)
{
	static const char *const pieces[] = {"/", "/", "/", ".", ".", "..", "a", "b", "%2e", "%2E",
		"%2f", "%2F", "%5c", "%41", "%7e", ";", "x=1", "%20", "\\", "%25", "%3b", "~", "|",
		"%c3%a9", "/../", "/./"};
	size_t len = 1, count = random_below(random, 12);

	out[0] = '/';
	for (size_t i = 0; i < count; i++) {
		const char *piece =
			pieces[random_below(random, sizeof(pieces) / sizeof(pieces[0]))];
		size_t piece_len = strlen(piece);
		if (len + piece_len > capacity)
			break;
		memcpy(out + len, piece, piece_len);
		len += piece_len;
	}
	return len;
}

/* The rules once more, the plain way: decode, then take segments off a list. Paths with what would
 * be refused are not asked of it. */
static size_t plain_normalise(struct slice raw, char *out)
{
	char decoded[512];
	const char *segments[256];
	size_t lens[256], count = 0, len = 0;

	for (size_t i = 0; i < raw.len; i++) {
		unsigned byte = (unsigned char)raw.at[i];
		bool encoded = byte == '%';
		if (encoded) {
			char hex[3] = {raw.at[i + 1], raw.at[i + 2], 0};
			byte = (unsigned)strtoul(hex, NULL, 16);
			i += 2;
		}
		bool unreserved =
			byte < 0x80 &&
			(byte == '-' || byte == '.' || byte == '_' || byte == '~' ||
				(byte >= '0' && byte <= '9') || (byte >= 'A' && byte <= 'Z') ||
				(byte >= 'a' && byte <= 'z'));
		bool bare = byte < 0x80 && byte && strchr("!$&'()*+,;=:@/[]", (int)byte);
		if (unreserved || (bare && !encoded))
			decoded[len++] = (char)byte;
		else
			len += (size_t)sprintf(decoded + len, "%%%02X", byte);
	}
	decoded[len] = '\0';
	bool ends_open = false; /* the path ends in a slash */
	for (char *at = decoded + 1;; at++) {
		char *end = strchrnul(at, '/');
		size_t n = (size_t)(end - at);
		ends_open = false;
		if (n == 1 && at[0] == '.') {
			ends_open = true;
		} else if (n == 2 && at[0] == '.' && at[1] == '.') {
			count -= count > 0;
			ends_open = true;
		} else {
			segments[count] = at;
			lens[count++] = n;
		}
		if (!*end)
			break;
		at = end;
	}
	len = 0;
	for (size_t i = 0; i < count; i++) {
		out[len++] = '/';
		memcpy(out + len, segments[i], lens[i]);
		len += lens[i];
	}
	if (ends_open || count == 0)
		out[len++] = '/';
	return len;
}

static void agrees_with_the_plain_way(void **state)
{
	struct random random = random_begin("paths");

	(void)state;
	for (unsigned round = 0; round < 200000; round++) {
		char raw_bytes[128], out[384], again_out[384], plain[512];
		struct slice raw = {raw_bytes, random_path(&random, raw_bytes, sizeof(raw_bytes))};
		struct slice path, again;
		bool odd, still_odd;
		if (http_path_normalise(raw, out, sizeof(out), &path, &odd) != HTTP_PATH_OK)
			continue;
		struct slice expected = {plain, plain_normalise(raw, plain)};
		if (!slice_equal(path, expected))
			fail_msg("round %u: %.*s gave %.*s, not %.*s", round, SLICE_ARGS(raw),
				SLICE_ARGS(path), SLICE_ARGS(expected));
		assert_int_equal(
			http_path_normalise(path, again_out, sizeof(again_out), &again, &still_odd),
			HTTP_PATH_OK);
		for (unsigned some = 0; some < 16; some++) {
			unsigned features = http_path_features(raw);
			struct slice reading =
				http_path_reading(raw, some, again_out, sizeof(again_out));
			struct slice same =
				http_path_reading(raw, some & features, plain, sizeof(plain));
			/* What a path has no feature for, no server can read differently. */
			if (!slice_equal(reading, same) || (!odd && !slice_equal(reading, path)) ||
				(some == HTTP_PATH_RESOLVED && !slice_equal(reading, path)))
				fail_msg("round %u: %.*s read with %u is %.*s", round,
					SLICE_ARGS(raw), some, SLICE_ARGS(reading));
		}
		http_path_normalise(path, again_out, sizeof(again_out), &again, &still_odd);
		if (!slice_equal(path, again))
			fail_msg("round %u: %.*s is not stable", round, SLICE_ARGS(raw));
	}
}

UNIT_SUITE(test_path)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(normal_forms),
		cmocka_unit_test(refused),
		cmocka_unit_test(nothing_to_do_is_no_copy),
		cmocka_unit_test(odd_paths),
		cmocka_unit_test(readings),
		cmocka_unit_test(capacity),
		cmocka_unit_test(prefixes),
		cmocka_unit_test(agrees_with_the_plain_way),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
