#include "http/target.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <cmocka.h>

#include "tests/unit/suite.h"

static void origin_form(void **state)
{
	struct http_target target;

	(void)state;
	assert_true(http_target_parse(SLICE("/a/b?c=d?e"), HTTP_METHOD_GET, &target));
	assert_int_equal(target.form, HTTP_TARGET_ORIGIN);
	assert_true(slice_equal(target.path, SLICE("/a/b")));
	assert_true(target.has_query);
	assert_true(slice_equal(target.query, SLICE("c=d?e")));
	assert_true(http_target_parse(SLICE("/?"), HTTP_METHOD_GET, &target));
	assert_true(target.has_query && target.query.len == 0);
	assert_true(http_target_parse(SLICE("//x"), HTTP_METHOD_POST, &target));
	assert_int_equal(target.form, HTTP_TARGET_ORIGIN);
	assert_false(target.has_query);
}

static void absolute_form(void **state)
{
	struct http_target target;

	(void)state;
	assert_true(http_target_parse(SLICE("http://Ex.com:80/a?b"), HTTP_METHOD_GET, &target));
	assert_int_equal(target.form, HTTP_TARGET_ABSOLUTE);
	assert_false(target.is_https);
	assert_true(slice_equal(target.authority_text, SLICE("Ex.com:80")));
	assert_true(slice_equal(target.authority.host, SLICE("Ex.com")));
	assert_int_equal(target.authority.port, 80);
	assert_true(slice_equal(target.path, SLICE("/a")));
	assert_true(slice_equal(target.query, SLICE("b")));
	assert_true(http_target_parse(SLICE("HTTPS://x"), HTTP_METHOD_GET, &target));
	assert_true(target.is_https);
	assert_true(slice_equal(target.path, SLICE("/")));
	assert_true(http_target_parse(SLICE("http://[::1]:8?q"), HTTP_METHOD_GET, &target));
	assert_true(target.authority.is_ipv6);
	assert_true(slice_equal(target.path, SLICE("/")));
	assert_true(slice_equal(target.query, SLICE("q")));
}

static void asterisk_and_authority_form(void **state)
{
	struct http_target target;

	(void)state;
	assert_true(http_target_parse(SLICE("*"), HTTP_METHOD_OPTIONS, &target));
	assert_int_equal(target.form, HTTP_TARGET_ASTERISK);
	assert_false(http_target_parse(SLICE("*"), HTTP_METHOD_GET, &target));
	assert_false(http_target_parse(SLICE("*a"), HTTP_METHOD_OPTIONS, &target));
	assert_true(http_target_parse(SLICE("h:443"), HTTP_METHOD_CONNECT, &target));
	assert_int_equal(target.form, HTTP_TARGET_AUTHORITY);
	assert_int_equal(target.authority.port, 443);
	assert_false(http_target_parse(SLICE("h"), HTTP_METHOD_CONNECT, &target));
	assert_false(http_target_parse(SLICE("/"), HTTP_METHOD_CONNECT, &target));
	assert_false(http_target_parse(SLICE("h:443"), HTTP_METHOD_GET, &target));
}

static void bad_targets(void **state)
{
	static const char *const bad[] = {"", "a", "a/b", "/a#b", "/a b", "/a\tb", "/a\x7f", "/?a#",
		"/?a b", "ftp://x/", "http:/x", "http://", "http:///a", "http://u@x/",
		"http://u:p@x/", "http://x:99999/", "http://x:8a/", "http://x y/", "http://x\\y/",
		"http://%65x/", "http://[::1/", "http://[::1]a/", "http://[fe80::1%25eth0]/",
		"http://:80/", "http://x#f", "?a"};
	struct http_target target;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (http_target_parse(slice_of(bad[i]), HTTP_METHOD_GET, &target))
			fail_msg("taken: %s", bad[i]);
	}
	assert_false(http_target_parse((struct slice){"/a\0b", 4}, HTTP_METHOD_GET, &target));
}

static void authorities(void **state)
{
	static const struct {
		const char *text, *host;
		int port;
	} good[] = {
		{"", "", -1},
		{"Example.COM", "example.com", -1},
		{"example.com.", "example.com", -1},
		{"example.com.:81", "example.com", 81},
		{"a:", "a", -1},
		{"a:0", "a", 0},
		{"a:65535", "a", 65535},
		{"192.0.2.1:80", "192.0.2.1", 80},
		{"[::1]", "[::1]", -1},
		{"[2001:DB8:0::0:1]:8080", "[2001:db8::1]", 8080},
		{"my_host-1~x", "my_host-1~x", -1},
	};
	static const char *const bad[] = {":80", "a:65536", "a:-1", "a:1:2", "a b", "a@b", "a/b",
		"a%41", "[]", "[::1", "::1", "[::1]80", "[1.2.3.4]", "[v1.a]", "a:000080", "a\"",
		"a?b", "a\x80"};
	struct http_authority authority;
	char out[HTTP_HOST_BYTES];

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		if (!http_authority_parse(slice_of(good[i].text), &authority))
			fail_msg("refused: %s", good[i].text);
		struct slice host = http_authority_host(&authority, out);
		assert_true(slice_equal(host, slice_of(good[i].host)));
		assert_int_equal(authority.has_port ? authority.port : -1, good[i].port);
	}
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (http_authority_parse(slice_of(bad[i]), &authority))
			fail_msg("taken: %s", bad[i]);
	}
}

static void hosts_have_a_bound(void **state)
{
	char text[HTTP_HOST_BYTES + 1], out[HTTP_HOST_BYTES];
	struct http_authority authority;

	(void)state;
	memset(text, 'A', sizeof(text));
	assert_false(http_authority_parse((struct slice){text, sizeof(text)}, &authority));
	assert_true(http_authority_parse((struct slice){text, HTTP_HOST_BYTES}, &authority));
	assert_int_equal(http_authority_host(&authority, out).len, HTTP_HOST_BYTES);
}

/* Every byte at every place of hosts of many lengths. */
static void every_host_byte(void **state)
{
	static const char others[] = "!$&'()*+-._;=~0123456789";
	struct http_authority authority;
	char text[24];

	(void)state;
	for (size_t len = 1; len <= sizeof(text); len++) {
		for (size_t i = 0; i < 256 * len; i++) {
			size_t place = i / 256;
			int c = (int)(i % 256);
			bool upper = c >= 'A' && c <= 'Z';
			bool host = upper || (c >= 'a' && c <= 'z') || (c && strchr(others, c));
			bool colon = c == ':' && place > 0 && place == len - 1;
			memset(text, 'a', len);
			text[place] = (char)c;
			struct slice whole = {text, len};
			assert_int_equal(http_authority_parse(whole, &authority), host || colon);
			if (host || colon) {
				assert_int_equal(authority.host.len, colon ? place : len);
				assert_int_equal(authority.has_upper, upper);
			}
		}
	}
}

UNIT_SUITE(test_target)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(origin_form),
		cmocka_unit_test(every_host_byte),
		cmocka_unit_test(absolute_form),
		cmocka_unit_test(asterisk_and_authority_form),
		cmocka_unit_test(bad_targets),
		cmocka_unit_test(authorities),
		cmocka_unit_test(hosts_have_a_bound),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
