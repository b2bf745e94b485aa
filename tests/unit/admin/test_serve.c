/* A request as libmicrohttpd hands it over, and the response that it gets back: whatever the
 * pieces, the order of judging, bounds, and the fields of each response. */
#include "admin/serve.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "admin/request.h"
#include "admin/tokens.h"
#include "fake_mhd.h"
#include "tests/unit/suite.h"

static struct admin_services services;
static const char *authorization, *expect;
static bool main_has_stopped;

/* The response. */
static struct {
	unsigned status, count;
	char fields[2048]; /* `Name: value\n` */
} got;

static const char *field(const char *name)
{
	return strcmp(name, "Authorization") == 0 ? authorization
	       : strcmp(name, "Expect") == 0      ? expect
						  : NULL;
}

static bool run_on_main(void (*run)(void *ctx), void *ctx)
{
	if (!main_has_stopped)
		run(ctx);
	return !main_has_stopped;
}

static enum MHD_Result note_field(
	void *ctx, enum MHD_ValueKind kind, const char *name, const char *value)
{
	size_t len = strlen(got.fields);

	(void)ctx;
	(void)kind;
	snprintf(got.fields + len, sizeof(got.fields) - len, "%s: %s\n", name, value);
	return MHD_YES;
}

enum MHD_Result __wrap_MHD_queue_response(
	struct MHD_Connection *connection, unsigned status, struct MHD_Response *response);
enum MHD_Result __wrap_MHD_queue_response(
	struct MHD_Connection *connection, unsigned status, struct MHD_Response *response)
{
	(void)connection;
	got.status = status;
	got.count++;
	got.fields[0] = '\0';
	MHD_get_response_headers(response, note_field, NULL);
	return MHD_YES;
}

static int begin(void **state)
{
	(void)state;
	memset(&got, 0, sizeof(got));
	authorization = expect = NULL;
	main_has_stopped = false;
	fake_asker_run = run_on_main;
	fake_mhd_field = field;
	return 0;
}

/* A call with `content` in pieces of `piece` bytes. Its status; 0: none, the connection ends. */
static unsigned ask_in(
	const char *method, const char *path, const char *content, size_t bytes, size_t piece)
{
	enum MHD_Result result;
	void *call = NULL;
	size_t none = 0;

	got.count = 0;
	result = admin_on_request(&services, NULL, path, method, "HTTP/1.1", NULL, &none, &call);
	while (bytes > 0 && result == MHD_YES && got.count == 0) {
		size_t size = bytes < piece ? bytes : piece, left = size;
		result = admin_on_request(
			&services, NULL, path, method, "HTTP/1.1", content, &left, &call);
		assert_int_equal(left, 0);
		content += size;
		bytes -= size;
	}
	if (result == MHD_YES && got.count == 0)
		result = admin_on_request(
			&services, NULL, path, method, "HTTP/1.1", NULL, &none, &call);
	admin_on_completed(NULL, NULL, &call, MHD_REQUEST_TERMINATED_WITH_ERROR);
	assert_null(call);
	return result == MHD_YES ? got.status : 0;
}

static unsigned ask(const char *method, const char *path, const char *content)
{
	return ask_in(method, path, content, strlen(content), 7);
}

static void assert_field(const char *line)
{
	if (!strstr(got.fields, line))
		fail_msg("no \"%s\" in:\n%s", line, got.fields);
	assert_int_equal(got.count, 1);
}

static void each_response_has_its_fields(void **state)
{
	static const char *const paths[] = {"/nowhere", "/api/v1/keys/", "/", "/metrics"};

	(void)state;
	main_has_stopped = true; /* no handler runs */
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		assert_true(ask("GET", paths[i], "") >= 200);
		assert_field("Cache-Control: no-store\n");
		assert_field("X-Content-Type-Options: nosniff\n");
		assert_field("Content-Security-Policy: default-src 'none'; ");
		assert_field("Referrer-Policy: no-referrer\n");
		assert_field("Content-Type: ");
	}
}

static void paths_and_methods(void **state)
{
	(void)state;
	assert_int_equal(ask("GET", "/nowhere", ""), 404);
	assert_field("Content-Type: application/problem+json\n");
	assert_null(strstr(got.fields, "Allow"));
	assert_int_equal(ask("PATCH", "/api/v1/keys/ann", ""), 405);
	assert_field("Allow: GET, PUT, DELETE\n");
	assert_int_equal(ask("GET", "/api/v1/reload", ""), 405);
	assert_field("Allow: POST\n");
}

static void one_without_a_token_is_not_read(void **state)
{
	char path[] = "/tmp/sluice-unit-XXXXXX", why[256];
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0 && write(fd, "secret\n", 7) == 7);
	close(fd);
	services.tokens = admin_tokens_load(path, why, sizeof(why));
	unlink(path);
	assert_non_null(services.tokens);
	assert_int_equal(ask("POST", "/api/v1/reload", "content"), 401);
	assert_field("WWW-Authenticate: Bearer realm=\"sluice\"\n");
	main_has_stopped = true;
	authorization = "Bearer secret";
	assert_int_equal(ask("POST", "/api/v1/reload", "content"), 503);
	authorization = NULL;
	assert_int_equal(ask("DELETE", "/api/v1/keys/ann", ""), 401);
	admin_tokens_free(services.tokens);
	services.tokens = NULL;
}

static void content_has_a_bound(void **state)
{
	size_t most = ADMIN_BODY_MAX;
	char *content = calloc(1, 3 * most);

	(void)state;
	main_has_stopped = true;
	memset(content, ' ', 3 * most);
	assert_int_equal(ask_in("PUT", "/api/v1/keys/ann", content, most, 65536), 503);
	assert_int_equal(ask_in("PUT", "/api/v1/keys/ann", content, most + 1, 65536), 413);
	assert_int_equal(ask_in("PUT", "/api/v1/keys/ann", content, 2 * most, 65536), 413);
	/* Nobody reads more than that. */
	assert_int_equal(ask_in("PUT", "/api/v1/keys/ann", content, 2 * most + 1, 65536), 0);
	assert_int_equal(ask_in("GET", "/nowhere", content, 2 * most + 1, 65536), 0);
	free(content);
}

/* Content that waits to be asked for does not come: the response is sent at once. */
static void one_that_waits_with_its_content_is_answered(void **state)
{
	enum MHD_Result result;
	void *call = NULL;
	size_t none = 0;

	(void)state;
	expect = "100-continue";
	result = admin_on_request(
		&services, NULL, "/nowhere", "POST", "HTTP/1.1", NULL, &none, &call);
	assert_int_equal(result, MHD_YES);
	assert_int_equal(got.count, 1);
	assert_int_equal(got.status, 404);
	admin_on_completed(NULL, NULL, &call, MHD_REQUEST_TERMINATED_WITH_ERROR);
	got.count = 0;
	result = admin_on_request(
		&services, NULL, "/api/v1/keys/ann", "PUT", "HTTP/1.1", NULL, &none, &call);
	assert_int_equal(result, MHD_YES);
	assert_int_equal(got.count, 0);
	admin_on_completed(NULL, NULL, &call, MHD_REQUEST_TERMINATED_CLIENT_ABORT);
}

static void escapes(void **state)
{
	static const struct {
		const char *text, *decoded;
	} some[] = {{"a%2Fb", "a/b"}, {"%41%62", "Ab"}, {"%00x", "%00x"}, {"%0", "%0"}, {"%", "%"},
		{"%zz%4", "%zz%4"}, {"%2541", "%41"}, {"%c3%A9", "\xc3\xa9"}, {"", ""},
		{"%01", "\x01"}, {"%10", "\x10"}};
	char text[16];

	(void)state;
	for (size_t i = 0; i < sizeof(some) / sizeof(some[0]); i++) {
		strcpy(text, some[i].text);
		assert_int_equal(admin_unescape(NULL, NULL, text), strlen(some[i].decoded));
		assert_string_equal(text, some[i].decoded);
	}
}

UNIT_SUITE(test_serve)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(each_response_has_its_fields, begin),
		cmocka_unit_test_setup(paths_and_methods, begin),
		cmocka_unit_test_setup(one_without_a_token_is_not_read, begin),
		cmocka_unit_test_setup(content_has_a_bound, begin),
		cmocka_unit_test_setup(one_that_waits_with_its_content_is_answered, begin),
		cmocka_unit_test_setup(escapes, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
