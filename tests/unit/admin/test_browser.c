/* Requests that a page of another site may have made a browser send. */
#include "admin/authorize.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "tests/unit/suite.h"

static void pages_from_elsewhere_are_known(void **state)
{
	static const struct {
		const char *host, *origin, *fetch_site;
		bool is_from_elsewhere;
	} cases[] = {
		{NULL, NULL, NULL, false},
		{"", NULL, NULL, false},
		/* programs, and addresses in a browser */
		{"127.0.0.1:8081", NULL, NULL, false},
		{"10.0.0.1", NULL, "none", false},
		{"[::1]:8081", NULL, NULL, false},
		{"localhost:8081", NULL, NULL, false},
		{"admin.localhost", NULL, NULL, false},
		/* its own page */
		{"127.0.0.1:8081", "http://127.0.0.1:8081", "same-origin", false},
		{"LOCALHOST", "http://localhost", NULL, false},
		/* a name that any site may resolve to this address */
		{"rebound.example:8081", NULL, NULL, true},
		{"rebound.example", "http://rebound.example", "same-origin", true},
		{"notlocalhost", NULL, NULL, true},
		{"localhost.example", NULL, NULL, true},
		{"a b", NULL, NULL, true},
		/* pages of others */
		{"127.0.0.1:8081", "https://elsewhere.example", NULL, true},
		{"127.0.0.1:8081", "http://127.0.0.1:8082", NULL, true},
		{"127.0.0.1:8081", "null", NULL, true},
		{NULL, "http://127.0.0.1:8081", NULL, true},
		{"127.0.0.1:8081", NULL, "cross-site", true},
		{"127.0.0.1:8081", NULL, "same-site", true},
		{"127.0.0.1:8081", NULL, "", true},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (admin_is_from_elsewhere(cases[i].host, cases[i].origin, cases[i].fetch_site,
			    false) != cases[i].is_from_elsewhere)
			fail_msg("case %zu", i);
	}
}

UNIT_SUITE(test_browser)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pages_from_elsewhere_are_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
