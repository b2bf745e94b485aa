/* See health_share.h. */
#include "config.h"

#include "daemon/health_share.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "daemon/probers.h"
#include "daemon/daemon.h"
#include "fleet/fleet.h"

bool health_share_begin(struct daemon *daemon)
{
#ifdef HAVE_REDIS
	daemon->probers = probers_new(&daemon->node.loop, daemon->checks,
		fleet_members(daemon->node.fleet)->default_name);
	if (!daemon->probers)
		log_error("health_shared: %s", strerror(ENOMEM));
	return daemon->probers != NULL;
#else
	(void)daemon;
	return true;
#endif
}

void health_share_commit(struct daemon *daemon)
{
#ifdef HAVE_REDIS
	probers_commit(daemon->probers, daemon->site);
#else
	(void)daemon;
#endif
}

void health_share_leave(struct daemon *daemon)
{
#ifdef HAVE_REDIS
	probers_leave(daemon->probers);
#else
	(void)daemon;
#endif
}

void health_share_end(struct daemon *daemon)
{
#ifdef HAVE_REDIS
	probers_free(daemon->probers);
#endif
	daemon->probers = NULL;
}
