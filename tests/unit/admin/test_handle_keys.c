/* Keys with plans, and overrides of single callers, as requests change them: contents that are
 * accepted, and the problems of others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "admin/handlers.h"
#include "admin/request.h"
#include "daemon/daemon.h"
#include "exchange/delay_line.h"
#include "gate/gate.h"
#include "gate/roster.h"
#include "site/site.h"
#include "tests/unit/gate/conf_of.h"
#include "tests/unit/suite.h"

static const struct conf *conf;
static struct throttle_table *table;
static struct site site;
static struct daemon running;

static int begin(void **state)
{
	const struct throttle_table_options options = {
		.callers = 1000, .now_ns = UINT64_C(1700000000000000000)};
	struct throttle_report report;
	char why[256];

	(void)state;
	conf = conf_of(
		"[admin]\nbind = 127.0.0.1:3\n[limit few]\nkey = header:X-Key\nrate = 2 per 1h\n"
		"[plans]\nkey = header:X-Key\n"
		"[plan gold]\nlimits = few\n[plan default]\nlimits = few\n"
		"[route r]\nupstream = u\nlimits = plan\n");
	struct throttle_limit *limits = gate_throttle_limits(conf, 0);
	assert_non_null(limits);
	table = throttle_table_open(&options, limits, conf->limit_count, &report);
	free(limits);
	assert_non_null(table);
	site = (struct site){.conf = (struct conf *)(uintptr_t)conf, .gate = gate_new(conf, table)};
	assert_non_null(site.gate);
	memset(&running, 0, sizeof(running));
	running.site = &site;
	running.roster = roster_open(NULL, 0, why, sizeof(why));
	running.node.shared[NODE_DELAYS] = delay_lines_new(1);
	return !running.roster || !node_delays(&running.node);
}

static int end(void **state)
{
	(void)state;
	delay_lines_free(node_delays(&running.node));
	roster_close(running.roster);
	gate_free(site.gate);
	throttle_table_close(table);
	conf_release(conf);
	return 0;
}

/* The status of the answer, whose content stays in `answer` until the next one. */
static json_t *answer;

static unsigned ask(
	void (*handle)(struct admin_request *request), const char *tail, const char *body)
{
	struct admin_request request = {
		.tail = tail, .body = body, .body_bytes = strlen(body), .daemon = &running};

	json_decref(answer);
	handle(&request);
	answer = json_loads(request.text, 0, NULL);
	assert_non_null(answer);
	assert_string_equal(request.media_type,
		request.status < 400 ? "application/json" : "application/problem+json");
	if (request.status >= 400)
		assert_int_equal(
			json_integer_value(json_object_get(answer, "status")), request.status);
	free(request.text);
	return request.status;
}

static void says(const char *member, const char *text)
{
	const char *found = json_string_value(json_object_get(answer, member));

	if (!found || !strstr(found, text))
		fail_msg("%s: %s", member, found ? found : "(none)");
}

/* ---- keys ------------------------------------------------------------------------------------ */

static void a_key_gets_and_loses_a_plan(void **state)
{
	(void)state;
	assert_int_equal(ask(admin_get_key, "ann", ""), 404);
	says("detail", "This key has no plan of its own.");
	assert_int_equal(ask(admin_put_key, "ann", "{\"plan\":\"gold\"}"), 201);
	says("key", "ann");
	says("plan", "gold");
	says("source", "interface");
	assert_true(json_is_false(json_object_get(answer, "persists"))); /* there is no folder */
	assert_int_equal(ask(admin_put_key, "ann", "{\"revoked\":true}"), 200);
	assert_true(json_is_true(json_object_get(answer, "revoked")));
	assert_int_equal(ask(admin_get_key, "ann", ""), 200);
	assert_int_equal(ask(admin_delete_key, "ann", ""), 200);
	assert_true(json_is_true(json_object_get(answer, "deleted")));
	assert_int_equal(ask(admin_delete_key, "ann", ""), 404);
	says("detail", "This key was not added through this interface");
}

/* A key is found by its digest, and stored in one of the two ways only. */
static void a_hashed_key_is_the_same_key(void **state)
{
	(void)state;
	assert_int_equal(ask(admin_put_key, "abc", "{\"plan\":\"default\"}"), 201);
	assert_int_equal(ask(admin_put_key, "abc", "{\"plan\":\"gold\",\"hashed\":true}"), 201);
	says("plan", "gold");
	assert_int_equal(roster_find_text(running.roster, SLICE("abc")), ROSTER_PLAN_NONE);
	assert_int_equal(ask(admin_put_key, "abc", "{\"revoked\":true,\"hashed\":true}"), 200);
	assert_int_equal(ask(admin_delete_key, "abc", ""), 200);
	assert_int_equal(ask(admin_get_key, "abc", ""), 404);
}

static void a_wrong_change_of_a_key_is_refused(void **state)
{
	static const char *const wrong[] = {"{}", "{\"plan\":1}", "{\"revoked\":false}",
		"{\"plan\":\"gold\",\"revoked\":true}", "{\"plan\":\"gold\",\"more\":1}",
		"{\"hashed\":true}", "{\"plan\":\"gold\",\"hashed\":1}", "[]", "", "{",
		"{\"plan\":\"gold\",\"plan\":\"gold\"}", "{\"plan\":\"gold\"} x"};
	char key[4200];

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		if (ask(admin_put_key, "ann", wrong[i]) != 400)
			fail_msg("%s", wrong[i]);
	}
	says("detail", "The content is not a JSON object");
	assert_int_equal(ask(admin_put_key, "ann", "{\"plan\":\"silver\"}"), 422);
	says("detail", "There is no plan of this name.");
	memset(key, 'k', sizeof(key));
	key[4097] = '\0';
	assert_int_equal(ask(admin_put_key, key, "{\"plan\":\"gold\"}"), 400);
	says("detail", "A key has at most 4096 bytes and no control characters.");
	key[4096] = '\0';
	assert_int_equal(ask(admin_put_key, key, "{\"plan\":\"gold\"}"), 201);
	assert_int_equal(ask(admin_put_key, "a\nb", "{\"plan\":\"gold\"}"), 400);
	assert_int_equal(ask(admin_get_key, "ann", ""), 404);
	running.node.stopping = true;
	assert_int_equal(ask(admin_put_key, "ann", "{\"plan\":\"gold\"}"), 409);
	says("detail", "sluice is stopping.");
	assert_int_equal(ask(admin_delete_key, key, ""), 409);
}

/* JSON has no bytes that are not UTF-8. */
static void a_key_of_any_bytes_is_shown(void **state)
{
	(void)state;
	assert_int_equal(ask(admin_put_key, "k\xff\xc3", "{\"plan\":\"gold\"}"), 201);
	says("key", "k\xef\xbf\xbd\xef\xbf\xbd");
	assert_int_equal(ask(admin_put_key, "k\xc3\xbc", "{\"plan\":\"gold\"}"), 201);
	says("key", "k\xc3\xbc");
}

/* ---- overrides ------------------------------------------------------------------------------- */

#define PATH "00000000000000ff/override"

static void a_caller_is_overridden_for_a_time(void **state)
{
	static const struct {
		const char *body, *kind;
	} good[] = {
		{"{\"plan\":\"gold\",\"for\":\"1h\"}", "plan"},
		{"{\"deny\":true,\"for\":\"1ms\"}", "deny"}, /* rounded up */
		{"{\"exempt\":true,\"for\":3600}", "exempt"},
		{"{\"deny\":true,\"for\":\"1h30m\"}", "deny"},
		{"{\"deny\":true,\"for\":\"400d\"}", "deny"},
	};

	(void)state;
	assert_int_equal(ask(admin_delete_override, PATH, ""), 404);
	says("detail", "There is no override of this caller.");
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		if (ask(admin_put_override, PATH, good[i].body) != 200)
			fail_msg("%s", good[i].body);
		says("caller", "00000000000000ff");
		const json_t *override = json_object_get(answer, "override");
		assert_string_equal(
			json_string_value(json_object_get(override, "kind")), good[i].kind);
		assert_non_null(json_string_value(json_object_get(override, "until")));
	}
	assert_int_equal(ask(admin_delete_override, PATH, ""), 200);
	assert_true(json_is_null(json_object_get(answer, "override")));
}

static void a_wrong_override_is_refused(void **state)
{
	static const char *const wrong[] = {"{}", "{\"deny\":true}", "{\"for\":\"1h\"}",
		"{\"deny\":true,\"for\":0}", "{\"deny\":true,\"for\":-1}",
		"{\"deny\":true,\"for\":\"soon\"}", "{\"deny\":true,\"for\":1.5}",
		"{\"deny\":true,\"for\":\"401d\"}", "{\"deny\":false,\"for\":\"1h\"}",
		"{\"deny\":true,\"exempt\":true,\"for\":\"1h\"}",
		"{\"deny\":true,\"plan\":\"gold\",\"for\":\"1h\"}",
		"{\"deny\":true,\"for\":\"1h\",\"x\":1}"};
	static const char *const paths[] = {"00000000000000ff", "ff/override", "/override",
		"00000000000000fg/override", "00000000000000ff/override/", ""};

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		if (ask(admin_put_override, PATH, wrong[i]) != 400)
			fail_msg("%s", wrong[i]);
		says("detail", "at most 400 days");
	}
	assert_int_equal(
		ask(admin_put_override, PATH, "{\"plan\":\"silver\",\"for\":\"1h\"}"), 422);
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		if (ask(admin_put_override, paths[i], "{\"deny\":true,\"for\":\"1h\"}") != 404 ||
			ask(admin_delete_override, paths[i], "") != 404)
			fail_msg("%s", paths[i]);
	}
	assert_int_equal(roster_find_override(running.roster, 0xff, 0).kind, ROSTER_NO_OVERRIDE);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

UNIT_SUITE(test_handle_keys)
{
	const struct CMUnitTest tests[] = {
		TEST(a_key_gets_and_loses_a_plan),
		TEST(a_hashed_key_is_the_same_key),
		TEST(a_wrong_change_of_a_key_is_refused),
		TEST(a_key_of_any_bytes_is_shown),
		TEST(a_caller_is_overridden_for_a_time),
		TEST(a_wrong_override_is_refused),
	};

	int failed = cmocka_run_group_tests(tests, NULL, NULL);
	json_decref(answer);
	return failed;
}
