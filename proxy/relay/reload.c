#include "relay/reload.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "relay/check.h"
#include "relay/listener.h"
#include "relay/pin.h"
#include "relay/relay.h"
#include "relay/resolve.h"
#include "throttle/throttle.h"

/* Workers read the clock at each decision: what they pass is no older than that. */
#define CLOCK_GUARD_NS 0

static uint64_t throttle_now(const struct relay *relay)
{
	return clock_anchor_time(&relay->anchor, clock_boot_ns());
}

bool relay_open_throttles(struct relay *relay, const struct conf *conf)
{
	struct throttle_report report;
	struct throttle_table_options options = {
		.folder = conf->state,
		.callers = conf->callers,
		.now_ns = throttle_now(relay),
		.memory_if_unwritable = !conf->state_required,
	};
	struct throttle_limit *limits = gate_throttle_limits(conf, CLOCK_GUARD_NS);

	if (!limits) {
		log_error("%s: limits: %s", conf->path, strerror(errno));
		return false;
	}
	relay->throttles = throttle_table_open(&options, limits, conf->limit_count, &report);
	if (!relay->throttles && report.found == THROTTLE_FOUND_UNUSABLE)
		log_error("%s:%u: state = %s: %s; state_required = on does not let this be",
			conf->path, conf_line(conf, "state"), conf->state, report.text);
	else if (!relay->throttles)
		log_error("limits: %s", report.text);
	else if (report.found == THROTTLE_FOUND_UNUSABLE)
		log_warn("%s:%u: state = %s: %s; counting in memory only, from nothing at each "
			 "start",
			conf->path, conf_line(conf, "state"), conf->state, report.text);
	else if (report.found == THROTTLE_FOUND_SET_ASIDE)
		log_warn("%s:%u: state = %s: %s", conf->path, conf_line(conf, "state"), conf->state,
			report.text);
	else if (conf->state)
		log_info("state = %s: %s", conf->state, report.text);
	free(limits);
	return relay->throttles != NULL;
}

void relay_close_throttles(struct relay *relay)
{
	throttle_table_close(relay->throttles);
	relay->throttles = NULL;
}

static struct conf *load(const struct relay *relay)
{
	struct conf_errors errors = {0};
	struct conf *conf = conf_load(relay->site->conf->path, &errors);

	for (size_t i = 0; i < errors.count; i++)
		log_error("%s", errors.items[i].text);
	conf_errors_free(&errors);
	return conf;
}

void relay_tell_warnings(const struct conf *conf)
{
	for (size_t i = 0; i < conf->warning_count; i++)
		log_warn("%s:%u: %s", conf->path, conf->warnings[i].line, conf->warnings[i].text);
}

static bool configure_throttles(struct relay *relay, const struct conf *conf)
{
	struct throttle_report report = {.text = "no memory"};
	struct throttle_limit *limits = gate_throttle_limits(conf, CLOCK_GUARD_NS);
	bool done = limits && throttle_table_apply(relay->throttles, limits, conf->limit_count,
				      conf->callers, throttle_now(relay), &report) == 0;

	if (!done)
		log_error("%s: limits: %s", conf->path, limits ? report.text : strerror(errno));
	free(limits);
	return done;
}

void reload_seen(struct worker *worker)
{
	/* acquire: pairs with the release in relay_reload, so it is no later than the limits that
	 * the next call finds */
	uint64_t reloads = atomic_load_explicit(&worker->relay->reloads, memory_order_acquire);

	/* release: pairs with the acquire in reload_collect; every call into the throttles that
	 * began before is over */
	atomic_store_explicit(&worker->reloads_seen, reloads, memory_order_release);
	relay_tell_main(worker->relay);
}

void reload_collect(struct relay *relay)
{
	/* relaxed: written by this thread */
	uint64_t reloads = atomic_load_explicit(&relay->reloads, memory_order_relaxed);

	if (relay->reloads_collected == reloads)
		return;
	for (unsigned i = 0; i < relay->worker_count; i++) {
		/* acquire: pairs with the release in reload_seen */
		if (atomic_load_explicit(&relay->workers[i]->reloads_seen, memory_order_acquire) <
			reloads)
			return;
	}
	relay->reloads_collected = reloads;
	throttle_table_collect(relay->throttles);
	queue_sweep_pins(relay->queue, pin_is_of_site, relay->site);
	for (size_t i = 0; i < relay->site->conf->upstream_count; i++) {
		struct pace *pace = relay->site->upstreams[i]->pace;
		if (pace)
			pace_collect(pace);
	}
	log_debug("what the limits of before left is freed");
}

static bool is_same(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

/* What is taken only at the start, and is another now, is said each time. */
static void tell_what_stays(const struct relay *relay, const struct conf *conf)
{
	const struct conf *begun = relay->begun_with;
	const struct {
		const char *key;
		bool is_same;
	} keys[] = {
		{"workers", conf->workers == begun->workers},
		{"state", is_same(conf->state, begun->state)},
		{"state_required", conf->state_required == begun->state_required},
		{"sessions", conf->sessions == begun->sessions},
		{"queue_total", conf->queue_total == begun->queue_total},
		{"queue_total_bytes", conf->queue_total_bytes == begun->queue_total_bytes},
		{"buffer_size", conf->buffer_bytes == begun->buffer_bytes},
		{"pid_file", is_same(conf->pid_file, begun->pid_file)},
		{"user", is_same(conf->user, begun->user)},
	};

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (!keys[i].is_same)
			log_warn("%s: %s has changed: it takes effect at the next start",
				conf->path, keys[i].key);
}

void relay_reload(struct relay *relay)
{
	struct conf *conf = load(relay);
	struct site *site = NULL;

	if (conf) {
		/* What can fail comes first; the listeners' sockets of a failed reload are closed
		 * again by the comparison with the old file. */
		if (bindings_open(relay, conf) && configure_throttles(relay, conf))
			site = site_new(conf, relay->site, relay->worker_count, relay->throttles,
				relay->queue, relay->stats);
		if (!site)
			conf_release(conf);
	}
	if (!site) {
		bindings_close_others(relay, relay->site->conf);
		log_error("%s: reload failed; the running configuration stays",
			relay->site->conf->path);
		return;
	}
	relay_tell_warnings(conf);
	tell_what_stays(relay, conf);
	log_configure(relay->log, conf->log_level, conf->error_log, conf->access_log);
	struct site *old = relay->site;
	relay->site = site;
	bindings_close_others(relay, conf);
	/* release: pairs with the acquire in reload_seen */
	atomic_fetch_add_explicit(&relay->reloads, 1, memory_order_release);
	for (unsigned i = 0; i < relay->worker_count; i++)
		worker_site(relay->workers[i], site);
	resolver_watch(relay->resolver, site);
	checks_watch(relay->checks, site);
	site_release(old);
	log_info("%s: reloaded", conf->path);
}
