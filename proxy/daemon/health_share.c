/* See health_share.h. */
#include "config.h"

#include "daemon/health_share.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "daemon/probers.h"
#include "daemon/relay.h"
#include "fleet/fleet.h"

bool health_share_begin(struct relay *relay)
{
#ifdef HAVE_REDIS
	relay->probers = probers_new(
		&relay->node.loop, relay->checks, fleet_members(relay->node.fleet)->default_name);
	if (!relay->probers)
		log_error("health_shared: %s", strerror(ENOMEM));
	return relay->probers != NULL;
#else
	(void)relay;
	return true;
#endif
}

void health_share_commit(struct relay *relay)
{
#ifdef HAVE_REDIS
	probers_commit(relay->probers, relay->site);
#else
	(void)relay;
#endif
}

void health_share_leave(struct relay *relay)
{
#ifdef HAVE_REDIS
	probers_leave(relay->probers);
#else
	(void)relay;
#endif
}

void health_share_end(struct relay *relay)
{
#ifdef HAVE_REDIS
	probers_free(relay->probers);
#endif
	relay->probers = NULL;
}
