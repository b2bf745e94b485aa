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
	"       sluice --version | --help\n"
	"FILE is /etc/sluice/sluice.ini when not given.\n"
	"\n"
	"Signals to a running one: HUP reloads the file, TERM drains and stops, USR1 reopens "
	"logs.\n";

static int usage_error(const char *what)
{
	fprintf(stderr, "sluice: %s\n%s", what, usage);
	return 2;
}

static int run_command(int argc, char **argv)
{
	const char *file = NULL;

	for (int i = 2; i < argc; i++) {
		if (strcmp(argv[i], "-c") == 0 && i + 1 < argc)
			file = argv[++i];
		else
			return usage_error("run takes -c FILE and nothing else");
	}
	return cli_run(file ? file : "/etc/sluice/sluice.ini");
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return usage_error("a command is needed");
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
	if (strcmp(command, "run") == 0)
		return run_command(argc, argv);
	if (strcmp(command, "check") == 0)
		return cli_check_run(argc - 1, argv + 1);
	return usage_error("unknown command");
}
