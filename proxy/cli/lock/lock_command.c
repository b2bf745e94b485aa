#include "cli/lock/lock_command.h"

#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/container.h"
#include "cli/run.h"
#include "cli/lock/lock_guard.h"
#include "cli/lock/lock_hold.h"
#include "cli/lock/scan.h"
#include "cli/table.h"
#include "daemon/signals.h"

/* clang-format off */
const char cli_lock_usage[] =
	"       sluice lock NAME -- COMMAND...                   run a command while it holds the lock NAME\n"
	"         takes [-c FILE] [--lease TIME] [--wait TIME] [--grace TIME] [--session ID]\n";
/* clang-format on */

enum {
	LEASE_MIN_MS = 1000,
	LEASE_MAX_MS = 24 * 60 * 60 * 1000,
	GRACE_MAX_MS = 60 * 60 * 1000,
};

struct lock_run {
	const char *path, *name;
	const char *session; /* to join; NULL: one of its own */
	uint64_t lease_ms, wait_ms, grace_ms;
	struct lock_guard guard;
	struct lock_store store;
	struct lock_hold hold;
	struct signals signals;
	struct event *reports;
	struct deadline last; /* after a loss: the keeper must have ended the command */
	bool was_started;     /* the command; or it was tried */
	bool has_ended;       /* the command, or nothing of it has begun */
	int signal;           /* that came before the command ran */
	int status;           /* exit status */
};

/* ---- the keeper ------------------------------------------------------------------------------ */

static struct keeper_order order_of(
	const struct lock_run *run, enum keeper_order_kind kind, uint64_t number)
{
	struct keeper_order order = {
		.kind = kind, .number = number, .until_ns = run->hold.until_ns};

	memcpy(order.session, run->hold.session, sizeof(order.session));
	return order;
}

/* It has ended, or nothing of it has begun. */
static void note_end(struct lock_run *run, int status)
{
	run->has_ended = true;
	if (run->hold.state == HOLD_DONE) /* lost */
		return;
	run->status = status;
	lock_hold_release(&run->hold);
}

/* Before the command is begun, this signal ends the wait for the lock. */
static void give_up(struct lock_run *run, int number)
{
	run->signal = number;
	run->status = LOCK_EXIT_SIGNAL + number;
	lock_hold_give_up(&run->hold);
}

static void on_report(evutil_socket_t fd, short what, void *arg)
{
	struct lock_run *run = arg;
	int status;

	(void)fd;
	(void)what;
	switch (lock_guard_read(&run->guard, &status)) {
	case GUARD_NOTHING:
		break;
	case GUARD_ENDED:
		note_end(run, status);
		break;
	case GUARD_GONE:
		event_del(run->reports);
		if (run->has_ended)
			break;
		lock_guard_note_killed(&run->guard);
		if (run->was_started)
			note_end(run, LOCK_EXIT_SIGNAL + SIGKILL);
		else
			give_up(run, SIGKILL);
		break;
	}
}

/* ---- the lock -------------------------------------------------------------------------------- */

static void end_command(struct lock_run *run)
{
	fprintf(stderr, "sluice lock: %s: the lock is lost: %s\n", run->name, run->hold.why);
	run->status = LOCK_EXIT_LOST;
	if (run->has_ended)
		return;
	lock_guard_end_command(&run->guard, run->grace_ms);
	uint64_t now_ms = loop_now_ms(&run->store.loop);
	deadline_set(&run->last, now_ms + run->grace_ms + LOCK_GUARD_KILL_MS, now_ms);
}

/* It was stopped meanwhile. With its end its descendants are killed. */
static void on_last(struct deadline *last)
{
	struct lock_run *run = CONTAINER_OF(last, struct lock_run, last);

	if (!run->has_ended)
		kill(run->guard.pid, SIGKILL);
}

static void say_why_not_had(const struct lock_run *run)
{
	if (run->hold.why[0])
		fprintf(stderr, "sluice lock: %s: %s\n", run->name, run->hold.why);
	else if (run->hold.holder[0])
		fprintf(stderr, "sluice lock: %s: not available in time; %s has it\n", run->name,
			run->hold.holder);
	else
		fprintf(stderr,
			"sluice lock: %s: not available in time; the store did not answer\n",
			run->name);
}

static void end_without_lock(struct lock_run *run)
{
	run->has_ended = true;
	run->status = run->signal ? LOCK_EXIT_SIGNAL + run->signal : LOCK_EXIT_NOT_HAD;
	if (!run->signal)
		say_why_not_had(run);
	if (run->hold.may_be_taken)
		fprintf(stderr,
			"sluice lock: %s: the store was asked for the lock and did not answer; if "
			"it has given it, its lease ends by itself\n",
			run->name);
}

static void be_done(struct lock_run *run)
{
	switch (run->hold.end) {
	case HOLD_NOT_HAD:
		end_without_lock(run);
		break;
	case HOLD_REFUSED:
		run->has_ended = true;
		run->status = LOCK_EXIT_UNREACHED;
		break;
	case HOLD_LOST:
		end_command(run);
		break;
	case HOLD_UNHEARD:
		fprintf(stderr,
			"sluice lock: %s: the store could not be told that it is free; its lease "
			"ends by itself\n",
			run->name);
		break;
	case HOLD_RELEASED:
		break;
	}
	if (!run->was_started && run->signal)
		run->has_ended = true;
}

static void on_changed(struct lock_hold *hold)
{
	struct lock_run *run = CONTAINER_OF(hold, struct lock_run, hold);

	if (hold->state == HOLD_DONE) {
		be_done(run);
	} else {
		struct keeper_order order =
			order_of(run, run->was_started ? KEEPER_LIVE : KEEPER_RUN, hold->fence);
		lock_guard_order(&run->guard, &order);
	}
	run->was_started |= hold->state == HOLD_HOLDING;
}

static void on_store_changed(struct lock_store *store)
{
	lock_hold_look(&CONTAINER_OF(store, struct lock_run, store)->hold);
}

/* By nohup, for example: signals are read here, so that this has no effect by itself. */
static bool is_ignored(int number)
{
	struct sigaction action;

	return sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

/* Passed on to the command; before there is one, it ends the wait for the lock. */
static void on_signal(int number, void *context)
{
	struct lock_run *run = context;
	struct keeper_order order = order_of(run, KEEPER_SIGNAL, (uint64_t)number);

	if (run->was_started)
		lock_guard_wake_and_order(&run->guard, &order);
	else if (!is_ignored(number))
		give_up(run, number);
}

/* ---- its life -------------------------------------------------------------------------------- */

static bool watch(struct lock_run *run)
{
	struct event_base *base = run->store.loop.base;

	run->reports = event_new(base, run->guard.fd, EV_READ | EV_PERSIST, on_report, run);
	if (run->reports && event_add(run->reports, NULL) == 0 &&
		signals_begin(&run->signals, base, on_signal, run))
		return true;
	fprintf(stderr, "sluice lock: %s\n", strerror(errno));
	return false;
}

static bool turn_until_done(struct lock_run *run)
{
	while (!(run->hold.state == HOLD_DONE && run->has_ended)) {
		if (!lock_store_turn(&run->store))
			return false;
	}
	return true;
}

static int serve(struct lock_run *run, const struct conf *conf)
{
	uint64_t silence_ms = run->lease_ms / 5 < 2000 ? run->lease_ms / 5 : 2000;

	if (!lock_store_open(&run->store, "sluice lock", conf, silence_ms))
		return LOCK_EXIT_REFUSED;
	lock_hold_begin(
		&run->hold, &run->store, run->name, run->lease_ms, run->wait_ms, on_changed);
	if (run->session)
		lock_hold_join(&run->hold, run->session);
	run->store.changed = on_store_changed;
	deadline_init(&run->last, run->store.loop.base, on_last);
	if (!watch(run) || !turn_until_done(run))
		run->status = LOCK_EXIT_REFUSED;
	deadline_end(&run->last);
	run->store.changed = NULL;
	signals_end(&run->signals);
	if (run->reports)
		event_free(run->reports);
	lock_hold_end(&run->hold);
	lock_store_close(&run->store);
	return run->status;
}

/* The keeper begins before there are connections, and has the signals' masks as we got them. */
static int run_lock(struct lock_run *run)
{
	const struct conf *conf = cli_load(run->path);
	int status = LOCK_EXIT_REFUSED;

	if (!conf)
		return status;
	if (!lock_guard_start(&run->guard)) {
		conf_release(conf);
		return status;
	}
	signals_block();
	signal(SIGPIPE, SIG_IGN);
	status = serve(run, conf);
	lock_guard_leave(&run->guard);
	conf_release(conf);
	return status;
}

/* ---- the command line ------------------------------------------------------------------------ */

enum { GIVEN_LEASE = 256, GIVEN_WAIT, GIVEN_GRACE, GIVEN_SESSION };

static const struct option options[] = {{"config", required_argument, NULL, 'c'},
	{"lease", required_argument, NULL, GIVEN_LEASE},
	{"wait", required_argument, NULL, GIVEN_WAIT},
	{"grace", required_argument, NULL, GIVEN_GRACE},
	{"session", required_argument, NULL, GIVEN_SESSION}, {"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0}};

/* Values are looked at when all are there, as --help goes before a wrong one. */
struct given {
	const char *lease, *wait, *grace;
};

static bool take_time(const char *text, const char *what, uint64_t min_ms, uint64_t max_ms,
	const char *expected, uint64_t *ms)
{
	if (!text)
		return true;
	if (strcmp(text, "0") == 0)
		*ms = 0;
	else if (!cli_scan_duration_ms(text, ms))
		*ms = UINT64_MAX;
	if (*ms >= min_ms && *ms <= max_ms)
		return true;
	fprintf(stderr, "sluice lock: invalid --%s \"%s\"; expected %s\n", what, text, expected);
	return false;
}

static bool take_values(struct lock_run *run, const struct given *given)
{
	return take_time(given->lease, "lease", LEASE_MIN_MS, LEASE_MAX_MS,
		       "a duration from 1s to 24h", &run->lease_ms) &&
	       take_time(given->wait, "wait", 0, UINT64_MAX - 1, "a duration such as 30s",
		       &run->wait_ms) &&
	       take_time(given->grace, "grace", 0, GRACE_MAX_MS, "a duration of up to 1h",
		       &run->grace_ms);
}

static bool take_session(const struct lock_run *run)
{
	if (!run->session || lock_session_is_valid(run->session))
		return true;
	fprintf(stderr,
		"sluice lock: invalid --session \"%s\"; expected a session as in the list of "
		"sluice locks\n",
		run->session);
	return false;
}

static bool take_name(struct lock_run *run, const char *name)
{
	if (!name || !lock_name_is_valid(name)) {
		if (!name)
			fputs("sluice lock: expected NAME -- COMMAND\n", stderr);
		else
			fprintf(stderr,
				"sluice lock: invalid name \"%s\"; expected 1 to 64 of A-Z a-z 0-9 "
				". _ : -\n",
				name);
		return false;
	}
	run->name = name;
	return true;
}

/* NAME may stand before, among or behind the options; behind `--` is the command. Returns 0, or an
 * exit status, or -1 when it is to run. */
static int take_line(struct lock_run *run, int argc, char **argv)
{
	struct given given = {0};
	const char *name = NULL;
	int option;

	optind = 1;
	/* '-': words are given to us in their order, and options may follow them */
	while ((option = getopt_long(argc, argv, "-c:h", options, NULL)) != -1) {
		switch (option) {
		case 1:
			if (name) {
				fprintf(stderr,
					"sluice lock: unexpected \"%s\"; the command is "
					"given behind --\n",
					optarg);
				return LOCK_EXIT_USAGE;
			}
			name = optarg;
			break;
		case 'c':
			run->path = optarg;
			break;
		case GIVEN_LEASE:
			given.lease = optarg;
			break;
		case GIVEN_WAIT:
			given.wait = optarg;
			break;
		case GIVEN_GRACE:
			given.grace = optarg;
			break;
		case GIVEN_SESSION:
			run->session = optarg;
			break;
		case 'h':
			usage_print_command(stdout, cli_lock_usage, "lock");
			return 0;
		default:
			return LOCK_EXIT_USAGE;
		}
	}
	if (!take_name(run, name) || !take_values(run, &given) || !take_session(run))
		return LOCK_EXIT_USAGE;
	run->guard.command = argv + optind;
	if (*run->guard.command)
		return -1;
	fputs("sluice lock: a command is needed behind --\n", stderr);
	return LOCK_EXIT_USAGE;
}

int cli_lock(int argc, char **argv)
{
	struct lock_run run = {.path = CLI_DEFAULT_FILE,
		.lease_ms = 10000,
		.wait_ms = UINT64_MAX,
		.grace_ms = 2000,
		.guard = {.program = "sluice lock"},
		.signals = {.fd = -1}};
	int status = take_line(&run, argc, argv);

	if (status == LOCK_EXIT_USAGE)
		usage_refer("lock");
	return status < 0 ? run_lock(&run) : status;
}
