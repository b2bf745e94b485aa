/* See processors.h. */
#include "base/processors.h"

#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A line of /proc/self/mountinfo, or a path; longer ones are none of ours. */
enum { TEXT_BYTES = 4096, MOST_PROCESSORS = 1 << 16 };

/* ---- the affinity mask ---- */

static unsigned in_affinity_mask(void)
{
	/* The system wants room for all that it could have. */
	for (int room = 1024; room <= MOST_PROCESSORS; room *= 2) {
		cpu_set_t *mask = CPU_ALLOC(room);
		size_t size = CPU_ALLOC_SIZE(room);
		int count = 0;

		if (mask && sched_getaffinity(0, size, mask) == 0)
			count = CPU_COUNT_S(size, mask);
		CPU_FREE(mask);
		if (count > 0)
			return (unsigned)count;
	}
	return 1;
}

/* ---- control groups ---- */

struct hierarchy {
	bool unified;           /* version 2 */
	char mount[TEXT_BYTES]; /* where it is mounted; empty: nowhere */
	char root[TEXT_BYTES];  /* the group that is seen there */
};

static FILE *open_in(const char *root, const char *path)
{
	char whole[2 * TEXT_BYTES];
	int len = snprintf(whole, sizeof(whole), "%s%s", root, path);

	return len < 0 || (size_t)len >= sizeof(whole) ? NULL : fopen(whole, "re");
}

/* Is `word` in a list by commas? */
static bool has_word(const char *list, const char *word)
{
	size_t len = strlen(word);

	for (const char *at = list; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL)
		if (strncmp(at, word, len) == 0 && (at[len] == '\0' || at[len] == ','))
			return true;
	return false;
}

/* `36 35 98:0 /group /where options [more] - type source options` */
static bool read_mount(char *line, struct hierarchy *hierarchy)
{
	char *dash = strstr(line, " - "), type[64], options[TEXT_BYTES];

	if (!dash || sscanf(dash + 3, "%63s %*s %4095s", type, options) != 2)
		return false;
	if (strcmp(type, hierarchy->unified ? "cgroup2" : "cgroup") != 0)
		return false;
	if (!hierarchy->unified && !has_word(options, "cpu"))
		return false;
	return sscanf(line, "%*s %*s %*s %4095s %4095s", hierarchy->root, hierarchy->mount) == 2;
}

static bool find_mount(const char *root, struct hierarchy *hierarchy)
{
	FILE *file = open_in(root, "/proc/self/mountinfo");
	char line[2 * TEXT_BYTES];
	bool found = false;

	while (file && !found && fgets(line, sizeof(line), file))
		found = read_mount(line, hierarchy);
	if (file)
		fclose(file);
	return found;
}

/* `0::/group`, or `4:cpu,cpuacct:/group`: the group's path, in `line`. */
static char *read_group(char *line, bool unified)
{
	char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;

	if (!path)
		return NULL;
	*path++ = '\0';
	path[strcspn(path, "\n")] = '\0';
	list++;
	return (unified ? *list == '\0' : has_word(list, "cpu")) ? path : NULL;
}

static bool find_group(const char *root, bool unified, char *group)
{
	FILE *file = open_in(root, "/proc/self/cgroup");
	char line[TEXT_BYTES], *path = NULL;

	while (file && !path && fgets(line, sizeof(line), file))
		path = read_group(line, unified);
	if (path)
		memcpy(group, path, strlen(path) + 1);
	if (file)
		fclose(file);
	return path != NULL;
}

/* The folder of a group that is seen below `mount`, which shows `shown`. */
static bool find_folder(const struct hierarchy *hierarchy, const char *group, char *folder)
{
	size_t len = strlen(hierarchy->root);

	if (len == 1) /* all of it: "/" */
		len = 0;
	/* The group is of another namespace: the mount point is the nearest that is visible. */
	if (strncmp(group, hierarchy->root, len) != 0 || strstr(group, "/.."))
		group = "";
	else
		group += len;
	len = strlen(group);
	if (len > 0 && group[len - 1] == '/')
		len--;
	return snprintf(folder, TEXT_BYTES, "%s%.*s", hierarchy->mount, (int)len, group) <
	       TEXT_BYTES;
}

static bool read_line_of(const char *root, const char *folder, const char *name, char *line)
{
	char path[TEXT_BYTES + 64];
	FILE *file;
	bool good;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = open_in(root, path);
	good = file && fgets(line, 64, file);
	if (file)
		fclose(file);
	return good;
}

/* Processors that one group allows; UINT_MAX: all. */
static unsigned allowed_in(const char *root, const char *folder, bool unified)
{
	long long quota = 0, period = 0, most;
	char line[64];

	if (unified) {
		/* `max 100000` or `150000 100000` */
		if (!read_line_of(root, folder, "cpu.max", line) ||
			sscanf(line, "%lld %lld", &quota, &period) != 2)
			return UINT_MAX;
	} else {
		if (!read_line_of(root, folder, "cpu.cfs_quota_us", line) ||
			sscanf(line, "%lld", &quota) != 1 ||
			!read_line_of(root, folder, "cpu.cfs_period_us", line) ||
			sscanf(line, "%lld", &period) != 1)
			return UINT_MAX;
	}
	if (quota <= 0 || period <= 0)
		return UINT_MAX;
	most = quota / period + (quota % period > 0);
	return most > UINT_MAX ? UINT_MAX : (unsigned)most;
}

/* The least of a group and all that it is in. */
static unsigned allowed_by(const char *root, bool unified)
{
	static const struct hierarchy none = {0};
	struct hierarchy hierarchy = none;
	char group[TEXT_BYTES], folder[TEXT_BYTES];
	unsigned least = UINT_MAX;

	hierarchy.unified = unified;
	if (!find_mount(root, &hierarchy) || !find_group(root, unified, group) ||
		!find_folder(&hierarchy, group, folder))
		return UINT_MAX;
	for (;;) {
		unsigned allowed = allowed_in(root, folder, unified);
		char *slash = strrchr(folder, '/');

		if (allowed < least)
			least = allowed;
		if (!slash || (size_t)(slash - folder) < strlen(hierarchy.mount))
			return least;
		*slash = '\0';
	}
}

unsigned processors_usable(const char *root)
{
	unsigned count = in_affinity_mask(), allowed;

	for (int unified = 0; root && unified <= 1; unified++) {
		allowed = allowed_by(root, unified);
		if (allowed < count)
			count = allowed;
	}
	return count > 0 ? count : 1;
}
