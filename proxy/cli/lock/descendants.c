#include "cli/lock/descendants.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

/* Of trees that are deeper than this the rest is left out. */
enum { DEEPEST = 200 };

static bool signal_children(pid_t pid, int number, unsigned depth);

/* Those that this thread of a process has made: /proc/PID/task/TID/children. */
static bool signal_children_of(int tasks, const char *thread, int number, unsigned depth)
{
	char path[300];
	long child;
	bool has_any = false;

	snprintf(path, sizeof(path), "%s/children", thread);
	int fd = openat(tasks, path, O_RDONLY | O_CLOEXEC);
	FILE *children = fd >= 0 ? fdopen(fd, "r") : NULL;
	if (!children) {
		if (fd >= 0)
			close(fd);
		return false;
	}
	while (fscanf(children, "%ld", &child) == 1) {
		has_any |= kill((pid_t)child, number) == 0;
		has_any |= signal_children((pid_t)child, number, depth + 1);
	}
	fclose(children);
	return has_any;
}

static bool signal_children(pid_t pid, int number, unsigned depth)
{
	char path[64];
	struct dirent *entry;
	bool has_any = false;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	DIR *tasks = depth < DEEPEST ? opendir(path) : NULL;
	if (!tasks)
		return false;
	while ((entry = readdir(tasks)) != NULL) {
		if (entry->d_name[0] != '.')
			has_any |= signal_children_of(dirfd(tasks), entry->d_name, number, depth);
	}
	closedir(tasks);
	return has_any;
}

bool descendants_signal(int number)
{
	return signal_children(getpid(), number, 0);
}

/* Only when this process has no child left are they all gone: until its parent is reaped, the child
 * of one that was killed is nobody's that could be asked about. */
void descendants_kill(void)
{
	for (int i = 0; i < 100; i++) {
		pid_t pid;

		descendants_signal(SIGKILL);
		while ((pid = waitpid(-1, NULL, WNOHANG)) > 0)
			;
		if (pid < 0 && errno == ECHILD)
			return;
		poll(NULL, 0, i < 10 ? 1 : 10);
	}
}
