/* How many slots a node takes, keeps and gives back, and what it does while the broker is away. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "fake_broker.h"
#include "fake_node.h"
#include "tests/unit/suite.h"

enum { NODES = 3 };

struct site {
	struct fake_server server;
	struct fake_node nodes[NODES];
	unsigned load[NODES]; /* in flight and waiting together, always */
	unsigned connections;
	bool is_up;
};

static const struct keeper_config local = {.name = "s", .size = 9, .idle_ms = 2000};
static const struct keeper_config refusing = {
	.name = "s", .size = 9, .idle_ms = 2000, .refuses = true};

static struct site *begin(unsigned slots, const struct keeper_config *config, bool is_up)
{
	static struct site site;
	char name[32];

	memset(&site, 0, sizeof(site));
	site.is_up = is_up;
	site.server.now_ms = 1000;
	for (unsigned n = 1; n <= slots; n++) {
		snprintf(name, sizeof(name), "s-%u-A", n);
		fake_put(&site.server, name, true, FAKE_NOBODY);
	}
	for (unsigned i = 0; i < NODES; i++)
		fake_node_begin(
			&site.nodes[i], &site.server, &site.is_up, &site.connections, config);
	return &site;
}

/* Each node has its load, and nothing ends but to begin again. */
static void run_ms(struct site *site, uint64_t ms)
{
	for (uint64_t end = site->server.now_ms + ms; site->server.now_ms < end;
		site->server.now_ms += 10) {
		for (unsigned i = 0; i < NODES; i++) {
			struct fake_node *node = &site->nodes[i];
			fake_node_finish(node);
			while (node->in_flight > site->load[i])
				fake_node_finish(node);
			while (node->in_flight + node->waiting < site->load[i] &&
				fake_node_enter(node))
				;
			if (node->waiting > site->load[i] - node->in_flight)
				node->waiting = site->load[i] - node->in_flight;
			fake_node_step(node);
			while (fake_node_start(node))
				;
			fake_node_expire(node, 2 * FAKE_HEARTBEAT_MS);
		}
	}
}

static void remove_from(struct site *site, unsigned first, unsigned last)
{
	char name[32];

	for (unsigned n = last; n >= first; n--) {
		snprintf(name, sizeof(name), "s-%u-A", n);
		assert_true(fake_take(&site->server, name));
	}
}

static void slots_are_taken_ahead_and_given_back(void **state)
{
	struct site *site = begin(20, &local, true);
	struct fake_node *node = &site->nodes[0];

	(void)state;
	run_ms(site, 100);
	assert_int_equal(fake_node_slots(node), 0);
	site->load[0] = 4;
	run_ms(site, 100);
	assert_int_equal(node->in_flight, 4);
	assert_int_equal(fake_node_slots(node), 6);
	site->load[0] = 0;
	run_ms(site, 1500);
	assert_int_equal(fake_node_slots(node), 6);
	run_ms(site, 1500);
	assert_int_equal(fake_node_slots(node), 0);
}

/* A reload shortens the time: it counts from then on, and not when the long one is over. */
static void another_idle_time_is_in_force_at_once(void **state)
{
	struct keeper_config slow = local;
	struct site *site;

	(void)state;
	slow.idle_ms = 3600000;
	site = begin(20, &slow, true);
	site->load[0] = 4;
	run_ms(site, 100);
	site->load[0] = 0;
	run_ms(site, 10000);
	assert_int_equal(fake_node_slots(&site->nodes[0]), 6);
	keeper_configure(&site->nodes[0].keeper, &local);
	run_ms(site, 3000);
	assert_int_equal(fake_node_slots(&site->nodes[0]), 0);
}

/* What comes goes by another connection: this one keeps slots for what is in flight, and no more.
 */
static void one_that_drains_gives_back_what_has_ended(void **state)
{
	struct site *site = begin(6, &local, true);
	struct fake_node *node = &site->nodes[0], *other = &site->nodes[1];

	(void)state;
	site->load[0] = 4;
	run_ms(site, 100);
	assert_int_equal(fake_node_slots(node), 6);
	keeper_drain(&node->keeper);
	fake_node_step(node);
	assert_int_equal(fake_node_slots(node), 4);
	assert_false(keeper_is_drained(&node->keeper));
	while (node->in_flight > 1) {
		fake_node_finish(node);
		fake_node_step(node);
		assert_int_equal(fake_node_slots(node), node->in_flight);
	}
	fake_node_finish(node);
	fake_node_step(node);
	assert_true(keeper_is_drained(&node->keeper));
	fake_node_cut(node);
	node->stands_still = true;
	site->load[0] = 0;
	site->load[1] = 4;
	run_ms(site, 1000);
	assert_int_equal(fake_node_slots(other), 6);
}

/* What is still in flight is the other's to count then. */
static void one_that_loses_its_slots_is_drained(void **state)
{
	struct site *site = begin(6, &local, true);
	struct fake_node *node = &site->nodes[0];

	(void)state;
	site->load[0] = 4;
	run_ms(site, 100);
	keeper_drain(&node->keeper);
	fake_node_step(node);
	assert_false(keeper_is_drained(&node->keeper));
	fake_node_cut(node);
	fake_node_step(node);
	fake_node_step(node);
	assert_true(keeper_is_drained(&node->keeper));
	assert_null(node->keeper.broker);
	assert_int_equal(node->in_flight, 4);
}

static void step_ms(struct site *site, uint64_t ms)
{
	for (uint64_t end = site->server.now_ms + ms; site->server.now_ms < end;
		site->server.now_ms += 100)
		for (unsigned i = 0; i < NODES; i++)
			fake_node_step(&site->nodes[i]);
}

static unsigned nodes_seen(const struct fake_node *node)
{
	struct keeper_view view;

	keeper_look(&node->keeper, &view);
	return view.nodes;
}

/* Its node has another connection, or has no share any more. */
static void one_that_drains_does_not_count_as_a_node(void **state)
{
	struct site *site = begin(6, &local, true);
	struct fake_node *node = &site->nodes[0];

	(void)state;
	site->load[0] = 4;
	run_ms(site, 100);
	keeper_drain(&node->keeper);
	step_ms(site, 90000);
	assert_int_equal(node->in_flight, 4);
	assert_int_equal(fake_node_slots(node), 4);
	assert_int_equal(nodes_seen(&site->nodes[1]), 2);
	assert_int_equal(nodes_seen(&site->nodes[2]), 2);
}

/* After a reload, the connection from before may be there still when the new one counts. */
static void the_first_count_is_kept_until_the_next(void **state)
{
	struct site *site = begin(6, &local, true);
	struct fake_node *before = &site->nodes[0], *node = &site->nodes[1];

	(void)state;
	node->stands_still = true;
	step_ms(site, 1000);
	node->stands_still = false;
	fake_node_step(node);
	assert_int_equal(nodes_seen(node), 3);
	before->stands_still = true;
	fake_node_cut(before);
	step_ms(site, 5000);
	assert_int_equal(nodes_seen(node), 2);
}

/* A connection outlives the configuration that it was made with, and its name. */
static void a_configuration_is_not_needed_after_the_next(void **state)
{
	char name[] = "s";
	struct keeper_config first = local;
	struct site *site;

	(void)state;
	first.name = name;
	site = begin(20, &first, true);
	run_ms(site, 100);
	for (unsigned i = 0; i < NODES; i++)
		keeper_configure(&site->nodes[i].keeper, &local);
	name[0] = '?';
	site->load[0] = 4;
	run_ms(site, 100);
	assert_int_equal(site->nodes[0].in_flight, 4);
	assert_true(fake_has(&site->server, "s-6-B"));
}

static void steady_load_costs_few_messages(void **state)
{
	struct site *site = begin(20, &local, true);
	struct keeper_view before, after;

	(void)state;
	site->load[0] = 10;
	run_ms(site, 60000);
	keeper_look(&site->nodes[0].keeper, &before);
	run_ms(site, 60000);
	keeper_look(&site->nodes[0].keeper, &after);
	assert_int_equal(after.held, 15);
	assert_in_range(after.messages - before.messages, 100, 60 * 5);
}

/* All want more than there are, and each has its share. */
static void waiting_for_slots_costs_few_messages(void **state)
{
	struct site *site = begin(60, &local, true);
	struct keeper_view before, after;

	(void)state;
	for (unsigned i = 0; i < NODES; i++)
		site->load[i] = 100;
	run_ms(site, 60000);
	keeper_look(&site->nodes[0].keeper, &before);
	run_ms(site, 60000);
	keeper_look(&site->nodes[0].keeper, &after);
	assert_int_equal(after.held, 20);
	assert_in_range(after.messages - before.messages, 100, 60 * 15);
	site->load[1] = site->load[2] = 0;
	run_ms(site, 5000);
	assert_int_equal(site->nodes[0].in_flight, 60);
}

/* The others had them, and have no need of them any more. */
static void one_busy_node_of_three_gets_all(void **state)
{
	struct site *site = begin(10, &local, true);

	(void)state;
	for (unsigned i = 0; i < NODES; i++)
		site->load[i] = 20;
	run_ms(site, 10000);
	site->load[1] = site->load[2] = 0;
	run_ms(site, 5000);
	assert_int_equal(site->nodes[0].in_flight, 10);
}

static void none_starves_beside_busy_ones(void **state)
{
	struct site *site = begin(10, &local, true);

	(void)state;
	site->load[0] = 50;
	run_ms(site, 3000);
	assert_int_equal(site->nodes[0].in_flight, 10);
	site->load[1] = site->load[2] = 50;
	run_ms(site, 30000);
	for (unsigned i = 0; i < NODES; i++)
		assert_true(site->nodes[i].in_flight >= 3);
	assert_int_equal(
		site->nodes[0].in_flight + site->nodes[1].in_flight + site->nodes[2].in_flight, 10);
}

/* Each has the slot for some seconds, then another. */
static void nodes_take_turns_at_too_few_slots(void **state)
{
	struct site *site = begin(1, &local, true);
	unsigned served[NODES] = {0};

	(void)state;
	site->load[0] = 5;
	run_ms(site, 3000);
	site->load[1] = site->load[2] = 5;
	for (unsigned round = 0; round < 6000; round++) {
		run_ms(site, 10);
		for (unsigned i = 0; i < NODES; i++)
			served[i] += site->nodes[i].in_flight;
	}
	for (unsigned i = 0; i < NODES; i++)
		assert_in_range(served[i], 600, 6000);
	assert_in_range(served[0] + served[1] + served[2], 4500, 6000);
}

static void a_removed_slot_is_used_no_more(void **state)
{
	struct site *site = begin(10, &local, true);

	(void)state;
	site->load[0] = 50;
	run_ms(site, 2000);
	remove_from(site, 5, 10);
	run_ms(site, 2500);
	assert_int_equal(site->nodes[0].in_flight, 4);
	run_ms(site, 2000);
	assert_false(fake_has(&site->server, "s-5-B") || fake_has(&site->server, "s-10-B"));
}

/* What is in flight by a removed slot holds it. */
static void a_removed_slot_is_held_until_its_request_ends(void **state)
{
	struct site *site = begin(2, &local, true);
	struct fake_node *node = &site->nodes[0];

	(void)state;
	site->load[0] = 2;
	run_ms(site, 500);
	assert_int_equal(node->in_flight, 2);
	remove_from(site, 2, 2);
	for (unsigned i = 0; i < 500; i++, site->server.now_ms += 10)
		fake_node_step(node);
	assert_true(fake_has(&site->server, "s-2-B"));
	fake_node_finish(node);
	assert_false(fake_node_enter(node) && fake_node_start(node));
	for (unsigned i = 0; i < 10; i++, site->server.now_ms += 10)
		fake_node_step(node);
	assert_false(fake_has(&site->server, "s-2-B"));
}

/* The lease is over before the broker frees its slots; and when it continues it starts nothing. */
static void a_node_that_stood_still_starts_nothing(void **state)
{
	struct site *site = begin(4, &local, true);
	struct fake_node *node = &site->nodes[0];

	(void)state;
	site->load[0] = 3;
	run_ms(site, 1000);
	assert_true(site->server.now_ms * 1000000 < node->bound.slots.until_ns);
	assert_true(
		node->bound.slots.until_ns < (node->heard_ms + 2 * FAKE_HEARTBEAT_MS) * 1000000);
	node->stands_still = true;
	node->in_flight = 0;
	run_ms(site, 2 * FAKE_HEARTBEAT_MS);
	assert_false(node->is_connected);
	node->stands_still = false;
	node->waiting = 1;
	assert_false(fake_node_start(node));
	fake_node_step(node);
	fake_node_step(node);
	assert_true(fake_node_start(node));
	assert_true(fake_node_slots(node) > 0);
}

/* It has all slots and wants more: with none left to look at, it asks the broker nothing, and
 * learns nothing. */
static void a_lease_begins_with_a_question_to_the_broker(void **state)
{
	struct site *site = begin(3, &local, true);
	const struct fake_node *node = &site->nodes[0];

	(void)state;
	site->load[0] = 10;
	for (unsigned round = 0; round < 2000; round++) {
		run_ms(site, 10);
		assert_true(
			node->bound.slots.until_ns <= (node->heard_ms + KEEPER_LEASE_MS) * 1000000);
	}
	assert_int_equal(node->in_flight, 3);
}

/* ---- without the broker ---------------------------------------------------------------------- */

static void end_broker(struct site *site)
{
	site->is_up = false;
	for (unsigned i = 0; i < NODES; i++)
		fake_node_cut(&site->nodes[i]);
}

static void without_the_broker_each_has_its_share(void **state)
{
	struct site *site = begin(10, &local, true);
	struct keeper_view view;

	(void)state;
	site->load[0] = site->load[1] = 20;
	run_ms(site, 5000);
	end_broker(site);
	run_ms(site, 20000);
	assert_int_equal(site->nodes[0].in_flight, 3);
	assert_int_equal(site->nodes[1].in_flight, 3);
	keeper_look(&site->nodes[0].keeper, &view);
	assert_int_equal(view.state, SEMAPHORE_AWAY);
	assert_int_equal(view.nodes, 3);
	site->is_up = true;
	run_ms(site, 10000);
	keeper_look(&site->nodes[0].keeper, &view);
	assert_int_equal(view.state, SEMAPHORE_HOLDS);
	assert_int_equal(site->nodes[0].in_flight + site->nodes[1].in_flight, 10);
}

static unsigned all_in_flight(const struct site *site)
{
	unsigned count = 0;

	for (unsigned i = 0; i < NODES; i++)
		count += site->nodes[i].in_flight;
	return count;
}

/* All are loaded, the last one begins as the broker comes back, and the others have noticed. */
static void return_behind_one_that_begins(struct site *site)
{
	site->load[0] = site->load[1] = 20;
	run_ms(site, 5000);
	end_broker(site);
	run_ms(site, 10000);
	assert_int_equal(site->nodes[0].in_flight, 3);
	site->is_up = true;
	fake_node_begin(&site->nodes[2], &site->server, &site->is_up, &site->connections, &local);
	site->load[2] = 20;
	fake_node_step(&site->nodes[2]);
	for (unsigned i = 0; i < 20; i++)
		fake_node_enter(&site->nodes[2]);
	fake_node_step(&site->nodes[2]);
	assert_int_equal(fake_node_slots(&site->nodes[2]), 9);
	run_ms(site, 1500);
}

/* It has begun as the broker came back, and takes all slots before the others have noticed: these
 * use their shares until then, and no longer. */
static void a_share_ends_where_another_has_the_slots(void **state)
{
	struct site *site = begin(9, &local, true);

	(void)state;
	return_behind_one_that_begins(site);
	assert_in_range(all_in_flight(site), 1, 9);
	run_ms(site, 20000);
	for (unsigned i = 0; i < NODES; i++)
		assert_int_equal(site->nodes[i].in_flight, 3);
}

/* The broker cuts all that it has let in again: who returns uses no share before it has looked, as
 * the one that had slots is there again at once, and takes them all. */
static void a_return_that_is_cut_begins_with_a_look(void **state)
{
	struct site *site = begin(9, &local, true);

	(void)state;
	return_behind_one_that_begins(site);
	for (unsigned i = 0; i < NODES; i++)
		fake_node_cut(&site->nodes[i]);
	run_ms(site, 200); /* what was in flight has ended */
	for (unsigned i = 0; i < 300; i++) {
		run_ms(site, 10);
		assert_in_range(all_in_flight(site), 1, 9);
	}
}

/* A broker that lets in and cuts is none: the share is used in the end, where there is no slot. */
static void returns_that_are_cut_again_and_again_end_with_the_share(void **state)
{
	struct site *site = begin(9, &local, true);
	struct fake_node *node = &site->nodes[0];
	unsigned most = 0;
	char name[32];

	(void)state;
	site->load[0] = 20;
	run_ms(site, 5000);
	end_broker(site);
	run_ms(site, 10000);
	for (unsigned n = 1; n <= 9; n++) {
		snprintf(name, sizeof(name), "s-%u-B", n);
		fake_put(&site->server, name, false, FAKE_NOBODY);
	}
	site->is_up = true;
	run_ms(site, 1000);
	assert_int_equal(node->in_flight, 0);
	for (unsigned i = 0; i < 400; i++) {
		run_ms(site, 10);
		fake_node_cut(node);
		if (node->in_flight > most)
			most = node->in_flight;
	}
	assert_int_equal(most, 3);
}

static void without_the_broker_all_is_refused(void **state)
{
	struct site *site = begin(10, &refusing, true);

	(void)state;
	site->load[0] = 5;
	run_ms(site, 1000);
	assert_int_equal(site->nodes[0].in_flight, 5);
	end_broker(site);
	run_ms(site, 1000);
	assert_int_equal(site->nodes[0].in_flight, 0);
	assert_true(site->nodes[0].bound.slots.refuses);
	site->is_up = true;
	run_ms(site, 7500);
	assert_int_equal(site->nodes[0].in_flight, 5);
}

/* At the start nothing was counted: the file says how many slots, and perhaps how many nodes. */
static void at_the_start_the_share_is_by_the_file(void **state)
{
	struct keeper_config three = local;
	struct site *site = begin(10, &local, false);

	(void)state;
	site->load[0] = 9;
	run_ms(site, 1000);
	assert_int_equal(site->nodes[0].in_flight, 1);
	three.nodes = 3;
	site = begin(10, &three, false);
	site->load[0] = 9;
	run_ms(site, 1000);
	assert_int_equal(site->nodes[0].in_flight, 3);
	site = begin(10, &refusing, false);
	site->load[0] = 9;
	run_ms(site, 1000);
	assert_true(site->nodes[0].bound.slots.refuses);
}

static void a_cut_connection_is_made_again_at_once(void **state)
{
	struct site *site = begin(10, &refusing, true);

	(void)state;
	site->load[0] = 5;
	run_ms(site, 1000);
	fake_node_cut(&site->nodes[0]);
	run_ms(site, 2500);
	assert_false(site->nodes[0].bound.slots.refuses);
	assert_int_equal(site->nodes[0].in_flight, 5);
	assert_true(fake_node_slots(&site->nodes[0]) >= 5);
}

static void without_slots_all_is_refused(void **state)
{
	struct site *site = begin(0, &local, true);

	(void)state;
	run_ms(site, 100);
	assert_true(site->nodes[0].bound.slots.refuses);
	fake_put(&site->server, "s-1-A", true, FAKE_NOBODY);
	run_ms(site, 2500);
	site->load[0] = 2;
	run_ms(site, 500);
	assert_int_equal(site->nodes[0].in_flight, 1);
}

static enum broker_result refuse_b(struct broker *broker, const char *queue, enum broker_queue kind)
{
	(void)queue;
	(void)kind;
	snprintf(broker->why, sizeof(broker->why), "ACCESS_REFUSED");
	return BROKER_REFUSED;
}

/* The connection stays: the bound is 0, and it is said why. */
static void a_node_that_may_hold_none_says_so(void **state)
{
	struct site *site = begin(3, &local, true);
	struct fake_node *node = &site->nodes[0];
	struct keeper_view view;

	(void)state;
	run_ms(site, 100);
	node->calls.declare = refuse_b;
	site->load[0] = 2;
	run_ms(site, 3000);
	keeper_look(&node->keeper, &view);
	assert_true(view.is_barred);
	assert_string_equal(node->keeper.why, "ACCESS_REFUSED");
	assert_int_equal(view.state, SEMAPHORE_HOLDS);
	assert_int_equal(view.bound, 0);
}

UNIT_SUITE(test_keeper)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slots_are_taken_ahead_and_given_back),
		cmocka_unit_test(another_idle_time_is_in_force_at_once),
		cmocka_unit_test(one_that_drains_gives_back_what_has_ended),
		cmocka_unit_test(one_that_loses_its_slots_is_drained),
		cmocka_unit_test(one_that_drains_does_not_count_as_a_node),
		cmocka_unit_test(the_first_count_is_kept_until_the_next),
		cmocka_unit_test(a_configuration_is_not_needed_after_the_next),
		cmocka_unit_test(steady_load_costs_few_messages),
		cmocka_unit_test(waiting_for_slots_costs_few_messages),
		cmocka_unit_test(one_busy_node_of_three_gets_all),
		cmocka_unit_test(none_starves_beside_busy_ones),
		cmocka_unit_test(nodes_take_turns_at_too_few_slots),
		cmocka_unit_test(a_removed_slot_is_used_no_more),
		cmocka_unit_test(a_removed_slot_is_held_until_its_request_ends),
		cmocka_unit_test(a_node_that_stood_still_starts_nothing),
		cmocka_unit_test(a_lease_begins_with_a_question_to_the_broker),
		cmocka_unit_test(without_the_broker_each_has_its_share),
		cmocka_unit_test(a_share_ends_where_another_has_the_slots),
		cmocka_unit_test(a_return_that_is_cut_begins_with_a_look),
		cmocka_unit_test(returns_that_are_cut_again_and_again_end_with_the_share),
		cmocka_unit_test(without_the_broker_all_is_refused),
		cmocka_unit_test(at_the_start_the_share_is_by_the_file),
		cmocka_unit_test(a_cut_connection_is_made_again_at_once),
		cmocka_unit_test(without_slots_all_is_refused),
		cmocka_unit_test(a_node_that_may_hold_none_says_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
