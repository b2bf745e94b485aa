/* The command line of `sluice semaphore`: what each verb takes, and what would have no effect. */
#include "cli/lock/semaphore.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "cli/lock/semaphore_verbs.h"
#include "tests/unit/cli/printed.h"
#include "tests/unit/suite.h"

#define WORDS_MAX 14

static struct semaphore_call called;
static char command[64], name[64], path[64];
static unsigned calls;

int __real_semaphore_verb_run(const struct semaphore_call *call);
int __wrap_semaphore_verb_run(const struct semaphore_call *call);
int __wrap_semaphore_verb_run(const struct semaphore_call *call)
{
	if (!unit_runs("test_semaphore"))
		return __real_semaphore_verb_run(call);
	calls++;
	called = *call;
	snprintf(name, sizeof(name), "%s", call->name);
	snprintf(path, sizeof(path), "%s", call->path);
	*command = '\0';
	for (size_t i = 0; call->command && call->command[i]; i++)
		snprintf(command + strlen(command), sizeof(command) - strlen(command), "[%s]",
			call->command[i]);
	return 42;
}

static void run(const char *const *words)
{
	struct printed printed = printed_by(cli_semaphore, words);

	if (printed.status != 42)
		fail_msg("%d: %s", printed.status, printed.err);
	assert_string_equal(printed.err, "");
}

static void defaults(void **state)
{
	(void)state;
	run(WORDS("semaphore", "status", "s"));
	assert_ptr_equal(called.verb, semaphore_verb_find("status"));
	assert_string_equal(name, "s");
	assert_string_equal(path, "/etc/sluice/sluice.ini");
	assert_null(called.command);
	assert_false(called.ensure || called.json || called.wait || called.has_timeout);
	assert_int_equal(called.overshoot, 1000);
	assert_int_equal(called.timeout_ms, 10000);
	assert_int_equal(called.grace_ms, 2000);
	assert_int_equal(called.attempts, 0);
}

static void options_of_administrators(void **state)
{
	(void)state;
	run(WORDS("semaphore", "create", "s", "--ensure", "--json", "-c", "f"));
	assert_true(called.ensure && called.json);
	assert_string_equal(path, "f");
	run(WORDS("semaphore", "add", "s", "12", "--timeout", "1m", "--overshoot", "0"));
	assert_int_equal(called.count, 12);
	assert_true(called.has_timeout);
	assert_int_equal(called.timeout_ms, 60000);
	assert_int_equal(called.overshoot, 0);
}

/* What is behind `--` is the command's, whatever it looks like. */
static void a_command_is_held_for(void **state)
{
	(void)state;
	run(WORDS("semaphore", "hold", "s", "--wait", "--attempts", "3", "--timeout", "5s",
		"--grace", "0", "--", "sh", "--json", "--", "x"));
	assert_string_equal(command, "[sh][--json][--][x]");
	assert_true(called.wait && called.has_timeout && !called.json);
	assert_int_equal(called.attempts, 3);
	assert_int_equal(called.grace_ms, 0);
	run(WORDS("semaphore", "hold", "s", "--grace", "1h", "--", "true"));
	assert_int_equal(called.grace_ms, 3600000);
}

static const struct {
	const char *words[WORDS_MAX];
	const char *said;
} wrong[] = {
	{{NULL}, "a command is needed"},
	{{"stats", "s"}, "unknown command \"stats\", did you mean \"status\"?"},
	{{"status"}, "status: expected NAME\n"},
	{{"status", "s", "t"}, "status: expected NAME\n"},
	{{"add", "s"}, "add: expected NAME COUNT\n"},
	{{"add", "s", "0"}, "invalid COUNT \"0\"; expected a number from 1 to"},
	{{"add", "s", "1x"}, "invalid COUNT \"1x\""},
	{{"add", "s", "10001"}, "invalid COUNT \"10001\"; expected a number from 1 to 10000"},
	{{"remove", "s", "-1"}, "invalid option"},
	{{"status", "s", "--ensure"}, "status: unexpected option --ensure"},
	{{"add", "s", "1", "--ensure"}, "add: unexpected option --ensure"},
	{{"status", "s", "--wait"}, "status: unexpected option --wait"},
	{{"status", "s", "--attempts", "2"}, "status: unexpected option --attempts"},
	{{"wait", "s", "--grace", "1s"}, "wait: unexpected option --grace"},
	{{"status", "s", "--", "true"}, "status: unexpected command"},
	{{"hold", "s"}, "hold: a command is needed behind --"},
	{{"hold", "s", "--"}, "hold: a command is needed behind --"},
	{{"hold", "s", "--json", "--", "true"}, "hold: unexpected option --json"},
	{{"hold", "s", "--timeout", "1s", "--", "true"}, "--timeout and --attempts are of --wait"},
	{{"hold", "s", "--attempts", "2", "--", "true"}, "--timeout and --attempts are of --wait"},
	{{"hold", "s", "--wait", "--attempts", "0", "--", "true"}, "invalid --attempts \"0\""},
	{{"hold", "s", "--grace", "61m", "--", "true"}, "invalid --grace \"61m\""},
	{{"hold", "s", "--grace", "x", "--", "true"}, "invalid --grace \"x\""},
	{{"wait", "s", "--timeout", "1"}, "invalid --timeout \"1\"; expected a duration"},
	{{"status", "s", "--overshoot", "x"},
		"invalid --overshoot \"x\"; expected a number from 0"},
};

static void a_wrong_line_does_nothing(void **state)
{
	(void)state;
	calls = 0;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		const char *words[WORDS_MAX + 1] = {"semaphore"};

		memcpy(words + 1, wrong[i].words, sizeof(wrong[i].words));
		struct printed printed = printed_by(cli_semaphore, words);
		if (!strstr(printed.err, wrong[i].said))
			fail_msg("%s: %s", wrong[i].said, printed.err);
		assert_int_equal(printed.status, SEMAPHORE_EXIT_USAGE);
		assert_string_equal(printed.out, "");
	}
	assert_int_equal(calls, 0);
}

static void help_goes_before_wrong_values(void **state)
{
	struct printed printed =
		printed_by(cli_semaphore, WORDS("semaphore", "--overshoot", "x", "--help"));

	(void)state;
	assert_int_equal(printed.status, 0);
	assert_ptr_equal(strstr(printed.out, "usage: sluice semaphore create"), printed.out);
}

UNIT_SUITE(test_semaphore)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults),
		cmocka_unit_test(options_of_administrators),
		cmocka_unit_test(a_command_is_held_for),
		cmocka_unit_test(a_wrong_line_does_nothing),
		cmocka_unit_test(help_goes_before_wrong_values),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
