/* Administrators in random orders, some of whom die at a random call, beside a plain oracle: a set
 * of numbers. SEED=n repeats one; RUNS=n for more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../random.h"
#include "fake_broker.h"
#include "semaphore/administer.h"
#include "tests/unit/suite.h"

enum { GAP = 6, NUMBERS = 64, STEPS = 60 };

struct trial {
	struct fake_server server;
	bool slots[NUMBERS], held[NUMBERS]; /* the oracle's: A and B queues */
	unsigned connections;
};

static void name_queue(char name[32], unsigned number, char half)
{
	snprintf(name, 32, "s-%u-%c", number, half);
}

static unsigned count_slots(const bool slots[NUMBERS])
{
	unsigned n = 1;

	while (n < NUMBERS && slots[n])
		n++;
	return n - 1;
}

/* Without those behind `last`, until GAP in a row are missing. */
static unsigned drop_strays(bool slots[NUMBERS], unsigned last)
{
	unsigned dropped = 0;

	for (unsigned n = last + 1, missing = 0; n < NUMBERS && missing < GAP; n++) {
		missing = slots[n] ? 0 : missing + 1;
		dropped += slots[n];
		slots[n] = false;
	}
	return dropped;
}

static void set_to(bool slots[NUMBERS], unsigned target)
{
	unsigned max = count_slots(slots);

	drop_strays(slots, target > max ? target : max);
	for (unsigned n = 1; n <= target; n++)
		slots[n] = true;
	for (unsigned n = target + 1; n <= max; n++)
		slots[n] = false;
}

enum verb { CREATE, ENSURE, ADD, REMOVE, DESTROY, PRUNE, VERBS };

/* What it should do: to the set, and whether it is refused. */
static bool expect(bool slots[NUMBERS], enum verb verb, unsigned count)
{
	unsigned max = count_slots(slots);

	switch (verb) {
	case CREATE:
		if (max > 0)
			return false;
		set_to(slots, count);
		return true;
	case ENSURE:
		set_to(slots, count > max ? count : max);
		return true;
	case ADD:
		if (max == 0)
			return false;
		set_to(slots, max + count);
		return true;
	case REMOVE:
		if (max == 0 || count > max)
			return false;
		set_to(slots, max - count);
		return true;
	case DESTROY: {
		unsigned strays = drop_strays(slots, max);
		set_to(slots, 0);
		return max + strays > 0;
	}
	case PRUNE:
		drop_strays(slots, max);
		return true;
	case VERBS:
		break;
	}
	return false;
}

static enum administer_result perform(const struct administrator *admin, enum verb verb,
	unsigned count, struct administer_report *report)
{
	switch (verb) {
	case CREATE:
	case ENSURE:
		return administer_create(admin, count, verb == ENSURE, report);
	case ADD:
		return administer_add(admin, count, report);
	case REMOVE:
		return administer_remove(admin, count, report);
	case DESTROY:
		return administer_destroy(admin, report);
	case PRUNE:
	case VERBS:
		break;
	}
	return administer_prune(admin, report);
}

static void read_slots(const struct fake_server *server, bool slots[NUMBERS])
{
	char name[32];

	for (unsigned n = 1; n < NUMBERS; n++) {
		name_queue(name, n, 'A');
		slots[n] = fake_has(server, name);
	}
}

/* Another program deletes or makes a queue, or a holder comes or goes. */
static void disturb(struct trial *trial, struct random *random)
{
	unsigned number = 1 + (unsigned)random_below(random, 30);
	char half = random_below(random, 2) ? 'A' : 'B', name[32];
	bool *slots = half == 'A' ? trial->slots : trial->held;

	name_queue(name, number, half);
	if (slots[number])
		fake_take(&trial->server, name);
	else
		fake_put(&trial->server, name, half == 'A', half == 'A' ? FAKE_NOBODY : 999);
	slots[number] = !slots[number];
}

/* One who dies leaves slots between the old set and the new one, and no mutex. */
static void check_death(const struct trial *trial, const bool before[NUMBERS],
	const bool after[NUMBERS], const bool found[NUMBERS])
{
	unsigned old = count_slots(before), new = count_slots(after), now = count_slots(found);

	(void)trial;
	for (unsigned n = 1; n < NUMBERS; n++)
		if (found[n] && !before[n] && !after[n])
			fail_msg("slot %u was in neither set", n);
	/* A stray may be joined while the number rises, and a hole be filled. */
	assert_in_range(now, old < new ? old : new, old < new ? new : old);
}

static void step(struct trial *trial, struct random *random)
{
	enum verb verb = (enum verb)random_below(random, VERBS);
	unsigned count = 1 + (unsigned)random_below(random, 8);
	struct fake_broker connection;
	struct administer_report report;
	bool after[NUMBERS], found[NUMBERS];
	const struct administrator admin = {
		.slots = {&connection.broker, "s"}, .overshoot = GAP, .timeout_ms = 100};

	if (count_slots(trial->slots) > 30 && verb == ADD)
		verb = DESTROY;
	fake_connect(&connection, &trial->server, ++trial->connections);
	if (random_below(random, 3) == 0) {
		connection.calls_left = 1 + (unsigned)random_below(random, 25);
		connection.loses_request = random_below(random, 2);
	}
	memcpy(after, trial->slots, sizeof(after));
	bool is_allowed = expect(after, verb, count);
	enum administer_result result = perform(&admin, verb, count, &report);
	read_slots(&trial->server, found);
	if (result == ADMINISTER_LOST) {
		check_death(trial, trial->slots, after, found);
	} else {
		assert_int_equal(result, is_allowed ? ADMINISTER_DONE : ADMINISTER_REFUSED);
		assert_memory_equal(found + 1, after + 1, NUMBERS - 1);
		assert_int_equal(report.max, count_slots(after));
	}
	fake_disconnect(&connection);
	assert_false(fake_has(&trial->server, "s"));
	memcpy(trial->slots, found, sizeof(found));
}

static void check_look(struct trial *trial)
{
	struct fake_broker connection;
	struct administer_report report;
	struct slots_set held;
	const struct administrator admin = {
		.slots = {&connection.broker, "s"}, .overshoot = NUMBERS, .timeout_ms = 100};

	fake_connect(&connection, &trial->server, ++trial->connections);
	administer_look(&admin, &held, &report);
	assert_int_equal(report.max, count_slots(trial->slots));
	for (unsigned n = 1; n < NUMBERS; n++)
		assert_int_equal(slots_set_has(&held, n), trial->held[n]);
	fake_disconnect(&connection);
}

static void random_orders(void **state)
{
	static struct trial trial;
	struct random random = random_begin("orders of administrators");
	const char *given = getenv("RUNS");
	unsigned runs = given ? (unsigned)atoi(given) : 50;

	(void)state;
	for (unsigned run = 0; run < runs; run++) {
		memset(&trial, 0, sizeof(trial));
		for (unsigned i = 0; i < STEPS; i++) {
			if (random_below(&random, 3) == 0)
				disturb(&trial, &random);
			step(&trial, &random);
			check_look(&trial);
		}
	}
}

UNIT_SUITE(test_administer_random)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(random_orders)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
