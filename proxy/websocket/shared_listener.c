#include "websocket/shared_listener.h"

#include <stdlib.h>

#include "site/site_use.h"

struct shared_listener *shared_listener_hold(
	struct shared_listener **all, const struct conf_listener *conf, struct site_use *use)
{
	struct shared_listener *shared = *all;

	while (shared && (shared->listener.conf != conf || shared->listener.use != use))
		shared = shared->next;
	if (!shared) {
		shared = calloc(1, sizeof(*shared));
		if (!shared)
			return NULL;
		shared->listener.conf = conf;
		shared->listener.use = site_use_hold(use);
		shared->next = *all;
		*all = shared;
	}
	shared->holders++;
	return shared;
}

void shared_listener_release(struct shared_listener **all, struct shared_listener *shared)
{
	if (!shared || --shared->holders > 0)
		return;
	while (*all != shared)
		all = &(*all)->next;
	*all = shared->next;
	site_use_release(shared->listener.use);
	free(shared);
}
