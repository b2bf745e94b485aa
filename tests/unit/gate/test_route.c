/* The route table against a plain scan of the snapshot's routes. */
#include "gate/route.h"

#include "../random.h"
#include "conf_of.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "http/path.h"
#include "http/target.h"
#include "tests/unit/suite.h"

struct fixture {
	const struct conf *conf;
	struct route_table *table;
	struct route_scratch *scratch;
};

static struct fixture begin(const char *routes)
{
	struct fixture fixture = {.conf = conf_of(routes)};

	fixture.table = route_table_new(fixture.conf);
	fixture.scratch = route_scratch_new();
	assert_non_null(fixture.table);
	assert_non_null(fixture.scratch);
	return fixture;
}

static void end(struct fixture *fixture)
{
	route_table_free(fixture->table);
	route_scratch_free(fixture->scratch);
	conf_release(fixture->conf);
}

/* The name of the route, "405", "undecided" or "404". */
static const char *match(
	struct fixture *fixture, const char *host, const char *path, enum http_method method)
{
	struct route_match found = route_match(
		fixture->table, fixture->scratch, slice_of(host), slice_of(path), method);

	return found.outcome == ROUTE_FOUND       ? found.route->name
	       : found.outcome == ROUTE_METHOD    ? "405"
	       : found.outcome == ROUTE_UNDECIDED ? "undecided"
						  : "404";
}

static void hosts(void **state)
{
	struct fixture f = begin("[route exact]\nhost = a.example.org\nupstream = u\n"
				 "[route short]\nhost = *.org\nupstream = u\n"
				 "[route long]\nhost = *.example.org\nupstream = u\n"
				 "[route deep]\nhost = *.x.example.org\npath = /d\nupstream = u\n"
				 "[route any]\npath = /any\nupstream = u\n");

	(void)state;
	assert_string_equal(match(&f, "a.example.org", "/", HTTP_METHOD_GET), "exact");
	assert_string_equal(match(&f, "b.example.org", "/", HTTP_METHOD_GET), "long");
	assert_string_equal(match(&f, "c.b.example.org", "/any", HTTP_METHOD_GET), "long");
	assert_string_equal(match(&f, "example.org", "/", HTTP_METHOD_GET), "short");
	assert_string_equal(match(&f, "c.x.example.org", "/d/e", HTTP_METHOD_GET), "deep");
	assert_string_equal(match(&f, "c.x.example.org", "/e", HTTP_METHOD_GET), "long");
	assert_string_equal(match(&f, "org", "/", HTTP_METHOD_GET), "404");
	assert_string_equal(match(&f, "org", "/any", HTTP_METHOD_GET), "any");
	assert_string_equal(match(&f, "", "/any/x", HTTP_METHOD_GET), "any");
	assert_string_equal(match(&f, ".org", "/", HTTP_METHOD_GET), "404");
	end(&f);
}

static void paths(void **state)
{
	struct fixture f = begin("[route root]\npath = /\nupstream = u\n"
				 "[route api]\npath = /api\nupstream = u\n"
				 "[route slash]\npath = /s/\nupstream = u\n"
				 "[route deep]\npath = /api/v1/x\nupstream = u\n"
				 "[route exact]\npath = =/api/v1\nupstream = u\n"
				 "[route regex]\npath = ~\\.(png|jpg)$\nupstream = u\n");

	(void)state;
	assert_string_equal(match(&f, "h", "/", HTTP_METHOD_GET), "root");
	assert_string_equal(match(&f, "h", "/apix", HTTP_METHOD_GET), "root");
	assert_string_equal(match(&f, "h", "/api", HTTP_METHOD_GET), "api");
	assert_string_equal(match(&f, "h", "/api/", HTTP_METHOD_GET), "api");
	assert_string_equal(match(&f, "h", "/api/v1", HTTP_METHOD_GET), "exact");
	assert_string_equal(match(&f, "h", "/api/v1/", HTTP_METHOD_GET), "api");
	assert_string_equal(match(&f, "h", "/api/v1/x/y", HTTP_METHOD_GET), "deep");
	assert_string_equal(match(&f, "h", "/api/v1/xy", HTTP_METHOD_GET), "api");
	assert_string_equal(match(&f, "h", "/s", HTTP_METHOD_GET), "root");
	assert_string_equal(match(&f, "h", "/s/", HTTP_METHOD_GET), "slash");
	assert_string_equal(match(&f, "h", "/s/t", HTTP_METHOD_GET), "slash");
	assert_string_equal(match(&f, "h", "/api/v1/x/y.png", HTTP_METHOD_GET), "regex");
	assert_string_equal(match(&f, "h", "*", HTTP_METHOD_OPTIONS), "root");
	end(&f);
}

static void methods(void **state)
{
	struct fixture f = begin("[route read]\npath = /a\nmethod = GET, HEAD\nupstream = u\n"
				 "[route write]\npath = /a\nmethod = POST\nupstream = u\n"
				 "[route regex]\npath = ~^/a/.*z$\nmethod = DELETE\nupstream = u\n"
				 "[route b]\npath = /b\nupstream = u\n");

	(void)state;
	assert_string_equal(match(&f, "h", "/a", HTTP_METHOD_GET), "read");
	assert_string_equal(match(&f, "h", "/a", HTTP_METHOD_POST), "write");
	assert_string_equal(match(&f, "h", "/a", HTTP_METHOD_OTHER), "405");
	assert_string_equal(match(&f, "h", "/b", HTTP_METHOD_OTHER), "b");
	assert_string_equal(match(&f, "h", "/a/z", HTTP_METHOD_DELETE), "regex");
	assert_string_equal(match(&f, "h", "*", HTTP_METHOD_OPTIONS), "404");
	struct route_match found =
		route_match(f.table, f.scratch, SLICE("h"), SLICE("/a/z"), HTTP_METHOD_PUT);
	assert_int_equal(found.outcome, ROUTE_METHOD);
	assert_int_equal(found.allow, 1u << HTTP_METHOD_GET | 1u << HTTP_METHOD_HEAD |
					      1u << HTTP_METHOD_POST | 1u << HTTP_METHOD_DELETE);
	end(&f);
}

static void ipv6_hosts(void **state)
{
	struct fixture f = begin("[route six]\nhost = [2001:db8::1]\nupstream = u\n");
	struct http_authority authority;
	char host[HTTP_HOST_BYTES];

	(void)state;
	assert_true(http_authority_parse(SLICE("[2001:DB8:0::1]:80"), &authority));
	struct route_match found = route_match(f.table, f.scratch,
		http_authority_host(&authority, host), SLICE("/"), HTTP_METHOD_GET);
	assert_int_equal(found.outcome, ROUTE_FOUND);
	end(&f);
}

static void no_routes(void **state)
{
	struct conf conf = {0};
	struct route_table *table = route_table_new(&conf);
	struct route_scratch *scratch = route_scratch_new();

	(void)state;
	struct route_match found =
		route_match(table, scratch, SLICE("h"), SLICE("/a"), HTTP_METHOD_GET);
	assert_int_equal(found.outcome, ROUTE_NONE);
	route_table_free(table);
	route_scratch_free(scratch);
}

static void a_runaway_regex_is_no_way_around_it(void **state)
{
	struct fixture f = begin("[route slow]\npath = ~^/(a+)+$\nupstream = u\n"
				 "method = GET\n"
				 "[route root]\npath = /\nupstream = u\n"
				 "[route exact]\nhost = e\npath = /\nupstream = u\n");
	char path[4096];

	(void)state;
	memset(path, 'a', sizeof(path));
	path[0] = '/';
	path[sizeof(path) - 2] = 'b';
	path[sizeof(path) - 1] = '\0';
	assert_string_equal(match(&f, "h", path, HTTP_METHOD_GET), "undecided");
	/* Where it could not win it is not asked. */
	assert_string_equal(match(&f, "h", path, HTTP_METHOD_POST), "root");
	assert_string_equal(match(&f, "e", path, HTTP_METHOD_GET), "exact");
	end(&f);
}

/* Each place that a match may begin at is cheap, all of them together are not. */
static void places_share_what_may_be_tried(void **state)
{
	static const char *const expressions[] = {"([^/]*/)+edit$", "(a|b|ab)*c$",
		"[a-z/]*[a-z]*!$", "[a-z/]+[0-9]+x$", "[a-z/]+@[a-z/]+x"};
	char path[8000], routes[256];

	(void)state;
	for (size_t i = 0; i < sizeof(expressions) / sizeof(expressions[0]); i++) {
		snprintf(routes, sizeof(routes),
			"[route regex]\npath = ~%s\nupstream = u\n[route root]\npath = /\nupstream "
			"= u\n",
			expressions[i]);
		struct fixture f = begin(routes);
		for (size_t at = 0; at < sizeof(path); at++)
			path[at] = i == 1 ? 'a' : "/items"[at % 6];
		path[0] = '/';
		strcpy(path + sizeof(path) - 16, "/edit9@x!c/");
		assert_string_equal(match(&f, "h", path, HTTP_METHOD_GET), "undecided");
		/* As many steps are there for the next request again. */
		assert_string_equal(match(&f, "h", "/edit9@x!c/", HTTP_METHOD_GET), "root");
		end(&f);
	}
}

static void a_long_path_is_decided_where_the_expression_is_plain(void **state)
{
	struct fixture f = begin("[route items]\npath = ~/items/[^/]+/[^/]+/edit$\nupstream = u\n"
				 "[route images]\npath = ~\\.(png|jpe?g)$\nupstream = u\n"
				 "[route root]\npath = /\nupstream = u\n");
	char path[8000];

	(void)state;
	for (size_t at = 0; at < sizeof(path); at++)
		path[at] = "/items"[at % 6];
	strcpy(path + sizeof(path) - 16, "/edit/");
	assert_string_equal(match(&f, "h", path, HTTP_METHOD_GET), "root");
	strcpy(path + sizeof(path) - 16, "/items/a/b/edit");
	assert_string_equal(match(&f, "h", path, HTTP_METHOD_GET), "items");
	strcpy(path + sizeof(path) - 16, "/a.jpg");
	assert_string_equal(match(&f, "h", path, HTTP_METHOD_GET), "images");
	end(&f);
}

static void readings_share_what_may_be_tried(void **state)
{
	struct fixture f = begin("[route regex]\npath = ~^/.*a.*!$\nupstream = u\n"
				 "[route root]\npath = /\nupstream = u\n");
	char path[300];
	unsigned readings = 0;

	(void)state;
	memset(path, 'a', sizeof(path));
	path[0] = '/';
	path[1] = '!';
	strcpy(path + 30, "!/");
	assert_string_equal(match(&f, "h", path, HTTP_METHOD_GET), "root");
	struct route_match found;
	do {
		found = route_match_again(
			f.table, f.scratch, SLICE("h"), slice_of(path), HTTP_METHOD_GET);
	} while (found.outcome == ROUTE_FOUND && ++readings < 100000);
	assert_int_equal(found.outcome, ROUTE_UNDECIDED);
	assert_true(readings > 16);
	assert_string_equal(match(&f, "h", path, HTTP_METHOD_GET), "root");
	end(&f);
}

/* ---- the property --------------------------------------------------------------------------- */

#define PICK(random, words) words[random_below(random, sizeof(words) / sizeof(words[0]))]

static const char *const host_words[] = {
	"a.b.c", "b.c", "c", "x.b.c", "y.x.b.c", "a.c", "b", "[::1]", ".c", ""};
static const char *const pattern_words[] = {
	"a.b.c", "b.c", "*.c", "*.b.c", "*.x.b.c", "c", "x.b.c", "[::1]", "*.a.c"};
static const char *const regex_words[] = {"b", "^/a", "/b$", "^/[ab]/c", "c/a", "/$"};
static const char *const method_words[] = {"GET", "POST", "GET, HEAD", "PUT, DELETE"};

static size_t random_path(struct random *random, char *out)
{
	static const char *const segments[] = {"a", "b", "c", "ab", "", "a.b"};
	size_t len = 0, count = random_below(random, 5);

	for (size_t i = 0; i < count; i++)
		len += (size_t)sprintf(out + len, "/%s", PICK(random, segments));
	if (count == 0 || random_below(random, 3) == 0)
		len += (size_t)sprintf(out + len, "/");
	return len;
}

static void random_route(struct random *random, FILE *text, size_t i)
{
	char path[64];

	fprintf(text, "[route r%zu]\nupstream = u\n", i);
	if (random_below(random, 3) > 0) {
		size_t first = random_below(random, 9), count = 1 + random_below(random, 3);
		fprintf(text, "host = %s", pattern_words[first]);
		for (size_t j = 1; j < count; j++)
			fprintf(text, ", %s", pattern_words[(first + j) % 9]);
		fprintf(text, "\n");
	}
	if (random_below(random, 6) == 0) {
		fprintf(text, "path = ~%s\n", PICK(random, regex_words));
	} else {
		random_path(random, path);
		fprintf(text, "path = %s%s\n", random_below(random, 3) ? "" : "=", path);
	}
	if (random_below(random, 2))
		fprintf(text, "method = %s\n", PICK(random, method_words));
}

static bool host_fits(const char *pattern, struct slice host)
{
	if (!*pattern)
		return true;
	if (pattern[0] != '*')
		return slice_equal(slice_of(pattern), host);
	struct slice suffix = slice_of(pattern + 1);
	return host.len > suffix.len &&
	       memcmp(host.at + host.len - suffix.len, suffix.at, suffix.len) == 0;
}

static bool path_fits(const struct conf_route *route, struct slice path)
{
	if (route->path_kind == CONF_PATH_EXACT)
		return slice_equal(slice_of(route->path), path);
	if (route->path_kind == CONF_PATH_PREFIX)
		return http_path_has_prefix(path, slice_of(route->path));
	pcre2_match_data *data = pcre2_match_data_create(1, NULL);
	int found = pcre2_match(route->regex.code, (PCRE2_SPTR)path.at, path.len, 0, 0, data, NULL);
	pcre2_match_data_free(data);
	return found >= 0;
}

static struct route_match scan(
	const struct conf *conf, struct slice host, struct slice path, enum http_method method)
{
	uint64_t allow = 0;

	for (size_t i = 0; i < conf->hosts.count; i++) {
		if (!host_fits(conf->hosts.items[i].text, host))
			continue;
		for (size_t j = 0; j < conf->hosts.items[i].route_count; j++) {
			const struct conf_route *route = conf->hosts.items[i].routes[j];
			if (!path_fits(route, path))
				continue;
			if (route->methods == 0 || (route->methods >> method & 1))
				return (struct route_match){ROUTE_FOUND, route, 0};
			allow |= route->methods;
		}
	}
	return (struct route_match){allow ? ROUTE_METHOD : ROUTE_NONE, NULL, allow};
}

static void compare(struct fixture *f, struct random *random, unsigned round)
{
	char bytes[64];
	struct slice host = slice_of(PICK(random, host_words));
	struct slice path = {bytes, random_path(random, bytes)};
	enum http_method method = (enum http_method)random_below(random, HTTP_METHODS);
	struct route_match expected = scan(f->conf, host, path, method);
	struct route_match found = route_match(f->table, f->scratch, host, path, method);

	if (found.outcome != expected.outcome || found.route != expected.route ||
		found.allow != expected.allow)
		fail_msg("round %u: %.*s %.*s method %d gave %s, not %s", round, SLICE_ARGS(host),
			SLICE_ARGS(path), (int)method, found.route ? found.route->name : "none",
			expected.route ? expected.route->name : "none");
}

/* Adds a route to `text`, unless it could never be reached: then the file would be refused. */
static char *add_route(struct random *random, char *text, size_t i)
{
	struct conf_errors errors;
	char *longer = NULL;
	size_t len;
	FILE *out = open_memstream(&longer, &len);

	fputs(text, out);
	random_route(random, out, i);
	fclose(out);
	const struct conf *conf = conf_try(NULL, longer, &errors);
	if (!conf) {
		assert_int_equal(errors.items[0].line, errors.items[errors.count - 1].line);
		assert_non_null(strstr(errors.items[0].text, "is never reached"));
	}
	free(conf ? text : longer);
	conf_release(conf);
	conf_errors_free(&errors);
	return conf ? longer : text;
}

static void agrees_with_a_scan(void **state)
{
	struct random random = random_begin("routes");

	(void)state;
	for (unsigned round = 0; round < 300; round++) {
		char *text = strdup("");
		size_t count = 1 + random_below(&random, 40);
		for (size_t i = 0; i < count; i++)
			text = add_route(&random, text, i);
		struct fixture f = begin(text);
		for (unsigned i = 0; i < 300; i++)
			compare(&f, &random, round);
		end(&f);
		free(text);
	}
}

UNIT_SUITE(test_route)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hosts),
		cmocka_unit_test(paths),
		cmocka_unit_test(methods),
		cmocka_unit_test(ipv6_hosts),
		cmocka_unit_test(no_routes),
		cmocka_unit_test(a_runaway_regex_is_no_way_around_it),
		cmocka_unit_test(places_share_what_may_be_tried),
		cmocka_unit_test(a_long_path_is_decided_where_the_expression_is_plain),
		cmocka_unit_test(readings_share_what_may_be_tried),
		cmocka_unit_test(agrees_with_a_scan),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
