#include "relay/reload.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "relay/check.h"
#include "relay/listener.h"
#include "relay/relay.h"
#include "relay/resolve.h"
#include "throttle/throttle.h"

/* Workers read the clock at each decision: what they pass is no older than that. */
#define CLOCK_GUARD_NS 0

static uint64_t throttle_now(const struct relay *relay)
{
	return clock_monotonic_ns() + relay->wall_offset_ns;
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
	if (!relay->throttles)
		log_error("state: %s", report.text);
	else if (report.found == THROTTLE_FOUND_SET_ASIDE ||
		 report.found == THROTTLE_FOUND_UNUSABLE)
		log_warn("state: %s", report.text);
	else if (conf->state)
		log_info("state: %s", report.text);
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

void relay_reload(struct relay *relay)
{
	struct conf *conf = load(relay);
	struct site *site = NULL;

	if (conf) {
		/* What can fail comes first; the listeners' sockets of a failed reload are closed
		 * again by the comparison with the old file. */
		if (bindings_open(relay, conf) && configure_throttles(relay, conf))
			site = site_new(conf, relay->site, relay->worker_count, relay->throttles,
				relay->queue);
		if (!site)
			conf_release(conf);
	}
	if (!site) {
		bindings_close_others(relay, relay->site->conf);
		log_error("%s: reload failed; the running configuration stays",
			relay->site->conf->path);
		return;
	}
	if (conf->workers != relay->worker_count)
		log_warn("workers = %u takes effect at the next start; %u are running",
			conf->workers, relay->worker_count);
	log_configure(relay->log, conf->log_level, conf->error_log, conf->access_log);
	struct site *old = relay->site;
	relay->site = site;
	bindings_close_others(relay, conf);
	for (unsigned i = 0; i < relay->worker_count; i++)
		worker_site(relay->workers[i], site);
	resolver_watch(relay->resolver, site);
	checks_watch(relay->checks, site);
	site_release(old);
	log_info("%s: reloaded", conf->path);
}
