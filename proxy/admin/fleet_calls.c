#include "base/list.h"
#include "config.h"

#ifdef HAVE_REDIS

#include "admin/fleet_calls.h"

#include <stdlib.h>

#include "admin/background.h"
#include "admin/request.h"
#include "base/container.h"
#include "daemon/daemon.h"

#define RETRY_AFTER_S 1

struct fleet_calls {
	struct daemon *daemon;
	struct pending *pending;
	struct fleet_call *first;
	unsigned count;
};

struct fleet_calls *fleet_calls_new(struct daemon *daemon, struct pending *pending)
{
	struct fleet_calls *all = calloc(1, sizeof(*all));

	if (all)
		*all = (struct fleet_calls){.daemon = daemon, .pending = pending};
	return all;
}

void fleet_calls_drop(struct fleet_call *call)
{
	struct fleet_calls *all = call->all;

	CHAIN_REMOVE(all->first, call, prev, next);
	all->count--;
	inquiry_end(&call->inquiry);
	site_release(call->site);
	free(call->more);
	free(call);
}

void fleet_calls_free(struct fleet_calls *all)
{
	if (!all)
		return;
	while (all->first)
		fleet_calls_drop(all->first);
	free(all);
}

static void on_done(struct inquiry *inquiry)
{
	struct fleet_call *call = CONTAINER_OF(inquiry, struct fleet_call, inquiry);

	if (inquiry->is_answered) {
		call->respond(call);
	} else {
		call->request->retry_after_s = RETRY_AFTER_S;
		admin_respond_problem(call->request, 503,
			"The store of the fleet, which counts the callers of its limits, does not "
			"answer.");
	}
	pending_answer(call->all->pending, call->request);
	fleet_calls_drop(call);
}

struct fleet_call *fleet_calls_add(
	struct admin_request *request, void (*respond)(struct fleet_call *call))
{
	struct fleet_calls *all = request->fleet_calls;
	const struct node *node = &all->daemon->node;
	struct fleet_call *call = NULL;

	/* One that has ended answers nothing. */
	if (atomic_load(&node->running) == node->worker_count && all->count < FLEET_CALLS)
		call = calloc(1, sizeof(*call));
	if (!call) {
		request->retry_after_s = RETRY_AFTER_S;
		admin_respond_problem(request, 503,
			"Too many requests about the fleet's callers are in progress, sluice is "
			"stopping, or there is no memory.");
		return NULL;
	}
	call->site = site_hold(all->daemon->site);
	call->request = request;
	call->respond = respond;
	call->inquiry.done = on_done;
	call->all = all;
	CHAIN_PUSH(all->first, call, prev, next);
	all->count++;
	return call;
}

void fleet_calls_begin(struct fleet_call *call)
{
	struct daemon *daemon = call->all->daemon;

	call->request->is_pending = true;
	inquiry_begin(&call->inquiry, daemon->node.workers[0], &daemon->node.loop);
}

#endif
