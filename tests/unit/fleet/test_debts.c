/* What a node owes to the store. */
#include "fleet/debts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "../random.h"
#include "tests/unit/suite.h"

#define SECOND UINT64_C(1000000000)
#define WINDOW 8 /* seconds */

static struct debts debts;
static size_t room; /* callers of a limit that may owe something */

static struct debt of(uint64_t caller)
{
	return (struct debt){
		.caller = {caller * 0x9e3779b97f4a7c15, caller << 32},
		.rule = {.quota = 100, .window_us = WINDOW * 1000000, .quantum_us = 1},
		.limit = "it",
	};
}

/* What was paid, in all. */
static uint64_t paid;
static uint64_t unpaid; /* the caller that cannot be paid; 0: none */

static bool note(void *whose, const struct debt *debt, uint64_t cost)
{
	(void)whose;
	assert_string_equal(debt->limit, "it");
	if (unpaid != 0 && debt->caller.lo == unpaid << 32)
		return false;
	paid += cost;
	return true;
}

static size_t pay(uint64_t now_ns)
{
	paid = 0;
	return debts_pay(&debts, now_ns, note, NULL);
}

static int begin(void **state)
{
	(void)state;
	room = 100000;
	assert_true(debts_init(&debts));
	return 0;
}

static int end(void **state)
{
	(void)state;
	debts_end(&debts);
	return 0;
}

static struct debt_time add(uint64_t caller, uint64_t cost, uint64_t now_ns)
{
	struct debt debt = of(caller);
	struct debt_time added;

	assert_true(debts_add(&debts, &debt, cost, room, now_ns, &added));
	return added;
}

static void take_back(uint64_t caller, uint64_t cost, struct debt_time added, uint64_t now_ns)
{
	struct debt debt = of(caller);

	debts_take_back(&debts, &debt, cost, now_ns, &added);
}

/* A turn pays a part of many. */
static void many_are_paid_in_steps(void **state)
{
	size_t steps = 1;

	(void)state;
	for (uint64_t caller = 1; caller <= 1000; caller++)
		add(caller, caller % 5 + 1, 100 * SECOND);
	paid = 0;
	debts_pay_begin(&debts);
	assert_false(debts_is_clear(&debts));
	for (; debts_pay_some(&debts, 101 * SECOND, 64, note, NULL); steps++)
		assert_true(paid <= steps * 64 * 5);
	assert_int_equal(steps, (1000 + 63) / 64);
	assert_int_equal(paid, 3000);
	debts_paid(&debts, true, 102 * SECOND);
	assert_true(debts_is_clear(&debts));
	assert_int_equal(pay(103 * SECOND), 0);
	debts_paid(&debts, true, 103 * SECOND);
}

/* The store is lost on the way: whatever it has, nothing is forgotten, and what is added meanwhile
 * is owed, too. */
static void what_was_not_come_to_stays_owed(void **state)
{
	(void)state;
	for (int has_them = 0; has_them < 2; has_them++) {
		for (int adds = 0; adds < 2; adds++) {
			for (uint64_t caller = 1; caller <= 100; caller++)
				add(caller, 1, 100 * SECOND);
			paid = 0;
			debts_pay_begin(&debts);
			assert_true(debts_pay_some(&debts, 101 * SECOND, 40, note, NULL));
			uint64_t some = paid;
			assert_true(some > 0 && some < 100);
			if (adds)
				add(7, 5, 101 * SECOND);
			debts_paid(&debts, has_them, 101 * SECOND);
			pay(102 * SECOND);
			assert_int_equal(paid, 100 - (has_them ? some : 0) + (adds ? 5 : 0));
			debts_paid(&debts, true, 102 * SECOND);
			assert_true(debts_is_clear(&debts));
		}
	}
}

static void are_paid_once(void **state)
{
	(void)state;
	assert_int_equal(pay(SECOND), 0);
	debts_paid(&debts, true, SECOND);
	add(1, 2, 100 * SECOND);
	add(1, 3, 101 * SECOND);
	add(2, 4, 101 * SECOND);
	assert_int_equal(pay(102 * SECOND), 2);
	assert_int_equal(paid, 9);
	debts_paid(&debts, true, 102 * SECOND);
	assert_int_equal(pay(103 * SECOND), 0);
	debts_paid(&debts, true, 103 * SECOND);
}

static void end_after_their_window(void **state)
{
	(void)state;
	add(1, 2, 100 * SECOND);
	add(1, 1, 106 * SECOND);
	pay(108 * SECOND - 1);
	assert_int_equal(paid, 3);
	debts_paid(&debts, false, 108 * SECOND);
	pay(112 * SECOND);
	assert_int_equal(paid, 1);
	debts_paid(&debts, false, 112 * SECOND);
	assert_int_equal(pay(200 * SECOND), 0);
	debts_paid(&debts, true, 200 * SECOND);
	assert_true(debts_is_clear(&debts));
}

static void end_in_the_quarter_after_it(void **state)
{
	(void)state;
	add(1, 2, 100 * SECOND);
	add(1, 1, 110 * SECOND); /* five quarters of 2 s later */
	pay(110 * SECOND);
	assert_int_equal(paid, 1);
	debts_paid(&debts, true, 110 * SECOND);
}

static void of_several_limits_are_several(void **state)
{
	struct debt other = of(1);

	(void)state;
	other.limit = "other";
	add(1, 2, 100 * SECOND);
	assert_true(debts_add(&debts, &other, 3, room, 100 * SECOND, NULL));
	assert_int_equal(debts.count, 2);
}

static void are_not_clear_while_they_are_paid(void **state)
{
	(void)state;
	assert_true(debts_is_clear(&debts));
	pay(99 * SECOND); /* nothing: a node that owes nothing can leave at once */
	assert_true(debts_is_clear(&debts));
	debts_paid(&debts, true, 99 * SECOND);
	add(1, 2, 100 * SECOND);
	assert_false(debts_is_clear(&debts));
	pay(101 * SECOND);
	assert_false(debts_is_clear(&debts));
	debts_paid(&debts, true, 102 * SECOND);
	assert_true(debts_is_clear(&debts));
}

static void unpaid_ones_are_of_their_time(void **state)
{
	(void)state;
	add(1, 2, 100 * SECOND);
	pay(101 * SECOND);
	add(1, 5, 101 * SECOND);
	debts_paid(&debts, false, 106 * SECOND);
	pay(110 * SECOND - 1);
	assert_int_equal(paid, 5 + 2);
	debts_paid(&debts, false, 110 * SECOND);
	pay(110 * SECOND);
	assert_int_equal(paid, 0);
	debts_paid(&debts, true, 110 * SECOND);
}

static void a_window_that_has_changed_loses_nothing(void **state)
{
	struct debt shorter = of(1);

	(void)state;
	shorter.rule.window_us = 4 * 1000000;
	add(1, 2, 100 * SECOND);
	assert_true(debts_add(&debts, &shorter, 5, room, 101 * SECOND, NULL));
	pay(104 * SECOND);
	assert_int_equal(paid, 7);
	debts_paid(&debts, true, 104 * SECOND);
}

/* The limit is reloaded while they are being paid. */
static void unpaid_ones_of_another_window_are_owed_in_the_new_one(void **state)
{
	struct debt shorter = of(1);

	(void)state;
	shorter.rule.window_us = 4 * 1000000;
	add(1, 2, 100 * SECOND);
	pay(101 * SECOND);
	assert_true(debts_add(&debts, &shorter, 5, room, 102 * SECOND, NULL));
	debts_paid(&debts, false, 103 * SECOND);
	pay(103 * SECOND);
	assert_int_equal(paid, 7);
	debts_paid(&debts, false, 103 * SECOND);
	pay(106 * SECOND);
	assert_int_equal(paid, 7);
	debts_paid(&debts, true, 106 * SECOND);
}

static void unpaid_ones_are_owed_with_new_ones(void **state)
{
	(void)state;
	add(1, 2, 100 * SECOND);
	pay(101 * SECOND);
	add(1, 5, 102 * SECOND); /* while they are being paid */
	debts_paid(&debts, false, 103 * SECOND);
	assert_int_equal(pay(104 * SECOND), 1);
	assert_int_equal(paid, 7);
	debts_paid(&debts, true, 104 * SECOND);
}

static void can_be_taken_back(void **state)
{
	(void)state;
	take_back(1, 1, (struct debt_time){0, 100 * SECOND}, 100 * SECOND);
	struct debt_time older = add(1, 2, 100 * SECOND), newer = add(1, 2, 103 * SECOND);
	take_back(1, 1, newer, 104 * SECOND);
	take_back(1, 2, older, 104 * SECOND);
	pay(104 * SECOND);
	assert_int_equal(paid, 1);
	debts_paid(&debts, true, 104 * SECOND);
}

/* What others have admitted since stays owed. */
static void what_is_over_is_not_taken_back(void **state)
{
	(void)state;
	struct debt_time first = add(1, 10, 100 * SECOND);
	add(1, 10, 109 * SECOND);
	take_back(1, 10, first, 110 * SECOND);
	pay(110 * SECOND);
	assert_int_equal(paid, 10);
	debts_paid(&debts, true, 110 * SECOND);
}

static void what_was_paid_is_not_taken_back(void **state)
{
	(void)state;
	struct debt_time first = add(1, 10, 100 * SECOND);
	pay(100 * SECOND);
	add(1, 3, 101 * SECOND);
	take_back(1, 10, first, 101 * SECOND); /* while it is being paid */
	debts_paid(&debts, true, 101 * SECOND);
	take_back(1, 10, first, 101 * SECOND);
	pay(101 * SECOND);
	assert_int_equal(paid, 3);
	debts_paid(&debts, true, 101 * SECOND);
}

static void what_is_owed_again_can_be_taken_back(void **state)
{
	(void)state;
	struct debt_time first = add(1, 10, 100 * SECOND);
	pay(101 * SECOND);
	debts_paid(&debts, false, 102 * SECOND);
	take_back(1, 4, first, 103 * SECOND);
	pay(104 * SECOND);
	assert_int_equal(paid, 6);
	debts_paid(&debts, true, 104 * SECOND);
}

/* Of a store that is away in part. */
static void those_that_cannot_be_paid_stay_owed(void **state)
{
	(void)state;
	add(1, 2, 100 * SECOND);
	add(2, 3, 100 * SECOND);
	unpaid = 2;
	assert_int_equal(pay(101 * SECOND), 1);
	assert_int_equal(paid, 2);
	debts_paid(&debts, true, 101 * SECOND);
	unpaid = 0;
	assert_int_equal(pay(102 * SECOND), 1);
	assert_int_equal(paid, 3);
	debts_paid(&debts, true, 102 * SECOND);
	assert_true(debts_is_clear(&debts));
}

/* Until it owes nothing, a node is none that lives to the others (strict_list.c). */
static void are_over_with_their_window_paid_or_not(void **state)
{
	(void)state;
	add(1, 2, 100 * SECOND);
	add(2, 3, 100 * SECOND);
	unpaid = 2;
	assert_int_equal(pay(101 * SECOND), 1);
	debts_paid(&debts, true, 101 * SECOND);
	assert_false(debts_is_clear(&debts));
	assert_int_equal(pay(102 * SECOND), 0);
	debts_paid(&debts, true, 200 * SECOND);
	unpaid = 0;
	assert_true(debts_is_clear(&debts));
}

static void are_bounded(void **state)
{
	struct debt more = of(1000);

	(void)state;
	room = 100;
	for (uint64_t i = 0; i < 100; i++)
		add(i, 1, 100 * SECOND);
	assert_false(debts_add(&debts, &more, 1, room, 101 * SECOND, NULL));
	add(5, 1, 101 * SECOND);
	assert_true(
		debts_add(&debts, &more, 1, room, 150 * SECOND, NULL)); /* the others are over */
	pay(150 * SECOND);
	assert_int_equal(paid, 1);
	debts_paid(&debts, true, 150 * SECOND);
}

/* The callers that come when there is no room, when there is room again by those that are over, and
 * after a part could not be paid. */
static uint64_t steps(void)
{
	uint64_t sum = debts.steps;

	for (const struct debt_limit *limit = debts.limits; limit; limit = limit->next)
		sum += limit->tables[0].hashed.steps + limit->tables[1].hashed.steps;
	return sum;
}

static uint64_t steps_of(uint64_t from, uint64_t count, uint64_t now_ns)
{
	uint64_t before = steps();

	for (uint64_t i = from; i < from + count; i++) {
		struct debt debt = of(i);
		debts_add(&debts, &debt, 1, room, now_ns, NULL);
	}
	return steps() - before;
}

/* What a caller costs does not depend on how many owe something. */
static void cost_the_same_at_the_bound(void **state)
{
	enum { MANY = 200000, SOME = 1000 };
	uint64_t half, full, over;

	(void)state;
	room = MANY;
	steps_of(1, MANY / 2, 100 * SECOND);
	half = steps_of(MANY / 2 + 1, SOME, 100 * SECOND);
	steps_of(MANY / 2 + SOME + 1, MANY / 2 - SOME, 100 * SECOND);
	assert_int_equal(debts.count, MANY);
	full = steps_of(MANY + 1, SOME, 101 * SECOND);
	assert_int_equal(debts.count, MANY);
	over = steps_of(2 * MANY, SOME, 150 * SECOND);
	assert_in_range(debts.count, MANY - SOME, MANY);
	print_message("# %d callers: %llu steps half full, %llu full, %llu over\n", SOME,
		(unsigned long long)half, (unsigned long long)full, (unsigned long long)over);
	assert_true(half > 0 && full <= 4 * half + 2 * SOME && over <= 8 * half + 4 * SOME);
}

/* Callers that all nodes' hash brings together, which anybody can choose, are not together here. */
static void scatter_by_a_secret(void **state)
{
	enum { MANY = 20000 };

	(void)state;
	for (uint64_t i = 0; i < MANY; i++) {
		struct debt debt = of(1);
		debt.caller = (struct throttle_key){i << 24 ^ 7, i << 32};
		assert_true(debts_add(&debts, &debt, 1, room, 100 * SECOND, NULL));
	}
	assert_true(steps() < 4 * MANY);
}

/* Others can owe as many again while a part is being paid; what then comes back is kept, and leaves
 * no room until it is over. */
static void are_bounded_while_they_are_paid(void **state)
{
	struct debt more = of(1000);

	(void)state;
	room = 100;
	for (uint64_t i = 0; i < 100; i++)
		add(i, 1, 100 * SECOND);
	pay(101 * SECOND);
	for (uint64_t i = 100; i < 200; i++)
		add(i, 1, 101 * SECOND);
	assert_false(debts_add(&debts, &more, 1, room, 101 * SECOND, NULL));
	debts_paid(&debts, false, 102 * SECOND);
	assert_int_equal(debts.count, 200);
	assert_false(debts_add(&debts, &more, 1, room, 102 * SECOND, NULL));
	pay(102 * SECOND);
	assert_int_equal(paid, 200);
	assert_false(debts_add(&debts, &more, 1, room, 102 * SECOND, NULL));
	debts_paid(&debts, true, 103 * SECOND);
	assert_true(debts_is_clear(&debts));
	assert_true(debts_add(&debts, &more, 1, room, 103 * SECOND, NULL));
}

/* Never less than what was added in the last window, nor more than in the last and a quarter. */
static void beside_a_list(void **state)
{
	enum { ADDED = 400, CALLERS = 7 };
	uint64_t at[ADDED], cost[ADDED], now_ns = 1000 * SECOND;
	struct random random = random_begin("debts");
	int from = 0;

	(void)state;
	for (int i = 0; i < ADDED; i++) {
		now_ns += random_next(&random) % (SECOND / 2);
		at[i] = now_ns;
		cost[i] = random_next(&random) % 5 + 1;
		add(random_next(&random) % CALLERS, cost[i], now_ns);
		if (random_next(&random) % 8 != 0)
			continue;
		uint64_t least = 0, most = 0;
		for (int k = from; k <= i; k++) {
			least += at[k] + WINDOW * SECOND > now_ns ? cost[k] : 0;
			most += at[k] + WINDOW * SECOND * 5 / 4 > now_ns ? cost[k] : 0;
		}
		bool has_them = random_next(&random) % 2 == 0;
		pay(now_ns);
		assert_in_range(paid, least, most);
		debts_paid(&debts, has_them, now_ns);
		from = has_them ? i + 1 : from;
	}
}

UNIT_SUITE(test_debts)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(are_paid_once, begin, end),
		cmocka_unit_test_setup_teardown(many_are_paid_in_steps, begin, end),
		cmocka_unit_test_setup_teardown(what_was_not_come_to_stays_owed, begin, end),
		cmocka_unit_test_setup_teardown(end_after_their_window, begin, end),
		cmocka_unit_test_setup_teardown(end_in_the_quarter_after_it, begin, end),
		cmocka_unit_test_setup_teardown(of_several_limits_are_several, begin, end),
		cmocka_unit_test_setup_teardown(
			a_window_that_has_changed_loses_nothing, begin, end),
		cmocka_unit_test_setup_teardown(are_not_clear_while_they_are_paid, begin, end),
		cmocka_unit_test_setup_teardown(unpaid_ones_are_of_their_time, begin, end),
		cmocka_unit_test_setup_teardown(
			unpaid_ones_of_another_window_are_owed_in_the_new_one, begin, end),
		cmocka_unit_test_setup_teardown(unpaid_ones_are_owed_with_new_ones, begin, end),
		cmocka_unit_test_setup_teardown(can_be_taken_back, begin, end),
		cmocka_unit_test_setup_teardown(what_is_over_is_not_taken_back, begin, end),
		cmocka_unit_test_setup_teardown(what_was_paid_is_not_taken_back, begin, end),
		cmocka_unit_test_setup_teardown(what_is_owed_again_can_be_taken_back, begin, end),
		cmocka_unit_test_setup_teardown(those_that_cannot_be_paid_stay_owed, begin, end),
		cmocka_unit_test_setup_teardown(are_over_with_their_window_paid_or_not, begin, end),
		cmocka_unit_test_setup_teardown(are_bounded, begin, end),
		cmocka_unit_test_setup_teardown(cost_the_same_at_the_bound, begin, end),
		cmocka_unit_test_setup_teardown(scatter_by_a_secret, begin, end),
		cmocka_unit_test_setup_teardown(are_bounded_while_they_are_paid, begin, end),
		cmocka_unit_test_setup_teardown(beside_a_list, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
