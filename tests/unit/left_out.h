/* Tests that can't run everywhere. cmocka prints `not ok` where a test calls skip(), which to a
 * reader of TAP is a failure; a test that passes with a directive in its name is skipped. */
#ifndef TESTS_UNIT_LEFT_OUT_H
#define TESTS_UNIT_LEFT_OUT_H

static inline void left_out(void **state)
{
	(void)state;
}

/* An element of main's array: the test where it can run, else its name and why it is left out. */
#define UNIT_TEST_IF(can_run, test, why)                                                           \
	((can_run) ? (struct CMUnitTest)cmocka_unit_test(test)                                     \
		   : (struct CMUnitTest){#test " # SKIP " why, left_out, NULL, NULL, NULL})

/* The sanitizers' own memory is more than any limit of it. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define UNIT_IS_SANITIZED 1
#else
#define UNIT_IS_SANITIZED 0
#endif

#endif
