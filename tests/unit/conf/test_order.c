/* Which route is tried first. */
#include "text.h"

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
	assert_int_equal(conf->host_count, 5);
	assert_int_equal(conf->exact_host_count, 2);
	assert_string_equal(conf->hosts[0].text, "a.example.org");
	assert_string_equal(conf->hosts[1].text, "b.example.org");
	assert_int_equal(conf->hosts[1].route_count, 2);
	assert_string_equal(conf->hosts[1].routes[0]->name, "exact");
	assert_string_equal(conf->hosts[1].routes[1]->name, "mixed");
	assert_string_equal(conf->hosts[2].text, "*.example.org");
	assert_string_equal(conf->hosts[3].text, "*.org");
	assert_string_equal(conf->hosts[3].routes[0]->name, "mixed");
	assert_string_equal(conf->hosts[4].text, "");
	assert_int_equal(conf->hosts[4].route_count, 1);
	conf_release(conf);
}

static int end(void **state)
{
	(void)state;
	free(text);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(by_host),
		cmocka_unit_test(by_path),
		cmocka_unit_test(by_method_then_file),
		cmocka_unit_test(hosts_have_their_own_order),
	};
	return cmocka_run_group_tests(tests, NULL, end);
}
