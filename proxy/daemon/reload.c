#include "daemon/reload.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "conf/compare.h"
#include "conf/errors.h"
#include "daemon/binding.h"
#include "daemon/check.h"
#include "daemon/handover.h"
#include "daemon/probers.h"
#include "daemon/daemon.h"
#include "daemon/resolve.h"
#include "daemon/shared_upstream.h"
#include "daemon/upgrade.h"
#include "daemon/worker_parts.h"
#include "exchange/delay_line.h"
#include "exchange/pin.h"
#include "site/certificates.h"
#include "site/servers_tls.h"
#include "site/site_use.h"
#include "throttle/throttle.h"

/* Workers read the clock at each decision: what they pass is no older than that. */
#define CLOCK_GUARD_NS 0

uint64_t daemon_throttle_ns(const struct daemon *daemon)
{
	return clock_anchor_time(&daemon->node.anchor, clock_boot_ns());
}

static void log_throttles(const struct conf *conf, const struct throttle_report *report)
{
	struct conf_place place = conf_place(conf, conf_line(conf, "state"));

	if (report->found == THROTTLE_FOUND_UNUSABLE)
		log_warn("%s:%u: state = %s: %s; counting in memory only, from zero at each start",
			place.path, place.line, conf->state, report->text);
	else if (report->found == THROTTLE_FOUND_SET_ASIDE)
		log_warn(
			"%s:%u: state = %s: %s", place.path, place.line, conf->state, report->text);
	else if (conf->state)
		log_info("state = %s: %s", conf->state, report->text);
}

/* With what the process before has counted. */
static struct throttle_table *join_throttles(struct daemon *daemon, const struct conf *conf,
	const struct throttle_limit *limits, struct throttle_report *report)
{
	const struct handover *inherited = daemon->inherited;
	struct throttle_table_options options = {
		.folder = inherited->folder,
		.callers = conf->totals.callers,
		.now_ns = daemon_throttle_ns(daemon),
		.grows = true,
		.joins = true,
		.shared = inherited->table,
	};
	struct throttle_table *table = NULL;

	if (inherited->folder && (!conf->state || strcmp(conf->state, inherited->folder) != 0)) {
		log_error("upgrade: the table is in %s, and state = %s; expected the same",
			inherited->folder, conf->state ? conf->state : "");
	} else {
		table = throttle_table_open(&options, limits, conf->limit_count, report);
		if (!table)
			log_error("upgrade: limits: %s; reload first, then upgrade", report->text);
	}
	if (inherited->table >= 0)
		close(inherited->table);
	return table;
}

bool daemon_open_throttles(struct daemon *daemon, const struct conf *conf)
{
	struct throttle_report report;
	struct throttle_table_options options = {
		.folder = conf->state,
		.callers = conf->totals.callers,
		.now_ns = daemon_throttle_ns(daemon),
		.memory_if_unwritable = !conf->state_required,
		.grows = true,
	};
	struct throttle_limit *limits = gate_throttle_limits(conf, CLOCK_GUARD_NS);

	if (!limits) {
		log_error("%s: limits: %s", conf->path, strerror(errno));
		return false;
	}
	if (daemon->inherited)
		daemon->node.throttles = join_throttles(daemon, conf, limits, &report);
	else
		daemon->node.throttles =
			throttle_table_open(&options, limits, conf->limit_count, &report);
	free(limits);
	if (daemon->node.throttles)
		log_throttles(conf, &report);
	else if (!daemon->inherited && report.found == THROTTLE_FOUND_UNUSABLE)
		log_error("%s:%u: state = %s: %s; refusing to start (state_required = on)",
			CONF_PLACE_ARGS(conf, conf_line(conf, "state")), conf->state, report.text);
	else if (!daemon->inherited)
		log_error("limits: %s", report.text);
	return daemon->node.throttles != NULL;
}

void daemon_close_throttles(struct daemon *daemon)
{
	throttle_table_close(daemon->node.throttles);
	daemon->node.throttles = NULL;
}

void reload_write_warnings(const struct conf *conf)
{
	for (size_t i = 0; i < conf->warning_count; i++)
		log_warn("%s:%u: %s", CONF_PLACE_ARGS(conf, conf->warnings[i].line),
			conf->warnings[i].text);
}

void reload_note_change(struct daemon *daemon)
{
	/* release: pairs with the acquire in reload_seen */
	atomic_fetch_add_explicit(&daemon->reloads, 1, memory_order_release);
	for (unsigned i = 0; i < daemon->node.worker_count; i++)
		worker_command(daemon->node.workers[i], WORKER_SEEN);
}

void reload_seen(struct worker *worker)
{
	/* acquire: pairs with the release in daemon_reload, so it is no later than the limits that
	 * the next call finds */
	uint64_t reloads = atomic_load_explicit(&daemon_of(worker)->reloads, memory_order_acquire);

	/* release: pairs with the acquire in reload_collect; every call into the throttles that
	 * began before is over */
	atomic_store_explicit(&worker->inbox.reloads_seen, reloads, memory_order_release);
	daemon_tell_main(daemon_of(worker));
}

void reload_collect(struct daemon *daemon)
{
	/* relaxed: written by this thread */
	uint64_t reloads = atomic_load_explicit(&daemon->reloads, memory_order_relaxed);

	if (daemon->reloads_collected == reloads)
		return;
	for (unsigned i = 0; i < daemon->node.worker_count; i++) {
		/* acquire: pairs with the release in reload_seen */
		if (atomic_load_explicit(&daemon->node.workers[i]->inbox.reloads_seen,
			    memory_order_acquire) < reloads)
			return;
	}
	daemon->reloads_collected = reloads;
	throttle_table_collect(daemon->node.throttles);
	bindings_collect(daemon);
	queue_sweep_pins(daemon->node.queue, pin_is_of_site, daemon->site);
	for (size_t i = 0; i < daemon->site->conf->upstream_count; i++) {
		struct pace *pace = daemon->site->upstreams[i]->state->pace;
		if (pace)
			pace_collect(pace);
	}
	log_debug("the memory of the previous limits is freed");
}

/* ---- what changes ---------------------------------------------------------------------------- */

static bool is_for_new(const struct option *option)
{
	return option->reload == RELOAD_CONNECTIONS || option->reload == RELOAD_SOCKETS;
}

static void write_change(const void *user, const struct conf_change *change)
{
	const struct conf *conf = user;

	if (!change->option)
		log_info("%s: %s is %s", conf->path, change->title,
			change->kind == CONF_CHANGE_ADDED ? "new" : "gone");
	else if (change->option->reload == RELOAD_START)
		log_warn("%s:%u: %s %s has changed; it takes effect at the next start",
			CONF_PLACE_ARGS(conf, change->line), change->title, change->option->name);
	else
		log_info("%s: %s %s has changed%s", conf->path, change->title, change->option->name,
			is_for_new(change->option) ? "; for new connections" : "");
}

/* Against the last one; but what is taken only at a start against that, so that it is reported each
 * time until then. */
static void write_changes(const struct daemon *daemon, const struct conf *conf)
{
	conf_compare(daemon->site->conf, conf, CONF_COMPARE_LIVE, write_change, conf);
	conf_compare(daemon->begun_with, conf, CONF_COMPARE_START, write_change, conf);
}

/* ---- prepare --------------------------------------------------------------------------------- */

struct reload {
	const struct conf *conf; /* NULL: the site has it */
	struct site *site;
	struct throttle_change *throttles;
	struct log_change *logs;
	struct site_use **uses; /* [worker_count] */
	bool is_revision;
};

static bool prepare_throttles(struct daemon *daemon, struct reload *reload, const struct conf *conf)
{
	struct throttle_report report = {.text = "no memory"};
	struct throttle_limit *limits = gate_throttle_limits(conf, CLOCK_GUARD_NS);

	if (limits)
		reload->throttles =
			throttle_table_prepare(daemon->node.throttles, limits, conf->limit_count,
				conf->totals.callers, daemon_throttle_ns(daemon), &report);
	if (!reload->throttles)
		log_error("%s: limits: %s", conf->path, report.text);
	free(limits);
	return reload->throttles != NULL;
}

static bool prepare_uses(struct daemon *daemon, struct reload *reload)
{
	reload->uses = calloc(daemon->node.worker_count, sizeof(*reload->uses));
	for (unsigned i = 0; reload->uses && i < daemon->node.worker_count; i++) {
		reload->uses[i] = site_use_new(daemon->node.workers[i], reload->site);
		if (!reload->uses[i])
			return false;
	}
	return reload->uses != NULL;
}

void reload_discard(struct daemon *daemon, struct reload *reload)
{
	if (!reload)
		return;
	checks_discard(daemon->checks);
	resolver_discard(daemon->resolver);
	for (unsigned i = 0; reload->uses && i < daemon->node.worker_count; i++)
		site_use_free_unused(reload->uses[i]);
	free(reload->uses);
	if (reload->site)
		site_release(reload->site);
	throttle_table_discard(reload->throttles);
	log_discard(reload->logs);
	bindings_discard(daemon);
	conf_release(reload->conf);
	free(reload);
}

static bool prepare_all(struct daemon *daemon, struct reload *reload, const struct conf *conf)
{
	if (!bindings_prepare(daemon, conf))
		return false;
	reload->logs = log_prepare(
		daemon->node.log, conf->logs.level, conf->logs.error, conf->logs.access);
	if (!reload->logs || !prepare_throttles(daemon, reload, conf))
		return false;
	reload->site = site_new(conf, daemon->site->serial + 1, daemon->states,
		daemon->node.throttles, daemon->roster, daemon->node.stats, daemon->node.fleet);
	if (!reload->site)
		return false;
	reload->conf = NULL;
	if (!certificates_prepare(reload->site, daemon->site, &daemon->tls,
		    reload->is_revision ? CERTIFICATES_READ_CHANGED : CERTIFICATES_READ_ALL) ||
		!servers_tls_prepare(reload->site, daemon->site))
		return false;
	if (prepare_uses(daemon, reload) && resolver_prepare(daemon->resolver, reload->site) &&
		checks_prepare(daemon->checks, reload->site))
		return true;
	log_error("%s: %s", conf->path, strerror(ENOMEM));
	return false;
}

struct reload *reload_prepare(struct daemon *daemon, const struct conf *conf, bool is_revision)
{
	struct reload *reload = calloc(1, sizeof(*reload));

	if (!reload) {
		log_error("%s: %s", conf->path, strerror(ENOMEM));
		conf_release(conf);
		return NULL;
	}
	reload->conf = conf;
	reload->is_revision = is_revision;
	if (prepare_all(daemon, reload, conf))
		return reload;
	reload_discard(daemon, reload);
	return NULL;
}

/* ---- commit ---------------------------------------------------------------------------------- */

void reload_commit(struct daemon *daemon, struct reload *reload)
{
	struct throttle_report report;
	struct site *old = daemon->site, *site = reload->site;
	const struct conf *conf = site->conf;

	log_commit(daemon->node.log, reload->logs);
	if (throttle_table_commit(daemon->node.throttles, reload->throttles,
		    daemon_throttle_ns(daemon), &report) != 0)
		log_error("%s: limits: %s", conf->path, report.text);
	site_commit(site);
	servers_tls_commit_links(site, &daemon->node.links_tls);
	store_set_bounds(
		&daemon->node.store, conf->body_store.memory_bytes, conf->body_store.disk_bytes);
	daemon_bound_sends(daemon, conf);
	daemon->site = site;
	bindings_commit(daemon, conf);
	/* release: pairs with the acquire in reload_seen */
	atomic_fetch_add_explicit(&daemon->reloads, 1, memory_order_release);
	for (unsigned i = 0; i < daemon->node.worker_count; i++)
		site_use_post(daemon->node.workers[i], reload->uses[i]);
	delay_changed(node_delays(&daemon->node));
	resolver_commit(daemon->resolver, site);
	checks_commit(daemon->checks, site);
	semaphores_commit(daemon);
	health_share_commit(daemon);
	certificate_watch_look(daemon);
	site_release(old);
	free(reload->uses);
	free(reload);
}

static void finish(struct daemon *daemon, struct reload *reload)
{
	const struct conf *conf = reload->site->conf;
	bool is_revision = reload->is_revision;

	reload_write_warnings(conf);
	write_changes(daemon, conf);
	reload_commit(daemon, reload);
	if (is_revision)
		log_info("%s: the admin interface has changed settings; a reload restores those of "
			 "the file",
			daemon->site->conf->path);
	else
		log_info("%s: reloaded", daemon->site->conf->path);
	if (!is_revision)
		manager_reloaded(daemon, true);
}

void reload_cancel(struct daemon *daemon)
{
	reload_discard(daemon, daemon->reload);
	daemon->reload = NULL;
	event_del(daemon->reload_timer);
}

void reload_continue(struct daemon *daemon)
{
	struct reload *reload = daemon->reload;

	if (!reload)
		return;
	event_del(daemon->reload_timer);
	daemon->reload = NULL;
	finish(daemon, reload);
}

/* `conf` may be NULL: it had errors. */
static enum reload_outcome begin(struct daemon *daemon, const struct conf *conf,
	const struct conf_errors *errors, bool is_revision)
{
	struct timeval timeout = {
		.tv_sec = RESOLVE_START_MS / 1000, .tv_usec = RESOLVE_START_MS % 1000 * 1000};
	struct reload *reload = NULL;

	for (size_t i = 0; i < errors->count; i++)
		log_error("%s", errors->items[i].text);
	if (errors->incomplete)
		log_error("%s: %s", daemon->site->conf->path, strerror(ENOMEM));
	if (conf)
		reload = reload_prepare(daemon, conf, is_revision);
	if (!reload)
		return RELOAD_FAILED;
	/* A revision has no name that is new. */
	if (!is_revision && resolver_is_waiting(daemon->resolver) &&
		event_add(daemon->reload_timer, &timeout) == 0) {
		daemon->reload = reload;
		return RELOAD_WAITING;
	}
	finish(daemon, reload);
	return RELOAD_DONE;
}

enum reload_outcome daemon_reload(struct daemon *daemon, struct conf_errors *errors)
{
	struct conf_errors own = {0};
	struct conf_errors *found = errors ? errors : &own;

	if (upgrade_is_under_way(daemon)) {
		log_info("the reload waits until the upgrade is over");
		daemon->reload_waits = true;
		return RELOAD_WAITING;
	}
	reload_cancel(daemon);
	manager_reloading(daemon);
	struct conf *conf = daemon->service->load(daemon->service->ctx, found);
	enum reload_outcome outcome = begin(daemon, conf, found, false);
	if (outcome == RELOAD_FAILED) {
		log_error("%s: reload failed; keeping the running configuration",
			daemon->site->conf->path);
		manager_reloaded(daemon, false);
	}
	conf_errors_free(&own);
	return outcome;
}

enum reload_outcome daemon_revise(struct daemon *daemon, const struct conf_revision *revisions,
	size_t count, struct conf_errors *errors)
{
	assert(!daemon->reload);
	if (upgrade_is_under_way(daemon)) {
		conf_errors_add(errors, daemon->site->conf->path, 0,
			"an upgrade is under way; settings can be changed when it is over");
		return RELOAD_FAILED;
	}
	struct conf *conf = conf_revise(daemon->site->conf, revisions, count, errors);
	return begin(daemon, conf, errors, true);
}
