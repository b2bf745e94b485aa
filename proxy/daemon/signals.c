#include "daemon/signals.h"

#include <errno.h>
#include <event2/event.h>
#include <pthread.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "daemon/binding.h"
#include "daemon/probers.h"
#include "daemon/daemon.h"
#include "daemon/reload.h"
#include "daemon/upgrade.h"

static const int numbers[] = {SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2};
#define COUNT (sizeof(numbers) / sizeof(numbers[0]))

static sigset_t answered(void)
{
	sigset_t set;

	sigemptyset(&set);
	for (size_t i = 0; i < COUNT; i++)
		sigaddset(&set, numbers[i]);
	return set;
}

void signals_block(void)
{
	sigset_t set = answered();

	pthread_sigmask(SIG_BLOCK, &set, NULL);
}

/* One read: what comes while these are answered is for the next turn. */
static void on_readable(evutil_socket_t fd, short what, void *arg)
{
	struct signals *signals = arg;
	struct signalfd_siginfo came[COUNT];

	(void)what;
	if (signals->is_held) {
		event_del(signals->readable);
		event_base_loopbreak(event_get_base(signals->readable));
		return;
	}
	ssize_t size = read(fd, came, sizeof(came));
	for (ssize_t i = 0; i < size / (ssize_t)sizeof(came[0]); i++)
		signals->on_signal((int)came[i].ssi_signo, signals->context);
}

bool signals_hold(
	struct signals *signals, struct event_base *base, signal_fn *on_signal, void *context)
{
	sigset_t set = answered();

	*signals = (struct signals){.is_held = true, .on_signal = on_signal, .context = context};
	signals->fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	if (signals->fd < 0)
		return false;
	signals->readable =
		event_new(base, signals->fd, EV_READ | EV_PERSIST, on_readable, signals);
	if (signals->readable && event_add(signals->readable, NULL) == 0)
		return true;
	signals_end(signals);
	errno = ENOMEM;
	return false;
}

bool signals_take(struct signals *signals)
{
	signals->is_held = false;
	return event_add(signals->readable, NULL) == 0;
}

bool signals_begin(
	struct signals *signals, struct event_base *base, signal_fn *on_signal, void *context)
{
	return signals_hold(signals, base, on_signal, context) && signals_take(signals);
}

void signals_end(struct signals *signals)
{
	if (signals->readable)
		event_free(signals->readable);
	if (signals->fd >= 0)
		close(signals->fd);
	*signals = (struct signals){.fd = -1};
}

/* ---- stop ----------------------------------------------------------------------------------- */

static struct timeval timeval_of(uint64_t ms)
{
	return (struct timeval){
		.tv_sec = (time_t)(ms / 1000), .tv_usec = (suseconds_t)(ms % 1000) * 1000};
}

static void begin_drain(struct daemon *daemon)
{
	uint64_t timeout_ms = daemon->site->conf->shutdown_timeout_ms;
	struct timeval timeout = timeval_of(timeout_ms);

	daemon->draining = true;
	log_info("draining: finishing requests in progress, at most %llu ms",
		(unsigned long long)timeout_ms);
	bindings_remove_paths(daemon);
	node_command_workers(&daemon->node, WORKER_DRAIN);
	if (event_add(daemon->stop_timer, &timeout) != 0)
		log_error("no memory: shutdown_timeout does not bound the drain");
}

static void on_stop_timer(evutil_socket_t fd, short what, void *arg)
{
	struct daemon *daemon = arg;

	(void)fd;
	(void)what;
	if (!daemon->draining) {
		begin_drain(daemon); /* the lame duck's time is over */
		return;
	}
	log_warn("shutdown_timeout reached: closing the remaining connections");
	daemon->exit_status = 1;
	node_command_workers(&daemon->node, WORKER_STOP);
}

/* From here on nothing new begins: not a reload, nor an upgrade, and readiness says no. */
static void begin_stop(struct daemon *daemon)
{
	uint64_t lame_ms = daemon->site->conf->lame_duck_ms;
	struct timeval lame = timeval_of(lame_ms);

	daemon->node.stopping = true;
	upgrade_cancel(daemon);
	reload_cancel(daemon);
	health_share_leave(daemon);
	if (!daemon->handed_over)
		manager_stopping(lame_ms + daemon->site->conf->shutdown_timeout_ms);
	if (lame_ms > 0 && event_add(daemon->stop_timer, &lame) == 0)
		log_info("lame duck: serving for %llu ms more while /readyz answers 503",
			(unsigned long long)lame_ms);
	else
		begin_drain(daemon);
}

void stop_by_signal(struct daemon *daemon)
{
	bool is_first = !daemon->was_signalled;

	daemon->was_signalled = true;
	if (!daemon->node.stopping) {
		begin_stop(daemon);
	} else if (!daemon->draining) {
		begin_drain(daemon);
	} else if (!is_first) {
		log_warn("second stop signal: closing the remaining connections");
		daemon->exit_status = 1;
		node_command_workers(&daemon->node, WORKER_STOP);
	}
}

void stop_hand_over(struct daemon *daemon, pid_t pid)
{
	manager_handed_over(daemon, (long)pid);
	daemon->handed_over = true;
	node_command_workers(&daemon->node, WORKER_HAND_OVER);
	begin_stop(daemon);
}

bool stop_prepare(struct daemon *daemon)
{
	daemon->stop_timer = evtimer_new(daemon->node.loop.base, on_stop_timer, daemon);
	return daemon->stop_timer != NULL;
}

void stop_end(struct daemon *daemon)
{
	if (daemon->stop_timer)
		event_free(daemon->stop_timer);
}
