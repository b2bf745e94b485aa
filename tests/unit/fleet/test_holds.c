/* What a worker says of requests in flight, and when: without a store, a loop and a clock. */
#include "fleet/holds.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "../random.h"
#include "fleet/question.h"
#include "tests/unit/fleet/fake_store.h"
#include "tests/unit/suite.h"

enum { LEASE_MS = 3000, THIRD_MS = LEASE_MS / 3, BEGIN_MS = 100000, SAID_MOST = 512 };
enum { TURN_MOST = 256, CALLERS = 6 };

static const char name[] = "slots", other_name[] = "others";
static const struct rule rule = {.kind = RULE_HOLDERS, .quota = 10};

/* An operation in the batch: how much the worker holds, or gives back. */
struct said {
	const char *limit;
	struct throttle_key caller;
	uint64_t units;
	bool is_give, is_settled;
};

static struct {
	struct fleet_worker fleet;
	struct fleet_batch batch;
	bool is_away; /* the store */
	struct said said[SAID_MOST];
	unsigned count;
} world;

/* ---- in the place of batches ----------------------------------------------------------------- */

struct fleet_batch *__real_fleet_filling(struct fleet_worker *fleet, enum fleet_function function,
	struct throttle_key caller, unsigned limits);
struct fleet_batch *__wrap_fleet_filling(struct fleet_worker *fleet, enum fleet_function function,
	struct throttle_key caller, unsigned limits);
struct fleet_batch *__wrap_fleet_filling(struct fleet_worker *fleet, enum fleet_function function,
	struct throttle_key caller, unsigned limits)
{
	if (!unit_runs("test_holds"))
		return __real_fleet_filling(fleet, function, caller, limits);
	assert_ptr_equal(fleet, &world.fleet);
	assert_int_equal(function, FLEET_JUDGE);
	assert_int_equal(limits, 1);
	return world.is_away ? NULL : &world.batch;
}

static struct said *note(struct batch *batch, const struct batch_charge *charge)
{
	assert_ptr_equal(batch, &world.batch.batch);
	assert_int_equal(charge->rule->kind, RULE_HOLDERS);
	assert_true(world.count < SAID_MOST);
	struct said *said = &world.said[world.count++];
	*said = (struct said){.limit = charge->limit, .caller = charge->caller};
	return said;
}

void __real_batch_hold(
	struct batch *batch, const struct batch_charge *charge, uint64_t held, bool is_settled);
void __wrap_batch_hold(
	struct batch *batch, const struct batch_charge *charge, uint64_t held, bool is_settled);
void __wrap_batch_hold(
	struct batch *batch, const struct batch_charge *charge, uint64_t held, bool is_settled)
{
	if (!unit_runs("test_holds")) {
		__real_batch_hold(batch, charge, held, is_settled);
		return;
	}
	struct said *said = note(batch, charge);

	said->units = held;
	said->is_settled = is_settled;
}

void __real_batch_give(
	struct batch *batch, const struct batch_charge *charge, uint64_t slot, uint64_t epoch);
void __wrap_batch_give(
	struct batch *batch, const struct batch_charge *charge, uint64_t slot, uint64_t epoch);
void __wrap_batch_give(
	struct batch *batch, const struct batch_charge *charge, uint64_t slot, uint64_t epoch)
{
	if (!unit_runs("test_holds")) {
		__real_batch_give(batch, charge, slot, epoch);
		return;
	}
	struct said *said = note(batch, charge);

	assert_int_equal(slot, 1);
	assert_int_equal(epoch, 0); /* of any */
	said->units = charge->cost;
	said->is_give = true;
}

/* ---- what a test does ------------------------------------------------------------------------ */

static int begin(void **state)
{
	(void)state;
	memset(&world, 0, sizeof(world));
	fake_store_begin(BEGIN_MS);
	fake_store.conf.fleet.membership_lease_ms = LEASE_MS;
	world.fleet.worker = &fake_store.worker;
	assert_true(holds_init(&world.fleet.holds, &world.fleet));
	return 0;
}

static int end(void **state)
{
	(void)state;
	holds_end(&world.fleet.holds);
	assert_null(world.fleet.holds.oldest);
	return 0;
}

static struct throttle_key key_of(uint64_t caller)
{
	return (struct throttle_key){caller, caller << 4};
}

static struct hold *ask(uint64_t caller)
{
	struct hold *hold =
		hold_begin(&world.fleet.holds, &world.batch, &rule, name, key_of(caller));

	assert_non_null(hold);
	return hold;
}

/* So many were admitted. */
static struct hold *take(uint64_t caller, uint64_t units)
{
	struct hold *hold = ask(caller);

	hold_end(&world.fleet.holds, hold, units);
	return hold;
}

static void drop(struct hold *hold, uint64_t units)
{
	hold_drop(&world.fleet.holds, hold, units);
}

static uint64_t due_ms(void)
{
	return world.fleet.holds.timer.at_ms;
}

static void run_timer(void)
{
	fake_store_run_timer(&world.fleet.holds.timer);
}

/* All that was said since, which is forgotten. */
static void assert_said_holds(uint64_t caller, uint64_t held, bool is_settled)
{
	assert_int_equal(world.count, 1);
	assert_false(world.said[0].is_give);
	assert_int_equal(world.said[0].caller.hi, caller);
	assert_int_equal(world.said[0].units, held);
	assert_int_equal(world.said[0].is_settled, is_settled);
	world.count = 0;
}

static void assert_said_nothing(void)
{
	assert_int_equal(world.count, 0);
}

/* ---- whose they are -------------------------------------------------------------------------- */

static void a_holder_has_a_number_of_its_own_that_lua_can_hold(void **state)
{
	struct holds other = {0};

	(void)state;
	assert_true(holds_init(&other, &world.fleet));
	assert_true(world.fleet.holds.holder != other.holder);
	assert_true(other.holder > 0 && other.holder < UINT64_C(1) << 53);
	holds_end(&other);
}

/* By its number over 4096 the store knows the holder, and by the rest which connection is newer. */
static void each_connection_has_the_next_number(void **state)
{
	struct holds *holds = &world.fleet.holds;
	uint64_t first = holds->holder;

	(void)state;
	for (uint64_t i = 1; i < 4096; i++) {
		holds_leave_connection(holds);
		assert_int_equal(holds->holder, first + i);
	}
	assert_int_equal(holds->holder / 4096, first / 4096);
	holds_leave_connection(holds);
	assert_true(holds->holder / 4096 != first / 4096);
	assert_int_equal(holds->holder % 4096, 0);
	assert_true(holds->holder < UINT64_C(1) << 53);
}

/* ---- asking ---------------------------------------------------------------------------------- */

static void a_question_says_first_what_is_held(void **state)
{
	(void)state;
	struct hold *hold = take(1, 1);
	assert_said_nothing();
	assert_ptr_equal(ask(1), hold);
	assert_said_holds(1, 1, true);
	ask(1); /* the other has no answer yet: the store may have more */
	assert_said_holds(1, 1, false);
	hold_end(&world.fleet.holds, hold, 2);
	hold_end(&world.fleet.holds, hold, 0);
	ask(1);
	assert_said_holds(1, 3, true);
	hold_end(&world.fleet.holds, hold, 0);
}

static void a_refused_question_leaves_nothing(void **state)
{
	(void)state;
	struct hold *hold = ask(1);
	ask(1);
	hold_end(&world.fleet.holds, hold, 0);
	assert_ptr_equal(world.fleet.holds.oldest, hold); /* the other */
	hold_end(&world.fleet.holds, hold, 0);
	assert_null(world.fleet.holds.oldest);
	assert_null(world.fleet.holds.newest);
	assert_true(due_ms() == DEADLINE_NEVER);
	assert_said_nothing();
}

/* Also of those in one chain, of which one in the middle ends first. */
static void callers_and_limits_are_apart(void **state)
{
	static const struct throttle_key callers[] = {{0, 16}, {1, 16}, {2, 16}, {0, 17}};
	struct hold *holds[4];

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		holds[i] = hold_begin(&world.fleet.holds, &world.batch, &rule, name, callers[i]);
		hold_end(&world.fleet.holds, holds[i], 1 + i);
	}
	struct hold *other =
		hold_begin(&world.fleet.holds, &world.batch, &rule, other_name, callers[0]);
	hold_end(&world.fleet.holds, other, 0);
	assert_said_nothing();
	drop(holds[1], 2);
	world.count = 0;
	for (unsigned i = 0; i < 4; i++) {
		if (i == 1)
			continue;
		assert_ptr_equal(
			hold_begin(&world.fleet.holds, &world.batch, &rule, name, callers[i]),
			holds[i]);
		assert_said_holds(callers[i].hi, 1 + i, true);
		hold_end(&world.fleet.holds, holds[i], 0);
	}
}

/* ---- renewals -------------------------------------------------------------------------------- */

static void what_is_held_is_said_three_times_in_a_lease(void **state)
{
	(void)state;
	struct hold *hold = take(1, 2);
	for (unsigned n = 1; n <= 4; n++) {
		assert_int_equal(due_ms(), BEGIN_MS + n * THIRD_MS);
		run_timer();
		assert_said_holds(1, 2, true);
	}
	drop(hold, 2);
	assert_true(due_ms() == DEADLINE_NEVER);
}

/* The store hears it with the question. */
static void what_was_said_in_time_is_not_said_again(void **state)
{
	(void)state;
	take(1, 1);
	fake_store_at(BEGIN_MS + 400);
	take(2, 1);
	fake_store_at(BEGIN_MS + 500);
	take(1, 0);
	assert_said_holds(1, 1, true);
	assert_int_equal(due_ms(), BEGIN_MS + THIRD_MS);
	run_timer();
	assert_said_nothing();
	assert_int_equal(due_ms(), BEGIN_MS + 400 + THIRD_MS);
	run_timer();
	assert_said_holds(2, 1, true);
	assert_int_equal(due_ms(), BEGIN_MS + 500 + THIRD_MS);
	run_timer();
	assert_said_holds(1, 1, true);
}

/* Of a question without an answer nothing is held yet. */
static void what_is_only_asked_for_is_not_renewed(void **state)
{
	(void)state;
	struct hold *hold = ask(1);
	run_timer();
	assert_said_nothing();
	hold_end(&world.fleet.holds, hold, 1);
	run_timer();
	assert_said_holds(1, 1, true);
}

static void a_turn_renews_only_so_many(void **state)
{
	(void)state;
	for (unsigned i = 0; i < TURN_MOST + 10; i++)
		take(i, 1);
	run_timer();
	assert_int_equal(world.count, TURN_MOST);
	assert_true(due_ms() <= fake_store.now_ns / FAKE_STORE_MS); /* the next turn */
	run_timer();
	assert_int_equal(world.count, TURN_MOST + 10);
	for (unsigned i = 0; i < TURN_MOST + 10; i++)
		assert_int_equal(world.said[i].caller.hi, i);
	assert_int_equal(due_ms(), BEGIN_MS + 2 * THIRD_MS);
}

static void without_the_store_it_is_said_later(void **state)
{
	(void)state;
	take(1, 1);
	world.is_away = true;
	run_timer();
	assert_said_nothing();
	assert_int_equal(due_ms(), BEGIN_MS + 2 * THIRD_MS);
	world.is_away = false;
	run_timer();
	assert_said_holds(1, 1, true);
}

/* ---- giving back ----------------------------------------------------------------------------- */

static void what_is_over_is_given_back_by_who_holds_it(void **state)
{
	(void)state;
	struct hold *hold = take(1, 3);
	fake_store_at(BEGIN_MS + 700);
	drop(hold, 1);
	assert_int_equal(world.count, 2);
	assert_false(world.said[0].is_give); /* the store may have forgotten the holder */
	assert_int_equal(world.said[0].units, 3);
	assert_true(world.said[1].is_give);
	assert_int_equal(world.said[1].units, 1);
	assert_int_equal(hold->held, 2);
	world.count = 0;
	run_timer(); /* it was said 700 ms after the first time */
	assert_said_nothing();
	assert_int_equal(due_ms(), BEGIN_MS + 700 + THIRD_MS);
	drop(hold, 2);
	assert_null(world.fleet.holds.oldest);
}

static void without_the_store_it_is_over_all_the_same(void **state)
{
	(void)state;
	struct hold *hold = take(1, 2);
	world.is_away = true;
	drop(hold, 1);
	assert_said_nothing();
	world.is_away = false;
	take(1, 0);
	assert_said_holds(1, 1, true);
	drop(hold, 5); /* more than there is */
	assert_null(world.fleet.holds.oldest);
}

static void one_that_is_asked_for_stays_when_all_it_held_is_over(void **state)
{
	(void)state;
	struct hold *hold = take(1, 1);
	ask(1);
	drop(hold, 1);
	assert_ptr_equal(world.fleet.holds.oldest, hold);
	hold_end(&world.fleet.holds, hold, 1);
	world.count = 0;
	run_timer();
	assert_said_holds(1, 1, true);
}

/* ---- at random ------------------------------------------------------------------------------- */

struct model {
	uint64_t held[CALLERS];
	unsigned asking[CALLERS];
	struct hold *holds[CALLERS];
};

/* The last word about what a caller holds is no older than a third of a lease. */
static void check(const struct model *model, uint64_t heard_ms[CALLERS])
{
	uint64_t now_ms = fake_store.now_ns / FAKE_STORE_MS;

	for (unsigned i = 0; i < CALLERS; i++) {
		struct hold *hold = model->holds[i];
		if (model->held[i] == 0 && model->asking[i] == 0)
			continue;
		assert_int_equal(hold->held, model->held[i]);
		assert_int_equal(hold->asking, model->asking[i]);
		assert_true(model->held[i] == 0 || now_ms - heard_ms[i] <= THIRD_MS);
	}
	if (!world.fleet.holds.oldest)
		assert_true(due_ms() == DEADLINE_NEVER);
}

static void hear(const struct model *model, uint64_t heard_ms[CALLERS])
{
	for (unsigned n = 0; n < world.count; n++) {
		const struct said *said = &world.said[n];
		if (said->is_give)
			continue;
		assert_int_equal(said->units, model->held[said->caller.hi]);
		assert_int_equal(said->is_settled, model->asking[said->caller.hi] == 0);
		heard_ms[said->caller.hi] = fake_store.now_ns / FAKE_STORE_MS;
	}
	world.count = 0;
}

static void step(struct model *model, struct random *random, uint64_t heard_ms[CALLERS])
{
	unsigned i = (unsigned)random_below(random, CALLERS);
	uint64_t units = random_below(random, 3);

	switch (random_below(random, 3)) {
	case 0:
		model->holds[i] = ask(i);
		hear(model, heard_ms);
		model->asking[i]++;
		break;
	case 1:
		if (model->asking[i] == 0)
			break;
		model->asking[i]--;
		if (model->held[i] == 0)
			heard_ms[i] = fake_store.now_ns / FAKE_STORE_MS; /* by its answer */
		model->held[i] += units;
		hold_end(&world.fleet.holds, model->holds[i], units);
		break;
	default:
		if (model->held[i] == 0)
			break;
		units = 1 + random_below(random, (size_t)model->held[i]);
		hold_drop(&world.fleet.holds, model->holds[i], units);
		hear(model, heard_ms);
		model->held[i] -= units;
	}
}

static void random_requests_beside_a_plain_count(void **state)
{
	struct random random = random_begin("holds");

	(void)state;
	for (unsigned run = 0; run < 50; run++) {
		struct model model = {0};
		uint64_t heard_ms[CALLERS] = {0};
		begin(NULL);
		for (unsigned n = 0; n < 400; n++) {
			uint64_t then_ms =
				fake_store.now_ns / FAKE_STORE_MS + random_below(&random, 200);
			while (due_ms() <= then_ms) {
				run_timer();
				hear(&model, heard_ms);
			}
			fake_store_at(then_ms);
			step(&model, &random, heard_ms);
			check(&model, heard_ms);
		}
		end(NULL);
	}
	begin(NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

UNIT_SUITE(test_holds)
{
	const struct CMUnitTest tests[] = {
		TEST(a_holder_has_a_number_of_its_own_that_lua_can_hold),
		TEST(each_connection_has_the_next_number),
		TEST(a_question_says_first_what_is_held),
		TEST(a_refused_question_leaves_nothing),
		TEST(callers_and_limits_are_apart),
		TEST(what_is_held_is_said_three_times_in_a_lease),
		TEST(what_was_said_in_time_is_not_said_again),
		TEST(what_is_only_asked_for_is_not_renewed),
		TEST(a_turn_renews_only_so_many),
		TEST(without_the_store_it_is_said_later),
		TEST(what_is_over_is_given_back_by_who_holds_it),
		TEST(without_the_store_it_is_over_all_the_same),
		TEST(one_that_is_asked_for_stays_when_all_it_held_is_over),
		TEST(random_requests_beside_a_plain_count),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
