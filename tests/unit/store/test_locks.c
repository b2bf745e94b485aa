/* Asks about locks wait for the turn's end, leave in few calls, and are done once. */
#include "store/locks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "base/container.h"

#define ASKS (2 * LOCKS_AT_ONCE + 22)

struct lock_test_ask {
	struct lock_ask ask;
	char name[16];
	unsigned done;
	enum lock_status status;
	uint64_t fence;
};

static struct world {
	struct loop loop;
	struct store_link store;
	struct locks locks;
	struct lock_test_ask asks[ASKS];
	struct store_call *sent[8];
	unsigned sent_count;
	bool is_away, is_full;
	uint64_t dropped_before_ms;
	struct lock_ask *cancels; /* in the first done */
	struct lock_ask *again;   /* is asked in the first done */
} world;

/* ---- in the place of the store and of timers ------------------------------------------------- */

bool __wrap_store_link_send(struct store_link *store, struct store_call *call);
bool __wrap_store_link_send(struct store_link *store, struct store_call *call)
{
	assert_ptr_equal(store, &world.store);
	if (world.is_full)
		return false;
	call->sent_ms = world.loop.now_ms;
	world.sent[world.sent_count++] = call;
	return true;
}

bool __wrap_store_link_has(const struct store_link *store, uint16_t slot);
bool __wrap_store_link_has(const struct store_link *store, uint16_t slot)
{
	assert_ptr_equal(store, &world.store);
	(void)slot;
	return !world.is_away;
}

uint64_t __wrap_store_link_oldest_of_all_ms(const struct store_link *store);
uint64_t __wrap_store_link_oldest_of_all_ms(const struct store_link *store)
{
	(void)store;
	return world.sent_count > 0 ? world.sent[0]->sent_ms : UINT64_MAX;
}

void __wrap_store_link_drop_silent(struct store_link *store, uint64_t before_ms);
void __wrap_store_link_drop_silent(struct store_link *store, uint64_t before_ms)
{
	(void)store;
	world.dropped_before_ms = before_ms;
}

/* ---- asking ---------------------------------------------------------------------------------- */

static void on_done(struct lock_ask *ask, const struct lock_answer *answer)
{
	struct lock_test_ask *own = CONTAINER_OF(ask, struct lock_test_ask, ask);

	own->done++;
	own->status = answer->status;
	own->fence = answer->fence;
	if (world.cancels)
		locks_cancel(&world.locks, world.cancels);
	world.cancels = NULL;
	if (world.again)
		locks_ask(&world.locks, world.again);
	world.again = NULL;
}

static struct lock_test_ask *ask(unsigned number, enum lock_kind kind)
{
	struct lock_test_ask *own = &world.asks[number];

	snprintf(own->name, sizeof(own->name), "n%u", number);
	own->ask = (struct lock_ask){.kind = kind,
		.verb = LOCK_USE,
		.name = own->name,
		.session = "s",
		.number = 1,
		.lease_ms = 1000,
		.keep_ms = 1000,
		.done = on_done};
	locks_ask(&world.locks, &own->ask);
	return own;
}

/* The oldest call is answered so, for each of its locks. NULL: never will be. */
static void answer(const char *line, unsigned count)
{
	struct store_call *call = world.sent[0];
	char *text = calloc(count + 1, 64);
	size_t len = 0;

	world.sent_count--;
	memmove(&world.sent[0], &world.sent[1], world.sent_count * sizeof(world.sent[0]));
	for (unsigned i = 0; line && i < count; i++)
		len += (size_t)snprintf(text + len, 64, "%s\n\n", line);
	call->answered(call, line ? text : NULL, len);
	free(text);
}

static int begin(void **state)
{
	(void)state;
	memset(&world, 0, sizeof(world));
	world.loop.now_known = true;
	world.loop.now_ms = 5000;
	locks_init(&world.locks, &world.loop, &world.store);
	world.locks.prefix = "p";
	world.locks.silence_ms = 250;
	return 0;
}

static int end(void **state)
{
	(void)state;
	while (world.sent_count > 0)
		answer(NULL, 0);
	locks_end(&world.locks);
	assert_null(world.locks.sent);
	return 0;
}

static void asks_of_a_turn_leave_in_few_calls(void **state)
{
	(void)state;
	assert_false(locks_send(&world.locks));
	for (unsigned i = 0; i < ASKS; i++)
		ask(i, LOCK_OF_SESSIONS);
	assert_int_equal(world.sent_count, 0);
	assert_true(locks_send(&world.locks));
	assert_int_equal(world.sent_count, 3);
	assert_false(locks_send(&world.locks));
	assert_int_equal(world.asks[0].ask.asked_ms, 5000);
	answer("held 7 1000 s 0", LOCKS_AT_ONCE);
	answer("over 9 0 - 0", LOCKS_AT_ONCE);
	answer(NULL, 0);
	for (unsigned i = 0; i < ASKS; i++) {
		assert_int_equal(world.asks[i].done, 1);
		assert_int_equal(world.asks[i].status, i < LOCKS_AT_ONCE       ? LOCK_HELD
						       : i < 2 * LOCKS_AT_ONCE ? LOCK_OVER
									       : LOCK_UNKNOWN);
	}
	assert_int_equal(world.asks[0].fence, 7);
}

static void kinds_and_parts_have_calls_of_their_own(void **state)
{
	struct cluster *some = (struct cluster *)&world;

	(void)state;
	ask(0, LOCK_OF_SESSIONS);
	ask(1, LOCK_OF_PROBES);
	locks_send(&world.locks);
	assert_int_equal(world.sent_count, 2);
	world.store.cluster = some;
	assert_int_not_equal(lock_part_of("n2"), lock_part_of("n3"));
	ask(2, LOCK_OF_PROBES);
	ask(3, LOCK_OF_PROBES);
	locks_send(&world.locks);
	assert_int_equal(world.sent_count, 4);
	assert_int_equal(world.sent[2]->slot, slot_of_part(lock_part_of("n2")));
	world.store.cluster = NULL;
}

static void an_answer_too_short_is_unknown(void **state)
{
	struct lock_test_ask *first = ask(0, LOCK_OF_COMMANDS), *second = ask(1, LOCK_OF_COMMANDS);

	(void)state;
	locks_send(&world.locks);
	answer("held 7 1000 s 0", 1);
	assert_int_equal(first->status, LOCK_HELD);
	assert_int_equal(second->status, LOCK_UNKNOWN);
	assert_int_equal(second->done, 1);
}

static void a_store_that_is_away_is_unknown(void **state)
{
	struct lock_test_ask *first = ask(0, LOCK_OF_COMMANDS);

	(void)state;
	world.is_away = true;
	locks_send(&world.locks);
	assert_int_equal(first->done, 1);
	assert_int_equal(first->status, LOCK_UNKNOWN);
	world.is_away = false;
	world.is_full = true;
	ask(0, LOCK_OF_COMMANDS);
	locks_send(&world.locks);
	assert_int_equal(first->done, 2);
}

static void what_is_cancelled_is_not_done(void **state)
{
	struct lock_test_ask *asks[] = {
		ask(0, LOCK_OF_COMMANDS), ask(1, LOCK_OF_COMMANDS), ask(2, LOCK_OF_COMMANDS)};

	(void)state;
	locks_cancel(&world.locks, &asks[2]->ask);
	locks_send(&world.locks);
	locks_cancel(&world.locks, &asks[0]->ask);
	ask(3, LOCK_OF_COMMANDS);
	answer("held 7 1000 s 0", 2);
	assert_int_equal(asks[0]->done, 0);
	assert_int_equal(asks[1]->done, 1);
	assert_int_equal(asks[2]->done, 0);
	locks_send(&world.locks);
	assert_int_equal(world.sent_count, 1);
}

/* In calls that are still to be sent, too. */
static void a_done_may_cancel_and_ask(void **state)
{
	struct lock_test_ask *first = ask(0, LOCK_OF_COMMANDS), *second = ask(1, LOCK_OF_PROBES);

	(void)state;
	world.is_away = true;
	world.cancels = &second->ask;
	world.again = &first->ask;
	locks_send(&world.locks);
	assert_int_equal(first->done, 1);
	assert_int_equal(second->done, 0);
	world.is_away = false;
	locks_send(&world.locks);
	world.again = &first->ask;
	answer("held 7 1000 s 0", 1);
	assert_int_equal(first->done, 2);
	assert_true(locks_send(&world.locks));
	assert_int_equal(world.sent_count, 1);
}

static void a_silent_store_is_left(void **state)
{
	(void)state;
	assert_false(locks_are_asked(&world.locks));
	ask(0, LOCK_OF_COMMANDS);
	assert_true(locks_are_asked(&world.locks));
	locks_send(&world.locks);
	assert_true(locks_are_asked(&world.locks));
	assert_int_equal(world.locks.silence.at_ms, 5250);
	assert_true(world.locks.silence.is_patient); /* once, whatever is asked beside it */
	world.locks.silence.is_patient = false;
	world.locks.silence.at_ms = 6250;
	ask(1, LOCK_OF_COMMANDS);
	locks_send(&world.locks);
	assert_false(world.locks.silence.is_patient);
	assert_int_equal(world.locks.silence.at_ms, 6250);
	world.loop.now_ms = 5250;
	world.locks.silence.passed(&world.locks.silence);
	assert_int_equal(world.dropped_before_ms, 5000);
	answer("held 7 1000 s 0", 1);
	answer("held 7 1000 s 0", 1);
	assert_true(world.locks.silence.at_ms == DEADLINE_NEVER);
	assert_false(locks_are_asked(&world.locks));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(asks_of_a_turn_leave_in_few_calls, begin, end),
		cmocka_unit_test_setup_teardown(
			kinds_and_parts_have_calls_of_their_own, begin, end),
		cmocka_unit_test_setup_teardown(an_answer_too_short_is_unknown, begin, end),
		cmocka_unit_test_setup_teardown(a_store_that_is_away_is_unknown, begin, end),
		cmocka_unit_test_setup_teardown(what_is_cancelled_is_not_done, begin, end),
		cmocka_unit_test_setup_teardown(a_done_may_cancel_and_ask, begin, end),
		cmocka_unit_test_setup_teardown(a_silent_store_is_left, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
