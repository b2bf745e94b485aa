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
#include "daemon/health_share.h"
#include "daemon/relay.h"
#include "daemon/resolve.h"
#include "daemon/semaphores.h"
#include "daemon/upgrade.h"
#include "daemon/worker_parts.h"
#include "exchange/delay_line.h"
#include "exchange/pin.h"
#include "site/certificates.h"
#include "site/site_use.h"
#include "throttle/throttle.h"

/* Workers read the clock at each decision: what they pass is no older than that. */
#define CLOCK_GUARD_NS 0

uint64_t relay_throttle_ns(const struct relay *relay)
{
	return clock_anchor_time(&relay->node.anchor, clock_boot_ns());
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
static struct throttle_table *join_throttles(struct relay *relay, const struct conf *conf,
	const struct throttle_limit *limits, struct throttle_report *report)
{
	const struct handover *inherited = relay->inherited;
	struct throttle_table_options options = {
		.folder = inherited->folder,
		.callers = conf->totals.callers,
		.now_ns = relay_throttle_ns(relay),
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

bool relay_open_throttles(struct relay *relay, const struct conf *conf)
{
	struct throttle_report report;
	struct throttle_table_options options = {
		.folder = conf->state,
		.callers = conf->totals.callers,
		.now_ns = relay_throttle_ns(relay),
		.memory_if_unwritable = !conf->state_required,
		.grows = true,
	};
	struct throttle_limit *limits = gate_throttle_limits(conf, CLOCK_GUARD_NS);

	if (!limits) {
		log_error("%s: limits: %s", conf->path, strerror(errno));
		return false;
	}
	if (relay->inherited)
		relay->node.throttles = join_throttles(relay, conf, limits, &report);
	else
		relay->node.throttles =
			throttle_table_open(&options, limits, conf->limit_count, &report);
	free(limits);
	if (relay->node.throttles)
		log_throttles(conf, &report);
	else if (!relay->inherited && report.found == THROTTLE_FOUND_UNUSABLE)
		log_error("%s:%u: state = %s: %s; refusing to start (state_required = on)",
			CONF_PLACE_ARGS(conf, conf_line(conf, "state")), conf->state, report.text);
	else if (!relay->inherited)
		log_error("limits: %s", report.text);
	return relay->node.throttles != NULL;
}

void relay_close_throttles(struct relay *relay)
{
	throttle_table_close(relay->node.throttles);
	relay->node.throttles = NULL;
}

void reload_write_warnings(const struct conf *conf)
{
	for (size_t i = 0; i < conf->warning_count; i++)
		log_warn("%s:%u: %s", CONF_PLACE_ARGS(conf, conf->warnings[i].line),
			conf->warnings[i].text);
}

void reload_note_change(struct relay *relay)
{
	/* release: pairs with the acquire in reload_seen */
	atomic_fetch_add_explicit(&relay->reloads, 1, memory_order_release);
	for (unsigned i = 0; i < relay->node.worker_count; i++)
		worker_command(relay->node.workers[i], WORKER_SEEN);
}

void reload_seen(struct worker *worker)
{
	/* acquire: pairs with the release in relay_reload, so it is no later than the limits that
	 * the next call finds */
	uint64_t reloads = atomic_load_explicit(&relay_of(worker)->reloads, memory_order_acquire);

	/* release: pairs with the acquire in reload_collect; every call into the throttles that
	 * began before is over */
	atomic_store_explicit(&worker->inbox.reloads_seen, reloads, memory_order_release);
	relay_tell_main(relay_of(worker));
}

void reload_collect(struct relay *relay)
{
	/* relaxed: written by this thread */
	uint64_t reloads = atomic_load_explicit(&relay->reloads, memory_order_relaxed);

	if (relay->reloads_collected == reloads)
		return;
	for (unsigned i = 0; i < relay->node.worker_count; i++) {
		/* acquire: pairs with the release in reload_seen */
		if (atomic_load_explicit(&relay->node.workers[i]->inbox.reloads_seen,
			    memory_order_acquire) < reloads)
			return;
	}
	relay->reloads_collected = reloads;
	throttle_table_collect(relay->node.throttles);
	bindings_collect(relay);
	queue_sweep_pins(relay->node.queue, pin_is_of_site, relay->site);
	for (size_t i = 0; i < relay->site->conf->upstream_count; i++) {
		struct pace *pace = relay->site->upstreams[i]->state->pace;
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
static void write_changes(const struct relay *relay, const struct conf *conf)
{
	conf_compare(relay->site->conf, conf, CONF_COMPARE_LIVE, write_change, conf);
	conf_compare(relay->begun_with, conf, CONF_COMPARE_START, write_change, conf);
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

static bool prepare_throttles(struct relay *relay, struct reload *reload, const struct conf *conf)
{
	struct throttle_report report = {.text = "no memory"};
	struct throttle_limit *limits = gate_throttle_limits(conf, CLOCK_GUARD_NS);

	if (limits)
		reload->throttles = throttle_table_prepare(relay->node.throttles, limits,
			conf->limit_count, conf->totals.callers, relay_throttle_ns(relay), &report);
	if (!reload->throttles)
		log_error("%s: limits: %s", conf->path, report.text);
	free(limits);
	return reload->throttles != NULL;
}

static bool prepare_uses(struct relay *relay, struct reload *reload)
{
	reload->uses = calloc(relay->node.worker_count, sizeof(*reload->uses));
	for (unsigned i = 0; reload->uses && i < relay->node.worker_count; i++) {
		reload->uses[i] = site_use_new(relay->node.workers[i], reload->site);
		if (!reload->uses[i])
			return false;
	}
	return reload->uses != NULL;
}

void reload_discard(struct relay *relay, struct reload *reload)
{
	if (!reload)
		return;
	checks_discard(relay->checks);
	resolver_discard(relay->resolver);
	for (unsigned i = 0; reload->uses && i < relay->node.worker_count; i++)
		site_use_free_unused(reload->uses[i]);
	free(reload->uses);
	if (reload->site)
		site_release(reload->site);
	throttle_table_discard(reload->throttles);
	log_discard(reload->logs);
	bindings_discard(relay);
	conf_release(reload->conf);
	free(reload);
}

static bool prepare_all(struct relay *relay, struct reload *reload, const struct conf *conf)
{
	if (!bindings_prepare(relay, conf))
		return false;
	reload->logs =
		log_prepare(relay->node.log, conf->logs.level, conf->logs.error, conf->logs.access);
	if (!reload->logs || !prepare_throttles(relay, reload, conf))
		return false;
	reload->site = site_new(conf, relay->site->serial + 1, relay->states, relay->node.throttles,
		relay->roster, relay->node.stats, relay->node.fleet);
	if (!reload->site)
		return false;
	reload->conf = NULL;
	if (!certificates_prepare(reload->site, relay->site, worker_protocol_names,
		    reload->is_revision ? CERTIFICATES_READ_CHANGED : CERTIFICATES_READ_ALL))
		return false;
	if (prepare_uses(relay, reload) && resolver_prepare(relay->resolver, reload->site) &&
		checks_prepare(relay->checks, reload->site))
		return true;
	log_error("%s: %s", conf->path, strerror(ENOMEM));
	return false;
}

struct reload *reload_prepare(struct relay *relay, const struct conf *conf, bool is_revision)
{
	struct reload *reload = calloc(1, sizeof(*reload));

	if (!reload) {
		log_error("%s: %s", conf->path, strerror(ENOMEM));
		conf_release(conf);
		return NULL;
	}
	reload->conf = conf;
	reload->is_revision = is_revision;
	if (prepare_all(relay, reload, conf))
		return reload;
	reload_discard(relay, reload);
	return NULL;
}

/* ---- commit ---------------------------------------------------------------------------------- */

void reload_commit(struct relay *relay, struct reload *reload)
{
	struct throttle_report report;
	struct site *old = relay->site, *site = reload->site;
	const struct conf *conf = site->conf;

	log_commit(relay->node.log, reload->logs);
	if (throttle_table_commit(relay->node.throttles, reload->throttles,
		    relay_throttle_ns(relay), &report) != 0)
		log_error("%s: limits: %s", conf->path, report.text);
	site_commit(site);
	store_set_bounds(
		&relay->node.store, conf->body_store.memory_bytes, conf->body_store.disk_bytes);
	relay_bound_sends(relay, conf);
	relay->site = site;
	bindings_commit(relay, conf);
	/* release: pairs with the acquire in reload_seen */
	atomic_fetch_add_explicit(&relay->reloads, 1, memory_order_release);
	for (unsigned i = 0; i < relay->node.worker_count; i++)
		site_use_post(relay->node.workers[i], reload->uses[i]);
	delay_changed(relay->node.delays);
	resolver_commit(relay->resolver, site);
	checks_commit(relay->checks, site);
	semaphores_commit(relay);
	health_share_commit(relay);
	certificate_watch_look(relay);
	site_release(old);
	free(reload->uses);
	free(reload);
}

static void finish(struct relay *relay, struct reload *reload)
{
	const struct conf *conf = reload->site->conf;
	bool is_revision = reload->is_revision;

	reload_write_warnings(conf);
	write_changes(relay, conf);
	reload_commit(relay, reload);
	if (is_revision)
		log_info("%s: the admin interface has changed settings; a reload restores those of "
			 "the file",
			relay->site->conf->path);
	else
		log_info("%s: reloaded", relay->site->conf->path);
	if (!is_revision)
		manager_reloaded(relay, true);
}

void reload_cancel(struct relay *relay)
{
	reload_discard(relay, relay->reload);
	relay->reload = NULL;
	event_del(relay->reload_timer);
}

void reload_continue(struct relay *relay)
{
	struct reload *reload = relay->reload;

	if (!reload)
		return;
	event_del(relay->reload_timer);
	relay->reload = NULL;
	finish(relay, reload);
}

/* `conf` may be NULL: it had errors. */
static enum reload_outcome begin(struct relay *relay, const struct conf *conf,
	const struct conf_errors *errors, bool is_revision)
{
	struct timeval timeout = {
		.tv_sec = RESOLVE_START_MS / 1000, .tv_usec = RESOLVE_START_MS % 1000 * 1000};
	struct reload *reload = NULL;

	for (size_t i = 0; i < errors->count; i++)
		log_error("%s", errors->items[i].text);
	if (errors->incomplete)
		log_error("%s: %s", relay->site->conf->path, strerror(ENOMEM));
	if (conf)
		reload = reload_prepare(relay, conf, is_revision);
	if (!reload)
		return RELOAD_FAILED;
	/* A revision has no name that is new. */
	if (!is_revision && resolver_is_waiting(relay->resolver) &&
		event_add(relay->reload_timer, &timeout) == 0) {
		relay->reload = reload;
		return RELOAD_WAITING;
	}
	finish(relay, reload);
	return RELOAD_DONE;
}

enum reload_outcome relay_reload(struct relay *relay, struct conf_errors *errors)
{
	struct conf_errors own = {0};
	struct conf_errors *found = errors ? errors : &own;

	if (upgrade_is_under_way(relay)) {
		log_info("the reload waits until the upgrade is over");
		relay->reload_waits = true;
		return RELOAD_WAITING;
	}
	reload_cancel(relay);
	manager_reloading(relay);
	struct conf *conf = relay->service->load(relay->service->ctx, found);
	enum reload_outcome outcome = begin(relay, conf, found, false);
	if (outcome == RELOAD_FAILED) {
		log_error("%s: reload failed; keeping the running configuration",
			relay->site->conf->path);
		manager_reloaded(relay, false);
	}
	conf_errors_free(&own);
	return outcome;
}

enum reload_outcome relay_revise(struct relay *relay, const struct conf_revision *revisions,
	size_t count, struct conf_errors *errors)
{
	assert(!relay->reload);
	if (upgrade_is_under_way(relay)) {
		conf_errors_add(errors, relay->site->conf->path, 0,
			"an upgrade is under way; settings can be changed when it is over");
		return RELOAD_FAILED;
	}
	struct conf *conf = conf_revise(relay->site->conf, revisions, count, errors);
	return begin(relay, conf, errors, true);
}
