/*
 * What is in hand of a quota: by one node step by step, by threads, and by many nodes with a store
 * that delays, loses and forgets nothing, in random schedules: no window is ever too full.
 */
#include "fleet/hand.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/unit/random.h"
#include "tests/unit/suite.h"

static const struct throttle_key anyone = {77, 0x12345600};
static const struct throttle_key nobody = {0, 0}; /* of a hand that is nobody's yet */

static struct hand *hand_of(struct hands *hands)
{
	assert_true(hands_init(hands, 4));
	struct hand *hand = hands_find(hands, anyone, 1000);
	assert_non_null(hand);
	return hand;
}

static void adopt(struct hand *hand, uint32_t kept, uint32_t got, uint32_t ends_ms)
{
	hand_adopt(hand, 5, 9, kept, got, ends_ms);
}

/* ---- step by step ---------------------------------------------------------------------------- */

static void a_lease_is_taken_and_ends(void **state)
{
	struct hands hands;
	struct hand *hand = hand_of(&hands);
	uint32_t left;

	(void)state;
	assert_int_equal(hand_take(hand, anyone, 1, 1000, &left), 0);
	adopt(hand, 0, 3, 2001);
	assert_true(hand_take(hand, anyone, 2, 1000, &left) != 0);
	assert_int_equal(left, 1);
	assert_int_equal(hand_take(hand, anyone, 2, 1000, &left), 0);
	assert_int_equal(left, 1);
	assert_true(hand_take(hand, anyone, 1, 2000, &left) != 0);
	adopt(hand, 0, 3, 3001);
	assert_int_equal(hand_take(hand, anyone, 1, 3001, &left), 0);
	assert_int_equal(hand_take(hand, anyone, 1, 3002 + HAND_TERM_MOST, &left), 0);
	assert_ptr_equal(hands_find(&hands, anyone, 1000), hand);
	hands_end(&hands);
}

static void what_comes_back_does_so_until_it_is_reported(void **state)
{
	struct hands hands;
	struct hand *hand = hand_of(&hands);
	uint32_t left;

	(void)state;
	adopt(hand, 0, 10, 2001);
	uint64_t lease = hand_take(hand, anyone, 4, 1000, &left);
	assert_true(hand_put(hand, lease, 1));
	struct hand_report report = hand_report(hand, 1000, false);
	assert_int_equal(report.units, 10);
	assert_int_equal(report.used, 3);
	assert_int_equal(report.keep, 7);
	assert_false(hand_put(hand, lease, 1));
	lease = hand_take(hand, anyone, 2, 1000, &left);
	adopt(hand, 7, 5, 2501);
	hand_take(hand, anyone, 0, 1000, &left);
	assert_int_equal(left, 10);
	report = hand_report(hand, 2502, false);
	assert_int_equal(report.units, 12);
	assert_int_equal(report.used, 2);
	assert_int_equal(report.keep, 0);
	assert_int_equal(hand_take(hand, anyone, 1, 1000, &left), 0);
	hands_end(&hands);
}

static void what_may_be_lost_is_not_kept(void **state)
{
	struct hands hands;
	struct hand *hand = hand_of(&hands);
	uint32_t left;

	(void)state;
	adopt(hand, 0, 10, 2001);
	hand_report(hand, 1000, false);
	hand_lose(hand);
	assert_true(hand_take(hand, anyone, 1, 1500, &left) != 0);
	struct hand_report report = hand_report(hand, 1500, false);
	assert_int_equal(report.slot, 0);
	assert_int_equal(report.keep, 0);
	assert_int_equal(hand_take(hand, anyone, 1, 1500, &left), 0);
	/* a store that has forgotten it keeps nothing of it */
	adopt(hand, 0, 10, 2001);
	hand_report(hand, 1000, false);
	adopt(hand, 0, 2, 2001);
	hand_take(hand, anyone, 0, 1000, &left);
	assert_int_equal(left, 2);
	hands_end(&hands);
}

static void a_hand_is_given_to_another(void **state)
{
	struct hands hands;
	struct throttle_key other = anyone;
	struct hand *hand = hand_of(&hands);
	uint32_t left;

	(void)state;
	adopt(hand, 0, 10, 2001);
	uint64_t lease = hand_take(hand, anyone, 1, 1000, &left);
	for (unsigned i = 1; i < 4; i++) {
		other.hi = i;
		struct hand *found = hands_find(&hands, other, 1000);
		assert_non_null(found);
		adopt(found, 0, 1, 5001);
	}
	other.hi = 99;
	assert_null(hands_find(&hands, other, 1000));
	assert_true(hand_is_of(hand, anyone));
	assert_ptr_equal(hands_find(&hands, other, 2002), hand);
	assert_false(hand_put(hand, lease, 1));
	assert_false(hand_is_of(hand, anyone));
	assert_true(hand_is_of(hand, other));
	adopt(hand, 0, 10, 3001);
	assert_int_equal(hand_take(hand, anyone, 1, 2002, &left), 0);
	assert_int_equal(left, 0);
	assert_true(hand_take(hand, other, 1, 2002, &left) != 0);
	assert_int_equal(left, 9);
	hand_clear(hand);
	assert_int_equal(hand_time_left(hand, 2002), 0);
	assert_int_equal(hand_take(hand, other, 1, 2002, &left), 0);
	hand_close(hand, 2002, 100, 900);
	assert_int_equal(hand_closed(hand, 2002), 900);
	assert_int_equal(hand_closed(hand, 2101), 801);
	assert_int_equal(hand_closed(hand, 2102), 0);
	assert_true(hand_lock(hand));
	assert_false(hand_lock(hand));
	hand_unlock(hand);
	hands_end(&hands);
}

static void demand_is_of_the_last_term(void **state)
{
	struct hands hands;
	struct hand *hand = hand_of(&hands);

	(void)state;
	assert_int_equal(hand_expected(hand, 1000, 800), 0);
	for (unsigned i = 0; i < 100; i++)
		hand_note_use(hand, 1);
	assert_in_range(hand_expected(hand, 1000, 800), 700, 800);
	assert_in_range(hand_expected(hand, 1400, 800), 190, 210);
	assert_in_range(hand_expected(hand, 1800, 800), 90, 140);
	assert_int_equal(hand_expected(hand, 100000, 800), 0);
	hands_end(&hands);
}

static void what_is_given_back_was_no_demand(void **state)
{
	struct hands hands;
	struct hand *hand = hand_of(&hands);

	(void)state;
	hand_note_use(hand, 100);
	hand_forget_use(hand, 60);
	assert_in_range(hand_expected(hand, 1800, 800), 35, 40);
	hand_forget_use(hand, 1000); /* of which half is forgotten already */
	assert_int_equal(hand_expected(hand, 1800, 800), 0);
	hands_end(&hands);
}

/* ---- threads --------------------------------------------------------------------------------- */

enum { THREADS = 4, ROUNDS = 20000 };

struct taker {
	pthread_t thread;
	struct hand *hand;
	uint64_t taken;
};

static void *take_all(void *arg)
{
	struct taker *taker = arg;
	uint32_t left;

	for (unsigned i = 0; i < ROUNDS; i++) {
		uint64_t lease = hand_take(taker->hand, anyone, 1, 1000, &left);
		if (lease == 0)
			continue;
		if (i % 3 == 0 && hand_put(taker->hand, lease, 1))
			continue;
		taker->taken++;
	}
	return NULL;
}

/* What is reported as used and what is left is all there was. */
static void threads_take_no_more_than_there_is(void **state)
{
	struct hands hands;
	struct hand *hand = hand_of(&hands);
	struct taker takers[THREADS] = {0};
	uint64_t got = 1000, taken = 0, reported = 0;

	(void)state;
	adopt(hand, 0, 1000, 2001);
	for (unsigned i = 0; i < THREADS; i++) {
		takers[i].hand = hand;
		assert_int_equal(pthread_create(&takers[i].thread, NULL, take_all, &takers[i]), 0);
	}
	for (unsigned i = 0; i < 200; i++) {
		struct hand_report report = hand_report(hand, 1000, false);
		reported += report.used;
		adopt(hand, report.keep, 50, 2001);
		got += 50;
	}
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(takers[i].thread, NULL);
		taken += takers[i].taken;
	}
	struct hand_report report = hand_report(hand, 1000, true);
	reported += report.used;
	assert_int_equal(reported, taken);
	assert_int_equal(reported + report.units - report.used, got);
	hands_end(&hands);
}

/* ---- many nodes ------------------------------------------------------------------------------ */

static uint32_t draw(struct random *random, uint32_t bound)
{
	return (uint32_t)random_below(random, bound);
}

enum { NODES = 5, SLOTS = 4096, CALLS = 64, STEPS = 3000, USES = 65536, WINDOW_MS = 1000 };

/* lease.lua, plainly: each millisecond is a slot. Counts of what has passed stay 0. */
struct fake_store {
	uint32_t now_ms, quota;
	uint32_t used[SLOTS], leased[SLOTS];
};

struct call {
	bool is_open, reached, is_lost;
	uint32_t arrives_ms, answered_ms; /* answered_ms: after the store had it */
	unsigned node;
	struct hand_report report;
	uint32_t want, term_ms, ends_ms; /* ends_ms: by the node's clock */
	uint32_t slot, kept, got;
};

struct fleet {
	struct random *random;
	uint32_t now_ms;
	struct fake_store store;
	struct hands hands[NODES];
	uint32_t clock_ms[NODES]; /* ahead of the store's */
	uint32_t stopped_until_ms[NODES];
	struct call calls[CALLS];
	uint32_t uses[USES]; /* when; 0: given back */
	unsigned use_count;
	uint64_t
		put_later[NODES]; /* a lease's name, of a use that is perhaps given back; 0: none */
	unsigned put_use[NODES];
};

static uint32_t counted(const struct fake_store *store, uint32_t now_ms)
{
	uint32_t sum = 0;

	for (uint32_t i = 0; i < SLOTS; i++) {
		if (i + 1 + WINDOW_MS > now_ms)
			sum += store->used[i] + store->leased[i];
	}
	return sum;
}

static void reach(struct fleet *fleet, struct call *call)
{
	struct fake_store *store = &fleet->store;
	const struct hand_report *report = &call->report;
	uint32_t now_ms = fleet->now_ms;

	call->kept = 0;
	if (report->slot > 0 && store->leased[report->slot] >= report->units) {
		store->leased[report->slot] -= report->units;
		store->used[report->slot < now_ms ? report->slot : now_ms] += report->used;
		call->kept = report->keep;
	}
	uint32_t sum = counted(store, now_ms) + call->kept;
	call->got = sum < store->quota ? store->quota - sum : 0;
	if (call->got > call->want)
		call->got = call->want;
	call->slot = call->kept + call->got > 0 ? now_ms + call->term_ms : 0;
	store->leased[call->slot] += call->kept + call->got;
	store->leased[0] = 0;
	call->reached = true;
	call->answered_ms += now_ms;
}

static void send(struct fleet *fleet, unsigned node, bool ends)
{
	struct hand *hand = &fleet->hands[node].all[0];
	uint32_t now_ms = fleet->now_ms + fleet->clock_ms[node];
	struct random *random = fleet->random;

	for (unsigned i = 0; i < CALLS; i++) {
		struct call *call = &fleet->calls[i];
		if (call->is_open || !hand_lock(hand))
			continue;
		*call = (struct call){.is_open = true, .node = node};
		call->report = hand_report(hand, now_ms, ends);
		call->want = ends ? 0 : draw(random, 60);
		call->term_ms = WINDOW_MS / 4;
		call->ends_ms = now_ms + call->term_ms;
		call->is_lost = draw(random, 20) == 0;
		call->arrives_ms = fleet->now_ms + draw(random, 80);
		call->answered_ms = draw(random, 80);
		if (call->is_lost && draw(random, 2) == 0)
			call->arrives_ms = UINT32_MAX; /* the store never has it */
		return;
	}
}

static void move_calls(struct fleet *fleet)
{
	for (unsigned i = 0; i < CALLS; i++) {
		struct call *call = &fleet->calls[i];
		struct hand *hand = &fleet->hands[call->node].all[0];
		if (!call->is_open)
			continue;
		if (!call->reached && call->arrives_ms <= fleet->now_ms)
			reach(fleet, call);
		bool is_over = call->reached ? call->answered_ms <= fleet->now_ms
					     : call->arrives_ms == UINT32_MAX;
		if (!is_over || fleet->stopped_until_ms[call->node] > fleet->now_ms)
			continue;
		if (call->is_lost)
			hand_lose(hand);
		else
			hand_adopt(hand, call->slot, 1, call->kept, call->got, call->ends_ms);
		hand_unlock(hand);
		call->is_open = false;
	}
}

static void use(struct fleet *fleet, unsigned node)
{
	struct hand *hand = &fleet->hands[node].all[0];
	uint32_t now_ms = fleet->now_ms + fleet->clock_ms[node], left;
	uint64_t lease = hand_take(hand, nobody, 1, now_ms, &left);

	if (lease == 0)
		return;
	assert_true(fleet->use_count < USES);
	if (fleet->put_later[node] == 0 && draw(fleet->random, 4) == 0) {
		fleet->put_later[node] = lease;
		fleet->put_use[node] = fleet->use_count;
	}
	fleet->uses[fleet->use_count++] = fleet->now_ms;
}

static void put_back(struct fleet *fleet, unsigned node)
{
	if (fleet->put_later[node] == 0 || draw(fleet->random, 60) > 0)
		return;
	if (hand_put(&fleet->hands[node].all[0], fleet->put_later[node], 1))
		fleet->uses[fleet->put_use[node]] = 0;
	fleet->put_later[node] = 0;
}

static void check(struct fleet *fleet)
{
	unsigned within = 0;

	for (unsigned i = fleet->use_count; i > 0; i--) {
		uint32_t at_ms = fleet->uses[i - 1];
		if (at_ms != 0 && at_ms + WINDOW_MS <= fleet->now_ms)
			break;
		within += at_ms != 0;
	}
	assert_true(within <= fleet->store.quota);
}

/* A node dies, and begins again with nothing; or stands still; or has more or less to do. */
static void live(struct fleet *fleet, unsigned node, bool is_busy)
{
	struct random *random = fleet->random;
	struct hand *hand = &fleet->hands[node].all[0];
	uint32_t now_ms = fleet->now_ms + fleet->clock_ms[node];

	if (fleet->stopped_until_ms[node] > fleet->now_ms)
		return;
	for (unsigned i = 0; is_busy && i < 3; i++)
		use(fleet, node);
	put_back(fleet, node);
	if (draw(random, 12) == 0)
		send(fleet, node, false);
	else if (hand_time_left(hand, now_ms) == 0 && hand->slot != 0)
		send(fleet, node, true);
	if (draw(random, 400) == 0)
		fleet->stopped_until_ms[node] = fleet->now_ms + draw(random, 700);
	if (draw(random, 1000) == 0) {
		for (unsigned i = 0; i < CALLS; i++) {
			if (fleet->calls[i].node == node)
				fleet->calls[i].is_open = false;
		}
		hands_end(&fleet->hands[node]);
		assert_true(hands_init(&fleet->hands[node], 4));
		fleet->put_later[node] = 0;
	}
}

static void no_window_is_too_full(void **state)
{
	struct random random = random_begin("fleets");
	struct fleet *fleet = malloc(sizeof(*fleet));
	unsigned uses = 0;

	(void)state;
	for (unsigned life = 0; life < 40; life++) {
		memset(fleet, 0, sizeof(*fleet));
		fleet->random = &random;
		fleet->store.quota = 20 + draw(&random, 200);
		unsigned nodes = 1 + draw(&random, NODES), busy = 0;
		for (unsigned i = 0; i < NODES; i++) {
			assert_true(hands_init(&fleet->hands[i], 4));
			fleet->clock_ms[i] = draw(&random, 3) * 0x7ffffff0u;
		}
		for (fleet->now_ms = 1; fleet->now_ms < STEPS; fleet->now_ms++) {
			move_calls(fleet);
			if (fleet->now_ms % 300 == 0)
				busy = draw(&random, 1u << nodes);
			for (unsigned i = 0; i < nodes; i++)
				live(fleet, i, (busy >> i & 1) || fleet->now_ms < 600);
			check(fleet);
		}
		uses += fleet->use_count;
		for (unsigned i = 0; i < NODES; i++)
			hands_end(&fleet->hands[i]);
	}
	free(fleet);
	assert_true(uses > 1000);
}

static void what_is_on_lease_is_counted_until_it_ends(void **state)
{
	struct hands hands;
	struct hands_sight sight;

	(void)state;
	assert_true(hands_init(&hands, 64));
	for (uint64_t i = 1; i <= 3; i++) {
		struct hand *hand = hands_find(&hands, (struct throttle_key){i, i << 8}, 1000);
		assert_non_null(hand);
		assert_true(hand_lock(hand));
		hand_report(hand, 1000, false);
		hand_adopt(hand, i, 7, 0, 10 * (uint32_t)i, 2000 + 100 * (uint32_t)i);
		hand_unlock(hand);
	}
	sight = hands_look(&hands, 1500);
	assert_int_equal(sight.callers, 3);
	assert_int_equal(sight.units, 60);
	sight = hands_look(&hands, 2150);
	assert_int_equal(sight.callers, 2);
	assert_int_equal(sight.units, 50);
	assert_int_equal(hands_look(&hands, 2301).callers, 0);
	hands_end(&hands);
}

UNIT_SUITE(test_hand)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_lease_is_taken_and_ends),
		cmocka_unit_test(what_comes_back_does_so_until_it_is_reported),
		cmocka_unit_test(what_may_be_lost_is_not_kept),
		cmocka_unit_test(a_hand_is_given_to_another),
		cmocka_unit_test(demand_is_of_the_last_term),
		cmocka_unit_test(what_is_given_back_was_no_demand),
		cmocka_unit_test(threads_take_no_more_than_there_is),
		cmocka_unit_test(no_window_is_too_full),
		cmocka_unit_test(what_is_on_lease_is_counted_until_it_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
