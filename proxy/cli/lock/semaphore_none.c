/* `sluice semaphore` in a build without librabbitmq: no command is found. See semaphore_verbs.h. */
#include <stdio.h>

#include "cli/lock/semaphore.h"
#include "cli/lock/semaphore_verbs.h"
#include "cli/lock/lock_command.h"
#include "cli/lock/lock_list.h"

const struct semaphore_verb *semaphore_verb_find(const char *word)
{
	(void)word;
	fputs("sluice semaphore: needs RabbitMQ; this sluice was built without it (configure "
	      "--without-rabbitmq)\n",
		stderr);
	return NULL;
}

bool semaphore_verb_takes_count(const struct semaphore_verb *verb)
{
	(void)verb;
	return false;
}

bool semaphore_verb_takes_ensure(const struct semaphore_verb *verb)
{
	(void)verb;
	return false;
}

bool semaphore_verb_takes_command(const struct semaphore_verb *verb)
{
	(void)verb;
	return false;
}

int semaphore_verb_run(const struct semaphore_call *call)
{
	(void)call;
	return SEMAPHORE_EXIT_REFUSED;
}

/* ---- lock none ------------------------------------------------------------------------------ */

/* `sluice lock` and `sluice locks` in a build without hiredis. */

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
