/* The pid file: written, put aside during an upgrade and taken back; a file of another process is
 * left alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "conf/conf.h"
#include "daemon/pid_file.h"
#include "daemon/daemon.h"
#include "tests/unit/suite.h"

struct world {
	char folder[64], path[80], aside[96];
	struct conf conf;
	struct daemon *daemon;
};

static int begin(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	snprintf(w->folder, sizeof(w->folder), "/tmp/sluice-pid-XXXXXX");
	if (!mkdtemp(w->folder))
		return -1;
	snprintf(w->path, sizeof(w->path), "%s/pid", w->folder);
	snprintf(w->aside, sizeof(w->aside), "%s.oldbin", w->path);
	w->conf.pid_file = w->path;
	w->daemon = calloc(1, sizeof(*w->daemon));
	w->daemon->begun_with = &w->conf;
	*state = w;
	return 0;
}

static int end(void **state)
{
	struct world *w = *state;

	unlink(w->path);
	unlink(w->aside);
	rmdir(w->folder);
	free(w->daemon);
	free(w);
	return 0;
}

static void put(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

/* What is in it; "none" without a file. */
static const char *text_of(const char *path)
{
	static char text[64];
	FILE *file = fopen(path, "r");

	if (!file)
		return "none";
	text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
	fclose(file);
	return text;
}

static const char *own(void)
{
	static char text[32];

	snprintf(text, sizeof(text), "%ld\n", (long)getpid());
	return text;
}

static void it_has_this_process_number(void **state)
{
	struct world *w = *state;

	put(w->path, "123456789 and more, of a process that was killed\n");
	assert_true(pid_file_write(&w->conf));
	assert_string_equal(text_of(w->path), own());
	pid_file_remove(w->daemon);
	assert_string_equal(text_of(w->path), "none");
}

static void without_a_path_there_is_no_file(void **state)
{
	struct world *w = *state;

	w->conf.pid_file = NULL;
	assert_true(pid_file_write(&w->conf));
	pid_file_put_aside(w->daemon);
	pid_file_take_back(w->daemon);
	pid_file_remove(w->daemon);
	w->daemon->begun_with = NULL;
	pid_file_put_aside(w->daemon);
	pid_file_take_back(w->daemon);
	pid_file_remove(w->daemon);
	assert_int_equal(rmdir(w->folder), 0);
	assert_int_equal(mkdir(w->folder, 0700), 0);
}

static void an_upgrade_that_fails_changes_nothing(void **state)
{
	struct world *w = *state;

	pid_file_write(&w->conf);
	pid_file_put_aside(w->daemon);
	assert_string_equal(text_of(w->path), "none");
	assert_string_equal(text_of(w->aside), own());
	put(w->path, "77\n"); /* by the new process, which fails later */
	pid_file_take_back(w->daemon);
	assert_string_equal(text_of(w->path), own());
	assert_string_equal(text_of(w->aside), "none");
}

static void one_that_was_not_put_aside_is_written_again(void **state)
{
	struct world *w = *state;

	put(w->path, "77\n");
	pid_file_take_back(w->daemon);
	assert_string_equal(text_of(w->path), own());
}

static void after_an_upgrade_the_new_one_stays(void **state)
{
	struct world *w = *state;

	pid_file_write(&w->conf);
	pid_file_put_aside(w->daemon);
	put(w->path, "77\n");
	pid_file_remove(w->daemon);
	assert_string_equal(text_of(w->path), "77\n");
	assert_string_equal(text_of(w->aside), "none");
}

static void the_file_of_another_process_is_left_alone(void **state)
{
	struct world *w = *state;

	static const char *const texts[] = {"77\n", "", "x\n"};
	for (size_t i = 0; i < 3; i++) {
		put(w->path, texts[i]);
		put(w->aside, texts[i]);
		pid_file_remove(w->daemon);
		assert_string_equal(text_of(w->path), texts[i]);
		assert_string_equal(text_of(w->aside), texts[i]);
	}
}

UNIT_SUITE(test_pid_file)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(it_has_this_process_number, begin, end),
		cmocka_unit_test_setup_teardown(without_a_path_there_is_no_file, begin, end),
		cmocka_unit_test_setup_teardown(an_upgrade_that_fails_changes_nothing, begin, end),
		cmocka_unit_test_setup_teardown(
			one_that_was_not_put_aside_is_written_again, begin, end),
		cmocka_unit_test_setup_teardown(after_an_upgrade_the_new_one_stays, begin, end),
		cmocka_unit_test_setup_teardown(
			the_file_of_another_process_is_left_alone, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
