#include "daemon/signals.h"

#include <errno.h>
#include <event2/event.h>
#include <pthread.h>
#include <sys/signalfd.h>
#include <unistd.h>

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
