#include "base/clock.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "tests/unit/suite.h"

static void iso_has_milliseconds_cut(void **state)
{
	struct clock_cache cache = {0};
	char text[CLOCK_ISO_BYTES];

	(void)state;
	clock_format_iso(&cache, 1795232197123999999ULL, text);
	assert_string_equal(text, "2026-11-21T03:36:37.123Z");
}

static void epoch_is_not_mistaken_for_a_filled_cache(void **state)
{
	struct clock_cache cache = {0};
	char text[CLOCK_ISO_BYTES];

	(void)state;
	clock_format_iso(&cache, 0, text);
	assert_string_equal(text, "1970-01-01T00:00:00.000Z");
	assert_string_equal(clock_format_combined(&cache, 0), "01/Jan/1970:00:00:00 +0000");
}

static void combined_follows_the_second(void **state)
{
	struct clock_cache cache = {0};

	(void)state;
	/* A leap day, and the second after it. */
	assert_string_equal(clock_format_combined(&cache, 1709251199ULL * CLOCK_NS_PER_S),
		"29/Feb/2024:23:59:59 +0000");
	assert_string_equal(clock_format_combined(&cache, 1709251200ULL * CLOCK_NS_PER_S),
		"01/Mar/2024:00:00:00 +0000");
	/* The wall clock may step back. */
	assert_string_equal(clock_format_combined(&cache, 1709251199ULL * CLOCK_NS_PER_S),
		"29/Feb/2024:23:59:59 +0000");
}

static void far_future_stays_within_its_bytes(void **state)
{
	struct clock_cache cache = {0};
	char text[CLOCK_ISO_BYTES];

	(void)state;
	clock_format_iso(&cache, UINT64_MAX, text);
	assert_int_equal(strlen(text), CLOCK_ISO_BYTES - 1);
}

static void monotonic_never_goes_back(void **state)
{
	uint64_t last = clock_monotonic_ns();

	(void)state;
	for (int i = 0; i < 1000; i++) {
		uint64_t now = clock_monotonic_ns();
		assert_true(now >= last);
		last = now;
	}
	assert_true(clock_monotonic_ms() >= last / CLOCK_NS_PER_MS);
}

/* The wall's clock is set, the anchored one is not: each step is reported once, and
 * readings at slightly different instants are no step. */
static void steps_of_the_wall(void **state)
{
	const uint64_t boot = 1000 * CLOCK_NS_PER_S, wall = 1795000000 * CLOCK_NS_PER_S;
	const uint64_t s = CLOCK_NS_PER_S, ms = CLOCK_NS_PER_MS;
	struct clock_anchor anchor;

	(void)state;
	clock_anchor_init(&anchor, boot, wall);
	assert_true(clock_anchor_time(&anchor, boot + 5 * s) == wall + 5 * s);
	assert_true(clock_anchor_step(&anchor, boot + 5 * s, wall + 5 * s) == 0);
	assert_true(clock_anchor_step(&anchor, boot + 5 * s, wall + 5 * s + 19 * ms) == 0);
	assert_true(clock_anchor_step(&anchor, boot + 5 * s, wall + 5 * s - 19 * ms) == 0);
	/* A suspend is no step: CLOCK_BOOTTIME continues. */
	assert_true(clock_anchor_step(&anchor, boot + 9000 * s, wall + 9000 * s) == 0);
	assert_true(
		clock_anchor_step(&anchor, boot + 9001 * s, wall + 5401 * s) == -3600 * (int64_t)s);
	assert_true(clock_anchor_step(&anchor, boot + 9002 * s, wall + 5402 * s) == 0);
	assert_true(clock_anchor_time(&anchor, boot + 9002 * s) == wall + 9002 * s);
	assert_true(clock_anchor_step(&anchor, boot + 9003 * s, wall + 9003 * s + 30 * ms) ==
		    3600 * (int64_t)s + 30 * (int64_t)ms);
	assert_true(clock_anchor_step(&anchor, boot + 9004 * s, wall + 9004 * s + 20 * ms) == 0);
}

UNIT_SUITE(test_clock)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(steps_of_the_wall),
		cmocka_unit_test(iso_has_milliseconds_cut),
		cmocka_unit_test(epoch_is_not_mistaken_for_a_filled_cache),
		cmocka_unit_test(combined_follows_the_second),
		cmocka_unit_test(far_future_stays_within_its_bytes),
		cmocka_unit_test(monotonic_never_goes_back),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
