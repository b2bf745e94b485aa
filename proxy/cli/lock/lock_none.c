/* `sluice lock` and `sluice locks` in a build without hiredis. */
#include <stdio.h>

#include "cli/lock/lock_command.h"
#include "cli/lock/lock_list.h"

const char cli_lock_usage[] = "", cli_locks_usage[] = "";

static int refuse(void)
{
	fputs("sluice lock: needs Redis; this sluice was built without it (configure "
	      "--without-redis)\n",
		stderr);
	return LOCK_EXIT_USAGE;
}

int cli_lock(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	return refuse();
}

int cli_locks(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	return refuse();
}
