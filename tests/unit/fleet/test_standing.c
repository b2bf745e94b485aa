/* Among how many nodes a limit is divided, by what a node was told as a member. */
#include "fleet/members.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "../random.h"
#include "tests/unit/suite.h"

enum { LEASE = 3000, THIRD = LEASE / 3, ASKS = 2000 };

static void a_joiner_has_none_until_others_must_have_heard_of_it(void **state)
{
	struct standing standing = {0};

	(void)state;
	assert_int_equal(standing_note(&standing, 10, LEASE, 3), 0);
	assert_int_equal(standing_note(&standing, 10 + THIRD, LEASE, 3), 0);
	assert_int_equal(standing_note(&standing, 9 + LEASE, LEASE, 3), 0);
	assert_int_equal(standing_note(&standing, 10 + LEASE, LEASE, 3), 3);
}

static void who_is_alone_has_all_at_once(void **state)
{
	struct standing standing = {0};

	(void)state;
	assert_int_equal(standing_note(&standing, 10, LEASE, 1), 1);
	assert_int_equal(standing_note(&standing, 20, LEASE, 2), 2);
}

static void who_returns_keeps_to_what_it_knew_or_to_more(void **state)
{
	struct standing standing = {0};

	(void)state;
	standing_note(&standing, 0, LEASE, 4);
	assert_int_equal(standing_note(&standing, LEASE, LEASE, 4), 4);
	uint64_t late = 2 * LEASE + 1; /* its own lease has ended */
	assert_int_equal(standing_note(&standing, late, LEASE, 1), 4);
	assert_int_equal(standing_note(&standing, late + THIRD, LEASE, 6), 6);
	assert_int_equal(standing_note(&standing, late + 2 * THIRD, LEASE, 2), 6);
	assert_int_equal(standing_note(&standing, late + LEASE, LEASE, 2), 6);
}

/* A store that was flushed knows only those that have renewed their leases since. */
static void fewer_count_when_they_were_fewer_for_a_lease(void **state)
{
	struct standing standing = {0};
	uint64_t now = LEASE;

	(void)state;
	standing_note(&standing, 0, LEASE, 3);
	assert_int_equal(standing_note(&standing, now, LEASE, 3), 3);
	assert_int_equal(standing_note(&standing, now + THIRD, LEASE, 1), 3);
	assert_int_equal(standing_note(&standing, now + 2 * THIRD, LEASE, 3), 3);
	now += LEASE;
	assert_int_equal(standing_note(&standing, now, LEASE, 1), 3);
	assert_int_equal(standing_note(&standing, now + THIRD, LEASE, 2), 3);
	assert_int_equal(standing_note(&standing, now + 2 * THIRD, LEASE, 1), 3);
	assert_int_equal(standing_note(&standing, now + LEASE, LEASE, 1), 2);
}

/* Of what was told within a lease, never less than the most; of two leases and a call, never more.
 */
static void random_counts_beside_a_list(void **state)
{
	struct random random = random_begin("standing");
	static unsigned counts[ASKS];
	static uint64_t at_ms[ASKS];

	(void)state;
	for (int run = 0; run < 200; run++) {
		struct standing standing = {0};
		uint64_t now = 1000;
		for (unsigned n = 0; n < 200; n++) {
			now += 1 + random_below(&random, THIRD);
			at_ms[n] = now;
			counts[n] = 1 + (unsigned)random_below(&random, 2 + n / 50 * 3);
			unsigned nodes = standing_note(&standing, now, LEASE, counts[n]);
			unsigned recent = 0, before = 0;
			for (unsigned i = 0; i <= n; i++) {
				if (at_ms[i] + LEASE > now && counts[i] > recent)
					recent = counts[i];
				if (at_ms[i] + 2 * LEASE + 2 * THIRD >= now && counts[i] > before)
					before = counts[i];
			}
			if (now - at_ms[0] >= 2 * LEASE) {
				assert_true(nodes >= recent);
				assert_true(nodes <= before);
			}
		}
	}
}

UNIT_SUITE(test_standing)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_joiner_has_none_until_others_must_have_heard_of_it),
		cmocka_unit_test(who_is_alone_has_all_at_once),
		cmocka_unit_test(who_returns_keeps_to_what_it_knew_or_to_more),
		cmocka_unit_test(fewer_count_when_they_were_fewer_for_a_lease),
		cmocka_unit_test(random_counts_beside_a_list),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
