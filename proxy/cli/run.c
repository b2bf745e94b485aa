/* See run.h. */
#include "cli/run.h"

#include <getopt.h>
#include <stdio.h>

#include "admin/admin.h"
#include "conf/conf.h"
#include "relay/relay.h"

#define DEFAULT_FILE "/etc/sluice/sluice.ini"

static const char help[] = "usage: sluice run [-c FILE]\n"
			   "\n"
			   "Reads a configuration and serves, in the foreground, until SIGTERM.\n"
			   "Exits with 0 when it was stopped by a signal, 1 when the configuration "
			   "has errors, nothing\n"
			   "could be started, or requests were cut off at the end.\n"
			   "\n"
			   "  -c, --config FILE  the configuration (default: " DEFAULT_FILE ")\n"
			   "  -h, --help         print this\n";

static bool open_admin(void *ctx, const struct conf *conf)
{
	return admin_open(conf, ctx);
}

static bool start_admin(void *ctx, struct relay *relay)
{
	return admin_start(*(struct admin **)ctx, relay);
}

static void close_admin(void *ctx)
{
	admin_close(*(struct admin **)ctx);
}

int cli_run(const char *path)
{
	struct conf_errors errors = {0};
	struct admin *admin = NULL;
	struct relay_service service = {open_admin, start_admin, close_admin, &admin};
	struct conf *conf = conf_load(path, &errors);

	for (size_t i = 0; i < errors.count; i++)
		fprintf(stderr, "%s\n", errors.items[i].text);
	if (errors.incomplete)
		fprintf(stderr, "%s: out of memory\n", path);
	conf_errors_free(&errors);
	if (!conf) {
		fprintf(stderr, "sluice: nothing was started\n");
		return 1;
	}
	return relay_run(conf, &service);
}

int cli_run_run(int argc, char **argv)
{
	static const struct option long_options[] = {{"config", required_argument, NULL, 'c'},
		{"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
	const char *path = DEFAULT_FILE;
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
			fputs(help, stderr);
			return 2;
		}
	}
	if (optind < argc) {
		fprintf(stderr, "sluice run: \"%s\" is left over; a file is given as -c FILE\n%s",
			argv[optind], help);
		return 2;
	}
	return cli_run(path);
}
