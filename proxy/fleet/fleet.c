#include "fleet/fleet.h"

#include <stdlib.h>
#include <string.h>

#include "base/container.h"
#include "fleet/exact.h"
#include "fleet/fleet_part.h"
#include "fleet/health.h"
#include "fleet/ladder.h"
#include "fleet/own.h"
#include "fleet/question.h"
#include "fleet/reserve.h"
#include "fleet/verdict.h"
#include "fleet/way.h"
#include "site/site.h"
#include "site/site_use.h"
#include "stats/stats.h"
#include "worker/worker_clock.h"

/* Retry-After of what nobody could judge. */
#define RETRY_MS 1000

/* Callers with a lease at a time; memory is taken as they come. */
#define HANDS 131072

/* Bytes that have passed are charged so many at once, or this part of their quota if it is less. */
#define BYTES_AT_ONCE (UINT64_C(64) << 10)
#define BYTES_PART    64

struct fleet {
	struct authority authority;
	struct throttle_table *throttles;
	struct members members;
	struct hands hands;
	struct shares shares;
	struct ladder ladder;
	struct health health;
};

static struct throttle_table *table_of(const struct fleet_worker *fleet)
{
	return CONTAINER_OF(fleet->authority, struct fleet, authority)->throttles;
}

static struct fleet_worker *worker_of(const struct questions *questions)
{
	const char *at = (const char *)questions - offsetof(struct worker, questions);

	return ((const struct worker *)(const void *)at)->fleet.own;
}

/* ---- accounts -------------------------------------------------------------------------------- */

/* Limits of a request that the node's table judges. */
struct own_limits {
	struct throttle_charge charges[GATE_LIMITS_MAX];
	struct reserve reserves[GATE_LIMITS_MAX];
	unsigned count;
	bool has_reserve;
};

/* What the store is to know of it. False without memory. */
static bool describe(
	struct fleet_worker *fleet, struct account_charge *charge, const struct conf_limit *limit)
{
	charge->rule = rule_of(limit);
	charge->limit = fleet_name_of(fleet, limit->name);
	if (charge->rule.kind == RULE_CALENDAR)
		charge->rule.edges = period_edges(&fleet->periods, limit, fleet_store_us(fleet));
	return charge->limit && (charge->rule.edges || charge->rule.kind != RULE_CALENDAR);
}

/* Of the fleet: by its way, or by the node's table with a reserve. */
static void open_shared(struct account *account, struct account_charge *charge,
	const struct conf_limit *limit, const struct throttle_charge *asked, struct own_limits *own)
{
	const struct way *way = way_for(limit);

	charge->way = way;
	charge->down = ladder_down(account->worker->worker->use->site->conf, limit);
	/* Until the store has said which epoch it has, local waits too: nothing is known of it. */
	charge->rule.waits = charge->down == CONF_STORE_DOWN_REFUSE ||
			     charge->down == CONF_STORE_DOWN_STRICT ||
			     (charge->down == CONF_STORE_DOWN_LOCAL &&
				     !fleet_knows_epoch(account->worker, charge->caller));
	charge->quota = limit->amount;
	charge->number = asked->limit;
	charge->own_caller = asked->caller;
	if (!way->reserve)
		return;
	charge->way = way_of(CONF_FLEET_EXACT);
	switch (way->reserve(account, charge, asked, &own->reserves[own->count])) {
	case WAY_HERE:
		charge->way = NULL;
		charge->here = way;
		charge->reserved = own->reserves[own->count].units;
		own->has_reserve = true;
		break;
	case WAY_AWAY:
		account->is_away = true;
		break;
	case WAY_STORE:
		break;
	}
}

static bool open_charge(struct account *account, const struct gate_identity *identity, unsigned i,
	const struct throttle_charge *asked, struct own_limits *own)
{
	const struct conf_limit *limit = gate_limit_at(identity, i);
	struct account_charge *charge = &account->charges[i];

	charge->cost = asked->cost;
	charge->slot = charge->epoch = charge->bytes = 0;
	charge->hand = NULL;
	charge->hold = NULL;
	charge->delay_max_ns = limit->delay_max_ms * CLOCK_NS_PER_MS;
	charge->local = -1;
	charge->way = charge->here = NULL;
	charge->reserved = 0;
	charge->noted = 0;
	charge->said = WAY_ASK;
	charge->rung = RUNG_STORE;
	charge->own = -1;
	charge->is_owed = false;
	charge->late_ns = 0;
	own->reserves[own->count] = (struct reserve){0};
	if (limit->of_fleet) {
		charge->caller = identity->shared[i];
		if (!describe(account->worker, charge, limit))
			return false;
		open_shared(account, charge, limit, asked, own);
	}
	if (!charge->way) {
		charge->local = (int)own->count;
		own->charges[own->count++] = *asked;
	}
	return true;
}

/* The limits of a request, and the node's table's verdict over those that it judges. NULL without
 * memory. */
static struct account *open_account(struct fleet_worker *fleet,
	const struct authority_question *question, struct throttle_verdict *local)
{
	struct throttle_charge charges[GATE_LIMITS_MAX];
	struct own_limits own = {.count = 0};
	struct account *account = account_new(fleet);

	if (!account)
		return NULL;
	account->count = gate_charges(question->identity, charges);
	for (unsigned i = 0; i < account->count; i++) {
		if (!open_charge(account, question->identity, i, &charges[i], &own)) {
			account_free(account);
			return NULL;
		}
	}
	local->admitted = true;
	local->count = 0;
	if (own.has_reserve)
		reserve_take(table_of(fleet), own.charges, own.reserves, own.count,
			worker_throttle_ns(fleet->worker), local, &account->local);
	else if (own.count > 0)
		throttle_take(table_of(fleet), own.charges, own.count,
			worker_throttle_ns(fleet->worker), local, &account->local);
	account->refused = !local->admitted;
	return account;
}

/* So much was charged by the node's table, or given back, of a limit that others share. */
static void note(struct account *account, struct account_charge *charge, int64_t units)
{
	if (charge->here && charge->here->note && units != 0)
		charge->here->note(account, charge, units);
}

static void give_back_here(struct account *account)
{
	throttle_refund_all(table_of(account->worker), &account->local,
		worker_throttle_ns(account->worker->worker));
	own_give_back(account);
}

/* Those that have passed and are not charged yet. */
static void charge_bytes(struct account *account, struct account_charge *charge)
{
	if (charge->bytes > 0)
		charge->way->add(account, charge, charge->bytes);
	charge->bytes = 0;
}

/* But for bytes, which have passed. */
static void give_all_back(struct account *account)
{
	for (unsigned i = 0; i < account->count; i++) {
		struct account_charge *charge = &account->charges[i];
		charge_bytes(account, charge);
		if (charge->way && charge->said != WAY_UNTAKEN)
			charge->way->give(account, charge, charge->cost);
		note(account, charge, -charge->noted);
	}
	give_back_here(account);
	account_free(account);
}

/* ---- verdicts -------------------------------------------------------------------------------- */

/* The store refuses: of the node's own limits, which do not, what is left without this request. */
static void look_again(struct account *account, struct throttle_verdict *local)
{
	struct throttle_charge charges[GATE_LIMITS_MAX];
	struct throttle_verdict found;

	own_give_back(account);
	if (account->local.count == 0)
		return;
	for (uint32_t i = 0; i < account->local.count; i++)
		charges[i] = (struct throttle_charge){
			account->local.held[i].limit, account->local.held[i].caller, 0};
	uint32_t count = account->local.count;
	give_back_here(account);
	throttle_peek(table_of(account->worker), charges, count,
		worker_throttle_ns(account->worker->worker), &found);
	for (uint32_t i = 0; i < count; i++) {
		bool violated = local->outcome[i].violated;
		local->outcome[i] = found.outcome[i];
		local->outcome[i].violated = violated;
	}
	for (unsigned i = 0; i < account->count; i++) {
		const struct account_charge *charge = &account->charges[i];
		if (charge->local >= 0)
			reserve_lessen(&local->outcome[charge->local], charge->reserved);
	}
}

static void note_admitted(struct account *account)
{
	for (unsigned i = 0; i < account->count; i++) {
		struct account_charge *charge = &account->charges[i];
		charge->noted = (int64_t)charge->cost;
		note(account, charge, charge->noted);
	}
}

/* The same of what the ways have taken. What they took at the store can't be asked about again:
 * that it is given back is what is known of it. */
static void take_back(struct account *account)
{
	bool asked[GATE_LIMITS_MAX];

	for (unsigned i = 0; i < account->count; i++)
		asked[i] = account_asks(&account->charges[i]);
	ways_take_back(account);
	for (unsigned i = 0; i < account->count; i++) {
		struct account_charge *charge = &account->charges[i];
		uint64_t *remaining = &charge->outcome.remaining;
		if (asked[i] || !account_asks(charge))
			continue;
		charge->said = WAY_UNTAKEN;
		*remaining = *remaining + charge->cost < charge->outcome.quota
				     ? *remaining + charge->cost
				     : charge->outcome.quota;
	}
}

/* The judgement by what both say. The account becomes the receipt's, or is freed. */
static void judge(struct account *account, struct throttle_verdict *local,
	const struct answer_limit *answers, bool admitted, struct authority_judgement *judgement)
{
	if (!admitted || account->refused) {
		take_back(account);
		look_again(account, local);
	}
	verdict_fill(account, local, answers, &judgement->limits);
	judgement->receipt = (struct gate_receipt){0};
	if (!judgement->limits.admitted) {
		own_give_back(account);
		account_free(account);
		return;
	}
	own_count(account);
	note_admitted(account);
	judgement->receipt.account = (uintptr_t)account;
}

/* Is a limit on this rung that the store would be asked about? */
static bool has_rung(const struct account *account, enum rung rung)
{
	for (unsigned i = 0; i < account->count; i++) {
		if (account_asks(&account->charges[i]) && account->charges[i].rung == rung)
			return true;
	}
	return false;
}

static enum authority_answer be_unavailable(
	struct account *account, struct authority_judgement *judgement)
{
	give_all_back(account);
	judgement->retry_after_ms = RETRY_MS;
	return AUTHORITY_UNAVAILABLE;
}

/* Is a limit on a rung that admits nothing? */
static bool is_closed(const struct account *account)
{
	return has_rung(account, RUNG_REFUSE) || has_rung(account, RUNG_WAIT);
}

/* The store does not answer: what its limits say then. */
static enum authority_answer judge_without_store(struct account *account,
	struct throttle_verdict *local, struct authority_judgement *judgement)
{
	worker_count(account->worker->worker, STATS_STORE_UNANSWERED);
	ladder_climb(account, false);
	if (!account->refused && is_closed(account))
		return be_unavailable(account, judgement);
	if (!account->refused && own_take_share(account, RUNG_SHARE) && !own_owe(account))
		return be_unavailable(account, judgement);
	judge(account, local, NULL, true, judgement);
	return AUTHORITY_JUDGED;
}

/* ---- asking ---------------------------------------------------------------------------------- */

static void delivered(struct authority_reply *reply)
{
	struct question *question = CONTAINER_OF(reply, struct question, reply);

	question_free(worker_of(reply->questions), question);
}

/* The next limit that the store is asked about, with the others of its function and part. By leases
 * first: the store's verdict over the others may then be the last word. NULL: there is none. */
static const struct account_charge *next_asked(const struct account *account)
{
	const struct account_charge *next = NULL;

	for (unsigned i = 0; i < account->count; i++) {
		const struct account_charge *charge = &account->charges[i];
		if (account_asks(charge) &&
			(!next || (next->way->function != FLEET_LEASE &&
					  charge->way->function == FLEET_LEASE)))
			next = charge;
	}
	return next;
}

static void ask_judge(struct fleet_batch *filling, struct question *question)
{
	exact_ask(filling, question);
	question->next = NULL;
	*filling->end = question;
	filling->end = &question->next;
}

/* Puts it into this round's batch. False: without memory, or the store is away. */
static bool put(struct fleet_worker *fleet, struct question *question)
{
	struct account *account = question->account;
	const struct account_charge *next = next_asked(account);

	if (!next)
		return false;
	enum fleet_function function = next->way->function;
	struct fleet_batch *filling = fleet_filling(fleet, function, next->caller, account->count);
	if (!filling)
		return false;
	question->part = fleet_part_of(fleet, next->caller);
	if (function == FLEET_LEASE)
		lease_ask(filling, question, account);
	else
		ask_judge(filling, question);
	fleet->pending++;
	return true;
}

static bool put_question(struct fleet_worker *fleet, const struct authority_question *asked,
	struct account *account, const struct throttle_verdict *local)
{
	struct question *question = question_new(fleet);

	if (!question)
		return false;
	question->account = account;
	question->local = *local;
	question->number = asked->number;
	question->reply.questions = asked->questions;
	if (!put(fleet, question)) {
		question_free(fleet, question);
		return false;
	}
	question_add(fleet, question);
	worker_count(fleet->worker, STATS_STORE_QUESTIONS);
	return true;
}

/* By the rungs of the limits that the store would be asked about. */
static bool may_ask(const struct account *account)
{
	return !is_closed(account) && !has_rung(account, RUNG_SHARE) &&
	       !has_rung(account, RUNG_ADMIT);
}

static enum authority_answer ask(struct authority *authority,
	const struct authority_question *question, struct authority_judgement *judgement)
{
	struct fleet_worker *fleet = worker_of(question->questions);
	struct throttle_verdict local;
	struct account *account = open_account(fleet, question, &local);

	(void)authority;
	if (!account) {
		judgement->retry_after_ms = RETRY_MS;
		return AUTHORITY_UNAVAILABLE;
	}
	if (account->is_away)
		return judge_without_store(account, &local, judgement);
	ladder_climb(account, true);
	if (!account->refused)
		own_take_share(account, RUNG_RETURNING);
	if (ways_take(account) == 0) {
		judge(account, &local, NULL, true, judgement);
		return AUTHORITY_JUDGED;
	}
	if (may_ask(account) && put_question(fleet, question, account, &local))
		return AUTHORITY_PENDING;
	return judge_without_store(account, &local, judgement);
}

/* What was taken on this node becomes another account's. */
static void move_taken(struct account *to, struct account *from)
{
	struct account *next = to->next;

	*to = *from;
	to->next = next;
	from->local.count = 0;
	from->own.count = 0;
	for (unsigned i = 0; i < from->count; i++) {
		from->charges[i].own = -1;
		if (!account_asks(&from->charges[i]))
			from->charges[i].said = WAY_UNTAKEN;
	}
}

static enum authority_answer expire(struct authority *authority,
	const struct authority_question *question, struct authority_judgement *judgement)
{
	struct fleet_worker *fleet = worker_of(question->questions);
	struct question *asked = question_take(fleet, question->number);
	struct throttle_verdict local;
	struct account *account;

	(void)authority;
	if (!asked) { /* the reply is on its way, and will find nobody: it is given back then */
		account = open_account(fleet, question, &local);
		if (account)
			return judge_without_store(account, &local, judgement);
		judgement->retry_after_ms = RETRY_MS;
		return AUTHORITY_UNAVAILABLE;
	}
	/* What was taken here stays with the verdict that is given now; what the store may have
	 * charged is the question's to give back. */
	account = account_new(fleet);
	if (!account) {
		judgement->retry_after_ms = RETRY_MS;
		return AUTHORITY_UNAVAILABLE;
	}
	move_taken(account, asked->account);
	local = asked->local;
	return judge_without_store(account, &local, judgement);
}

static void cancel(struct authority *authority, const struct questions *questions, uint64_t number)
{
	struct question *asked = question_take(worker_of(questions), number);

	(void)authority;
	if (asked)
		give_back_here(asked->account);
}

/* ---- answers --------------------------------------------------------------------------------- */

/* What the store has charged by its answer. */
static void note_slots(struct question *question, const struct answer_limit *limits)
{
	struct account *account = question->account;

	for (unsigned i = 0; i < account->count; i++) {
		struct account_charge *charge = &account->charges[i];
		if (account_asks(charge))
			charge->slot =
				limits && question_asks(question, charge) ? limits++->slot : 0;
	}
}

/* Of a strict limit, whose quota may be another by now (strict.h). */
static bool is_late(const struct account *account)
{
	for (unsigned i = 0; i < account->count; i++) {
		const struct account_charge *charge = &account->charges[i];
		if (charge->late_ns != 0 &&
			worker_throttle_ns(account->worker->worker) >= charge->late_ns)
			return true;
	}
	return false;
}

static void reply_to(
	struct question *question, bool answered, bool admitted, const struct answer_limit *limits)
{
	struct authority_reply *reply = &question->reply;
	struct fleet_worker *fleet = question->account->worker;

	question_take(fleet, question->number);
	reply->authority = fleet->authority;
	reply->number = question->number;
	reply->delivered = delivered;
	if (answered && is_late(question->account)) {
		note_slots(question, limits);
		reply->answer = be_unavailable(question->account, &reply->judgement);
	} else if (answered) {
		judge(question->account, &question->local, limits, admitted, &reply->judgement);
		reply->answer = AUTHORITY_JUDGED;
	} else {
		reply->answer =
			judge_without_store(question->account, &question->local, &reply->judgement);
	}
	authority_reply(reply);
}

/* Nobody waits for it: what the store has charged goes back. */
static void drop_question(struct question *question, const struct answer_limit *limits)
{
	struct account *account = question->account;
	struct fleet_worker *fleet = account->worker;

	note_slots(question, limits);
	give_all_back(account);
	question_free(fleet, question);
}

void fleet_go_on(struct fleet_worker *fleet, struct question *question, bool answered)
{
	fleet->pending--;
	if (!question->is_open) {
		give_all_back(question->account);
		question_free(fleet, question);
	} else if (answered && account_shared(question->account) > 0) {
		if (!put(fleet, question))
			reply_to(question, false, false, NULL);
	} else {
		reply_to(question, answered, answered, NULL);
	}
}

static unsigned count_asked(const struct question *question)
{
	unsigned count = 0;

	for (unsigned i = 0; i < question->account->count; i++)
		count += question_asks(question, &question->account->charges[i]);
	return count;
}

/* Of a store of several parts: what this part has said is kept, and the next is asked. What was
 * charged before a part that refuses, or does not answer, is given back. */
static void ask_next_part(struct fleet_worker *fleet, struct question *question, bool admitted,
	const struct answer_limit *limits)
{
	struct account *account = question->account;
	bool asked[GATE_LIMITS_MAX];

	for (unsigned i = 0; i < account->count; i++)
		asked[i] = question_asks(question, &account->charges[i]);
	for (unsigned i = 0; i < account->count; i++) {
		if (asked[i])
			verdict_conclude(&account->charges[i], limits++);
	}
	account->refused |= !admitted;
	if (!put(fleet, question))
		reply_to(question, false, false, NULL);
}

/* One question's part of an answer. */
static void take_answer(
	struct fleet_worker *fleet, struct question *question, struct answer *answer, bool *good)
{
	struct answer_limit limits[GATE_LIMITS_MAX];
	struct account *account = question->account;
	unsigned count = count_asked(question);
	bool admitted = false;

	fleet->pending--;
	*good = *good && answer_verdict(answer, count, &admitted, limits);
	for (unsigned i = 0; i < account->count; i++) {
		if (question_asks(question, &account->charges[i]))
			account->charges[i].epoch = *good ? answer->epoch : 0;
	}
	exact_answered(question, *good ? limits : NULL);
	if (!question->is_open)
		drop_question(question, *good ? limits : NULL);
	else if (*good && count < account_shared(account))
		ask_next_part(fleet, question, admitted, limits);
	else
		reply_to(question, *good, admitted, limits);
}

void fleet_answer(struct fleet_worker *fleet, struct question *first, const char *bytes, size_t len)
{
	struct answer answer;
	bool good = bytes && answer_begin(&answer, bytes, len);
	struct question *next;

	for (struct question *question = first; question; question = next) {
		next = question->next;
		take_answer(fleet, question, &answer, &good);
	}
}

/* ---- afterwards ------------------------------------------------------------------------------ */

static struct account *account_of(const struct gate_receipt *receipt)
{
	return (struct account *)(uintptr_t)receipt->account;
}

static void pass_bytes(struct account *account, struct account_charge *charge, uint64_t bytes)
{
	charge->bytes += bytes;
	if (charge->bytes >= BYTES_AT_ONCE || charge->bytes >= charge->rule.quota / BYTES_PART)
		charge_bytes(account, charge);
}

static void charge(struct authority *authority, const struct gate_receipt *receipt, uint64_t bytes)
{
	struct account *account = account_of(receipt);

	(void)authority;
	for (unsigned i = 0; i < account->count; i++) {
		struct account_charge *charge_of_limit = &account->charges[i];
		int local = charge_of_limit->local;
		if (!(receipt->in_bytes >> i & 1))
			continue;
		if (local < 0) {
			pass_bytes(account, charge_of_limit, bytes);
			continue;
		}
		throttle_charge(table_of(account->worker), &account->local, (uint32_t)local, bytes,
			worker_throttle_ns(account->worker->worker));
		note(account, charge_of_limit, (int64_t)bytes);
	}
}

/* The true cost of a limit of the fleet: what was too much goes back, the rest is charged. */
static void correct(struct account *account, struct account_charge *charge, uint64_t cost)
{
	own_settle(account, charge, cost);
	if (charge->is_owed)
		return;
	if (cost < charge->cost)
		charge->way->give(account, charge, charge->cost - cost);
	else if (cost > charge->cost)
		charge->way->add(account, charge, cost - charge->cost);
}

/* The exchange is over: what is in flight comes back, and its last bytes are charged. */
static void end_shared(struct account *account, struct account_charge *charge)
{
	charge_bytes(account, charge);
	if (charge->rule.kind == RULE_HOLDERS)
		charge->way->give(account, charge, charge->cost);
}

static void settle(
	struct authority *authority, const struct gate_receipt *receipt, const struct gate_end *end)
{
	struct account *account = account_of(receipt);
	struct throttle_table *table = table_of(account->worker);
	uint64_t now_ns = worker_throttle_ns(account->worker->worker);

	(void)authority;
	for (unsigned i = 0; i < account->count; i++) {
		struct account_charge *charge_of_limit = &account->charges[i];
		if (charge_of_limit->local < 0)
			end_shared(account, charge_of_limit);
		if (!end->has_cost || !(receipt->by_cost >> i & 1))
			continue;
		if (charge_of_limit->local < 0) {
			correct(account, charge_of_limit, end->cost);
			continue;
		}
		throttle_settle(table, &account->local, (uint32_t)charge_of_limit->local, end->cost,
			now_ns);
		note(account, charge_of_limit, (int64_t)end->cost - charge_of_limit->noted);
	}
	throttle_release(table, &account->local, now_ns);
	account_free(account);
}

static void refund(struct authority *authority, const struct gate_receipt *receipt)
{
	(void)authority;
	give_all_back(account_of(receipt));
}

static const struct authority_calls fleet_calls = {ask, expire, cancel, charge, settle, refund};

struct authority *fleet_new(struct throttle_table *throttles)
{
	struct fleet *fleet = calloc(1, sizeof(*fleet));

	if (!fleet)
		return NULL;
	fleet->authority.calls = &fleet_calls;
	fleet->authority.timeout_ms = AUTHORITY_TIMEOUT_MS;
	fleet->throttles = throttles;
	if (!hands_init(&fleet->hands, HANDS)) {
		free(fleet);
		return NULL;
	}
	members_init(&fleet->members);
	shares_init(&fleet->shares);
	ladder_init(&fleet->ladder);
	health_init(&fleet->health);
	return &fleet->authority;
}

void fleet_free(struct authority *authority)
{
	if (!authority)
		return;
	struct fleet *fleet = CONTAINER_OF(authority, struct fleet, authority);
	members_end(&fleet->members);
	hands_end(&fleet->hands);
	shares_end(&fleet->shares);
	ladder_end(&fleet->ladder);
	health_end(&fleet->health);
	free(fleet);
}

struct health *fleet_health(struct authority *authority)
{
	return &CONTAINER_OF(authority, struct fleet, authority)->health;
}

struct ladder *fleet_ladder(struct authority *authority)
{
	return &CONTAINER_OF(authority, struct fleet, authority)->ladder;
}

const struct ladder *fleet_ladder_of(const struct authority *authority)
{
	const char *at = (const char *)authority - offsetof(struct fleet, authority);

	return &((const struct fleet *)(const void *)at)->ladder;
}

struct debts *fleet_debts(struct authority *authority)
{
	return &fleet_ladder(authority)->debts;
}

struct hands *fleet_hands(struct authority *authority)
{
	return &CONTAINER_OF(authority, struct fleet, authority)->hands;
}

struct shares *fleet_shares(struct authority *authority)
{
	return &CONTAINER_OF(authority, struct fleet, authority)->shares;
}

struct members *fleet_members(struct authority *authority)
{
	return &CONTAINER_OF(authority, struct fleet, authority)->members;
}

void fleet_look(struct authority *authority, struct fleet_nodes *nodes)
{
	struct members *members = fleet_members(authority);

	pthread_mutex_lock(&members->lock);
	memcpy(nodes->name, members->name, sizeof(nodes->name));
	nodes->lines = members->lines ? strdup(members->lines) : NULL;
	nodes->primaries = members->primaries ? strdup(members->primaries) : NULL;
	nodes->age_ms = (clock_monotonic_ns() - members->answered_ns) / CLOCK_NS_PER_MS;
	pthread_mutex_unlock(&members->lock);
}
