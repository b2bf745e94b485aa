#include "daemon/daemon.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "base/clock.h"
#include "base/signals.h"
#include "daemon/binding.h"
#include "daemon/check.h"
#include "daemon/pid_file.h"
#include "daemon/handover.h"
#include "daemon/probers.h"
#include "daemon/reload.h"
#include "daemon/resolve.h"
#include "daemon/shared_upstream.h"
#include "daemon/signals.h"
#include "daemon/usage.h"
#include "daemon/upgrade.h"
#include "daemon/worker_parts.h"
#include "exchange/delay_line.h"
#include "exchange/exchange.h"
#include "exchange/pin.h"
#include "ownership/owner_sweep.h"
#include "ownership/owners.h"
#include "site/certificates.h"
#include "site/servers_tls.h"
#include "fleet/fleet.h"
#include "fleet/owning.h"
#include "gate/roster.h"
#include "loop/loop.h"
#include "stats/stats.h"
#include "upstream/server_connection.h"

#define LOG_RING_BYTES (1024 * 1024)

static void dispatch(void *ctx, unsigned worker, struct ticket *ticket)
{
	struct daemon *daemon = ctx;

	message_post(&daemon->node.workers[worker]->loop, &ticket->message);
}

/* ---- what the main loop hears ---------------------------------------------------------------- */

void daemon_tell_main(struct daemon *daemon)
{
	/* Every turn of the main loop looks at `running` and at what workers have seen. */
	loop_wake(&daemon->node.loop);
}

static void on_names_known(void *ctx)
{
	struct daemon *daemon = ctx;

	if (daemon->reload)
		event_active(daemon->reload_timer, EV_TIMEOUT, 0);
	else
		event_base_loopbreak(daemon->node.loop.base); /* for resolver_wait */
}

/* What is kept to an address that a name no longer has is closed. */
static void on_address_left(void *ctx)
{
	struct daemon *daemon = ctx;

	if (daemon->site)
		queue_sweep_pins(daemon->node.queue, pin_is_of_site, daemon->site);
	node_command_workers(&daemon->node, WORKER_ADDRESSES);
}

static const struct resolver_calls resolver_calls = {on_names_known, on_address_left};

static void on_reload_timer(evutil_socket_t fd, short what, void *arg)
{
	(void)fd;
	(void)what;
	reload_continue(arg);
}

static void on_signal(int number, void *context)
{
	struct daemon *daemon = context;

	switch (number) {
	case SIGTERM:
	case SIGINT:
	case SIGQUIT:
		stop_by_signal(daemon);
		break;
	case SIGHUP:
		if (!daemon->node.stopping)
			daemon_reload(daemon, NULL);
		break;
	case SIGUSR1:
		log_reopen(daemon->node.log);
		break;
	case SIGUSR2:
		upgrade_begin(daemon);
		break;
	default:
		break;
	}
}

/* ---- starting -------------------------------------------------------------------------------- */

static bool make_loop(struct daemon *daemon)
{
	struct event_base *base;
	int error = loop_init(&daemon->node.loop);

	if (error != 0) {
		log_error("main loop: %s", strerror(error));
		return false;
	}
	loop_enter(&daemon->node.loop);
	base = daemon->node.loop.base;
	daemon->reload_timer = evtimer_new(base, on_reload_timer, daemon);
	daemon->resolver = resolver_new(base, &resolver_calls, daemon);
	daemon->checks = checks_new(&daemon->node.loop);
	return growth_begin(daemon) && certificate_watch_begin(daemon) &&
	       failure_lines_begin(daemon) && queue_deadline_begin(daemon) &&
	       stop_prepare(daemon) && daemon->reload_timer && daemon->resolver && daemon->checks &&
	       signals_hold(&daemon->signals, base, on_signal, daemon);
}

static bool make_queue(struct daemon *daemon, const struct conf *conf)
{
	struct queue_config config = {
		.max_sessions = conf->totals.sessions,
		.max_queued = conf->totals.queue,
		.max_queued_bytes = conf->totals.queue_bytes,
		.callbacks = {.ctx = daemon,
			.dispatch = dispatch,
			.unpin = pin_close,
			.timer_changed = queue_deadline_note},
	};

	daemon->node.shared[NODE_DELAYS] = delay_lines_new(daemon->node.worker_count);
	daemon->node.queue = node_delays(&daemon->node) ? queue_create(&config) : NULL;
	if (daemon->node.queue)
		daemon->states = upstream_states_new(daemon->node.queue, daemon->node.worker_count);
	return daemon->states && semaphores_begin(daemon);
}

/* The room for bodies that are kept for slow clients. */
static bool make_store(struct daemon *daemon, const struct conf *conf)
{
	if (!store_init(&daemon->node.store, conf->body_store.folder))
		return false;
	store_set_bounds(
		&daemon->node.store, conf->body_store.memory_bytes, conf->body_store.disk_bytes);
	return true;
}

void daemon_bound_sends(struct daemon *daemon, const struct conf *conf)
{
	/* Relaxed: bounds on sums, which order nothing. */
	atomic_store_explicit(
		&daemon->node.sends.most, conf->totals.socket_queue_bytes, memory_order_relaxed);
	atomic_store_explicit(&daemon->node.unfinished.most, conf->totals.socket_gather_bytes,
		memory_order_relaxed);
}

static bool start_workers(struct daemon *daemon)
{
	sigset_t all, before;

	daemon->node.workers = calloc(daemon->node.worker_count, sizeof(*daemon->node.workers));
	if (!daemon->node.workers)
		return false;
	for (unsigned i = 0; i < daemon->node.worker_count; i++) {
		daemon->node.workers[i] = worker_new(&daemon->node, i, daemon->site, worker_parts);
		if (!daemon->node.workers[i])
			return false;
	}
	/* Signals are the main thread's. */
	signals_fill_but_faults(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	for (unsigned i = 0; i < daemon->node.worker_count; i++) {
		int error = pthread_create(&daemon->node.workers[i]->thread, NULL, worker_main,
			daemon->node.workers[i]);
		if (error != 0) {
			log_error("worker %u: %s", i, strerror(error));
			pthread_sigmask(SIG_SETMASK, &before, NULL);
			return false;
		}
		atomic_fetch_add(&daemon->node.running, 1);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return true;
}

/* `sluice is ready on 0.0.0.0:80, unix:/run/s: /etc/sluice/sluice.ini, 4 workers` */
static void log_ready(const struct daemon *daemon, const struct conf *conf)
{
	char addresses[1024];
	size_t used = 0;

	addresses[0] = '\0';
	for (size_t i = 0; i < conf->listener_count; i++) {
		const struct conf_listener *listener = &conf->listeners[i];

		for (size_t j = 0; j < listener->bind_count && used < sizeof(addresses); j++)
			used += (size_t)snprintf(addresses + used, sizeof(addresses) - used, "%s%s",
				used ? ", " : " on ", listener->binds[j].text);
	}
	if (used >= sizeof(addresses))
		memcpy(addresses + sizeof(addresses) - 4, "...", 4);
	log_info("sluice is ready%s: %s, %u workers", addresses, conf->path,
		daemon->node.worker_count);
}

/* Without Redis no configuration has a limit of the fleet. */
static bool make_fleet(struct daemon *daemon)
{
#ifdef HAVE_REDIS
	daemon->node.fleet = fleet_new(daemon->node.throttles);
	daemon->node.shared[NODE_OWNERS] = owners_new(&owning_store, daemon->states);
	if (!daemon->node.fleet || !node_owners(&daemon->node))
		log_error("fleet: %s", strerror(ENOMEM));
	else
		owners_set_predecessor(node_owners(&daemon->node), daemon->inherited != NULL);
	return daemon->node.fleet && node_owners(&daemon->node);
#else
	(void)daemon;
	return true;
#endif
}

/* In memory when the state folder can't be used, as the throttles are. */
static bool open_roster(struct daemon *daemon, const struct conf *conf)
{
	uint64_t now_s = clock_wall_ns() / CLOCK_NS_PER_S;
	char why[512];

	daemon->roster = roster_open(conf->state, now_s, why, sizeof(why));
	if (!daemon->roster && !conf->state_required) {
		log_warn("%s; keys and overrides are kept in memory only", why);
		daemon->roster = roster_open(NULL, now_s, why, sizeof(why));
	}
	if (!daemon->roster)
		log_error("keys and overrides: %s", why);
	else if (*why)
		log_error("%s", why);
	return daemon->roster != NULL;
}

/* Nothing can fail any more: until here, the process before serves those that wait. */
static void serve(struct daemon *daemon, const struct conf *conf)
{
	semaphores_commit(daemon);
	health_share_commit(daemon);
	certificate_watch_look(daemon);
	node_command_workers(&daemon->node, WORKER_LISTEN);
	log_ready(daemon, conf);
	upgrade_report(daemon);
	manager_ready(daemon);
}

static bool open_log(struct daemon *daemon, const struct conf *conf)
{
	daemon->node.log = log_open(conf->workers + 1, LOG_RING_BYTES, conf->logs.level,
		conf->logs.error, conf->logs.access);
	if (!daemon->node.log)
		return false;
	log_thread_attach(daemon->node.log, 0);
	loop_log_libevent();
	return true;
}

static bool start(struct daemon *daemon, struct conf *conf)
{
	daemon->node.worker_count = conf->workers;
	clock_anchor_init(&daemon->node.anchor, clock_boot_ns(), clock_wall_ns());
	daemon->node.shared[NODE_LISTENING] = &daemon->listening;
	pthread_mutex_init(&daemon->listening.lock, NULL);
	if (!open_log(daemon, conf)) {
		conf_release(conf);
		return false;
	}
	if (!upgrade_inherit(daemon)) {
		conf_release(conf);
		return false;
	}
	if (daemon->inherited)
		daemon->node.anchor.offset_ns = daemon->inherited->clock_offset_ns;
	reload_write_warnings(conf);
	if (!make_store(daemon, conf)) {
		conf_release(conf);
		return false;
	}
	daemon_bound_sends(daemon, conf);
	descriptors_divide(daemon, conf);
	/* Two that count apart would admit twice what the limits say. */
	if ((!conf->state && !bindings_are_free(conf, daemon->inherited)) ||
		!bindings_prepare(daemon, conf) ||
		!daemon->service->open(daemon->service->ctx, conf, daemon->inherited) ||
		!privileges_drop(daemon, conf) || !make_loop(daemon) || !make_queue(daemon, conf) ||
		!daemon_open_throttles(daemon, conf) || !make_fleet(daemon) ||
		!health_share_begin(daemon) || !open_roster(daemon, conf) ||
		!(daemon->node.stats = stats_new(daemon->node.worker_count)) ||
		!(daemon->site = site_new(conf, 1, daemon->states, daemon->node.throttles,
			  daemon->roster, daemon->node.stats, daemon->node.fleet))) {
		conf_release(conf);
		return false;
	}
	if (!certificates_prepare(daemon->site, NULL, &daemon->tls, CERTIFICATES_READ_ALL) ||
		!servers_tls_prepare(daemon->site, NULL))
		return false;
	upgrade_take_servers(daemon);
	bindings_commit(daemon, conf);
	site_commit(daemon->site);
	servers_tls_commit_links(daemon->site, &daemon->node.links_tls);
	if (!resolver_prepare(daemon->resolver, daemon->site) ||
		!checks_prepare(daemon->checks, daemon->site)) {
		log_error("%s: %s", conf->path, strerror(ENOMEM));
		return false;
	}
	resolver_wait(daemon->resolver, RESOLVE_START_MS);
	resolver_commit(daemon->resolver, daemon->site);
	checks_commit(daemon->checks, daemon->site);
	if (!pid_file_write(conf))
		return false;
	daemon->begun_with = conf_hold(conf);
	if (!usage_begin(daemon, conf) || !start_workers(daemon) ||
		!daemon->service->start(daemon->service->ctx, daemon) ||
		!signals_take(&daemon->signals)) /* which needs all of the above */
		return false;
	serve(daemon, conf);
	return true;
}

static void finish(struct daemon *daemon)
{
	for (unsigned i = 0; daemon->node.workers && i < daemon->node.worker_count; i++) {
		if (daemon->node.workers[i] && daemon->node.workers[i]->thread)
			pthread_join(daemon->node.workers[i]->thread, NULL);
	}
	daemon->service->close(daemon->service->ctx);
	semaphores_end(daemon);
	upgrade_end(daemon);
	if (daemon->reload)
		reload_cancel(daemon);
	failure_lines_write_all(daemon);
	if (daemon->begun_with)
		tally_log(daemon);
	usage_end(daemon);
	health_share_end(daemon);
	checks_free(daemon->checks);
	if (daemon->resolver)
		resolver_commit(daemon->resolver, NULL);
	pid_file_remove(daemon);
	for (unsigned i = 0; daemon->node.workers && i < daemon->node.worker_count; i++) {
		if (daemon->node.workers[i])
			worker_free(daemon->node.workers[i]);
	}
	if (daemon->node.queue)
		queue_sweep_pins(daemon->node.queue, pin_is_of_site, NULL);
	if (daemon->site)
		site_release(daemon->site);
	conf_release(daemon->begun_with);
	owners_free(node_owners(&daemon->node));
	upstream_states_free(daemon->states);
	queue_destroy(daemon->node.queue);
	delay_lines_free(node_delays(&daemon->node));
	store_end(&daemon->node.store);
#ifdef HAVE_REDIS
	fleet_free(daemon->node.fleet);
#endif
	daemon_close_throttles(daemon);
	roster_close(daemon->roster);
	stats_free(daemon->node.stats);
	bindings_free(daemon);
	signals_end(&daemon->signals);
	queue_deadline_end(daemon);
	stop_end(daemon);
	if (daemon->reload_timer)
		event_free(daemon->reload_timer);
	growth_end(daemon);
	certificate_watch_end(daemon);
	failure_lines_end(daemon);
	manager_close(daemon);
	loop_finish_callbacks(&daemon->node.loop);
	resolver_free(daemon->resolver); /* its look-ups were freed in callbacks */
	loop_enter(NULL);
	loop_end(&daemon->node.loop);
	pthread_mutex_destroy(&daemon->listening.lock);
	free(daemon->node.workers);
	log_info("sluice has stopped");
	log_thread_attach(NULL, 0);
	if (daemon->node.log)
		log_close(daemon->node.log);
}

int daemon_run(struct conf *conf, const struct daemon_service *service)
{
	struct daemon daemon = {.service = service,
		.signals.fd = -1,
		.successor = -1,
		.started_ns = clock_monotonic_ns()};

	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error of its write */
	signals_block();
	if (!start(&daemon, conf)) {
		daemon.exit_status = 1;
		if (atomic_load(&daemon.node.running) > 0)
			node_command_workers(&daemon.node, WORKER_STOP);
	}
	while (atomic_load_explicit(&daemon.node.running, memory_order_acquire) > 0) {
		int error = loop_run_turn(&daemon.node.loop);
		if (error != 0) {
			log_error("the main event loop failed: %s", strerror(error));
			daemon.exit_status = 1;
			node_command_workers(&daemon.node, WORKER_STOP);
			break;
		}
		reload_collect(&daemon);
		growth_make(&daemon);
		queue_deadline_arm(&daemon);
	}
	int status = daemon.exit_status;
	finish(&daemon);
	return status;
}

/* ---- queue deadline ------------------------------------------------------------------------- */

void queue_deadline_note(void *ctx, uint64_t deadline_ns)
{
	struct daemon *daemon = ctx;
	uint64_t known = atomic_load(&daemon->queue_deadline.at_ns);

	while (deadline_ns < known) {
		if (atomic_compare_exchange_weak(
			    &daemon->queue_deadline.at_ns, &known, deadline_ns)) {
			loop_wake(&daemon->node.loop);
			return;
		}
	}
}

void queue_deadline_arm(struct daemon *daemon)
{
	uint64_t deadline = atomic_load(&daemon->queue_deadline.at_ns), now = clock_monotonic_ns();

	if (deadline == QUEUE_NEVER)
		return;
	uint64_t wait_us = deadline > now ? (deadline - now) / 1000 + 1 : 0;
	struct timeval interval = {
		.tv_sec = (time_t)(wait_us / 1000000), .tv_usec = (suseconds_t)(wait_us % 1000000)};
	if (event_add(daemon->queue_deadline.timer, &interval) != 0)
		loop_hurry(&daemon->node.loop); /* the next turn arms it */
}

static void on_queue_timer(evutil_socket_t fd, short what, void *arg)
{
	struct daemon *daemon = arg;

	(void)fd;
	(void)what;
	/* Cleared first: a deadline noted from now on is armed at the end of the turn. */
	atomic_store(&daemon->queue_deadline.at_ns, QUEUE_NEVER);
	uint64_t next = queue_expire(daemon->node.queue, clock_monotonic_ns());
	queue_deadline_note(daemon, next);
}

bool queue_deadline_begin(struct daemon *daemon)
{
	atomic_init(&daemon->queue_deadline.at_ns, QUEUE_NEVER);
	daemon->queue_deadline.timer = evtimer_new(daemon->node.loop.base, on_queue_timer, daemon);
	return daemon->queue_deadline.timer != NULL;
}

void queue_deadline_end(struct daemon *daemon)
{
	if (daemon->queue_deadline.timer)
		event_free(daemon->queue_deadline.timer);
}
