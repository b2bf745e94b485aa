/* Several processes, or several handles, of one folder's table. */
#include "fixture.h"
#include "folder.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
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

/* The caller has `cost` in flight until the receipt is released. */
static bool hold(struct throttle_table *table, uint64_t caller, uint64_t cost,
	struct throttle_receipt *receipt)
{
	struct throttle_charge charge = {.caller = key_of(table, caller), .cost = cost};
	struct throttle_verdict verdict;

	throttle_take(table, &charge, 1, START, &verdict, receipt);
	return verdict.admitted;
}

/* The same without an opening, by the process that goes on: of itself nothing is given back, and of
 * one that is there nothing. */
static void test_end_of_others(void **state)
{
	struct throttle_limit limit = {.name = "c", .kind = THROTTLE_CONCURRENCY, .quota = 5};
	struct throttle_table *first = open_table(folder, 1, &limit, 1), *second;
	struct throttle_receipt receipt;

	(void)state;
	second = open_table(folder, 1, &limit, 1);
	assert_true(hold(first, 1, 2, &receipt));
	assert_int_equal(take_until_refused(second, 1, START), 3);
	assert_int_equal(throttle_table_end_others(first), -1);
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(take_until_refused(first, 1, START), 0);
	/* As if it was killed: nothing is given back. */
	throttle_table_close(second);
	assert_int_equal(take_until_refused(first, 1, START), 0);
	assert_int_equal(throttle_table_end_others(first), 0);
	assert_int_equal(take_until_refused(first, 1, START), 3);
	throttle_release(first, &receipt, START);
	assert_int_equal(take_until_refused(first, 1, START), 2);
	/* The lanes can be had again. */
	second = open_table(folder, 1, &limit, 1);
	assert_int_equal(throttle_table_end_others(second), -1);
	throttle_table_close(first);
	assert_int_equal(throttle_table_end_others(second), 0);
	assert_int_equal(take_until_refused(second, 1, START), 5);
	throttle_table_close(second);
}

/* A change that is prepared has the folder: it comes first. */
static void test_end_of_others_in_a_change(void **state)
{
	struct throttle_limit limit = {.name = "c", .kind = THROTTLE_CONCURRENCY, .quota = 5};
	struct throttle_table *table = open_table(folder, 1, &limit, 1);
	struct throttle_change *change;

	(void)state;
	limit.quota = 6;
	change = throttle_table_prepare(table, &limit, 1, 0, START, NULL);
	assert_non_null(change);
	assert_int_equal(throttle_table_end_others(table), -1);
	assert_int_equal(errno, EAGAIN);
	throttle_table_discard(change);
	assert_int_equal(throttle_table_end_others(table), 0);
	throttle_table_close(table);
}

enum { CALLERS = 2000, PASSERS = 1000000 };

struct passer {
	struct throttle_table *table;
	atomic_bool stop;
	atomic_uint passed;
	uint64_t seed;
	unsigned over;
};

/* Callers that come and go: entries are given to others all the time. */
static void *pass(void *arg)
{
	struct passer *passer = arg;

	while (!atomic_load(&passer->stop)) {
		uint64_t caller = CALLERS + random_below(&passer->seed, PASSERS);
		struct throttle_receipt receipt;

		if (hold(passer->table, caller, 1, &receipt)) {
			passer->over += take_one(passer->table, caller, 3, START, NULL);
			throttle_release(passer->table, &receipt, START);
		}
		atomic_fetch_add(&passer->passed, 1);
	}
	return NULL;
}

/* While threads take and give back in the same buckets, which grow: all that the other process had
 * is free, all that this one has is counted, and no caller becomes another one. */
static void test_end_of_others_under_load(void **state)
{
	struct throttle_limit limit = {.name = "c", .kind = THROTTLE_CONCURRENCY, .quota = 3};
	/* Always the same callers in the same buckets. */
	static const struct throttle_seed seed = {1, 2};
	struct throttle_table_options options = {
		.folder = folder, .callers = 20000, .now_ns = START, .grows = true, .seed = &seed};
	static struct passer passers[2];
	uint64_t first_seed = random_seed("passers");
	pthread_t threads[2];

	(void)state;
	for (unsigned round = 0; round < steps_or(10); round++) {
		struct throttle_table *first = throttle_table_open(&options, &limit, 1, NULL);
		struct throttle_table *second = throttle_table_open(&options, &limit, 1, NULL);
		bool grows;

		assert_true(first && second);
		for (uint64_t caller = 0; caller < CALLERS; caller++) {
			assert_true(take_one(second, caller, 2, START, NULL));
			if (throttle_table_wants_growth(second))
				assert_int_equal(throttle_table_grow(second), 0);
		}
		memset(passers, 0, sizeof(passers));
		for (unsigned i = 0; i < 2; i++) {
			passers[i].table = first;
			passers[i].seed = first_seed + 2 * round + i;
			assert_int_equal(pthread_create(&threads[i], NULL, pass, &passers[i]), 0);
		}
		for (unsigned i = 0; i < 2; i++)
			while (atomic_load(&passers[i].passed) < 10 * CALLERS)
				sched_yield();
		throttle_table_close(second);
		assert_int_equal(throttle_table_end_others(first), 0);
		/* Growth moves what is there, and brings back nothing. */
		do {
			grows = throttle_table_wants_growth(first);
			if (grows)
				assert_int_equal(throttle_table_grow(first), 0);
			for (uint64_t caller = 0; caller < CALLERS; caller++) {
				struct throttle_receipt receipt;

				assert_true(hold(first, caller, 3, &receipt));
				throttle_release(first, &receipt, START);
			}
		} while (grows);
		for (unsigned i = 0; i < 2; i++) {
			atomic_store(&passers[i].stop, true);
			pthread_join(threads[i], NULL);
			assert_int_equal(passers[i].over, 0);
		}
		for (uint64_t caller = 0; caller < CALLERS; caller++)
			assert_int_equal(take_until_refused(first, caller, START), 3);
		throttle_table_close(first);
		remove_folder(state);
		make_folder(state);
	}
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
		cmocka_unit_test_setup_teardown(test_end_of_others, make_folder, remove_folder),
		cmocka_unit_test_setup_teardown(
			test_end_of_others_in_a_change, make_folder, remove_folder),
		cmocka_unit_test_setup_teardown(
			test_end_of_others_under_load, make_folder, remove_folder),
		cmocka_unit_test_setup_teardown(test_at_once, make_folder, remove_folder),
		cmocka_unit_test_setup_teardown(
			test_change_after_another, make_folder, remove_folder),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
