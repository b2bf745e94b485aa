/* See run.h. */
#include "cli/run.h"

#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "admin/admin.h"
#include "cli/load.h"
#include "cli/usage.h"
#include "conf/conf.h"
#include "daemon/relay.h"

static const char help[] =
	"usage: sluice run [-c FILE]\n"
	"\n"
	"Reads a configuration and serves, in the foreground, until SIGTERM.\n"
	"Exits with 0 if a signal stopped it, and with 1 if the configuration has errors,\n"
	"sluice could not start, or requests were cut at the end.\n"
	"\n"
	"  -c, --config FILE  the configuration (default: " CLI_DEFAULT_FILE ")\n"
	"  -h, --help         print this\n";

static bool open_admin(void *ctx, const struct conf *conf, struct handover *inherited)
{
	return admin_open(conf, inherited, ctx);
}

static bool start_admin(void *ctx, struct relay *relay)
{
	return admin_start(*(struct admin **)ctx, relay);
}

static void close_admin(void *ctx)
{
	admin_close(*(struct admin **)ctx);
}

static bool give_admin(void *ctx, struct handover *to)
{
	return admin_give(*(struct admin **)ctx, to);
}

static void hand_over_admin(void *ctx, const char *address)
{
	admin_hand_over(*(struct admin **)ctx, address);
}

/* Where this program can be started from again, also when another one is there by then: as it was
 * called, so that a link can be changed to another version. NULL without memory. */
static char *find_program(void)
{
	const char *called = program_invocation_name;
	char *folder, *program, linked[PATH_MAX];
	ssize_t len;

	if (called[0] == '/')
		return strdup(called);
	if (strchr(called, '/')) {
		folder = getcwd(NULL, 0);
		if (!folder || asprintf(&program, "%s/%s", folder, called) < 0)
			program = NULL;
		free(folder);
		return program;
	}
	/* Found by PATH: by its name there are others. */
	len = readlink("/proc/self/exe", linked, sizeof(linked) - 1);
	linked[len > 0 ? len : 0] = '\0';
	return strdup(len > 0 ? linked : called);
}

int cli_run(const char *path)
{
	struct admin *admin = NULL;
	char *program = find_program();
	struct relay_service service = {open_admin, start_admin, close_admin, give_admin,
		hand_over_admin, &admin, program ? program : program_invocation_name};
	struct conf *conf = cli_load(path);

	if (!conf) {
		fprintf(stderr, "sluice: nothing was started\n");
		free(program);
		return 1;
	}
	int status = relay_run(conf, &service);
	free(program);
	return status;
}

int cli_run_run(int argc, char **argv)
{
	static const struct option long_options[] = {{"config", required_argument, NULL, 'c'},
		{"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
	const char *path = CLI_DEFAULT_FILE;
	int given;

	optind = 1; /* argv[0] is `sluice run` */
	while ((given = getopt_long(argc, argv, "c:h", long_options, NULL)) != -1) {
		switch (given) {
		case 'c':
			path = optarg;
			break;
		case 'h':
			fputs(help, stdout);
			return 0;
		default:
			usage_refer("run");
			return 2;
		}
	}
	if (cli_has_rest("run", argc, argv))
		return 2;
	return cli_run(path);
}
