/* The slots that one connection holds: found ascending, confirmed, given back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "fake_broker.h"
#include "semaphore/holder.h"
#include "tests/unit/suite.h"

enum { OTHER = 99 };

struct site {
	struct fake_server server;
	struct fake_broker connection;
	struct holder holder;
};

static void put(struct site *site, char half, unsigned number, unsigned owner)
{
	char name[32];

	snprintf(name, sizeof(name), "s-%u-%c", number, half);
	fake_put(&site->server, name, half == 'A', owner);
}

static bool take(struct site *site, char half, unsigned number)
{
	char name[32];

	snprintf(name, sizeof(name), "s-%u-%c", number, half);
	return fake_take(&site->server, name);
}

static bool has(struct site *site, char half, unsigned number)
{
	char name[32];

	snprintf(name, sizeof(name), "s-%u-%c", number, half);
	return fake_has(&site->server, name);
}

static struct site *begin(unsigned slots)
{
	static struct site site;

	memset(&site, 0, sizeof(site));
	for (unsigned n = 1; n <= slots; n++)
		put(&site, 'A', n, FAKE_NOBODY);
	fake_connect(&site.connection, &site.server, 1);
	assert_int_equal(holder_begin(&site.holder, &site.connection.broker, "s"), BROKER_DONE);
	assert_int_equal(site.holder.max, slots);
	return &site;
}

static void slots_are_taken_ascending_beside_those_of_others(void **state)
{
	struct site *site = begin(5);

	(void)state;
	put(site, 'B', 2, OTHER);
	assert_int_equal(holder_take(&site->holder, 2), BROKER_DONE);
	assert_int_equal(holder_usable(&site->holder), 2);
	assert_true(has(site, 'B', 1) && has(site, 'B', 3) && !has(site, 'B', 4));
	assert_int_equal(holder_take(&site->holder, 9), BROKER_DONE);
	assert_int_equal(holder_usable(&site->holder), 4);
	assert_int_equal(holder_take(&site->holder, 1), BROKER_DONE);
	assert_int_equal(holder_usable(&site->holder), 4);
	assert_false(has(site, 'B', 6));
}

static void more_slots_than_a_batch(void **state)
{
	struct site *site = begin(150);

	(void)state;
	assert_int_equal(holder_take(&site->holder, 200), BROKER_DONE);
	assert_int_equal(holder_usable(&site->holder), 150);
	assert_int_equal(holder_check(&site->holder), BROKER_DONE);
	assert_int_equal(holder_usable(&site->holder), 150);
	assert_int_equal(holder_give(&site->holder, 149), BROKER_DONE);
	assert_int_equal(holder_usable(&site->holder), 1);
	assert_true(has(site, 'B', 1));
	assert_false(has(site, 'B', 150));
}

/* Slots that are added are found, though the number that was known was less. */
static void added_slots_are_found(void **state)
{
	struct site *site = begin(1);

	(void)state;
	assert_int_equal(holder_take(&site->holder, 3), BROKER_DONE);
	assert_int_equal(holder_usable(&site->holder), 1);
	put(site, 'A', 2, FAKE_NOBODY);
	put(site, 'A', 3, FAKE_NOBODY);
	assert_int_equal(holder_check(&site->holder), BROKER_DONE);
	assert_int_equal(site->holder.max, 3);
	assert_int_equal(holder_take(&site->holder, 2), BROKER_DONE);
	assert_int_equal(holder_usable(&site->holder), 3);
}

static void a_removed_slot_is_not_usable_and_given_back_first(void **state)
{
	struct site *site = begin(4);

	(void)state;
	holder_take(&site->holder, 4);
	take(site, 'A', 4);
	take(site, 'A', 3);
	assert_int_equal(holder_check(&site->holder), BROKER_DONE);
	assert_int_equal(holder_usable(&site->holder), 2);
	assert_int_equal(site->holder.max, 2);
	assert_true(has(site, 'B', 4));
	assert_int_equal(holder_give(&site->holder, 2), BROKER_DONE);
	assert_int_equal(holder_usable(&site->holder), 2);
	assert_false(has(site, 'B', 4) || has(site, 'B', 3));
	assert_true(has(site, 'B', 2));
}

/* Not by an administrator, who begins at the end. */
static void a_slot_lost_in_the_middle_is_found_in_turn(void **state)
{
	struct site *site = begin(6);

	(void)state;
	holder_take(&site->holder, 6);
	take(site, 'A', 2);
	for (unsigned i = 0; i < 6; i++)
		assert_int_equal(holder_check(&site->holder), BROKER_DONE);
	assert_int_equal(holder_usable(&site->holder), 5);
	put(site, 'A', 2, FAKE_NOBODY);
	assert_int_equal(holder_check(&site->holder), BROKER_DONE);
	assert_int_equal(holder_usable(&site->holder), 6);
}

/* ---- what happens between the look and the declaration --------------------------------------- */

static enum broker_result (*declare)(struct broker *, const char *, enum broker_queue);

static struct site *racing;
static unsigned races, removed_at;

/* Another is there first, or the administrator removes the slot. */
static enum broker_result declare_late(
	struct broker *broker, const char *queue, enum broker_queue kind)
{
	char name[32];

	if (races > 0 && !fake_has(&racing->server, queue)) {
		races--;
		fake_put(&racing->server, queue, false, OTHER);
	}
	snprintf(name, sizeof(name), "s-%u-B", removed_at);
	if (strcmp(queue, name) == 0)
		take(racing, 'A', removed_at);
	return declare(broker, queue, kind);
}

static void race(struct site *site, struct broker_calls *calls, unsigned times, unsigned removed)
{
	*calls = *site->connection.broker.calls;
	declare = calls->declare;
	calls->declare = declare_late;
	site->connection.broker.calls = calls;
	racing = site;
	races = times;
	removed_at = removed;
}

static void one_that_is_locked_is_passed_after_a_pause(void **state)
{
	struct site *site = begin(8);
	struct broker_calls calls;

	(void)state;
	race(site, &calls, 2, 0);
	assert_int_equal(holder_take(&site->holder, 2), BROKER_DONE);
	assert_int_equal(holder_usable(&site->holder), 2);
	assert_true(slots_set_has(&site->holder.held, 3) && slots_set_has(&site->holder.held, 4));
	assert_int_equal(site->server.pauses, 2);
}

static void the_tries_are_bounded(void **state)
{
	struct site *site = begin(20);
	struct broker_calls calls;

	(void)state;
	race(site, &calls, 20, 0);
	assert_int_equal(holder_take(&site->holder, 2), BROKER_DONE);
	assert_int_equal(holder_usable(&site->holder), 0);
	assert_int_equal(20 - races, HOLDER_TRIES);
}

static void a_slot_removed_meanwhile_never_counts(void **state)
{
	struct site *site = begin(3);
	struct broker_calls calls;

	(void)state;
	race(site, &calls, 0, 3);
	assert_int_equal(holder_take(&site->holder, 3), BROKER_DONE);
	assert_int_equal(holder_usable(&site->holder), 2);
	assert_false(has(site, 'B', 3));
}

/* ---- others' queues -------------------------------------------------------------------------- */

/* Deleted by hand, say: one nobody has taken since is declared again, another's is used no more. */
static void a_b_that_was_lost_is_noticed_in_turn(void **state)
{
	struct site *site = begin(3);

	(void)state;
	assert_int_equal(holder_take(&site->holder, 3), BROKER_DONE);
	take(site, 'B', 1);
	take(site, 'B', 2);
	fake_put(&site->server, "s-2-B", false, OTHER);
	for (unsigned turn = 0; turn < 3; turn++)
		assert_int_equal(holder_check(&site->holder), BROKER_DONE);
	assert_true(has(site, 'B', 1));
	assert_int_equal(holder_usable(&site->holder), 2);
	assert_false(slots_set_has(&site->holder.held, 2));
	assert_int_equal(holder_give(&site->holder, 2), BROKER_DONE);
	assert_true(has(site, 'B', 2));
}

static void a_slot_that_is_another_connections_own_is_refused(void **state)
{
	struct site *site = begin(0);

	(void)state;
	fake_put(&site->server, "s-1-A", false, OTHER);
	assert_int_equal(
		holder_begin(&site->holder, &site->connection.broker, "s"), BROKER_REFUSED);
	assert_non_null(strstr(site->connection.broker.why, "RESOURCE_LOCKED"));
}

static void a_durable_b_is_held_by_nobody_we_know(void **state)
{
	struct site *site = begin(2);

	(void)state;
	fake_put(&site->server, "s-1-B", true, FAKE_NOBODY);
	assert_int_equal(holder_take(&site->holder, 2), BROKER_DONE);
	assert_int_equal(holder_usable(&site->holder), 1);
	assert_true(slots_set_has(&site->holder.held, 2));
}

/* ---- a permission is revoked ------------------------------------------------------------------
 */

/* What is ours at the broker stays ours: it would be nobody's to use until the connection ends. */
static void a_slot_is_kept_that_may_not_be_declared_any_more(void **state)
{
	struct site *site = begin(3);

	(void)state;
	assert_int_equal(holder_take(&site->holder, 2), BROKER_DONE);
	site->connection.may_not_configure = true;
	for (unsigned turn = 0; turn < 4; turn++)
		assert_int_equal(holder_check(&site->holder), BROKER_DONE);
	assert_int_equal(holder_usable(&site->holder), 2);
	take(site, 'B', 1);
	for (unsigned turn = 0; turn < 4; turn++)
		assert_int_equal(holder_check(&site->holder), BROKER_DONE);
	assert_int_equal(holder_usable(&site->holder), 1);
}

static void the_connection_ends_where_a_slot_may_not_be_given_back(void **state)
{
	struct site *site = begin(3);
	struct crowd crowd;

	(void)state;
	assert_int_equal(holder_take(&site->holder, 2), BROKER_DONE);
	assert_int_equal(crowd_join(&crowd, &site->holder), BROKER_DONE);
	assert_int_equal(crowd_wait(&crowd, &site->holder, true), BROKER_DONE);
	site->connection.may_not_configure = true;
	assert_int_equal(holder_give(&site->holder, 1), BROKER_LOST);
	assert_non_null(strstr(site->connection.broker.why, "ACCESS_REFUSED"));
	assert_int_equal(crowd_wait(&crowd, &site->holder, false), BROKER_LOST);
}

/* ---- those that use it ----------------------------------------------------------------------- */

static void a_free_slot_is_seen_in_turn(void **state)
{
	struct site *site = begin(40);
	bool is_free;

	(void)state;
	assert_int_equal(holder_take(&site->holder, 10), BROKER_DONE);
	for (unsigned n = 11; n <= 40; n++)
		put(site, 'B', n, OTHER);
	uint64_t before = site->holder.messages;
	for (unsigned i = 0; i < 6; i++) {
		assert_int_equal(holder_glance(&site->holder, &is_free), BROKER_DONE);
		assert_false(is_free);
	}
	assert_int_equal(site->holder.messages - before, 30); /* one for each of the others' */
	assert_true(take(site, 'B', 33));
	unsigned seen = 0;
	for (unsigned i = 0; i < 12; i++) {
		assert_int_equal(holder_glance(&site->holder, &is_free), BROKER_DONE);
		seen += is_free;
	}
	assert_int_equal(seen, 2);
}

static void one_that_has_all_sees_no_free_slot(void **state)
{
	struct site *site = begin(3);
	bool is_free = true;

	(void)state;
	assert_int_equal(holder_take(&site->holder, 9), BROKER_DONE);
	uint64_t before = site->holder.messages;
	assert_int_equal(holder_glance(&site->holder, &is_free), BROKER_DONE);
	assert_false(is_free);
	assert_int_equal(site->holder.messages, before);
}

static void holders_count_each_other(void **state)
{
	struct site *site = begin(2);
	struct fake_broker connections[3];
	struct holder holders[3];
	struct crowd crowds[3];

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		fake_connect(&connections[i], &site->server, 10 + i);
		holder_begin(&holders[i], &connections[i].broker, "s");
		assert_int_equal(crowd_join(&crowds[i], &holders[i]), BROKER_DONE);
		assert_int_equal(crowds[i].number, i + 1);
		assert_int_equal(crowds[i].count, i + 1);
	}
	fake_disconnect(&connections[1]);
	assert_int_equal(crowd_look(&crowds[0], &holders[0], true), BROKER_DONE);
	assert_int_equal(crowds[0].count, 2);
	assert_false(crowds[0].hears);
	assert_int_equal(crowd_wait(&crowds[2], &holders[2], true), BROKER_DONE);
	crowd_look(&crowds[0], &holders[0], false);
	crowd_look(&crowds[2], &holders[2], false);
	assert_true(crowds[0].hears);
	assert_false(crowds[2].hears);
	assert_int_equal(crowd_wait(&crowds[0], &holders[0], true), BROKER_DONE);
	assert_false(crowds[0].waits);
	assert_int_equal(crowd_wait(&crowds[2], &holders[2], false), BROKER_DONE);
	crowd_look(&crowds[0], &holders[0], false);
	assert_false(crowds[0].hears);
}

UNIT_SUITE(test_holder)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(slots_are_taken_ascending_beside_those_of_others),
		cmocka_unit_test(more_slots_than_a_batch),
		cmocka_unit_test(added_slots_are_found),
		cmocka_unit_test(a_removed_slot_is_not_usable_and_given_back_first),
		cmocka_unit_test(a_slot_lost_in_the_middle_is_found_in_turn),
		cmocka_unit_test(one_that_is_locked_is_passed_after_a_pause),
		cmocka_unit_test(the_tries_are_bounded),
		cmocka_unit_test(a_slot_removed_meanwhile_never_counts),
		cmocka_unit_test(a_b_that_was_lost_is_noticed_in_turn),
		cmocka_unit_test(a_slot_that_is_another_connections_own_is_refused),
		cmocka_unit_test(a_durable_b_is_held_by_nobody_we_know),
		cmocka_unit_test(a_slot_is_kept_that_may_not_be_declared_any_more),
		cmocka_unit_test(the_connection_ends_where_a_slot_may_not_be_given_back),
		cmocka_unit_test(a_free_slot_is_seen_in_turn),
		cmocka_unit_test(one_that_has_all_sees_no_free_slot),
		cmocka_unit_test(holders_count_each_other),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
