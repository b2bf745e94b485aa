/* See check.h. */
#include "cli/check.h"

#include <getopt.h>
#include <stdbool.h>
#include <stdio.h>

#include "cli/load.h"
#include "cli/places.h"
#include "cli/usage.h"
#include "conf/conf.h"
#include "conf/reference.h"
#include "site/certificates.h"
#include "site/servers_tls.h"

const char cli_check_help[] =
	"usage: sluice check [-c FILE] [--dump]\n"
	"       sluice check --keys\n"
	"\n"
	"Reads a configuration and lists every error in it, with file and line, and the files\n"
	"and folders in it that can't be written.\n"
	"Exits with 0 if there are no errors, otherwise with 1; warnings do not count.\n"
	"\n"
	"  -c, --config FILE  the configuration (default: " CLI_DEFAULT_FILE ")\n"
	"      --dump         print the configuration in effect, with all defaults\n"
	"      --keys         print all sections and keys, with types and defaults\n"
	"  -h, --help         print this\n";

static const struct conf *load(const char *path)
{
	struct conf *conf = cli_load(path);

	for (size_t i = 0; conf && i < conf->warning_count; i++)
		fprintf(stderr, "%s:%u: warning: %s\n",
			CONF_PLACE_ARGS(conf, conf->warnings[i].line), conf->warnings[i].text);
	return conf;
}

static void print_count(size_t count, const char *one, const char *many, const char *after)
{
	printf("%zu %s%s", count, count == 1 ? one : many, after);
}

int cli_check(const char *path)
{
	const struct conf *conf = load(path);

	if (!conf)
		return 1;
	bool certificates_are_good = certificates_check(conf);
	certificates_are_good &= servers_tls_check(conf);
	if (!cli_check_places(conf) || !certificates_are_good) {
		conf_release(conf);
		return 1;
	}
	printf("%s: ok (", path);
	print_count(conf->listener_count, "listener", "listeners", ", ");
	print_count(conf->upstream_count, "upstream", "upstreams", ", ");
	print_count(conf->route_count, "route", "routes", ", ");
	print_count(conf->limit_count, "limit", "limits", ", ");
	print_count(conf->plan_count, "plan", "plans", ")\n");
	conf_release(conf);
	return 0;
}

int cli_check_dump(const char *path)
{
	const struct conf *conf = load(path);

	if (!conf)
		return 1;
	reference_dump(conf, stdout);
	conf_release(conf);
	return 0;
}

int cli_check_run(int argc, char **argv)
{
	enum { LONG_DUMP = 256, LONG_KEYS };
	static const struct option long_options[] = {{"config", required_argument, NULL, 'c'},
		{"dump", no_argument, NULL, LONG_DUMP}, {"keys", no_argument, NULL, LONG_KEYS},
		{"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
	const char *path = CLI_DEFAULT_FILE;
	bool dump = false;
	int given;

	optind = 1; /* argv[0] is `sluice check` */
	while ((given = getopt_long(argc, argv, "c:h", long_options, NULL)) != -1) {
		switch (given) {
		case 'c':
			path = optarg;
			break;
		case LONG_DUMP:
			dump = true;
			break;
		case LONG_KEYS:
			reference_print_text(stdout);
			return 0;
		case 'h':
			fputs(cli_check_help, stdout);
			return 0;
		default:
			usage_refer("check");
			return 2;
		}
	}
	if (cli_has_rest("check", argc, argv))
		return 2;
	return dump ? cli_check_dump(path) : cli_check(path);
}
