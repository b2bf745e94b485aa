/* sluice: argv to subcommand. */
#include <stdio.h>
#include <string.h>

#include "cli/check.h"
#include "cli/run.h"
#include "config.h"

static const char usage[] =
	"usage: sluice run [-c FILE]            serve, in the foreground\n"
	"       sluice check [-c FILE]          say what is wrong with a configuration\n"
	"       sluice check [-c FILE] --dump   print what is in effect, with all defaults\n"
	"       sluice check --keys             list all keys with their defaults\n"
	"       sluice --version | --help | COMMAND --help\n"
	"FILE is /etc/sluice/sluice.ini when not given.\n"
	"\n"
	"Signals to a running one: HUP reloads the file, TERM drains and stops, USR1 reopens "
	"logs.\n";

int main(int argc, char **argv)
{
	char run_title[] = "sluice run", check_title[] = "sluice check"; /* for getopt's messages */

	if (argc < 2) {
		fprintf(stderr, "sluice: a command is needed\n%s", usage);
		return 2;
	}
	const char *command = argv[1];
	if (strcmp(command, "--version") == 0 || strcmp(command, "-V") == 0) {
		puts("sluice " PACKAGE_VERSION);
		return 0;
	}
	if (strcmp(command, "--help") == 0 || strcmp(command, "-h") == 0 ||
		strcmp(command, "help") == 0) {
		fputs(usage, stdout);
		return 0;
	}
	if (strcmp(command, "run") == 0) {
		argv[1] = run_title;
		return cli_run_run(argc - 1, argv + 1);
	}
	if (strcmp(command, "check") == 0) {
		argv[1] = check_title;
		return cli_check_run(argc - 1, argv + 1);
	}
	fprintf(stderr, "sluice: unknown command \"%s\"\n%s", command, usage);
	return 2;
}
