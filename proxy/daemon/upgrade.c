/* See upgrade.h. */
#include "daemon/upgrade.h"

#include <errno.h>
#include <event2/event.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "daemon/binding.h"
#include "daemon/handover.h"
#include "daemon/pid_file.h"
#include "daemon/daemon.h"
#include "daemon/reload.h"
#include "daemon/signals.h"
#include "ownership/owner_sweep.h"
#include "gate/roster.h"
#include "site/site.h"
#include "throttle/throttle.h"
#include "upstream/upstream.h"

#define ENVIRONMENT "SLUICE_UPGRADE"
/* A new process that is not ready by then never will be. */
#define READY_SECONDS 60
/* The kernel closes a process's descriptors one by one: its end of the channel may come before its
 * locks. */
#define END_AGAIN_MS      50
#define END_AGAIN_MOST_MS 3200 /* another process has the table open for long */

/* A new process that is starting. */
struct upgrade {
	struct handover *given;
	pid_t pid;
	int channel;         /* our end */
	struct event *event; /* it can be read, or READY_SECONDS have passed */
	char line[64];       /* so far */
	size_t line_len;
	bool *is_taken; /* [given->count] */
};

static void upgrade_free(struct upgrade *upgrade)
{
	if (!upgrade)
		return;
	if (upgrade->event)
		event_free(upgrade->event);
	if (upgrade->channel >= 0)
		close(upgrade->channel);
	handover_free(upgrade->given);
	free(upgrade->is_taken);
	free(upgrade);
}

bool upgrade_is_under_way(const struct daemon *daemon)
{
	return daemon->upgrade || daemon->predecessor;
}

static void reload_if_it_waited(struct daemon *daemon)
{
	if (!daemon->reload_waits || daemon->node.stopping)
		return;
	daemon->reload_waits = false;
	daemon_reload(daemon, NULL);
}

/* What a process that was killed had in flight is given back, as soon as nothing of it has the
 * table open any more. */
static void end_others(evutil_socket_t fd, short what, void *arg)
{
	struct daemon *daemon = arg;
	unsigned pause_ms = what == EV_TIMEOUT ? 2 * daemon->ended_pause_ms : END_AGAIN_MS;

	(void)fd;
	daemon->ended_pause_ms = pause_ms < END_AGAIN_MOST_MS ? pause_ms : END_AGAIN_MOST_MS;
	const struct timeval pause = {.tv_sec = daemon->ended_pause_ms / 1000,
		.tv_usec = daemon->ended_pause_ms % 1000 * 1000};
	if (daemon->upgrade || daemon->node.stopping || !daemon->node.throttles ||
		throttle_table_end_others(daemon->node.throttles) == 0)
		return;
	if ((errno != EAGAIN && errno != EWOULDBLOCK) ||
		event_base_once(
			daemon->node.loop.base, -1, EV_TIMEOUT, end_others, daemon, &pause) != 0)
		log_error("limits: what an ended process had in flight is not given back: %s",
			strerror(errno));
}

/* ---- the new process is not to be ------------------------------------------------------------ */

/* "exited with 1", "was killed by signal 9" */
static void describe_end(pid_t pid, char *text, size_t size)
{
	int status;
	pid_t got;

	/* A process that can't be ready is of no use, and one that has ended feels nothing. */
	kill(pid, SIGKILL);
	do {
		got = waitpid(pid, &status, 0);
	} while (got < 0 && errno == EINTR);
	if (got != pid)
		snprintf(text, size, "has ended");
	else if (WIFEXITED(status))
		snprintf(text, size, "exited with %d", WEXITSTATUS(status));
	else
		snprintf(text, size, "was killed by signal %d", WTERMSIG(status));
}

static void fail(struct daemon *daemon, const char *why)
{
	struct upgrade *upgrade = daemon->upgrade;
	char end[64];

	daemon->upgrade = NULL;
	describe_end(upgrade->pid, end, sizeof(end));
	pid_file_take_back(daemon);
	log_error("upgrade failed: process %ld %s%s; this process continues", (long)upgrade->pid,
		end, why);
	upgrade_free(upgrade);
	end_others(-1, 0, daemon);
	reload_if_it_waited(daemon);
}

void upgrade_cancel(struct daemon *daemon)
{
	if (daemon->upgrade)
		fail(daemon, " because this process is stopping");
}

/* ---- the new process is ready ---------------------------------------------------------------- */

static void succeed(struct daemon *daemon)
{
	struct upgrade *upgrade = daemon->upgrade;
	struct handover *given = upgrade->given;

	daemon->upgrade = NULL;
	for (size_t i = 0; i < given->count; i++) {
		const char *name = given->sockets[i].name;
		if (!upgrade->is_taken[i])
			continue;
		if (strncmp(name, "listener ", 9) == 0)
			bindings_hand_over(daemon, name + 9);
		else if (strncmp(name, "admin ", 6) == 0)
			daemon->service->hand_over(daemon->service->ctx, name + 6);
	}
	log_info("process %ld has taken over", (long)upgrade->pid);
	if (daemon->reload_waits)
		kill(upgrade->pid, SIGHUP); /* it has read the file before that was asked for */
	stop_hand_over(daemon, upgrade->pid);
	/* Until this process ends, the new one knows by its end of the channel. */
	daemon->successor = upgrade->channel;
	upgrade->channel = -1;
	upgrade_free(upgrade);
}

/* `took 3`, `ready`, or `failed ERRNO`. False: it is none of them. */
static bool take_line(struct daemon *daemon, const char *line)
{
	struct upgrade *upgrade = daemon->upgrade;
	char why[256], *end;
	unsigned long index;

	if (strcmp(line, "ready") == 0) {
		succeed(daemon);
		return true;
	}
	if (strncmp(line, "failed ", 7) == 0) {
		snprintf(why, sizeof(why), ": %s", strerror(atoi(line + 7)));
		fail(daemon, why);
		return true;
	}
	if (strncmp(line, "took ", 5) != 0)
		return false;
	index = strtoul(line + 5, &end, 10);
	if (*end || end == line + 5 || index >= upgrade->given->count)
		return false;
	upgrade->is_taken[index] = true;
	return true;
}

static void take_bytes(struct daemon *daemon, const char *bytes, size_t len)
{
	for (size_t i = 0; i < len && daemon->upgrade; i++) {
		struct upgrade *upgrade = daemon->upgrade;
		bool is_whole = bytes[i] == '\n';
		bool fits = upgrade->line_len + 1 < sizeof(upgrade->line);

		if (!is_whole && fits) {
			upgrade->line[upgrade->line_len++] = bytes[i];
			continue;
		}
		upgrade->line[upgrade->line_len] = '\0';
		upgrade->line_len = 0;
		if (!fits || !take_line(daemon, upgrade->line))
			fail(daemon, ": its report can't be read");
	}
}

static void on_report(evutil_socket_t fd, short what, void *arg)
{
	struct daemon *daemon = arg;
	char bytes[256];
	ssize_t got;

	if (what & EV_TIMEOUT) {
		fail(daemon, ": it was not ready in time");
		return;
	}
	got = read(fd, bytes, sizeof(bytes));
	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (got <= 0)
		fail(daemon, " before it was ready");
	else
		take_bytes(daemon, bytes, (size_t)got);
}

/* ---- starting it ----------------------------------------------------------------------------- */

/* A copy of the environment with what names a process naming the new one. */
struct environment {
	char **all;
	char upgrade[64], *listen_pid, *watchdog_pid;
	char listen_text[64], watchdog_text[64];
};

static bool names_this_process(const char *pid)
{
	return pid && atol(pid) == (long)getpid();
}

static bool begins_with(const char *variable, const char *name)
{
	size_t len = strlen(name);

	return strncmp(variable, name, len) == 0 && variable[len] == '=';
}

static bool environment_make(struct environment *environment, int manifest)
{
	size_t count = 0, used = 0;

	while (environ[count])
		count++;
	environment->all = calloc(count + 4, sizeof(*environment->all));
	if (!environment->all)
		return false;
	snprintf(environment->upgrade, sizeof(environment->upgrade), ENVIRONMENT "=%d", manifest);
	environment->all[used++] = environment->upgrade;
	if (names_this_process(getenv("LISTEN_PID")))
		environment->all[used++] = environment->listen_text;
	if (names_this_process(getenv("WATCHDOG_PID")))
		environment->all[used++] = environment->watchdog_text;
	for (size_t i = 0; i < count; i++) {
		if (!begins_with(environ[i], ENVIRONMENT) &&
			!(begins_with(environ[i], "LISTEN_PID") &&
				names_this_process(getenv("LISTEN_PID"))) &&
			!(begins_with(environ[i], "WATCHDOG_PID") &&
				names_this_process(getenv("WATCHDOG_PID"))))
			environment->all[used++] = environ[i];
	}
	return true;
}

static void write_text(int fd, const char *text)
{
	ssize_t ignored = write(fd, text, strlen(text));

	(void)ignored;
}

/* In the new process, which has one thread and shares nothing: nothing here takes memory. Signals
 * wait, as they do here (daemon/signals.h), until it reads them. */
static void become(const struct handover *given, int manifest, struct environment *environment,
	char *const *argv)
{
	char text[64];

	snprintf(environment->listen_text, sizeof(environment->listen_text), "LISTEN_PID=%ld",
		(long)getpid());
	snprintf(environment->watchdog_text, sizeof(environment->watchdog_text), "WATCHDOG_PID=%ld",
		(long)getpid());
	fcntl(manifest, F_SETFD, 0);
	fcntl(given->channel, F_SETFD, 0);
	if (given->table >= 0)
		fcntl(given->table, F_SETFD, 0);
	for (size_t i = 0; i < given->count; i++)
		fcntl(given->sockets[i].fd, F_SETFD, 0);
	execve(argv[0], argv, environment->all);
	snprintf(text, sizeof(text), "failed %d\n", errno);
	write_text(given->channel, text);
	_exit(127);
}

/* 0 or errno. */
static int start(struct daemon *daemon, struct upgrade *upgrade, int manifest)
{
	struct environment environment = {0};
	int error = 0;

	if (!environment_make(&environment, manifest))
		return ENOMEM;
	upgrade->pid = fork();
	if (upgrade->pid == 0)
		become(upgrade->given, manifest, &environment, daemon->service->arguments);
	if (upgrade->pid < 0)
		error = errno;
	free(environment.all);
	return error;
}

static int give_table(struct daemon *daemon, struct handover *given)
{
	const char *folder = throttle_table_folder(daemon->node.throttles);

	given->clock_offset_ns = daemon->node.anchor.offset_ns;
	if (folder) {
		given->folder = strdup(folder);
		return given->folder ? 0 : ENOMEM;
	}
	given->table = throttle_table_share(daemon->node.throttles, daemon_throttle_ns(daemon));
	if (given->table < 0)
		return errno;
	reload_note_change(daemon);
	return 0;
}

/* What operators have said of servers: it is in no file. */
static bool give_servers(const struct daemon *daemon, struct handover *given)
{
	const struct site *site = daemon->site;
	bool good = true;

	for (size_t i = 0; i < site->conf->upstream_count; i++) {
		const struct upstream *upstream = site->upstreams[i];
		for (size_t j = 0; good && j < upstream->server_count; j++) {
			const struct server *server = &upstream->servers[j];
			/* relaxed: the main thread's own */
			unsigned weight =
				atomic_load_explicit(&server->state->weight, memory_order_relaxed);
			if (server_mode(server) != SERVER_ENABLED || weight > 0)
				good = handover_add_server(given, server_mode(server), weight,
					upstream->conf->name, server->conf->address.text);
		}
	}
	return good;
}

/* All that is handed over, in upgrade->given. 0 or errno. */
static int prepare(struct daemon *daemon, struct upgrade *upgrade, int *theirs)
{
	static const struct timeval timeout = {.tv_sec = READY_SECONDS};
	int channel[2];
	int error;

	upgrade->given = handover_new();
	if (!upgrade->given)
		return ENOMEM;
	error = give_table(daemon, upgrade->given);
	if (error != 0)
		return error;
	tls_tickets_write(daemon->tls.tickets, upgrade->given->tickets);
	if (!bindings_give(daemon, upgrade->given) || !give_servers(daemon, upgrade->given) ||
		!daemon->service->give(daemon->service->ctx, upgrade->given) ||
		!(upgrade->is_taken = calloc(upgrade->given->count + 1, sizeof(bool))))
		return ENOMEM;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, channel) != 0)
		return errno;
	upgrade->channel = channel[0];
	*theirs = upgrade->given->channel = channel[1];
	fcntl(upgrade->channel, F_SETFL, O_NONBLOCK);
	upgrade->event = event_new(
		daemon->node.loop.base, upgrade->channel, EV_READ | EV_PERSIST, on_report, daemon);
	return upgrade->event && event_add(upgrade->event, &timeout) == 0 ? 0 : ENOMEM;
}

static int begin(struct daemon *daemon, struct upgrade *upgrade)
{
	int theirs = -1, error = prepare(daemon, upgrade, &theirs);
	int manifest = error == 0 ? memfd_create("upgrade", MFD_CLOEXEC) : -1;

	if (error == 0 && manifest < 0)
		error = errno;
	if (error == 0)
		error = handover_write(upgrade->given, manifest);
	if (error == 0) {
		pid_file_put_aside(daemon);
		error = start(daemon, upgrade, manifest);
		if (error != 0)
			pid_file_take_back(daemon);
	}
	if (theirs >= 0)
		close(theirs);
	if (manifest >= 0)
		close(manifest);
	return error;
}

void upgrade_begin(struct daemon *daemon)
{
	struct upgrade *upgrade;
	int error;

	if (daemon->node.stopping || daemon->upgrade) {
		log_warn("upgrade refused: %s",
			daemon->node.stopping ? "this process is stopping" : "one is under way");
		return;
	}
	if (daemon->predecessor) {
		log_warn("upgrade refused: the process before this one has not ended yet");
		return;
	}
	if (getpid() == 1) {
		log_error("upgrade refused: this is process 1, and a container ends with it; "
			  "replace the container instead");
		return;
	}
	if (!roster_is_kept(daemon->roster) &&
		roster_is_in_force(daemon->roster, clock_wall_ns() / CLOCK_NS_PER_S)) {
		log_error("upgrade refused: keys or overrides of the admin interface are kept in "
			  "memory only, and a new process would not have them; state in [sluice] "
			  "keeps them");
		return;
	}
	if (daemon->reload)
		reload_continue(daemon); /* it waits for names */
	upgrade = calloc(1, sizeof(*upgrade));
	error = ENOMEM;
	if (upgrade) {
		upgrade->channel = -1;
		error = begin(daemon, upgrade);
	}
	if (error == 0) {
		daemon->upgrade = upgrade;
		log_info("upgrade: process %ld starts %s", (long)upgrade->pid,
			daemon->service->arguments[0]);
		return;
	}
	log_error("upgrade failed: %s; this process continues", strerror(error));
	upgrade_free(upgrade);
}

/* ---- in the new process ---------------------------------------------------------------------- */

bool upgrade_inherit(struct daemon *daemon)
{
	const char *text = getenv(ENVIRONMENT);
	char why[512] = "not a number", *end;
	long manifest;

	if (!text)
		return true;
	manifest = strtol(text, &end, 10);
	if (*text && *end == '\0' && manifest > STDERR_FILENO && manifest <= INT32_MAX)
		daemon->inherited = handover_read((int)manifest, why, sizeof(why));
	if (!daemon->inherited) {
		log_error(ENVIRONMENT
			" is \"%s\", which is reserved for the handover between processes: %s",
			text, why);
		return false;
	}
	close((int)manifest);
	fcntl(daemon->inherited->channel, F_SETFD, FD_CLOEXEC);
	unsetenv(ENVIRONMENT);
	return true;
}

static void on_predecessor(evutil_socket_t fd, short what, void *arg)
{
	struct daemon *daemon = arg;
	char byte;
	ssize_t got = read(fd, &byte, 1);

	(void)what;
	if (got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR)))
		return;
	event_free(daemon->predecessor);
	daemon->predecessor = NULL;
	close(fd);
	if (node_owners(&daemon->node))
		owners_set_predecessor(node_owners(&daemon->node), false);
	log_info("upgrade: the process before this one has ended");
	end_others(-1, 0, daemon);
	reload_if_it_waited(daemon);
}

static void set_servers(struct upstream *upstream, const struct handed_server *handed)
{
	for (size_t i = 0; i < upstream->server_count; i++) {
		struct server *server = &upstream->servers[i];
		if (strcmp(server->conf->address.text, handed->address) != 0)
			continue;
		server_set_mode(server, handed->mode);
		server_set_weight(server, handed->weight);
		log_info("upstream %s: server %s: %s, weight %u, as in the process before",
			handed->upstream, handed->address, server_mode_name(handed->mode),
			server_weight(server));
	}
}

void upgrade_take_servers(const struct daemon *daemon)
{
	const struct handover *inherited = daemon->inherited;
	const struct site *site = daemon->site;

	for (size_t i = 0; inherited && i < inherited->server_count; i++) {
		const struct handed_server *handed = &inherited->servers[i];
		for (size_t j = 0; j < site->conf->upstream_count; j++) {
			if (handed->mode < SERVER_MODES &&
				strcmp(site->upstreams[j]->conf->name, handed->upstream) == 0)
				set_servers(site->upstreams[j], handed);
		}
	}
}

/* Where the system refuses, in a second again: what waits for its end would wait for ever. */
static void watch_predecessor(evutil_socket_t fd, short what, void *arg)
{
	static const struct timeval second = {.tv_sec = 1};
	struct daemon *daemon = arg;

	(void)fd;
	(void)what;
	if (daemon->predecessor && event_add(daemon->predecessor, NULL) != 0 &&
		event_base_once(daemon->node.loop.base, -1, EV_TIMEOUT, watch_predecessor, daemon,
			&second) != 0)
		log_error("upgrade: no memory to notice the end of the process before this one");
}

void upgrade_report(struct daemon *daemon)
{
	struct handover *inherited = daemon->inherited;
	char text[32];

	if (!inherited)
		return;
	handover_close_rest(inherited);
	bindings_take_over(daemon);
	for (size_t i = 0; i < inherited->count; i++) {
		if (!inherited->sockets[i].is_taken)
			continue;
		snprintf(text, sizeof(text), "took %zu\n", i);
		write_text(inherited->channel, text);
	}
	/* Watched first: what waits for its end may come at once. */
	fcntl(inherited->channel, F_SETFL, O_NONBLOCK);
	daemon->predecessor = event_new(daemon->node.loop.base, inherited->channel,
		EV_READ | EV_PERSIST, on_predecessor, daemon);
	if (daemon->predecessor)
		watch_predecessor(-1, 0, daemon);
	write_text(inherited->channel, "ready\n");
	handover_free(inherited);
	daemon->inherited = NULL;
}

void upgrade_end(struct daemon *daemon)
{
	upgrade_cancel(daemon);
	if (daemon->predecessor) {
		close(event_get_fd(daemon->predecessor));
		event_free(daemon->predecessor);
	}
	daemon->predecessor = NULL;
	if (daemon->successor >= 0)
		close(daemon->successor);
	daemon->successor = -1;
	handover_free(daemon->inherited);
	daemon->inherited = NULL;
}
