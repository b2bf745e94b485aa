/* sluice: argv to subcommand. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/check.h"
#include "cli/lock/lock_command.h"
#include "cli/lock/lock_list.h"
#include "cli/operate.h"
#include "cli/protect.h"
#include "cli/run.h"
#include "cli/lock/semaphore.h"
#include "cli/table.h"
#include "conf/errors.h"
#include "config.h"

static const char usage[] =
	"usage: sluice run [-c FILE]            serve, in the foreground\n"
	"       sluice check [-c FILE]          list the errors of a configuration\n"
	"       sluice check [-c FILE] --dump   print it with all defaults\n"
	"       sluice check --keys             list all keys with their defaults\n";
static const char usage_end[] =
	"       sluice --version | --help | COMMAND --help\n"
	"The default of FILE is /etc/sluice/sluice.ini.\n"
	"\n"
	"Signals to a running sluice: HUP reloads the file, TERM drains and stops, USR1 reopens\n"
	"the logs, USR2 starts the binary again and hands over to it.\n";

static void print_usage(FILE *out)
{
	fprintf(out, "%s%s%s%s%s%s%s", usage, cli_protect_usage, cli_operate_usage, cli_lock_usage,
		cli_locks_usage, cli_semaphore_usage, usage_end);
}

/* What is said when it did not arrive, as on a full disk: an exit status of 0 would be a lie. */
static int with_output_written(int status)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return status;
	fprintf(stderr, "sluice: the output can't be written: %s\n", strerror(errno));
	return status ? status : 1;
}

static int fail_command(const char *command)
{
	struct near_miss near = {.word = slice_of(command)};

	near_miss_offer(&near, "check");
	near_miss_offer(&near, "run");
	near_miss_offer(&near, "protect");
	near_miss_offer(&near, "help");
	near_miss_offer(&near, "lock");
	near_miss_offer(&near, "locks");
	near_miss_offer(&near, "semaphore");
	cli_operate_offer(&near);
	fprintf(stderr, "sluice: unknown command \"%s\"", command);
	if (near.best)
		fprintf(stderr, ", did you mean \"%s\"?", near.best);
	fputc('\n', stderr);
	usage_refer("");
	return 2;
}

static int run_command(int argc, char **argv)
{
	/* for getopt's messages */
	char run_title[] = "sluice run", check_title[] = "sluice check",
	     protect_title[] = "sluice protect", lock_title[] = "sluice lock",
	     locks_title[] = "sluice locks";

	if (argc < 2) {
		print_usage(stderr);
		fputs("\nsluice: a command is needed\n", stderr);
		return 2;
	}
	const char *command = argv[1];
	if (strcmp(command, "--version") == 0 || strcmp(command, "-V") == 0) {
		puts("sluice " PACKAGE_VERSION);
		return 0;
	}
	if (strcmp(command, "--help") == 0 || strcmp(command, "-h") == 0 ||
		strcmp(command, "help") == 0) {
		print_usage(stdout);
		return 0;
	}
	if (strcmp(command, "run") == 0) {
		argv[1] = run_title;
		return cli_run_run(argc - 1, argv + 1);
	}
	if (strcmp(command, "protect") == 0) {
		argv[1] = protect_title;
		return cli_protect(argc - 1, argv + 1);
	}
	if (strcmp(command, "check") == 0) {
		argv[1] = check_title;
		return cli_check_run(argc - 1, argv + 1);
	}
	if (strcmp(command, "lock") == 0) {
		argv[1] = lock_title;
		return cli_lock(argc - 1, argv + 1);
	}
	if (strcmp(command, "locks") == 0) {
		argv[1] = locks_title;
		return cli_locks(argc - 1, argv + 1);
	}
	if (strcmp(command, "semaphore") == 0)
		return cli_semaphore(argc - 1, argv + 1);
	if (cli_operate_knows(command))
		return cli_operate(argc - 1, argv + 1);
	return fail_command(command);
}

/* A descriptor of ours is never taken for standard input, output or errors, which may be closed. */
static bool open_standard_files(void)
{
	for (int fd = 0; fd <= 2; fd++) {
		if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", O_RDWR) != fd)
			return false; /* there is no other that is free below it */
	}
	return true;
}

int main(int argc, char **argv)
{
	if (!open_standard_files()) {
		fprintf(stderr, "sluice: /dev/null: %s\n", strerror(errno));
		return EXIT_FAILURE;
	}
	return with_output_written(run_command(argc, argv));
}
