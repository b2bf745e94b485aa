/* See semaphores.h. */
#include "config.h"

#include "daemon/semaphores.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "daemon/daemon.h"
#include "semaphore/keeping.h"

bool semaphores_begin(struct daemon *daemon)
{
#ifdef HAVE_RABBITMQ
	daemon->keeping = keeping_new(&daemon->node.loop);
	if (!daemon->keeping)
		log_error("semaphores: %s", strerror(ENOMEM));
	return daemon->keeping != NULL;
#else
	(void)daemon;
	return true;
#endif
}

void semaphores_commit(struct daemon *daemon)
{
#ifdef HAVE_RABBITMQ
	keeping_commit(daemon->keeping, daemon->site);
#else
	(void)daemon;
#endif
}

void semaphores_end(struct daemon *daemon)
{
#ifdef HAVE_RABBITMQ
	keeping_free(daemon->keeping);
#endif
	daemon->keeping = NULL;
}
