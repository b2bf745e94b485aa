#include "cli/lock/lock_terminal.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* After so many looks one that was to stop will not: its group is orphaned, say. */
enum { LOOKS = 10 };

void lock_terminal_open(struct lock_terminal *terminal)
{
	*terminal = (struct lock_terminal){.fd = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC),
		.lock = getppid(),
		.group = getpgrp()};
}

/* From the background, where SIGTTOU would stop us. */
static bool set_foreground(const struct lock_terminal *terminal, pid_t group)
{
	sigset_t output, before;

	sigemptyset(&output);
	sigaddset(&output, SIGTTOU);
	sigprocmask(SIG_BLOCK, &output, &before);
	bool is_set = tcsetpgrp(terminal->fd, group) == 0;
	sigprocmask(SIG_SETMASK, &before, NULL);
	return is_set;
}

/* False: it is another's. */
static bool give(struct lock_terminal *terminal, pid_t command)
{
	terminal->is_given =
		tcgetpgrp(terminal->fd) == terminal->group && set_foreground(terminal, command);
	return terminal->is_given;
}

void lock_terminal_take_back(struct lock_terminal *terminal)
{
	if (terminal->is_given)
		set_foreground(terminal, terminal->group);
	terminal->is_given = false;
}

bool lock_terminal_stopped(struct lock_terminal *terminal, pid_t command, int number)
{
	bool is_by_terminal = number == SIGTTIN || number == SIGTTOU || number == SIGTSTP;

	if (terminal->fd < 0 || !is_by_terminal)
		return false;
	if (number != SIGTSTP && give(terminal, command))
		return true;
	lock_terminal_take_back(terminal);
	terminal->is_suspended = true;
	terminal->was_stopped = false;
	terminal->looks = 0;
	kill(-terminal->group, number);
	return false;
}

static bool is_stopped(pid_t pid)
{
	char path[64], line[512] = "";

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	FILE *stat = fopen(path, "re");
	if (!stat)
		return false;
	bool is_read = fgets(line, sizeof(line), stat) != NULL;
	fclose(stat);
	const char *state = is_read ? strrchr(line, ')') : NULL;
	return state && strncmp(state, ") T", 3) == 0;
}

bool lock_terminal_resumes(struct lock_terminal *terminal, pid_t command)
{
	bool stands_still = is_stopped(terminal->lock);

	terminal->was_stopped |= stands_still;
	if (stands_still || (!terminal->was_stopped && ++terminal->looks < LOOKS))
		return false;
	terminal->is_suspended = false;
	give(terminal, command);
	return true;
}
