/* See semaphores.h. */
#include "config.h"

#include "daemon/semaphores.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "daemon/relay.h"
#include "semaphore/keeping.h"

bool semaphores_begin(struct relay *relay)
{
#ifdef HAVE_RABBITMQ
	relay->keeping = keeping_new(&relay->node.loop);
	if (!relay->keeping)
		log_error("semaphores: %s", strerror(ENOMEM));
	return relay->keeping != NULL;
#else
	(void)relay;
	return true;
#endif
}

void semaphores_commit(struct relay *relay)
{
#ifdef HAVE_RABBITMQ
	keeping_commit(relay->keeping, relay->site);
#else
	(void)relay;
#endif
}

void semaphores_end(struct relay *relay)
{
#ifdef HAVE_RABBITMQ
	keeping_free(relay->keeping);
#endif
	relay->keeping = NULL;
}
