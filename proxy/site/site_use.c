#include "site/site_use.h"

#include <stdlib.h>

#include "site/site.h"
#include "upstream/server_connection.h"
#include "upstream/server_pool.h"
#include "upstream/upstream.h"
#include "worker/worker.h"

struct site_use *site_use_new(struct worker *worker, struct site *site)
{
	struct site_use *use = malloc(sizeof(*use));

	if (use)
		*use = (struct site_use){site_hold(site), worker, 1};
	return use;
}

void site_use_free_unused(struct site_use *use)
{
	if (!use)
		return;
	site_release(use->site);
	free(use);
}

struct site_use *site_use_hold(struct site_use *use)
{
	use->count++;
	return use;
}

/* The last exchange of an old site is over: what only it had to do with is closed. */
void site_use_release(struct site_use *use)
{
	if (--use->count > 0)
		return;
	struct site *current_site =
		site_part(use->worker)->use == use ? NULL : site_part(use->worker)->use->site;
	for (size_t i = 0; i < use->site->conf->upstream_count; i++) {
		struct upstream *upstream = use->site->upstreams[i];
		for (size_t j = 0; j < upstream->server_count; j++) {
			struct server_state *state = upstream->servers[j].state;
			if (!current_site || !site_server_of(current_site, state))
				server_close_idle(state, use->worker);
		}
	}
	site_release(use->site);
	free(use);
}

static void take_site(struct worker *worker)
{
	/* acquire: pairs with the release in site_use_post, so the site is seen whole */
	struct site_use *use =
		atomic_exchange_explicit(&site_part(worker)->next, NULL, memory_order_acquire);
	struct site_use *old = site_part(worker)->use;

	if (!use)
		return;
	site_part(worker)->use = use;
	worker_site_taken(worker);
	site_use_release(old);
}

void site_use_post(struct worker *worker, struct site_use *use)
{
	/* acq_rel: release pairs with the acquire in take_site; acquire to free one not yet taken
	 */
	site_use_free_unused(
		atomic_exchange_explicit(&site_part(worker)->next, use, memory_order_acq_rel));
	worker_command(worker, WORKER_SITE);
}

/* ---- the worker's part ----------------------------------------------------------------------- */

static bool make(struct worker *worker, void *site)
{
	site_part(worker)->use = site_use_new(worker, site);
	return site_part(worker)->use != NULL;
}

static void command(struct worker *worker, unsigned commands)
{
	if (commands & WORKER_SITE)
		take_site(worker);
}

static void end_use(struct worker *worker)
{
	if (site_part(worker)->use) {
		site_part(worker)->use->count =
			1; /* an exchange cut by the shutdown may not have let go */
		site_use_release(site_part(worker)->use);
	}
	site_use_free_unused(
		atomic_exchange_explicit(&site_part(worker)->next, NULL, memory_order_acquire));
}

const struct worker_part site_use_part = {.memory = PART_SITE,
	.bytes = sizeof(struct site_part),
	.make = make,
	.command = command,
	.free = end_use};
