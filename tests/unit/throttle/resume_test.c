/*
 * A process that dies in the middle of a change: the limits are in force, callers move to the new
 * table one bucket at a time, whose buckets fill and are split meanwhile. The next process that
 * opens the folder continues with it, and forgets nothing.
 */
#include "fixture.h"
#include "folder.h"

#include <errno.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "throttle/table.h"
#include "tests/unit/suite.h"

#define CALLERS 20000
#define QUOTA   3
#define BEFORE  1800 /* callers whom the old table has: few enough that it has split no bucket */
#define ALL     9000 /* more than the new one's first two levels have room for */
#define HOUR    (3600 * SECOND)

static struct throttle_table *open_growing(const struct throttle_limit *limits, size_t count)
{
	/* Always the same callers in a bucket, none of which is full too early. */
	const struct throttle_seed seed = {1, 2};
	const struct throttle_table_options options = {.folder = folder,
		.callers = CALLERS,
		.now_ns = START,
		.grows = true,
		.seed = &seed};
	struct throttle_table *t = throttle_table_open(&options, limits, count, NULL);

	assert_non_null(t);
	return t;
}

static unsigned take_all(struct throttle_table *t, uint64_t callers, unsigned times)
{
	unsigned admitted = 0;

	for (uint64_t caller = 0; caller < callers; caller++)
		for (unsigned n = 0; n < times; n++)
			admitted += take_one(t, caller, 1, START, NULL);
	return admitted;
}

/* In the process that is to die. */
static void must(bool claim)
{
	if (!claim)
		_exit(1);
}

/* As throttle_table_commit does it, until the first caller is moved. */
static void commit_half(struct throttle_table *t, const struct throttle_limit *limits, size_t count)
{
	struct throttle_change *change = throttle_table_prepare(t, limits, count, 0, START, NULL);

	must(change != NULL && change->next != NULL);
	generation_link(change->next, table_current(t));
	atomic_store(&t->current, change->next);
}

/* Never comes back, and leaves all as it is. */
static void die_in_a_change(const struct throttle_limit *limits)
{
	struct throttle_table *t = open_growing(limits, 1);

	take_all(t, BEFORE, 1);
	must(throttle_table_wants_growth(t) && throttle_table_grow(t) == 0);
	commit_half(t, limits, 2);
	take_all(t, ALL, QUOTA);
	_exit(0);
}

/* The old table had split none, and its opening must not find that it had: the callers of such a
 * bucket would be moved from there as well, as they were before the change. */
static void expect_no_split(void)
{
	char why[128];
	struct generation *g = generation_open(folder, GENERATION_FILE, START, why, sizeof(why));
	const struct section *s;

	assert_non_null(g);
	s = &generation_limit(g, 0)->section;
	for (uint64_t bucket = 0; bucket < s->buckets; bucket++)
		assert_false(word_is_split(section_load_word(s, bucket)));
	generation_free(g);
}

/* Both tables are there when this returns. */
static void let_one_die(const struct throttle_limit *limits)
{
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		die_in_a_change(limits);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void expect_none_forgotten(const struct throttle_limit *limits)
{
	struct throttle_table *t = open_growing(limits, 2);

	assert_int_equal(take_all(t, ALL, QUOTA), 0);
	throttle_table_close(t);
}

static void test_split_while_moved(void **state)
{
	struct throttle_limit limits[] = {ring("l", QUOTA, HOUR), ring("new", 1, HOUR)};

	(void)state;
	let_one_die(limits);
	expect_no_split();
	expect_none_forgotten(limits);
}

static void limit_files(rlim_t count)
{
	struct rlimit limit;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = count < limit.rlim_max ? count : limit.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* The newer table can't be opened for a reason that passes: it is not thrown away. */
static void test_no_descriptor_left(void **state)
{
	struct throttle_limit limits[] = {ring("l", QUOTA, HOUR), ring("new", 1, HOUR)};
	const struct throttle_table_options options = {
		.folder = folder, .callers = CALLERS, .now_ns = START, .grows = true};

	int lowest = dup(0);

	(void)state;
	assert_true(lowest >= 0);
	close(lowest);
	let_one_die(limits);
	for (rlim_t files = 0; files < 3; files++) {
		struct throttle_table *t;
		int error;

		limit_files((rlim_t)lowest + files);
		t = throttle_table_open(&options, limits, 2, NULL);
		error = errno;
		limit_files(RLIM_INFINITY);
		assert_null(t);
		assert_int_equal(error, EMFILE);
	}
	expect_none_forgotten(limits);
}

static void damage_next(void)
{
	char path[64];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", folder, GENERATION_NEXT);
	file = fopen(path, "r+");
	assert_non_null(file);
	assert_true(fputs("not a table", file) >= 0);
	assert_int_equal(fclose(file), 0);
}

/* The newer table is of no use any more: the older one, which was being moved from, continues with
 * what it has, also in the buckets that are split later. */
static void test_newer_is_damaged(void **state)
{
	struct throttle_limit limits[] = {ring("l", QUOTA, HOUR), ring("new", 1, HOUR)};
	struct throttle_table *t;

	(void)state;
	let_one_die(limits);
	damage_next();
	t = open_growing(limits, 1);
	assert_int_equal(take_all(t, BEFORE, QUOTA), BEFORE * (QUOTA - 1));
	for (uint64_t caller = BEFORE; caller < ALL; caller++) {
		for (unsigned n = 0; n < QUOTA; n++)
			assert_true(take_one(t, caller, 1, START, NULL));
		if (throttle_table_wants_growth(t))
			assert_int_equal(throttle_table_grow(t), 0);
		throttle_table_collect(t);
	}
	assert_int_equal(take_all(t, ALL, QUOTA), 0);
	throttle_table_close(t);
}

UNIT_SUITE(resume_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_split_while_moved, make_folder, remove_folder),
		cmocka_unit_test_setup_teardown(
			test_no_descriptor_left, make_folder, remove_folder),
		cmocka_unit_test_setup_teardown(test_newer_is_damaged, make_folder, remove_folder),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
