/* Keys and overrides: what was put is found, by threads too, and is there after a restart, whole.
 */
#include "gate/roster.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <cmocka.h>

#include "../random.h"
#include "base/digest.h"
#include "tests/unit/suite.h"

#define NOW_S 100

static char folder[64];

static int make_folder(void **state)
{
	(void)state;
	snprintf(folder, sizeof(folder), "/tmp/sluice-roster-XXXXXX");
	return mkdtemp(folder) ? 0 : -1;
}

static const char *path_of(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return path;
}

static int remove_folder(void **state)
{
	(void)state;
	chmod(folder, 0700);
	unlink(path_of("roster"));
	unlink(path_of("roster.new"));
	unlink(path_of("roster.set-aside"));
	return rmdir(folder);
}

static bool folders_fail;

/* In the place of the C library's. */
int fsync(int fd)
{
	struct stat status;

	if (folders_fail && fstat(fd, &status) == 0 && S_ISDIR(status.st_mode)) {
		errno = EIO;
		return -1;
	}
	return (int)syscall(SYS_fsync, fd);
}

static struct roster *open_good(const char *in)
{
	char why[512];
	struct roster *roster = roster_open(in, NOW_S, why, sizeof(why));

	if (!roster || *why)
		fail_msg("%s", why);
	return roster;
}

static void put_key(struct roster *roster, const char *key, const char *plan)
{
	assert_int_equal(
		roster_put_key(roster, slice_of(key), roster_plan_number(roster, plan), NOW_S), 0);
}

static void expect_plan(const struct roster *roster, const char *key, const char *plan)
{
	const char *found = roster_plan_name(roster, roster_find_key(roster, slice_of(key)));

	if (!plan)
		assert_null(found);
	else if (!found || strcmp(found, plan) != 0)
		fail_msg("%s has plan %s, not %s", key, found ? found : "-", plan);
}

static void keys_are_kept(void **state)
{
	struct roster *roster = open_good(folder);

	(void)state;
	assert_false(roster_has_keys(roster));
	put_key(roster, "ann", "gold");
	put_key(roster, "bob", "silver");
	put_key(roster, "ann", "silver");
	put_key(roster, "odd key\xff%\x7e= x", "gold");
	put_key(roster, "gone", "gold");
	assert_int_equal(roster_put_key(roster, SLICE("gone"), ROSTER_PLAN_NONE, NOW_S), 0);
	assert_int_equal(roster_put_key(roster, SLICE("eve"), ROSTER_PLAN_REVOKED, NOW_S), 0);
	for (int round = 0; round < 2; round++) {
		expect_plan(roster, "ann", "silver");
		expect_plan(roster, "bob", "silver");
		expect_plan(roster, "odd key\xff%\x7e= x", "gold");
		expect_plan(roster, "gone", NULL);
		expect_plan(roster, "an", NULL);
		assert_int_equal(roster_find_key(roster, SLICE("eve")), ROSTER_PLAN_REVOKED);
		assert_int_equal(roster_find_key(roster, SLICE("")), ROSTER_PLAN_NONE);
		assert_true(roster_is_kept(roster));
		roster_close(roster);
		roster = open_good(folder);
	}
	roster_close(roster);
}

static void digests_find_their_keys(void **state)
{
	struct roster *roster = open_good(folder);
	char digest[DIGEST_TEXT_BYTES + 1] = "";

	(void)state;
	digest_text(SLICE("abc"), digest);
	assert_string_equal(digest, "sha256:ba7816bf8f01cfea414140de5dae2223"
				    "b00361a396177a9cb410ff61f20015ad");
	put_key(roster, digest, "gold");
	for (int round = 0; round < 2; round++) {
		expect_plan(roster, "abc", "gold");
		expect_plan(roster, "abd", NULL);
		expect_plan(roster, digest, NULL); /* who has the file has no key */
		assert_int_not_equal(roster_find_text(roster, slice_of(digest)), 0);
		roster_close(roster);
		roster = open_good(folder);
	}
	put_key(roster, "abc", "silver"); /* the key itself goes first */
	expect_plan(roster, "abc", "silver");
	roster_close(roster);
}

static void overrides_end(void **state)
{
	struct roster *roster = open_good(folder);
	const struct roster_override exempt = {ROSTER_EXEMPT, 0, 1000};
	const struct roster_override gold = {
		ROSTER_PLAN, roster_plan_number(roster, "gold"), UINT64_C(99999999999)};
	const struct roster_override none = {ROSTER_NO_OVERRIDE, 0, 0};

	(void)state;
	assert_int_equal(roster_put_override(roster, 7, &exempt, NOW_S), 0);
	assert_int_equal(roster_put_override(roster, UINT64_MAX, &gold, NOW_S), 0);
	assert_int_equal(roster_put_override(roster, 9, &gold, NOW_S), 0);
	assert_int_equal(roster_put_override(roster, 9, &none, NOW_S), 0);
	for (int round = 0; round < 2; round++) {
		assert_int_equal(roster_find_override(roster, 7, 999).kind, ROSTER_EXEMPT);
		assert_int_equal(roster_find_override(roster, 7, 1000).kind, ROSTER_NO_OVERRIDE);
		assert_int_equal(roster_find_override(roster, 8, 0).kind, ROSTER_NO_OVERRIDE);
		assert_int_equal(roster_find_override(roster, 9, 0).kind, ROSTER_NO_OVERRIDE);
		struct roster_override found = roster_find_override(roster, UINT64_MAX, 1);
		assert_int_equal(found.kind, ROSTER_PLAN);
		assert_int_equal(found.until_s, UINT64_C(99999999999));
		assert_string_equal(roster_plan_name(roster, found.plan), "gold");
		roster_close(roster);
		roster = open_good(folder);
	}
	roster_close(roster);
}

static void taken_out_and_over_is_not_in_force(void **state)
{
	struct roster *roster = open_good(NULL);
	const struct roster_override deny = {ROSTER_DENY, 0, 1000}, none = {0};

	(void)state;
	assert_false(roster_is_in_force(roster, 0));
	for (int round = 0; round < 2; round++) {
		put_key(roster, "ann", "gold");
		put_key(roster, "bob", "gold");
		assert_true(roster_is_in_force(roster, 0));
		roster_put_key(roster, SLICE("ann"), ROSTER_PLAN_NONE, NOW_S);
		assert_true(roster_is_in_force(roster, 0));
		roster_put_key(roster, SLICE("bob"), ROSTER_PLAN_NONE, NOW_S);
		assert_false(roster_is_in_force(roster, 0));
	}
	roster_put_key(roster, SLICE("bob"), ROSTER_PLAN_REVOKED, NOW_S);
	assert_true(roster_is_in_force(roster, 0));
	roster_put_key(roster, SLICE("bob"), ROSTER_PLAN_NONE, NOW_S);
	assert_int_equal(roster_put_override(roster, 7, &deny, NOW_S), 0);
	assert_true(roster_is_in_force(roster, 999));
	assert_false(roster_is_in_force(roster, 1000));
	assert_int_equal(roster_put_override(roster, 7, &none, NOW_S), 0);
	assert_false(roster_is_in_force(roster, 0));
	roster_close(roster);
}

/* What is over is not carried on for ever. */
static void overrides_that_are_over_leave_the_file(void **state)
{
	struct roster *roster = open_good(folder);
	struct roster_override soon = {ROSTER_DENY, 0, NOW_S + 10},
			       later = {ROSTER_DENY, 0, NOW_S + 20};
	char why[512], text[512];

	(void)state;
	assert_int_equal(roster_put_override(roster, 1, &soon, NOW_S), 0);
	assert_int_equal(roster_put_override(roster, 2, &later, NOW_S), 0);
	put_key(roster, "ann", "gold");
	assert_int_equal(roster_put_key(roster, SLICE("bob"), ROSTER_PLAN_REVOKED, NOW_S + 10), 0);
	roster_close(roster);
	FILE *file = fopen(path_of("roster"), "r");
	assert_non_null(file);
	text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
	fclose(file);
	assert_null(strstr(text, "override 0000000000000001"));
	assert_non_null(strstr(text, "override 0000000000000002"));
	assert_non_null(strstr(text, "key ann gold"));
	roster = roster_open(folder, NOW_S + 20, why, sizeof(why));
	assert_non_null(roster);
	assert_string_equal(why, "");
	assert_false(roster_has_overrides(roster));
	assert_true(roster_has_keys(roster));
	roster_close(roster);
}

static void write_text(const char *text, size_t len)
{
	FILE *out = fopen(path_of("roster"), "w");

	assert_non_null(out);
	fwrite(text, 1, len, out);
	fclose(out);
}

/* Cut short anywhere, or with a byte changed, a file is never taken for a whole one. */
static void damaged_files_are_set_aside(void **state)
{
	struct roster *roster = open_good(folder);
	struct roster_override deny = {ROSTER_DENY, 0, 12345};
	char text[512], why[512];

	(void)state;
	put_key(roster, "ann", "gold");
	assert_int_equal(roster_put_override(roster, 0xabc, &deny, NOW_S), 0);
	roster_close(roster);
	FILE *file = fopen(path_of("roster"), "r");
	assert_non_null(file);
	size_t len = fread(text, 1, sizeof(text), file);
	fclose(file);
	for (size_t cut = 0; cut < len; cut++) {
		write_text(text, cut);
		roster = roster_open(folder, NOW_S, why, sizeof(why));
		assert_non_null(roster);
		assert_non_null(strstr(why, "not a line of a roster"));
		assert_int_equal(access(path_of("roster.set-aside"), F_OK), 0);
		assert_int_not_equal(access(path_of("roster"), F_OK), 0);
		roster_close(roster);
	}
	const char *const bad[] = {"sluice roster x\nend\n", "sluice roster 1\nkey ann\nend\n",
		"sluice roster 1\nkey %zz gold\nend\n", "sluice roster 1\nkey %4 gold\nend\n",
		"sluice roster 1\nkey a gold x\nend\n", "sluice roster 1\nwho a gold\nend\n",
		"sluice roster 1\noverride 12 5 deny\nend\n",
		"sluice roster 1\noverride 0000000000000abc x deny\nend\n",
		"sluice roster 1\noverride 0000000000000abc 5 allow\nend\n",
		"sluice roster 1\noverride 0000000000000abc 5 plan\nend\n",
		"sluice roster 1\n\nend\n"};
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		write_text(bad[i], strlen(bad[i]));
		roster = roster_open(folder, NOW_S, why, sizeof(why));
		assert_non_null(roster);
		if (!*why)
			fail_msg("taken: %s", bad[i]);
		roster_close(roster);
	}
}

static void a_file_of_another_version_stays(void **state)
{
	static const char text[] = "sluice roster 2\nkey ann gold until 2030\nend\n";
	char why[512], kept[512];

	(void)state;
	write_text(text, strlen(text));
	assert_null(roster_open(folder, NOW_S, why, sizeof(why)));
	assert_non_null(strstr(
		why, "/roster: it has version 2, expected 1; none of its entries is in force"));
	FILE *file = fopen(path_of("roster"), "r");
	assert_non_null(file);
	kept[fread(kept, 1, sizeof(kept) - 1, file)] = '\0';
	fclose(file);
	assert_string_equal(kept, text);
}

/* What can't be written has not happened. */
static void unwritten_changes_nothing(void **state)
{
	struct roster *roster = open_good(folder);

	(void)state;
	put_key(roster, "ann", "gold");
	/* A folder in the place of the new file: nobody can write it, root included. */
	assert_int_equal(mkdir(path_of("roster.new"), 0700), 0);
	assert_int_not_equal(roster_put_key(roster, SLICE("ann"), ROSTER_PLAN_REVOKED, NOW_S), 0);
	assert_int_not_equal(
		roster_put_key(roster, SLICE("new"), roster_plan_number(roster, "gold"), NOW_S), 0);
	expect_plan(roster, "ann", "gold");
	expect_plan(roster, "new", NULL);
	assert_int_equal(rmdir(path_of("roster.new")), 0);
	put_key(roster, "new", "gold");
	roster_close(roster);
	roster = open_good(folder);
	expect_plan(roster, "ann", "gold");
	expect_plan(roster, "new", "gold");
	roster_close(roster);
}

enum { RACE_KEYS = 5000 };

struct race {
	struct roster *roster;
	atomic_uint put; /* keys below have been */
	atomic_bool over;
};

static void *look(void *arg)
{
	struct race *race = arg;
	struct random random = {1};
	char key[32];

	while (!atomic_load(&race->over)) {
		unsigned put = atomic_load(&race->put);
		if (put == 0)
			continue;
		size_t number = random_below(&random, put);
		snprintf(key, sizeof(key), "key %zu", number);
		assert_int_not_equal(roster_find_key(race->roster, slice_of(key)), 0);
		assert_int_equal(roster_find_override(race->roster, number, 0).kind, ROSTER_DENY);
	}
	return NULL;
}

static void looked_up_while_growing(void **state)
{
	struct race race = {.roster = open_good(NULL)};
	pthread_t threads[2];
	char key[32];

	(void)state;
	assert_false(roster_is_kept(race.roster));
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, look, &race), 0);
	for (unsigned i = 0; i < RACE_KEYS; i++) {
		const struct roster_override deny = {ROSTER_DENY, 0, 1};
		snprintf(key, sizeof(key), "key %u", i);
		put_key(race.roster, key, i % 2 ? "gold" : "silver");
		assert_int_equal(roster_put_override(race.roster, i, &deny, NOW_S), 0);
		atomic_store(&race.put, i + 1);
	}
	atomic_store(&race.over, true);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
	roster_close(race.roster);
}

/* The file is there when its folder can't be synced: the change is made, and is not reported as one
 * that failed. */
static void a_written_change_is_in_force(void **state)
{
	struct roster *roster = open_good(folder);

	(void)state;
	folders_fail = true;
	put_key(roster, "one", "gold");
	folders_fail = false;
	expect_plan(roster, "one", "gold");
	roster_close(roster);
	roster = open_good(folder);
	expect_plan(roster, "one", "gold");
	roster_close(roster);
}

UNIT_SUITE(test_roster)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(keys_are_kept, make_folder, remove_folder),
		cmocka_unit_test_setup_teardown(
			digests_find_their_keys, make_folder, remove_folder),
		cmocka_unit_test_setup_teardown(overrides_end, make_folder, remove_folder),
		cmocka_unit_test_setup_teardown(
			overrides_that_are_over_leave_the_file, make_folder, remove_folder),
		cmocka_unit_test_setup_teardown(
			damaged_files_are_set_aside, make_folder, remove_folder),
		cmocka_unit_test_setup_teardown(
			a_file_of_another_version_stays, make_folder, remove_folder),
		cmocka_unit_test_setup_teardown(
			unwritten_changes_nothing, make_folder, remove_folder),
		cmocka_unit_test_setup_teardown(
			a_written_change_is_in_force, make_folder, remove_folder),
		cmocka_unit_test(taken_out_and_over_is_not_in_force),
		cmocka_unit_test(looked_up_while_growing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
