/* Commands that ask a running sluice: what a command line asks of it, and how its answer is
 * printed. The sluice is a fake. */
#include "cli/operate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "fake_remote.h"
#include "printed.h"
#include "tests/unit/suite.h"

#define WORDS_MAX  12
#define TEXT_BYTES 4096

/* The sluice that is asked. `asked` has `METHOD PATH`, and a blank and the body if there is one. */
static struct {
	int find_status;
	enum remote_result result;
	const char *answer; /* JSON */
	unsigned calls;
	char asked[TEXT_BYTES], conf[256], admin[256], token_file[256];
} fake;

static bool has_fleet; /* it is a node of one */

static int find(const char *admin, const char *conf_path, const char *token_path)
{
	snprintf(fake.conf, sizeof(fake.conf), "%s", conf_path);
	snprintf(fake.admin, sizeof(fake.admin), "%s", admin ? admin : "");
	snprintf(fake.token_file, sizeof(fake.token_file), "%s", token_path ? token_path : "");
	return fake.find_status;
}

static enum remote_result call(const struct remote *remote, const char *method, const char *path,
	const json_t *body, json_t **answer)
{
	if (remote->is_quiet) { /* behind a change: is there a fleet? */
		assert_string_equal(path, "/api/v1/fleet");
		*answer = has_fleet ? json_object() : NULL;
		return has_fleet ? REMOTE_OK : REMOTE_REFUSED;
	}
	char *text = body ? json_dumps(body, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
	snprintf(fake.asked, sizeof(fake.asked), "%s %s%s%s", method, path, text ? " " : "",
		text ? text : "");
	free(text);
	fake.calls++;
	*answer = fake.result == REMOTE_OK ? json_loads(fake.answer, 0, NULL) : NULL;
	return fake.result;
}

/* ---- a command that runs --------------------------------------------------------------------- */

static struct printed run_found(const char *const *words, const char *answer, int find_status)
{
	memset(&fake, 0, sizeof(fake));
	fake.find_status = find_status;
	fake.answer = answer;
	fake.result = answer ? REMOTE_OK : REMOTE_REFUSED;
	return printed_by(cli_operate, words);
}

/* `answer`: NULL, the sluice refuses. */
static struct printed run(const char *const *words, const char *answer)
{
	return run_found(words, answer, 0);
}

/* ---- what is asked --------------------------------------------------------------------------- */

struct asking {
	const char *words[WORDS_MAX];
	const char *asked;
};

static const struct asking askings[] = {
	{{"status"}, "GET /api/v1/status"},
	{{"reload"}, "POST /api/v1/reload"},
	{{"config"}, "GET /api/v1/config"},
	{{"fleet"}, "GET /api/v1/fleet"},
	{{"log-level", "debug"}, "PUT /api/v1/log-level {\"level\":\"debug\"}"},
	{{"limits"}, "GET /api/v1/limits"},
	{{"limits", "set", "a b", "rate=9 per 1s", "burst="},
		"PATCH /api/v1/limits/a%20b {\"burst\":null,\"rate\":\"9 per 1s\"}"},
	{{"limits", "set", "a", "key=a=b"}, "PATCH /api/v1/limits/a {\"key\":\"a=b\"}"},
	{{"upstreams"}, "GET /api/v1/upstreams"},
	{{"upstreams", "drain", "u", "h:80"}, "POST /api/v1/upstreams/u/servers/h%3A80/drain"},
	{{"upstreams", "weight", "u", "h:80", "7"},
		"PUT /api/v1/upstreams/u/servers/h%3A80/weight {\"weight\":7}"},
	{{"upstreams", "weight", "u", "h:80", "file"},
		"PUT /api/v1/upstreams/u/servers/h%3A80/weight {\"weight\":null}"},
	{{"sessions"}, "GET /api/v1/sessions"},
	{{"sessions", "drain", "1/2"}, "POST /api/v1/sessions/1%2F2/drain"},
	{{"callers"}, "GET /api/v1/callers"},
	{{"callers", "--refused", "--count", "5", "--limit", "a&b"},
		"GET /api/v1/callers?limit=a%26b&count=5&sort=refused"},
	{{"callers", "a key"}, "GET /api/v1/callers?key=a%20key"},
	{{"callers", "--hash", "00ff", "--limit", "a"}, "GET /api/v1/callers/00ff?limit=a"},
	{{"reset", "ann"}, "DELETE /api/v1/callers?key=ann"},
	{{"reset", "--hash", "00ff"}, "DELETE /api/v1/callers/00ff"},
	{{"keys", "show", "a/b"}, "GET /api/v1/keys/a%2Fb"},
	{{"keys", "delete", "ann"}, "DELETE /api/v1/keys/ann"},
	{{"keys", "revoke", "ann"}, "PUT /api/v1/keys/ann {\"revoked\":true}"},
	{{"keys", "set", "ann", "gold"},
		"PUT /api/v1/keys/ann {\"hashed\":false,\"plan\":\"gold\"}"},
	{{"keys", "set", "ann", "gold", "--hashed"},
		"PUT /api/v1/keys/ann {\"hashed\":true,\"plan\":\"gold\"}"},
	{{"override", "00ff", "plan", "gold", "1h"},
		"PUT /api/v1/callers/00ff/override {\"for\":\"1h\",\"plan\":\"gold\"}"},
	{{"override", "00ff", "exempt", "1h"},
		"PUT /api/v1/callers/00ff/override {\"exempt\":true,\"for\":\"1h\"}"},
	{{"override", "00ff", "deny", "2d"},
		"PUT /api/v1/callers/00ff/override {\"deny\":true,\"for\":\"2d\"}"},
	{{"override", "00ff", "end"}, "DELETE /api/v1/callers/00ff/override"},
	{{"explain", "/a?b=c", "--method", "PUT", "--host", "h", "--address", "::1"},
		"GET /api/v1/explain?path=%2Fa%3Fb%3Dc&method=PUT&host=h&address=%3A%3A1"},
	{{"explain", "/", "--route", "r", "--field", "X-Key:\t a: b", "--field", "Y:"},
		"GET /api/v1/explain?path=%2F&route=r&field.X-Key=a%3A%20b&field.Y="},
	{{"usage"}, "GET /api/v1/usage"},
	{{"usage", "2026-11-01", "2026-12-01", "--csv"},
		"GET /api/v1/usage?from=2026-11-01&to=2026-12-01"},
	{{"sockets"}, "GET /api/v1/sockets"},
	{{"sockets", "--find", "caller=a=b", "--channel", "c", "--count", "3", "--after", "9"},
		"GET /api/v1/sockets?count=3&after=9&caller=a%3Db&channel=c"},
	{{"sockets", "12"}, "GET /api/v1/sockets/12"},
	{{"sockets", "send", "12", "a text"}, "POST /api/v1/sockets/12/send {\"text\":\"a text\"}"},
	{{"sockets", "post", "all", "AQI=", "--binary", "--wait", "5s"},
		"POST /api/v1/sockets/all/post?wait=sent&timeout=5s {\"binary\":\"AQI=\"}"},
	{{"sockets", "close", "12", "--code", "4000", "--reason", "over"},
		"POST /api/v1/sockets/12/close {\"code\":4000,\"reason\":\"over\"}"},
	{{"sockets", "close", "12"}, "POST /api/v1/sockets/12/close {}"},
	{{"sockets", "drain", "all", "--wait", "1s"},
		"POST /api/v1/sockets/all/drain?wait=closed&timeout=1s"},
};

static void a_command_asks_one_thing(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(askings) / sizeof(askings[0]); i++) {
		struct printed printed = run(askings[i].words, NULL);
		assert_string_equal(fake.asked, askings[i].asked);
		assert_int_equal(fake.calls, 1);
		assert_int_equal(printed.status, 1); /* it refuses */
		assert_string_equal(printed.out, "");
	}
}

static void options_say_whom_to_ask(void **state)
{
	(void)state;
	run(WORDS("status"), "{}");
	assert_string_equal(fake.conf, "/etc/sluice/sluice.ini");
	assert_string_equal(fake.admin, "");
	assert_string_equal(fake.token_file, "");
	run(WORDS("status", "-c", "other.ini", "--token-file", "t"), "{}");
	assert_string_equal(fake.conf, "other.ini");
	assert_string_equal(fake.token_file, "t");
	run(WORDS("status", "--admin", "unix:/run/s"), "{}");
	assert_string_equal(fake.admin, "unix:/run/s");
	for (int status = 1; status <= 2; status++) {
		assert_int_equal(run_found(WORDS("status"), "{}", status).status, status);
		assert_int_equal(fake.calls, 0);
	}
}

/* ---- wrong command lines --------------------------------------------------------------------- */

static void a_wrong_line_asks_nothing(void **state)
{
	static const struct {
		const char *words[WORDS_MAX];
		const char *said;
	} wrong[] = {
		{{"status", "now"}, "sluice status: too many words\n"},
		{{"keys", "show"}, "sluice keys: too few words\n"},
		{{"status", "--limit", "a"}, "sluice status: unexpected option --limit\n"},
		{{"reset", "ann", "--refused"}, "sluice reset: unexpected option --refused\n"},
		{{"callers", "ann", "--hash", "0f"}, "sluice callers: too many words"},
		{{"reset"}, "sluice reset: too few words"},
		{{"limits", "set", "a"}, "sluice limits: expected no words, or set NAME KEY=VALUE"},
		{{"limits", "set", "a", "rate"}, "\"rate\" is not a setting; expected KEY=VALUE"},
		{{"limits", "set", "a", "=1"}, "\"=1\" is not a setting; expected KEY=VALUE"},
		{{"upstreams", "drain", "u"}, "sluice upstreams: expected no words, or drain"},
		{{"upstreams", "weight", "u", "h", "x1"}, "\"x1\" is neither a number nor file"},
		{{"upstreams", "weight", "u", "h", "1x"}, "\"1x\" is neither a number nor file"},
		{{"sessions", "drain"},
			"sluice sessions: expected drain, close or abort, and an id"},
		{{"sessions", "frob", "0f"},
			"sluice sessions: expected drain, close or abort, and an id"},
		{{"keys", "give", "ann"}, "sluice keys: expected show KEY, set KEY PLAN"},
		{{"keys", "set", "ann"}, "sluice keys: expected show KEY, set KEY PLAN"},
		{{"override", "0f", "exempt"}, "sluice override: expected HASH, then plan NAME"},
		{{"override", "0f", "end", "1h"}, "sluice override: expected HASH, then plan NAME"},
		{{"override", "0f", "deny", "1x"},
			"sluice override: invalid duration \"1x\"; expected one such as 90s or 1h"},
		{{"override", "0f", "plan", "gold", "x"},
			"sluice override: invalid duration \"x\"; expected one such as 90s or 1h"},
		{{"explain", "/", "--field", "X"}, "\"X\" is not a field; expected 'Name: value'"},
		{{"fleet", "--wait-nodes", "3x"}, "sluice fleet: invalid number \"3x\"\n"},
		{{"sockets", "--find", "ann"}, "--find \"ann\" has no value; expected NAME=VALUE"},
		{{"sockets", "--code", "1000"}, "--code, --reason, --wait and --binary are of an"},
		{{"sockets", "close", "1", "--code", "x"}, "--code x is not a number"},
		{{"sockets", "close", "1", "--reason", "\xff"}, "--reason is not UTF-8"},
		{{"sockets", "send", "1", "\xff"}, "the text is not UTF-8"},
		{{"sockets", "abort", "1", "--code", "1000"},
			"sockets abort: unexpected option --code"},
		{{"sockets", "close", "1", "--binary"},
			"sockets close: unexpected option --binary"},
		{{"sockets", "send", "1", "a", "--count", "2"},
			"sockets send: unexpected option --count"},
		{{"sockets", "throw", "1"},
			"sluice sockets: expected nothing, an id, post or send"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		struct printed printed = run(wrong[i].words, "{}");
		if (!strstr(printed.err, wrong[i].said))
			fail_msg("%s: %s", wrong[i].said, printed.err);
		assert_int_equal(printed.status, 2);
		assert_int_equal(fake.calls, 0);
		assert_string_equal(printed.out, "");
	}
}

static void more_fields_than_a_call_has_are_refused(void **state)
{
	const char *words[2 + 2 * 33 + 1] = {"explain", "/"};

	(void)state;
	for (size_t i = 1; i <= 33; i++) {
		words[2 * i] = "--field";
		words[2 * i + 1] = "A: b";
	}
	assert_int_equal(run(words, "{}").status, 2);
	assert_int_equal(fake.calls, 0);
	words[2 + 2 * 32] = NULL;
	assert_int_equal(run(words, "{}").status, 0);
	assert_int_equal(fake.calls, 1);
}

static void help_prints_the_lines_of_the_command(void **state)
{
	struct printed printed = run(WORDS("keys", "--help"), "{}");

	(void)state;
	assert_int_equal(printed.status, 0);
	assert_int_equal(fake.calls, 0);
	assert_ptr_equal(strstr(printed.out, "usage: sluice keys set KEY PLAN"), printed.out);
	assert_non_null(strstr(printed.out, "sluice keys show|revoke|delete KEY"));
	assert_non_null(strstr(printed.out, "these take [-c FILE]"));
	assert_null(strstr(printed.out, "sluice override"));
}

/* ---- answers --------------------------------------------------------------------------------- */

struct answering {
	const char *words[WORDS_MAX];
	const char *answer, *printed;
};

static const struct answering answerings[] = {
	{{"status"}, "{\"version\":\"0.1.0\",\"uptime_ms\":90000,\"log\":{\"dropped\":0}}",
		"version                 0.1.0\n"
		"uptime                  1m 30s\n"
		"log.dropped             0\n"},
	{{"limits"},
		"{\"limits\":[{\"name\":\"burst\",\"algorithm\":\"window\",\"amount\":100,"
		"\"per\":\"10s\",\"verdicts\":{\"admitted\":12345,\"refused\":6}}]}",
		"LIMIT  ALGORITHM  AMOUNT  PER  CALLERS  ADMITTED  REFUSED  DELAYED  SHADOW\n"
		"burst  window        100  10s        -     12345        6        -       -\n"},
	{{"limits", "set", "a", "rate=1 per 1s"}, "{\"name\":\"a\",\"detail\":\"Until a reload.\"}",
		"LIMIT  ALGORITHM  AMOUNT  PER  CALLERS  ADMITTED  REFUSED  DELAYED  SHADOW\n"
		"a      -               -  -          -         -        -        -       -\n"
		"Until a reload.\n"},
	{{"sessions"}, "{\"sessions\":[],\"total\":0}",
		"SESSION  STATE  IN FLIGHT  HIGH  NORMAL  COMPLETED\n0 in all\n"},
	{{"reset", "ann"}, "{\"reset\":[]}", "nothing was used\n"},
	{{"reset", "ann"}, "{\"reset\":[\"a\",\"b\"]}", "reset: a\nreset: b\n"},
	{{"callers"}, "{\"callers\":[],\"span_ms\":60000}",
		"CALLER  ADDRESS  LIMIT  ADMITTED  REFUSED  SHADOW  USED  QUOTA  BANNED  BANNED "
		"FOR\n"
		"in the last 1m 0s\n"},
	{{"usage", "--csv"},
		"{\"usage\":[{\"limit\":\"a,\\\"b\\\"\",\"caller\":\"00ff\",\"admitted\":1,"
		"\"refused\":2}]}",
		"limit,caller,admitted,refused\n\"a,\"\"b\"\"\",00ff,1,2\n"},
	{{"usage"}, "{\"usage\":[],\"from\":\"F\",\"to\":\"T\"}",
		"LIMIT  CALLER  ADMITTED  REFUSED\nfrom F to T\n"},
	{{"config"},
		"{\"sections\":[{\"section\":\"sluice\",\"settings\":{\"workers\":\"2\"}},"
		"{\"section\":\"upstream\",\"name\":\"u\",\"changed\":true,"
		"\"settings\":{\"server\":[\"a:1\",\"b:2\"]}}]}",
		"[sluice]\nworkers = 2\n\n[upstream u] ; changed by the admin interface\n"
		"server = a:1\nserver = b:2\n"},
	{{"upstreams"},
		"{\"upstreams\":[{\"name\":\"u\",\"responses\":7,\"failures\":1,"
		"\"semaphore\":{\"name\":\"s\",\"state\":\"holds\",\"held\":3,\"wanted\":4,"
		"\"slots\":10,\"nodes\":2,\"bound\":3},"
		"\"health\":{\"role\":\"prober\",\"prober\":\"n1\",\"age_ms\":400},\"servers\":[]}]"
		"}",
		"u: 7 responses, 1 failures\n"
		"semaphore s: holds, 3 held and 4 wanted of 10 slots for 2 nodes, 3 at once\n"
		"health checks: by this node, n1, for the fleet; published 400ms ago\n"
		"SERVER  MODE  UP  IN FLIGHT  STREAMS  RESPONSES  FAILURES  FAILURES IN A ROW  "
		"WEIGHT\n"},
	{{"sockets"}, "{\"sockets\":[],\"next\":\"77\"}",
		"SOCKET  TYPE  STATE  CALLER  ADDRESS  AGE  IDLE  RECEIVED  SENT  QUEUED\n"
		"there are more: --after 77\n"},
	{{"fleet"}, "{\"store\":\"up\",\"eviction\":\"allkeys-lru\",\"nodes\":[],\"limits\":[]}",
		"store                   up\n"
		"eviction                allkeys-lru\n"
		"warning: the store may evict keys, and counters are lost with them; "
		"expected maxmemory-policy noeviction\n"
		"NODE  LEASE  THIS ONE\n"
		"LIMIT  STORE DOWN  RUNG  QUOTA  SHARE\n"},
	{{"status", "--json"}, "{\"b\":1,\"a\":[]}", "{\n  \"b\": 1,\n  \"a\": []\n}\n"},
};

static void an_answer_is_a_table(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(answerings) / sizeof(answerings[0]); i++) {
		struct printed printed = run(answerings[i].words, answerings[i].answer);
		assert_string_equal(printed.out, answerings[i].printed);
		assert_string_equal(printed.err, "");
		assert_int_equal(printed.status, 0);
	}
}

/* An answer of another release lacks members. */
static void an_answer_without_members_is_printed(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(askings) / sizeof(askings[0]); i++)
		assert_int_equal(run(askings[i].words, "{}").status, 0);
}

static void a_change_of_one_node_of_a_fleet_says_so(void **state)
{
	static const char *const changes[][WORDS_MAX] = {{"keys", "revoke", "ann"},
		{"keys", "delete", "ann"}, {"override", "00ff", "end"},
		{"limits", "set", "a", "rate=9 per 1s"}, {"upstreams", "drain", "u", "h:80"},
		{"log-level", "debug"}};
	static const char *const show[WORDS_MAX] = {"keys", "show", "ann"};

	(void)state;
	for (unsigned fleet = 0; fleet < 2; fleet++) {
		has_fleet = fleet == 1;
		for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
			struct printed printed = run(changes[i], "{}");
			assert_int_equal(printed.status, 0);
			assert_int_equal(strstr(printed.err, "changed at this node only") != NULL,
				has_fleet);
		}
	}
	assert_string_equal(run(show, "{}").err, "");
	assert_string_equal(strstr(run(changes[0], NULL).err, "changed") ? "changed" : "", "");
	has_fleet = false;
}

UNIT_SUITE(test_operate)
{
	fake_remote_find = find;
	fake_remote_call = call;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_command_asks_one_thing),
		cmocka_unit_test(options_say_whom_to_ask),
		cmocka_unit_test(a_wrong_line_asks_nothing),
		cmocka_unit_test(more_fields_than_a_call_has_are_refused),
		cmocka_unit_test(help_prints_the_lines_of_the_command),
		cmocka_unit_test(an_answer_is_a_table),
		cmocka_unit_test(an_answer_without_members_is_printed),
		cmocka_unit_test(a_change_of_one_node_of_a_fleet_says_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
