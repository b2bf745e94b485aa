/* What a file says replaces the default: no value is added to one that it does not name. */
#include "conf/options.h"

#include <stdbool.h>

#include "conf/conf.h"
#include "text.h"
#include "tests/unit/suite.h"

/* Every option with a default: in each section, `visit` is called with its row. */
static void each_default(void (*visit)(const struct option_section *, const struct option *))
{
	for (size_t i = 0; i < SECTIONS; i++) {
		const struct option_section *section = &option_sections[i];
		for (size_t j = 0; j < *section->option_count; j++)
			if (section->options[j].fallback)
				visit(section, &section->options[j]);
	}
}

static unsigned seen, lists;

static bool is_list(const struct option *option)
{
	return strstr(option->type->name, "list") || option->flags & OPTION_REPEATABLE;
}

static void visit(const struct option_section *section, const struct option *option)
{
	seen++;
	if (!is_list(option))
		return;
	lists++;
	if (!option->type->adds)
		fail_msg("[%s] %s has a default that its type does not clear", section->kind,
			option->name);
}

static void lists_with_a_default_are_cleared(void **state)
{
	(void)state;
	seen = lists = 0;
	each_default(visit);
	assert_true(seen > 50);
	assert_true(lists > 0); /* upgrade */
}

static size_t hosts_of(const char *lines)
{
	const struct conf *conf = good("route r", lines);
	const struct conf_route *route = NULL;

	for (size_t i = 0; i < conf->route_count; i++)
		if (strcmp(conf->routes[i].name, "r") == 0)
			route = &conf->routes[i];
	size_t count = route ? route->hosts.count + route->request_trailers.count +
				       route->request_set.count
			     : 0;
	conf_release(conf);
	return count;
}

/* Only the first line of a section's clears: further ones add. */
static void repeated_lines_add(void **state)
{
	(void)state;
	assert_int_equal(hosts_of("upstream = u\nhost = a\nhost = b, c\nhost = d"), 4);
	assert_int_equal(hosts_of("upstream = u\nrequest_trailers = a\nhost = h\n"
				  "request_trailers = b, c"),
		4);
	assert_int_equal(hosts_of("upstream = u\nrequest_header_set = A: 1\n"
				  "request_header_set = B: 2"),
		2);
}

UNIT_SUITE(test_defaults)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lists_with_a_default_are_cleared),
		cmocka_unit_test(repeated_lines_add),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
