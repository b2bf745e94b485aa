#include "site/site.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "net/tls_client.h"
#include "site/certificates.h"
#include "stats/stats.h"

bool account_rows_fill(struct account_rows *rows, const struct conf *conf, struct stats *stats)
{
	rows->routes = calloc(conf->route_count + 1, sizeof(unsigned));
	rows->limits = calloc(conf->limit_count + 1, sizeof(unsigned));
	rows->plans = calloc(conf->plan_count + 1, sizeof(unsigned));
	rows->upstreams = calloc(conf->upstream_count + 1, sizeof(unsigned));
	if (!rows->routes || !rows->limits || !rows->plans || !rows->upstreams)
		return false;
	for (size_t i = 0; i < conf->route_count; i++)
		rows->routes[i] = stats_register(stats, STATS_ROUTE, conf->routes[i].name);
	for (size_t i = 0; i < conf->limit_count; i++)
		rows->limits[i] = stats_register(stats, STATS_LIMIT, conf->limits[i].name);
	for (size_t i = 0; i < conf->plan_count; i++)
		rows->plans[i] = stats_register(stats, STATS_PLAN, conf->plans[i].name);
	for (size_t i = 0; i < conf->upstream_count; i++)
		rows->upstreams[i] = stats_register(stats, STATS_UPSTREAM, conf->upstreams[i].name);
	return true;
}

void account_rows_clear(struct account_rows *rows)
{
	free(rows->routes);
	free(rows->limits);
	free(rows->plans);
	free(rows->upstreams);
	*rows = (struct account_rows){0};
}

static struct queue_policy policy_of(const struct conf_route *route)
{
	static const enum queue_ordering orderings[] = {
		[CONF_ORDERING_AUTO] = QUEUE_WRITES, /* see ticket.unordered */
		[CONF_ORDERING_WRITES] = QUEUE_WRITES,
		[CONF_ORDERING_STRICT] = QUEUE_STRICT,
		[CONF_ORDERING_NONE] = QUEUE_NONE,
	};
	uint64_t idle_ms = route->sessions.idle_timeout_ms;

	return (struct queue_policy){
		.ordering = orderings[route->sessions.ordering],
		/* One connection carries one exchange at a time. */
		.session_in_flight = route->sessions.affinity ? 1 : route->sessions.in_flight,
		.depth = route->sessions.queue_depth,
		.bytes = route->sessions.queue_bytes,
		.high_burst = route->sessions.high_burst,
		.read_hold_ms = (uint32_t)route->sessions.read_hold_ms,
		.forgets = true,
		.session_idle_ms = idle_ms > UINT32_MAX ? UINT32_MAX : (uint32_t)idle_ms,
	};
}

static struct slice text_of(const char *text)
{
	return text ? slice_of(text) : SLICE_NONE;
}

static bool compose_texts(struct site *site)
{
	const struct conf *conf = site->conf;

	site->via = text_of(conf->hop.via);
	if (conf->hop.via) {
		int len = asprintf(&site->via_text, "1.1 %s", conf->hop.via);
		if (len < 0) {
			site->via_text = NULL;
			return false;
		}
		site->via_1_1 = (struct slice){site->via_text, (size_t)len};
	}
	site->request_id_field = text_of(conf->request_id_field);
	site->request_id_field_id = http_field_id(site->request_id_field);
	return true;
}

static bool fill(struct site *site, struct upstream_states *states,
	struct throttle_table *throttles, struct roster *roster, struct stats *stats)
{
	const struct conf *conf = site->conf;

	if (!compose_texts(site))
		return false;
	site->upstreams = calloc(conf->upstream_count, sizeof(*site->upstreams));
	site->policies = calloc(conf->route_count, sizeof(*site->policies));
	site->certificates = calloc(conf->listener_count, sizeof(*site->certificates));
	site->prepared = calloc(conf->listener_count, sizeof(*site->prepared));
	site->routes = route_table_new(conf);
	site->lookalikes = lookalikes_new(conf);
	site->texts = ratelimit_texts_new(conf);
	site->gate = gate_new(conf, throttles);
	if (!site->upstreams || !site->policies || !site->certificates || !site->prepared ||
		!site->routes || !site->lookalikes || !site->texts || !site->gate ||
		!gate_use_roster(site->gate, roster) ||
		!account_rows_fill(&site->rows, conf, stats))
		return false;
	for (size_t i = 0; i < conf->upstream_count; i++) {
		site->upstreams[i] = upstream_new(states, &conf->upstreams[i]);
		if (!site->upstreams[i])
			return false;
	}
	for (size_t i = 0; i < conf->route_count; i++)
		site->policies[i] = policy_of(&conf->routes[i]);
	return true;
}

static bool use_fleet(struct site *site, struct authority *fleet)
{
	const struct conf *conf = site->conf;

	for (size_t i = 0; i < conf->limit_count; i++) {
		const struct conf_limit *limit = &conf->limits[i];
		if (!limit->of_fleet)
			continue;
		errno = ENOTSUP;
		if (!fleet || !gate_use_authority(site->gate, limit, fleet))
			return false;
	}
	return true;
}

struct site *site_new(const struct conf *conf, uint64_t serial, struct upstream_states *states,
	struct throttle_table *throttles, struct roster *roster, struct stats *stats,
	struct authority *fleet)
{
	struct site *site = calloc(1, sizeof(*site));

	errno = ENOMEM;
	if (site) {
		atomic_init(&site->holders, 1);
		site->serial = serial;
		site->conf = conf_hold(conf);
		if (fill(site, states, throttles, roster, stats) && use_fleet(site, fleet)) {
			conf_release(conf); /* the caller's hold is ours now */
			return site;
		}
	}
	log_error("%s: can't prepare the configuration: %s", conf->path,
		strerror(errno ? errno : ENOMEM));
	if (site)
		site_release(site);
	return NULL;
}

void site_commit(struct site *site)
{
	for (size_t i = 0; i < site->conf->upstream_count; i++)
		upstream_commit(site->upstreams[i]);
	certificates_commit(site);
}

struct site *site_hold(struct site *site)
{
	/* relaxed: a holder may pass it on */
	atomic_fetch_add_explicit(&site->holders, 1, memory_order_relaxed);
	return site;
}

void site_release(struct site *site)
{
	/* acq_rel: pairs with itself, so the last holder sees all that the others did */
	if (atomic_fetch_sub_explicit(&site->holders, 1, memory_order_acq_rel) != 1)
		return;
	for (size_t i = 0; site->upstreams && i < site->conf->upstream_count; i++)
		upstream_free(site->upstreams[i]);
	certificates_release(site);
	tls_client_release(site->store_tls);
	tls_client_release(site->links_tls);
	gate_free(site->gate);
	ratelimit_texts_free(site->texts);
	route_table_free(site->routes);
	lookalikes_free(site->lookalikes);
	free(site->via_text);
	free(site->upstreams);
	free(site->policies);
	account_rows_clear(&site->rows);
	conf_release(site->conf);
	free(site);
}

struct upstream *site_upstream_of(const struct site *site, const struct upstream_state *state)
{
	for (size_t i = 0; i < site->conf->upstream_count; i++)
		if (site->upstreams[i]->state == state)
			return site->upstreams[i];
	return NULL;
}

struct server *site_server_of(const struct site *site, const struct server_state *state)
{
	struct upstream *upstream = site_upstream_of(site, state->upstream);

	return upstream ? upstream_server_of(upstream, state) : NULL;
}
