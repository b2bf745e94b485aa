/* Paths and methods of the interface, and the role that each requires. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "admin/request.h"
#include "tests/unit/suite.h"

static void a_path_has_a_tail(void **state)
{
	static const struct {
		const char *method, *path, *found, *tail;
	} cases[] = {
		{"GET", "/", "/", ""}, {"GET", "/api/v1/status", "/api/v1/status", ""},
		{"HEAD", "/api/v1/status", "/api/v1/status", ""},
		{"GET", "/api/v1/limits", "/api/v1/limits", ""},
		{"GET", "/api/v1/limits/a b", "/api/v1/limits/", "a b"},
		{"GET", "/api/v1/keys/a/b", "/api/v1/keys/", "a/b"},
		{"PUT", "/api/v1/upstreams/u/servers/h:1/weight", "/api/v1/upstreams/",
			"u/servers/h:1/weight"},
		{"POST", "/api/v1/publish", "/api/v1/publish", ""},
		{"POST", "/api/v1/publish/", "/api/v1/publish", ""}, /* as GRIP's libraries do */
	};
	const char *tail;
	bool is_known;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct admin_endpoint *found =
			admin_find(cases[i].method, cases[i].path, &tail, &is_known);
		if (!found)
			fail_msg("%s", cases[i].path);
		assert_string_equal(found->path, cases[i].found);
		assert_string_equal(tail, cases[i].tail);
	}
}

static void other_paths_and_methods_find_none(void **state)
{
	static const struct {
		const char *method, *path;
		bool is_known; /* 405, else 404 */
	} cases[] = {
		{"POST", "/api/v1/status", true},
		{"PATCH", "/api/v1/keys/a", true},
		{"get", "/api/v1/status", true},
		{"GET", "/api/v1/status/", false},
		{"GET", "/api/v1/status2", false},
		{"GET", "/api/v1/limits/", false},
		{"GET", "/api/v1/limits/a/b", false},
		{"GET", "/api/v2/status", false},
		{"GET", "/api/v1/", false},
		{"GET", "//", false},
		{"GET", "", false},
	};
	const char *tail;
	bool is_known;

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct admin_endpoint *found =
			admin_find(cases[i].method, cases[i].path, &tail, &is_known);
		if (found)
			fail_msg("%s %s", cases[i].method, cases[i].path);
		assert_int_equal(is_known, cases[i].is_known);
	}
}

/* Only the page and the probes need no token, and a token to read changes nothing. */
static void a_change_requires_a_token_to_write(void **state)
{
	static const char *const open[] = {"/", "/dashboard/", "/healthz", "/readyz"};

	(void)state;
	for (size_t i = 0; i < admin_endpoint_count; i++) {
		const struct admin_endpoint *endpoint = &admin_endpoints[i];
		bool is_open = false;
		for (size_t k = 0; k < sizeof(open) / sizeof(open[0]); k++)
			is_open |= strcmp(endpoint->path, open[k]) == 0;
		enum admin_role wanted = strcmp(endpoint->method, "GET") != 0 ? ADMIN_WRITE
					 : is_open                            ? ADMIN_ANYONE
									      : ADMIN_READ;
		if (strcmp(endpoint->path, "/api/v1/publish") == 0)
			wanted = ADMIN_PUBLISH;
		if (endpoint->role != wanted)
			fail_msg("%s %s", endpoint->method, endpoint->path);
	}
}

UNIT_SUITE(test_endpoints)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_path_has_a_tail),
		cmocka_unit_test(other_paths_and_methods_find_none),
		cmocka_unit_test(a_change_requires_a_token_to_write),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
