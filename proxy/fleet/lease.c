#include "fleet/lease.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/container.h"
#include "fleet/batches.h"
#include "fleet/fleet.h"
#include "fleet/fleet_ask.h"
#include "fleet/ladder.h"
#include "fleet/question.h"
#include "fleet/verdict.h"
#include "stats/stats.h"
#include "worker/worker_clock.h"

enum {
	SHARE_LEAST = 20, /* smaller ones are judged by the store */
	WINDOW_LEAST_MS = 1000,
	EXPECTED_LEAST = 4, /* requests in a term: fewer are not worth a lease */
	SWEEP_MS = 25,
	SWEEP_MOST = 256, /* leases looked at in a turn */
};

/* charge->slot of what the store has charged by itself; else it is the lease's name. */
#define AT_STORE 1

/* ---- what a limit gets ----------------------------------------------------------------------- */

/* At least 1. */
static unsigned nodes_of(const struct fleet_worker *fleet)
{
	/* relaxed: it sizes leases, and no promise depends on it */
	unsigned nodes =
		atomic_load_explicit(&fleet_members(fleet->authority)->count, memory_order_relaxed);

	return nodes > 0 ? nodes : 1;
}

static uint64_t share_of(const struct fleet_worker *fleet, const struct rule *rule)
{
	return rule->quota / nodes_of(fleet);
}

static bool is_small(const struct fleet_worker *fleet, const struct rule *rule)
{
	return rule->quota < (uint64_t)SHARE_LEAST * nodes_of(fleet) || /* its share is less */
	       rule->window_us < WINDOW_LEAST_MS * 1000;
}

static uint32_t term_ms_of(const struct rule *rule)
{
	return (uint32_t)rule_term_ms(rule);
}

static uint32_t now_ms(const struct fleet_worker *fleet)
{
	return hand_ms(worker_throttle_ns(fleet->worker));
}

/* The caller of one limit among those of all, by the limit's name and its quota. After a reload to
 * another quota it has another hand: what was given of a larger one is not used any more, and is
 * returned when it ends. */
static struct throttle_key key_of(const struct account_charge *charge)
{
	uint64_t hash = (charge->name_hash ^ charge->rule.quota) * LIMIT_NAME_PRIME;

	return (struct throttle_key){charge->caller.hi ^ hash, charge->caller.lo ^ hash << 16};
}

/* Locks a limit's hand. False: another worker speaks about it, or it was given to another caller
 * since it was found. */
static bool lock_hand(const struct account_charge *charge)
{
	if (!hand_lock(charge->hand))
		return false;
	if (hand_is_of(charge->hand, key_of(charge)))
		return true;
	hand_unlock(charge->hand);
	return false;
}

/* As hand_take. */
static uint64_t take_in_hand(
	const struct account_charge *charge, uint32_t units, uint32_t now, uint32_t *left)
{
	return hand_take(charge->hand, key_of(charge), units, now, left);
}

/* ---- asking the store ------------------------------------------------------------------------ */

/* Without a request and without a wish it only returns what is left. */
struct wish {
	bool ends;  /* nothing is kept */
	bool wants; /* a lease */
};

/* With store_down = strict nothing is kept for another term: it may have been given while the store
 * had more to give (strict.h). */
static struct wish wish_of(const struct account_charge *charge)
{
	return (struct wish){
		.ends = charge->down == CONF_STORE_DOWN_STRICT || charge->is_shared, .wants = true};
}

static void plan(struct fleet_worker *fleet, struct lease_part *part, struct wish wish,
	struct batch_lease *lease)
{
	uint32_t now = now_ms(fleet), term_ms = term_ms_of(&part->rule), want = 0;
	struct hand_report report = hand_report(part->hand, now, wish.ends);
	uint64_t share = share_of(fleet, &part->rule);

	if (wish.wants) {
		want = hand_expected(part->hand, now, term_ms);
		want = want < EXPECTED_LEAST ? 0 : want > share ? (uint32_t)share : want;
		want -= want < report.keep ? want : report.keep;
	}
	part->term_ms = term_ms;
	part->ends_ms = now + term_ms - term_ms / 16; /* clocks may differ in speed */
	part->wanted = want;
	*lease = (struct batch_lease){
		.slot = report.slot,
		.epoch = report.epoch,
		.units = report.units,
		.used = report.used,
		.keep = report.keep,
		.want = want,
		.term_us = rule_term_us(&part->rule),
	};
}

static struct lease_part *add_part(
	struct fleet_batch *filling, const struct leased *of, enum conf_store_down down)
{
	struct lease_part *part = &filling->parts[filling->part_count++];

	*part = (struct lease_part){.hand = of->hand,
		.caller = of->caller,
		.rule = of->rule,
		.limit = of->limit,
		.is_strict = down == CONF_STORE_DOWN_STRICT,
		.is_local = down == CONF_STORE_DOWN_LOCAL};
	return part;
}

/* About a hand that is locked. False: nothing was sent, and it still is. */
static bool ask_for(struct fleet_worker *fleet, const struct leased *of, struct wish wish,
	enum conf_store_down down)
{
	struct fleet_batch *filling = fleet_filling(fleet, FLEET_LEASE, of->caller, 1);
	struct batch_charge charge = {&of->rule, of->limit, of->caller, 0};
	struct batch_lease lease;

	if (!filling)
		return false;
	struct lease_part *part = add_part(filling, of, down);
	part->count = 1;
	plan(fleet, part, wish, &lease);
	batch_ask_lease(&filling->batch, &charge, &lease, 1);
	return true;
}

void lease_ask(struct fleet_batch *filling, struct question *question, struct account *account)
{
	struct batch_charge charges[GATE_LIMITS_MAX];
	struct batch_lease leases[GATE_LIMITS_MAX] = {0};
	struct lease_part *first = &filling->parts[filling->part_count];
	uint64_t now_ns = worker_throttle_ns(account->worker->worker);
	unsigned count = 0;

	for (unsigned i = 0; i < account->count; i++) {
		struct account_charge *charge = &account->charges[i];
		if (charge->way != &lease_way || !question_asks(question, charge))
			continue;
		struct leased of = {charge->hand, charge->caller, charge->rule, charge->limit};
		struct lease_part *part = add_part(filling, &of, charge->down);
		charges[count] = account_batch_charge(charge, account->refused ? 0 : charge->cost);
		leases[count].term_us = rule_term_us(&charge->rule);
		part->question = question;
		charge->taken_ns = now_ns; /* the store charges it later */
		if (part->hand && !account->refused && lock_hand(charge))
			plan(account->worker, part, wish_of(charge), &leases[count]);
		else
			part->hand = NULL;
		count++;
	}
	first->count = count;
	batch_ask_lease(&filling->batch, charges, leases, count);
}

/* ---- its answers ----------------------------------------------------------------------------- */

static void watch(struct leases *leases)
{
	uint64_t turn_ms = worker_now_ms(leases->fleet->worker);

	if (leases->count > 0)
		deadline_set(&leases->timer, turn_ms + SWEEP_MS, turn_ms);
	else
		deadline_clear(&leases->timer);
}

/* Without memory for it, it is not returned, and ends. */
static void list(struct leases *leases, const struct lease_part *part)
{
	if (leases->count == leases->size) {
		size_t size = leases->size > 0 ? 2 * leases->size : 64;
		struct leased *all = realloc(leases->all, size * sizeof(*all));
		if (!all)
			return;
		leases->all = all;
		leases->size = size;
	}
	leases->all[leases->count++] =
		(struct leased){part->hand, part->caller, part->rule, part->limit};
	atomic_store_explicit(&part->hand->listed, 1, memory_order_relaxed); /* the lock's */
	if (leases->count == 1)
		watch(leases);
}

/* The store has answered about a hand, which is locked. */
static void adopt(struct fleet_worker *fleet, const struct lease_part *part,
	const struct answer *said, const struct answer_lease *answer)
{
	struct hand *hand = part->hand;
	uint64_t spare = answer->used < part->rule.quota ? part->rule.quota - answer->used : 0;
	uint64_t free_ms = answer->time_us > 0 ? (uint64_t)answer->time_us / 1000 + 1 : 1;

	/* relaxed: hand_adopt releases it, and a take that reads the one before errs early */
	atomic_store_explicit(&hand->given_us, said->now_us, memory_order_relaxed);
	hand_adopt(hand, answer->slot, said->epoch, (uint32_t)answer->kept, (uint32_t)answer->got,
		part->ends_ms);
	atomic_store_explicit(&hand->spare, spare < UINT32_MAX ? (uint32_t)spare : UINT32_MAX,
		memory_order_relaxed); /* a hint */
	if (spare == 0 && answer->time_us > 0 && !is_small(fleet, &part->rule))
		hand_close(hand, now_ms(fleet),
			free_ms < part->term_ms / 4 ? (uint32_t)free_ms : part->term_ms / 4,
			free_ms < INT32_MAX ? (uint32_t)free_ms : INT32_MAX);
	else
		hand_close(hand, 0, 0, 0);
	stats_add(&stats_row(fleet->worker->stats, STATS_NODE, 0)[STATS_STORE_LEASED], answer->got);
	if (answer->slot != 0 &&
		!atomic_load_explicit(&hand->listed, memory_order_relaxed)) /* the lock's */
		list(&fleet->leases, part);
}

static void conclude(struct account_charge *charge, const struct answer *said, uint32_t now,
	bool admitted, const struct answer_lease *answer)
{
	const struct rule *rule = &charge->rule;
	uint64_t time_ns = verdict_time_ns(answer->time_us);
	uint32_t left = 0;

	if (charge->hand)
		take_in_hand(charge, 0, now, &left);
	uint64_t used = answer->used > left ? answer->used - left : 0; /* the rest is in hand */
	bool taken = admitted && answer->fits && charge->cost > 0;

	charge->said = taken ? WAY_TAKEN : WAY_UNTAKEN;
	charge->slot = taken ? AT_STORE : 0;
	charge->epoch = said->epoch;
	charge->since_us = said->now_us;
	charge->outcome = (struct throttle_outcome){
		.quota = rule->quota,
		.remaining = used < rule->quota ? rule->quota - used : 0,
		.more_ns = time_ns,
		.reset_ns = time_ns,
		.retry_after_ns = answer->fits ? 0 : time_ns,
		.violated = !answer->fits,
		.shadow = rule->shadow,
	};
}

static void conclude_all(struct question *question, const struct answer *said, bool admitted,
	const struct answer_lease *answers)
{
	struct account *account = question->account;
	uint32_t now = now_ms(account->worker);

	for (unsigned i = 0; i < account->count; i++) {
		struct account_charge *charge = &account->charges[i];
		if (charge->way == &lease_way && question_asks(question, charge))
			conclude(charge, said, now, admitted && !account->refused, answers++);
	}
	account->refused |= !admitted;
}

/* Of an operation. A lease of more than a hand holds is none that was asked for. */
static bool read_leases(
	struct answer *answer, unsigned count, bool *admitted, struct answer_lease *leases)
{
	if (!answer_leases(answer, count, admitted, leases))
		return false;
	for (unsigned i = 0; i < count; i++) {
		if (leases[i].kept > HAND_UNITS_MOST ||
			leases[i].got > HAND_UNITS_MOST - leases[i].kept)
			return false;
	}
	return true;
}

void lease_answer(struct fleet_batch *batch, const char *bytes, size_t len)
{
	struct fleet_worker *fleet = batch->worker;
	struct answer_lease answers[GATE_LIMITS_MAX];
	struct answer answer;
	bool good = bytes && answer_begin(&answer, &batch_lease, bytes, len), admitted = false;

	for (unsigned i = 0; i < batch->part_count;) {
		struct lease_part *part = &batch->parts[i];
		struct question *question = part->question;
		unsigned count = part->count;
		good = good && read_leases(&answer, count, &admitted, answers);
		for (unsigned k = 0; k < count; k++) {
			bool lacks = part[k].is_strict && ladder_lacks_memory(fleet, part[k].caller,
								  &part[k].rule, FLEET_LEASE);
			if (part[k].hand && good && !lacks)
				adopt(fleet, &part[k], &answer, &answers[k]);
			else if (part[k].hand)
				hand_lose(part[k].hand);
			if (part[k].hand)
				hand_unlock(part[k].hand);
			if (good && part[k].is_local && batch->is_late)
				ladder_keep_to_share(fleet, part[k].caller);
		}
		if (question && good)
			conclude_all(question, &answer, admitted, answers);
		if (question)
			fleet_go_on(fleet, question, good);
		i += count;
	}
	batch->part_count = 0;
}

/* ---- the way --------------------------------------------------------------------------------- */

static void fill(const struct account_charge *charge, uint32_t left, struct throttle_outcome *out)
{
	uint64_t spare =
		atomic_load_explicit(&charge->hand->spare, memory_order_relaxed); /* a hint */
	uint64_t remaining = left + spare;

	*out = (struct throttle_outcome){
		.quota = charge->rule.quota,
		.remaining = remaining < charge->rule.quota ? remaining : charge->rule.quota,
		.more_ns = charge->rule.window_us * 1000,
		.reset_ns = charge->rule.window_us * 1000,
		.shadow = charge->rule.shadow,
	};
}

/* Little is left of it, or little time. */
static inline bool ends_soon(const struct account_charge *charge, uint32_t left, uint32_t now)
{
	const struct hand *hand = charge->hand;
	uint32_t low = atomic_load_explicit(&hand->low, memory_order_relaxed); /* a hint */

	return left <= low || hand_time_left(hand, now) <= term_ms_of(&charge->rule) / 4;
}

/* A new lease now, so that no request has to wait for one. */
static __attribute__((noinline)) void renew_early(
	struct fleet_worker *fleet, const struct account_charge *charge, uint32_t now)
{
	struct hand *hand = charge->hand;
	struct leased of = {hand, charge->caller, charge->rule, charge->limit};

	if (hand_closed(hand, now) > 0 || !fleet_can_ask(fleet, charge->caller) ||
		charge->rung == RUNG_WAIT || charge->rung == RUNG_SHARE || !lock_hand(charge))
		return;
	if (!ask_for(fleet, &of, wish_of(charge), charge->down))
		hand_unlock(hand);
}

static bool refuse_closed(struct account_charge *charge, uint32_t now)
{
	uint32_t free_ms = hand_closed(charge->hand, now);

	if (free_ms == 0)
		return false;
	fill(charge, 0, &charge->outcome);
	charge->outcome.remaining = 0;
	charge->outcome.violated = true;
	charge->outcome.retry_after_ns = charge->cost > charge->rule.quota
						 ? THROTTLE_NEVER
						 : (uint64_t)free_ms * CLOCK_NS_PER_MS;
	charge->outcome.more_ns = charge->outcome.retry_after_ns;
	return true;
}

/* NULL: it has none, or can't have any. */
static inline struct hand *find_hand(
	const struct account *account, const struct account_charge *charge, struct throttle_key key)
{
	const struct fleet_worker *fleet = account->worker;

	if (is_small(fleet, &charge->rule) || charge->cost > HAND_UNITS_MOST)
		return NULL;
	return hands_find(fleet->leases.hands, key, hand_ms(account->now_ns));
}

bool lease_is_in_hand(const struct account *account, const struct account_charge *charge)
{
	const struct throttle_key key = key_of(charge);
	struct hand *hand = find_hand(account, charge, key);
	uint32_t now = hand_ms(account->now_ns), left = 0;

	if (!hand || hand_time_left(hand, now) == 0)
		return false;
	hand_take(hand, key, 0, now, &left);
	return left >= charge->cost;
}

bool lease_take_in_hand(struct account *account, struct account_charge *charge)
{
	struct fleet_worker *fleet = account->worker;
	uint32_t now = hand_ms(account->now_ns), left;
	struct throttle_key key = key_of(charge);

	charge->hand = find_hand(account, charge, key);
	if (!charge->hand)
		return false;
	/* relaxed, before hand_take's release: what is taken is charged later than that */
	uint64_t given_us = atomic_load_explicit(&charge->hand->given_us, memory_order_relaxed);
	charge->slot = hand_take(charge->hand, key, (uint32_t)charge->cost, now, &left);
	if (charge->slot == 0)
		return false;
	charge->said = WAY_TAKEN;
	charge->epoch = atomic_load_explicit(
		&charge->hand->epoch, memory_order_relaxed); /* hand_take's acquire */
	charge->since_us = given_us;
	charge->taken_ns = account->now_ns;
	fill(charge, left, &charge->outcome);
	hand_note_use(charge->hand, (uint32_t)charge->cost);
	worker_count(fleet->worker, STATS_LEASE_TAKEN);
	if (ends_soon(charge, left, now))
		renew_early(fleet, charge, now);
	return true;
}

static enum way_verdict take(struct account *account, struct account_charge *charge)
{
	if (lease_take_in_hand(account, charge))
		return WAY_TAKEN;
	if (!charge->hand)
		return WAY_ASK;
	hand_note_use(charge->hand, (uint32_t)charge->cost);
	if (!refuse_closed(charge, hand_ms(account->now_ns)))
		return WAY_ASK;
	worker_count(account->worker->worker, STATS_LEASE_REFUSED);
	return WAY_UNTAKEN;
}

static enum way_verdict look(struct account *account, struct account_charge *charge)
{
	uint32_t now = now_ms(account->worker), left;

	if (!charge->hand)
		charge->hand = hands_find(account->worker->leases.hands, key_of(charge), now);
	if (!charge->hand)
		return WAY_ASK;
	take_in_hand(charge, 0, now, &left);
	if (left < charge->cost && refuse_closed(charge, now))
		return WAY_UNTAKEN;
	fill(charge, left, &charge->outcome);
	return WAY_UNTAKEN;
}

/* It may still count at the store, which looks at its own clock again (lease.lua). */
static bool still_counts(const struct account *account, const struct account_charge *charge)
{
	uint64_t age_ns = worker_throttle_ns(account->worker->worker) - charge->taken_ns;
	uint64_t window_ns = charge->rule.window_us * 1000;

	return age_ns < window_ns - window_ns / 64;
}

static void give(struct account *account, struct account_charge *charge, uint64_t cost)
{
	if (charge->slot == 0 || cost == 0 || cost > HAND_UNITS_MOST)
		return;
	if (charge->hand && hand_is_of(charge->hand, key_of(charge)))
		hand_forget_use(charge->hand, (uint32_t)cost); /* else a busy node's share grows */
	if (charge->slot != AT_STORE && hand_put(charge->hand, charge->slot, (uint32_t)cost))
		return;
	struct fleet_batch *filling =
		still_counts(account, charge)
			? fleet_filling(account->worker, FLEET_LEASE, charge->caller, 1)
			: NULL;
	if (!filling)
		return;
	struct batch_charge given = account_batch_charge(charge, cost);
	batch_give_lease(&filling->batch, &given, charge->epoch, charge->since_us);
}

static void add(struct account *account, struct account_charge *charge, uint64_t cost)
{
	struct fleet_batch *filling;
	uint32_t left;

	if (charge->hand && cost <= HAND_UNITS_MOST &&
		take_in_hand(charge, (uint32_t)cost, now_ms(account->worker), &left) != 0)
		return;
	filling = fleet_filling(account->worker, FLEET_LEASE, charge->caller, 1);
	if (!filling)
		return;
	struct batch_charge more = account_batch_charge(charge, cost);
	batch_charge(&filling->batch, &more);
}

const struct way lease_way = {
	.function = FLEET_LEASE, .take = take, .look = look, .give = give, .add = add};

/* ---- leases that end ------------------------------------------------------------------------- */

/* Returns what is left of a lease that is over. True: it needs no more looking after. */
static bool look_after(struct fleet_worker *fleet, const struct leased *leased)
{
	struct hand *hand = leased->hand;
	uint32_t now = now_ms(fleet);

	if (hand_time_left(hand, now) > 0 || !hand_lock(hand))
		return false;
	if (hand->slot == 0) {
		hand_clear(hand);
		atomic_store_explicit(&hand->listed, 0, memory_order_relaxed); /* the lock's */
		hand_unlock(hand);
		return true;
	}
	if (!ask_for(fleet, leased, (struct wish){.ends = true}, CONF_STORE_DOWN_UNSET))
		hand_unlock(hand);
	return false;
}

static void on_timer(struct deadline *deadline)
{
	struct leases *leases = CONTAINER_OF(deadline, struct leases, timer);

	for (unsigned i = 0; i < SWEEP_MOST && i < leases->count; i++) {
		if (leases->at >= leases->count)
			leases->at = 0;
		if (look_after(leases->fleet, &leases->all[leases->at]))
			leases->all[leases->at] = leases->all[--leases->count];
		else
			leases->at++;
	}
	watch(leases);
}

void leases_init(struct leases *leases, struct fleet_worker *fleet, struct hands *hands)
{
	*leases = (struct leases){.fleet = fleet, .hands = hands};
	deadline_init(&leases->timer, fleet->worker->loop.base, on_timer);
}

void leases_end(struct leases *leases)
{
	deadline_end(&leases->timer);
	free(leases->all);
	leases->all = NULL;
	leases->count = leases->size = 0;
}

void leases_return(struct leases *leases)
{
	for (size_t i = 0; i < leases->count; i++) {
		struct hand *hand = leases->all[i].hand;
		if (!hand_lock(hand))
			continue;
		atomic_store_explicit(&hand->listed, 0, memory_order_relaxed); /* the lock's */
		if (!ask_for(leases->fleet, &leases->all[i], (struct wish){.ends = true},
			    CONF_STORE_DOWN_UNSET))
			hand_unlock(hand);
	}
	leases->count = 0;
	watch(leases);
}
