/* What a node asks the store of leases, and what it makes of the answers. */
#include "fleet/lease.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "fleet/fleet_part.h"
#include "store/integers.h"
#include "tests/unit/fleet/lease_node.h"

enum { BEGIN_MS = 100000, WINDOW_MS = 8000, TERM_MS = 2000, MS = 1000000 };

static struct lease_node node;
static struct stats *stats;
static struct account account;
static struct question question;
static unsigned went_on;
static bool was_answered;

static void on_went_on(struct lease_node *of, struct question *asked, bool answered)
{
	assert_ptr_equal(of, &node);
	assert_ptr_equal(asked, &question);
	went_on++;
	was_answered = answered;
}

static void at(uint64_t ms)
{
	lease_node_set_time(&node, ms * MS);
}

/* A request by one limit: 100 per 8 s. */
static struct account_charge *charge_one(uint64_t cost)
{
	struct account_charge *charge = &account.charges[0];

	account.count = 1;
	account.refused = false;
	*charge = (struct account_charge){.caller = {77, 0x12345600},
		.rule = {.quota = 100, .window_us = WINDOW_MS * 1000, .quantum_us = 1},
		.limit = "it",
		.name_hash = limit_hash_name("it"),
		.cost = cost,
		.local = -1,
		.way = &lease_way,
		.said = WAY_ASK};
	return charge;
}

static void name_limit(struct account_charge *charge, const char *limit)
{
	charge->limit = limit;
	charge->name_hash = limit_hash_name(limit);
}

static int begin(void **state)
{
	(void)state;
	stats = stats_new(1);
	node = (struct lease_node){.went_on = on_went_on};
	lease_node_init(&node, 4, stats_block(stats, 0));
	at(BEGIN_MS);
	account = (struct account){.worker = &node.fleet};
	question = (struct question){.account = &account};
	went_on = 0;
	charge_one(1);
	return 0;
}

static int end(void **state)
{
	(void)state;
	lease_node_end(&node);
	stats_free(stats);
	return 0;
}

static enum way_verdict take_of(struct account_charge *charge)
{
	account.now_ns = node.now_ns;
	return lease_way.take(&account, charge);
}

static enum way_verdict take(void)
{
	return take_of(&account.charges[0]);
}

/* Of all callers. */
static unsigned in_hand(void)
{
	return (unsigned)hands_look(&node.hands, hand_ms(node.now_ns)).units;
}

static void ask(void)
{
	lease_ask(fleet_filling(&node.fleet, FLEET_LEASE, account.charges[0].caller, account.count),
		&question, &account);
}

static uint64_t counted(unsigned slot)
{
	return atomic_load(&stats_row(stats_block(stats, 0), STATS_NODE, 0)[slot]);
}

/* ---- what is asked --------------------------------------------------------------------------- */

struct asked {
	int64_t words[64];
	unsigned count;
};

/* The operations that wait to be sent. */
static struct asked asked(void)
{
	struct asked asked = {.count = 0};
	struct integers words = {0};

	if (!node.filling)
		return asked;
	words.at = (const uint8_t *)node.filling->batch.words.at;
	words.end = words.at + node.filling->batch.words.len;
	words.left = asked.count = node.filling->batch.word_count;
	assert_true(asked.count <= 64);
	for (unsigned i = 0; i < asked.count; i++)
		asked.words[i] = integers_next(&words);
	assert_false(words.wrong);
	return asked;
}

/* One limit of one operation, after `1 1 key rule`. */
static void assert_asked(const int64_t *of)
{
	struct asked got = asked();

	assert_int_equal(got.count, 12);
	assert_int_equal(got.words[0], 1);
	assert_int_equal(got.words[1], 1);
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(got.words[4 + i], of[i]);
}

#define ASKED(cost, slot, units, used, keep, want)                                                 \
	assert_asked((const int64_t[]){cost, slot, units, used, keep, want, TERM_MS * 1000,        \
		(slot)           ? 9                                                               \
		: node.hands.all ? epoch_said                                                      \
				 : 0})

static int64_t epoch_said; /* in what has no lease: of the last one */

/* ---- what is answered ------------------------------------------------------------------------ */

struct said {
	uint64_t used, slot, kept, got, time_us, fits;
};

static void answer(unsigned count, bool admitted, const struct said *of)
{
	struct fleet_batch *batch = lease_node_take_batch(&node);
	uint8_t bytes[256];
	size_t len = integers_head(bytes, 3 + 6 * count);

	len += integers_put(bytes + len, 1000);
	len += integers_put(bytes + len, 9);
	len += integers_put(bytes + len, admitted);
	for (unsigned i = 0; i < count; i++) {
		len += integers_put(bytes + len, of[i].used);
		len += integers_put(bytes + len, of[i].slot);
		len += integers_put(bytes + len, of[i].kept);
		len += integers_put(bytes + len, of[i].got);
		if (of[i].time_us == UINT64_MAX)
			bytes[len++] = 0xff; /* -1 */
		else
			len += integers_put(bytes + len, of[i].time_us);
		len += integers_put(bytes + len, of[i].fits);
	}
	lease_answer(batch, (const char *)bytes, len);
	assert_int_equal(batch->part_count, 0);
	lease_node_put_batch(&node, batch);
	epoch_said = 9;
}

static void lose_answer(void)
{
	struct fleet_batch *batch = lease_node_take_batch(&node);

	lease_answer(batch, NULL, 0);
	lease_node_put_batch(&node, batch);
}

/* The first request: judged by the store, which leases so many. */
static void get_lease(uint64_t units, uint64_t used)
{
	assert_int_equal(take(), WAY_ASK);
	ask();
	answer(1, true, &(struct said){used, 5, 0, units, 0, 1});
}

/* ---- what has leases ------------------------------------------------------------------------- */

static void small_quotas_have_no_hand(void **state)
{
	struct account_charge *charge = charge_one(1);

	(void)state;
	node.nodes = 5;
	assert_int_equal(take(), WAY_ASK);
	assert_non_null(charge->hand);
	node.nodes = 6;
	assert_int_equal(take(), WAY_ASK);
	assert_null(charge->hand);
	node.nodes = 0;
	take();
	assert_non_null(charge->hand);
	charge->rule.window_us = 999999;
	take();
	assert_null(charge->hand);
	charge->rule.window_us = 1000000;
	take();
	assert_non_null(charge->hand);
	charge->cost = HAND_UNITS_MOST + 1ull;
	take();
	assert_null(charge->hand);
	/* without one the store judges, and leases nothing */
	charge->cost = 1;
	charge->hand = NULL;
	ask();
	assert_int_equal(asked().words[4], 1);
	assert_int_equal(asked().words[5], 0);
	assert_int_equal(asked().words[9], 0);
	answer(1, true, &(struct said){1, 0, 0, 0, 0, 1});
	assert_int_equal(charge->said, WAY_TAKEN);
}

static void callers_limits_and_quotas_have_their_own(void **state)
{
	struct account_charge *charge = charge_one(1);

	(void)state;
	take();
	struct hand *hand = charge->hand;
	name_limit(charge, "other");
	take();
	assert_ptr_not_equal(charge->hand, hand);
	name_limit(charge, "it");
	charge->caller.hi++;
	take();
	assert_ptr_not_equal(charge->hand, hand);
	charge->caller.hi--;
	take();
	assert_ptr_equal(charge->hand, hand);
	charge->rule.quota--; /* by a reload */
	take();
	assert_ptr_not_equal(charge->hand, hand);
}

/* ---- a lease --------------------------------------------------------------------------------- */

static void a_lease_comes_with_the_first_answer(void **state)
{
	struct account_charge *charge = &account.charges[0];

	(void)state;
	epoch_said = 0;
	assert_int_equal(take(), WAY_ASK);
	ask();
	ASKED(1, 0, 0, 0, 0, 7); /* one in the first eighth of a term is 7 in a term */
	assert_false(hand_lock(charge->hand));
	answer(1, true, &(struct said){8, 5, 0, 7, 3000000, 1});
	assert_int_equal(went_on, 1);
	assert_true(was_answered);
	assert_int_equal(charge->said, WAY_TAKEN);
	assert_int_equal(charge->slot, 1);
	assert_int_equal(charge->epoch, 9);
	assert_int_equal(charge->outcome.quota, 100);
	assert_int_equal(charge->outcome.remaining, 99);
	assert_false(charge->outcome.violated);
	assert_int_equal(charge->outcome.retry_after_ns, 0);
	assert_int_equal(charge->outcome.reset_ns, 3000000000);
	assert_true(hand_lock(charge->hand));
	hand_unlock(charge->hand);
	/* it ends a sixteenth earlier than the store's */
	assert_int_equal(hand_time_left(charge->hand, BEGIN_MS), (TERM_MS - TERM_MS / 16) | 1);
	charge_one(1);
	assert_int_equal(take(), WAY_TAKEN);
	assert_int_equal(charge->outcome.remaining, 6 + 92);
	assert_true(charge->slot > 1);
	assert_int_equal(charge->taken_ns, (uint64_t)BEGIN_MS * MS);
	assert_null(node.filling);
	assert_int_equal(counted(STATS_LEASE_TAKEN), 1);
	assert_int_equal(counted(STATS_LEASE_REFUSED), 0);
	assert_int_equal(counted(STATS_STORE_LEASED), 7);
}

/* A store that was flushed gives leases of what may be in use already. */
static void a_strict_limit_takes_none_of_a_store_without_memory(void **state)
{
	struct account_charge *charge = charge_one(1);

	(void)state;
	charge->down = CONF_STORE_DOWN_STRICT;
	node.lacks_memory = true;
	assert_int_equal(take(), WAY_ASK);
	ask();
	answer(1, true, &(struct said){8, 5, 0, 7, 3000000, 1});
	assert_int_equal(in_hand(), 0);
	charge = charge_one(1);
	charge->down = CONF_STORE_DOWN_LOCAL; /* its share decides from then on */
	assert_int_equal(take(), WAY_ASK);
	ask();
	answer(1, true, &(struct said){8, 5, 0, 7, 3000000, 1});
	assert_int_equal(in_hand(), 7);
}

static void a_caller_without_demand_gets_none(void **state)
{
	(void)state;
	epoch_said = 0;
	charge_one(1);
	take();
	at(BEGIN_MS + 1000); /* one in half a term */
	ask();
	ASKED(1, 0, 0, 0, 0, 0);
	answer(1, true, &(struct said){1, 0, 0, 0, 0, 1});
	assert_int_equal(node.fleet.leases.count, 0);
}

static void a_lease_is_at_most_the_share(void **state)
{
	(void)state;
	epoch_said = 0;
	node.nodes = 4;
	charge_one(1);
	for (int i = 0; i < 50; i++)
		take();
	ask();
	ASKED(1, 0, 0, 0, 0, 25);
	lose_answer();
}

static void it_is_renewed_before_it_is_used_up(void **state)
{

	(void)state;
	get_lease(8, 9);
	for (unsigned left = 7; left > 2; left--) {
		charge_one(1);
		assert_int_equal(take(), WAY_TAKEN);
		assert_null(node.filling);
	}
	charge_one(1);
	assert_int_equal(take(), WAY_TAKEN); /* two are left: a quarter */
	/* seven were asked for in no time, which is 55 in a term; two are kept */
	ASKED(0, 5, 8, 6, 2, 53);
	charge_one(1);
	assert_int_equal(take(), WAY_TAKEN); /* once is enough */
	assert_int_equal(asked().count, 12);
	answer(1, true, &(struct said){40, 6, 2, 30, 0, 1});
	assert_int_equal(went_on, 1);
	assert_int_equal(in_hand(), 31);
	assert_int_equal(node.fleet.leases.count, 1);
}

static void it_is_renewed_before_it_ends(void **state)
{
	(void)state;
	get_lease(80, 81);
	at(BEGIN_MS + 1374);
	charge_one(1);
	assert_int_equal(take(), WAY_TAKEN);
	assert_null(node.filling);
	at(BEGIN_MS + 1375); /* a quarter of a term is left */
	charge_one(1);
	assert_int_equal(take(), WAY_TAKEN);
	assert_int_equal(asked().count, 12);
	lose_answer();
}

/* It may have been given while the store had more to give (strict.h). */
static void strict_keeps_nothing_of_a_lease(void **state)
{
	(void)state;
	get_lease(8, 9);
	charge_one(6)->down = CONF_STORE_DOWN_STRICT;
	assert_int_equal(take(), WAY_TAKEN);
	ASKED(0, 5, 8, 6, 0, 55);
	lose_answer();
}

static void nothing_is_renewed_on_other_rungs(void **state)
{
	static const enum rung rungs[] = {RUNG_WAIT, RUNG_SHARE};

	(void)state;
	get_lease(4, 5);
	for (unsigned i = 0; i < 2; i++) {
		charge_one(i == 0 ? 3 : 1)->rung = rungs[i];
		assert_int_equal(take(), WAY_TAKEN);
		assert_null(node.filling);
	}
}

static void nothing_is_renewed_where_the_store_cannot_be_asked(void **state)
{
	(void)state;
	get_lease(4, 5);
	node.is_slow = true;
	for (int i = 0; i < 3; i++) {
		charge_one(1);
		assert_int_equal(take(), WAY_TAKEN);
	}
	assert_null(node.filling);
	node.is_slow = false;
	node.is_away = true;
	charge_one(1);
	assert_int_equal(take(), WAY_TAKEN);
	node.is_away = false;
	assert_true(hand_lock(account.charges[0].hand));
	hand_unlock(account.charges[0].hand);
}

/* ---- refusals -------------------------------------------------------------------------------- */

static void what_the_store_refuses_is_closed(void **state)
{
	struct account_charge *charge = &account.charges[0];

	(void)state;
	assert_int_equal(take(), WAY_ASK);
	ask();
	answer(1, false, &(struct said){100, 0, 0, 0, 3000000, 0});
	assert_int_equal(charge->said, WAY_UNTAKEN);
	assert_int_equal(charge->slot, 0);
	assert_true(account.refused);
	assert_true(charge->outcome.violated);
	assert_int_equal(charge->outcome.remaining, 0);
	assert_int_equal(charge->outcome.retry_after_ns, 3000000000);
	charge_one(1);
	assert_int_equal(take(), WAY_UNTAKEN);
	assert_true(charge->outcome.violated);
	assert_int_equal(charge->outcome.remaining, 0);
	assert_int_equal(charge->outcome.retry_after_ns, 3001000000);
	assert_int_equal(charge->outcome.more_ns, 3001000000);
	assert_int_equal(counted(STATS_LEASE_REFUSED), 1);
	charge_one(101);
	assert_int_equal(take(), WAY_UNTAKEN);
	assert_true(charge->outcome.retry_after_ns == THROTTLE_NEVER);
	at(BEGIN_MS + TERM_MS / 4); /* then it is asked again */
	charge_one(1);
	assert_int_equal(take(), WAY_ASK);
}

static void a_cost_that_never_fits_closes_nothing(void **state)
{
	struct account_charge *charge = charge_one(200);

	(void)state;
	assert_int_equal(take(), WAY_ASK);
	ask();
	answer(1, false, &(struct said){100, 0, 0, 0, UINT64_MAX, 0});
	assert_true(charge->outcome.retry_after_ns == THROTTLE_NEVER);
	charge_one(1);
	assert_int_equal(take(), WAY_ASK);
}

static void it_opens_again_with_what_is_free(void **state)
{
	(void)state;
	assert_int_equal(take(), WAY_ASK);
	ask();
	answer(1, false, &(struct said){100, 0, 0, 0, 3000000, 0});
	at(BEGIN_MS + 500);
	charge_one(1);
	assert_int_equal(take(), WAY_ASK);
	ask();
	answer(1, true, &(struct said){99, 0, 0, 0, 3000000, 1});
	charge_one(1);
	assert_int_equal(take(), WAY_ASK); /* and not UNTAKEN */
}

static void what_was_not_charged_does_not_go_back(void **state)
{
	struct account_charge *charge = &account.charges[0];

	(void)state;
	charge->rule.shadow = true;
	assert_int_equal(take(), WAY_ASK);
	ask();
	answer(1, true, &(struct said){100, 0, 0, 0, 3000000, 0});
	assert_int_equal(charge->said, WAY_UNTAKEN);
	assert_int_equal(charge->slot, 0);
	assert_true(charge->outcome.violated);
	charge = charge_one(0);
	charge->caller.hi++;
	assert_int_equal(take(), WAY_ASK);
	ask();
	answer(1, true, &(struct said){0, 0, 0, 0, 0, 1});
	assert_int_equal(charge->said, WAY_UNTAKEN);
	assert_int_equal(charge->slot, 0);
}

static void what_another_limit_refuses_is_looked_at(void **state)
{
	struct account_charge *charge = &account.charges[0];

	(void)state;
	get_lease(8, 9);
	charge_one(3);
	charge->hand = NULL;
	assert_int_equal(lease_way.look(&account, charge), WAY_UNTAKEN);
	assert_int_equal(charge->outcome.remaining, 8 + 91);
	assert_false(charge->outcome.violated);
	hand_close(charge->hand, BEGIN_MS, 100, 300);
	charge->cost = 8;
	lease_way.look(&account, charge);
	assert_false(charge->outcome.violated);
	charge->cost = 9;
	assert_int_equal(lease_way.look(&account, charge), WAY_UNTAKEN);
	assert_true(charge->outcome.violated);
	assert_int_equal(charge->outcome.retry_after_ns, 300000000);
}

/* ---- failures -------------------------------------------------------------------------------- */

static void a_lost_answer_leaves_the_lease_to_its_end(void **state)
{
	struct account_charge *charge = &account.charges[0];

	(void)state;
	get_lease(4, 5);
	charge_one(4);
	assert_int_equal(take(), WAY_TAKEN);
	assert_int_equal(asked().count, 12);
	lose_answer();
	assert_int_equal(went_on, 1);
	assert_int_equal(charge->hand->slot, 0);
	assert_true(hand_lock(charge->hand));
	hand_unlock(charge->hand);
	assert_int_equal(in_hand(), 0);
	charge_one(1);
	assert_int_equal(take(), WAY_ASK);
	ask();
	assert_int_equal(asked().words[5], 0); /* of no lease */
	lose_answer();
	assert_int_equal(went_on, 2);
	assert_false(was_answered);
}

static void an_answer_that_is_cut_is_none(void **state)
{
	uint8_t bytes[64];
	struct account_charge *charge = &account.charges[0];

	(void)state;
	assert_int_equal(take(), WAY_ASK);
	ask();
	struct fleet_batch *batch = lease_node_take_batch(&node);
	size_t len = integers_head(bytes, 3);
	for (int i = 0; i < 3; i++)
		len += integers_put(bytes + len, 1);
	lease_answer(batch, (const char *)bytes, len);
	lease_node_put_batch(&node, batch);
	assert_false(was_answered);
	assert_int_equal(charge->said, WAY_ASK);
	assert_true(hand_lock(charge->hand));
	hand_unlock(charge->hand);
}

/* ---- several limits -------------------------------------------------------------------------- */

static void charge_two(void)
{
	charge_one(1);
	account.charges[1] = (struct account_charge){.way = NULL, .said = WAY_ASK};
	account.charges[2] = account.charges[0];
	account.charges[3] = account.charges[0]; /* of an account before */
	name_limit(&account.charges[2], "other");
	account.count = 3;
	take_of(&account.charges[0]);
	take_of(&account.charges[2]);
}

static void several_limits_are_one_operation(void **state)
{
	(void)state;
	charge_two();
	ask();
	struct asked got = asked();
	assert_int_equal(got.count, 2 + 2 * 10);
	assert_int_equal(got.words[1], 2);
	assert_int_not_equal(got.words[2], got.words[12]);
	answer(2, false,
		(const struct said[]){{1, 5, 0, 7, 1000000, 1}, {100, 0, 0, 0, 2000000, 0}});
	assert_int_equal(went_on, 1);
	assert_int_equal(account.charges[0].said, WAY_UNTAKEN);
	assert_int_equal(account.charges[1].said, WAY_ASK);
	assert_int_equal(account.charges[3].said, WAY_ASK);
	assert_false(account.charges[0].outcome.violated);
	assert_int_equal(account.charges[0].outcome.retry_after_ns, 0);
	assert_true(account.charges[2].outcome.violated);
	assert_true(hand_closed(account.charges[2].hand, BEGIN_MS) > 0);
	assert_int_equal(hand_closed(account.charges[0].hand, BEGIN_MS), 0);
	assert_int_equal(hand_time_left(account.charges[0].hand, BEGIN_MS), TERM_MS - TERM_MS / 16);
}

static void what_is_in_hand_is_not_asked_about(void **state)
{
	(void)state;
	get_lease(8, 9);
	charge_two();
	account.charges[0].said = WAY_TAKEN;
	ask();
	assert_int_equal(asked().count, 12);
	answer(1, true, &(struct said){8, 5, 0, 7, 0, 1});
	assert_int_equal(account.charges[0].said, WAY_TAKEN);
	assert_true(account.charges[0].slot > 1);
	assert_int_equal(account.charges[2].slot, 1);
}

static void a_refused_request_charges_nothing(void **state)
{
	(void)state;
	charge_two();
	account.refused = true;
	ask();
	assert_int_equal(asked().words[4], 0);
	assert_int_equal(asked().words[9], 0);
	assert_true(hand_lock(account.charges[0].hand) || account.charges[0].hand == NULL);
	answer(2, true, (const struct said[]){{1, 0, 0, 0, 0, 1}, {1, 0, 0, 0, 0, 1}});
	assert_int_equal(account.charges[0].said, WAY_UNTAKEN);
	assert_int_equal(account.charges[2].said, WAY_UNTAKEN);
	assert_true(account.refused);
}

static void a_hand_that_another_speaks_for_is_left_alone(void **state)
{
	struct account_charge *charge = &account.charges[0];

	(void)state;
	take();
	assert_true(hand_lock(charge->hand));
	ask();
	assert_int_equal(asked().words[4], 1);
	assert_int_equal(asked().words[9], 0);
	answer(1, true, &(struct said){1, 0, 0, 0, 0, 1});
	assert_int_equal(charge->said, WAY_TAKEN);
}

/* ---- what comes back ------------------------------------------------------------------------- */

static void what_was_taken_goes_back(void **state)
{
	struct account_charge *charge = &account.charges[0];

	(void)state;
	get_lease(8, 9);
	charge_one(3);
	take();
	lease_way.give(&account, charge, 2);
	assert_int_equal(in_hand(), 7);
	assert_null(node.filling);
	lease_way.give(&account, charge, 0);
	assert_null(node.filling);
	/* when its use is reported, to the store */
	hand_report(charge->hand, BEGIN_MS, false);
	lease_way.give(&account, charge, 1);
	struct asked got = asked();
	assert_int_equal(got.count, 6);
	assert_int_equal(got.words[0], 2);
	assert_int_equal(got.words[3], 1);
	assert_int_equal(got.words[4], 9);
	assert_int_equal(got.words[5], 1000); /* the store's time when it leased this */
}

static void what_the_store_charged_goes_back_while_it_counts(void **state)
{
	struct account_charge *charge = &account.charges[0];

	(void)state;
	assert_int_equal(take(), WAY_ASK);
	ask();
	at(BEGIN_MS + 20); /* the store may have charged it at any time since */
	answer(1, true, &(struct said){9, 5, 0, 8, 0, 1});
	at(BEGIN_MS + WINDOW_MS - WINDOW_MS / 64);
	lease_way.give(&account, charge, 1);
	assert_null(node.filling);
	at(BEGIN_MS + WINDOW_MS - WINDOW_MS / 64 - 1);
	lease_way.give(&account, charge, HAND_UNITS_MOST + 1ull);
	assert_null(node.filling);
	node.is_away = true;
	lease_way.give(&account, charge, 1);
	node.is_away = false;
	assert_null(node.filling);
	lease_way.give(&account, charge, 1);
	assert_int_equal(asked().words[0], 2);
	assert_int_equal(asked().words[5], 1000); /* when it charged this */
	charge->slot = 0;
	lease_node_put_batch(&node, lease_node_take_batch(&node));
	lease_way.give(&account, charge, 1);
	assert_null(node.filling);
}

/* Else a node that turns requests away once it has charged them seems to need more than others. */
static void what_is_given_back_was_no_demand(void **state)
{
	struct account_charge *charge = charge_one(1);

	(void)state;
	get_lease(10, 10);
	for (unsigned i = 0; i < 8; i++) {
		charge->slot = 0;
		assert_int_equal(take(), WAY_TAKEN);
		lease_way.give(&account, charge, 1);
	}
	assert_int_equal(atomic_load(&charge->hand->uses), 1); /* get_lease's */
	/* nor what the store has charged by itself */
	charge->slot = 1;
	lease_way.give(&account, charge, 1);
	assert_int_equal(atomic_load(&charge->hand->uses), 0);
}

static void more_is_taken_in_hand_or_charged(void **state)
{
	struct account_charge *charge = &account.charges[0];

	(void)state;
	get_lease(8, 9);
	lease_way.add(&account, charge, 3);
	assert_int_equal(in_hand(), 5);
	assert_null(node.filling);
	lease_way.add(&account, charge, 6);
	assert_int_equal(asked().count, 4);
	assert_int_equal(asked().words[0], 3);
	assert_int_equal(asked().words[3], 6);
	lease_node_put_batch(&node, lease_node_take_batch(&node));
	node.is_away = true;
	lease_way.add(&account, charge, 6);
	node.is_away = false;
	charge->hand = NULL;
	lease_way.add(&account, charge, 1);
	assert_int_equal(asked().words[3], 1);
}

/* ---- a hand that was given to another caller ------------------------------------------------- */

/* The caller's lease is over and returned; then others take all hands there are. */
static void give_hand_away(void)
{
	struct account_charge mine = account.charges[0];

	at(BEGIN_MS + TERM_MS);
	lease_node_run_timer(&node);
	answer(1, true, &(struct said){1, 0, 0, 0, 0, 1});
	lease_node_run_timer(&node);
	assert_int_equal(node.fleet.leases.count, 0);
	for (unsigned i = 1; i <= 4; i++) {
		struct account_charge *charge = charge_one(1);
		charge->caller.hi += i;
		get_lease(20, 21);
		assert_true(i < 4 || charge->hand == mine.hand);
	}
	account.charges[0] = mine;
}

static void more_is_not_taken_from_another_callers_lease(void **state)
{
	struct account_charge *charge = &account.charges[0];

	(void)state;
	get_lease(8, 9);
	give_hand_away();
	lease_way.add(&account, charge, 3);
	assert_int_equal(in_hand(), 80);
	assert_int_equal(asked().count, 4);
	assert_int_equal(asked().words[0], 3);
	assert_int_equal(asked().words[3], 3);
}

/* Found before another part of the store was asked, say. */
static void no_lease_is_asked_for_another_callers_hand(void **state)
{
	struct account_charge *charge = &account.charges[0];

	(void)state;
	get_lease(8, 9);
	give_hand_away();
	charge->said = WAY_ASK;
	ask();
	assert_int_equal(asked().words[4], 1);
	assert_int_equal(asked().words[5], 0);
	assert_int_equal(asked().words[9], 0);
	answer(1, true, &(struct said){9, 0, 0, 0, 0, 1});
	assert_int_equal(charge->said, WAY_TAKEN);
	assert_int_equal(in_hand(), 80);
}

/* Milliseconds of 32 bits begin again after 49 days. */
static void a_lease_is_over_for_good(void **state)
{
	(void)state;
	get_lease(8, 9);
	charge_one(6);
	assert_int_equal(take(), WAY_TAKEN);
	lose_answer();
	assert_int_equal(in_hand(), 2);
	at(BEGIN_MS + TERM_MS);
	lease_node_run_timer(&node);
	assert_int_equal(node.fleet.leases.count, 0);
	at(BEGIN_MS + (UINT64_C(1) << 32));
	charge_one(1);
	assert_int_equal(take(), WAY_ASK);
}

/* ---- what cannot be -------------------------------------------------------------------------- */

static void a_lease_is_never_more_than_a_hand_can_hold(void **state)
{
	struct account_charge *charge = &account.charges[0];

	(void)state;
	assert_int_equal(take(), WAY_ASK);
	ask();
	answer(1, true, &(struct said){9, 5, 0, HAND_UNITS_MOST + 1ull, 0, 1});
	assert_false(was_answered);
	assert_int_equal(charge->said, WAY_ASK);
	assert_int_equal(in_hand(), 0);
	assert_int_equal(take(), WAY_ASK);
	ask();
	answer(1, true, &(struct said){9, 5, UINT64_MAX, 2, 0, 1});
	assert_false(was_answered);
	assert_int_equal(in_hand(), 0);
	assert_true(hand_lock(charge->hand));
}

/* ---- its end --------------------------------------------------------------------------------- */

static void what_is_over_is_returned(void **state)
{
	struct account_charge *charge = &account.charges[0];

	(void)state;
	get_lease(8, 9);
	assert_int_equal(node.fleet.leases.count, 1);
	assert_int_equal(node.fleet.leases.timer.at_ms, BEGIN_MS + 25);
	at(BEGIN_MS + 1000);
	assert_true(lease_node_is_due(&node));
	lease_node_run_timer(&node);
	assert_null(node.filling);
	assert_int_equal(node.fleet.leases.timer.at_ms, BEGIN_MS + 1025);
	charge_one(3);
	take();
	at(BEGIN_MS + TERM_MS);
	lease_node_run_timer(&node);
	ASKED(0, 5, 8, 3, 0, 0);
	lease_node_run_timer(&node); /* it is on its way */
	assert_int_equal(asked().count, 12);
	answer(1, true, &(struct said){3, 0, 0, 0, 1000000, 1});
	assert_int_equal(node.fleet.leases.count, 1);
	lease_node_run_timer(&node);
	assert_int_equal(node.fleet.leases.count, 0);
	assert_true(node.fleet.leases.timer.at_ms == DEADLINE_NEVER);
	assert_false(atomic_load(&charge->hand->listed));
	/* and the next one is watched again */
	charge_one(1);
	assert_int_equal(take(), WAY_ASK);
	ask();
	answer(1, true, &(struct said){12, 6, 0, 8, 0, 1});
	assert_int_equal(node.fleet.leases.count, 1);
	assert_false(lease_node_is_due(&node));
}

static void what_cannot_be_returned_stays_listed(void **state)
{
	(void)state;
	get_lease(8, 9);
	at(BEGIN_MS + TERM_MS);
	node.is_away = true;
	lease_node_run_timer(&node);
	assert_int_equal(node.fleet.leases.count, 1);
	assert_true(hand_lock(account.charges[0].hand));
	hand_unlock(account.charges[0].hand);
	node.is_away = false;
	lease_node_run_timer(&node);
	assert_int_equal(asked().count, 12);
	lose_answer(); /* the store counts it to its end; nothing more is said of it */
	lease_node_run_timer(&node);
	assert_int_equal(node.fleet.leases.count, 0);
}

static void a_node_that_leaves_returns_all(void **state)
{
	(void)state;
	get_lease(8, 9);
	struct hand *hand = account.charges[0].hand;
	leases_return(&node.fleet.leases);
	ASKED(0, 5, 8, 0, 0, 0);
	assert_int_equal(node.fleet.leases.count, 0);
	assert_false(atomic_load(&hand->listed));
	assert_int_equal(hand_time_left(hand, BEGIN_MS), 0);
	answer(1, true, &(struct said){1, 0, 0, 0, 0, 1});
	get_lease(8, 9);
	node.is_away = true;
	leases_return(&node.fleet.leases);
	assert_true(hand_lock(account.charges[0].hand));
	assert_true(node.fleet.leases.timer.at_ms == DEADLINE_NEVER);
}

/* Of 3,000 callers a turn of the timer looks at 256. */
static void many_leases_take_many_turns(void **state)
{
	(void)state;
	lease_node_end(&node);
	node = (struct lease_node){.went_on = on_went_on};
	lease_node_init(&node, 16384, stats_block(stats, 0));
	node.hands.multiplier = UINT64_C(0x9e3779b97f4a7c15); /* some secrets fill a set */
	at(BEGIN_MS);
	for (uint64_t i = 0; i < 3000; i++) {
		struct account_charge *charge = charge_one(1);
		charge->caller = (struct throttle_key){i, i << 10};
		assert_int_equal(take(), WAY_ASK);
		assert_non_null(charge->hand);
		ask();
		answer(1, true, &(struct said){8, 5, 0, 7, 0, 1});
	}
	assert_int_equal(node.fleet.leases.count, 3000);
	at(BEGIN_MS + TERM_MS);
	for (unsigned turn = 0; turn < 12; turn++) {
		lease_node_run_timer(&node);
		assert_true(node.filling->part_count <= 256);
		lose_answer();
	}
	for (unsigned turn = 0; turn < 24 && node.fleet.leases.count > 0; turn++) {
		lease_node_run_timer(&node);
		if (node.filling)
			lose_answer();
	}
	assert_int_equal(node.fleet.leases.count, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(small_quotas_have_no_hand),
		TEST(callers_limits_and_quotas_have_their_own),
		TEST(a_lease_comes_with_the_first_answer),
		TEST(a_strict_limit_takes_none_of_a_store_without_memory),
		TEST(a_caller_without_demand_gets_none),
		TEST(a_lease_is_at_most_the_share),
		TEST(it_is_renewed_before_it_is_used_up),
		TEST(it_is_renewed_before_it_ends),
		TEST(strict_keeps_nothing_of_a_lease),
		TEST(nothing_is_renewed_on_other_rungs),
		TEST(nothing_is_renewed_where_the_store_cannot_be_asked),
		TEST(what_the_store_refuses_is_closed),
		TEST(a_cost_that_never_fits_closes_nothing),
		TEST(it_opens_again_with_what_is_free),
		TEST(what_was_not_charged_does_not_go_back),
		TEST(what_another_limit_refuses_is_looked_at),
		TEST(what_is_given_back_was_no_demand),
		TEST(a_lost_answer_leaves_the_lease_to_its_end),
		TEST(an_answer_that_is_cut_is_none),
		TEST(several_limits_are_one_operation),
		TEST(what_is_in_hand_is_not_asked_about),
		TEST(a_refused_request_charges_nothing),
		TEST(a_hand_that_another_speaks_for_is_left_alone),
		TEST(what_was_taken_goes_back),
		TEST(what_the_store_charged_goes_back_while_it_counts),
		TEST(more_is_taken_in_hand_or_charged),
		TEST(more_is_not_taken_from_another_callers_lease),
		TEST(no_lease_is_asked_for_another_callers_hand),
		TEST(a_lease_is_over_for_good),
		TEST(a_lease_is_never_more_than_a_hand_can_hold),
		TEST(what_is_over_is_returned),
		TEST(what_cannot_be_returned_stays_listed),
		TEST(a_node_that_leaves_returns_all),
		TEST(many_leases_take_many_turns),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
