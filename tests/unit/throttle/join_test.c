/* An upgrade: a process joins the table that another has open, by its folder or by a descriptor. */
#include "fixture.h"
#include "folder.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/suite.h"

static struct throttle_table *join(
	const char *in, int shared, uint64_t callers, const struct throttle_limit *limit)
{
	struct throttle_table_options options = {
		.folder = in, .callers = callers, .now_ns = START, .joins = true, .shared = shared};
	struct throttle_report report;

	return throttle_table_open(&options, limit, limit != NULL, &report);
}

/* What was counted before counts after, on both sides; and what either takes, the other sees. */
static void test_of_memory(void **state)
{
	struct throttle_limit limit = ring("x", 9, 600 * SECOND);
	struct throttle_table *first = open_table(NULL, 1, &limit, 1), *second, *third;
	int shared;

	(void)state;
	for (int i = 0; i < 3; i++)
		assert_true(take_one(first, 1, 1, START, NULL));
	shared = throttle_table_share(first, START);
	assert_true(shared >= 0);
	throttle_table_collect(first);
	assert_int_equal(throttle_table_share(first, START), shared);
	assert_true(take_one(first, 1, 1, START, NULL));
	second = join(NULL, shared, 1, &limit);
	assert_non_null(second);
	assert_true(take_one(second, 1, 2, START, NULL));
	assert_true(take_one(first, 1, 1, START, NULL));
	/* The one that joined hands it on. */
	third = join(NULL, throttle_table_share(second, START), 1, &limit);
	assert_non_null(third);
	throttle_table_close(first);
	assert_int_equal(take_until_refused(third, 1, START), 2);
	assert_int_equal(take_until_refused(second, 1, START), 0);
	throttle_table_close(second);
	/* Alone, it may change limits again. */
	limit.quota = 11;
	assert_int_equal(throttle_table_apply(third, &limit, 1, 0, START, NULL), 0);
	throttle_table_collect(third);
	assert_int_equal(take_until_refused(third, 1, START), 2);
	throttle_table_close(third);
}

/* In another process, by an inherited descriptor; what it had in flight ends with it. */
static void test_of_memory_by_a_child(void **state)
{
	struct throttle_limit limit = {.name = "c", .kind = THROTTLE_CONCURRENCY, .quota = 5};
	struct throttle_table *first = open_table(NULL, 1, &limit, 1), *second;
	int shared, status;
	pid_t pid;

	(void)state;
	assert_true(take_one(first, 1, 2, START, NULL));
	shared = throttle_table_share(first, START);
	throttle_table_collect(first);
	pid = fork();
	if (pid == 0) {
		second = join(NULL, shared, 1, &limit);
		_exit(second != NULL ? (int)take_until_refused(second, 1, START) : 99);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(WEXITSTATUS(status), 3);
	assert_int_equal(take_until_refused(first, 1, START), 0);
	second = join(NULL, shared, 1, &limit);
	assert_non_null(second);
	assert_int_equal(take_until_refused(second, 1, START), 3);
	throttle_table_close(second);
	throttle_table_close(first);
}

static void test_of_a_folder(void **state)
{
	struct throttle_limit limit = ring("x", 5, 600 * SECOND);
	struct throttle_table *first = open_table(folder, 1, &limit, 1), *second;

	(void)state;
	assert_int_equal(throttle_table_share(first, START), -1);
	assert_int_equal(errno, EINVAL);
	assert_string_equal(throttle_table_folder(first), folder);
	assert_true(take_one(first, 1, 2, START, NULL));
	second = join(folder, -1, 1, &limit);
	assert_non_null(second);
	assert_int_equal(take_until_refused(second, 1, START), 3);
	assert_int_equal(take_until_refused(first, 1, START), 0);
	throttle_table_close(second);
	throttle_table_close(first);
}

/* A configuration without limits has a table, too, which is opened again as any other. */
static void test_without_limits(void **state)
{
	struct throttle_limit limit = ring("x", 5, 600 * SECOND);
	struct throttle_table *first = open_table(NULL, 100000, NULL, 0), *second;
	char path[128];

	(void)state;
	second = join(NULL, throttle_table_share(first, START), 100000, NULL);
	assert_non_null(second);
	throttle_table_close(second);
	throttle_table_close(first);
	first = open_table(folder, 100000, NULL, 0);
	second = join(folder, -1, 100000, NULL);
	assert_non_null(second);
	throttle_table_close(second);
	throttle_table_close(first);
	/* and by a configuration that has some by then */
	first = open_table(folder, 100000, &limit, 1);
	assert_int_equal(take_until_refused(first, 1, START), 5);
	throttle_table_close(first);
	snprintf(path, sizeof(path), "%s/throttle.table.set-aside", folder);
	assert_int_not_equal(access(path, F_OK), 0);
}

/* Other limits, or another capacity, would take the table away from the process that uses it. */
static void test_of_another_configuration(void **state)
{
	struct throttle_limit limit = ring("x", 5, 600 * SECOND),
			      other = ring("x", 6, 600 * SECOND);
	const char *const in[] = {NULL, folder};

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct throttle_table *first = open_table(in[i], 1, &limit, 1);
		int shared = in[i] ? -1 : throttle_table_share(first, START);

		assert_null(join(in[i], shared, 1, &other));
		assert_int_equal(errno, EBUSY);
		assert_null(join(in[i], shared, 5000, &limit));
		assert_int_equal(errno, EBUSY);
		assert_int_equal(take_until_refused(first, 1, START), 5);
		throttle_table_close(first);
	}
}

/* Nothing to join is an error, and nothing is made or set aside. */
static void test_of_nothing(void **state)
{
	struct throttle_limit limit = ring("x", 5, 600 * SECOND);
	char path[128];
	struct stat about;
	FILE *file;

	(void)state;
	assert_null(join(NULL, -1, 1, &limit));
	assert_int_equal(errno, EINVAL);
	assert_null(join(NULL, 999, 1, &limit));
	assert_int_equal(errno, ENOENT);
	assert_null(join(folder, -1, 1, &limit));
	assert_int_equal(errno, ENOENT);
	snprintf(path, sizeof(path), "%s/throttle.table", folder);
	assert_int_equal(stat(path, &about), -1);
	file = fopen(path, "w");
	assert_non_null(file);
	fprintf(file, "%8000s", "no table");
	fclose(file);
	assert_null(join(folder, -1, 1, &limit));
	assert_int_equal(errno, EBADMSG);
	assert_int_equal(stat(path, &about), 0);
	assert_int_equal(about.st_size, 8000);
}

/* ---- while others take ---- */

enum { THREADS = 3, CALLERS = 500, QUOTA = 40 };

struct taker {
	struct throttle_table *table;
	atomic_bool stop;
	atomic_uint admitted[CALLERS];
};

static void *take_all(void *arg)
{
	struct taker *taker = arg;

	for (unsigned i = 0; !atomic_load(&taker->stop); i++)
		if (take_one(taker->table, i % CALLERS, 1, START, NULL))
			atomic_fetch_add(&taker->admitted[i % CALLERS], 1);
	return NULL;
}

/* Threads that take while the table moves and another handle takes too: never more than the quota,
 * and all of it. */
static void test_under_load(void **state)
{
	struct throttle_limit limit = ring("x", QUOTA, 600 * SECOND);

	(void)state;
	for (unsigned round = 0; round < steps_or(10); round++) {
		static struct taker here, there;
		pthread_t threads[2 * THREADS];

		memset(&here, 0, sizeof(here));
		memset(&there, 0, sizeof(there));
		here.table = open_table(NULL, CALLERS, &limit, 1);
		for (unsigned i = 0; i < THREADS; i++)
			assert_int_equal(pthread_create(&threads[i], NULL, take_all, &here), 0);
		there.table = join(NULL, throttle_table_share(here.table, START), CALLERS, &limit);
		assert_non_null(there.table);
		for (unsigned i = THREADS; i < 2 * THREADS; i++)
			assert_int_equal(pthread_create(&threads[i], NULL, take_all, &there), 0);
		for (unsigned caller = 0; caller < CALLERS; caller++)
			while (atomic_load(&here.admitted[caller]) +
					atomic_load(&there.admitted[caller]) <
				QUOTA)
				sched_yield();
		atomic_store(&here.stop, true);
		atomic_store(&there.stop, true);
		for (unsigned i = 0; i < 2 * THREADS; i++)
			pthread_join(threads[i], NULL);
		for (unsigned caller = 0; caller < CALLERS; caller++)
			assert_int_equal(here.admitted[caller] + there.admitted[caller], QUOTA);
		throttle_table_close(there.table);
		throttle_table_close(here.table);
	}
}

UNIT_SUITE(join_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_of_memory),
		cmocka_unit_test(test_of_memory_by_a_child),
		cmocka_unit_test_setup_teardown(test_of_a_folder, make_folder, remove_folder),
		cmocka_unit_test_setup_teardown(
			test_of_another_configuration, make_folder, remove_folder),
		cmocka_unit_test_setup_teardown(test_without_limits, make_folder, remove_folder),
		cmocka_unit_test_setup_teardown(test_of_nothing, make_folder, remove_folder),
		cmocka_unit_test(test_under_load),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
