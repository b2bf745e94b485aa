/* How many processors may be used: by the affinity mask, and by control groups that files in a
 * folder stand for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <errno.h>
#include <ftw.h>
#include <sched.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "base/processors.h"
#include "tests/unit/suite.h"

static char root[64];

static int make_root(void **state)
{
	(void)state;
	snprintf(root, sizeof(root), "/tmp/sluice-cpu-XXXXXX");
	return mkdtemp(root) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *about, int type, struct FTW *walk)
{
	(void)about;
	(void)type;
	(void)walk;
	return remove(path);
}

static int remove_root(void **state)
{
	(void)state;
	return nftw(root, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static void put(const char *path, const char *text)
{
	char whole[512];
	FILE *file;

	for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		snprintf(whole, sizeof(whole), "%s%.*s", root, (int)(slash - path), path);
		assert_true(mkdir(whole, 0700) == 0 || errno == EEXIST);
	}
	snprintf(whole, sizeof(whole), "%s%s", root, path);
	file = fopen(whole, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static unsigned in_mask(void)
{
	return processors_usable(NULL);
}

static unsigned least(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

#define MOUNT2(shown)                                                                              \
	"23 1 8:1 / / rw - ext4 /dev/sda rw\n31 23 0:28 " shown                                    \
	" /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n"

static void without_control_groups(void **state)
{
	(void)state;
	assert_true(in_mask() >= 1);
	assert_int_equal(processors_usable(root), in_mask());
	put("/proc/self/mountinfo", "23 1 8:1 / / rw - ext4 /dev/sda rw\n");
	put("/proc/self/cgroup", "0::/x\n");
	assert_int_equal(processors_usable(root), in_mask());
}

static void version_2(void **state)
{
	(void)state;
	put("/proc/self/mountinfo", MOUNT2("/"));
	put("/proc/self/cgroup", "0::/system.slice/sluice.service\n");
	put("/sys/fs/cgroup/system.slice/sluice.service/cpu.max", "max 100000\n");
	assert_int_equal(processors_usable(root), in_mask());
	put("/sys/fs/cgroup/system.slice/sluice.service/cpu.max", "100000 100000\n");
	assert_int_equal(processors_usable(root), 1);
	put("/sys/fs/cgroup/system.slice/sluice.service/cpu.max", "1000 100000\n");
	assert_int_equal(processors_usable(root), 1);
	/* A part counts as a whole. */
	put("/sys/fs/cgroup/system.slice/sluice.service/cpu.max", "100001 100000\n");
	assert_int_equal(processors_usable(root), least(2, in_mask()));
	put("/sys/fs/cgroup/system.slice/sluice.service/cpu.max", "99999999 100000\n");
	assert_int_equal(processors_usable(root), in_mask());
	/* What is above it counts as well. */
	put("/sys/fs/cgroup/system.slice/cpu.max", "50000 100000\n");
	assert_int_equal(processors_usable(root), 1);
	put("/sys/fs/cgroup/system.slice/cpu.max", "nonsense\n");
	assert_int_equal(processors_usable(root), in_mask());
}

/* In a container: its own group is all that it sees. */
static void namespaces(void **state)
{
	(void)state;
	put("/proc/self/mountinfo", MOUNT2("/"));
	put("/proc/self/cgroup", "0::/\n");
	put("/sys/fs/cgroup/cpu.max", "50000 100000\n");
	assert_int_equal(processors_usable(root), 1);
	/* The mount shows a part, without a namespace. */
	put("/proc/self/mountinfo", MOUNT2("/docker/abc"));
	put("/proc/self/cgroup", "0::/docker/abc\n");
	assert_int_equal(processors_usable(root), 1);
	put("/proc/self/cgroup", "0::/docker/abc/inner\n");
	put("/sys/fs/cgroup/cpu.max", "max 100000\n");
	put("/sys/fs/cgroup/inner/cpu.max", "50000 100000\n");
	assert_int_equal(processors_usable(root), 1);
	/* A group of which the mount shows nothing. */
	put("/proc/self/cgroup", "0::/../other\n");
	assert_int_equal(processors_usable(root), in_mask());
	put("/sys/fs/cgroup/cpu.max", "50000 100000\n");
	assert_int_equal(processors_usable(root), 1);
}

static void version_1(void **state)
{
	(void)state;
	put("/proc/self/mountinfo",
		"33 31 0:30 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
		"32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n");
	put("/proc/self/cgroup", "5:cpuset:/elsewhere\n4:cpu,cpuacct:/docker/abc\n0::/x\n");
	put("/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_period_us", "100000\n");
	put("/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "-1\n");
	assert_int_equal(processors_usable(root), in_mask());
	put("/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us", "20000\n");
	assert_int_equal(processors_usable(root), 1);
	put("/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_period_us", "0\n");
	assert_int_equal(processors_usable(root), in_mask());
}

static void the_affinity_mask(void **state)
{
	cpu_set_t before, one;

	(void)state;
	assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
	CPU_ZERO(&one);
	for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
		if (CPU_ISSET(i, &before))
			CPU_SET(i, &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	assert_int_equal(processors_usable(root), 1);
	assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
	assert_int_equal(processors_usable(root), (unsigned)CPU_COUNT(&before));
}

UNIT_SUITE(test_processors)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(without_control_groups, make_root, remove_root),
		cmocka_unit_test_setup_teardown(version_2, make_root, remove_root),
		cmocka_unit_test_setup_teardown(namespaces, make_root, remove_root),
		cmocka_unit_test_setup_teardown(version_1, make_root, remove_root),
		cmocka_unit_test_setup_teardown(the_affinity_mask, make_root, remove_root),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
