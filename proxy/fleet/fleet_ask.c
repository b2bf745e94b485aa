#include "fleet/fleet_ask.h"

#include <assert.h>
#include <stdbool.h>

#include "base/container.h"
#include "fleet/fleet_account.h"
#include "fleet/exact.h"
#include "fleet/ladder.h"
#include "fleet/own.h"
#include "fleet/question.h"
#include "fleet/verdict.h"
#include "fleet/way.h"
#include "stats/stats.h"
#include "worker/worker_clock.h"
#include "fleet/lease.h"
#include "fleet/rung.h"
#include "gate/authority.h"
#include "fleet/fleet.h"
#include "fleet/reserve.h"

/* ---- judgement ------------------------------------------------------------------------------ */

/* The judgement of a request from the answers of the node's table and the store, and by the
 * ladder's rungs if the store does not answer. Private to the fleet; on the worker's thread. */

struct account;
struct answer_limit;

/* Retry-After of a request that could not be judged. */
#define JUDGEMENT_RETRY_MS 1000

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
	account_give_back_here(account);
	throttle_peek(fleet_throttles(account->worker->authority), charges, count,
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
		account_note(account, charge, charge->noted);
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

/* `local`: of the node's table; `answers`: of the limits that the store was asked about, in their
 * order, NULL where it was asked about none. The account becomes the receipt's, or is freed. */
/* The judgement by what both say. The account becomes the receipt's, or is freed. */
static void judgement_fill(struct account *account, struct throttle_verdict *local,
	const struct answer_limit *answers, bool admitted, struct authority_judgement *judgement)
{
	if (!admitted || account->refused) {
		take_back(account);
		look_again(account, local);
	}
	verdict_fill(account, local, answers, &judgement->limits);
	gate_receipt_clear(&judgement->receipt);
	if (!judgement->limits.admitted) {
		own_give_back(account);
		account_free(account);
		return;
	}
	own_count(account);
	note_admitted(account);
	judgement->receipt.account = (uintptr_t)account;
}

/* Is a limit that the store would be asked about on this rung? */
/* Is a limit on this rung that the store would be asked about? */
static bool account_has_rung(const struct account *account, enum rung rung)
{
	for (unsigned i = 0; i < account->count; i++) {
		if (account_asks(&account->charges[i]) && account->charges[i].rung == rung)
			return true;
	}
	return false;
}

/* Gives everything back and frees the account. Returns AUTHORITY_UNAVAILABLE. */
static enum authority_answer judgement_unavailable(
	struct account *account, struct authority_judgement *judgement)
{
	account_give_all_back(account);
	judgement->retry_after_ms = JUDGEMENT_RETRY_MS;
	return AUTHORITY_UNAVAILABLE;
}

/* Is one of them on a rung that admits nothing? */
/* Is a limit on a rung that admits nothing? */
static bool account_is_closed(const struct account *account)
{
	return account_has_rung(account, RUNG_REFUSE) || account_has_rung(account, RUNG_WAIT);
}

/* Other nodes may be without the store, too, and admit these callers by their shares. */
static void keep_to_shares(const struct account *account)
{
	for (unsigned i = 0; i < account->count; i++) {
		const struct account_charge *charge = &account->charges[i];
		if (charge->down == CONF_STORE_DOWN_LOCAL && account_asks(charge))
			ladder_keep_to_share(account->worker, charge->caller);
	}
}

/* The store does not answer: judges by the rungs of its limits. Never PENDING. The account becomes
 * the receipt's, or is freed. */
/* The store does not answer: what its limits say then. */
static enum authority_answer judgement_without_store(struct account *account,
	struct throttle_verdict *local, struct authority_judgement *judgement)
{
	worker_count(account->worker->worker, STATS_STORE_UNANSWERED);
	ladder_climb(account, false);
	keep_to_shares(account);
	if (!account->refused && account_is_closed(account))
		return judgement_unavailable(account, judgement);
	if (!account->refused && own_take_share(account, RUNG_SHARE) && !own_owe(account))
		return judgement_unavailable(account, judgement);
	judgement_fill(account, local, NULL, true, judgement);
	return AUTHORITY_JUDGED;
}

/* ---- fleet ask ------------------------------------------------------------------------------ */

static void delivered(struct authority_reply *reply)
{
	struct question *question = CONTAINER_OF(reply, struct question, reply);

	question_free(fleet_worker_of(reply->questions), question);
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
	if (function == FLEET_LEASE) {
		lease_ask(filling, question, account);
	} else {
		exact_ask(filling, question);
		question->next = NULL;
		*filling->end = question;
		filling->end = &question->next;
	}
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
	return !account_is_closed(account) && !account_has_rung(account, RUNG_SHARE) &&
	       !account_has_rung(account, RUNG_ADMIT);
}

enum authority_answer fleet_ask(struct authority *authority,
	const struct authority_question *question, struct authority_judgement *judgement)
{
	struct fleet_worker *fleet = fleet_worker_of(question->questions);
	struct throttle_verdict local;
	struct account *account = account_open(fleet, question, &local);

	(void)authority;
	if (!account) {
		judgement->retry_after_ms = JUDGEMENT_RETRY_MS;
		return AUTHORITY_UNAVAILABLE;
	}
	if (account->is_away)
		return judgement_without_store(account, &local, judgement);
	ladder_climb(account, true);
	own_take_beside(account);
	if (ways_take(account) == 0) {
		judgement_fill(account, &local, NULL, true, judgement);
		return AUTHORITY_JUDGED;
	}
	if (may_ask(account) && put_question(fleet, question, account, &local))
		return AUTHORITY_PENDING;
	return judgement_without_store(account, &local, judgement);
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

enum authority_answer fleet_expire(struct authority *authority,
	const struct authority_question *question, struct authority_judgement *judgement)
{
	struct fleet_worker *fleet = fleet_worker_of(question->questions);
	struct question *asked = question_take(fleet, question->number);
	struct throttle_verdict local;
	struct account *account;

	(void)authority;
	if (!asked) { /* the reply is on its way, and will find nobody: it is given back then */
		account = account_open(fleet, question, &local);
		if (account)
			return judgement_without_store(account, &local, judgement);
		judgement->retry_after_ms = JUDGEMENT_RETRY_MS;
		return AUTHORITY_UNAVAILABLE;
	}
	/* What was taken here stays with the verdict that is given now; what the store may have
	 * charged is the question's to give back. */
	account = account_new(fleet);
	if (!account) {
		judgement->retry_after_ms = JUDGEMENT_RETRY_MS;
		return AUTHORITY_UNAVAILABLE;
	}
	move_taken(account, asked->account);
	account->now_ns = question->now_ns;
	local = asked->local;
	return judgement_without_store(account, &local, judgement);
}

void fleet_cancel(struct authority *authority, const struct questions *questions, uint64_t number)
{
	struct question *asked = question_take(fleet_worker_of(questions), number);

	(void)authority;
	if (asked)
		account_give_back_here(asked->account);
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

/* Of a strict limit, whose quota may be another by now, or whose store says that it has lost its
 * memory (strict.h). */
static bool is_late(const struct account *account)
{
	for (unsigned i = 0; i < account->count; i++) {
		const struct account_charge *charge = &account->charges[i];
		if (charge->late_ns == 0)
			continue;
		if (worker_throttle_ns(account->worker->worker) >= charge->late_ns ||
			(charge->way && ladder_lacks_memory(account->worker, charge->caller,
						&charge->rule, charge->way->function)))
			return true;
	}
	return false;
}

static void reply_to(
	struct question *question, bool answered, bool admitted, const struct answer_limit *limits)
{
	struct authority_reply *reply = &question->reply;
	struct fleet_worker *fleet = question->account->worker;

	question->account->now_ns = worker_throttle_ns(fleet->worker);
	question_take(fleet, question->number);
	reply->authority = fleet->authority;
	reply->number = question->number;
	reply->delivered = delivered;
	if (answered && is_late(question->account)) {
		note_slots(question, limits);
		reply->answer = judgement_unavailable(question->account, &reply->judgement);
	} else if (answered) {
		judgement_fill(
			question->account, &question->local, limits, admitted, &reply->judgement);
		reply->answer = AUTHORITY_JUDGED;
	} else {
		reply->answer = judgement_without_store(
			question->account, &question->local, &reply->judgement);
	}
	authority_reply(reply);
}

/* Nobody waits for it: what the store has charged goes back. */
static void drop_question(struct question *question, const struct answer_limit *limits)
{
	struct account *account = question->account;
	struct fleet_worker *fleet = account->worker;

	note_slots(question, limits);
	account_give_all_back(account);
	question_free(fleet, question);
}

void fleet_go_on(struct fleet_worker *fleet, struct question *question, bool answered)
{
	fleet->pending--;
	if (!question->is_open) {
		account_give_all_back(question->account);
		question_free(fleet, question);
	} else if (answered && account_shared(question->account) > 0) {
		if (!put(fleet, question))
			reply_to(question, false, false, NULL);
	} else {
		reply_to(question, answered, answered, NULL);
	}
}

/* The rules of the limits that are asked about, of GATE_LIMITS_MAX. Returns how many. */
static unsigned rules_asked(const struct question *question, const struct rule **rules)
{
	const struct account *account = question->account;
	unsigned count = 0;

	for (unsigned i = 0; i < account->count; i++) {
		if (question_asks(question, &account->charges[i]))
			rules[count++] = &account->charges[i].rule;
	}
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
	const struct rule *rules[GATE_LIMITS_MAX];
	unsigned count = rules_asked(question, rules);
	bool admitted = false;

	fleet->pending--;
	*good = *good && answer_verdict(answer, rules, count, &admitted, limits);
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
	bool good = bytes && answer_begin(&answer, &batch_judge, bytes, len);
	struct question *next;

	for (struct question *question = first; question; question = next) {
		next = question->next;
		take_answer(fleet, question, &answer, &good);
	}
}

/* ---- admit ---------------------------------------------------------------------------------- */

/* But for the first, of which the taking says so before anything is taken. */
static bool rest_is_in_hand(const struct account *account)
{
	for (unsigned i = 1; i < account->count; i++) {
		if (!lease_is_in_hand(account, &account->charges[i]))
			return false;
	}
	return true;
}

/* All, or none: another worker may have taken what was in hand. */
static bool take_all(struct account *account)
{
	for (unsigned i = 0; i < account->count; i++) {
		if (lease_take_in_hand(account, &account->charges[i]))
			continue;
		while (i-- > 0)
			lease_way.give(account, &account->charges[i], account->charges[i].cost);
		return false;
	}
	return true;
}

/* As judgement_fill, of an account that nothing refuses. */
static void admit(struct account *account, struct authority_judgement *judgement)
{
	struct throttle_verdict *limits = &judgement->limits;

	limits->admitted = true;
	limits->delay = false;
	limits->violated = limits->shadowed = 0;
	limits->retry_after_ns = 0;
	limits->count = account->count;
	for (unsigned i = 0; i < account->count; i++)
		limits->outcome[i] = account->charges[i].outcome;
	gate_receipt_clear(&judgement->receipt);
	judgement->receipt.account = (uintptr_t)account;
	own_count(account);
}

bool fleet_admit(struct authority *authority, const struct authority_question *question,
	struct authority_judgement *judgement)
{
	struct throttle_verdict none;
	struct account *account =
		account_open(fleet_worker_of(question->questions), question, &none);

	(void)authority;
	if (!account)
		return false;
	assert(account->local.count == 0); /* all are leased */
	if (!ladder_is_first(account) || !rest_is_in_hand(account) || !take_all(account)) {
		account_free(account);
		return false;
	}
	admit(account, judgement);
	return true;
}
