/* [match NAME], and `when`: what may be written, and what is said of the rest. */
#include "text.h"

#include "tests/unit/suite.h"

#define MATCH TEXT_BASE "[match m]\n"

static const struct match_test *test_of(const struct conf *conf)
{
	return &conf->matches.items[0].all.items[0];
}

static void tests_are_read(void **state)
{
	static const struct {
		const char *line;
		enum match_operator operator;
		bool negated;
		size_t values;
	} rows[] = {
		{"all = header:X-Key", MATCH_PRESENT, false, 0},
		{"all = !cookie:sid", MATCH_PRESENT, true, 0},
		{"all = method = GET, HEAD", MATCH_EQUAL, false, 2},
		{"all = method=GET", MATCH_EQUAL, false, 1},
		{"all = path ^= /login, /admin", MATCH_BEGINS, false, 2},
		{"all = path^=/login", MATCH_BEGINS, false, 1},
		{"all = !host $= .example.com", MATCH_ENDS, true, 1},
		{"all = ! header:User-Agent ~ (?i)bot|crawl, too", MATCH_FINDS, true, 0},
		{"all = ip in 10.0.0.0/8, 2001:db8::/32, 192.0.2.1", MATCH_IN, false, 0},
		{"all = query:q = a b, c", MATCH_EQUAL, false, 2},
		{"all = tls:subject", MATCH_PRESENT, false, 0},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		const struct conf *conf = good("match m", rows[i].line);
		const struct match_test *test = test_of(conf);
		assert_int_equal(test->operator, rows[i].operator);
		assert_int_equal(test->negated, rows[i].negated);
		assert_int_equal(test->values.count, rows[i].values);
		assert_int_equal(conf->keys.query.count, 0); /* no secret of the log */
		assert_int_equal(test->networks.count, rows[i].operator== MATCH_IN ? 3 : 0);
		conf_release(conf);
	}
}

static void errors_say_what_to_write(void **state)
{
	static const struct {
		const char *line, *error;
	} rows[] = {
		{"all = header:X = ", "there is nothing behind the operator"},
		{"all = header:X < 5", "\"< 5\" behind \"header:X\" is no operator"},
		{"all = header", "\"header\" has no name; expected header:NAME"},
		{"all = path", "each request has a path; expected an operator"},
		{"all = ip = 10.0.0.1", "expected ip in NETWORKS"},
		{"all = ip/24 in 10.0.0.0/8", "is no source of a test; expected ip in NETWORKS"},
		{"all = ip in 10.0.0.1/8", "expected the network's own address"},
		{"all = ip in office", "invalid network \"office\""},
		{"all = header:X in 10.0.0.0/8", "expected '=' for one of several values"},
		{"all = header:X ~ (", "at offset 1 of \"(\"; expected a regular expression"},
		{"all = path = login", "does not begin with '/'; expected a path, or ^= or ~"},
		{"all = path ^= /a%2f", "expected two hex digits, upper case"},
		{"all = !", "there is nothing to test"},
		{"all = heder:X = a", "did you mean \"header\"?"},
		{"all = other", "there is no [match other]; expected the name of one"},
		{"all = m", NULL},
	};

	(void)state;
	for (size_t i = 0; i + 1 < sizeof(rows) / sizeof(rows[0]); i++)
		bad("match m", rows[i].line, rows[i].error);
	bad_text(10, "depends on itself", MATCH "all = m\n");
	bad_text(10, "depends on itself",
		MATCH "any = !n\n[match n]\nall = o\n[match o]\nall = m\n");
	bad_text(10, "has no test; expected all = TEST or any = TEST", MATCH);
	bad_text(10, "\"path\" is a source of tests; expected another",
		TEXT_BASE "[match path]\nall = header:X\n");
}

static void names_are_looked_up(void **state)
{
	const struct conf *conf = parse_good(
		TEXT_BASE "[limit x]\nrate = 1 per 1s\nwhen = a, !b\nwhen = c\n"
			  "[route r]\nupstream = u\nlimits = x\nwhen = !a\nallow = match:b\n"
			  "deny = 10.0.0.0/8, match:!c\n"
			  "[match a]\nall = header:A\n[match b]\nall = a\n[match c]\nany = b\n");

	(void)state;
	assert_int_equal(conf->limits[1].when.holds, 1 << 0 | 1 << 2);
	assert_int_equal(conf->limits[1].when.fails, 1 << 1);
	assert_string_equal(conf->limits[1].when.text, "a, !b, c");
	for (size_t i = 0; i < conf->route_count; i++) {
		const struct conf_route *route = &conf->routes[i];
		if (strcmp(route->name, "r") != 0)
			continue;
		assert_int_equal(route->when.fails, 1 << 0);
		assert_int_equal(route->access.allow_when.holds, 1 << 1);
		assert_int_equal(route->access.deny_when.fails, 1 << 2);
		assert_int_equal(route->access.deny_addresses.count, 1);
	}
	conf_release(conf);
	bad_text(12, "when: there is no [match bots]",
		TEXT_BASE "[limit x]\nrate = 1 per 1s\nwhen = bots\n");
	bad_text(12, "deny: there is no [match bots]",
		TEXT_BASE "[route x]\nupstream = u\ndeny = match:bots\n");
	bad_text(12, "\"!a\" contradicts the rest",
		TEXT_BASE "[limit x]\nrate = 1 per 1s\nwhen = a, !a\n[match a]\nall = header:A\n");
	bad_text(12, "[match a] tests the route, which is not known yet",
		TEXT_BASE "[route x]\nupstream = u\nwhen = a\n[match a]\nall = b\n"
			  "[match b]\nall = route = x\n");
}

static void bounds(void **state)
{
	char text[16384] = TEXT_BASE, *at = text + strlen(text);
	char limits[16384] = TEXT_BASE;

	(void)state;
	for (unsigned i = 0; i <= MATCHES_MOST; i++)
		at += sprintf(at, "[match m%u]\nall = header:X\n", i);
	parse_bad(text, 10 + 2 * MATCHES_MOST, "there are 65 matches; expected at most 64");
	at = limits + strlen(limits);
	for (unsigned i = 0; i <= WHENS_MOST; i++)
		at += sprintf(at,
			"[match m%u]\nall = header:X\n[limit l%u]\nrate = 1 per 1s\n"
			"when = m%u\n",
			i, i, i);
	strcpy(at, "[route r]\nupstream = u\nlimits = l0, l1, l2, l3, l4, l5, l6\n");
	parse_bad(limits, 10 + 5 * (WHENS_MOST + 1) + 2, "more than 6 different conditions (when)");
}

static void plans_by_condition_need_no_key(void **state)
{
	(void)state;
	conf_release(parse_good(TEXT_BASE "[match a]\nall = header:A\n"
					  "[plan x]\nlimits = base\nwhen = a\n[plan default]\n"
					  "[route r]\nupstream = u\nlimits = plan\n"));
	bad_text(10, "has no effect without [plans]",
		TEXT_BASE "[plan default]\nlimits = base\n[route r]\nupstream = u\n");
	bad_text(10, "expected callers = file:PATH, when = MATCH, or [admin]",
		TEXT_BASE "[plan x]\nlimits = base\n[plans]\nkey = header:K\n");
}

static void routes_with_conditions_hide_none(void **state)
{
	const struct conf *conf =
		parse_good(TEXT_BASE "[route b]\nupstream = u\n[route a]\nupstream = u\nwhen = m\n"
				     "[match m]\nall = header:A\n");

	(void)state;
	assert_string_equal(conf->routes[1].name, "a");
	assert_string_equal(conf->routes[2].name, "b");
	conf_release(conf);
	bad_text(12, "is never reached",
		TEXT_BASE "[route b]\nupstream = u\n[route a]\nupstream = u\n");
}

UNIT_SUITE(test_match)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tests_are_read),
		cmocka_unit_test(errors_say_what_to_write),
		cmocka_unit_test(names_are_looked_up),
		cmocka_unit_test(bounds),
		cmocka_unit_test(plans_by_condition_need_no_key),
		cmocka_unit_test(routes_with_conditions_hide_none),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
