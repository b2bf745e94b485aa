#include "cli/lock/lock_keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/lock/descendants.h"

/* ---- lock terminal -------------------------------------------------------------------------- */

/*
 * The terminal of `sluice lock` and its command.
 *
 * The command has a process group of its own, and a terminal stops what is not its foreground group
 * when that reads it or sets it. So the group gets the terminal when it first asks for it; a
 * command that does not leaves ^C and ^Z to the group of `sluice lock`, a script, say. What the
 * user stops, or would run in the background, is stopped together with `sluice lock`, and continues
 * with it.
 */

struct lock_terminal {
	int fd;            /* -1: there is none */
	pid_t lock, group; /* `sluice lock`, and its process group */
	bool is_given;     /* to the command's group */
	bool is_suspended; /* `sluice lock` was told to stop together with the command */
	bool was_stopped;  /* since then: it was seen to stand still */
	unsigned looks;    /* since then */
};

/* A look at a suspended `sluice lock` is due after so many milliseconds. */
enum { LOCK_TERMINAL_LOOK_MS = 100 };

/* After so many looks one that was to stop will not: its group is orphaned, say. */
enum { LOOKS = 10 };

/* In the keeper, which is still of the group of `sluice lock`. */
static void lock_terminal_open(struct lock_terminal *terminal)
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

/* The command has ended. */
static void lock_terminal_take_back(struct lock_terminal *terminal)
{
	if (terminal->is_given)
		set_foreground(terminal, terminal->group);
	terminal->is_given = false;
}

/* The signal has stopped the command, and not by us. True: it is to continue (SIGCONT). */
static bool lock_terminal_stopped(struct lock_terminal *terminal, pid_t command, int number)
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

/* While it is suspended. True: `sluice lock` continues, and so may the command. */
static bool lock_terminal_resumes(struct lock_terminal *terminal, pid_t command)
{
	bool stands_still = is_stopped(terminal->lock);

	terminal->was_stopped |= stands_still;
	if (stands_still || (!terminal->was_stopped && ++terminal->looks < LOOKS))
		return false;
	terminal->is_suspended = false;
	give(terminal, command);
	return true;
}

/* ---- lock keeper ---------------------------------------------------------------------------- */

enum { FREEZE_LOOKS = 3, FREEZE_AGAIN_MS = 10 };

enum keeper_state { KEEPER_IDLE, KEEPER_RUNNING, KEEPER_FROZEN, KEEPER_ENDING };

struct keeper {
	char **command;
	int orders, children; /* descriptors; children: of SIGCHLD */
	sigset_t mask;        /* of the command */
	enum keeper_state state;
	pid_t pid;         /* of the command, and of its process group */
	bool stands_still; /* FROZEN: the command has been seen stopped since */
	bool has_ended;    /* the command */
	int status;        /* then */
	uint64_t until_ns; /* RUNNING: it is frozen then; ENDING: killed */
	struct lock_terminal terminal;
};

static void report(const struct keeper *keeper, enum keeper_report_kind kind, int64_t number)
{
	struct keeper_report report = {.kind = kind, .number = number};
	ssize_t sent = send(keeper->orders, &report, sizeof(report), MSG_NOSIGNAL);

	(void)sent; /* nobody is there: that is seen at the next read */
}

/* ---- the command ----------------------------------------------------------------------------- */

/* In the command's process. Returns only when it can't be executed. */
static void execute(const struct keeper *keeper, const struct keeper_order *order, pid_t parent)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, order->number);
	setpgid(0, 0);
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent ||
		setenv(order->session[0] ? "SLUICE_FENCE" : "SLUICE_SLOT", text, 1) != 0 ||
		(order->session[0] && setenv("SLUICE_SESSION", order->session, 1) != 0))
		return;
	sigprocmask(SIG_SETMASK, &keeper->mask, NULL);
	execvp(keeper->command[0], keeper->command);
}

/* Returns 0 when the command is executed, or an errno value. */
static int start_command(struct keeper *keeper, const struct keeper_order *order)
{
	pid_t parent = getpid();
	int ends[2], failure = 0;

	if (pipe2(ends, O_CLOEXEC) != 0)
		return errno;
	keeper->pid = fork();
	if (keeper->pid == 0) {
		execute(keeper, order, parent);
		failure = errno ? errno : EIO;
		_exit(write(ends[1], &failure, sizeof(failure)) == sizeof(failure) ? 127 : 126);
	}
	int error = keeper->pid < 0 ? errno : 0;
	close(ends[1]);
	if (error == 0)
		setpgid(keeper->pid, keeper->pid);
	while (error == 0 && read(ends[0], &failure, sizeof(failure)) < 0 && errno == EINTR)
		;
	close(ends[0]);
	return error ? error : failure;
}

/* Standard input and output are the command's alone: a reader of what it writes sees its end. */
static void leave_files(void)
{
	int none = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int fd = 0; none >= 0 && fd <= 2; fd++)
		dup2(none, fd);
	if (none > 2)
		close(none);
}

/* Not by a lease that is over by now: with a later one, then. */
static void run_command(struct keeper *keeper, const struct keeper_order *order)
{
	if (clock_boot_ns() >= order->until_ns)
		return;
	int error = start_command(keeper, order);

	if (error) {
		report(keeper, KEEPER_FAILED, error);
		_exit(0);
	}
	leave_files();
	keeper->state = KEEPER_RUNNING;
	keeper->until_ns = order->until_ns;
	report(keeper, KEEPER_STARTED, keeper->pid);
}

static void send_signal(const struct keeper *keeper, int number)
{
	if (keeper->state != KEEPER_IDLE)
		kill(-keeper->pid, number);
}

/* Not only its group: also what has left that works under the lock. What a process begins while it
 * is being stopped is found by the second look. */
static void freeze(struct keeper *keeper)
{
	keeper->state = KEEPER_FROZEN;
	for (int i = 0; i < FREEZE_LOOKS; i++) {
		send_signal(keeper, SIGSTOP);
		descendants_signal(SIGSTOP);
		poll(NULL, 0, 1);
	}
	keeper->stands_still = is_stopped(keeper->pid);
}

static void reap(struct keeper *keeper)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED)) > 0) {
		if (pid != keeper->pid)
			continue;
		if (WIFCONTINUED(status)) {
			/* by somebody else: a lock around this one, with its own command */
			if (keeper->state == KEEPER_FROZEN)
				freeze(keeper);
			continue;
		}
		if (WIFSTOPPED(status)) {
			if (keeper->state == KEEPER_RUNNING &&
				lock_terminal_stopped(
					&keeper->terminal, keeper->pid, WSTOPSIG(status)))
				send_signal(keeper, SIGCONT);
			continue;
		}
		keeper->has_ended = true;
		keeper->status = status;
		lock_terminal_take_back(&keeper->terminal);
	}
}

/* Until none is left, for a second at most: one that waits for a disk dies when that answers. */
static void kill_all(struct keeper *keeper)
{
	for (int i = 0; i < 100; i++) {
		send_signal(keeper, SIGKILL);
		bool has_any = descendants_signal(SIGKILL);
		reap(keeper);
		if (keeper->has_ended && !has_any && kill(-keeper->pid, 0) != 0)
			return;
		poll(NULL, 0, i < 10 ? 1 : 10);
	}
}

static void finish(struct keeper *keeper)
{
	kill_all(keeper);
	report(keeper, KEEPER_ENDED, keeper->has_ended ? keeper->status : SIGKILL);
	_exit(0);
}

/* ---- what happens ---------------------------------------------------------------------------- */

/* The command has not begun: it will not, as if this signal had ended it. */
static void end_idle(const struct keeper *keeper, int number)
{
	report(keeper, KEEPER_ENDED, number);
	_exit(0);
}

static void live_on(struct keeper *keeper, const struct keeper_order *order)
{
	if (keeper->state == KEEPER_IDLE) {
		run_command(keeper, order);
		return;
	}
	if (keeper->state == KEEPER_ENDING)
		return;
	keeper->until_ns = order->until_ns;
	/* An answer that was read late may be of a lease that is over by now. */
	if (keeper->state == KEEPER_FROZEN && clock_boot_ns() < order->until_ns) {
		keeper->state = KEEPER_RUNNING;
		descendants_signal(SIGCONT);
	}
}

static void take_order(struct keeper *keeper, const struct keeper_order *order)
{
	if (keeper->state == KEEPER_IDLE && order->kind == KEEPER_SIGNAL && order->number > 0)
		end_idle(keeper, (int)order->number);
	if (keeper->state == KEEPER_IDLE && order->kind == KEEPER_END)
		end_idle(keeper, SIGTERM);
	switch ((enum keeper_order_kind)order->kind) {
	case KEEPER_RUN:
	case KEEPER_LIVE:
		live_on(keeper, order);
		break;
	case KEEPER_SIGNAL:
		send_signal(keeper, (int)order->number);
		break;
	case KEEPER_END:
		keeper->state = KEEPER_ENDING;
		keeper->until_ns = clock_boot_ns() + order->number * CLOCK_NS_PER_MS;
		send_signal(keeper, SIGTERM);
		send_signal(keeper, SIGCONT);
		break;
	}
}

static void read_order(struct keeper *keeper)
{
	struct keeper_order order;
	ssize_t size = recv(keeper->orders, &order, sizeof(order), MSG_DONTWAIT);

	if (size == sizeof(order)) {
		take_order(keeper, &order);
	} else if (size >= 0 || (errno != EAGAIN && errno != EINTR)) {
		if (keeper->state != KEEPER_IDLE)
			kill_all(keeper);
		_exit(0);
	}
}

static void look_at_children(struct keeper *keeper)
{
	reap(keeper);
	if (!keeper->has_ended)
		return;
	if (keeper->state != KEEPER_ENDING) {
		if (keeper->state ==
			KEEPER_FROZEN) /* it was killed: the others are left as they were */
			descendants_signal(SIGCONT);
		report(keeper, KEEPER_ENDED, keeper->status);
		_exit(0);
	}
	if (kill(-keeper->pid, 0) != 0)
		finish(keeper);
}

static void look_at_clock(struct keeper *keeper)
{
	if (clock_boot_ns() < keeper->until_ns)
		return;
	if (keeper->state == KEEPER_ENDING)
		finish(keeper);
	/* A process that is continued before it has stopped loses the signal, and tells nobody. */
	if (keeper->state == KEEPER_RUNNING ||
		(keeper->state == KEEPER_FROZEN && !keeper->stands_still))
		freeze(keeper);
}

static void look_at_terminal(struct keeper *keeper)
{
	if (keeper->terminal.is_suspended &&
		lock_terminal_resumes(&keeper->terminal, keeper->pid) &&
		keeper->state != KEEPER_FROZEN)
		send_signal(keeper, SIGCONT);
}

/* Milliseconds for poll, rounded up; the clock continues while the machine sleeps, poll does
 * not. */
static int time_left(const struct keeper *keeper)
{
	uint64_t now_ns = clock_boot_ns(), left_ns;

	if (keeper->terminal.is_suspended)
		return LOCK_TERMINAL_LOOK_MS;
	if (keeper->state == KEEPER_FROZEN && !keeper->stands_still)
		return FREEZE_AGAIN_MS;
	if (keeper->state != KEEPER_RUNNING && keeper->state != KEEPER_ENDING)
		return -1;
	left_ns = keeper->until_ns > now_ns ? keeper->until_ns - now_ns : 0;
	return left_ns > 1000 * CLOCK_NS_PER_MS
		       ? 1000
		       : (int)((left_ns + CLOCK_NS_PER_MS - 1) / CLOCK_NS_PER_MS);
}

static void keep(struct keeper *keeper)
{
	struct signalfd_siginfo came;
	struct pollfd fds[] = {{.fd = keeper->orders, .events = POLLIN},
		{.fd = keeper->children, .events = POLLIN}};

	for (;;) {
		poll(fds, 2, time_left(keeper));
		if (read(keeper->children, &came, sizeof(came)) > 0)
			look_at_children(keeper);
		if (fds[0].revents)
			read_order(keeper);
		fds[0].revents = 0;
		look_at_clock(keeper);
		look_at_terminal(keeper);
	}
}

/* In the keeper's process. */
static void become_keeper(char **command, int orders)
{
	struct keeper keeper = {.command = command, .orders = orders};
	sigset_t children;

	sigemptyset(&children);
	sigaddset(&children, SIGCHLD);
	sigprocmask(SIG_BLOCK, &children, &keeper.mask);
	keeper.children = signalfd(-1, &children, SFD_NONBLOCK | SFD_CLOEXEC);
	lock_terminal_open(&keeper.terminal);
	setpgid(0, 0); /* what is sent to the group of `sluice lock` does not reach it */
	/* One that was stopped continues when `sluice lock` ends, and sees that. */
	if (keeper.children >= 0 && prctl(PR_SET_CHILD_SUBREAPER, 1) == 0 &&
		prctl(PR_SET_PDEATHSIG, SIGCONT) == 0)
		keep(&keeper);
	_exit(1);
}

int keeper_start(char **command, pid_t *keeper)
{
	int ends[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
		return -1;
	*keeper = fork();
	if (*keeper == 0) {
		close(ends[0]);
		become_keeper(command, ends[1]);
	}
	close(ends[1]);
	if (*keeper > 0)
		return ends[0];
	close(ends[0]);
	return -1;
}
