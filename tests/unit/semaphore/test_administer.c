/* What administrators of a semaphore do, at a broker in memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "fake_broker.h"
#include "semaphore/administer.h"
#include "tests/unit/suite.h"

enum { GAP = 5, OTHER = 90 };

struct site {
	struct fake_server server;
	struct fake_broker connection;
	struct administrator admin;
	struct administer_report report;
};

static struct site *begin(void)
{
	static struct site site;

	memset(&site, 0, sizeof(site));
	fake_connect(&site.connection, &site.server, 1);
	site.admin = (struct administrator){
		.slots = {&site.connection.broker, "s"}, .overshoot = GAP, .timeout_ms = 1000};
	return &site;
}

static void put(struct site *site, char half, unsigned number, unsigned owner)
{
	char name[32];

	snprintf(name, sizeof(name), "s-%u-%c", number, half);
	fake_put(&site->server, name, half == 'A', owner);
}

/* The numbers of the A queues, ascending: "1 2 3". */
static const char *slots_of(const struct fake_server *server)
{
	static char text[4000];
	char name[32];
	size_t len = 0;

	text[0] = '\0';
	for (unsigned n = 1; n < 600; n++) {
		snprintf(name, sizeof(name), "s-%u-A", n);
		if (fake_has(server, name))
			len += (size_t)snprintf(
				text + len, sizeof(text) - len, "%s%u", len ? " " : "", n);
	}
	return text;
}

static void create_makes_slots_and_gives_the_mutex_back(void **state)
{
	struct site *site = begin();

	(void)state;
	assert_int_equal(administer_create(&site->admin, 3, false, &site->report), ADMINISTER_DONE);
	assert_string_equal(slots_of(&site->server), "1 2 3");
	assert_int_equal(site->report.added, 3);
	assert_int_equal(site->report.max, 3);
	assert_false(fake_has(&site->server, "s"));
	assert_int_equal(site->server.count, 3);
}

static void create_refuses_one_that_exists(void **state)
{
	struct site *site = begin();

	(void)state;
	put(site, 'A', 1, FAKE_NOBODY);
	assert_int_equal(
		administer_create(&site->admin, 3, false, &site->report), ADMINISTER_REFUSED);
	assert_string_equal(site->report.why, "it exists, with 1 slot");
	assert_string_equal(slots_of(&site->server), "1");
	assert_false(fake_has(&site->server, "s"));
}

static void ensure_adds_what_is_missing_and_removes_nothing(void **state)
{
	struct site *site = begin();

	(void)state;
	put(site, 'A', 1, FAKE_NOBODY);
	assert_int_equal(administer_create(&site->admin, 3, true, &site->report), ADMINISTER_DONE);
	assert_string_equal(slots_of(&site->server), "1 2 3");
	assert_int_equal(site->report.added, 2);
	assert_int_equal(administer_create(&site->admin, 2, true, &site->report), ADMINISTER_DONE);
	assert_string_equal(slots_of(&site->server), "1 2 3");
	assert_int_equal(site->report.added, 0);
}

static void add_and_remove_are_of_the_last_slots(void **state)
{
	struct site *site = begin();

	(void)state;
	assert_int_equal(administer_add(&site->admin, 1, &site->report), ADMINISTER_REFUSED);
	administer_create(&site->admin, 2, false, &site->report);
	assert_int_equal(administer_add(&site->admin, 2, &site->report), ADMINISTER_DONE);
	assert_string_equal(slots_of(&site->server), "1 2 3 4");
	assert_int_equal(administer_remove(&site->admin, 3, &site->report), ADMINISTER_DONE);
	assert_string_equal(slots_of(&site->server), "1");
	assert_int_equal(site->report.removed, 3);
	assert_int_equal(
		administer_add(&site->admin, SLOTS_MOST, &site->report), ADMINISTER_REFUSED);
	assert_int_equal(administer_remove(&site->admin, 2, &site->report), ADMINISTER_REFUSED);
	assert_string_equal(site->report.why, "it has 1 slot");
	assert_string_equal(slots_of(&site->server), "1");
	assert_int_equal(administer_remove(&site->admin, 1, &site->report), ADMINISTER_DONE);
	assert_string_equal(slots_of(&site->server), "");
	assert_int_equal(site->report.max, 0);
	assert_int_equal(administer_remove(&site->admin, 1, &site->report), ADMINISTER_REFUSED);
	assert_int_equal(administer_create(&site->admin, 2, false, &site->report), ADMINISTER_DONE);
}

static void destroy_removes_all_and_strays(void **state)
{
	struct site *site = begin();

	(void)state;
	assert_int_equal(administer_destroy(&site->admin, &site->report), ADMINISTER_REFUSED);
	administer_create(&site->admin, 2, false, &site->report);
	put(site, 'A', 4, FAKE_NOBODY);
	assert_int_equal(administer_destroy(&site->admin, &site->report), ADMINISTER_DONE);
	assert_string_equal(slots_of(&site->server), "");
	assert_int_equal(site->report.removed, 2);
	assert_int_equal(site->report.strays, 1);
}

static void strays_are_found_up_to_the_overshoot(void **state)
{
	struct site *site = begin();

	(void)state;
	administer_create(&site->admin, 2, false, &site->report);
	put(site, 'A', 2 + GAP, FAKE_NOBODY);
	put(site, 'A', 2 + 2 * GAP, FAKE_NOBODY);
	put(site, 'A', 3 + 3 * GAP, FAKE_NOBODY); /* too far */
	assert_int_equal(administer_prune(&site->admin, &site->report), ADMINISTER_DONE);
	assert_string_equal(slots_of(&site->server), "1 2 18");
	assert_int_equal(site->report.strays, 2);
}

/* 3 is missing: adding one slot must not make four of two. */
static void adding_does_not_join_strays(void **state)
{
	struct site *site = begin();

	(void)state;
	administer_create(&site->admin, 2, false, &site->report);
	put(site, 'A', 4, FAKE_NOBODY);
	assert_int_equal(administer_add(&site->admin, 1, &site->report), ADMINISTER_DONE);
	assert_string_equal(slots_of(&site->server), "1 2 3");
}

static void more_slots_than_a_batch(void **state)
{
	struct site *site = begin();
	unsigned many = 2 * BROKER_BATCH_MOST;

	(void)state;
	assert_int_equal(
		administer_create(&site->admin, many, false, &site->report), ADMINISTER_DONE);
	assert_int_equal(administer_add(&site->admin, 1, &site->report), ADMINISTER_DONE);
	assert_int_equal(site->report.max, many + 1);
	assert_int_equal(administer_destroy(&site->admin, &site->report), ADMINISTER_DONE);
	assert_int_equal(site->server.count, 0);
}

/* ---- the mutex ------------------------------------------------------------------------------- */

static void release_mutex(struct fake_server *server, void *user)
{
	(void)user;
	if (server->pauses == 3)
		fake_take(server, "s");
}

static void one_administrator_at_a_time(void **state)
{
	struct site *site = begin();

	(void)state;
	fake_put(&site->server, "s", false, OTHER);
	assert_int_equal(administer_create(&site->admin, 3, false, &site->report), ADMINISTER_BUSY);
	assert_string_equal(slots_of(&site->server), "");
	assert_true(site->server.now_ms >= 1000 && site->server.now_ms < 1200);
	site->server.pauses = 0;
	site->server.on_pause = release_mutex;
	assert_int_equal(administer_create(&site->admin, 3, false, &site->report), ADMINISTER_DONE);
	assert_string_equal(slots_of(&site->server), "1 2 3");
}

static void a_queue_that_is_no_mutex_is_reported(void **state)
{
	struct site *site = begin();

	(void)state;
	fake_put(&site->server, "s", true, FAKE_NOBODY);
	assert_int_equal(
		administer_create(&site->admin, 3, false, &site->report), ADMINISTER_FAILED);
	assert_non_null(strstr(site->report.why, "it can't be the mutex"));
	assert_int_equal(site->server.pauses, 0);
	assert_int_equal(site->server.count, 1);
}

static void queues_declared_in_another_way_are_neither_used_nor_deleted(void **state)
{
	struct site *site = begin();

	(void)state;
	put(site, 'A', 1, FAKE_NOBODY);
	fake_put(&site->server, "s-2-A", false, FAKE_NOBODY);
	assert_int_equal(administer_add(&site->admin, 1, &site->report), ADMINISTER_FAILED);
	assert_string_equal(site->report.why, "PRECONDITION_FAILED");
	assert_int_equal(administer_destroy(&site->admin, &site->report), ADMINISTER_FAILED);
	assert_string_equal(slots_of(&site->server), "1 2");
	assert_false(fake_has(&site->server, "s"));
}

/* ---- holders --------------------------------------------------------------------------------- */

static void look_finds_holders_also_of_removed_slots(void **state)
{
	struct site *site = begin();
	struct slots_set held;

	(void)state;
	assert_int_equal(administer_look(&site->admin, &held, &site->report), ADMINISTER_REFUSED);
	administer_create(&site->admin, 3, false, &site->report);
	put(site, 'B', 1, OTHER);
	put(site, 'B', 3, OTHER);
	put(site, 'B', 4, OTHER);
	fake_put(&site->server, "s", false, OTHER); /* no mutex is needed */
	assert_int_equal(administer_look(&site->admin, &held, &site->report), ADMINISTER_DONE);
	assert_int_equal(site->report.max, 3);
	assert_int_equal(held.count, 3);
	assert_true(slots_set_has(&held, 1) && slots_set_has(&held, 3) && slots_set_has(&held, 4));
	assert_false(slots_set_has(&held, 2));
}

static void release_holder(struct fake_server *server, void *user)
{
	(void)user;
	if (server->pauses == 2)
		fake_take(server, "s-3-B");
}

/* Others gave theirs back: far and wide there is no other holder. */
static void a_holder_far_behind_the_last_slot_is_seen(void **state)
{
	static struct slots_set held;
	struct site *site = begin();

	(void)state;
	administer_create(&site->admin, 2, false, &site->report);
	put(site, 'B', SLOTS_MOST, OTHER);
	assert_int_equal(administer_look(&site->admin, &held, &site->report), ADMINISTER_DONE);
	assert_true(slots_set_has(&held, SLOTS_MOST));
	assert_int_equal(administer_wait(&site->admin, &site->report), ADMINISTER_BUSY);
	fake_take(&site->server, "s-10000-B");
	assert_int_equal(administer_wait(&site->admin, &site->report), ADMINISTER_DONE);
}

static void wait_is_for_holders_of_removed_slots_only(void **state)
{
	struct site *site = begin();

	(void)state;
	administer_create(&site->admin, 3, false, &site->report);
	put(site, 'B', 1, OTHER);
	put(site, 'B', 3, OTHER);
	assert_int_equal(administer_wait(&site->admin, &site->report), ADMINISTER_DONE);
	assert_int_equal(administer_remove(&site->admin, 1, &site->report), ADMINISTER_DONE);
	assert_int_equal(administer_wait(&site->admin, &site->report), ADMINISTER_BUSY);
	assert_string_equal(site->report.why, "1 removed slot is still held");
	site->server.pauses = 0;
	site->server.on_pause = release_holder;
	assert_int_equal(administer_wait(&site->admin, &site->report), ADMINISTER_DONE);
	assert_int_equal(site->server.pauses, 2);
}

/* ---- death ----------------------------------------------------------------------------------- */

static unsigned count_slots(const struct fake_server *server)
{
	char name[32];
	unsigned n = 0;

	do
		snprintf(name, sizeof(name), "s-%u-A", ++n);
	while (fake_has(server, name));
	return n - 1;
}

struct change {
	enum administer_result (*make)(struct site *site);
	unsigned before, after;
};

static enum administer_result make_create(struct site *site)
{
	return administer_create(&site->admin, 4, false, &site->report);
}

static enum administer_result make_add(struct site *site)
{
	return administer_add(&site->admin, 3, &site->report);
}

static enum administer_result make_remove(struct site *site)
{
	return administer_remove(&site->admin, 3, &site->report);
}

static enum administer_result make_destroy(struct site *site)
{
	return administer_destroy(&site->admin, &site->report);
}

/* The connection is lost at that call, before or behind its effect. False: there are fewer calls.
 */
static bool die_at(const struct change *change, unsigned call, bool loses_request)
{
	struct site *site = begin();

	for (unsigned n = 1; n <= change->before; n++)
		put(site, 'A', n, FAKE_NOBODY);
	put(site, 'A', change->before + 2, FAKE_NOBODY); /* a stray */
	site->connection.calls_left = call;
	site->connection.loses_request = loses_request;
	enum administer_result result = change->make(site);
	if (!site->connection.is_lost)
		return false;
	/* The last call gives the mutex back: then all is done. */
	assert_true(result == ADMINISTER_LOST || result == ADMINISTER_DONE);
	assert_false(fake_has(&site->server, "s"));
	unsigned slots = count_slots(&site->server);
	unsigned low = change->before < change->after ? change->before : change->after;
	assert_in_range(slots, low, change->before + change->after - low);
	if (result == ADMINISTER_DONE)
		assert_int_equal(slots, change->after);

	fake_connect(&site->connection, &site->server, 2);
	assert_int_equal(administer_create(&site->admin, 5, true, &site->report), ADMINISTER_DONE);
	assert_int_equal(site->report.max, slots > 5 ? slots : 5);
	assert_int_equal(site->server.count, site->report.max);
	return true;
}

static void death_at_any_call_leaves_what_the_next_repairs(void **state)
{
	static const struct change changes[] = {
		{make_create, 0, 4}, {make_add, 2, 5}, {make_remove, 6, 3}, {make_destroy, 4, 0}};

	(void)state;
	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		unsigned call = 1;
		while (die_at(&changes[i], call, false) && die_at(&changes[i], call, true))
			call++;
		assert_true(call > 8);
	}
}

UNIT_SUITE(test_administer)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(create_makes_slots_and_gives_the_mutex_back),
		cmocka_unit_test(create_refuses_one_that_exists),
		cmocka_unit_test(ensure_adds_what_is_missing_and_removes_nothing),
		cmocka_unit_test(add_and_remove_are_of_the_last_slots),
		cmocka_unit_test(destroy_removes_all_and_strays),
		cmocka_unit_test(strays_are_found_up_to_the_overshoot),
		cmocka_unit_test(adding_does_not_join_strays),
		cmocka_unit_test(more_slots_than_a_batch),
		cmocka_unit_test(one_administrator_at_a_time),
		cmocka_unit_test(a_queue_that_is_no_mutex_is_reported),
		cmocka_unit_test(queues_declared_in_another_way_are_neither_used_nor_deleted),
		cmocka_unit_test(look_finds_holders_also_of_removed_slots),
		cmocka_unit_test(wait_is_for_holders_of_removed_slots_only),
		cmocka_unit_test(a_holder_far_behind_the_last_slot_is_seen),
		cmocka_unit_test(death_at_any_call_leaves_what_the_next_repairs),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
