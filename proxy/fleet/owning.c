#include "fleet/owning.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/container.h"
#include "ownership/owner_sweep.h"
#include "store/locks.h"
#include "fleet/question.h"
#include "site/site.h"
#include "site/site_use.h"
#include "worker/worker.h"

/* One that was given up leaves its fence for so long, so that fences grow although the store's
 * clock is set back a little. */
#define GIVEN_KEEP_MS 10000

/* How often the table is looked at while it is empty. */
#define LOOK_MS 100

struct owning_ask {
	struct lock_ask ask;
	struct worker *worker;
	struct owner_session *session;
	enum owner_verb verb;
	char name[OWNER_NAME_BYTES];
	char self[OWNER_NODE_BYTES];
};

static void on_answer(struct lock_ask *lock, const struct lock_answer *answer)
{
	struct owning_ask *ask = CONTAINER_OF(lock, struct owning_ask, ask);
	const struct owner_answer said = {.is_known = answer->status != LOCK_UNKNOWN,
		.is_held = answer->status == LOCK_HELD,
		.fence = answer->fence,
		.left_ms = answer->left_ms,
		.node = answer->status == LOCK_BUSY ? answer->session : NULL};

	owners_answer(node_owners(ask->worker->node), ask->worker, ask->session, ask->verb, &said);
	free(ask);
}

static bool ask_store(struct worker *worker, const struct owner_question *question)
{
	static const enum lock_verb verbs[] = {
		[OWNER_TAKE] = LOCK_TAKE, [OWNER_RENEW] = LOCK_USE, [OWNER_GIVE] = LOCK_RELEASE};
	struct owning_ask *ask;

	if (!worker_fleet(worker) || worker_fleet(worker)->store.state != STORE_READY)
		return false;
	ask = calloc(1, sizeof(*ask));
	if (!ask)
		return false;
	ask->worker = worker;
	ask->session = question->session;
	ask->verb = question->verb;
	snprintf(ask->name, sizeof(ask->name), "%s", question->name);
	snprintf(ask->self, sizeof(ask->self), "%s", question->self);
	ask->ask = (struct lock_ask){.kind = LOCK_OF_SESSIONS,
		.verb = verbs[question->verb],
		.name = ask->name,
		.session = ask->self,
		.number = question->verb == OWNER_TAKE ? LOCK_BORN_ANY : question->fence,
		.dropped = question->verb == OWNER_TAKE ? question->fence : 0,
		.lease_ms = question->lease_ms,
		.keep_ms = question->verb == OWNER_GIVE ? GIVEN_KEEP_MS : OWNER_KEEP_MS,
		.done = on_answer};
	locks_ask(&worker_fleet(worker)->locks, &ask->ask);
	return true;
}

const struct owner_store owning_store = {ask_store};

/* ---- the worker's part ----------------------------------------------------------------------- */

static void on_sweep(struct deadline *deadline)
{
	struct owning *owning = CONTAINER_OF(deadline, struct owning, sweep);
	struct worker *worker = owning->worker;
	uint64_t now_ms = worker_now_ms(worker);

	if (worker->draining)
		owners_drain(node_owners(worker->node), false);
	uint64_t next_ms = owners_sweep(node_owners(worker->node), worker);

	deadline_clear(deadline);
	deadline_set(deadline, now_ms + (next_ms > 0 ? next_ms : LOOK_MS), now_ms);
}

void owning_init(struct owning *owning, struct worker *worker)
{
	owning->worker = worker;
	deadline_init(&owning->sweep, worker->loop.base, on_sweep);
}

void owning_take_site(struct owning *owning)
{
	struct worker *worker = owning->worker;
	const struct conf_fleet *conf = &site_part(worker)->use->site->conf->fleet;
	uint64_t now_ms = worker_now_ms(worker);

	worker->fleet_secret = &conf->secret;
	if (worker->index != 0 || !node_owners(worker->node))
		return;
	if (!conf->bind || conf->secret.len == 0) { /* other nodes do not reach this one */
		if (owners_unset_self(node_owners(worker->node)))
			node_command_workers(worker->node, WORKER_OWNERS);
		return;
	}
	if (owners_set_self(node_owners(worker->node),
		    conf->node ? conf->node : worker_fleet(worker)->joining.members->default_name,
		    conf->bind->text, conf->lease_ms, conf->max_sessions))
		node_command_workers(worker->node, WORKER_OWNERS);
	deadline_clear(&owning->sweep);
	deadline_set(&owning->sweep, now_ms + LOOK_MS, now_ms);
}

void owning_leave(struct owning *owning)
{
	struct worker *worker = owning->worker;

	if (worker->index == 0 && node_owners(worker->node))
		owners_leave(node_owners(worker->node), worker);
}

void owning_end(struct owning *owning)
{
	deadline_end(&owning->sweep);
}
