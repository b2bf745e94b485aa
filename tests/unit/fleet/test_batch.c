/* What one call of the store's function says, byte by byte where it matters, and its bounds. */
#include "fleet/batch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include "tests/unit/suite.h"

static const struct rule five = {.quota = 5, .window_us = 1000000, .quantum_us = 1};
static const struct rule shadow = {
	.quota = 5, .window_us = 1000000, .quantum_us = 1, .shadow = true};

static struct batch_charge charge_of(const struct rule *rule, const char *limit, uint64_t caller)
{
	return (struct batch_charge){rule, limit, {0, caller}, 1};
}

/* The numbers behind the keys; the last argument is the epoch. */
static struct integers request_of(const char *command, size_t len)
{
	const char *at = NULL, *before = NULL;
	struct integers numbers;

	for (const char *c = command; (c = memchr(c, '$', len - (size_t)(c - command))); c++) {
		before = at;
		at = c;
	}
	before = memchr(before, '\n', len);
	assert_non_null(before);
	integers_begin(&numbers, before + 1, (size_t)(at - before) - 3);
	return numbers;
}

static void assert_numbers(struct integers *numbers, const int64_t *expected, size_t count)
{
	assert_int_equal(numbers->left, count);
	for (size_t i = 0; i < count; i++)
		assert_int_equal(integers_next(numbers), expected[i]);
	assert_false(numbers->wrong);
}

static void one_verdict_is_composed(void **state)
{
	static const char front[] =
		"*7\r\n$5\r\nFCALL\r\n$14\r\nsluice_judge_1\r\n$1\r\n2\r\n$10\r\np{epoch}:1\r\n"
		"$39\r\np{00000000000000000000000000000abc}it:1\r\n$";
	static const char back[] = "\r\n$3\r\n777\r\n";
	static const int64_t expected[] = {0, 4000, 1, 66, 5, 1000000, 1, 7, 1, 1, 2, 1, 1};
	struct batch *batch = calloc(1, sizeof(*batch));
	struct rule waits = five;
	struct batch_charge charge = charge_of(&waits, "it", 0xabc);
	const char *command;
	size_t len;

	(void)state;
	waits.waits = waits.waits_young = true;
	batch_begin(batch, &batch_judge, "p", 0);
	assert_true(batch_is_empty(batch));
	batch_ask(batch, &charge, 1, true);
	batch_know(batch, 777);
	batch_hold_as(batch, 9, 4000);
	assert_true(batch_compose(batch, &command, &len));
	assert_true(len > sizeof(front));
	assert_memory_equal(command, front, sizeof(front) - 1);
	assert_memory_equal(command + len - (sizeof(back) - 1), back, sizeof(back) - 1);
	struct integers numbers = request_of(command, len);
	assert_numbers(&numbers, expected, sizeof(expected) / sizeof(expected[0]));
	batch_free(batch);
	free(batch);
}

/* The store's function relies on it: no key stands twice. */
static void the_same_caller_is_one_key(void **state)
{
	static const int64_t expected[] = {0, 0, 2, 0, 5, 1000000, 1, 1, 5, 1000000, 1, /* rules */
		7, 2, 1, 2, 1, 1, 2, 1,                                                 /* a, b */
		1, 2, 2, 1, 1, 3, 2, 1, /* known by now */
		4, 1, 2, 1, 1,          /* a looks */
		2, 3, 2, 77, 1, 99,     /* b gives */
		3, 4, 1, 1};            /* another's a */
	struct batch *batch = calloc(1, sizeof(*batch));
	struct batch_charge both[] = {charge_of(&five, "a", 7), charge_of(&shadow, "b", 7)};
	struct batch_charge other = charge_of(&five, "a", 8);
	const char *command;
	size_t len;

	(void)state;
	batch_begin(batch, &batch_judge, "p", 0);
	batch_ask(batch, both, 2, true);
	batch_ask(batch, both, 2, true);
	batch_ask(batch, both, 1, false);
	batch_give(batch, &both[1], 77, 99);
	batch_charge(batch, &other);
	assert_int_equal(batch->key_count, 3);
	assert_true(batch_compose(batch, &command, &len));
	struct integers numbers = request_of(command, len);
	assert_numbers(&numbers, expected, sizeof(expected) / sizeof(expected[0]));
	batch_begin(batch, &batch_judge, "p", 0);
	assert_true(batch_is_empty(batch));
	batch_charge(batch, &other);
	assert_int_equal(batch->key_count, 1);
	batch_free(batch);
	free(batch);
}

/* Each kind of limit has its own keys and words; a ban has a key and a rule that follow. */
static void each_kind_says_what_it_needs(void **state)
{
	static const uint64_t edges[] = {10, 20, 30, 40};
	static const struct rule gcra = {.kind = RULE_GCRA,
		.quota = 5,
		.window_us = 1000,
		.burst = 2,
		.counts_refused = true};
	static const struct rule month = {.kind = RULE_CALENDAR, .quota = 6, .edges = edges};
	static const struct rule flight = {.kind = RULE_HOLDERS, .quota = 7};
	static const struct rule bans = {.quota = 5,
		.window_us = 1000,
		.quantum_us = 1,
		.ban_count = 3,
		.ban_per_us = 60,
		.ban_for_us = 90};
	static const int64_t expected[] = {9, 4000, 5,              /* */
		8, 5, 1000, 1, 90, 0, 3, 60, 1,                     /* bans, and its refusals' */
		20, 5, 1000, 2, 32, 6, 10, 20, 30, 40, 48, 7, 1, 4, /* ask, of four */
		2, 1, 1, 4, 3, 1, 5, 4, 1, 6, 5, 1,                 /* */
		5, 6, 5, 2, 1, 3, 2, 1, 1, 6, 4, 3}; /* hold two, charge the first, forget */
	struct batch *batch = calloc(1, sizeof(*batch));
	struct batch_charge all[] = {charge_of(&bans, "a", 7), charge_of(&gcra, "b", 7),
		charge_of(&month, "c", 7), charge_of(&flight, "d", 7)};
	const char *command;
	size_t len;

	(void)state;
	batch_begin(batch, &batch_judge, "p", 0);
	batch_hold_as(batch, 9, 4000);
	batch_ask(batch, all, 4, true);
	batch_hold(batch, &all[3], 2, true);
	batch_charge(batch, &all[0]);
	batch_forget(batch, &all[1]);
	assert_true(batch_compose(batch, &command, &len));
	assert_non_null(
		strstr(command, "}a:1\r\n$39\r\np{00000000000000000000000000000007}a:1b\r\n"));
	assert_non_null(strstr(command, "}b:1g\r\n"));
	assert_non_null(strstr(command, "}c:1c\r\n"));
	assert_non_null(strstr(command, "}d:1n\r\n"));
	struct integers numbers = request_of(command, len);
	assert_numbers(&numbers, expected, sizeof(expected) / sizeof(expected[0]));
	batch_free(batch);
	free(batch);
}

/* A reload may add a ban while the batch already knows the caller without one. */
static void a_caller_known_without_a_ban_is_not_banned_yet(void **state)
{
	static const struct rule bans = {.quota = 5,
		.window_us = 1000000,
		.quantum_us = 1,
		.ban_count = 3,
		.ban_per_us = 60,
		.ban_for_us = 90};
	static const int64_t expected[] = {0, 0, 1, 0, 5, 1000000, 1, 3, 2, 1, 1, 1, 1, 2, 1, 1};
	struct batch *batch = calloc(1, sizeof(*batch));
	struct batch_charge before = charge_of(&five, "a", 7), after = charge_of(&bans, "a", 7);
	const char *command;
	size_t len;

	(void)state;
	batch_begin(batch, &batch_judge, "p", 0);
	batch_charge(batch, &before);
	batch_ask(batch, &after, 1, true);
	assert_true(batch_compose(batch, &command, &len));
	struct integers numbers = request_of(command, len);
	assert_numbers(&numbers, expected, sizeof(expected) / sizeof(expected[0]));
	batch_free(batch);
	free(batch);
}

/* Requests by the same limits and costs, of callers that are new to the batch, say these once. */
static void requests_in_a_row_are_a_run(void **state)
{
	static const int64_t expected[] = {0, 0, 2, 0, 5, 1000000, 1, 1, 5, 1000000, 1, /* rules */
		7, 2, 3, 2, 1, 1, 2, 1,   /* 1 to 3, by both */
		1, 2, 2, 1, 1, 3, 2, 1,   /* 1 again */
		7, 2, 1, 8, 1, 1, 2, 1,   /* 4 */
		7, 2, 2, 10, 1, 2, 2, 1,  /* 5 and 6, which cost 2 */
		7, 1, 1, 14, 1, 2,        /* 7, by one */
		1, 2, 15, 1, 1, 15, 1, 1, /* 8, twice by one */
		1, 1, 16, 1, 0,           /* 9, which costs nothing */
		7, 1, 1, 17, 1, 1};       /* 10 */
	struct batch *batch = calloc(1, sizeof(*batch));
	static const uint64_t callers[] = {1, 2, 3, 1, 4, 5, 6};
	const char *command;
	size_t len;

	(void)state;
	batch_begin(batch, &batch_judge, "p", 0);
	for (size_t i = 0; i < sizeof(callers) / sizeof(callers[0]); i++) {
		struct batch_charge both[] = {
			charge_of(&five, "a", callers[i]), charge_of(&shadow, "b", callers[i])};
		both[0].cost = callers[i] > 4 ? 2 : 1;
		batch_ask(batch, both, 2, true);
	}
	struct batch_charge one = charge_of(&five, "a", 7);
	one.cost = 2;
	batch_ask(batch, &one, 1, true);
	struct batch_charge twice[] = {charge_of(&five, "a", 8), charge_of(&five, "a", 8)};
	batch_ask(batch, twice, 2, true);
	one = charge_of(&five, "a", 9);
	one.cost = 0;
	batch_ask(batch, &one, 1, true);
	one = charge_of(&five, "a", 10);
	batch_ask(batch, &one, 1, true);
	assert_false(batch_is_empty(batch));
	assert_true(batch_compose(batch, &command, &len));
	struct integers numbers = request_of(command, len);
	assert_numbers(&numbers, expected, sizeof(expected) / sizeof(expected[0]));
	batch_free(batch);
	free(batch);
}

static void it_fills_up(void **state)
{
	struct batch *batch = calloc(1, sizeof(*batch));
	struct rule rules[BATCH_RULES_MOST];
	unsigned asked = 0;

	(void)state;
	batch_begin(batch, &batch_judge, "p", 0);
	for (; batch_has_room(batch, 2); asked++) {
		struct batch_charge pair[] = {
			charge_of(&five, "a", asked << 4), charge_of(&five, "b", asked << 4)};
		batch_ask(batch, pair, 2, true);
	}
	assert_true(asked >= BATCH_KEYS_MOST / 2 - 2);
	assert_int_equal(batch->key_count, 2 * asked);
	assert_true(batch->key_count <= BATCH_KEYS_MOST);
	batch_begin(batch, &batch_judge, "p", 0);
	for (asked = 0; batch_has_room(batch, 1); asked++) {
		rules[asked] = five;
		rules[asked].quota = asked + 1;
		struct batch_charge charge = charge_of(&rules[asked], "a", 1);
		batch_ask(batch, &charge, 1, true);
	}
	assert_int_equal(batch->rule_count, asked);
	assert_true(batch->rule_count <= BATCH_RULES_MOST && batch->key_count == 1);
	batch_free(batch);
	free(batch);
}

/* It only says which epoch the node knows. */
static void one_that_asks_nothing_can_be_sent(void **state)
{
	struct batch *batch = calloc(1, sizeof(*batch));
	const char *command;
	size_t len;

	(void)state;
	batch_begin(batch, &batch_judge, "p", 0);
	batch_know(batch, 777);
	assert_true(batch_compose(batch, &command, &len));
	struct integers numbers = request_of(command, len);
	assert_numbers(&numbers, (const int64_t[]){0, 0, 0}, 3);
	assert_memory_equal(command + len - 9, "$3\r\n777\r\n", 9);
	batch_free(batch);
	free(batch);
}

/* As judge.lua answers on a machine that has the low byte of a double first, as the tests do. */
static void answers_are_read(void **state)
{
	/* the time, the epoch; charged, with something left, of two limits; admitted: one limit;
	 * refused: two limits, of which one never fits */
	static const double good[] = {
		500, 6, 3, 55, 1, 4, 56, 1, -1, 3, 9, 100, 0, 5, -1, 7, 6, -2, -1};
	static const double wrong[] = {500, 6, 3, 55};
	static const double past[] = {500, 6, 3, 5, 1};
	static const struct rule ten = {.quota = 10, .window_us = 100, .quantum_us = 10};
	const struct rule *rules[] = {&ten, &ten, &ten};
	struct answer_limit limits[3];
	struct answer answer;
	bool admitted;

	(void)state;
	assert_true(answer_begin(&answer, &batch_judge, good, sizeof(good)));
	assert_int_equal(answer.now_us, 500);
	assert_int_equal(answer.epoch, 6);
	assert_true(answer_verdict(&answer, rules, 2, &admitted, limits));
	assert_true(admitted && limits[0].fits && limits[1].fits);
	assert_true(limits[0].used == 3 && limits[0].slot == 55 && limits[0].time_us == 160);
	assert_true(limits[1].used == 4 && limits[1].slot == 56 && limits[1].time_us == 170);
	assert_true(answer_verdict(&answer, rules, 1, &admitted, limits));
	assert_true(admitted && limits[0].fits);
	assert_true(limits[0].used == 3 && limits[0].slot == 9 && limits[0].time_us == 100);
	assert_true(answer_verdict(&answer, rules, 2, &admitted, limits));
	assert_false(admitted);
	assert_int_equal(limits[1].time_us, -1);
	assert_true(!limits[0].fits && !limits[0].is_banned && limits[0].slot == 0);
	assert_true(!limits[1].fits && limits[1].is_banned && limits[1].slot == 0);
	assert_false(answer_verdict(&answer, rules, 1, &admitted, limits));
	assert_true(answer_begin(&answer, &batch_judge, wrong, sizeof(wrong)));
	assert_false(answer_verdict(&answer, rules, 1, &admitted, limits));
	assert_true(answer_begin(&answer, &batch_judge, past, sizeof(past)));
	assert_false(answer_verdict(&answer, rules, 1, &admitted, limits));
	assert_false(answer_begin(&answer, &batch_judge, good, sizeof(good) - 1));
	assert_false(answer_begin(&answer, &batch_lease, "\xa1x", 2));
	assert_false(answer_begin(&answer, &batch_judge, "", 0));
}

static void rules_are_exact_where_they_can_be(void **state)
{
	struct conf_limit limit = {.amount = 31, .per_ns = 10000000000};

	(void)state;
	assert_int_equal(rule_of(&limit).quantum_us, 1);
	assert_int_equal(rule_of(&limit).window_us, 10000000);
	limit.amount = 32;
	assert_int_equal(rule_of(&limit).quantum_us, 262144);
	limit.precision = 100;
	assert_int_equal(rule_of(&limit).quantum_us, 1);
	limit.amount = 1000;
	assert_int_equal(rule_of(&limit).quantum_us, 65536);
	limit.precision = 1;
	assert_int_equal(rule_of(&limit).quantum_us, 8388608);
	limit.per_ns = 1000001;
	assert_int_equal(rule_of(&limit).window_us, 1001);
}

/* What a store counts of a caller whose responses have cost more stays a number. */
static void costs_are_bounded(void **state)
{
	struct rule rule = {.kind = RULE_RING, .quota = 5, .window_us = 3600000000};

	(void)state;
	assert_int_equal(rule_cost_most(&rule), 1000000000);
	rule.kind = RULE_GCRA;
	rule.burst = 3;
	assert_int_equal(rule_cost_most(&rule), 3653 * 24 * 5 + 3);
	rule.quota = 1000000000;
	assert_int_equal(rule_cost_most(&rule), 1000000000);
}

static void quanta_of_all_windows_divide_each_other(void **state)
{
	struct conf_limit limit = {.amount = 1000};
	uint64_t before = 1;

	(void)state;
	for (uint64_t ms = 1; ms < 400 * UINT64_C(86400000); ms += ms / 3 + 1) {
		limit.per_ns = ms * 1000000;
		struct rule rule = rule_of(&limit);
		assert_int_equal(rule.quantum_us % before, 0);
		assert_in_range(rule.window_us / rule.quantum_us, 30, 60);
		before = rule.quantum_us;
	}
}

static void leases_are_asked_and_answered(void **state)
{
	static const int64_t expected[] = {0, 4000, 1, 66, 5, 1000000, 1, 1, 1, 2, 1, 3, 70, 9, 4,
		5, 8, 250000, 77, 2, 2, 1, 2, 77, 88};
	static const uint8_t bytes[] = {0x99, 1, 2, 1, 6, 70, 5, 3, 0xff, 1};
	struct batch *batch = calloc(1, sizeof(*batch));
	struct rule waits = five;
	struct batch_charge charge = charge_of(&waits, "it", 0xabc);
	struct batch_lease lease = {70, 77, 9, 4, 5, 8, 250000};
	struct answer_lease found;
	struct answer answer;
	const char *command;
	bool admitted;
	size_t len;

	(void)state;
	rule_set_waits(&waits, CONF_STORE_DOWN_REFUSE, true);
	batch_begin(batch, &batch_lease, "p", 0);
	batch_know(batch, 777);
	batch_hold_as(batch, 9, 4000);
	charge.cost = 3;
	batch_ask_lease(batch, &charge, &lease, 1);
	charge.cost = 2;
	batch_give_lease(batch, &charge, 77, 88);
	assert_true(batch_compose(batch, &command, &len));
	assert_non_null(strstr(command, "$14\r\nsluice_lease_1\r\n"));
	assert_non_null(strstr(command, "$10\r\np{epoch}:1\r\n"));
	assert_memory_equal(command + len - 9, "$3\r\n777\r\n", 9);
	assert_non_null(strstr(command, "$43\r\np{00000000000000000000000000000abc}it:lease\r\n"));
	struct integers numbers = request_of(command, len);
	assert_numbers(&numbers, expected, sizeof(expected) / sizeof(expected[0]));
	batch_free(batch);
	free(batch);
	assert_true(answer_begin(&answer, &batch_lease, bytes, sizeof(bytes)));
	assert_true(answer_leases(&answer, 1, &admitted, &found));
	assert_true(admitted && found.fits);
	assert_int_equal(found.used, 6);
	assert_int_equal(found.slot, 70);
	assert_int_equal(found.kept, 5);
	assert_int_equal(found.got, 3);
	assert_int_equal(found.time_us, -1);
	assert_false(answer_leases(&answer, 1, &admitted, &found));
}

UNIT_SUITE(test_batch)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_verdict_is_composed),
		cmocka_unit_test(the_same_caller_is_one_key),
		cmocka_unit_test(each_kind_says_what_it_needs),
		cmocka_unit_test(a_caller_known_without_a_ban_is_not_banned_yet),
		cmocka_unit_test(requests_in_a_row_are_a_run),
		cmocka_unit_test(it_fills_up),
		cmocka_unit_test(one_that_asks_nothing_can_be_sent),
		cmocka_unit_test(answers_are_read),
		cmocka_unit_test(rules_are_exact_where_they_can_be),
		cmocka_unit_test(costs_are_bounded),
		cmocka_unit_test(quanta_of_all_windows_divide_each_other),
		cmocka_unit_test(leases_are_asked_and_answered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
