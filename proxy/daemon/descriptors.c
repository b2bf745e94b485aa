#include "daemon/descriptors.h"

#include <stdint.h>
#include <sys/resource.h>

#include "daemon/daemon.h"

/* Logs, tables, timers, DNS; a loop and its wake-up. */
#define OWN_DESCRIPTORS      24
#define DESCRIPTORS_A_WORKER 4
/* One in so many is for the files of bodies that are kept. */
#define FILES_SHARE 10

/* As many descriptors as we may have. A client needs one, and one to a server: at most half of what
 * we do not need ourselves go to clients, or requests that were accepted could not be sent on. */
void descriptors_divide(struct daemon *daemon, const struct conf *conf)
{
	struct rlimit limit;
	rlim_t own = OWN_DESCRIPTORS + (rlim_t)DESCRIPTORS_A_WORKER * daemon->node.worker_count;

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return;
	if (limit.rlim_cur < limit.rlim_max) {
		limit.rlim_cur = limit.rlim_max;
		setrlimit(RLIMIT_NOFILE, &limit);
		getrlimit(RLIMIT_NOFILE, &limit);
	}
	if (limit.rlim_cur > UINT32_MAX)
		limit.rlim_cur = UINT32_MAX;
	for (size_t i = 0; i < conf->listener_count; i++)
		own += (rlim_t)conf->listeners[i].bind_count * daemon->node.worker_count;
	/* With very few, some of each. */
	if (own > limit.rlim_cur / 2)
		own = limit.rlim_cur / 2;
	daemon->listening.descriptor_limit = (unsigned)limit.rlim_cur;
	daemon->node.store.files_max = (unsigned)(limit.rlim_cur - own) / FILES_SHARE;
	own += daemon->node.store.files_max;
	daemon->listening.clients_max = (unsigned)(limit.rlim_cur - own) / 2;
	for (size_t i = 0; i < conf->listener_count; i++) {
		const struct conf_listener *listener = &conf->listeners[i];
		if (listener->max_connections != CONF_CONNECTIONS_AUTO &&
			listener->max_connections > daemon->listening.clients_max)
			log_warn("%s:%u: listener %s: max_connections = %u is more than the limit "
				 "of %u "
				 "descriptors allows, which is %u clients",
				CONF_PLACE_ARGS(conf, listener->line), listener->name,
				listener->max_connections, daemon->listening.descriptor_limit,
				daemon->listening.clients_max);
	}
}
