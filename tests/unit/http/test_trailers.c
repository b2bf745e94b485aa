#include "http/trailers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "conf/conf.h"
#include "tests/unit/suite.h"

static const char *const added_names[] = {"X-Sum", "X-Removed", "Sluice-Fence", "Sluice-Hop"};
static const char *const removed_names[] = {"x-removed", "X-Gone"};
static const struct conf_text_list added = {(const char **)(uintptr_t)added_names, 4};
static const struct conf_text_list removed = {(const char **)(uintptr_t)removed_names, 2};
static struct conf_field set_field = {"X-Set", 5, "ours", 4};
static const struct conf_fields set = {&set_field, 1};

static struct slice passed(const char *trailers, const struct http_trailer_rules *rules)
{
	static char bytes[4096];
	struct http_out out = http_out_over(bytes, sizeof(bytes));

	http_trailers_put(&out, slice_of(trailers), rules);
	assert_false(out.overflow);
	return (struct slice){bytes, (size_t)(out.at - bytes)};
}

#define PASSED(trailers, rules, expected)                                                          \
	assert_true(slice_equal(passed(trailers, rules), SLICE(expected)))

static void of_requests(void **state)
{
	const struct http_trailer_rules rules = {&added, &removed, &set};

	(void)state;
	PASSED("", &rules, "");
	PASSED("Content-Digest: a\r\nx-sum: 1\r\n", &rules, "Content-Digest: a\r\nx-sum: 1\r\n");
	PASSED("X-Forwarded-For: 6.6.6.6\r\nX-Sum: 1\r\nVia: x\r\n", &rules, "X-Sum: 1\r\n");
	PASSED("X-Removed: 1\r\nX-Gone: 1\r\nX-Set: theirs\r\nX-Any: 1\r\n", &rules, "");
	PASSED("X-Sum : 1\r\nX_Sum: 1\r\nno colon\r\n", &rules, "");
}

/* Whatever is configured: what nodes of a fleet say is not a client's affair. */
static void of_a_fleet(void **state)
{
	const struct http_trailer_rules requests = {&added, &removed, &set}, responses = {0};

	(void)state;
	PASSED("sluice-fence: 1\r\nX-Sum: 1\r\nSLUICE-HOP: 1\r\n", &requests, "X-Sum: 1\r\n");
	PASSED("Sluice-Fence: 1\r\nX-Sum: 1\r\nSluice-Hop: 1\r\n", &responses, "X-Sum: 1\r\n");
}

static void of_responses(void **state)
{
	const struct http_trailer_rules rules = {NULL, &removed, &set};

	(void)state;
	PASSED("grpc-status: 0\r\nX-Any: 1\r\n", &rules, "grpc-status: 0\r\nX-Any: 1\r\n");
	PASSED("Content-Length: 3\r\nSet-Cookie: a=b\r\nx-removed: 1\r\nX-SET: 2\r\n", &rules, "");
	PASSED("RateLimit: \"a\";r=9\r\n", &rules, "");
}

UNIT_SUITE(test_trailers)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(of_requests),
		cmocka_unit_test(of_a_fleet),
		cmocka_unit_test(of_responses),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
