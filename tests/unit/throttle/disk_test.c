/*
 * Disks that are full, and folders that can't be written to: real ones, a small tmpfs in a mount
 * namespace of this process. The table says so when it is opened or changed, in words, leaves
 * nothing behind, and never dies of it (SIGBUS) later. Where namespaces aren't allowed all of it is
 * skipped.
 */
#include "fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/suite.h"

#define CALLERS    3840
#define TABLE_FILE "throttle.table"

static char folder[] = "throttle-disk-XXXXXX";
static bool is_root; /* a real one, not only of a user namespace */

/* ---- the disk -------------------------------------------------------------------------------- */

static bool write_line(const char *path, const char *line)
{
	int file = open(path, O_WRONLY);
	bool ok = file >= 0 && write(file, line, strlen(line)) == (ssize_t)strlen(line);

	if (file >= 0)
		close(file);
	return ok;
}

/* NULL, or why not. */
static const char *enter_namespace(void)
{
	char map[64];
	unsigned user = geteuid(), group = getegid();

	is_root = user == 0 && unshare(CLONE_NEWNS) == 0;
	if (!is_root) {
		if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
			return "namespaces are not allowed here";
		snprintf(map, sizeof(map), "0 %u 1", user);
		if (!write_line("/proc/self/uid_map", map) ||
			!write_line("/proc/self/setgroups", "deny"))
			return "a user namespace can't be set up here";
		snprintf(map, sizeof(map), "0 %u 1", group);
		if (!write_line("/proc/self/gid_map", map))
			return "a user namespace can't be set up here";
	}
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
		return "mounts can't be made private here";
	return NULL;
}

static int mount_disk(size_t bytes)
{
	char options[64];

	snprintf(options, sizeof(options), "size=%zu,mode=755", bytes);
	return mount("none", folder, "tmpfs", 0, options);
}

static int unmount_disk(void **state)
{
	(void)state;
	return umount2(folder, MNT_DETACH);
}

/* A file of whatever there still is room for. */
static void fill_disk(void)
{
	static const char block[4096];
	char path[64];
	int file;

	snprintf(path, sizeof(path), "%s/filler", folder);
	file = open(path, O_WRONLY | O_CREAT, 0600);
	assert_true(file >= 0);
	while (write(file, block, sizeof(block)) > 0)
		;
	assert_int_equal(errno, ENOSPC);
	close(file);
}

static bool is_there(const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	return access(path, F_OK) == 0;
}

/* ---- the table ------------------------------------------------------------------------------- */

static struct throttle_table *open_here(bool memory_if_unwritable, struct throttle_report *report)
{
	struct throttle_limit limit = ring("l", 20, 100 * SECOND);
	struct throttle_table_options options = {.folder = folder,
		.callers = CALLERS,
		.now_ns = START,
		.memory_if_unwritable = memory_if_unwritable};
	struct throttle_table *t = throttle_table_open(&options, &limit, 1, report);

	if (t == NULL)
		print_message("# %s\n", report->text);
	return t;
}

static size_t table_bytes(void)
{
	struct throttle_limit limit = ring("l", 20, 100 * SECOND);
	struct throttle_table *t = open_table(NULL, CALLERS, &limit, 1);
	struct throttle_counters counters;

	throttle_table_counters(t, 0, &counters);
	throttle_table_close(t);
	return (size_t)counters.bytes + 65536; /* header, tallies, and tmpfs's own */
}

/* Every page of it is written to. */
static void use_all(struct throttle_table *t)
{
	for (uint64_t caller = 0; caller < 2 * CALLERS; caller++)
		take_one(t, caller, 1, START + caller, NULL);
}

/* It can't be opened for this reason; and in memory only, if that is allowed. */
static void expect_unusable(int reason)
{
	struct throttle_report report;
	struct throttle_table *t = open_here(false, &report);

	assert_null(t);
	assert_int_equal(errno, reason);
	assert_int_equal(report.found, THROTTLE_FOUND_UNUSABLE);
	assert_non_null(strstr(report.text, strerror(reason)));
	t = open_here(true, &report);
	assert_non_null(t);
	assert_int_equal(report.found, THROTTLE_FOUND_UNUSABLE);
	assert_non_null(strstr(report.text, strerror(reason)));
	use_all(t);
	throttle_table_close(t);
	assert_false(is_there("throttle.next"));
}

static void test_full_from_the_start(void **state)
{
	(void)state;
	assert_int_equal(mount_disk(65536), 0);
	expect_unusable(ENOSPC);
	assert_false(is_there(TABLE_FILE));
}

/* Its blocks are its own: what else fills the disk later is no matter. */
static void test_full_later(void **state)
{
	struct throttle_limit larger = ring("l", 30, 100 * SECOND);
	struct throttle_report report;
	struct throttle_table *t;
	struct throttle_outcome o;

	(void)state;
	assert_int_equal(mount_disk(table_bytes() * 3 / 2), 0);
	t = open_here(false, &report);
	assert_non_null(t);
	fill_disk();
	use_all(t);
	/* There is no room for another table: nothing changes, and all continues. */
	assert_int_equal(
		throttle_table_apply(t, &larger, 1, 10 * CALLERS, START + SECOND, &report), -1);
	assert_int_equal(errno, ENOSPC);
	assert_non_null(strstr(report.text, strerror(ENOSPC)));
	assert_false(is_there("throttle.next"));
	assert_true(take_one(t, 1, 1, START + SECOND, &o));
	assert_int_equal(o.quota, 20);
	assert_int_equal(o.remaining, 18);
	throttle_table_close(t);
	t = open_here(false, &report);
	assert_non_null(t);
	assert_int_equal(report.found, THROTTLE_FOUND_TABLE);
	assert_false(take_one(t, 1, 19, START + SECOND, NULL));
	throttle_table_close(t);
}

/* A file that was copied without its empty blocks has them made when it is opened, or isn't used.
 */
static void test_full_and_holes(void **state)
{
	struct throttle_report report;
	struct throttle_table *t;
	char path[64];
	int file;

	(void)state;
	assert_int_equal(mount_disk(table_bytes() * 3 / 2), 0);
	t = open_here(false, &report);
	assert_non_null(t);
	throttle_table_close(t);
	snprintf(path, sizeof(path), "%s/" TABLE_FILE, folder);
	file = open(path, O_RDWR);
	assert_int_equal(
		fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 32768, 262144), 0);
	close(file);
	t = open_here(false, &report); /* there is room for them yet */
	assert_non_null(t);
	throttle_table_close(t);
	file = open(path, O_RDWR);
	assert_int_equal(
		fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 32768, 262144), 0);
	close(file);
	fill_disk();
	expect_unusable(ENOSPC);
}

static void test_read_only(void **state)
{
	(void)state;
	assert_int_equal(mount_disk(table_bytes() * 2), 0);
	assert_int_equal(mount("none", folder, "tmpfs", MS_REMOUNT | MS_RDONLY, NULL), 0);
	expect_unusable(EROFS);
}

/* A folder of somebody else's. */
static void test_no_permission(void **state)
{
	int status;
	pid_t pid;

	(void)state;
	assert_int_equal(mount_disk(table_bytes() * 2), 0);
	if (!is_root) {
		print_message("# it takes a second user: not tried here\n");
		return;
	}
	pid = fork();
	if (pid == 0) {
		struct throttle_report report;
		struct throttle_table *t;
		bool ok;

		if (seteuid(65534) != 0)
			_exit(2);
		t = open_here(false, &report);
		ok = t == NULL && errno == EACCES && strstr(report.text, strerror(EACCES)) != NULL;
		t = open_here(true, &report);
		_exit(ok && t != NULL && report.found == THROTTLE_FOUND_UNUSABLE ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

UNIT_SUITE(disk_test)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_full_from_the_start, unmount_disk),
		cmocka_unit_test_teardown(test_full_later, unmount_disk),
		cmocka_unit_test_teardown(test_full_and_holes, unmount_disk),
		cmocka_unit_test_teardown(test_read_only, unmount_disk),
		cmocka_unit_test_teardown(test_no_permission, unmount_disk),
	};
	const char *why = enter_namespace();
	int failed;

	if (why != NULL || mkdtemp(folder) == NULL) {
		printf("1..0 # SKIP %s\n", why != NULL ? why : "no folder for the disk");
		return 0;
	}
	if (mount_disk(65536) != 0 || unmount_disk(NULL) != 0) {
		printf("1..0 # SKIP a tmpfs can't be mounted here\n");
		rmdir(folder);
		return 0;
	}
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	rmdir(folder);
	return failed;
}
