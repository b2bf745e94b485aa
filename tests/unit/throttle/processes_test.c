/* Several processes, or several handles, of one folder's table. */
#include "fixture.h"
#include "folder.h"

#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/suite.h"

/* What was in flight in any process that is gone is free again at the next opening; what is in one
 * that is there is not. */
static void test_in_flight_of_the_dead(void **state)
{
	struct throttle_limit limit = {.name = "c", .kind = THROTTLE_CONCURRENCY, .quota = 3};
	struct throttle_table *first = open_table(folder, 1, &limit, 1), *second, *third;

	(void)state;
	second = open_table(folder, 1, &limit, 1);
	assert_int_equal(take_until_refused(second, 1, START), 3);
	third = open_table(folder, 1, &limit, 1);
	assert_int_equal(take_until_refused(third, 1, START), 0);
	throttle_table_close(third);
	/* As if it was killed: nothing is given back. */
	throttle_table_close(second);
	throttle_table_close(first);
	first = open_table(folder, 1, &limit, 1);
	assert_int_equal(take_until_refused(first, 1, START), 3);
	throttle_table_close(first);
}

/* Starts a process that opens the table when the pipe is closed, and takes what it gets. */
static pid_t start(const int pipes[2], int answer, const struct throttle_limit *limit)
{
	pid_t pid = fork();
	unsigned char admitted;
	char byte;

	if (pid != 0)
		return pid;
	close(pipes[1]);
	while (read(pipes[0], &byte, 1) > 0)
		;
	admitted = (unsigned char)take_until_refused(open_table(folder, 1, limit, 1), 1, START);
	_exit(write(answer, &admitted, 1) == 1 ? 0 : 1);
}

/* Two that start at once, on an empty folder or with other limits, count as one. */
static void test_at_once(void **state)
{
	for (unsigned round = 0; round < steps_or(60); round++) {
		struct throttle_limit limits[2] = {
			ring("x", 5, 600 * SECOND), ring("x", 5, 600 * SECOND)};
		unsigned char admitted[2];
		int pipes[2], answers[2];
		pid_t pids[2];

		if (round % 2 == 1)
			limits[1].delay_max_ns = SECOND;
		assert_int_equal(pipe(pipes) | pipe(answers), 0);
		for (int i = 0; i < 2; i++)
			pids[i] = start(pipes, answers[1], &limits[i]);
		close(pipes[0]);
		close(pipes[1]);
		for (int i = 0; i < 2; i++) {
			int status;

			assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
			assert_int_equal(status, 0);
		}
		assert_int_equal(read(answers[0], admitted, 2), 2);
		assert_int_equal(admitted[0] + admitted[1], 5);
		close(answers[0]);
		close(answers[1]);
		remove_folder(state);
		make_folder(state);
	}
}

/* A handle whose table another one has moved on changes limits from what that counts now. */
static void test_change_after_another(void **state)
{
	struct throttle_limit limit = ring("x", 5, 600 * SECOND);
	struct throttle_table *first = open_table(folder, 1, &limit, 1), *second;

	(void)state;
	assert_true(take_one(first, 1, 1, START, NULL));
	limit.quota = 6;
	second = open_table(folder, 1, &limit, 1);
	assert_true(take_one(second, 1, 2, START, NULL));
	assert_false(take_one(first, 1, 1, START, NULL));
	limit.quota = 8;
	assert_int_equal(throttle_table_apply(first, &limit, 1, 0, START, NULL), 0);
	throttle_table_collect(first);
	assert_int_equal(take_until_refused(first, 1, START), 5);
	assert_false(take_one(second, 1, 1, START, NULL));
	throttle_table_close(first);
	throttle_table_close(second);
}

UNIT_SUITE(processes_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			test_in_flight_of_the_dead, make_folder, remove_folder),
		cmocka_unit_test_setup_teardown(test_at_once, make_folder, remove_folder),
		cmocka_unit_test_setup_teardown(
			test_change_after_another, make_folder, remove_folder),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
