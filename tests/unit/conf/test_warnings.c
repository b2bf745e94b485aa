/* Warnings: valid, but hardly meant. The snapshot is there, and has them. */
#include "config.h"

#include "text.h"
#include "conf/options.h"
#include "tests/unit/suite.h"

/* TEXT_BASE, with its limit in its route: ten lines. */
#define TEXT_USED TEXT_BASE "limits = base\n"

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

static const struct conf *silent(const char *text)
{
	const struct conf *conf = parse_good(text);

	for (size_t i = 0; i < conf->warning_count; i++)
		fprintf(stderr, "# %u: %s\n", conf->warnings[i].line, conf->warnings[i].text);
	assert_int_equal(conf->warning_count, 0);
	return conf;
}

static void nothing_to_say(void **state)
{
	static const char *const settings[] = {"request_header_set = X: a#b",
		"request_header_set = X: #1", "request_header_set = X:\t#1",
		"response_header_set = X: a b ; # c"};

	(void)state;
	for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
		char *text = NULL;

		assert_true(asprintf(&text, TEXT_USED "[route r]\nupstream = u\n%s\n",
				    settings[i]) > 0);
		conf_release(silent(text));
		free(text);
	}
}

/* A field can hold it, so it is sent as it stands. */
static void comments_in_fields(void **state)
{
	const struct conf *conf =
		parse_good(TEXT_USED "[route r]\nupstream = u\nrequest_header_set = X: a # c\n");

	(void)state;
	assert_string_equal(conf->routes[1].request_set.items[0].value, "a # c");
	conf_release(conf);
	warned(TEXT_USED "[route r]\nupstream = u\nrequest_header_set = X: a # c\n", 13,
		"[route r] request_header_set: \"a # c\" is sent whole; only ';' begins a comment "
		"after a value");
	warned(TEXT_USED "[route r]\nupstream = u\nresponse_header_set = X: a\t#1\n", 13,
		"[route r] response_header_set: \"a\t#1\" is sent whole; only ';' begins a comment "
		"after a value");
}

/* Who defines a limit and forgets to name it believes to be protected. */
static void limits_of_nobody(void **state)
{
	(void)state;
	warned(TEXT_BASE, 5,
		"[limit base] has no effect: no route and no plan names it in its limits");
	warned(TEXT_USED "[limit m]\nrate = 1 per 1s\n", 11,
		"[limit m] has no effect: no route and no plan names it in its limits");
	/* A plan names it, and a route the plans. */
	conf_release(silent(
		TEXT_BASE "limits = plan\n[plans]\nkey = ip\n[plan default]\nlimits = base\n"));
	warned(TEXT_USED "[plans]\nkey = ip\n[plan default]\nlimits = base\n", 11,
		"[plans] has no effect: no route has \"plan\" in its limits");
	/* Their lane, weight and refusals need no limits. */
	conf_release(silent(TEXT_USED "[plans]\nkey = ip\n[plan default]\nlane = high\n"));
	conf_release(silent(TEXT_USED "[plans]\nkey = ip\n[plan default]\nweight = 2\n"));
	conf_release(silent(
		TEXT_USED "[plans]\nkey = ip\nunknown = refuse\n[plan default]\nlimits = base\n"));
}

/* Paths are no patterns of a shell. */
static void stars_in_paths(void **state)
{
	static const struct {
		const char *path, *shown;
	} some[] = {{"/r/*", "/r/*"}, {"=/r/*", "/r/*"}, {"/r/*/s", "/r/*/s"}, {"/*", "/*"}};

	(void)state;
	for (size_t i = 0; i < sizeof(some) / sizeof(some[0]); i++) {
		char *text = NULL, *what = NULL;

		assert_true(asprintf(&text, TEXT_USED "[route r]\nupstream = u\npath = %s\n",
				    some[i].path) > 0);
		assert_true(asprintf(&what,
				    "[route r] path: the '*' in \"%s\" is an ordinary "
				    "character; expected /PREFIX for all paths below, or ~REGEX "
				    "for a pattern",
				    some[i].shown) > 0);
		warned(text, 13, what);
		free(text);
		free(what);
	}
	conf_release(silent(TEXT_USED "[route r]\nupstream = u\npath = ~^/r/.*$\n"));
	conf_release(silent(TEXT_USED "[route r]\nupstream = u\npath = /r/a*b\n"));
}

/* Requests for them may be refused, whatever the route says. */
static void paths_read_in_several_ways(void **state)
{
	static const char *const some[] = {"/a%2Fb", "=/a%5Cb", "/a%3Ab", "/a;v=1", "/a//b"};
	static const char *const plain[] = {
		"/a%20b", "=/.well-known/x", "/a", "~^/a%2Fb$", "/a%C3%A9"};

	(void)state;
	for (size_t i = 0; i < sizeof(some) / sizeof(some[0]); i++) {
		char *text = NULL, *what = NULL;

		assert_true(asprintf(&text, TEXT_USED "[route r]\nupstream = u\npath = %s\n",
				    some[i]) > 0);
		assert_true(
			asprintf(&what,
				"[route r] path: servers read \"%s\" in several ways; requests for "
				"it get 400 where one of these ways is a route with "
				"restrictions, unless ambiguous_path = allow",
				some[i] + (some[i][0] == '=')) > 0);
		warned(text, 13, what);
		free(text);
		assert_true(asprintf(&text,
				    TEXT_USED "[route r]\nupstream = u\npath = %s\n"
					      "ambiguous_path = allow\n",
				    some[i]) > 0);
		conf_release(silent(text));
		free(text);
		free(what);
	}
	for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
		char *text = NULL;

		assert_true(asprintf(&text, TEXT_USED "[route r]\nupstream = u\npath = %s\n",
				    plain[i]) > 0);
		conf_release(silent(text));
		free(text);
	}
}

#define PLANS                                                                                      \
	"[plans]\nkey = header:X-Key\n"                                                            \
	"[limit own]\nkey = header:X-Key | ip\nrate = 1 per 1s\n"                                  \
	"[limit pair]\nkey = header:x-key + path\nrate = 1 per 1s\n"                               \
	"[limit host]\nkey = ip\nrate = 1 per 1s\n"

static void quotas_for_invented_keys(void **state)
{
	static const char what[] =
		"[route r] limits: each unknown key gets a quota of its own, as [plan default] "
		"limits callers by the key that selects the plan; expected a limit with key = ip "
		"as well, or unknown = refuse in [plans]";
	static const char *const evaded[] = {"[plan default]\nlimits = own\n",
		"[plan default]\nlimits = own, pair\n", "[plan default]\nlimits = pair\n"};
	static const char *const held[] = {"[plan default]\nlimits = host\n",
		"[plan default]\nlimits = own, host\n", "[plan default]\nlane = high\n"};

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		char *text = NULL;

		assert_true(asprintf(&text,
				    "[route r]\nupstream = u\nlimits = plan, own, pair\n" PLANS
				    "%s" TEXT_USED "[route s]\nupstream = u\npath = /s\n"
				    "limits = host\n",
				    evaded[i]) > 0);
		warned(text, 3, what);
		free(text);
		assert_true(asprintf(&text,
				    "[route r]\nupstream = u\nlimits = plan, own, pair\n"
				    "unknown_callers = refuse\n" PLANS "%s" TEXT_USED
				    "[route s]\nupstream = u\npath = /s\nlimits = plan, host\n",
				    evaded[i]) > 0);
		conf_release(silent(text));
		free(text);
		assert_true(
			asprintf(&text,
				"[route r]\nupstream = u\nlimits = plan, own, pair, host\n" PLANS
				"%s" TEXT_USED,
				held[i]) > 0);
		conf_release(silent(text));
		free(text);
	}
}

/* As many as there can be errors, and one that says so. */
static void warnings_have_an_end(void **state)
{
	const struct conf *conf;
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);

	(void)state;
	fputs(TEXT_USED "[route r]\nupstream = u\n", out);
	for (unsigned i = 0; i < 1100; i++)
		fputs("request_header_set = X: a # c\n", out);
	fclose(out);
	conf = parse_good(text);
	assert_int_equal(conf->warning_count, 1001);
	assert_int_equal(conf->warnings[1000].line, 1013);
	assert_string_equal(conf->warnings[1000].text,
		"[route r] there are more warnings than can be listed; fix some");
	conf_release(conf);
	free(text);
}

static void by_line(void **state)
{
	const struct conf *conf =
		parse_good("[admin]\nbind = 127.0.0.1:3\n"
			   "[route r]\nupstream = u\nrequest_header_set = X: a # c\n"
			   "request_header_set = Y: a # c\n"
			   "[listener l]\nbind = 127.0.0.1:1\n[upstream u]\nserver = a:1\n");
	static const unsigned lines[] = {5, 6};

	(void)state;
	assert_int_equal(conf->warning_count, 2);
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(conf->warnings[i].line, lines[i]);
	conf_release(conf);
}

static void options_without_what_they_need(void **state)
{
	(void)state;
	warned(TEXT_USED "[limit m]\nrate = 1 per 1s\nfleet = exact\n[route m]\n"
			 "upstream = u\nlimits = m\n",
		13, "[limit m] fleet: has no effect without scope = fleet");
	warned(TEXT_USED "[route m]\nupstream = u\npath = /m\nowner_idle = 2s\n", 14,
		"[route m] owner_idle: has no effect without session_scope = fleet");
	warned(TEXT_USED "[listener m]\nbind = 127.0.0.1:9\ntls_versions = 1.2\n"
			 "tls_versions = 1.3\n",
		13, "[listener m] tls_versions: has no effect without certificate = FILE");
	warned(TEXT_USED "[upstream m]\nserver = 127.0.0.1:3\nhealth_timeout = 1s\n[route m]\n"
			 "upstream = m\n",
		13, "[upstream m] health_timeout: has no effect without health_path = PATH");
	warned(TEXT_USED "[sluice]\nstate_required = on\n", 12,
		"[sluice] state_required: has no effect without state = FOLDER");
	conf_release(silent(TEXT_USED "[sluice]\nstate_required = off\n"));
	warned(TEXT_USED "[listener m]\nbind = 127.0.0.1:9\nmax_streams = 2\n", 13,
		"[listener m] max_streams: has no effect without protocols = h2");
	warned(TEXT_USED "[listener m]\nbind = 127.0.0.1:9\nprotocols = h2\n"
			 "[route m]\nupstream = u\npath = /m\nmin_rate = 1k\n",
		13,
		"[listener m] protocols: min_rate of [route m] does not apply to bodies over "
		"HTTP/2");
	/* One of several words. */
	conf_release(silent(TEXT_USED "[listener m]\nbind = 127.0.0.1:9\nmax_streams = 2\n"
				      "protocols = h2, http/1.1\n"));
}

static bool has_word(const struct option *option, const char *word)
{
	const struct option_word *known = option->words;

	while (known->word && strcmp(known->word, word) != 0)
		known++;
	return known->word;
}

/* A need names an option of its section, and a word of it if it has words. */
#if defined(HAVE_REDIS) && defined(HAVE_WEBSOCKET)
#define TEXT_OWNED                                                                                 \
	TEXT_USED "[fleet]\nstore = redis://h\nbind = 127.0.0.1:9\nsecret = ${TEST_SECRET}\n"      \
		  "[route r]\nupstream = u\nsession = header:X\nsession_scope = fleet\n"

static void held_responses_in_order(void **state)
{
	(void)state;
	setenv("TEST_SECRET", "0123456789abcdef", 1);
	warned(TEXT_OWNED "ordering = strict\ngrip_hold = on\n", 20,
		"[route r] grip_hold: with session_scope = fleet and ordering = strict, a held "
		"response delays its client's other requests at a node that forwards them; "
		"expected ordering = writes");
	conf_release(silent(TEXT_OWNED "ordering = writes\ngrip_hold = on\n"));
	conf_release(silent(TEXT_OWNED "ordering = strict\n"));
}
#endif

static void needs_can_be_met(void **state)
{
	unsigned count = 0;

	(void)state;
	for (size_t i = 0; i < SECTIONS; i++) {
		for (size_t j = 0; j < *option_sections[i].option_count; j++) {
			const struct option_need *needs = &option_sections[i].options[j].needs;
			const struct option *other;

			if (!needs->key)
				continue;
			count++;
			other = option_find(&option_sections[i], slice_of(needs->key));
			assert_non_null(other);
			assert_true(!other->words || has_word(other, needs->value));
			assert_true(!needs->or_value || has_word(other, needs->or_value));
			other = needs->or_flag
					? option_find(&option_sections[i], slice_of(needs->or_flag))
					: NULL;
			assert_true(!other || other->type == &type_flag || has_word(other, "off"));
			assert_true(!needs->or_flag || other);
		}
	}
	assert_true(count > 30);
}

UNIT_SUITE(test_warnings)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_to_say),
		cmocka_unit_test(comments_in_fields),
		cmocka_unit_test(limits_of_nobody),
		cmocka_unit_test(stars_in_paths),
		cmocka_unit_test(paths_read_in_several_ways),
		cmocka_unit_test(quotas_for_invented_keys),
		cmocka_unit_test(options_without_what_they_need),
#if defined(HAVE_REDIS) && defined(HAVE_WEBSOCKET)
		cmocka_unit_test(held_responses_in_order),
#endif
		cmocka_unit_test(needs_can_be_met),
		cmocka_unit_test(warnings_have_an_end),
		cmocka_unit_test(by_line),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
