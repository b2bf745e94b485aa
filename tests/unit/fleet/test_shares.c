/* A node's shares: until when they are held, and of a quota that changes. */
#include "fleet/split.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/unit/suite.h"

static struct shares *make(void)
{
	struct shares *shares = malloc(sizeof(*shares));

	assert_non_null(shares);
	shares_init(shares);
	assert_true(shares_add(shares, 3, "it", 100));
	assert_true(shares_add(shares, 3, "it", 100));
	return shares;
}

static void drop(struct shares *shares)
{
	shares_end(shares);
	free(shares);
}

static void a_share_is_held_until_its_time(void **state)
{
	struct shares *shares = make();
	struct share share = {.kind = SHARE_UNITS, .units = 40, .until_ns = 1000, .grows_ns = 700};

	(void)state;
	assert_int_equal(shares_read(shares, 3, 100, 1).kind, SHARE_NONE);
	shares_set(shares, 3, &share, 2);
	assert_int_equal(shares_read(shares, 3, 100, 999).kind, SHARE_UNITS);
	assert_int_equal(shares_read(shares, 3, 100, 999).units, 40);
	assert_int_equal(shares_read(shares, 3, 100, 999).grows_ns, 700);
	assert_int_equal(shares_read(shares, 3, 100, 1000).kind, SHARE_NONE);
	share.kind = SHARE_EXACT;
	shares_set(shares, 3, &share, 200);
	assert_int_equal(shares_held(shares, 3, 999).kind, SHARE_EXACT);
	assert_int_equal(shares_held(shares, 3, 999).units, 0);
	share.kind = SHARE_NONE;
	shares_set(shares, 3, &share, 0);
	assert_int_equal(shares_held(shares, 3, 1).kind, SHARE_NONE);
	assert_int_equal(shares_read(shares, 4, 100, 1).kind, SHARE_NONE);
	assert_int_equal(shares_read(shares, SHARES_MOST, 100, 1).kind, SHARE_NONE);
	assert_false(shares_add(shares, SHARES_MOST, "beyond", 1));
	drop(shares);
}

static void a_smaller_quota_has_a_smaller_share_at_once(void **state)
{
	struct shares *shares = make();
	struct share share = {.kind = SHARE_UNITS, .units = 33, .until_ns = 1000};

	(void)state;
	shares_set(shares, 3, &share, 3);
	assert_int_equal(shares_read(shares, 3, 10, 1).units, 3);
	assert_int_equal(shares_read(shares, 3, 200, 1).units, 33);
	shares_scale(shares, 3, 10);
	assert_int_equal(shares_held(shares, 3, 1).units, 3);
	assert_int_equal(shares_read(shares, 3, 100, 1).units, 3);
	shares_scale(shares, 3, 1000);
	assert_int_equal(shares_held(shares, 3, 1).units, 3);
	assert_int_equal(shares_read(shares, 3, 10, 1).units, 0);
	drop(shares);
}

static void the_rest_of_the_quota_is_reserved(void **state)
{
	struct shares *shares = make();
	struct share share = {.kind = SHARE_UNITS, .units = 34, .until_ns = 1000, .grows_ns = 600};
	struct rule rule = {.quota = 100};
	struct reserve reserve;

	(void)state;
	shares_set(shares, 3, &share, 3);
	assert_int_equal(split_judge(shares, 3, &rule, 500, &reserve), SHARE_UNITS);
	assert_int_equal(reserve.units, 66);
	assert_int_equal(reserve.falls_ns, 100);
	assert_int_equal(split_judge(shares, 3, &rule, 600, &reserve), SHARE_UNITS);
	assert_int_equal(reserve.falls_ns, 400);
	assert_int_equal(split_judge(shares, 3, &rule, 1000, &reserve), SHARE_NONE);
	drop(shares);
}

/* ---- a reader while shares change ------------------------------------------------------------ */

struct reading {
	struct shares *shares;
	atomic_bool ends;
	unsigned reads, wrong;
};

/* Shares of an odd time are of 900 of 1000, those of an even one of 9 of 10. */
static void *read_shares(void *arg)
{
	struct reading *reading = arg;

	while (!atomic_load(&reading->ends)) {
		struct share share = shares_read(reading->shares, 3, 10, 1);
		reading->reads++;
		reading->wrong += share.units > 9;
	}
	return NULL;
}

static void a_reader_never_sees_more_than_there_was(void **state)
{
	struct reading reading = {.shares = make()};
	struct share share = {.kind = SHARE_UNITS, .until_ns = 1000};
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, read_shares, &reading), 0);
	for (int i = 0; i < 300000; i++) {
		shares_scale(reading.shares, 3, i % 2 ? 1000 : 10);
		share.units = i % 2 ? 900 : 9;
		shares_set(reading.shares, 3, &share, 3);
	}
	atomic_store(&reading.ends, true);
	pthread_join(thread, NULL);
	printf("# %u reads\n", reading.reads);
	assert_int_equal(reading.wrong, 0);
	drop(reading.shares);
}

UNIT_SUITE(test_shares)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_share_is_held_until_its_time),
		cmocka_unit_test(a_smaller_quota_has_a_smaller_share_at_once),
		cmocka_unit_test(the_rest_of_the_quota_is_reserved),
		cmocka_unit_test(a_reader_never_sees_more_than_there_was),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
