#include "cli/lock/lock_guard.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/lock/descendants.h"
#include "cli/lock/lock_command.h"

/* How long a keeper that continues may take to read the orders that came while it was stopped. */
enum { ORDER_MS = 200, ORDER_LOOK_MS = 10 };

bool lock_guard_start(struct lock_guard *guard)
{
	guard->fd = -1;
	signal(SIGCHLD, SIG_DFL); /* if ignored, the ends of children would not be reported */
	if (prctl(PR_SET_CHILD_SUBREAPER, 1) == 0)
		guard->fd = keeper_start(guard->command, &guard->pid);
	if (guard->fd < 0)
		fprintf(stderr, "%s: %s\n", guard->program, strerror(errno));
	return guard->fd >= 0;
}

/* ---- orders ---------------------------------------------------------------------------------- */

bool lock_guard_order(const struct lock_guard *guard, const struct keeper_order *order)
{
	return send(guard->fd, order, sizeof(*order), MSG_NOSIGNAL | MSG_DONTWAIT) >= 0 ||
	       (errno != EAGAIN && errno != EWOULDBLOCK);
}

/* It may have been stopped alone. */
static void wake_keeper(const struct lock_guard *guard)
{
	if (guard->pid > 0)
		kill(guard->pid, SIGCONT);
}

bool lock_guard_wake_and_order(const struct lock_guard *guard, const struct keeper_order *order)
{
	struct pollfd room = {.fd = guard->fd, .events = POLLOUT};

	wake_keeper(guard);
	for (int waited_ms = 0; waited_ms < ORDER_MS; waited_ms += ORDER_LOOK_MS) {
		if (lock_guard_order(guard, order))
			return true;
		poll(&room, 1, ORDER_LOOK_MS);
	}
	return false;
}

/* One that does not continue ends with its command: its end is read, and then its descendants are
 * killed. */
void lock_guard_end_command(const struct lock_guard *guard, uint64_t grace_ms)
{
	const struct keeper_order order = {.kind = KEEPER_END, .number = grace_ms};

	if (!lock_guard_wake_and_order(guard, &order))
		kill(guard->pid, SIGKILL);
}

/* ---- reports --------------------------------------------------------------------------------- */

static int status_of(int64_t status)
{
	int wait_status = (int)status;

	return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status)
				      : LOCK_EXIT_SIGNAL + WTERMSIG(wait_status);
}

static enum lock_guard_report take_report(
	const struct lock_guard *guard, const struct keeper_report *report, int *status)
{
	switch ((enum keeper_report_kind)report->kind) {
	case KEEPER_STARTED:
		break;
	case KEEPER_FAILED:
		fprintf(stderr, "%s: %s: %s\n", guard->program, guard->command[0],
			strerror((int)report->number));
		*status = report->number == ENOENT ? LOCK_EXIT_NOT_FOUND : LOCK_EXIT_NOT_EXECUTABLE;
		return GUARD_ENDED;
	case KEEPER_ENDED:
		*status = status_of(report->number);
		return GUARD_ENDED;
	}
	return GUARD_NOTHING;
}

/* Is there more to read in spite of it? Of a keeper that ends before it has read all orders, the
 * socket first reports ECONNRESET, and then what the keeper has sent. */
static bool is_passing(int error)
{
	return error == EAGAIN || error == EINTR || error == ECONNRESET;
}

enum lock_guard_report lock_guard_read(const struct lock_guard *guard, int *status)
{
	struct keeper_report report;
	ssize_t size = recv(guard->fd, &report, sizeof(report), MSG_DONTWAIT);

	if (size == sizeof(report))
		return take_report(guard, &report, status);
	return size >= 0 || !is_passing(errno) ? GUARD_GONE : GUARD_NOTHING;
}

void lock_guard_note_killed(struct lock_guard *guard)
{
	fprintf(stderr, "%s: the process that keeps the command was killed\n", guard->program);
	descendants_kill(); /* also those that left the command's process group */
	guard->pid = 0;
}

/* Waits for its end, which it sees at its socket; it may have been stopped alone. */
void lock_guard_leave(struct lock_guard *guard)
{
	close(guard->fd);
	if (guard->pid == 0)
		return;
	wake_keeper(guard);
	waitpid(guard->pid, NULL, 0);
}
