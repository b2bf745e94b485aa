/* Until when an upstream's slots let what was placed be sent. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "upstream/semaphore_slots.h"
#include "tests/unit/suite.h"

static void without_a_semaphore_all_is_sent(void **state)
{
	struct semaphore_slots slots = {.wake_fd = -1};

	(void)state;
	assert_true(semaphore_slots_let(&slots, 0));
	assert_true(semaphore_slots_let(&slots, 1));
	semaphore_slots_end(&slots);
}

static void what_was_placed_is_sent_while_the_lease_lasts(void **state)
{
	struct semaphore_slots slots = {.wake_fd = -1};
	uint64_t now_ns = clock_monotonic_ns(), hour_ns = 3600 * CLOCK_NS_PER_S;

	(void)state;
	semaphore_slots_set(&slots, now_ns - 100, now_ns + hour_ns);
	assert_true(semaphore_slots_let(&slots, now_ns));
	assert_true(semaphore_slots_let(&slots, now_ns - 100));
	assert_false(semaphore_slots_let(&slots, now_ns - 101)); /* by slots of before */
	assert_true(semaphore_slots_let(&slots, 0));             /* without a place */
	semaphore_slots_set(&slots, now_ns - 100, now_ns);
	assert_false(semaphore_slots_let(&slots, now_ns));
}

static void waking_adds_up(void **state)
{
	struct semaphore_slots slots = {.wake_fd = -1};
	uint64_t count;

	(void)state;
	assert_int_equal(semaphore_slots_begin(&slots), 0);
	int fd = slots.wake_fd;
	assert_int_equal(semaphore_slots_begin(&slots), 0);
	assert_int_equal(slots.wake_fd, fd);
	for (unsigned i = 0; i < 3; i++)
		semaphore_slots_wake(&slots);
	assert_int_equal(read(fd, &count, sizeof(count)), sizeof(count));
	assert_int_equal(count, 3);
	semaphore_slots_end(&slots);
	assert_int_equal(slots.wake_fd, -1);
}

UNIT_SUITE(test_semaphore_slots)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_a_semaphore_all_is_sent),
		cmocka_unit_test(what_was_placed_is_sent_while_the_lease_lasts),
		cmocka_unit_test(waking_adds_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
