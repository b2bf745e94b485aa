/* One program runs the unit tests of a room. Each test file is a suite, which registers itself:
 *
 *	UNIT_SUITE(test_log)
 *	{
 *		const struct CMUnitTest tests[] = {...};
 *
 *		return cmocka_run_group_tests(tests, NULL, NULL);
 *	}
 *
 * suite.c runs the body in a process of its own. */
#ifndef TESTS_UNIT_SUITE_H
#define TESTS_UNIT_SUITE_H

#include <stdbool.h>

struct unit_suite {
	const char *name; /* that of its file */
	int (*run)(void); /* returns 0 when all tests passed */
	struct unit_suite *next;
};

/* Adds a suite, which must live as long as the program. */
void unit_register(struct unit_suite *suite);

/* True in the process of that suite. A function that takes another one's place by --wrap, for one
 * suite, calls the real one in all others. */
bool unit_runs(const char *suite);

#define UNIT_SUITE(file)                                                                           \
	static int run_suite(void);                                                                \
	__attribute__((constructor)) static void register_suite(void)                              \
	{                                                                                          \
		static struct unit_suite suite = {#file, run_suite, 0};                            \
		unit_register(&suite);                                                             \
	}                                                                                          \
	static int run_suite(void)

#endif
