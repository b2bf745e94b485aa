#include "config.h"

#include "daemon/relay.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/signals.h"
#include "daemon/binding.h"
#include "daemon/check.h"
#include "daemon/descriptors.h"
#include "daemon/handover.h"
#include "daemon/health_share.h"
#include "daemon/pid_file.h"
#include "daemon/privileges.h"
#include "daemon/queue_deadline.h"
#include "daemon/reload.h"
#include "daemon/resolve.h"
#include "daemon/semaphores.h"
#include "daemon/stop.h"
#include "daemon/tally.h"
#include "daemon/upgrade.h"
#include "daemon/usage.h"
#include "daemon/worker_parts.h"
#include "exchange/delay_line.h"
#include "exchange/exchange.h"
#include "exchange/pin.h"
#include "ownership/owner_sweep.h"
#include "ownership/owners.h"
#include "site/certificates.h"
#include "fleet/fleet.h"
#include "fleet/owning.h"
#include "gate/roster.h"
#include "loop/loop.h"
#include "stats/stats.h"
#include "upstream/server_connection.h"

#define LOG_RING_BYTES (1024 * 1024)

static void dispatch(void *ctx, unsigned worker, struct ticket *ticket)
{
	struct relay *relay = ctx;

	message_post(&relay->node.workers[worker]->loop, &ticket->message);
}

/* ---- what the main loop hears ---------------------------------------------------------------- */

void relay_tell_main(struct relay *relay)
{
	/* Every turn of the main loop looks at `running` and at what workers have seen. */
	loop_wake(&relay->node.loop);
}

static void on_names_known(void *ctx)
{
	struct relay *relay = ctx;

	if (relay->reload)
		event_active(relay->reload_timer, EV_TIMEOUT, 0);
	else
		event_base_loopbreak(relay->node.loop.base); /* for resolver_wait */
}

/* What is kept to an address that a name no longer has is closed. */
static void on_address_left(void *ctx)
{
	struct relay *relay = ctx;

	if (relay->site)
		queue_sweep_pins(relay->node.queue, pin_is_of_site, relay->site);
	node_command_workers(&relay->node, WORKER_ADDRESSES);
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
	struct relay *relay = context;

	switch (number) {
	case SIGTERM:
	case SIGINT:
	case SIGQUIT:
		stop_by_signal(relay);
		break;
	case SIGHUP:
		if (!relay->node.stopping)
			relay_reload(relay, NULL);
		break;
	case SIGUSR1:
		log_reopen(relay->node.log);
		break;
	case SIGUSR2:
		upgrade_begin(relay);
		break;
	default:
		break;
	}
}

/* ---- starting -------------------------------------------------------------------------------- */

static bool make_loop(struct relay *relay)
{
	struct event_base *base;
	int error = loop_init(&relay->node.loop);

	if (error != 0) {
		log_error("main loop: %s", strerror(error));
		return false;
	}
	loop_enter(&relay->node.loop);
	base = relay->node.loop.base;
	relay->reload_timer = evtimer_new(base, on_reload_timer, relay);
	relay->resolver = resolver_new(base, &resolver_calls, relay);
	relay->checks = checks_new(&relay->node.loop);
	return growth_begin(relay) && certificate_watch_begin(relay) &&
	       failure_lines_begin(relay) && queue_deadline_begin(relay) && stop_prepare(relay) &&
	       relay->reload_timer && relay->resolver && relay->checks &&
	       signals_hold(&relay->signals, base, on_signal, relay);
}

static bool make_queue(struct relay *relay, const struct conf *conf)
{
	struct queue_config config = {
		.max_sessions = conf->totals.sessions,
		.max_queued = conf->totals.queue,
		.max_queued_bytes = conf->totals.queue_bytes,
		.callbacks = {.ctx = relay,
			.dispatch = dispatch,
			.unpin = pin_close,
			.timer_changed = queue_deadline_note},
	};

	relay->node.delays = delay_lines_new(relay->node.worker_count);
	relay->node.queue = relay->node.delays ? queue_create(&config) : NULL;
	if (relay->node.queue)
		relay->states = upstream_states_new(relay->node.queue, relay->node.worker_count);
	return relay->states && semaphores_begin(relay);
}

/* The room for bodies that are kept for slow clients. */
static bool make_store(struct relay *relay, const struct conf *conf)
{
	if (!store_init(&relay->node.store, conf->body_store.folder))
		return false;
	store_set_bounds(
		&relay->node.store, conf->body_store.memory_bytes, conf->body_store.disk_bytes);
	return true;
}

void relay_bound_sends(struct relay *relay, const struct conf *conf)
{
	/* Relaxed: bounds on sums, which order nothing. */
	atomic_store_explicit(
		&relay->node.sends.most, conf->totals.socket_queue_bytes, memory_order_relaxed);
	atomic_store_explicit(&relay->node.unfinished.most, conf->totals.socket_gather_bytes,
		memory_order_relaxed);
}

static bool start_workers(struct relay *relay)
{
	sigset_t all, before;

	relay->node.workers = calloc(relay->node.worker_count, sizeof(*relay->node.workers));
	if (!relay->node.workers)
		return false;
	for (unsigned i = 0; i < relay->node.worker_count; i++) {
		relay->node.workers[i] = worker_new(&relay->node, i, relay->site, worker_parts);
		if (!relay->node.workers[i])
			return false;
	}
	/* Signals are the main thread's. */
	signals_fill_but_faults(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	for (unsigned i = 0; i < relay->node.worker_count; i++) {
		int error = pthread_create(
			&relay->node.workers[i]->thread, NULL, worker_main, relay->node.workers[i]);
		if (error != 0) {
			log_error("worker %u: %s", i, strerror(error));
			pthread_sigmask(SIG_SETMASK, &before, NULL);
			return false;
		}
		atomic_fetch_add(&relay->node.running, 1);
	}
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return true;
}

/* `sluice is ready on 0.0.0.0:80, unix:/run/s: /etc/sluice/sluice.ini, 4 workers` */
static void log_ready(const struct relay *relay, const struct conf *conf)
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
		relay->node.worker_count);
}

/* Without Redis no configuration has a limit of the fleet. */
static bool make_fleet(struct relay *relay)
{
#ifdef HAVE_REDIS
	relay->node.fleet = fleet_new(relay->node.throttles);
	relay->node.owners = owners_new(&owning_store, relay->states);
	if (!relay->node.fleet || !relay->node.owners)
		log_error("fleet: %s", strerror(ENOMEM));
	else
		owners_set_predecessor(relay->node.owners, relay->inherited != NULL);
	return relay->node.fleet && relay->node.owners;
#else
	(void)relay;
	return true;
#endif
}

/* In memory when the state folder can't be used, as the throttles are. */
static bool open_roster(struct relay *relay, const struct conf *conf)
{
	uint64_t now_s = clock_wall_ns() / CLOCK_NS_PER_S;
	char why[512];

	relay->roster = roster_open(conf->state, now_s, why, sizeof(why));
	if (!relay->roster && !conf->state_required) {
		log_warn("%s; keys and overrides are kept in memory only", why);
		relay->roster = roster_open(NULL, now_s, why, sizeof(why));
	}
	if (!relay->roster)
		log_error("keys and overrides: %s", why);
	else if (*why)
		log_error("%s", why);
	return relay->roster != NULL;
}

/* Nothing can fail any more: until here, the process before serves those that wait. */
static void serve(struct relay *relay, const struct conf *conf)
{
	semaphores_commit(relay);
	health_share_commit(relay);
	certificate_watch_look(relay);
	node_command_workers(&relay->node, WORKER_LISTEN);
	log_ready(relay, conf);
	upgrade_report(relay);
	manager_ready(relay);
}

static bool open_log(struct relay *relay, const struct conf *conf)
{
	relay->node.log = log_open(conf->workers + 1, LOG_RING_BYTES, conf->logs.level,
		conf->logs.error, conf->logs.access);
	if (!relay->node.log)
		return false;
	log_thread_attach(relay->node.log, 0);
	loop_log_libevent();
	return true;
}

static bool start(struct relay *relay, struct conf *conf)
{
	relay->node.worker_count = conf->workers;
	clock_anchor_init(&relay->node.anchor, clock_boot_ns(), clock_wall_ns());
	relay->node.listening = &relay->listening;
	pthread_mutex_init(&relay->listening.lock, NULL);
	if (!open_log(relay, conf)) {
		conf_release(conf);
		return false;
	}
	if (!upgrade_inherit(relay)) {
		conf_release(conf);
		return false;
	}
	if (relay->inherited)
		relay->node.anchor.offset_ns = relay->inherited->clock_offset_ns;
	reload_write_warnings(conf);
	if (!make_store(relay, conf)) {
		conf_release(conf);
		return false;
	}
	relay_bound_sends(relay, conf);
	descriptors_divide(relay, conf);
	/* Two that count apart would admit twice what the limits say. */
	if ((!conf->state && !bindings_are_free(conf, relay->inherited)) ||
		!bindings_prepare(relay, conf) ||
		!relay->service->open(relay->service->ctx, conf, relay->inherited) ||
		!privileges_drop(relay, conf) || !make_loop(relay) || !make_queue(relay, conf) ||
		!relay_open_throttles(relay, conf) || !make_fleet(relay) ||
		!health_share_begin(relay) || !open_roster(relay, conf) ||
		!(relay->node.stats = stats_new(relay->node.worker_count)) ||
		!(relay->site = site_new(conf, 1, relay->states, relay->node.throttles,
			  relay->roster, relay->node.stats, relay->node.fleet))) {
		conf_release(conf);
		return false;
	}
	if (!certificates_prepare(relay->site, NULL, worker_protocol_names, CERTIFICATES_READ_ALL))
		return false;
	upgrade_take_servers(relay);
	bindings_commit(relay, conf);
	site_commit(relay->site);
	if (!resolver_prepare(relay->resolver, relay->site) ||
		!checks_prepare(relay->checks, relay->site)) {
		log_error("%s: %s", conf->path, strerror(ENOMEM));
		return false;
	}
	resolver_wait(relay->resolver, RESOLVE_START_MS);
	resolver_commit(relay->resolver, relay->site);
	checks_commit(relay->checks, relay->site);
	if (!pid_file_write(conf))
		return false;
	relay->begun_with = conf_hold(conf);
	if (!usage_begin(relay, conf) || !start_workers(relay) ||
		!relay->service->start(relay->service->ctx, relay) ||
		!signals_take(&relay->signals)) /* which needs all of the above */
		return false;
	serve(relay, conf);
	return true;
}

static void finish(struct relay *relay)
{
	for (unsigned i = 0; relay->node.workers && i < relay->node.worker_count; i++) {
		if (relay->node.workers[i] && relay->node.workers[i]->thread)
			pthread_join(relay->node.workers[i]->thread, NULL);
	}
	relay->service->close(relay->service->ctx);
	semaphores_end(relay);
	upgrade_end(relay);
	if (relay->reload)
		reload_cancel(relay);
	failure_lines_write_all(relay);
	if (relay->begun_with)
		tally_log(relay);
	usage_end(relay);
	health_share_end(relay);
	checks_free(relay->checks);
	if (relay->resolver)
		resolver_commit(relay->resolver, NULL);
	pid_file_remove(relay);
	for (unsigned i = 0; relay->node.workers && i < relay->node.worker_count; i++) {
		if (relay->node.workers[i])
			worker_free(relay->node.workers[i]);
	}
	if (relay->node.queue)
		queue_sweep_pins(relay->node.queue, pin_is_of_site, NULL);
	if (relay->site)
		site_release(relay->site);
	conf_release(relay->begun_with);
	owners_free(relay->node.owners);
	upstream_states_free(relay->states);
	queue_destroy(relay->node.queue);
	delay_lines_free(relay->node.delays);
	store_end(&relay->node.store);
#ifdef HAVE_REDIS
	fleet_free(relay->node.fleet);
#endif
	relay_close_throttles(relay);
	roster_close(relay->roster);
	stats_free(relay->node.stats);
	bindings_free(relay);
	signals_end(&relay->signals);
	queue_deadline_end(relay);
	stop_end(relay);
	if (relay->reload_timer)
		event_free(relay->reload_timer);
	growth_end(relay);
	certificate_watch_end(relay);
	failure_lines_end(relay);
	manager_close(relay);
	loop_finish_callbacks(&relay->node.loop);
	resolver_free(relay->resolver); /* its look-ups were freed in callbacks */
	loop_enter(NULL);
	loop_end(&relay->node.loop);
	pthread_mutex_destroy(&relay->listening.lock);
	free(relay->node.workers);
	log_info("sluice has stopped");
	log_thread_attach(NULL, 0);
	if (relay->node.log)
		log_close(relay->node.log);
}

int relay_run(struct conf *conf, const struct relay_service *service)
{
	struct relay relay = {.service = service,
		.signals.fd = -1,
		.successor = -1,
		.started_ns = clock_monotonic_ns()};

	signal(SIGPIPE, SIG_IGN);
	signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error of its write */
	signals_block();
	if (!start(&relay, conf)) {
		relay.exit_status = 1;
		if (atomic_load(&relay.node.running) > 0)
			node_command_workers(&relay.node, WORKER_STOP);
	}
	while (atomic_load_explicit(&relay.node.running, memory_order_acquire) > 0) {
		int error = loop_run_turn(&relay.node.loop);
		if (error != 0) {
			log_error("the main event loop failed: %s", strerror(error));
			relay.exit_status = 1;
			node_command_workers(&relay.node, WORKER_STOP);
			break;
		}
		reload_collect(&relay);
		growth_make(&relay);
		queue_deadline_arm(&relay);
	}
	int status = relay.exit_status;
	finish(&relay);
	return status;
}
