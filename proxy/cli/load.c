#include "cli/load.h"
#include "cli/usage.h"

#include <getopt.h>
#include <stdio.h>

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
