/* See semaphore_hold.h. */
#include "cli/lock/semaphore_hold.h"

#include <event2/event.h>
#include <signal.h>
#include <stdio.h>

#include "base/clock.h"
#include "cli/lock/lock_command.h"
#include "cli/lock/lock_guard.h"
#include "cli/lock/semaphore.h"
#include "cli/lock/semaphore_verbs.h"
#include "daemon/signals.h"
#include "semaphore/holder.h"
#include "semaphore/rabbit.h"

#define PROGRAM "sluice semaphore hold"

/* Between two searches while all slots are held. */
enum { SEARCH_MS = 50, SEARCH_MOST_MS = 1000 };

/* Between two looks at the slot; and so long after one the slot is used, or one and a half
 * heartbeats, if that is less, as by a node. */
enum { CHECK_MS = 1000, TRUST_MS = 5000 };

struct hold_run {
	const struct semaphore_call *call;
	const struct conf *conf;
	const struct conf_semaphore *semaphore;
	struct lock_guard guard;
	struct event_base *base; /* of the signals */
	struct signals signals;
	struct rabbit *rabbit; /* NULL: not reached, or lost */
	struct holder holder;
	uint64_t trust_ns;
	uint64_t until_ns; /* the slot may be used, by clock_boot_ns */
	uint64_t last_ns;  /* of a lost slot: the command must have been killed */
	uint32_t slot;     /* 0: none yet */
	bool is_lost, has_ended;
	int signal; /* that came before the command ran */
	int status;
};

static uint64_t after_ms(uint64_t ms)
{
	uint64_t now = clock_boot_ns(), most = (UINT64_MAX - now) / CLOCK_NS_PER_MS;

	return now + (ms < most ? ms : most) * CLOCK_NS_PER_MS;
}

static uint64_t left_ms(uint64_t until_ns)
{
	uint64_t now = clock_boot_ns();

	return until_ns > now ? (until_ns - now + CLOCK_NS_PER_MS - 1) / CLOCK_NS_PER_MS : 0;
}

/* ---- signals --------------------------------------------------------------------------------- */

static bool is_ignored(int number)
{
	struct sigaction action;

	return sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

/* Passed on to the command; before there is one, it ends the wait for a slot. */
static void on_signal(int number, void *context)
{
	struct hold_run *run = context;
	const struct keeper_order order = {.kind = KEEPER_SIGNAL, .number = (uint64_t)number};

	if (run->slot > 0)
		lock_guard_wake_and_order(&run->guard, &order);
	else if (!is_ignored(number))
		run->signal = number;
}

/* Waits for the time, a signal or a report. False: the connection has ended. */
static bool wait_ms(struct hold_run *run, uint64_t ms)
{
	const int wakes[RABBIT_WAKES] = {run->guard.fd, run->signals.fd};
	bool is_there = rabbit_wait(run->rabbit, wakes, ms);

	event_base_loop(run->base, EVLOOP_NONBLOCK);
	return is_there;
}

/* ---- a slot ---------------------------------------------------------------------------------- */

static bool fail(struct hold_run *run, int status, const char *why)
{
	semaphore_print_front(run->conf, run->semaphore, run->semaphore->line);
	fprintf(stderr, "hold: %s\n", why);
	run->status = status;
	return false;
}

static bool fail_held(struct hold_run *run)
{
	char why[64];

	snprintf(why, sizeof(why),
		run->holder.max == 1 ? "the slot is held" : "all %u slots are held",
		run->holder.max);
	return fail(run, SEMAPHORE_EXIT_TIME_OVER, why);
}

/* Searches once. False: it has failed, with a message. */
static bool search(struct hold_run *run)
{
	struct broker *broker = rabbit_broker(run->rabbit);
	uint64_t asked_ns = clock_boot_ns();
	enum broker_result result = holder_take(&run->holder, 1);

	if (result != BROKER_DONE)
		return fail(run,
			result == BROKER_LOST ? SEMAPHORE_EXIT_UNREACHED : SEMAPHORE_EXIT_REFUSED,
			broker->why);
	if (run->holder.max == 0)
		return fail(
			run, SEMAPHORE_EXIT_REFUSED, "there is no such semaphore at the broker");
	run->slot = slots_set_below(&run->holder.held, SLOTS_SET_END);
	run->until_ns = asked_ns + run->trust_ns;
	return true;
}

/* False: there is none to be had, with a message or the status of a signal. */
static bool take(struct hold_run *run)
{
	const struct semaphore_call *call = run->call;
	uint64_t end_ns = call->has_timeout ? after_ms(call->timeout_ms) : UINT64_MAX;
	uint64_t pause_ms = SEARCH_MS;
	enum broker_result result =
		holder_begin(&run->holder, rabbit_broker(run->rabbit), run->semaphore->name);

	if (result != BROKER_DONE)
		return fail(run,
			result == BROKER_LOST ? SEMAPHORE_EXIT_UNREACHED : SEMAPHORE_EXIT_REFUSED,
			rabbit_broker(run->rabbit)->why);
	for (uint32_t tried = 1; search(run); tried++) {
		if (run->slot > 0)
			return true;
		if (!call->wait || tried == call->attempts || left_ms(end_ns) == 0)
			return fail_held(run);
		if (!wait_ms(run, pause_ms < left_ms(end_ns) ? pause_ms : left_ms(end_ns)))
			return fail(run, SEMAPHORE_EXIT_UNREACHED, rabbit_broker(run->rabbit)->why);
		if (run->signal) {
			run->status = LOCK_EXIT_SIGNAL + run->signal;
			return false;
		}
		pause_ms = 2 * pause_ms < SEARCH_MOST_MS ? 2 * pause_ms : SEARCH_MOST_MS;
	}
	return false;
}

static void lose(struct hold_run *run, const char *why)
{
	fprintf(stderr, PROGRAM ": %s: the slot is lost: %s\n", run->semaphore->name, why);
	run->is_lost = true;
	run->status = LOCK_EXIT_LOST;
	run->last_ns = after_ms(run->call->grace_ms + LOCK_GUARD_KILL_MS);
	lock_guard_end_command(&run->guard, run->call->grace_ms);
}

static void order_to_run(struct hold_run *run, enum keeper_order_kind kind)
{
	const struct keeper_order order = {
		.kind = kind, .number = run->slot, .until_ns = run->until_ns};

	lock_guard_order(&run->guard, &order);
}

static void verify(struct hold_run *run)
{
	uint64_t asked_ns = clock_boot_ns();

	if (holder_check(&run->holder) != BROKER_DONE) {
		lose(run, rabbit_broker(run->rabbit)->why);
	} else if (!slots_set_has(&run->holder.held, run->slot)) {
		lose(run, "its queue is another connection's");
	} else {
		run->until_ns = asked_ns + run->trust_ns;
		order_to_run(run, KEEPER_LIVE);
	}
}

/* ---- the command ----------------------------------------------------------------------------- */

static void read_reports(struct hold_run *run)
{
	int status = LOCK_EXIT_SIGNAL + SIGKILL;
	enum lock_guard_report report = lock_guard_read(&run->guard, &status);

	if (report == GUARD_NOTHING)
		return;
	if (report == GUARD_GONE)
		lock_guard_note_killed(&run->guard);
	run->has_ended = true;
	if (!run->is_lost)
		run->status = status;
}

static void keep(struct hold_run *run)
{
	uint64_t check_ns = after_ms(CHECK_MS);

	order_to_run(run, KEEPER_RUN);
	for (read_reports(run); !run->has_ended; read_reports(run)) {
		uint64_t next_ns = run->is_lost ? run->last_ns : check_ns;
		bool is_there = wait_ms(run, left_ms(next_ns));
		if (!is_there && !run->is_lost)
			lose(run, rabbit_broker(run->rabbit)->why);
		if (run->is_lost && run->rabbit) {
			rabbit_close(run->rabbit);
			run->rabbit = NULL;
		}
		if (left_ms(next_ns) > 0)
			continue;
		if (run->is_lost) {
			kill(run->guard.pid, SIGKILL);
			run->last_ns = after_ms(LOCK_GUARD_KILL_MS);
		} else {
			verify(run);
			check_ns = after_ms(CHECK_MS);
		}
	}
}

/* ---- its life -------------------------------------------------------------------------------- */

static void reach(struct hold_run *run)
{
	const struct conf_semaphore *semaphore = run->semaphore;
	char why[512], purpose[128];
	uint64_t trust_ms;

	snprintf(purpose, sizeof(purpose), PROGRAM " %s", semaphore->name);
	run->rabbit = rabbit_open(semaphore, purpose, why, sizeof(why));
	if (!run->rabbit) {
		semaphore_print_front(run->conf, semaphore, semaphore->broker.address.line);
		fprintf(stderr, "broker: %s: %s\n", semaphore->broker.address.text, why);
		run->status = SEMAPHORE_EXIT_UNREACHED;
		return;
	}
	trust_ms = rabbit_heartbeat_ms(run->rabbit) * 3 / 2;
	if (trust_ms == 0 || trust_ms > TRUST_MS)
		trust_ms = TRUST_MS;
	run->trust_ns = trust_ms * CLOCK_NS_PER_MS;
	rabbit_set_timeout(
		run->rabbit, semaphore->timeout_ms < trust_ms ? semaphore->timeout_ms : trust_ms);
	if (take(run))
		keep(run);
	if (run->rabbit)
		rabbit_close(run->rabbit);
}

int semaphore_hold_run(const struct semaphore_call *call, const struct conf *conf,
	const struct conf_semaphore *semaphore)
{
	struct hold_run run = {.call = call,
		.conf = conf,
		.semaphore = semaphore,
		.guard = {.program = PROGRAM, .command = call->command},
		.signals = {.fd = -1},
		.status = SEMAPHORE_EXIT_REFUSED};

	if (!lock_guard_start(&run.guard))
		return run.status;
	signals_block();
	signal(SIGPIPE, SIG_IGN);
	run.base = event_base_new();
	if (run.base && signals_begin(&run.signals, run.base, on_signal, &run))
		reach(&run);
	else
		fputs(PROGRAM ": no memory\n", stderr);
	signals_end(&run.signals);
	lock_guard_leave(&run.guard);
	if (run.base)
		event_base_free(run.base);
	return run.status;
}
