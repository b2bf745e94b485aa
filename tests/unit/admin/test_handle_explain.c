/* What a request would get: read as a client's, judged, and nothing charged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "admin/handlers.h"
#include "admin/request.h"
#include "base/clock.h"
#include "daemon/daemon.h"
#include "fake_mhd.h"
#include "gate/gate.h"
#include "gate/route.h"
#include "http/parser.h"
#include "site/site.h"
#include "tests/unit/gate/conf_of.h"
#include "tests/unit/suite.h"

static const struct conf *conf;
static struct site site;
static struct daemon running;

static int begin(void **state)
{
	struct throttle_table_options options = {.callers = 1000};
	struct throttle_report report;

	(void)state;
	memset(&running, 0, sizeof(running));
	clock_anchor_init(&running.node.anchor, clock_boot_ns(), clock_wall_ns());
	options.now_ns = daemon_throttle_ns(&running);
	conf = conf_of(
		"[limit few]\nkey = header:X-Key | ip\nrate = 2 per 1h\n"
		"[limit slots]\nkey = ip\nconcurrency = 1\n"
		"[limit watch]\nkey = ip\nrate = 1 per 1h\nmode = shadow\n"
		"[route few]\nhost = a.test\nupstream = u\nlimits = few, watch\nlane = high\n"
		"[route slots]\nhost = b.test\nupstream = u\nlimits = slots\n"
		"deny = 192.0.2.0/24\nmethod = GET, POST\n"
		"[route host]\nhost = c.test\nupstream = u\n"
		"[route secret]\nhost = c.test\npath = /admin\nupstream = u\nlimits = few\n"
		"[route regex]\nhost = d.test\npath = ~^/(a+)+$\nupstream = u\nlimits = few\n");
	struct throttle_limit *limits = gate_throttle_limits(conf, 0);
	assert_non_null(limits);
	running.node.throttles = throttle_table_open(&options, limits, conf->limit_count, &report);
	free(limits);
	assert_non_null(running.node.throttles);
	site = (struct site){.conf = (struct conf *)(uintptr_t)conf,
		.routes = route_table_new(conf),
		.gate = gate_new(conf, running.node.throttles)};
	running.site = &site;
	return !site.routes || !site.gate;
}

static int end(void **state)
{
	(void)state;
	gate_free(site.gate);
	route_table_free(site.routes);
	throttle_table_close(running.node.throttles);
	conf_release(conf);
	return 0;
}

static json_t *answer;

static unsigned ask_with(const char *const *arguments)
{
	struct admin_request request = {.daemon = &running, .status = 200};

	fake_mhd_arguments = arguments;
	json_decref(answer);
	admin_get_explain(&request);
	answer = json_loads(request.text, 0, NULL);
	assert_non_null(answer);
	free(request.text);
	return request.status;
}

#define ASK(...) ask_with((const char *const[]){__VA_ARGS__, NULL})

static void says(const char *member, const char *text)
{
	const char *found = json_string_value(json_object_get(answer, member));

	if (!found || !strstr(found, text))
		fail_msg("%s: %s, not %s", member, found ? found : "(none)", text);
}

static json_int_t number_of(size_t limit, const char *member)
{
	const json_t *row = json_array_get(json_object_get(answer, "limits"), limit);

	assert_true(json_is_integer(json_object_get(row, member)));
	return json_integer_value(json_object_get(row, member));
}

/* One request of 127.0.0.1 is admitted on the route. */
static void take(const char *name)
{
	struct http_head head;
	struct identity_input input = {
		.head = &head, .address = {[10] = 0xff, [11] = 0xff, 127, 0, 0, 1}};
	struct gate_identity identity;
	struct gate_verdict verdict;
	struct gate_receipt receipt;
	size_t i = 0;

	while (strcmp(conf->routes[i].name, name) != 0)
		i++;
	http_head_init(&head);
	gate_identify(site.gate, &conf->routes[i], &input, &identity);
	gate_judge(site.gate, &conf->routes[i], &identity, NULL, daemon_throttle_ns(&running), 0,
		&verdict, &receipt);
	assert_int_equal(verdict.outcome, GATE_ADMIT);
	http_head_clear(&head);
}

static void nothing_is_charged(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++) {
		assert_int_equal(ASK("host", "a.test"), 200);
		says("outcome", "admit");
		says("route", "few");
		says("upstream", "u");
		says("lane", "high");
		assert_true(json_is_null(json_object_get(answer, "status")));
		assert_true(json_is_null(json_object_get(answer, "plan")));
		assert_int_equal(json_array_size(json_object_get(answer, "limits")), 2);
		assert_int_equal(number_of(0, "quota"), 2);
		assert_int_equal(number_of(0, "remaining"), 1); /* after the request */
		assert_null(json_object_get(answer, "retry_after_ms"));
	}
}

static void a_refused_one_says_when(void **state)
{
	(void)state;
	take("few");
	assert_int_equal(ASK("host", "a.test"), 200);
	says("outcome", "admit");
	assert_int_equal(number_of(0, "remaining"), 0);
	/* Limits in shadow refuse nothing. */
	assert_true(json_is_true(
		json_object_get(json_array_get(json_object_get(answer, "limits"), 1), "violated")));
	take("few");
	assert_int_equal(ASK("host", "a.test"), 200);
	says("outcome", "refuse");
	assert_int_equal(json_integer_value(json_object_get(answer, "status")), 429);
	assert_in_range(
		json_integer_value(json_object_get(answer, "retry_after_ms")), 3590000, 3600000);
	assert_in_range(number_of(0, "reset_ms"), 3590000, 3600000);
	/* Another caller, by a field and by an address. */
	ASK("host", "a.test", "field.X-Key", "ann");
	says("outcome", "admit");
	ASK("host", "a.test", "address", "2001:db8::1");
	says("outcome", "admit");
	ASK("host", "a.test", "address", "127.0.0.1");
	says("outcome", "refuse");
}

/* Nobody knows when a place becomes free. */
static void a_place_has_no_time(void **state)
{
	(void)state;
	take("slots");
	assert_int_equal(ASK("host", "b.test"), 200);
	says("outcome", "refuse");
	assert_true(number_of(0, "reset_ms") >= 0);
	const json_t *after = json_object_get(answer, "retry_after_ms");
	assert_true(json_is_null(after) || json_integer_value(after) > 0);
}

static void routes_and_lists(void **state)
{
	(void)state;
	ASK("host", "b.test", "address", "192.0.2.7");
	says("outcome", "deny");
	assert_int_equal(json_integer_value(json_object_get(answer, "status")), 403);
	ASK("host", "b.test", "method", "DELETE");
	says("outcome", "no route");
	assert_int_equal(json_integer_value(json_object_get(answer, "status")), 405);
	ASK("host", "nowhere.test");
	says("outcome", "no route");
	assert_int_equal(json_integer_value(json_object_get(answer, "status")), 404);
	ASK("route", "slots"); /* whatever its host is */
	says("route", "slots");
	ASK("route", "none");
	says("outcome", "no route");
	ASK("host", "c.test", "path", "/a?b=c");
	says("route", "host");
	ASK("host", "c.test", "path", "//admin");
	says("outcome", "ambiguous path");
	assert_int_equal(json_integer_value(json_object_get(answer, "status")), 400);
	ASK("host", "C.TEST:80", "path", "/admin/x");
	says("route", "secret");
	/* As of a proxy: its Host field is ignored. */
	ASK("path", "http://c.test/admin", "host", "a.test");
	says("route", "secret");
	assert_int_equal(ASK("path", "*", "method", "OPTIONS", "host", "a.test"), 200);
}

static void questions_that_are_no_requests(void **state)
{
	static char long_path[20000] = "/";
	static const struct {
		const char *arguments[5], *said;
	} wrong[] = {{{"address", "127.0.0"}, "The address is invalid; expected IPv4 or IPv6."},
		{{"path", "account"}, "The path does not begin with a slash"},
		{{"path", "/a b"}, "is not valid"}, {{"host", "a b"}, "is not valid"},
		{{"path", "/\r\nX-Key: ann"}, "control character"},
		{{"host", "a\nX: b"}, "control character"},
		{{"field.X-Key", "a\nY: b"}, "control character"},
		{{"field.X Y", "a"}, "is not valid HTTP"}, {{"field.", "a"}, "is not valid HTTP"},
		{{"method", "G ET"}, "is not valid HTTP"},
		{{"path", "/%zz"}, "The path is not valid."},
		{{"path", long_path}, "The request is too long."}};

	(void)state;
	memset(long_path + 1, 'a', sizeof(long_path) - 2);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		if (ask_with(wrong[i].arguments) != 400)
			fail_msg("%s", wrong[i].said);
		says("detail", wrong[i].said);
	}
	assert_int_equal(ASK("host", "a.test", "field.X-Key", "a\tb"), 200);
}

UNIT_SUITE(test_handle_explain)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(nothing_is_charged, begin, end),
		cmocka_unit_test_setup_teardown(a_refused_one_says_when, begin, end),
		cmocka_unit_test_setup_teardown(a_place_has_no_time, begin, end),
		cmocka_unit_test_setup_teardown(routes_and_lists, begin, end),
		cmocka_unit_test_setup_teardown(questions_that_are_no_requests, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
