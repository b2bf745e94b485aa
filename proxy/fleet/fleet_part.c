#include "fleet/fleet_part.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/container.h"
#include "base/log.h"
#include "fleet/batches.h"
#include "fleet/fleet.h"
#include "fleet/fleet_ask.h"
#include "fleet/ladder.h"
#include "store/store_server.h"
#include "site/site.h"
#include "site/site_use.h"
#include "stats/stats.h"
#include "worker/worker_clock.h"

/* How often rungs are looked at while some limit is not on the first. */
enum { LOOK_MS = 100 };

/* Places of debts that a turn looks at: 1.5 ms of work when all are taken. */
#define PAID_AT_ONCE 4096

static const struct conf_fleet *conf_of(const struct fleet_worker *fleet)
{
	return &site_part(fleet->worker)->use->site->conf->fleet;
}

/* ---- batches --------------------------------------------------------------------------------- */

static void judged(struct fleet_batch *batch, const char *bytes, size_t len)
{
	fleet_answer(batch->worker, batch->first, bytes, len);
}

/* What an answer says of a part of the store: its epoch, and its clock. */
static void learn(struct fleet_worker *fleet, unsigned part, const struct answer *answer)
{
	uint64_t now_ms = worker_now_ms(fleet->worker);

	members_learn_epoch(fleet_members(fleet->authority), fleet->store_id, part, answer->epoch);
	const struct ladder_memory memory = {
		answer->epoch, answer->now_us, conf_of(fleet)->membership_lease_ms};
	bool has_changed = ladder_learn(fleet_ladder(fleet->authority), part, &memory, now_ms);
	fleet->parts[part].knows_epoch = true;
	if (has_changed)
		deadline_set(&fleet->look, now_ms, now_ms);
}

static void timed(struct fleet_worker *fleet, unsigned part, bool is_late)
{
	uint64_t now_ms = worker_now_ms(fleet->worker);

	if (ladder_time(fleet_ladder(fleet->authority), part, is_late, now_ms))
		deadline_set(&fleet->look, now_ms, now_ms);
}

static const struct batches_calls batches_calls = {
	.answered = {[FLEET_JUDGE] = judged, [FLEET_LEASE] = lease_answer},
	.timed = timed,
	.learn = learn,
};

bool fleet_knows_epoch(const struct fleet_worker *fleet, struct throttle_key caller)
{
	return fleet->parts[fleet_part_of(fleet, caller)].knows_epoch;
}

/* At the end of a round: what it asked leaves in one call. */
static bool send_all(struct loop_stage *stage)
{
	struct fleet_worker *fleet = worker_fleet(CONTAINER_OF(stage, struct worker, fleet_stage));
	bool has_work = false;

	for (int i = 0; fleet && i < FLEET_FUNCTIONS; i++)
		has_work |= batches_send(fleet, i);
	if (fleet)
		has_work |= locks_send(&fleet->locks);
	if (fleet)
		store_link_flush(&fleet->store);
	return has_work;
}

struct locks *fleet_locks(struct worker *worker)
{
	return &worker_fleet(worker)->locks;
}

/* ---- the store ------------------------------------------------------------------------------- */

static void count_link(struct fleet_worker *fleet, bool is_ready)
{
	atomic_uint *links = &fleet->worker->node->store_links;

	if (is_ready && !fleet->is_linked)
		atomic_fetch_add(links, 1);
	else if (!is_ready && fleet->is_linked)
		atomic_fetch_sub(links, 1);
	fleet->is_linked = is_ready;
}

/* The first worker speaks for the node. */
static void join(struct fleet_worker *fleet)
{
	const struct conf_fleet *conf = conf_of(fleet);

	if (fleet->store.state != STORE_READY)
		return;
	relaxing_begin(&fleet->relaxing, fleet->prefix);
	if (fleet->worker->index != 0)
		return;
	joining_begin(&fleet->joining, fleet->prefix, conf->node, conf->membership_lease_ms);
	splitting_begin(&fleet->splitting, fleet->prefix, fleet->joining.name);
	strict_list_begin(&fleet->strict, fleet->prefix,
		ladder_has_strict(site_part(fleet->worker)->use->site->conf));
}

/* A part of the store that this worker has found, found again, or lost. One that has forgotten
 * learns of it from the first node that comes back, and says so to all the others. True: found
 * again. */
static bool note_part(struct fleet_worker *fleet, unsigned part, bool is_there)
{
	struct fleet_part_state *state = &fleet->parts[part];
	bool is_back = is_there && state->was_lost;

	if (!is_there) {
		*state = (struct fleet_part_state){.was_lost = true};
		return false;
	}
	state->was_lost = false;
	if (is_back)
		ladder_back(fleet_ladder(fleet->authority), part, worker_now_ms(fleet->worker));
	if (is_back || part == 0)
		batches_send_part(fleet, FLEET_JUDGE, part);
	return is_back;
}

static bool note_parts(struct fleet_worker *fleet)
{
	unsigned first = fleet->store.cluster ? 1 : 0, last = first * SLOT_PARTS;
	bool is_back = false, is_lost = false;

	for (unsigned part = first; part <= last; part++) {
		bool is_there = store_link_has(&fleet->store, slot_of_part(part));
		is_lost |= !is_there && !fleet->parts[part].was_lost;
		is_back |= note_part(fleet, part, is_there);
	}
	if (is_lost)
		holds_leave_connection(&fleet->holds);
	return is_back;
}

/* ---- what is owed to it ---------------------------------------------------------------------- */

static bool pay_debt(void *whose, const struct debt *debt, uint64_t cost)
{
	struct fleet_worker *fleet = whose;
	enum fleet_function function = debt->is_leased ? FLEET_LEASE : FLEET_JUDGE;
	struct fleet_batch *filling = fleet_filling(fleet, function, debt->caller, 1);
	struct batch_charge charge = {&debt->rule, debt->limit, debt->caller, cost};

	if (filling)
		batch_charge(&filling->batch, &charge);
	return filling != NULL;
}

/* Before the node says that it is there: the store runs the calls of a connection in their order.
 */
static bool pay_some(struct fleet_worker *fleet, size_t most)
{
	if (debts_pay_some(fleet_debts(fleet->authority), worker_throttle_ns(fleet->worker), most,
		    pay_debt, fleet))
		return false;
	for (int i = 0; i < FLEET_FUNCTIONS; i++)
		batches_send(fleet, i);
	return true;
}

static void pay_later(struct fleet_worker *fleet)
{
	uint64_t now_ms = worker_now_ms(fleet->worker);

	deadline_clear(&fleet->pay_more);
	deadline_set(&fleet->pay_more, now_ms, now_ms);
}

static bool pay_debts(struct joining *joining, bool may_wait)
{
	struct fleet_worker *fleet = CONTAINER_OF(joining, struct fleet_worker, joining);

	if (!fleet->is_paying) {
		checking_ask(&fleet->checking);
		fleet->is_paying = fleet->was_paid = true;
		debts_pay_begin(fleet_debts(fleet->authority));
	}
	if (pay_some(fleet, may_wait ? PAID_AT_ONCE : SIZE_MAX))
		return true;
	pay_later(fleet);
	return false;
}

/* The next turn's part. Without the store the rest stays owed. */
static void on_pay_more(struct deadline *deadline)
{
	struct fleet_worker *fleet = CONTAINER_OF(deadline, struct fleet_worker, pay_more);

	if (!fleet->joining.is_preparing)
		return;
	if (fleet->store.state != STORE_READY || pay_some(fleet, PAID_AT_ONCE))
		joining_go_on(&fleet->joining);
	else
		pay_later(fleet);
}

/* Of a cluster a fifth of the parts that this node has known, so that it asks all of them within
 * two leases, as long as a part is young (epoch.lua). */
static void ask_parts_for_epoch(struct fleet_worker *fleet)
{
	struct members *members = fleet_members(fleet->authority);

	for (unsigned i = 0; i < 1 + SLOT_PARTS / 5; i++) {
		fleet->memory_part = fleet->memory_part % SLOT_PARTS + 1;
		if (members_epoch(members, fleet->store_id, fleet->memory_part) != 0)
			batches_send_part(fleet, FLEET_JUDGE, fleet->memory_part);
	}
}

/* A store that was emptied learns of that from the nodes that remember, and these from its answer.
 * One that has nothing to ask says so with each renewal: before others trust the store. */
static void ask_for_epoch(struct fleet_worker *fleet)
{
	const struct conf *conf = site_part(fleet->worker)->use->site->conf;
	bool has_limits = false;

	for (size_t i = 0; i < conf->limit_count; i++)
		has_limits |= ladder_has(&conf->limits[i]);
	if (has_limits && fleet->store.cluster)
		ask_parts_for_epoch(fleet);
	else if (has_limits)
		batches_send_part(fleet, FLEET_JUDGE, 0);
}

static void on_joined(struct joining *joining, bool is_answered)
{
	struct fleet_worker *fleet = CONTAINER_OF(joining, struct fleet_worker, joining);
	struct ladder *ladder = fleet_ladder(fleet->authority);

	if (fleet->is_paying)
		debts_paid(&ladder->debts, is_answered && fleet->was_paid,
			worker_throttle_ns(fleet->worker));
	fleet->is_paying = false;
	if (!is_answered)
		return;
	ask_for_epoch(fleet);
	unsigned count = atomic_load_explicit(
		&joining->members->count, memory_order_relaxed); /* this thread's */
	unsigned nodes =
		standing_note(&joining->standing, joining->asked_ms, joining->lease_ms, count);
	atomic_store_explicit(&ladder->nodes, nodes, memory_order_relaxed); /* a number alone */
}

/* ---- its rungs, for the log ------------------------------------------------------------------ */

static void look_at_rungs(struct fleet_worker *fleet)
{
	const struct worker *worker = fleet->worker;
	uint64_t now_ms = worker_now_ms(fleet->worker);

	deadline_clear(&fleet->look);
	if (ladder_note(fleet->authority, worker->node, site_part(worker)->use->site->conf, now_ms))
		deadline_set(&fleet->look, now_ms + LOOK_MS, now_ms);
}

static void on_look(struct deadline *deadline)
{
	look_at_rungs(CONTAINER_OF(deadline, struct fleet_worker, look));
}

/* What people see of a cluster is what the first worker has. */
static void note_primaries(struct fleet_worker *fleet)
{
	char *text = NULL;
	size_t len = 0;
	FILE *out;

	if (fleet->worker->index != 0)
		return;
	out = fleet->store.cluster ? open_memstream(&text, &len) : NULL;
	if (out) {
		cluster_describe(fleet->store.cluster, out);
		fclose(out);
	}
	members_note_primaries(fleet_members(fleet->authority), text);
}

/* For people: until it is connected to all of the store, why not. */
static void note_away(struct fleet_worker *fleet, bool is_linked)
{
	const char *why = fleet->store.why[0] ? fleet->store.why : "not connected to all primaries";

	trouble_note(fleet_trouble(fleet->authority), &fleet->away, is_linked ? NULL : why,
		clock_monotonic_ns());
}

/* One line for a connection. */
static void on_refused(struct store_link *store, struct trouble_mark *mark, const char *why)
{
	struct fleet_worker *fleet = CONTAINER_OF(store, struct fleet_worker, store);

	trouble_note(fleet_trouble(fleet->authority), mark, why, clock_monotonic_ns());
	if (why && !fleet->has_warned) {
		log_warn("store %s: it refuses calls: %s; store_down decides (worker %u)",
			conf_of(fleet)->store.text, why, fleet->worker->index);
		fleet->has_warned = true;
	}
}

static void on_changed(struct store_link *store, bool failed)
{
	struct fleet_worker *fleet = CONTAINER_OF(store, struct fleet_worker, store);
	const struct conf_fleet *conf = conf_of(fleet);
	bool was_linked = fleet->is_linked, is_linked = store_link_has_all(store);
	unsigned index = fleet->worker->index;

	count_link(fleet, is_linked);
	note_away(fleet, is_linked);
	note_primaries(fleet);
	bool is_back = note_parts(fleet), is_ready = store->state == STORE_READY;
	if (is_back || (is_ready && !fleet->was_ready))
		join(fleet);
	fleet->was_ready = is_ready;
	if (!is_ready) {
		fleet->has_warned = false;
		checking_renew(&fleet->checking);
	}
	if (is_linked && !was_linked)
		log_info("store %s: connected (worker %u)", conf->store.text, index);
	if (failed)
		log_warn("store %s: %s; until it answers, store_down decides%s (worker %u)",
			conf->store.text, store->why, store->cluster ? " for its callers" : "",
			index);
	look_at_rungs(fleet);
}

static void on_redirected(struct store_link *store, enum redirect_kind kind)
{
	static const int slots[] = {[REDIRECT_MOVED] = STATS_STORE_MOVED,
		[REDIRECT_ASK] = STATS_STORE_ASK,
		[REDIRECT_LATER] = STATS_STORE_LATER,
		[REDIRECT_UNSERVED] = STATS_STORE_CLUSTER_DOWN,
		[REDIRECT_DOWN] = STATS_STORE_CLUSTER_DOWN};

	worker_count(CONTAINER_OF(store, struct fleet_worker, store)->worker, slots[kind]);
}

static void leave_store(struct fleet_worker *fleet)
{
	leases_return(&fleet->leases);
	batches_send(fleet, FLEET_LEASE);
	relaxing_leave(&fleet->relaxing);
	if (fleet->worker->index == 0) {
		joining_leave(&fleet->joining);
		splitting_leave(&fleet->splitting);
		strict_list_leave(&fleet->strict);
	}
	locks_send(&fleet->locks);
	store_link_flush(&fleet->store);
	if (fleet->store.state != STORE_OFF)
		store_link_close(&fleet->store);
	holds_leave_connection(&fleet->holds);
	count_link(fleet, false);
	if (fleet->authority)
		note_away(fleet, true);
	batches_drop(fleet);
	memset(fleet->parts, 0, sizeof(fleet->parts));
	fleet->was_ready = false;
	free(fleet->prefix);
	fleet->locks.prefix = fleet->prefix = NULL;
}

/* Connects to the store of the site in force, unless it is connected to it. */
static void look_at_site(struct worker *worker)
{
	struct fleet_worker *fleet = worker_fleet(worker);
	const struct conf_fleet *conf = conf_of(fleet);
	struct tls_client *tls = site_part(worker)->use->site->store_tls;

	limit_facts_take_site(&fleet->limits, site_part(worker)->use->site->conf);
	owning_take_site(&fleet->owning);
	relaxing_take_site(&fleet->relaxing);
	if (conf->store.text && store_link_is_of(&fleet->store, conf, tls) &&
		strcmp(fleet->prefix, conf->prefix) == 0) {
		store_link_take_times(&fleet->store, conf);
		fleet->authority->timeout_ms = conf->store_timeout_ms;
		fleet->locks.silence_ms = fleet_silence_ms(fleet);
		join(fleet);
		look_at_rungs(fleet);
		return;
	}
	leave_store(fleet);
	if (!conf->store.text)
		return;
	fleet->authority->timeout_ms = conf->store_timeout_ms;
	fleet->locks.prefix = fleet->prefix = strdup(conf->prefix);
	fleet->locks.silence_ms = fleet_silence_ms(fleet);
	fleet->store_id = members_store_id(conf->store.text, conf->prefix);
	if (!fleet->prefix || !store_link_open(&fleet->store, conf, tls))
		log_error("store %s: %s", conf->store.text, "out of memory");
}

/* ---- the worker's part ----------------------------------------------------------------------- */

static bool make(struct worker *worker, void *site)
{
	struct fleet_worker *fleet = calloc(1, sizeof(*fleet));

	(void)site;
	if (!fleet)
		return false;
	worker->memory[PART_FLEET] = fleet;
	fleet->worker = worker;
	fleet->authority = worker->node->fleet;
	batches_init(fleet, &batches_calls);
	worker->fleet_stage.run = send_all;
	loop_add_stage(&worker->loop, LOOP_WRITE, &worker->fleet_stage);
	deadline_init(&fleet->look, worker->loop.base, on_look);
	deadline_init(&fleet->pay_more, worker->loop.base, on_pay_more);
	locks_init(&fleet->locks, &worker->loop, &fleet->store);
	owning_init(&fleet->owning, worker);
	leases_init(&fleet->leases, fleet, fleet->authority ? fleet_hands(fleet->authority) : NULL);
	if (!holds_init(&fleet->holds, fleet))
		return false;
	checking_init(&fleet->checking, fleet->authority ? fleet_health(fleet->authority) : NULL,
		&fleet->store);
	joining_init(&fleet->joining, fleet->authority ? fleet_members(fleet->authority) : NULL,
		&worker->loop, &fleet->store);
	bool has_views = relaxing_init(&fleet->relaxing, worker, &fleet->store);
	splitting_init(&fleet->splitting, worker,
		fleet->authority ? fleet_shares(fleet->authority) : NULL, &fleet->store);
	strict_list_init(&fleet->strict, worker,
		fleet->authority ? fleet_ladder(fleet->authority) : NULL, &fleet->store);
	fleet->joining.before = pay_debts;
	fleet->joining.after = on_joined;
	bool has_store = store_link_init(&fleet->store, &worker->loop,
		clock_monotonic_ns() ^ (uint64_t)getpid() << 32 ^ worker->index, on_changed,
		on_redirected);
	fleet->store.refused = on_refused;
	fleet->store.streams = &worker->streams;
	return has_store && has_views && hash_table_begin(&fleet->open);
}

static void end(struct worker *worker)
{
	owning_leave(&worker_fleet(worker)->owning);
	leave_store(worker_fleet(worker));
	loop_finish_turn(&worker->loop); /* replies that are on their way */
	batches_end(worker_fleet(worker));
	deadline_end(&worker_fleet(worker)->look);
	deadline_end(&worker_fleet(worker)->pay_more);
	joining_end(&worker_fleet(worker)->joining);
	owning_end(&worker_fleet(worker)->owning);
	splitting_end(&worker_fleet(worker)->splitting);
	relaxing_end(&worker_fleet(worker)->relaxing);
	strict_list_end(&worker_fleet(worker)->strict);
	store_link_end(&worker_fleet(worker)->store);
	locks_end(&worker_fleet(worker)->locks);
	leases_end(&worker_fleet(worker)->leases);
	holds_end(&worker_fleet(worker)->holds);
}

static void free_part(struct worker *worker)
{
	struct fleet_worker *fleet = worker_fleet(worker);

	if (!fleet)
		return;
	batches_clear(fleet);
	questions_clear(fleet);
	periods_free(fleet->periods);
	names_free(fleet->store.names); /* of a worker that never began */
	free(fleet);
	worker->memory[PART_FLEET] = NULL;
}

/* What it has asked about sessions is heard: one that the store has given it is given up then. The
 * first one looks after what the others use, until they have ended (owners_sweep). */
static bool is_done(const struct worker *worker)
{
	const struct node *node = worker->node;

	if (!worker->stopping && worker_fleet(worker) &&
		locks_are_asked(&worker_fleet(worker)->locks))
		return false;
	/* acquire: pairs with the release of a worker's end */
	return worker->index != 0 || worker->stopping || !node_owners(node) ||
	       owners_are_none(node_owners(node)) ||
	       atomic_load_explicit(&node->running, memory_order_acquire) <= 1;
}

const struct worker_part fleet_part = {
	.make = make,
	.is_done = is_done,
	.work = "sessions of the fleet",
	.begin = look_at_site,
	.take_site = look_at_site,
	.end = end,
	.free = free_part,
};
