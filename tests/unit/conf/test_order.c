/* Which route is tried first. */
#include "text.h"
#include "tests/unit/suite.h"

static char *text;

static void begin(void)
{
	free(text);
	text = strdup("[listener l]\nbind = 127.0.0.1:1\n[upstream u]\nserver = 127.0.0.1:2\n");
}

static void route(const char *name, const char *settings)
{
	char *more = NULL;

	assert_true(asprintf(&more, "%s[route %s]\nupstream = u\n%s\n", text, name, settings) > 0);
	free(text);
	text = more;
}

/* The routes' names in the order in which they stand. */
static void ordered(const char *expected)
{
	const struct conf *conf = parse_good(text);
	char names[256] = "";

	for (unsigned i = 0; i < conf->route_count; i++) {
		strcat(strcat(names, i ? " " : ""), conf->routes[i].name);
		assert_int_equal(conf->routes[i].index, i);
	}
	assert_string_equal(names, expected);
	conf_release(conf);
}

static void by_host(void **state)
{
	(void)state;
	begin();
	route("any", "path = =/exact");
	route("short", "host = *.org");
	route("long", "host = *.example.org");
	route("exact", "host = a.example.org");
	ordered("exact long short any");
}

static void by_path(void **state)
{
	(void)state;
	begin();
	route("root", "path = /");
	route("short", "path = /a");
	route("long", "path = /a/b");
	route("regex2", "path = ~b$");
	route("regex1", "path = ~aaaaaaaa$");
	route("exact", "path = =/");
	ordered("exact regex2 regex1 long short root");
}

static void by_method_then_file(void **state)
{
	(void)state;
	begin();
	route("first", "path = /a");
	route("second", "path = /b");
	route("get", "path = /b\nmethod = GET");
	route("third", "path = /c");
	ordered("get first second third");
	begin();
	route("all", "path = ~a");
	route("post", "path = ~b\nmethod = POST");
	ordered("all post");
}

static void hosts_have_their_own_order(void **state)
{
	const struct conf *conf;

	(void)state;
	begin();
	route("mixed", "host = b.example.org, *.org");
	route("wild", "host = *.example.org");
	route("exact", "host = a.example.org, b.example.org\npath = /x");
	route("any", "path = /");
	conf = parse_good(text);
	assert_int_equal(conf->hosts.count, 5);
	assert_int_equal(conf->hosts.exact_count, 2);
	assert_string_equal(conf->hosts.items[0].text, "a.example.org");
	assert_string_equal(conf->hosts.items[1].text, "b.example.org");
	assert_int_equal(conf->hosts.items[1].route_count, 2);
	assert_string_equal(conf->hosts.items[1].routes[0]->name, "exact");
	assert_string_equal(conf->hosts.items[1].routes[1]->name, "mixed");
	assert_string_equal(conf->hosts.items[2].text, "*.example.org");
	assert_string_equal(conf->hosts.items[3].text, "*.org");
	assert_string_equal(conf->hosts.items[3].routes[0]->name, "mixed");
	assert_string_equal(conf->hosts.items[4].text, "");
	assert_int_equal(conf->hosts.items[4].route_count, 1);
	conf_release(conf);
}

/* The text, with all that was added, must have this one error. */
static void hidden(unsigned line, const char *what)
{
	parse_bad(text, line, what);
}

static void reached(void)
{
	conf_release(parse_good(text));
}

static void a_route_that_is_never_reached(void **state)
{
	(void)state;
	begin(); /* the first route is in line 5, the second in line 8 */
	route("a", "path = /a");
	route("b", "path = /a");
	hidden(8, "[route b] is never reached: [route a] at t:5 has its host, path and method");
	begin();
	route("a", "path = /");
	route("b", ""); /* the default */
	hidden(8, "[route b]");
	begin();
	route("a", "host = x.org");
	route("b", "host = X.ORG.");
	hidden(8, "[route b] is never reached for x.org: [route a] at t:5");
	begin();
	route("a", "host = *.x.org, y.org, x.org");
	route("b", "host = x.org, z.org");
	hidden(8, "never reached for x.org:");
	begin();
	route("a", "path = =/a");
	route("b", "path = =/a");
	hidden(8, "[route b]");
	begin();
	route("a", "path = ~^/a");
	route("b", "path = ~^/a\nmethod = GET");
	hidden(8, "[route b]");
	begin();
	route("a", "method = GET, POST");
	route("b", "method = HEAD"); /* what serves GET serves HEAD */
	hidden(8, "[route b]");
	begin(); /* by methods among those that share a path */
	route("a", "path = /a");
	route("c", "path = /c");
	route("b", "path = /a\nmethod = GET");
	route("d", "path = /c\nmethod = PUT, GET");
	route("e", "path = /c\nmethod = PUT");
	hidden(19, "[route e] is never reached: [route d] at t:15");
}

static void routes_that_look_alike(void **state)
{
	(void)state;
	begin();
	route("any", "path = /a");
	route("get", "path = /a\nmethod = GET"); /* goes first */
	route("exact", "path = =/a");
	route("below", "path = /a/");
	route("regex", "path = ~/a");
	route("any2", "path = /a\nhost = x.org");
	route("any3", "path = /a\nhost = *.x.org");
	reached();
	begin();
	route("a", "method = GET, POST");
	route("b", "method = POST, PUT");
	reached();
	begin();
	route("a", "path = ~^/a\nmethod = GET");
	route("b", "path = ~^/a");
	reached();
}

/* What a route fits is not known when that has an error: one error a cause. */
static void wrong_routes_hide_none(void **state)
{
	(void)state;
	begin();
	route("a", "path = /a");
	route("b", "path = /a\nmethod = GOT");
	hidden(11, "unknown method");
	begin();
	route("a", "path = /a\nhost = a..b");
	route("b", "path = /a");
	hidden(8, "invalid host");
	begin();
	route("a", "path = a");
	route("b", "");
	hidden(7, "does not begin with");
}

static int end(void **state)
{
	(void)state;
	free(text);
	return 0;
}

UNIT_SUITE(test_order)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(by_host),
		cmocka_unit_test(by_path),
		cmocka_unit_test(by_method_then_file),
		cmocka_unit_test(hosts_have_their_own_order),
		cmocka_unit_test(a_route_that_is_never_reached),
		cmocka_unit_test(routes_that_look_alike),
		cmocka_unit_test(wrong_routes_hide_none),
	};
	return cmocka_run_group_tests(tests, NULL, end);
}
