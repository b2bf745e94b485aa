/* What a request's target and Host say of it. */
#include "exchange/read_target.h"

#include "fakes/flight.h"
#include "http/path.h"
#include "tests/unit/random.h"
#include "tests/unit/suite.h"

static const struct stage_conf plain = {0};

static bool is_text(struct slice slice, const char *text)
{
	return slice_equal(slice, slice_of(text));
}

static void assert_text(struct slice slice, const char *text)
{
	if (!is_text(slice, text))
		fail_msg("\"%.*s\" where \"%s\" was expected", SLICE_ARGS(slice), text);
}

/* Its head was read; nothing else has happened to it. */
static struct exchange *read_head(struct stage *stage, const char *line, const char *host)
{
	char head[4096];

	assert_true(
		(size_t)snprintf(head, sizeof(head), "%s\r\n%s%s%s\r\n", line, host ? "Host: " : "",
			host ? host : "", host ? "\r\n" : "") < sizeof(head));
	return stage_request(stage, head);
}

static void which_are_refused(void **state)
{
	static const struct {
		const char *line, *host;
		unsigned status;
	} rows[] = {
		{"GET / HTTP/1.1", "h", 0},
		{"GET * HTTP/1.1", "h", 400},
		{"GET ftp://h/ HTTP/1.1", "h", 400},
		{"GET http://me@h/ HTTP/1.1", "h", 400},
		{"GET /a#b HTTP/1.1", "h", 400},
		{"GET / HTTP/1.1", "me@h", 400},
		{"GET / HTTP/1.1", "h:65536", 400},
		{"GET / HTTP/1.1", "h:65535", 0},
		{"GET / HTTP/1.1", "", 0},
		/* Host is looked at even where the target says more. */
		{"GET http://h/ HTTP/1.1", "me@h", 400},
		{"CONNECT h:1 HTTP/1.1", "h:1", 405},
		{"CONNECT / HTTP/1.1", "h:1", 400},
		{"CONNECT h:1 HTTP/1.1", "me@h", 400},
		{"GET /%zz HTTP/1.1", "h", 400},
		{"GET /%00 HTTP/1.1", "h", 400},
		{"GET /a/..%2Fb HTTP/1.1", "h", 400},
		{"OPTIONS * HTTP/1.1", "h", 0},
		{"POST * HTTP/1.1", "h", 400},
	};
	struct stage *stage = stage_begin(&plain);

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct exchange *x = read_head(stage, rows[i].line, rows[i].host);
		unsigned status = read_target(x);
		if (status != rows[i].status)
			fail_msg("%s, Host: %s gets %u", rows[i].line, rows[i].host, status);
		stage_forget(stage);
	}
	stage_end(stage);
}

static void what_they_say(void **state)
{
	static const struct {
		const char *line, *given_host, *host, *authority, *path, *key_path, *query;
		enum http_target_form form;
		bool is_odd;
	} rows[] = {
		{"GET /a?b HTTP/1.1", "H.Test:80", "h.test", "H.Test:80", "/a", "/a", "b",
			HTTP_TARGET_ORIGIN, false},
		{"GET / HTTP/1.0", NULL, "", "", "/", "/", "", HTTP_TARGET_ORIGIN, false},
		{"GET http://Other:8 HTTP/1.1", "h", "other", "Other:8", "/", "/", "",
			HTTP_TARGET_ABSOLUTE, false},
		{"GET https://o?q HTTP/1.1", "h", "o", "o", "/", "/", "q", HTTP_TARGET_ABSOLUTE,
			false},
		{"OPTIONS * HTTP/1.1", "h", "h", "h", "*", "*", "", HTTP_TARGET_ASTERISK, false},
		/* Without a path it is of the server itself, with one of that. */
		{"OPTIONS http://o:1 HTTP/1.1", "h", "o", "o:1", "*", "*", "", HTTP_TARGET_ASTERISK,
			false},
		{"OPTIONS http://o:1/ HTTP/1.1", "h", "o", "o:1", "/", "/", "",
			HTTP_TARGET_ABSOLUTE, false},
		{"OPTIONS http://o?q HTTP/1.1", "h", "o", "o", "/", "/", "q", HTTP_TARGET_ABSOLUTE,
			false},
		{"OPTIONS /a HTTP/1.1", "h", "h", "h", "/a", "/a", "", HTTP_TARGET_ORIGIN, false},
		{"GET http://o HTTP/1.1", "h", "o", "o", "/", "/", "", HTTP_TARGET_ABSOLUTE, false},
		/* The normal form is not in the head. */
		{"GET /x/../%61 HTTP/1.1", "h", "h", "h", "/a", "/a", "", HTTP_TARGET_ORIGIN, true},
		{"GET /%61 HTTP/1.1", "h", "h", "h", "/a", "/a", "", HTTP_TARGET_ORIGIN, true},
		/* Keys know an odd path by what is most likely the same to servers. */
		{"GET /a//b HTTP/1.1", "h", "h", "h", "/a//b", "/a/b", "", HTTP_TARGET_ORIGIN,
			true},
		{"GET /%61%2Fb;v=1 HTTP/1.1", "h", "h", "h", "/a%2Fb;v=1", "/a/b", "",
			HTTP_TARGET_ORIGIN, true},
	};
	struct stage *stage = stage_begin(&plain);

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct exchange *x = read_head(stage, rows[i].line, rows[i].given_host);
		assert_int_equal(read_target(x), 0);
		memset(stage->worker->path_scratch, 'X', sizeof(stage->worker->path_scratch));
		assert_text(x->facts.host, rows[i].host);
		assert_text(x->facts.authority, rows[i].authority);
		assert_text(x->facts.path, rows[i].path);
		assert_text(x->facts.key_path, rows[i].key_path);
		assert_text(x->target.query, rows[i].query);
		if (x->target.form != rows[i].form || x->facts.path_odd != rows[i].is_odd)
			fail_msg("%s: form %d, odd %d", rows[i].line, (int)x->target.form,
				x->facts.path_odd);
		stage_forget(stage);
	}
	stage_end(stage);
}

/* In its normal form each of these takes three bytes. */
static void a_path_that_becomes_too_long(void **state)
{
	struct stage *stage = stage_begin(&plain);
	const size_t most = sizeof(stage->worker->path_scratch) / 3;

	(void)state;
	for (size_t len = most - 2; len < most + 2; len++) {
		struct exchange *x = read_head(stage, "GET / HTTP/1.1", "h");
		char *head = malloc(x->request.len + 1 + len);
		assert_non_null(head);
		memcpy(head, x->request.base, x->request.len);
		head[x->request.len] = '/';
		memset(head + x->request.len + 1, '|', len);
		x->request.base = head;
		x->request.target_at = x->request.len;
		x->request.target_len = (uint32_t)len + 1;
		assert_int_equal(read_target(x), 1 + 3 * len > 3 * most ? 414 : 0);
		stage_forget(stage);
		free(head);
	}
	stage_end(stage);
}

/* Whatever the path is: keys and routes know the same of a plain one, and what was found does not
 * change with the next request. */
static void paths_at_random(void **state)
{
	static const char *const pieces[] = {
		"/", "a", "B", "%61", "%2F", "..", ".", ";v", "~", "%7e"};
	struct random random = random_begin("paths");
	struct stage *stage = stage_begin(&plain);
	char path[512], line[600];

	(void)state;
	for (unsigned round = 0; round < 2000; round++) {
		struct slice normal;
		char out[2048];
		bool is_odd = false;
		strcpy(path, "/");
		for (size_t n = random_below(&random, 12); n > 0; n--)
			strcat(path, pieces[random_below(&random, 10)]);
		snprintf(line, sizeof(line), "GET %s HTTP/1.1", path);
		enum http_path_result result =
			http_path_normalise(slice_of(path), out, sizeof(out), &normal, &is_odd);
		struct exchange *x = read_head(stage, line, "h");
		assert_int_equal(read_target(x), result == HTTP_PATH_OK ? 0 : 400);
		memset(stage->worker->path_scratch, 'X', sizeof(out));
		if (result == HTTP_PATH_OK) {
			assert_true(slice_equal(x->facts.path, normal));
			assert_int_equal(x->facts.path_odd, is_odd);
			if (!is_odd)
				assert_true(slice_equal(x->facts.key_path, normal));
			assert_int_equal(x->facts.key_path.at[0], '/');
		}
		stage_forget(stage);
	}
	stage_end(stage);
}

UNIT_SUITE(test_read_target)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(which_are_refused),
		cmocka_unit_test(what_they_say),
		cmocka_unit_test(a_path_that_becomes_too_long),
		cmocka_unit_test(paths_at_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
