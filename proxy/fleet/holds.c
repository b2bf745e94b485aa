#include "fleet/holds.h"

#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/container.h"
#include "fleet/batches.h"
#include "fleet/question.h"
#include "site/site.h"
#include "site/site_use.h"
#include "worker/worker.h"

enum {
	RENEWED_MOST = 256, /* in a turn */
	RENEWALS = 3,       /* in a lease's length */
	HOLDER_BITS = 52,
	CONNECTIONS = 4096, /* numbers of a holder, one for each connection: holders.lua */
};

static uint64_t renewal_ms(const struct holds *holds)
{
	return site_part(holds->fleet->worker)->use->site->conf->fleet.membership_lease_ms /
	       RENEWALS;
}

/* A limit's name is the same text as long as the worker. */
static uint64_t hash_of(const struct holds *holds, struct throttle_key caller, const char *limit)
{
	const uint64_t words[] = {caller.hi, caller.lo, (uintptr_t)limit};

	return throttle_hash(&holds->seed, words, sizeof(words)).lo;
}

static void unlink_told(struct holds *holds, struct hold *hold)
{
	*(hold->older ? &hold->older->newer : &holds->oldest) = hold->newer;
	*(hold->newer ? &hold->newer->older : &holds->newest) = hold->older;
	hold->older = hold->newer = NULL;
}

static void link_told(struct holds *holds, struct hold *hold)
{
	hold->told_ms = worker_now_ms(holds->fleet->worker);
	hold->older = holds->newest;
	*(holds->newest ? &holds->newest->newer : &holds->oldest) = hold;
	holds->newest = hold;
}

static void watch(struct holds *holds)
{
	if (holds->oldest)
		deadline_set(&holds->timer, holds->oldest->told_ms + renewal_ms(holds),
			worker_now_ms(holds->fleet->worker));
	else
		deadline_clear(&holds->timer);
}

/* The store learns of it now. */
static void told(struct holds *holds, struct hold *hold)
{
	unlink_told(holds, hold);
	link_told(holds, hold);
}

static void say(struct fleet_batch *filling, const struct hold *hold)
{
	struct batch_charge charge = {&hold->rule, hold->limit, hold->caller, 0};

	batch_hold(&filling->batch, &charge, hold->held, hold->asking == 0);
}

static void renew(struct holds *holds, struct hold *hold)
{
	struct fleet_batch *filling = fleet_filling(holds->fleet, FLEET_JUDGE, hold->caller, 1);

	if (filling && hold->held > 0)
		say(filling, hold);
	told(holds, hold); /* without the store, later */
}

/* With many, the timer's next turn continues: the oldest is still due. */
static void on_timer(struct deadline *deadline)
{
	struct holds *holds = CONTAINER_OF(deadline, struct holds, timer);
	uint64_t now_ms = worker_now_ms(holds->fleet->worker);

	for (unsigned i = 0; i < RENEWED_MOST && holds->oldest &&
			     holds->oldest->told_ms + renewal_ms(holds) <= now_ms;
		i++)
		renew(holds, holds->oldest);
	watch(holds);
}

/* False: there is no randomness. */
static bool draw_holder(struct holds *holds)
{
	uint64_t drawn;

	if (getrandom(&drawn, sizeof(drawn), 0) != sizeof(drawn))
		return false;
	holds->holder = ((drawn >> (64 - HOLDER_BITS)) | CONNECTIONS) / CONNECTIONS * CONNECTIONS;
	return true;
}

bool holds_init(struct holds *holds, struct fleet_worker *fleet)
{
	holds->fleet = fleet;
	deadline_init(&holds->timer, fleet->worker->loop.base, on_timer);
	return getrandom(&holds->seed, sizeof(holds->seed), 0) == sizeof(holds->seed) &&
	       draw_holder(holds);
}

/* Of one that has had all its numbers the last lease counts beside those of the next, until it is
 * over. */
void holds_leave_connection(struct holds *holds)
{
	uint64_t next = holds->holder + 1;

	if (next % CONNECTIONS != 0 || !draw_holder(holds))
		holds->holder = next;
}

void holds_end(struct holds *holds)
{
	deadline_end(&holds->timer);
	while (holds->oldest) {
		struct hold *hold = holds->oldest;
		unlink_told(holds, hold);
		free(hold);
	}
	hash_table_end(&holds->hashed);
}

static struct hold *add(
	struct holds *holds, const char *limit, struct throttle_key caller, uint64_t hash)
{
	struct hold *hold = calloc(1, sizeof(*hold));

	if (!hold || !hash_table_add(&holds->hashed, &hold->link, hash)) {
		free(hold);
		return NULL;
	}
	hold->limit = limit;
	hold->caller = caller;
	link_told(holds, hold);
	watch(holds);
	return hold;
}

static struct hold *find(
	struct holds *holds, const char *limit, struct throttle_key caller, uint64_t hash)
{
	struct hash_link *link = hash_table_first(&holds->hashed, hash);

	for (; link; link = hash_table_next(&holds->hashed, link)) {
		struct hold *hold = CONTAINER_OF(link, struct hold, link);
		if (hold->limit == limit && hold->caller.lo == caller.lo &&
			hold->caller.hi == caller.hi)
			return hold;
	}
	return NULL;
}

struct hold *hold_begin(struct holds *holds, struct fleet_batch *filling, const struct rule *rule,
	const char *limit, struct throttle_key caller)
{
	uint64_t hash = hash_of(holds, caller, limit);
	struct hold *hold = find(holds, limit, caller, hash);

	if (!hold)
		hold = add(holds, limit, caller, hash);
	if (!hold)
		return NULL;
	hold->rule = *rule;
	if (hold->held > 0)
		say(filling, hold);
	hold->asking++;
	told(holds, hold);
	return hold;
}

static void free_unless_used(struct holds *holds, struct hold *hold)
{
	if (hold->held > 0 || hold->asking > 0)
		return;
	hash_table_remove(&holds->hashed, &hold->link);
	unlink_told(holds, hold);
	free(hold);
	watch(holds);
}

void hold_end(struct holds *holds, struct hold *hold, uint64_t more)
{
	hold->asking--;
	hold->held += more;
	free_unless_used(holds, hold);
}

void hold_drop(struct holds *holds, struct hold *hold, uint64_t less)
{
	struct fleet_batch *filling = fleet_filling(holds->fleet, FLEET_JUDGE, hold->caller, 1);
	struct batch_charge charge = {&hold->rule, hold->limit, hold->caller, less};

	if (filling) {
		say(filling, hold);
		batch_give(&filling->batch, &charge, 1, 0); /* of any epoch */
	}
	hold->held -= less < hold->held ? less : hold->held;
	told(holds, hold);
	free_unless_used(holds, hold);
}
