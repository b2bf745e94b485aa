/* What is no error, but hardly meant: the snapshot is there, and says so. */
#include "text.h"

/* A good text with exactly this one warning. */
static void warned(const char *text, unsigned line, const char *what)
{
	const struct conf *conf = parse_good(text);

	for (size_t i = 0; i < conf->warning_count; i++)
		fprintf(stderr, "# %u: %s\n", conf->warnings[i].line, conf->warnings[i].text);
	assert_int_equal(conf->warning_count, 1);
	assert_int_equal(conf->warnings[0].line, line);
	assert_string_equal(conf->warnings[0].text, what);
	conf_release(conf);
}

static void nothing_to_say(void **state)
{
	static const char *const settings[] = {"request_header_set = X: a#b",
		"request_header_set = X: #1", "request_header_set = X:\t#1",
		"response_header_set = X: a b ; # c"};

	(void)state;
	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
		char *text = NULL;
		const struct conf *conf;

		assert_true(asprintf(&text, TEXT_BASE "[route r]\nupstream = u\n%s\n",
				    settings[i]) > 0);
		conf = parse_good(text);
		assert_int_equal(conf->warning_count, 0);
		conf_release(conf);
		free(text);
	}
}

/* A field can hold it, so it is sent as it stands. */
static void comments_in_fields(void **state)
{
	const struct conf *conf =
		parse_good(TEXT_BASE "[route r]\nupstream = u\nrequest_header_set = X: a # c\n");

	(void)state;
	assert_string_equal(conf->routes[1].request_set.items[0].value, "a # c");
	conf_release(conf);
	warned(TEXT_BASE "[route r]\nupstream = u\nrequest_header_set = X: a # c\n", 12,
		"[route r] request_header_set: \"a # c\" is sent whole; only ';' begins a comment "
		"after a value");
	warned(TEXT_BASE "[route r]\nupstream = u\nresponse_header_set = X: a\t#1\n", 12,
		"[route r] response_header_set: \"a\t#1\" is sent whole; only ';' begins a comment "
		"after a value");
}

static void an_admin_without_effect(void **state)
{
	(void)state;
	warned(TEXT_BASE "[admin]\nbind = 127.0.0.1:3\n", 11,
		"[admin] bind: it has no effect yet: nothing listens there");
}

static void by_line(void **state)
{
	const struct conf *conf =
		parse_good("[admin]\nbind = 127.0.0.1:3\n"
			   "[route r]\nupstream = u\nrequest_header_set = X: a # c\n"
			   "request_header_set = Y: a # c\n"
			   "[listener l]\nbind = 127.0.0.1:1\n[upstream u]\nserver = a:1\n");
	static const unsigned lines[] = {2, 5, 6};

	(void)state;
	assert_int_equal(conf->warning_count, 3);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(conf->warnings[i].line, lines[i]);
	conf_release(conf);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_to_say),
		cmocka_unit_test(comments_in_fields),
		cmocka_unit_test(an_admin_without_effect),
		cmocka_unit_test(by_line),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
