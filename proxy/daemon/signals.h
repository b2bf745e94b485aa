/*
 * The signals that sluice answers, as events of its main loop.
 *
 * They stay blocked for as long as the process lives, and in its children, and are read instead
 * (signalfd(2)). So none interrupts a system call, none kills while the process begins or ends, and
 * at most six are taken a turn, however fast they come: a flood of them holds nothing up.
 */
#ifndef DAEMON_SIGNALS_H
#define DAEMON_SIGNALS_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

struct event;
struct event_base;

typedef void signal_fn(int number, void *context);

struct signals {
	int fd; /* -1: none are taken */
	struct event *readable;
	bool is_held; /* none is taken yet */
	signal_fn *on_signal;
	void *context;
};

/* Blocks SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGUSR1 and SIGUSR2 in this thread and in those that it
 * makes: they wait for signals_begin. Call it before the first thread and the first socket. */
void signals_block(void);

/* Takes them from now on: calls `on_signal` in the loop of `base`. False with errno. */
bool signals_begin(
	struct signals *signals, struct event_base *base, signal_fn *on_signal, void *context);

/* Takes none yet, but the first one that comes breaks the loop of `base` off, whatever that waits
 * for. False with errno. */
bool signals_hold(
	struct signals *signals, struct event_base *base, signal_fn *on_signal, void *context);
/* Takes those that were held, and what comes, from now on. False without memory. */
bool signals_take(struct signals *signals);

/* They wait again. May be called where signals_begin failed or signals->fd is -1. */
void signals_end(struct signals *signals);

/* ---- stop ----------------------------------------------------------------------------------- */

/*
 * How the daemon stops.
 *
 *   serving --SIGTERM--> lame duck --lame_duck, SIGTERM--> drain --shutdown_timeout, SIGTERM--> cut
 *
 * A lame duck serves on but is not ready for more; a drain finishes what is under way.
 * A process that another one has replaced stops the same way. Main thread.
 */

struct daemon;

/* Makes the timer. False without memory. */
bool stop_prepare(struct daemon *daemon);
void stop_end(struct daemon *daemon);

/* A signal asks for an end: the first one begins it, each further one takes the next step at once.
 */
void stop_by_signal(struct daemon *daemon);

/* Process `pid` has taken over what bindings_hand_over and the like have left to it: this one
 * drains and ends. */
void stop_hand_over(struct daemon *daemon, pid_t pid);

#endif
