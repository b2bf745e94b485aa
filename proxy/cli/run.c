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
#include "cli/table.h"
#include "conf/conf.h"
#include "daemon/daemon.h"

static const char help[] =
	"usage: sluice run [-c FILE]\n"
	"\n"
	"Reads a configuration and serves, in the foreground, until SIGTERM.\n"
	"Exits with 0 if a signal stopped it, and with 1 if the configuration has errors,\n"
	"sluice could not start, or requests were cut at the end.\n"
	"\n"
	"  -c, --config FILE  the configuration (default: " CLI_DEFAULT_FILE ")\n"
	"  -h, --help         print this\n";

/* The context of the daemon's service. */
struct serving {
	const struct run *run;
	struct admin *admin;
};

static bool open_admin(void *ctx, const struct conf *conf, struct handover *inherited)
{
	struct serving *serving = ctx;

	return admin_open(conf, inherited, &serving->admin);
}

static bool start_admin(void *ctx, struct daemon *daemon)
{
	const struct serving *serving = ctx;

	if (!admin_start(serving->admin, daemon))
		return false;
	if (serving->run->ready)
		serving->run->ready(serving->run, daemon->inherited != NULL);
	return true;
}

static void close_admin(void *ctx)
{
	admin_close(((struct serving *)ctx)->admin);
}

static bool give_admin(void *ctx, struct handover *to)
{
	return admin_give(((struct serving *)ctx)->admin, to);
}

static void hand_over_admin(void *ctx, const char *address)
{
	admin_hand_over(((struct serving *)ctx)->admin, address);
}

static struct conf *load(void *ctx, struct conf_errors *errors)
{
	const struct run *run = ((struct serving *)ctx)->run;

	return run->load(run, errors);
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

int run_serve(const struct run *run, struct conf *conf)
{
	char *program = find_program();
	char *arguments[RUN_ARGUMENTS_MOST + 2] = {program ? program : program_invocation_name};
	struct serving serving = {.run = run};
	const struct daemon_service service = {open_admin, start_admin, close_admin, give_admin,
		hand_over_admin, load, &serving, arguments};

	for (size_t i = 0; i < RUN_ARGUMENTS_MOST && run->arguments[i]; i++)
		arguments[i + 1] = run->arguments[i];
	int status = daemon_run(conf, &service);
	free(program);
	return status;
}

static struct conf *load_file(const struct run *run, struct conf_errors *errors)
{
	return conf_load_again(run->ctx, errors);
}

static int run_file(char *path)
{
	char command[] = "run", option[] = "-c";
	char *const arguments[] = {command, option, path, NULL};
	const struct run run = {.arguments = arguments, .load = load_file, .ctx = path};
	struct conf *conf = cli_load(path);

	if (conf)
		return run_serve(&run, conf);
	fprintf(stderr, "sluice: nothing was started\n");
	return 1;
}

int cli_run_run(int argc, char **argv)
{
	static const struct option long_options[] = {{"config", required_argument, NULL, 'c'},
		{"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
	char default_path[] = CLI_DEFAULT_FILE, *path = default_path;
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
	return run_file(path);
}

/* ---- load ----------------------------------------------------------------------------------- */

struct conf *cli_load(const char *path)
{
	struct conf_errors errors = {0};
	struct conf *conf = conf_load(path, &errors);

	for (size_t i = 0; i < errors.count; i++)
		fprintf(stderr, "%s\n", errors.items[i].text);
	if (errors.incomplete)
		fprintf(stderr, "%s: out of memory\n", path);
	conf_errors_free(&errors);
	return conf;
}

bool cli_has_rest(const char *command, int argc, char **argv)
{
	if (optind >= argc)
		return false;
	fprintf(stderr, "sluice %s: unexpected \"%s\"; a file is given as -c FILE\n", command,
		argv[optind]);
	usage_refer(command);
	return true;
}
