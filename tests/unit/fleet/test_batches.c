/* What a turn asks of the store's functions is put into calls that have room for it: without a
 * store, a loop and a clock. */
#include "fleet/batches.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "conf/conf.h"
#include "fleet/question.h"
#include "site/site_use.h"
#include "stats/stats.h"
#include "worker/worker.h"
#include "worker/worker_clock.h"

static struct {
	struct worker worker;
	struct site_use use;
	struct site_part sites;
	struct site site;
	struct conf conf;
	struct stats *stats;
	struct members members;
	struct fleet_worker fleet;
	struct fleet_batch *sent[8];
	unsigned sent_count, failed, timed, late, learned;
	uint64_t epoch; /* that was learned last */
	unsigned given; /* as a batch fails */
	bool is_lost;   /* nothing can be sent */
} world;

/* ---- in the place of the store, clocks and timers -------------------------------------------- */

bool __wrap_store_link_has(const struct store_link *store, uint16_t slot);
bool __wrap_store_link_has(const struct store_link *store, uint16_t slot)
{
	(void)slot;
	assert_ptr_equal(store, &world.fleet.store);
	return true;
}

bool __wrap_store_link_send(struct store_link *store, struct store_call *call);
bool __wrap_store_link_send(struct store_link *store, struct store_call *call)
{
	(void)store;
	if (world.is_lost)
		return false;
	assert_true(world.sent_count < 8);
	world.sent[world.sent_count++] =
		(struct fleet_batch *)(void *)((char *)call - offsetof(struct fleet_batch, call));
	return true;
}

uint64_t __wrap_store_link_oldest_of_all_ms(const struct store_link *store);
uint64_t __wrap_store_link_oldest_of_all_ms(const struct store_link *store)
{
	(void)store;
	return UINT64_MAX;
}

uint64_t __wrap_worker_throttle_ns(struct worker *worker);
uint64_t __wrap_worker_throttle_ns(struct worker *worker)
{
	assert_ptr_equal(worker, &world.worker);
	return 0;
}

/* ---- what a test does ------------------------------------------------------------------------ */

static const struct rule rule = {.quota = 9, .window_us = 1000000, .quantum_us = 1};

static void give(uint64_t caller)
{
	const struct batch_charge charge = {&rule, "it", {caller, caller << 8}, 1};
	struct fleet_batch *filling = fleet_filling(&world.fleet, FLEET_JUDGE, charge.caller, 1);

	if (filling)
		batch_give(&filling->batch, &charge, 1, 1);
}

/* What its requests took elsewhere goes back. */
static void on_answered(struct fleet_batch *batch, const char *bytes, size_t len)
{
	(void)batch;
	(void)len;
	if (bytes || world.failed++ > 0)
		return;
	for (unsigned i = 0; i < world.given; i++)
		give(1000 + i);
}

static void on_timed(struct fleet_worker *fleet, unsigned part, bool is_late)
{
	assert_ptr_equal(fleet, &world.fleet);
	assert_int_equal(part, 0);
	world.timed++;
	world.late += is_late;
}

static void on_learn(struct fleet_worker *fleet, unsigned part, const struct answer *answer)
{
	assert_ptr_equal(fleet, &world.fleet);
	assert_int_equal(part, 0);
	assert_int_equal(answer->now_us, 7);
	world.learned++;
	world.epoch = answer->epoch;
}

static const struct batches_calls calls = {.timed = on_timed,
	.learn = on_learn,
	.answered = {[FLEET_JUDGE] = on_answered, [FLEET_LEASE] = on_answered}};

static int begin(void **state)
{
	(void)state;
	memset(&world, 0, sizeof(world));
	world.conf.fleet = (struct conf_fleet){.membership_lease_ms = 5000};
	world.site.conf = &world.conf;
	world.use.site = &world.site;
	world.stats = stats_new(1);
	world.sites.use = &world.use;
	world.worker.memory[PART_SITE] = &world.sites;
	world.worker.stats = stats_block(world.stats, 0);
	world.worker.memory[PART_FLEET] = &world.fleet;
	members_init(&world.members);
	world.fleet.worker = &world.worker;
	world.fleet.calls = &calls;
	world.fleet.joining.members = &world.members;
	world.fleet.prefix = strdup("f");
	world.fleet.silence.at_ms = world.fleet.silence.armed_ms = DEADLINE_NEVER;
	return 0;
}

static int end(void **state)
{
	(void)state;
	batches_drop(&world.fleet);
	for (unsigned i = 0; i < world.sent_count; i++) {
		world.sent[i]->next = world.fleet.spare_batches[FLEET_JUDGE];
		world.fleet.spare_batches[FLEET_JUDGE] = world.sent[i];
	}
	batches_clear(&world.fleet);
	members_end(&world.members);
	stats_free(world.stats);
	free(world.fleet.prefix);
	return 0;
}

static struct fleet_batch *fill(unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		give(i);
	return world.fleet.filling[FLEET_JUDGE].of[0];
}

static void a_full_one_leaves_for_the_next(void **state)
{
	struct throttle_key caller = {77, 77};
	struct fleet_batch *first = fill(500);

	(void)state;
	assert_int_equal(first->batch.key_count, 500);
	assert_ptr_equal(fleet_filling(&world.fleet, FLEET_JUDGE, caller, 5), first);
	assert_int_equal(world.sent_count, 0);
	struct fleet_batch *next = fleet_filling(&world.fleet, FLEET_JUDGE, caller, 16);
	assert_int_equal(world.sent_count, 1);
	assert_ptr_equal(world.sent[0], first);
	assert_int_equal(next->batch.key_count, 0);
	assert_true(batches_send(&world.fleet, FLEET_JUDGE) == false);
}

/* As it can't be sent, what was charged elsewhere goes back in another one of the same turn: where
 * that has no room either, there is none. */
static void there_is_room_or_none(void **state)
{
	struct throttle_key caller = {77, 77};

	(void)state;
	for (world.given = 490; world.given < 500; world.given++) {
		world.is_lost = false;
		world.failed = 0;
		batches_send(&world.fleet, FLEET_JUDGE);
		assert_int_equal(fill(500)->batch.key_count, 500);
		world.is_lost = true;
		struct fleet_batch *filling = fleet_filling(&world.fleet, FLEET_JUDGE, caller, 16);
		assert_int_equal(world.failed, 1);
		assert_true(!filling || batch_has_room(&filling->batch, 16));
		world.failed = 1;
		batches_drop(&world.fleet);
	}
}

static void ask_for_a_lease(void)
{
	const struct batch_charge charge = {&rule, "it", {1, 1 << 8}, 1};
	const struct batch_lease none = {.term_us = 1};
	struct fleet_batch *filling = fleet_filling(&world.fleet, FLEET_LEASE, charge.caller, 1);

	batch_ask_lease(&filling->batch, &charge, &none, 1);
}

/* A store that was emptied learns of that from calls of both functions, and says so in both
 * answers. */
static void all_calls_say_which_epoch_is_known_and_learn_it(void **state)
{
	static const uint8_t of_lease[] = {0x92, 7, 66};
	static const double of_judge[] = {7, 55};
	const char *command;
	size_t len;

	(void)state;
	members_learn_epoch(&world.members, 0, 0, 44);
	world.failed = 1;
	give(1);
	ask_for_a_lease();
	for (int function = 0; function < FLEET_FUNCTIONS; function++)
		assert_true(batches_send(&world.fleet, function));
	assert_int_equal(world.sent_count, 2);
	for (unsigned i = 0; i < 2; i++) {
		struct fleet_batch *sent = world.sent[i];
		bool is_lease = sent->function == FLEET_LEASE;
		assert_int_equal(sent->batch.lease_us, 5000000);
		assert_true(batch_compose(&sent->batch, &command, &len));
		assert_memory_equal(command + len - 8, "$2\r\n44\r\n", 8);
		sent->call.answered(&sent->call,
			is_lease ? (const char *)of_lease : (const char *)of_judge,
			is_lease ? sizeof(of_lease) : sizeof(of_judge));
		assert_int_equal(world.learned, i + 1);
		assert_int_equal(world.epoch, is_lease ? 66 : 55);
	}
	world.sent_count = 0;
}

static void answers_are_late_at_the_timeout(void **state)
{
	(void)state;
	world.conf.fleet.store_timeout_ms = 20;
	world.worker.loop.now_known = true;
	for (unsigned took_ms = 19; took_ms <= 21; took_ms++) {
		give(1);
		assert_true(batches_send(&world.fleet, FLEET_JUDGE));
		struct store_call *call = &world.sent[--world.sent_count]->call;
		call->sent_ms = 1000;
		world.worker.loop.now_ms = 1000 + took_ms;
		call->answered(call, "", 0);
	}
	assert_int_equal(world.timed, 3);
	assert_int_equal(world.late, 2);
	give(1);
	batches_send(&world.fleet, FLEET_JUDGE);
	world.sent[0]->call.answered(&world.sent[0]->call, NULL, 0); /* the link is lost */
	assert_int_equal(world.timed, 3);
	world.sent_count = 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_full_one_leaves_for_the_next),
		TEST(there_is_room_or_none),
		TEST(all_calls_say_which_epoch_is_known_and_learn_it),
		TEST(answers_are_late_at_the_timeout),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
