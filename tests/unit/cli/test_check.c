/* `sluice check`: its exit status, and where files that it names can be written. */
#include "cli/check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "printed.h"
#include "tests/unit/suite.h"

/* Ten lines: what is added begins in line 11, in [sluice]. */
#define GOOD                                                                                       \
	"[listener l]\nbind = 127.0.0.1:1\n"                                                       \
	"[upstream u]\nserver = 127.0.0.1:2\n"                                                     \
	"[limit base]\nrate = 1 per 1s\n"                                                          \
	"[route r]\nupstream = u\nlimits = base\n"                                                 \
	"[sluice]\n"

static char folder[] = "/tmp/sluice-unit-XXXXXX";

/* `check` of GOOD and the lines, in which `@` is the folder. */
static struct printed check_with(const char *lines)
{
	char text[2048] = GOOD;
	size_t len = strlen(text);

	for (; *lines && len + sizeof(folder) < sizeof(text); lines++) {
		if (*lines == '@')
			len += (size_t)sprintf(text + len, "%s", folder);
		else
			text[len++] = *lines;
		text[len] = '\0';
	}
	return printed_by(cli_check_run, WORDS("check", "-c", printed_file(text)));
}

/* The only line on stderr has this behind `FILE:`, in which `@` is the folder. */
static void assert_says(const struct printed *printed, const char *line)
{
	char said[1024] = "";

	for (size_t len = 0; *line; line++, len = strlen(said)) {
		if (*line == '@')
			strcat(said, folder);
		else
			said[len] = *line;
	}
	const char *at = strchr(printed->err, ':');
	if (!at || strncmp(at + 1, said, strlen(said)) != 0)
		fail_msg("expected \"%s\", got \"%s\"", said, printed->err);
	assert_ptr_equal(strchr(printed->err, '\n') + 1, printed->err + strlen(printed->err));
}

static void assert_refused(const char *lines, const char *said)
{
	struct printed printed = check_with(lines);

	assert_says(&printed, said);
	assert_int_equal(printed.status, 1);
	assert_string_equal(printed.out, "");
}

static void assert_warned(const char *lines, const char *said)
{
	struct printed printed = check_with(lines);

	assert_says(&printed, said);
	assert_int_equal(printed.status, 0);
}

static void a_good_file_is_counted(void **state)
{
	struct printed printed = check_with("");
	const char *ok = strchr(printed.out, ':');

	(void)state;
	assert_int_equal(printed.status, 0);
	assert_string_equal(printed.err, "");
	assert_non_null(ok);
	assert_string_equal(ok, ": ok (1 listener, 1 upstream, 1 route, 1 limit, 0 plans)\n");
}

static void errors_and_warnings_have_their_line(void **state)
{
	(void)state;
	assert_refused("workers = none\n", "11: [sluice] workers: ");
	assert_warned("[limit other]\nrate = 1 per 1s\n",
		"11: warning: [limit other] has no effect: no route and no plan names it");
	struct printed printed =
		printed_by(cli_check_run, WORDS("check", "-c", "/nowhere/sluice.ini"));
	assert_int_equal(printed.status, 1);
	assert_non_null(strstr(printed.err, "/nowhere/sluice.ini"));
}

static void a_certificate_must_be_there(void **state)
{
	(void)state;
	struct printed printed =
		check_with("[listener tls]\nbind = 127.0.0.1:3\ncertificate = @/none.pem\n");
	assert_int_equal(printed.status, 1);
	assert_string_equal(printed.out, "");
	assert_non_null(strstr(printed.err, "/none.pem"));
}

static void the_command_line(void **state)
{
	(void)state;
	struct printed printed = printed_by(cli_check_run, WORDS("check", "sluice.ini"));
	assert_int_equal(printed.status, 2);
	assert_non_null(strstr(printed.err, "unexpected \"sluice.ini\"; a file is given as -c"));
	assert_int_equal(printed_by(cli_check_run, WORDS("check", "--wrong")).status, 2);
	printed = printed_by(cli_check_run, WORDS("check", "--keys"));
	assert_int_equal(printed.status, 0);
	assert_non_null(strstr(printed.out, "shutdown_timeout"));
	printed = printed_by(cli_check_run, WORDS("check", "-h"));
	assert_int_equal(printed.status, 0);
	assert_string_equal(printed.out, cli_check_help);
	printed = printed_by(
		cli_check_run, WORDS("check", "--dump", "-c", printed_file(GOOD "via = x\n")));
	assert_int_equal(printed.status, 0);
	assert_non_null(strstr(printed.out, "via = x\n"));
	assert_non_null(strstr(printed.out, "shutdown_timeout = 30s\n"));
}

/* ---- places ---------------------------------------------------------------------------------- */

static void places_that_can_be_written(void **state)
{
	(void)state;
	struct printed printed =
		check_with("state = @\npid_file = @/pid\nerror_log = file:@/error\naccess_log = "
			   "file:@/access\n"
			   "buffering_folder = @\n[listener s]\nbind = unix:@/socket\n");
	assert_string_equal(printed.err, "");
	assert_int_equal(printed.status, 0);
}

static void places_that_can_not(void **state)
{
	(void)state;
	assert_refused("[listener s]\nbind = 127.0.0.1:4\nbind = unix:@/file/socket\n",
		"13: [listener s] bind: no socket can be made in @/file by ");
	if (geteuid() == 0) /* who may write everywhere */
		return;
	chmod(folder, 0500);
	assert_refused("error_log = file:@/error\n",
		"11: [sluice] error_log: @/error can't be written by ");
	assert_refused("access_log = file:@/access\n",
		"11: [sluice] access_log: @/access can't be written by ");
	chmod(folder, 0700);
	assert_int_equal(check_with("error_log = file:@/error\n").status, 0);
}

/* Without it the daemon still serves. */
static void some_places_are_only_wanted(void **state)
{
	(void)state;
	assert_warned("state = @/file\n", "11: warning: [sluice] state: @/file can't be used by ");
	assert_warned("state = @/none\n", "11: warning: [sluice] state: @/none can't be used by ");
	assert_refused("state = @/file\nstate_required = on\n",
		"11: [sluice] state: @/file can't be used by ");
	assert_warned("buffering_folder = @/file\n",
		"11: warning: [sluice] buffering_folder: @/file can't be used by ");
	struct printed printed = check_with("buffering_folder = @/file\nbuffering_disk = 0\n");
	assert_string_equal(printed.err, "");
}

/* The daemon will be another user. Root can try as that; nobody else can. */
static void places_of_another_user(void **state)
{
	(void)state;
	chmod(folder, 0700);
	if (geteuid() != 0) {
		assert_warned("user = nobody\nstate = @\n", "11: note: [sluice] user: ");
		struct printed printed = check_with("user = nobody\n");
		assert_int_equal(printed.status, 0);
		assert_string_equal(printed.err, "");
		return;
	}
	assert_warned("user = nobody\nstate = @\n",
		"12: warning: [sluice] state: @ can't be used by nobody: ");
	assert_refused("user = nobody\npid_file = @/pid\n",
		"12: [sluice] pid_file: @/pid can't be written by nobody: ");
	/* Logs and sockets are opened before. */
	struct printed printed = check_with(
		"user = nobody\nerror_log = file:@/error\n[listener s]\nbind = unix:@/s\n");
	assert_string_equal(printed.err, "");
	assert_int_equal(printed.status, 0);
	chmod(folder, 0777);
	printed = check_with("user = nobody\nstate = @\npid_file = @/pid\n");
	assert_string_equal(printed.err, "");
	assert_int_equal(printed.status, 0);
}

static int make_folder(void **state)
{
	char path[64];

	(void)state;
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof(path), "%s/file", folder);
	FILE *file = fopen(path, "w");
	return file ? fclose(file) : -1;
}

static int remove_folder(void **state)
{
	char path[64];

	(void)state;
	snprintf(path, sizeof(path), "%s/file", folder);
	unlink(path);
	return rmdir(folder);
}

UNIT_SUITE(test_check)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_good_file_is_counted),
		cmocka_unit_test(errors_and_warnings_have_their_line),
		cmocka_unit_test(a_certificate_must_be_there),
		cmocka_unit_test(the_command_line),
		cmocka_unit_test(places_that_can_be_written),
		cmocka_unit_test(places_that_can_not),
		cmocka_unit_test(some_places_are_only_wanted),
		cmocka_unit_test(places_of_another_user),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
