#include "upstream/probes_shown.h"

void probes_shown_init(struct probes_shown *shown)
{
	*shown = (struct probes_shown){.sight.role = PROBES_UNSHARED};
	pthread_mutex_init(&shown->lock, NULL);
}

void probes_shown_end(struct probes_shown *shown)
{
	pthread_mutex_destroy(&shown->lock);
}

void probes_shown_set(struct probes_shown *shown, const struct probes_sight *sight)
{
	pthread_mutex_lock(&shown->lock);
	shown->sight = *sight;
	pthread_mutex_unlock(&shown->lock);
}

void probes_shown_read(struct probes_shown *shown, struct probes_sight *sight)
{
	pthread_mutex_lock(&shown->lock);
	*sight = shown->sight;
	pthread_mutex_unlock(&shown->lock);
}

const char *probes_role_name(enum probes_role role)
{
	static const char *const names[PROBES_ROLES] = {[PROBES_UNSHARED] = "unshared",
		[PROBES_WAITING] = "waiting",
		[PROBES_PROBER] = "prober",
		[PROBES_FOLLOWER] = "follower",
		[PROBES_ALONE] = "alone"};

	return names[role];
}
