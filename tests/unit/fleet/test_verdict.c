/* A verdict over limits of which the store judges some and the node's table others. */
#include "fleet/question.h"
#include "fleet/verdict.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "fleet/exact.h"
#include "tests/unit/suite.h"

/* The first and third of the store's, the second of the node's. */
static struct account three(void)
{
	struct account account = {.count = 3};

	for (unsigned i = 0; i < 3; i++)
		account.charges[i] = (struct account_charge){
			.rule = {.quota = 10, .window_us = 1000, .quantum_us = 1},
			.cost = 1,
			.local = i == 1 ? 0 : -1,
			.way = i == 1 ? NULL : &exact_way,
			.said = WAY_ASK,
		};
	return account;
}

static struct throttle_verdict own(bool violated)
{
	struct throttle_verdict verdict = {.count = 1, .admitted = !violated};

	verdict.outcome[0] = (struct throttle_outcome){
		.quota = 4, .remaining = 2, .violated = violated, .retry_after_ns = 7000};
	return verdict;
}

static void all_that_fit_are_admitted(void **state)
{
	static const struct answer_limit answers[] = {
		{3, 77, 500, .fits = true}, {10, 78, 400, .fits = true}};
	struct account account = three();
	struct throttle_verdict local = own(false), verdict;

	(void)state;
	assert_int_equal(account_shared(&account), 2);
	verdict_fill(&account, &local, answers, &verdict);
	assert_true(verdict.admitted);
	assert_int_equal(verdict.outcome[0].remaining, 7);
	assert_int_equal(verdict.outcome[0].reset_ns, 500000);
	assert_int_equal(verdict.outcome[1].remaining, 2);
	assert_int_equal(verdict.outcome[2].remaining, 0);
	assert_int_equal(verdict.outcome[2].more_ns, 400000);
	assert_int_equal(account.charges[0].slot, 77);
	assert_int_equal(account.charges[2].slot, 78);
}

/* As of a caller by gcra whose responses have cost too much. */
static void a_time_that_is_too_long_is_the_longest(void **state)
{
	static const struct answer_limit answers[] = {
		{10, 0, INT64_MAX, .fits = false}, {10, 0, -1, .fits = false}};
	struct account account = three();
	struct throttle_verdict local = own(false), verdict;

	(void)state;
	verdict_fill(&account, &local, answers, &verdict);
	assert_int_equal(verdict.outcome[0].retry_after_ns, INT64_MAX);
	assert_int_equal(verdict.outcome[2].retry_after_ns, THROTTLE_NEVER);
}

static void one_that_does_not_refuses(void **state)
{
	static const struct answer_limit answers[] = {
		{10, 0, 5, .fits = false}, {2, 0, 3, .fits = true}};
	struct account account = three();
	struct throttle_verdict local = own(false), verdict;

	(void)state;
	verdict_fill(&account, &local, answers, &verdict);
	assert_false(verdict.admitted);
	assert_false(verdict.delay);
	assert_int_equal(verdict.violated, 1);
	assert_int_equal(verdict.retry_after_ns, 5000);
	assert_int_equal(verdict.outcome[2].remaining, 8);
	local = own(true);
	verdict_fill(&account, &local, answers, &verdict);
	assert_int_equal(verdict.violated, 2);
	assert_int_equal(verdict.retry_after_ns, 7000);
}

static void shadows_and_delays(void **state)
{
	static const struct answer_limit full[] = {
		{10, 0, 5, .fits = false}, {10, 0, 6, .fits = false}};
	static const struct answer_limit never[] = {
		{10, 0, -1, .fits = false}, {0, 5, 6, .fits = true}};
	struct account account = three();
	struct throttle_verdict local = own(false), verdict;

	(void)state;
	account.charges[0].rule.shadow = true;
	account.charges[2].delay_max_ns = 6000;
	verdict_fill(&account, &local, full, &verdict);
	assert_true(verdict.delay);
	assert_int_equal(verdict.shadowed, 1);
	assert_int_equal(verdict.violated, 1);
	account.charges[2].delay_max_ns = 5999;
	verdict_fill(&account, &local, full, &verdict);
	assert_false(verdict.delay);
	account.charges[0].rule.shadow = false;
	verdict_fill(&account, &local, never, &verdict);
	assert_true(verdict.retry_after_ns == THROTTLE_NEVER);
}

/* A ban is never waited for; of gcra, the burst is what fits at once. */
static void bans_and_bursts(void **state)
{
	static const struct answer_limit answers[] = {
		{0, 0, 5, .fits = false, .is_banned = true}, {2, 7, 3, .fits = true}};
	struct account account = three();
	struct throttle_verdict local = own(false), verdict;

	(void)state;
	account.charges[0].delay_max_ns = 6000;
	account.charges[2].rule.kind = RULE_GCRA;
	account.charges[2].rule.burst = 5;
	verdict_fill(&account, &local, answers, &verdict);
	assert_true(verdict.outcome[0].banned && verdict.outcome[0].violated);
	assert_false(verdict.admitted);
	assert_false(verdict.delay);
	assert_int_equal(verdict.outcome[2].quota, 5);
	assert_int_equal(verdict.outcome[2].remaining, 3);
}

/* Only asked whether anything is free; and the store has said nothing. */
static void nothing_asked_or_said(void **state)
{
	static const struct answer_limit answers[] = {
		{9, 0, 5, .fits = true}, {10, 0, 3, .fits = false}};
	struct account account = three();
	struct throttle_verdict local = own(false), verdict;

	(void)state;
	account.charges[0].cost = account.charges[2].cost = 0;
	verdict_fill(&account, &local, answers, &verdict);
	assert_false(verdict.outcome[0].violated);
	assert_true(verdict.outcome[2].violated);
	verdict_fill(&account, &local, NULL, &verdict);
	assert_true(verdict.admitted);
	assert_int_equal(verdict.outcome[0].remaining, 10);
	assert_int_equal(account.charges[0].slot, 0);
}

/* One of them is decided on the node. */
static void one_is_decided_here(void **state)
{
	static const struct answer_limit answers[] = {{3, 77, 500, .fits = true}};
	struct account account = three();
	struct throttle_verdict local = own(false), verdict;

	(void)state;
	account.charges[0].said = WAY_UNTAKEN;
	account.charges[0].outcome =
		(struct throttle_outcome){.quota = 10, .violated = true, .retry_after_ns = 900};
	assert_int_equal(account_shared(&account), 1);
	verdict_fill(&account, &local, answers, &verdict);
	assert_false(verdict.admitted);
	assert_int_equal(verdict.retry_after_ns, 900);
	assert_int_equal(verdict.outcome[2].remaining, 7);
}

UNIT_SUITE(test_verdict)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_that_fit_are_admitted),
		cmocka_unit_test(a_time_that_is_too_long_is_the_longest),
		cmocka_unit_test(one_that_does_not_refuses),
		cmocka_unit_test(shadows_and_delays),
		cmocka_unit_test(bans_and_bursts),
		cmocka_unit_test(nothing_asked_or_said),
		cmocka_unit_test(one_is_decided_here),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
