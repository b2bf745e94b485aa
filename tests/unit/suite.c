/* The main program of a room's unit tests.
 *
 *	PROGRAM [SUITE [TEST]]    runs all suites, or those and the tests of a name; * and ? are
 *wildcards
 *
 * Each suite runs in a process of its own, so that neither a crash nor what a suite leaves in
 *globals, descriptors or threads affects another one. The results of all suites are one TAP stream:
 *
 *	suite's process ---pipe---> "ok 3 - name" becomes "ok 41 - test_log: name"
 *
 * A suite that ends in another way than its results say is a failed test of its own. */
#include "suite.h"

#include <fnmatch.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

static struct unit_suite *suites; /* sorted by name */
static unsigned points, failures; /* of all suites */
static const char *running;       /* in a suite's process, its name */

void unit_register(struct unit_suite *suite)
{
	struct unit_suite **at = &suites;
	int order = -1;

	while (*at != NULL && (order = strcmp((*at)->name, suite->name)) < 0)
		at = &(*at)->next;
	if (order == 0) {
		fprintf(stderr, "two suites are named %s\n", suite->name);
		abort();
	}
	suite->next = *at;
	*at = suite;
}

bool unit_runs(const char *suite)
{
	return running != NULL && strcmp(running, suite) == 0;
}

/* Results of one suite. */
struct results {
	long planned;
	unsigned points, failures;
};

/* The text begins with ": " and the test's name, or with a reason. */
static void write_point(bool passed, const struct unit_suite *suite, const char *text)
{
	points++;
	failures += !passed;
	printf("%s %u - %s%s\n", passed ? "ok" : "not ok", points, suite->name, text);
}

/* Translates one line of a suite's output. cmocka before 1.1.6 writes a skipped test as "not ok 1 #
 * SKIP name". */
static void take_line(struct results *results, const struct unit_suite *suite, const char *line)
{
	bool passed = strncmp(line, "ok ", 3) == 0;
	bool is_plan = strncmp(line, "1..", 3) == 0;
	char text[1024];

	if (is_plan) {
		char *rest;

		results->planned = strtol(line + 3, &rest, 10);
		if (results->planned == 0 && *rest != '\0')
			write_point(true, suite, rest); /* all of it is skipped, with the reason */
	} else if (passed || strncmp(line, "not ok ", 7) == 0) {
		const char *name = line + (passed ? 3 : 7);

		name += strspn(name, "0123456789- ");
		if (strncmp(name, "# SKIP ", 7) == 0) {
			passed = true;
			snprintf(text, sizeof(text), ": %s # SKIP", name + 7);
		} else {
			snprintf(text, sizeof(text), ": %s", name);
		}
		results->points++;
		results->failures += !passed;
		write_point(passed, suite, text);
	} else if (*line != '\0') {
		printf("%s%s\n", *line == '#' ? "" : "# ", line);
	}
}

static void take_end(const struct results *results, const struct unit_suite *suite, int status)
{
	char text[100];

	if (WIFSIGNALED(status))
		snprintf(text, sizeof(text), ": ended by signal %d after %u of %ld tests",
			WTERMSIG(status), results->points, results->planned);
	else if (results->planned != results->points)
		snprintf(text, sizeof(text), ": ended after %u of %ld tests", results->points,
			results->planned);
	else if (WEXITSTATUS(status) != 0 && results->failures == 0)
		snprintf(text, sizeof(text), ": exited with %d", WEXITSTATUS(status));
	else
		return;
	write_point(false, suite, text);
}

static void run_here(const struct unit_suite *suite, const char *filter, const int output[2])
{
	dup2(output[1], STDOUT_FILENO);
	dup2(output[1], STDERR_FILENO);
	close(output[0]);
	close(output[1]);
	setvbuf(stdout, NULL, _IOLBF, 0);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	cmocka_set_test_filter(filter);
	running = suite->name;
	exit(suite->run() != 0);
}

static void run(const struct unit_suite *suite, const char *filter)
{
	struct results results = {.planned = -1};
	struct timespec begin, end;
	int output[2], status;
	char *line = NULL;
	size_t room = 0;
	ssize_t len;

	clock_gettime(CLOCK_MONOTONIC, &begin);
	fflush(stdout);
	pid_t process = pipe(output) == 0 ? fork() : -1;
	if (process < 0) {
		write_point(false, suite, ": cannot be started");
		return;
	}
	if (process == 0)
		run_here(suite, filter, output);
	close(output[1]);
	FILE *stream = fdopen(output[0], "r");
	while (stream != NULL && (len = getline(&line, &room, stream)) > 0) {
		if (line[len - 1] == '\n')
			line[len - 1] = '\0';
		take_line(&results, suite, line);
		fflush(stdout);
	}
	free(line);
	if (stream != NULL)
		fclose(stream);
	waitpid(process, &status, 0);
	take_end(&results, suite, status);
	clock_gettime(CLOCK_MONOTONIC, &end);
	printf("# %s took %.1f s\n", suite->name,
		(double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9);
}

int main(int argc, char **argv)
{
	for (const struct unit_suite *suite = suites; suite != NULL; suite = suite->next) {
		if (argc < 2 || fnmatch(argv[1], suite->name, 0) == 0)
			run(suite, argc > 2 ? argv[2] : NULL);
	}
	printf("1..%u\n", points);
	if (points > 0)
		return failures != 0;
	fprintf(stderr, "no such test; the suites are:\n");
	for (const struct unit_suite *suite = suites; suite != NULL; suite = suite->next)
		fprintf(stderr, "  %s\n", suite->name);
	return 1;
}
