/* What is admitted at once is what would be admitted, and as it would be, had it been asked about:
 * the quick way beside the general one, by the same hands and a real table, without a store. */
#include "fleet/fleet_ask.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "fleet/fleet.h"
#include "fleet/fleet_account.h"
#include "fleet/ladder.h"
#include "fleet/question.h"
#include "gate/limit_sets.h"
#include "stats/stats.h"
#include "tests/unit/fleet/fake_store.h"
#include "tests/unit/random.h"
#include "worker/node.h"
#include "tests/unit/suite.h"

enum { LIMITS = 3, QUOTA = 1000, WINDOW_MS = 8000, TERM_MS = 2000, BEGIN_MS = 1000000 };
enum { ROUNDS = 20000, STRICT_IN = 20 };

static const char *const names[LIMITS] = {"first", "second", "third"};

static struct {
	struct node node;
	struct stats *stats;
	struct fleet_worker fleet;
	struct conf_limit limits[LIMITS];
	struct limit_set set;
	struct gate_identity identity;
	struct hand *hands[LIMITS];
	uint64_t now_ms;
} world;

/* ---- what a test does ------------------------------------------------------------------------ */

static void open_table(void)
{
	struct throttle_table_options options = {
		.callers = 100, .now_ns = BEGIN_MS * FAKE_STORE_MS};
	struct throttle_limit limits[LIMITS];

	for (int i = 0; i < LIMITS; i++) {
		limits[i] = (struct throttle_limit){.kind = THROTTLE_RING,
			.quota = QUOTA,
			.window_ns = WINDOW_MS * FAKE_STORE_MS,
			.mode = THROTTLE_ENFORCE};
		strcpy(limits[i].name, names[i]);
	}
	world.node.throttles = throttle_table_open(&options, limits, LIMITS, NULL);
	assert_non_null(world.node.throttles);
}

static int begin(void **state)
{
	(void)state;
	memset(&world, 0, sizeof(world));
	world.now_ms = BEGIN_MS;
	fake_store_begin(BEGIN_MS);
	open_table();
	world.fleet.authority = fleet_new(world.node.throttles);
	assert_non_null(world.fleet.authority);
	world.stats = stats_new(1);
	fake_store.worker.stats = stats_block(world.stats, 0);
	fake_store.worker.node = &world.node;
	fake_store.worker.memory[PART_FLEET] = &world.fleet;
	world.fleet.worker = &fake_store.worker;
	leases_init(&world.fleet.leases, &world.fleet, fleet_hands(world.fleet.authority));
	fake_store.conf.limits = world.limits;
	fake_store.conf.limit_count = LIMITS;
	atomic_store(&fleet_ladder(world.fleet.authority)->nodes, 2);
	for (unsigned i = 0; i < LIMITS; i++) {
		world.limits[i] = (struct conf_limit){.name = (char *)(uintptr_t)names[i],
			.index = i,
			.amount = QUOTA,
			.per_ns = WINDOW_MS * FAKE_STORE_MS,
			.of_fleet = true,
			.fleet_way = CONF_FLEET_LEASE,
			.store_down = CONF_STORE_DOWN_LOCAL};
		world.set.limits[i] = &world.limits[i];
		world.set.numbers[i] = i;
		world.set.costs[i] = 1;
		world.identity.shared[i] = (struct throttle_key){i + 7, (i + 7) << 8};
	}
	world.set.count = LIMITS;
	world.set.leased = true;
	world.identity.set = &world.set;
	world.identity.authority = world.fleet.authority;
	world.identity.hashes[0] = (struct throttle_key){77, 77 << 8};
	limit_facts_take_site(&world.fleet.limits, &fake_store.conf);
	return 0;
}

static int end(void **state)
{
	(void)state;
	leases_end(&world.fleet.leases);
	questions_clear(&world.fleet);
	fleet_free(world.fleet.authority);
	throttle_table_close(world.node.throttles);
	stats_free(world.stats);
	return 0;
}

static struct authority_question question(void)
{
	return (struct authority_question){.identity = &world.identity,
		.now_ns = fake_store.now_ns,
		.questions = &fake_store.worker.questions};
}

static bool admit(struct authority_judgement *judgement)
{
	struct authority_question asked = question();

	return fleet_admit(world.fleet.authority, &asked, judgement);
}

static enum authority_answer ask(struct authority_judgement *judgement)
{
	struct authority_question asked = question();

	return fleet_ask(world.fleet.authority, &asked, judgement);
}

static const struct account *account_of(const struct authority_judgement *judgement)
{
	return (const struct account *)(uintptr_t)judgement->receipt.account;
}

/* The hands of the limits' caller, which has them from its first request on. */
static void find_hands(void)
{
	struct authority_judgement judgement;

	assert_int_equal(ask(&judgement), AUTHORITY_JUDGED); /* by its share */
	for (unsigned i = 0; i < LIMITS; i++)
		world.hands[i] = account_of(&judgement)->charges[i].hand;
	fleet_refund(world.fleet.authority, &judgement.receipt);
	/* long ago */
	atomic_store(&fleet_ladder(world.fleet.authority)->any_shared_ms, 0);
}

/* So much is in hand of a limit, for so long; below 0: it is over. */
static void lease(unsigned i, uint32_t units, int for_ms)
{
	struct hand *hand = world.hands[i];

	assert_true(hand_lock(hand));
	hand_adopt(hand, 1, 2, 0, units, (uint32_t)world.now_ms + (uint32_t)for_ms);
	hand_unlock(hand);
	atomic_store(&hand->spare, units / 2);
	atomic_store(&hand->uses, 0);
}

static uint64_t taken(void)
{
	return atomic_load(&stats_row(fake_store.worker.stats, STATS_NODE, 0)[STATS_LEASE_TAKEN]);
}

/* ---- one of each ----------------------------------------------------------------------------- */

static void enough_in_hand_admits(void **state)
{
	struct authority_judgement judgement;

	(void)state;
	find_hands();
	for (unsigned i = 0; i < LIMITS; i++)
		lease(i, 10, TERM_MS);
	assert_true(admit(&judgement));
	assert_true(judgement.limits.admitted);
	assert_int_equal(judgement.limits.count, LIMITS);
	assert_int_equal(judgement.limits.outcome[2].remaining, 9 + 5);
	assert_int_equal(taken(), LIMITS);
	assert_int_equal(account_of(&judgement)->own.count, LIMITS);
	fleet_settle(world.fleet.authority, &judgement.receipt, &(struct gate_end){.status = 200});
	assert_true(admit(&judgement));
	assert_int_equal(judgement.limits.outcome[2].remaining, 8 + 5);
	fleet_refund(world.fleet.authority, &judgement.receipt);
	assert_int_equal(
		hands_look(fleet_hands(world.fleet.authority), hand_ms(fake_store.now_ns)).units,
		LIMITS * 9);
}

/* One of them lacks: none is taken, and none of the demand is counted, as it is asked about next.
 */
static void one_that_lacks_takes_none(void **state)
{
	struct authority_judgement judgement;

	(void)state;
	find_hands();
	for (unsigned lacking = 0; lacking < LIMITS; lacking++) {
		for (unsigned i = 0; i < LIMITS; i++)
			lease(i, i == lacking ? 0 : 10, TERM_MS);
		assert_false(admit(&judgement));
		for (unsigned i = 0; i < LIMITS; i++)
			assert_int_equal(atomic_load(&world.hands[i]->uses), 0);
		assert_int_equal(
			hands_look(fleet_hands(world.fleet.authority), hand_ms(fake_store.now_ns))
				.units,
			(LIMITS - 1) * 10);
	}
	assert_int_equal(taken(), 0);
}

/* ---- beside the general way ------------------------------------------------------------------ */

static struct hand copies[LIMITS];

static void keep_hands(void)
{
	for (unsigned i = 0; i < LIMITS; i++)
		memcpy(&copies[i], world.hands[i], sizeof(copies[i]));
}

static void restore_hands(void)
{
	for (unsigned i = 0; i < LIMITS; i++)
		memcpy(world.hands[i], &copies[i], sizeof(copies[i]));
}

static void hands_are(const struct hand *hands)
{
	for (unsigned i = 0; i < LIMITS; i++) {
		assert_int_equal(atomic_load(&world.hands[i]->word), atomic_load(&hands[i].word));
		assert_int_equal(atomic_load(&world.hands[i]->uses), atomic_load(&hands[i].uses));
	}
}

/* By the same rung, limits and hands; and does a request fit by what is in hand, with all its
 * limits on the first rung? */
static bool draw(struct random *random)
{
	static const enum conf_store_down downs[] = {
		CONF_STORE_DOWN_LOCAL, CONF_STORE_DOWN_REFUSE, CONF_STORE_DOWN_ADMIT};
	struct ladder_part *part = &fleet_ladder(world.fleet.authority)->parts[0];
	bool returns = random_below(random, 5) == 0, fits = true;

	world.now_ms += random_below(random, 3000);
	fake_store_at(world.now_ms);
	atomic_store(&part->back_ms, returns ? world.now_ms - random_below(random, 20) : 0);
	world.set.count = (uint8_t)(1 + random_below(random, LIMITS));
	for (unsigned i = 0; i < LIMITS; i++) {
		struct conf_limit *limit = &world.limits[i];
		uint32_t units = (uint32_t)random_below(random, 12);
		int left_ms =
			random_below(random, 6) > 0 ? 500 + (int)random_below(random, 500) : -10;
		limit->store_down = random_below(random, STRICT_IN) == 0
					    ? CONF_STORE_DOWN_STRICT
					    : downs[random_below(random, 3)];
		world.set.costs[i] = 1 + random_below(random, 3);
		lease(i, units, left_ms);
		fits &= i >= world.set.count ||
			(units >= world.set.costs[i] && left_ms > 0 &&
				limit->store_down != CONF_STORE_DOWN_STRICT &&
				(!returns || limit->store_down != CONF_STORE_DOWN_LOCAL));
	}
	limit_facts_take_site(&world.fleet.limits, &fake_store.conf);
	return fits;
}

static void same_judgements(
	const struct authority_judgement *quick, const struct authority_judgement *general)
{
	const struct account *a = account_of(quick), *b = account_of(general);

	assert_true(general->limits.admitted);
	assert_int_equal(quick->limits.admitted, general->limits.admitted);
	assert_int_equal(quick->limits.count, general->limits.count);
	assert_int_equal(quick->limits.violated, general->limits.violated);
	assert_int_equal(quick->limits.shadowed, general->limits.shadowed);
	for (unsigned i = 0; i < world.set.count; i++) {
		const struct account_charge *x = &a->charges[i], *y = &b->charges[i];
		assert_memory_equal(&quick->limits.outcome[i], &general->limits.outcome[i],
			sizeof(quick->limits.outcome[i]));
		assert_int_equal(x->said, y->said);
		assert_int_equal(x->slot, y->slot);
		assert_int_equal(x->epoch, y->epoch);
		assert_int_equal(x->taken_ns, y->taken_ns);
		assert_ptr_equal(x->hand, y->hand);
		assert_int_equal(x->own, y->own);
	}
	assert_int_equal(a->own.count, b->own.count);
	assert_int_equal(a->local.count, b->local.count);
}

static void it_does_what_asking_does(void **state)
{
	struct random random = random_begin("admit");
	struct authority_judgement quick, general;
	struct hand after[LIMITS];
	unsigned admitted = 0;

	(void)state;
	find_hands();
	for (unsigned round = 0; round < ROUNDS; round++) {
		bool fits = draw(&random);
		keep_hands();
		assert_int_equal(admit(&quick), fits);
		if (!fits) {
			hands_are(copies);
			continue;
		}
		for (unsigned i = 0; i < LIMITS; i++)
			memcpy(&after[i], world.hands[i], sizeof(after[i]));
		restore_hands();
		assert_int_equal(ask(&general), AUTHORITY_JUDGED);
		hands_are(after);
		same_judgements(&quick, &general);
		fleet_settle(
			world.fleet.authority, &general.receipt, &(struct gate_end){.status = 200});
		fleet_refund(world.fleet.authority, &quick.receipt);
		admitted++;
	}
	print_message("# %u of %u were admitted at once\n", admitted, (unsigned)ROUNDS);
	assert_true(admitted > ROUNDS / 20);
}

UNIT_SUITE(test_admit)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(enough_in_hand_admits, begin, end),
		cmocka_unit_test_setup_teardown(one_that_lacks_takes_none, begin, end),
		cmocka_unit_test_setup_teardown(it_does_what_asking_does, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
