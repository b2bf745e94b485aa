#include "fleet/ladder.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "fleet/fleet.h"
#include "fleet/batches.h"
#include "fleet/question.h"
#include "site/site.h"
#include "site/site_use.h"
#include "worker/node.h"
#include "worker/worker.h"
#include "worker/worker_clock.h"

enum {
	NAMED_MOST = 8,   /* limits of a rung that a line names */
	SAME_MS = 1000,   /* answers differ so much about one time */
	YOUNG_LEASES = 2, /* as epoch.lua has it */
};

bool ladder_init(struct ladder *ladder)
{
	for (unsigned part = 0; part <= SLOT_PARTS; part++) {
		atomic_init(&ladder->parts[part].back_ms, 0);
		atomic_init(&ladder->parts[part].forgot_ms, 0);
		atomic_init(&ladder->parts[part].young_ms, 0);
		atomic_init(&ladder->parts[part].lateness, 0);
	}
	for (size_t i = 0; i < LADDER_SHARED; i++)
		atomic_init(&ladder->shared_ms[i], 0);
	atomic_init(&ladder->any_shared_ms, 0);
	atomic_init(&ladder->nodes, 0);
	pthread_mutex_init(&ladder->lock, NULL);
	ladder->seen[0] = ladder->said[0] = '\0';
	strict_init(&ladder->strict);
	return debts_init(&ladder->debts);
}

void ladder_end(struct ladder *ladder)
{
	debts_end(&ladder->debts);
	pthread_mutex_destroy(&ladder->lock);
}

bool ladder_learn(
	struct ladder *ladder, unsigned part, const struct ladder_memory *memory, uint64_t now_ms)
{
	struct ladder_part *at = &ladder->parts[part];
	uint64_t before_ms = atomic_load_explicit(&at->forgot_ms, memory_order_relaxed);
	uint64_t young_before_ms = atomic_load_explicit(&at->young_ms, memory_order_relaxed);
	uint64_t store_us = memory->store_us, epoch = memory->epoch;
	uint64_t age_ms = store_us > epoch ? (store_us - epoch) / 1000 : 0;
	uint64_t forgot_ms = 0, young_ms = 0;

	if (epoch % 2 == 1)
		forgot_ms = now_ms > age_ms ? now_ms - age_ms : 1;
	else if (age_ms < YOUNG_LEASES * memory->lease_ms)
		young_ms = now_ms + YOUNG_LEASES * memory->lease_ms - age_ms;
	atomic_store_explicit(&at->forgot_ms, forgot_ms, memory_order_relaxed);
	atomic_store_explicit(&at->young_ms, young_ms, memory_order_relaxed);
	return forgot_ms > before_ms + SAME_MS || young_ms > young_before_ms + SAME_MS;
}

static bool is_slow(unsigned lateness)
{
	return lateness > LADDER_LATENESS_MOST / 2;
}

/* A moving average; threads that write at once lose an answer. */
bool ladder_time(struct ladder *ladder, unsigned part, bool is_late, uint64_t now_ms)
{
	_Atomic unsigned *at = &ladder->parts[part].lateness;
	unsigned before = atomic_load_explicit(at, memory_order_relaxed);
	unsigned after = before - (before + 7) / 8 + (is_late ? LADDER_LATENESS_MOST / 8 : 0);

	if (after != before)
		atomic_store_explicit(at, after, memory_order_relaxed);
	if (is_slow(before) && !is_slow(after))
		ladder_back(ladder, part, now_ms);
	return is_slow(before) != is_slow(after);
}

void ladder_back(struct ladder *ladder, unsigned part, uint64_t now_ms)
{
	atomic_store_explicit(&ladder->parts[part].back_ms, now_ms, memory_order_relaxed);
}

static size_t place_of(struct throttle_key caller)
{
	return (size_t)((caller.lo >> 32 ^ caller.lo >> 8 ^ caller.hi) % LADDER_SHARED);
}

bool ladder_share(struct ladder *ladder, struct throttle_key caller, uint64_t now_ms)
{
	uint64_t before_ms = atomic_load_explicit(&ladder->any_shared_ms, memory_order_relaxed);

	atomic_store_explicit(&ladder->shared_ms[place_of(caller)], now_ms, memory_order_relaxed);
	atomic_store_explicit(&ladder->any_shared_ms, now_ms, memory_order_relaxed);
	return before_ms + SAME_MS < now_ms;
}

void ladder_keep_to_share(struct fleet_worker *fleet, struct throttle_key caller)
{
	uint64_t now_ms = worker_now_ms(fleet->worker);

	if (ladder_share(fleet_ladder(fleet->authority), caller, now_ms))
		deadline_set(&fleet->look, now_ms, now_ms);
}

static uint64_t shared_ms_of(const struct ladder *ladder, struct throttle_key caller)
{
	if (atomic_load_explicit(&ladder->any_shared_ms, memory_order_relaxed) == 0)
		return 0;
	return atomic_load_explicit(&ladder->shared_ms[place_of(caller)], memory_order_relaxed);
}

/* ---- a limit's rung -------------------------------------------------------------------------- */

bool ladder_has(const struct conf_limit *limit)
{
	return limit->of_fleet && limit->fleet_way != CONF_FLEET_SPLIT;
}

enum conf_store_down ladder_down(const struct conf *conf, const struct conf_limit *limit)
{
	enum conf_store_down down = limit->store_down != CONF_STORE_DOWN_UNSET
					    ? limit->store_down
					    : conf->fleet.store_down;

	if (down == CONF_STORE_DOWN_STRICT && limit->fleet_way == CONF_FLEET_RELAXED)
		return CONF_STORE_DOWN_REFUSE;
	if ((down == CONF_STORE_DOWN_LOCAL || down == CONF_STORE_DOWN_STRICT) &&
		limit->fleet_way != CONF_FLEET_RELAXED &&
		(!ladder_has(limit) || !conf_limit_is_plain(limit)))
		return CONF_STORE_DOWN_REFUSE;
	return down;
}

bool ladder_has_strict(const struct conf *conf)
{
	for (size_t i = 0; i < conf->limit_count; i++) {
		if (ladder_has(&conf->limits[i]) &&
			ladder_down(conf, &conf->limits[i]) == CONF_STORE_DOWN_STRICT)
			return true;
	}
	return false;
}

static unsigned nodes_of(const struct ladder *ladder, const struct conf *conf)
{
	return conf->fleet.nodes > 0 ? conf->fleet.nodes
				     : atomic_load_explicit(&ladder->nodes, memory_order_relaxed);
}

/* When a part of the store came back, and forgot, and until when it is young; 0: never. */
struct part_times {
	uint64_t back_ms, forgot_ms, young_ms;
	bool is_slow;
};

static struct part_times times_of_part(const struct ladder *ladder, unsigned part)
{
	const struct ladder_part *at = &ladder->parts[part];

	return (struct part_times){
		.back_ms = atomic_load_explicit(&at->back_ms, memory_order_relaxed),
		.forgot_ms = atomic_load_explicit(&at->forgot_ms, memory_order_relaxed),
		.young_ms = atomic_load_explicit(&at->young_ms, memory_order_relaxed),
		.is_slow = is_slow(atomic_load_explicit(&at->lateness, memory_order_relaxed)),
	};
}

/* Of all parts the latest: no part is on a later rung by what it has. */
static struct part_times latest_times(const struct ladder *ladder, const struct conf *conf)
{
	struct part_times latest = times_of_part(ladder, 0);

	for (unsigned part = 1; conf->fleet.cluster && part <= SLOT_PARTS; part++) {
		struct part_times times = times_of_part(ladder, part);
		if (times.back_ms > latest.back_ms)
			latest.back_ms = times.back_ms;
		if (times.forgot_ms > latest.forgot_ms)
			latest.forgot_ms = times.forgot_ms;
		if (times.young_ms > latest.young_ms)
			latest.young_ms = times.young_ms;
		latest.is_slow |= times.is_slow;
	}
	return latest;
}

static struct rung_facts facts_of(struct part_times times, unsigned nodes, uint64_t now_ms)
{
	return (struct rung_facts){
		.now_ms = now_ms,
		.back_ms = times.back_ms,
		.has_forgotten = times.forgot_ms != 0,
		.forgot_ms = times.forgot_ms,
		.young_ms = times.young_ms,
		.has_share = nodes > 0,
	};
}

static uint64_t window_ms_of(const struct rule *rule)
{
	return (rule->window_us + 999) / 1000;
}

static struct strict_times times_of(
	const struct conf_fleet *conf, const struct rule *rule, bool is_leased)
{
	return (struct strict_times){
		.lease_ms = conf->membership_lease_ms,
		.kept_ms = conf->lost_share_ms,
		.tail_ms =
			strict_tail_ms(conf->store_timeout_ms, is_leased ? rule_term_ms(rule) : 0),
		.window_ms = window_ms_of(rule),
	};
}

static void add_strict_facts(struct rung_facts *facts, const struct strict_view *view,
	const struct strict_times *times, uint64_t quota, uint64_t now_ns)
{
	facts->strict = strict_state_of(view, times, now_ns);
	facts->tail_ms = times->tail_ms;
	facts->has_rest = strict_quota(quota, view->lost) > 0;
}

/* The store is asked for what lost nodes leave. */
static void climb_strict(
	struct account *account, struct account_charge *charge, struct rung_facts facts)
{
	const struct fleet_worker *fleet = account->worker;
	struct strict_view view = strict_look(&fleet_ladder(fleet->authority)->strict);
	struct strict_times times = times_of(&site_part(fleet->worker)->use->site->conf->fleet,
		&charge->rule, charge->way->function == FLEET_LEASE);

	add_strict_facts(&facts, &view, &times, charge->quota, worker_throttle_ns(fleet->worker));
	facts.knows_memory = fleet->parts[fleet_part_of(fleet, charge->caller)].knows_epoch;
	charge->rung = rung_of(charge->down, &facts, times.window_ms);
	charge->share = rung_share(charge->quota, (unsigned)view.divisor);
	charge->rule.quota = strict_quota(charge->quota, view.lost);
	charge->late_ns = strict_late_ns(&view, &times);
}

bool ladder_lacks_memory(const struct fleet_worker *fleet, struct throttle_key caller,
	const struct rule *rule, enum fleet_function function)
{
	struct part_times times =
		times_of_part(fleet_ladder(fleet->authority), fleet_part_of(fleet, caller));
	struct rung_facts facts = facts_of(times, 0, worker_now_ms(fleet->worker));

	facts.tail_ms = times_of(
		&site_part(fleet->worker)->use->site->conf->fleet, rule, function == FLEET_LEASE)
				.tail_ms;
	return rung_lacks_memory(&facts, window_ms_of(rule));
}

static void climb_one(
	struct account *account, struct account_charge *charge, bool has_store, bool is_asked)
{
	const struct fleet_worker *fleet = account->worker;
	const struct ladder *ladder = fleet_ladder(fleet->authority);
	unsigned nodes = nodes_of(ladder, site_part(fleet->worker)->use->site->conf);
	struct part_times times = times_of_part(ladder, fleet_part_of(fleet, charge->caller));
	struct rung_facts facts = facts_of(times, nodes, worker_now_ms(fleet->worker));

	facts.has_store = has_store;
	if (charge->down == CONF_STORE_DOWN_STRICT) {
		climb_strict(account, charge, facts);
		return;
	}
	facts.shared_ms = shared_ms_of(ladder, charge->caller);
	facts.is_slow = is_asked && times.is_slow;
	charge->rung = rung_of(charge->down, &facts, window_ms_of(&charge->rule));
	charge->is_shared = charge->down == CONF_STORE_DOWN_LOCAL &&
			    rung_is_shared(&facts, window_ms_of(&charge->rule));
	charge->share = rung_share(charge->quota, nodes);
}

void ladder_climb_one(struct account *account, struct account_charge *charge, bool has_store)
{
	climb_one(account, charge, has_store, false);
}

void ladder_climb(struct account *account, bool may_ask)
{
	for (unsigned i = 0; i < account->count; i++) {
		struct account_charge *charge = &account->charges[i];
		if (charge->way)
			climb_one(account, charge,
				may_ask && fleet_can_ask(account->worker, charge->caller), true);
	}
}

static bool is_first(const struct ladder *ladder, unsigned part,
	const struct account_charge *charge, uint64_t now_ms)
{
	const struct part_times times = times_of_part(ladder, part);
	uint64_t shared_ms = shared_ms_of(ladder, charge->caller);

	if (charge->down == CONF_STORE_DOWN_STRICT)
		return false;
	/* most stores: never lost, nor forgetful, nor slow */
	if (times.back_ms == 0 && times.forgot_ms == 0 && shared_ms == 0 && !times.is_slow)
		return true;
	struct rung_facts facts = facts_of(times, 0, now_ms);
	facts.shared_ms = shared_ms;
	facts.is_slow = times.is_slow;
	facts.has_store = true;
	return rung_of(charge->down, &facts, window_ms_of(&charge->rule)) == RUNG_STORE;
}

bool ladder_is_first(const struct account *account)
{
	const struct fleet_worker *fleet = account->worker;
	const struct ladder *ladder = fleet_ladder(fleet->authority);

	for (unsigned i = 0; i < account->count; i++) {
		const struct account_charge *charge = &account->charges[i];
		if (!is_first(ladder, fleet_part_of(fleet, charge->caller), charge,
			    worker_now_ms(fleet->worker)))
			return false;
	}
	return true;
}

/* ---- for people ------------------------------------------------------------------------------ */

static void look_at_strict(const struct ladder *ladder, const struct conf *conf,
	const struct conf_limit *limit, struct ladder_sight *sight, struct rung_facts *facts)
{
	struct strict_view view = strict_look(&ladder->strict);
	struct rule rule = rule_of(limit);
	struct strict_times times =
		times_of(&conf->fleet, &rule, limit->fleet_way == CONF_FLEET_LEASE);

	sight->nodes = (unsigned)view.divisor;
	add_strict_facts(facts, &view, &times, limit->amount,
		facts->now_ms * CLOCK_NS_PER_MS + view.ahead_ns);
	facts->knows_memory = true;
}

static struct ladder_sight look(const struct authority *authority, const struct node *node,
	const struct conf *conf, const struct conf_limit *limit, struct part_times times,
	uint64_t now_ms)
{
	const struct ladder *ladder = fleet_ladder_of(authority);
	struct ladder_sight sight = {
		.down = ladder_down(conf, limit), .nodes = nodes_of(ladder, conf)};
	struct rung_facts facts = facts_of(times, sight.nodes, now_ms);

	facts.shared_ms = atomic_load_explicit(
		&ladder->any_shared_ms, memory_order_relaxed); /* a time alone */
	facts.is_slow = times.is_slow && limit->fleet_way != CONF_FLEET_RELAXED;
	facts.has_store = atomic_load(&node->store_links) == node->worker_count;
	if (sight.down == CONF_STORE_DOWN_STRICT)
		look_at_strict(ladder, conf, limit, &sight, &facts);
	sight.rung = rung_of(sight.down, &facts, limit->per_ns / CLOCK_NS_PER_MS + 1);
	return sight;
}

struct ladder_sight ladder_look(const struct authority *authority, const struct node *node,
	const struct conf *conf, const struct conf_limit *limit, uint64_t now_ms)
{
	return look(authority, node, conf, limit, latest_times(fleet_ladder_of(authority), conf),
		now_ms);
}

/* Text that grows to a bound. */
struct line {
	char *at;
	size_t len, size;
};

static void write_word(struct line *line, const char *before, const char *word)
{
	int len = snprintf(line->at + line->len, line->size - line->len, "%s%.64s", before, word);

	line->len += len > 0 ? (size_t)len : 0;
	if (line->len >= line->size)
		line->len = line->size - 1;
}

/* The limits on this rung. Returns how many there are. */
static unsigned write_rung(
	struct line *line, enum rung rung, const enum rung *rungs, const struct conf *conf)
{
	unsigned count = 0;

	for (size_t i = 0; i < conf->limit_count; i++) {
		if (rungs[i] != rung || !ladder_has(&conf->limits[i]))
			continue;
		if (count == 0)
			write_word(line, line->len > 0 ? ", " : "", rung_name(rung));
		if (count < NAMED_MOST)
			write_word(line, count == 0 ? " (" : ", ", conf->limits[i].name);
		count++;
	}
	if (count > NAMED_MOST)
		write_word(line, ", ", "...");
	if (count > 0)
		write_word(line, "", ")");
	return count;
}

/* "store (a, b), share (c)". True: some limit is on another rung than STORE. */
static bool describe(const struct authority *authority, const struct node *node,
	const struct conf *conf, uint64_t now_ms, char *text)
{
	struct line line = {text, 0, LADDER_TEXT_BYTES};
	struct part_times times = latest_times(fleet_ladder_of(authority), conf);
	enum rung rungs[THROTTLE_MAX_LIMITS];
	unsigned off = 0;

	text[0] = '\0';
	for (size_t i = 0; i < conf->limit_count && i < THROTTLE_MAX_LIMITS; i++)
		rungs[i] = look(authority, node, conf, &conf->limits[i], times, now_ms).rung;
	for (enum rung rung = 0; rung < RUNGS; rung++) {
		unsigned count = write_rung(&line, rung, rungs, conf);
		if (rung != RUNG_STORE)
			off += count;
	}
	return off > 0;
}

/* Once for each text that two looks have found. */
static bool note(struct ladder *ladder, const char *text, bool is_off)
{
	bool is_first = ladder->said[0] == '\0', is_known = strcmp(ladder->said, text) == 0;

	if (strcmp(ladder->seen, text) != 0) {
		strcpy(ladder->seen, text);
		return is_off || !is_known;
	}
	if (!is_known && is_off)
		log_warn("limits of the fleet: %s", text);
	else if (!is_known && !is_first)
		log_info("limits of the fleet: %s", text);
	strcpy(ladder->said, text);
	return is_off;
}

bool ladder_note(struct authority *authority, const struct node *node, const struct conf *conf,
	uint64_t now_ms)
{
	struct ladder *ladder = fleet_ladder(authority);
	char text[LADDER_TEXT_BYTES];
	bool is_off = describe(authority, node, conf, now_ms, text);

	pthread_mutex_lock(&ladder->lock);
	bool goes_on = note(ladder, text, is_off);
	pthread_mutex_unlock(&ladder->lock);
	return goes_on;
}
