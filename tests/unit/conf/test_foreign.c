/* Lines as other programs have them: errors that say what it is here. */
#include "text.h"
#include "tests/unit/suite.h"

static void keys_and_lines(void **state)
{
	(void)state;
	bad("sluice", "redis = a", "in [fleet]");
	bad("sluice", "tls_cert = a", "certificate = PATH");
	bad("sluice", "ssl_certificate = a", "certificate = PATH");
	bad("sluice", "includes = b.ini", "did you mean \"include\"?");
	bad("route r", "proxy_pass = http://a\nupstream = u", "server = ADDRESS:PORT");
	parse_bad(TEXT_BASE "[sluice]\ninclude /etc/other.ini\n", 11,
		"here it is `include = PATTERN`");
	parse_bad(TEXT_BASE "[sluice]\nlimit_req zone\n", 11, "a [limit NAME] with key and rate");
}

static void rates(void **state)
{
	static const char *const meant[][2] = {{"10r/s", "10 per 1s"}, {"100/s", "100 per 1s"},
		{"0.5 per 1s", "1 per 2s"}, {"1.5r/m", "3 per 2m"}, {"5/minute", "5 per 1m"},
		{"30r/m", "30 per 1m"}, {"7/10s", "7 per 10s"}, {"2 per day/s", NULL},
		{"1.25/h", "5 per 4h"}};

	(void)state;
	for (size_t i = 0; i < sizeof(meant) / sizeof(meant[0]); i++) {
		char line[100], what[100];

		snprintf(line, sizeof(line), "rate = %s", meant[i][0]);
		snprintf(what, sizeof(what), meant[i][1] ? "did you mean %s?" : "expected",
			meant[i][1]);
		bad("limit a", line, what);
	}
	bad("upstream a", "pace = 50/s\nserver = 127.0.0.1:1", "did you mean 50 per 1s?");
}

static void keys(void **state)
{
	(void)state;
	bad("limit a", "key = X-Api-Key\nrate = 1 per 1s", "did you mean \"header:X-Api-Key\"?");
	bad("limit a", "key = $binary_remote_addr\nrate = 1 per 1s", "did you mean \"ip\"?");
	bad("limit a", "key = global\nrate = 1 per 1s", "did you mean \"all\"?");
	bad("limit a", "key = $http_x_api_key\nrate = 1 per 1s",
		"did you mean \"header:x-api-key\"?");
	bad("limit a", "key = $arg_token\nrate = 1 per 1s", "did you mean \"query:token\"?");
	bad("limit a", "key = %[src]\nrate = 1 per 1s", "did you mean \"ip\"?");
}

static void values(void **state)
{
	(void)state;
	bad("sluice", "buffer_size = 10MB", "did you mean 10M?");
	bad("sluice", "buffer_size = 64kb", "did you mean 64k?");
	bad("sluice", "buffer_size = 64KiB", "did you mean 64k?");
	bad("sluice", "buffer_size = 1g", "did you mean 1G?");
	bad("listener a", "bind = 0.0.0.0:$PORT",
		"a variable of the environment is written ${NAME}");
	bad("route a", "limits = base other\nupstream = u", "expected names with commas");
}

UNIT_SUITE(test_foreign)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keys_and_lines),
		cmocka_unit_test(rates),
		cmocka_unit_test(keys),
		cmocka_unit_test(values),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
