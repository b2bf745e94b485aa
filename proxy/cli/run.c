#include "cli/run.h"

#include <stdio.h>

#include "conf/conf.h"
#include "relay/relay.h"

int cli_run(const char *path)
{
	struct conf_errors errors = {0};
	struct conf *conf = conf_load(path, &errors);

	for (size_t i = 0; i < errors.count; i++)
		fprintf(stderr, "%s\n", errors.items[i].text);
	conf_errors_free(&errors);
	if (!conf) {
		fprintf(stderr, "sluice: nothing was started\n");
		return 1;
	}
	if (conf->admin_bind)
		fprintf(stderr, "%s: [admin] bind has no effect yet: nothing listens there\n",
			path);
	return relay_run(conf);
}
