#include "fake_authority.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/container.h"

#define RETRY_MS  700
#define DELAY_MAX UINT64_C(60000000000)

/* cmocka's own way out is for one thread only. */
static void hold_to(bool is_so, const char *what)
{
	if (is_so)
		return;
	fprintf(stderr, "fake authority: %s\n", what);
	abort();
}

static struct fake_authority *fake_of(struct authority *authority)
{
	return CONTAINER_OF(authority, struct fake_authority, authority);
}

static uint64_t open_account(struct fake_authority *fake)
{
	hold_to(fake->account_count < FAKE_ACCOUNTS, "too many accounts");
	fake->accounts[fake->account_count] = (struct fake_account){.state = FAKE_HELD};
	return ++fake->account_count;
}

static void judge(struct fake_authority *fake, enum fake_word word, unsigned limits,
	struct authority_judgement *judgement)
{
	struct throttle_verdict *verdict = &judgement->limits;

	*judgement = (struct authority_judgement){.retry_after_ms = RETRY_MS};
	verdict->count = limits;
	verdict->admitted = word == FAKE_ADMIT;
	verdict->delay = word == FAKE_DELAY;
	for (unsigned i = 0; i < limits; i++)
		verdict->outcome[i] = (struct throttle_outcome){.quota = 10, .remaining = 5};
	if (verdict->admitted) {
		judgement->receipt.account = open_account(fake);
		return;
	}
	verdict->violated = 1;
	verdict->retry_after_ns = word == FAKE_DELAY ? fake->delay_ns : DELAY_MAX * 2;
	verdict->outcome[0].violated = true;
	verdict->outcome[0].retry_after_ns = verdict->retry_after_ns;
}

/* With the lock. */
static enum authority_answer answer(struct fake_authority *fake, enum fake_word word,
	unsigned limits, struct authority_judgement *judgement)
{
	hold_to(word != FAKE_PENDING, "no answer");
	if (word == FAKE_UNAVAILABLE) {
		*judgement = (struct authority_judgement){.retry_after_ms = RETRY_MS};
		return AUTHORITY_UNAVAILABLE;
	}
	judge(fake, word, limits, judgement);
	return AUTHORITY_JUDGED;
}

static bool admit(struct authority *authority, const struct authority_question *question,
	struct authority_judgement *judgement)
{
	struct fake_authority *fake = fake_of(authority);
	struct throttle_charge charges[GATE_LIMITS_MAX];
	bool admits;

	pthread_mutex_lock(&fake->lock);
	admits = fake->admits && fake->admits(fake->ctx, question);
	if (admits)
		judge(fake, FAKE_ADMIT, gate_charges(question->identity, charges), judgement);
	fake->at_once += admits;
	pthread_mutex_unlock(&fake->lock);
	return admits;
}

static enum authority_answer ask(struct authority *authority,
	const struct authority_question *question, struct authority_judgement *judgement)
{
	struct fake_authority *fake = fake_of(authority);
	enum authority_answer result = AUTHORITY_PENDING;
	struct throttle_charge charges[GATE_LIMITS_MAX];
	unsigned limits = gate_charges(question->identity, charges);

	pthread_mutex_lock(&fake->lock);
	enum fake_word word = fake->plan(fake->ctx, question);
	hold_to(limits > 0, "asked about no limit");
	fake->asked++;
	if (word == FAKE_PENDING) {
		hold_to(fake->question_count < FAKE_QUESTIONS, "too many questions");
		struct fake_question *kept = &fake->questions[fake->question_count++];
		*kept = (struct fake_question){
			question->questions, question->number, .limits = limits};
		memcpy(kept->charges, charges, sizeof(charges[0]) * limits);
	} else {
		result = answer(fake, word, limits, judgement);
	}
	pthread_mutex_unlock(&fake->lock);
	return result;
}

/* With the lock. */
static struct fake_question *find(
	struct fake_authority *fake, const struct questions *questions, uint64_t number)
{
	for (unsigned i = fake->question_count; i-- > 0;) {
		if (fake->questions[i].questions == questions &&
			fake->questions[i].number == number)
			return &fake->questions[i];
	}
	return NULL;
}

static enum authority_answer expire(struct authority *authority,
	const struct authority_question *question, struct authority_judgement *judgement)
{
	struct fake_authority *fake = fake_of(authority);
	struct throttle_charge charges[GATE_LIMITS_MAX];

	pthread_mutex_lock(&fake->lock);
	struct fake_question *kept = find(fake, question->questions, question->number);
	hold_to(kept && kept->fate != FAKE_CANCELLED && kept->fate != FAKE_EXPIRED,
		"expired a question that is closed");
	kept->fate = FAKE_EXPIRED;
	fake->expired++;
	enum fake_word word =
		fake->at_expiry ? fake->at_expiry(fake->ctx, question) : FAKE_UNAVAILABLE;
	enum authority_answer result =
		answer(fake, word, gate_charges(question->identity, charges), judgement);
	pthread_mutex_unlock(&fake->lock);
	return result;
}

static void cancel(struct authority *authority, const struct questions *questions, uint64_t number)
{
	struct fake_authority *fake = fake_of(authority);

	pthread_mutex_lock(&fake->lock);
	struct fake_question *kept = find(fake, questions, number);
	hold_to(kept && kept->fate != FAKE_CANCELLED && kept->fate != FAKE_EXPIRED,
		"cancelled a question that is closed");
	kept->fate = FAKE_CANCELLED;
	fake->cancelled++;
	pthread_mutex_unlock(&fake->lock);
}

/* With the lock. */
static struct fake_account *account_of(
	struct fake_authority *fake, const struct gate_receipt *receipt)
{
	hold_to(receipt->account > 0 && receipt->account <= fake->account_count,
		"a receipt of another authority");
	struct fake_account *account = &fake->accounts[receipt->account - 1];
	hold_to(account->state == FAKE_HELD, "a receipt came back twice");
	return account;
}

static void charge(struct authority *authority, const struct gate_receipt *receipt, uint64_t bytes)
{
	struct fake_authority *fake = fake_of(authority);

	pthread_mutex_lock(&fake->lock);
	account_of(fake, receipt)->bytes += bytes;
	pthread_mutex_unlock(&fake->lock);
}

static void settle(
	struct authority *authority, const struct gate_receipt *receipt, const struct gate_end *end)
{
	struct fake_authority *fake = fake_of(authority);

	pthread_mutex_lock(&fake->lock);
	struct fake_account *account = account_of(fake, receipt);
	account->state = FAKE_SETTLED;
	account->has_cost = end->has_cost;
	account->cost = end->cost;
	pthread_mutex_unlock(&fake->lock);
}

static void refund(struct authority *authority, const struct gate_receipt *receipt)
{
	struct fake_authority *fake = fake_of(authority);

	pthread_mutex_lock(&fake->lock);
	account_of(fake, receipt)->state = FAKE_REFUNDED;
	pthread_mutex_unlock(&fake->lock);
}

static const struct authority_calls fake_calls = {
	admit, ask, expire, cancel, charge, settle, refund};

void fake_init(struct fake_authority *fake, uint64_t timeout_ms)
{
	*fake = (struct fake_authority){
		.authority = {&fake_calls, timeout_ms},
		.questions = calloc(FAKE_QUESTIONS, sizeof(struct fake_question)),
		.accounts = calloc(FAKE_ACCOUNTS, sizeof(struct fake_account)),
	};
	assert_non_null(fake->questions);
	assert_non_null(fake->accounts);
	pthread_mutex_init(&fake->lock, NULL);
}

unsigned fake_held(struct fake_authority *fake)
{
	unsigned held = 0;

	pthread_mutex_lock(&fake->lock);
	for (unsigned i = 0; i < fake->account_count; i++)
		held += fake->accounts[i].state == FAKE_HELD;
	pthread_mutex_unlock(&fake->lock);
	return held;
}

void fake_end(struct fake_authority *fake)
{
	hold_to(fake_held(fake) == 0, "something was never given back or settled");
	hold_to(fake->replies_out == 0, "a reply was never delivered");
	pthread_mutex_destroy(&fake->lock);
	free(fake->questions);
	free(fake->accounts);
}

struct fake_question *fake_find(
	struct fake_authority *fake, const struct questions *questions, uint64_t number)
{
	pthread_mutex_lock(&fake->lock);
	struct fake_question *question = find(fake, questions, number);
	pthread_mutex_unlock(&fake->lock);
	return question;
}

static void delivered(struct authority_reply *reply)
{
	struct fake_authority *fake = fake_of(reply->authority);

	pthread_mutex_lock(&fake->lock);
	fake->replies_out--;
	pthread_mutex_unlock(&fake->lock);
	free(reply);
}

void fake_reply(struct fake_authority *fake, struct fake_question *question, enum fake_word word)
{
	struct authority_reply *reply = calloc(1, sizeof(*reply));

	hold_to(reply != NULL, "no memory");
	pthread_mutex_lock(&fake->lock);
	reply->authority = &fake->authority;
	reply->questions = question->questions;
	reply->number = question->number;
	reply->answer = answer(fake, word, question->limits, &reply->judgement);
	reply->delivered = delivered;
	if (question->fate == FAKE_OPEN)
		question->fate = FAKE_ANSWERED;
	fake->replied++;
	fake->replies_out++;
	pthread_mutex_unlock(&fake->lock);
	authority_reply(reply);
}
