#include "fleet/fleet_ask.h"

#include "base/container.h"
#include "fleet/fleet_account.h"
#include "fleet/exact.h"
#include "fleet/judgement.h"
#include "fleet/ladder.h"
#include "fleet/own.h"
#include "fleet/question.h"
#include "fleet/verdict.h"
#include "fleet/way.h"
#include "stats/stats.h"
#include "worker/worker_clock.h"

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
