/* Who may call what, with and without tokens. The request's fields and the main thread are fakes.
 */
#include "admin/authorize.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "admin/ask.h"
#include "admin/serve.h"
#include "admin/tokens.h"
#include "base/clock.h"
#include "base/hs256.h"
#include "daemon/daemon.h"
#include "fake_mhd.h"
#include "site/site.h"
#include "tests/unit/suite.h"

/* The fields of the request that is judged, and the main thread. */
static struct {
	const char *host, *origin, *authorization;
	bool main_has_stopped;
	unsigned asked; /* the main thread */
} fake;

static const char *field(const char *name)
{
	if (strcmp(name, "Host") == 0)
		return fake.host;
	if (strcmp(name, "Origin") == 0)
		return fake.origin;
	return strcmp(name, "Authorization") == 0 ? fake.authorization : NULL;
}

static bool ask_main(void (*run)(void *ctx), void *ctx)
{
	fake.asked++;
	if (!fake.main_has_stopped)
		run(ctx);
	return !fake.main_has_stopped;
}

/* 0: it may; else the status of the answer. */
static unsigned judged(const struct admin_services *services, enum admin_role needed)
{
	struct admin_request request = {.method = "GET", .path = "/", .status = 200};
	bool may = admin_authorize(services, &request, needed);

	assert_int_equal(may, request.text == NULL);
	free(request.text);
	return may ? 0 : request.status;
}

/* ---- without tokens -------------------------------------------------------------------------- */

static void without_tokens_pages_of_others_are_refused(void **state)
{
	const struct admin_services services = {0};

	(void)state;
	memset(&fake, 0, sizeof(fake));
	fake.host = "127.0.0.1:8081";
	assert_int_equal(judged(&services, ADMIN_WRITE), 0);
	fake.origin = "https://elsewhere.example";
	assert_int_equal(judged(&services, ADMIN_READ), 403);
	assert_int_equal(judged(&services, ADMIN_PUBLISH), 403);
	assert_int_equal(judged(&services, ADMIN_ANYONE), 0);
	fake_mhd_over_unix = true; /* no browser connects there */
	assert_int_equal(judged(&services, ADMIN_WRITE), 0);
	assert_int_equal(fake.asked, 0);
}

/* ---- with tokens ----------------------------------------------------------------------------- */

static struct admin_tokens *tokens_of(const char *lines)
{
	char path[] = "/tmp/sluice-test-authorize-XXXXXX", why[256];
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, lines, strlen(lines)), strlen(lines));
	close(fd);
	struct admin_tokens *tokens = admin_tokens_load(path, why, sizeof(why));
	unlink(path);
	if (!tokens)
		fail_msg("%s", why);
	return tokens;
}

static void a_token_has_a_role(void **state)
{
	struct conf conf = {0};
	struct site site = {.conf = &conf};
	struct daemon daemon = {.site = &site};
	const struct admin_services services = {
		.daemon = &daemon, .tokens = tokens_of("r read reads\nw write writes\n")};
	static const struct {
		const char *authorization;
		unsigned anyone, read, publish, write;
	} cases[] = {
		{NULL, 0, 401, 401, 401},
		{"Bearer wrong", 0, 401, 401, 401},
		{"Bearer reads", 0, 0, 403, 403},
		{"Bearer writes", 0, 0, 0, 0},
	};

	(void)state;
	memset(&fake, 0, sizeof(fake));
	fake.origin = "https://elsewhere.example"; /* a page has no token by itself */
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		fake.authorization = cases[i].authorization;
		assert_int_equal(judged(&services, ADMIN_ANYONE), cases[i].anyone);
		assert_int_equal(judged(&services, ADMIN_READ), cases[i].read);
		assert_int_equal(judged(&services, ADMIN_PUBLISH), cases[i].publish);
		assert_int_equal(judged(&services, ADMIN_WRITE), cases[i].write);
	}
	admin_tokens_free(services.tokens);
}

/* By the key that the main thread has in effect. */
static void a_publisher_signs(void **state)
{
	struct conf conf = {0};
	struct site site = {.conf = &conf};
	struct daemon daemon = {.site = &site};
	const struct admin_services services = {
		.daemon = &daemon, .tokens = tokens_of("w write writes\n")};
	char field[512] = "Bearer ", claims[64];

	(void)state;
	memset(&fake, 0, sizeof(fake));
	snprintf(claims, sizeof(claims), "{\"exp\":%llu}",
		(unsigned long long)(clock_wall_ns() / CLOCK_NS_PER_S + 3600));
	field[7 + hs256_sign(SLICE("key"), slice_of(claims), field + 7)] = '\0';
	fake.authorization = field;
	assert_int_equal(judged(&services, ADMIN_PUBLISH), 401); /* no grip_key */
	conf.grip.key = (struct conf_secret){"key", 3};
	assert_int_equal(judged(&services, ADMIN_PUBLISH), 0);
	assert_int_equal(fake.asked, 2);
	assert_int_equal(judged(&services, ADMIN_READ), 401);
	assert_int_equal(judged(&services, ADMIN_WRITE), 401);
	assert_int_equal(fake.asked, 2); /* only where a signature is enough */
	fake.main_has_stopped = true;
	assert_int_equal(judged(&services, ADMIN_PUBLISH), 401);
	admin_tokens_free(services.tokens);
}

UNIT_SUITE(test_authorize)
{
	fake_mhd_field = field;
	fake_asker_run = ask_main;
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_tokens_pages_of_others_are_refused),
		cmocka_unit_test(a_token_has_a_role),
		cmocka_unit_test(a_publisher_signs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
