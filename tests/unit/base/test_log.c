#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/unit/suite.h"

enum { WRITERS = 4, LINES = 20000 };

struct files {
	char folder[64], error[96], access[96], moved[96];
};

static int make_files(void **state)
{
	struct files *files = calloc(1, sizeof(*files));

	snprintf(files->folder, sizeof(files->folder), "/tmp/sluice-log-XXXXXX");
	if (!mkdtemp(files->folder))
		return -1;
	snprintf(files->error, sizeof(files->error), "%s/error", files->folder);
	snprintf(files->access, sizeof(files->access), "%s/access", files->folder);
	snprintf(files->moved, sizeof(files->moved), "%s/moved", files->folder);
	*state = files;
	return 0;
}

static int remove_files(void **state)
{
	struct files *files = *state;

	unlink(files->error);
	unlink(files->access);
	unlink(files->moved);
	rmdir(files->folder);
	free(files);
	return 0;
}

static struct log_target to_file(const char *path)
{
	return (struct log_target){LOG_SINK_FILE, path};
}

static const struct log_target off = {LOG_SINK_OFF, NULL};

/* The whole file, owned by the caller. */
static char *contents(const char *path)
{
	FILE *file = fopen(path, "r");
	char *text = calloc(1, 1 << 23);

	if (file) {
		text[fread(text, 1, (1 << 23) - 1, file)] = '\0';
		fclose(file);
	}
	return text;
}

static void assert_file_has(const char *path, const char *part)
{
	char *text = contents(path);

	if (!strstr(text, part))
		fail_msg("%s lacks \"%s\":\n%s", path, part, text);
	free(text);
}

static void assert_file_lacks(const char *path, const char *part)
{
	char *text = contents(path);

	assert_null(strstr(text, part));
	free(text);
}

/* Waits until its thread has written `part`; other ways to know there are none. */
static void wait_for(const char *path, const char *part)
{
	for (int i = 0; i < 2000; i++) {
		char *text = contents(path);
		bool there = strstr(text, part) != NULL;
		free(text);
		if (there)
			return;
		usleep(5000);
	}
	fail_msg("%s never had \"%s\"", path, part);
}

static void lines_have_date_level_and_text(void **state)
{
	struct files *files = *state;
	struct log *log =
		log_open(1, 4096, LOG_LEVEL_INFO, to_file(files->error), to_file(files->access));

	assert_non_null(log);
	log_thread_attach(log, 0);
	log_warn("backend %s is gone", "a");
	log_debug("not written");
	log_access("GET /\n", 6);
	log_close(log);

	char *text = contents(files->error);
	assert_int_equal(strspn(text, "0123456789-T:.Z"), 24);
	assert_string_equal(text + 24, " warn  backend a is gone\n");
	free(text);
	text = contents(files->access);
	assert_string_equal(text, "GET /\n");
	free(text);
}

static void control_characters_are_disarmed(void **state)
{
	struct files *files = *state;
	struct log *log = log_open(1, 4096, LOG_LEVEL_INFO, to_file(files->error), off);

	log_thread_attach(log, 0);
	assert_false(log_access_enabled());
	log_error("path %s", "/a\r\nforged\x1b[2J\xc3\xa5");
	log_close(log);
	assert_file_has(files->error, " error path /a??forged?[2J\xc3\xa5\n");
}

static void long_line_is_cut(void **state)
{
	struct files *files = *state;
	struct log *log = log_open(1, 8192, LOG_LEVEL_INFO, to_file(files->error), off);
	char text[5000];

	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	log_thread_attach(log, 0);
	log_error("%s", text);
	log_error("next");
	log_close(log);
	assert_file_has(files->error, "xxx...\n");
	assert_file_has(files->error, " error next\n");
}

static void errno_is_kept(void **state)
{
	struct files *files = *state;
	struct log *log = log_open(1, 4096, LOG_LEVEL_INFO, to_file(files->error), off);

	log_thread_attach(log, 0);
	errno = EXDEV;
	log_error("%m");
	assert_int_equal(errno, EXDEV);
	log_close(log);
	assert_file_has(files->error, strerror(EXDEV));
}

static void reopen_follows_the_name(void **state)
{
	struct files *files = *state;
	struct log *log = log_open(1, 4096, LOG_LEVEL_INFO, to_file(files->error), off);

	log_thread_attach(log, 0);
	log_info("first");
	wait_for(files->error, "first");
	rename(files->error, files->moved);
	log_info("still to the old file");
	log_reopen(log);
	wait_for(files->moved, "still to the old file");
	for (int i = 0; i < 2000 && access(files->error, F_OK) != 0; i++)
		usleep(5000);
	log_info("to the new file");
	log_close(log);
	assert_file_has(files->error, "to the new file");
	assert_file_lacks(files->moved, "to the new file");
}

static void configure_switches_or_changes_nothing(void **state)
{
	struct files *files = *state;
	struct log *log = log_open(1, 4096, LOG_LEVEL_INFO, to_file(files->error), off);

	log_thread_attach(log, 0);
	assert_int_equal(
		log_configure(log, LOG_LEVEL_DEBUG, to_file("/nonexistent/log"), off), ENOENT);
	assert_false(log_enabled(LOG_LEVEL_DEBUG));
	log_info("before");
	wait_for(files->error, "before");
	/* Twice, so that the first may never come into use. */
	assert_int_equal(log_configure(log, LOG_LEVEL_ERROR, to_file(files->moved), off), 0);
	assert_int_equal(
		log_configure(log, LOG_LEVEL_DEBUG, to_file(files->moved), to_file(files->access)),
		0);
	assert_true(log_enabled(LOG_LEVEL_DEBUG));
	assert_true(log_access_enabled());
	log_access("line\n", 5);
	log_debug("after");
	wait_for(files->access, "line\n");
	log_info("last before");
	assert_int_equal(log_configure(log, LOG_LEVEL_DEBUG, off, off), 0);
	log_info("to nobody");
	log_close(log);
	assert_file_has(files->moved, "last before");
	assert_file_lacks(files->moved, "to nobody");
	assert_file_has(files->moved, "after");
	assert_file_lacks(files->error, "after");
}

static void open_failure_leaves_nothing(void **state)
{
	struct files *files = *state;

	assert_null(log_open(
		1, 4096, LOG_LEVEL_INFO, to_file(files->error), to_file("/nonexistent/access")));
	assert_int_equal(errno, ENOENT);
}

static void full_ring_drops_and_counts(void **state)
{
	struct files *files = *state;
	struct log *log;
	char line[256];

	/* A pipe that nobody reads yet stands for a slow disk. */
	assert_int_equal(mkfifo(files->access, 0600), 0);
	int pipe = open(files->access, O_RDWR | O_NONBLOCK);
	assert_true(pipe >= 0);
	log = log_open(1, 4096, LOG_LEVEL_INFO, to_file(files->error), to_file(files->access));
	log_thread_attach(log, 0);
	memset(line, 'a', sizeof(line));
	line[sizeof(line) - 1] = '\n';
	uint64_t sent = 0, got = 0;
	while (log_dropped(log) == 0) {
		log_access(line, sizeof(line));
		sent++;
	}
	/* Once it moves again, nothing that wasn't counted is missing. */
	char buffer[65536];
	uint64_t expected = (sent - log_dropped(log)) * sizeof(line);
	alarm(60);
	while (got < expected) {
		ssize_t n = read(pipe, buffer, sizeof(buffer));
		if (n > 0)
			got += (uint64_t)n;
		else
			usleep(2000);
	}
	alarm(0);
	log_close(log); /* which writes what there may be */
	assert_int_equal(got, expected);
	assert_int_equal(read(pipe, buffer, sizeof(buffer)), -1);
	close(pipe);
	assert_file_has(files->error, "1 lines dropped since the start, 1 of them now");
}

static void a_pipe_without_a_reader_is_an_error(void **state)
{
	struct files *files = *state;

	assert_int_equal(mkfifo(files->access, 0600), 0);
	alarm(60);
	assert_null(
		log_open(1, 4096, LOG_LEVEL_INFO, to_file(files->error), to_file(files->access)));
	assert_int_equal(errno, ENXIO);
	struct log *log = log_open(1, 4096, LOG_LEVEL_INFO, to_file(files->error), off);
	log_thread_attach(log, 0);
	assert_null(
		log_prepare(log, LOG_LEVEL_INFO, to_file(files->error), to_file(files->access)));
	alarm(0);
	log_close(log);
	assert_file_has(files->error, "no program reads this pipe");
}

/* A log whose reader has stopped, with as much in the pipe as it holds but for less than a line. */
static struct log *open_stuck(struct files *files, int *reader)
{
	char line[3000];
	int filled = 0;

	assert_int_equal(mkfifo(files->access, 0600), 0);
	*reader = open(files->access, O_RDONLY | O_NONBLOCK);
	assert_true(*reader >= 0 && fcntl(*reader, F_SETPIPE_SZ, 4096) == 4096);
	struct log *log =
		log_open(1, 65536, LOG_LEVEL_INFO, to_file(files->error), to_file(files->access));
	assert_non_null(log);
	log_thread_attach(log, 0);
	memset(line, 'a', sizeof(line));
	line[sizeof(line) - 1] = '\n';
	log_access(line, sizeof(line));
	while (ioctl(*reader, FIONREAD, &filled) == 0 && filled < (int)sizeof(line))
		usleep(100);
	log_access(line, sizeof(line)); /* while its thread lingers */
	return log;
}

static void a_stuck_log_holds_up_no_reload(void **state)
{
	struct files *files = *state;
	char line[3000];
	int reader;
	struct log *log = open_stuck(files, &reader);

	usleep(50000); /* to be in the write; where that is not enough, less is tested */
	memset(line, 'b', sizeof(line));
	line[sizeof(line) - 1] = '\n';
	log_access(line, sizeof(line));
	assert_int_equal(
		log_configure(log, LOG_LEVEL_INFO, to_file(files->error), to_file(files->moved)),
		0);
	log_access(line, sizeof(line)); /* for the new file, when the old one is written */
	alarm(60);
	assert_int_equal(read(reader, line, sizeof(line)), sizeof(line));
	for (int i = 0; i < 100; i++) {
		usleep(500);
		assert_int_equal(log_configure(log, LOG_LEVEL_INFO, to_file(files->error),
					 to_file(files->moved)),
			0);
	}
	alarm(0);
	close(reader); /* which ends the write */
	log_close(log);
	assert_file_has(files->moved, "bbb");
}

/* However often the log was configured meanwhile, what was asked for last holds. */
static void a_stuck_log_counts_many_reloads(void **state)
{
	struct files *files = *state;
	int reader;
	struct log *log = open_stuck(files, &reader);

	alarm(60);
	usleep(50000); /* as above */
	for (int i = 0; i < 200; i++)
		assert_int_equal(log_configure(log, LOG_LEVEL_INFO, to_file(files->error),
					 to_file(files->moved)),
			0);
	log_access("behind them\n", 12);
	close(reader); /* which ends the write */
	wait_for(files->moved, "behind them");
	log_close(log);
	alarm(0);
}

/* The last that was asked of it is to open its file again: a rotation behind a reload. */
static void a_stuck_log_opens_the_file_that_is_there_now(void **state)
{
	struct files *files = *state;
	char rotated[128];
	int reader;
	struct log *log = open_stuck(files, &reader);

	alarm(60);
	usleep(50000); /* as above */
	assert_int_equal(
		log_configure(log, LOG_LEVEL_INFO, to_file(files->error), to_file(files->moved)),
		0);
	snprintf(rotated, sizeof(rotated), "%s.1", files->moved);
	assert_int_equal(rename(files->moved, rotated), 0);
	log_reopen(log);
	close(reader); /* which ends the write */
	for (int i = 0; i < 2000 && access(files->moved, F_OK) != 0; i++)
		usleep(5000);
	log_access("behind it\n", 10);
	log_close(log);
	alarm(0);
	assert_int_equal(unlink(rotated), 0);
	assert_file_has(files->moved, "behind it");
}

static void a_stuck_log_does_not_keep_the_process(void **state)
{
	int reader;
	struct log *log = open_stuck(*state, &reader);

	alarm(60);
	log_close(log);
	alarm(0);
	/* The pipe stays open: its writer is there to the end. */
}

/* The error log continues, and says what the other one has dropped. */
static void a_stuck_access_log_holds_up_no_error(void **state)
{
	struct files *files = *state;
	char line[3000];
	int reader;
	struct log *log = open_stuck(files, &reader);

	log_error("written all the same");
	wait_for(files->error, "written all the same");
	memset(line, 'c', sizeof(line));
	line[sizeof(line) - 1] = '\n';
	while (log_dropped(log) == 0)
		log_access(line, sizeof(line));
	wait_for(files->error, " warn  log: 1 lines dropped since the start");
	close(reader);
	log_close(log);
}

static void a_stuck_error_log_holds_up_no_access(void **state)
{
	struct files *files = *state;
	int reader = -1;

	assert_int_equal(mkfifo(files->error, 0600), 0);
	reader = open(files->error, O_RDONLY | O_NONBLOCK);
	assert_true(reader >= 0 && fcntl(reader, F_SETPIPE_SZ, 4096) == 4096);
	struct log *log =
		log_open(1, 65536, LOG_LEVEL_INFO, to_file(files->error), to_file(files->access));
	assert_non_null(log);
	log_thread_attach(log, 0);
	for (int i = 0; i < 200; i++) /* more than the pipe takes */
		log_error("%d: an error of which there are many, for a pipe that is full", i);
	log_access("GET /\n", 6);
	wait_for(files->access, "GET /");
	close(reader);
	log_close(log);
}

/* Both logs in one pipe: whole lines, whichever thread writes them. */
static void one_pipe_gets_whole_lines(void **state)
{
	struct files *files = *state;
	char line[400], text[1001];
	int seen[2] = {0, 0};

	assert_int_equal(mkfifo(files->error, 0600), 0);
	int fd = open(files->error, O_RDONLY | O_NONBLOCK);
	assert_true(fd >= 0 && fcntl(fd, F_SETPIPE_SZ, 4096) == 4096);
	fcntl(fd, F_SETFL, 0);
	struct log *log =
		log_open(1, 1 << 20, LOG_LEVEL_INFO, to_file(files->error), to_file(files->error));
	assert_non_null(log);
	log_thread_attach(log, 0);
	memset(line, 'a', sizeof(line));
	memset(text, 'e', sizeof(text));
	line[sizeof(line) - 1] = '\n';
	text[sizeof(text) - 1] = '\0';
	for (int i = 0; i < 500; i++) {
		log_access(line, sizeof(line));
		log_error("%s", text);
	}
	FILE *reader = fdopen(fd, "r");
	alarm(60);
	for (char got[2048]; seen[0] + seen[1] < 1000 && fgets(got, sizeof(got), reader);) {
		bool is_access = got[0] == 'a';
		assert_int_equal(strlen(got), is_access ? sizeof(line) : 1000 + 24 + 7 + 1);
		assert_int_equal(strspn(is_access ? got : got + 31, is_access ? "a" : "e"),
			is_access ? sizeof(line) - 1 : 1000);
		seen[is_access]++;
	}
	alarm(0);
	assert_int_equal(seen[0], 500);
	assert_int_equal(seen[1], 500);
	log_close(log);
	fclose(reader);
}

static void a_full_disk_is_counted_and_reported(void **state)
{
	struct files *files = *state;
	struct log *log =
		log_open(1, 4096, LOG_LEVEL_INFO, to_file(files->error), to_file("/dev/full"));

	assert_non_null(log);
	log_thread_attach(log, 0);
	log_access("line\n", 5);
	for (int i = 0; i < 2000 && log_dropped(log) == 0; i++)
		usleep(5000);
	assert_int_equal(log_dropped(log), 1);
	/* Although the error log has nothing else to write, and within a second of the last report.
	 */
	wait_for(files->error, "log: 1 lines dropped since the start, 1 of them now");
	log_access("line\n", 5);
	wait_for(files->error, "log: 2 lines dropped since the start, 1 of them now");
	log_close(log);
}

struct writer {
	struct log *log;
	unsigned index;
};

static void *write_lines(void *argument)
{
	struct writer *writer = argument;
	char line[64];

	log_thread_attach(writer->log, writer->index);
	for (unsigned i = 0; i < LINES; i++) {
		int len = snprintf(line, sizeof(line), "%u %u%s\n", writer->index, i,
			i % 3 ? "" : " and some more");
		log_access(line, (size_t)len);
		if (i % 5000 == 0)
			log_info("writer %u at %u", writer->index, i);
	}
	log_thread_attach(NULL, 0);
	return NULL;
}

/* Several threads at once: what arrives is whole lines, in each thread's order, none twice. */
static void threads_keep_their_order(void **state)
{
	struct files *files = *state;
	struct log *log = log_open(
		WRITERS, 1 << 14, LOG_LEVEL_INFO, to_file(files->error), to_file(files->access));
	struct writer writers[WRITERS];
	pthread_t threads[WRITERS];
	unsigned next[WRITERS] = {0};
	uint64_t lines = 0, infos = 0;

	for (unsigned i = 0; i < WRITERS; i++) {
		writers[i] = (struct writer){log, i};
		pthread_create(&threads[i], NULL, write_lines, &writers[i]);
	}
	for (unsigned i = 0; i < WRITERS; i++)
		pthread_join(threads[i], NULL);
	uint64_t dropped = log_dropped(log);
	log_close(log);

	char *text = contents(files->access);
	for (char *at = text, *end; (end = strchr(at, '\n')); at = end + 1) {
		unsigned index, number;
		*end = '\0';
		assert_int_equal(sscanf(at, "%u %u", &index, &number), 2);
		assert_true(index < WRITERS && number >= next[index] && number < LINES);
		assert_int_equal(strstr(at, " and some more") != NULL, number % 3 == 0);
		next[index] = number + 1;
		lines++;
	}
	free(text);
	text = contents(files->error);
	for (char *at = text; (at = strstr(at, "info  writer ")); at++)
		infos++;
	free(text);
	assert_int_equal(lines + infos + dropped, WRITERS * (LINES + LINES / 5000));
}

#define file_test(name) cmocka_unit_test_setup_teardown(name, make_files, remove_files)

UNIT_SUITE(test_log)
{
	const struct CMUnitTest tests[] = {
		file_test(lines_have_date_level_and_text),
		file_test(control_characters_are_disarmed),
		file_test(long_line_is_cut),
		file_test(errno_is_kept),
		file_test(reopen_follows_the_name),
		file_test(configure_switches_or_changes_nothing),
		file_test(open_failure_leaves_nothing),
		file_test(full_ring_drops_and_counts),
		file_test(a_pipe_without_a_reader_is_an_error),
		file_test(a_stuck_log_holds_up_no_reload),
		file_test(a_stuck_log_counts_many_reloads),
		file_test(a_stuck_log_opens_the_file_that_is_there_now),
		file_test(a_stuck_log_does_not_keep_the_process),
		file_test(a_stuck_access_log_holds_up_no_error),
		file_test(a_stuck_error_log_holds_up_no_access),
		file_test(one_pipe_gets_whole_lines),
		file_test(a_full_disk_is_counted_and_reported),
		file_test(threads_keep_their_order),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
