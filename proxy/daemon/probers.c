#include "daemon/probers.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/container.h"
#include "base/log.h"
#include "daemon/shared_upstream.h"
#include "config.h"
#include "daemon/daemon.h"
#include "fleet/fleet.h"

/* Longest wait for an answer of the store, at least. */
#define SILENCE_MS 2000

/* ---- what the checks ask --------------------------------------------------------------------- */

static struct shared_upstream *find(struct probers *probers, const struct upstream_state *state)
{
	struct shared_upstream *shared = probers->first;

	while (shared && shared->state != state)
		shared = shared->next;
	return shared;
}

static bool is_mine(void *ctx, const struct server *server)
{
	struct shared_upstream *shared = find(ctx, server->state->upstream);

	return !shared || shared_upstream_is_mine(shared, server);
}

static void probed(void *ctx, const struct server *server, bool is_news)
{
	struct shared_upstream *shared = find(ctx, server->state->upstream);

	if (shared && is_news && shared->probing.fence > 0)
		shared_upstream_ask(shared);
}

/* ---- the store ------------------------------------------------------------------------------- */

/* At the end of a round. */
static bool send_all(struct loop_stage *stage)
{
	struct probers *probers = CONTAINER_OF(stage, struct probers, stage);
	bool has_work;

	if (!probers->prefix)
		return false;
	has_work = locks_send(&probers->locks);
	store_link_flush(&probers->link);
	return has_work;
}

static void on_changed(struct store_link *link, bool failed)
{
	struct probers *probers = CONTAINER_OF(link, struct probers, link);

	if (failed)
		log_warn("store %s: %s (health checks)", probers->site->conf->fleet.store.text,
			link->why);
	for (struct shared_upstream *shared = probers->first; shared; shared = shared->next) {
		if (link->state == STORE_READY)
			shared_upstream_ask(shared);
		shared_upstream_look(shared);
	}
}

static void on_redirected(struct store_link *link, enum redirect_kind kind)
{
	(void)link;
	(void)kind;
}

static void free_upstreams(struct probers *probers)
{
	struct shared_upstream *shared;

	while ((shared = probers->first)) {
		probers->first = shared->next;
		shared_upstream_free(shared);
	}
}

static void close_store(struct probers *probers)
{
	free_upstreams(probers);
	if (!probers->prefix)
		return;
	store_link_flush(&probers->link);
	if (probers->link.state != STORE_OFF)
		store_link_close(&probers->link);
	free(probers->prefix);
	probers->locks.prefix = probers->prefix = NULL;
}

static bool make(struct probers *probers)
{
	uint64_t seed = clock_monotonic_ns() ^ (uint64_t)getpid() << 32;

	if (probers->is_made)
		return true;
	memset(&probers->link, 0, sizeof(probers->link));
	if (!store_link_init(&probers->link, probers->loop, seed, on_changed, on_redirected))
		return false;
	probers->link.streams = checks_streams(probers->checks);
	locks_init(&probers->locks, probers->loop, &probers->link);
	probers->is_made = true;
	return true;
}

static bool open_store(struct probers *probers, const struct conf_fleet *conf)
{
	if (!make(probers))
		return false;
	probers->locks.prefix = probers->prefix = strdup(conf->prefix);
	snprintf(probers->self, sizeof(probers->self), "%s/%s",
		conf->node ? conf->node : probers->default_name, probers->instance);
	return probers->prefix && store_link_open(&probers->link, conf, probers->site->store_tls);
}

/* Is this store open, by the same keys, and is the node's name still the same? */
static bool has_store(const struct probers *probers, const struct site *site)
{
	const struct conf_fleet *conf = &site->conf->fleet;
	const char *name = conf->node ? conf->node : probers->default_name;
	char node[PROBE_NODE_BYTES];

	probing_node_of(probers->self, node);
	return probers->prefix && store_link_is_of(&probers->link, conf, site->store_tls) &&
	       strcmp(probers->prefix, conf->prefix) == 0 && strcmp(node, name) == 0;
}

static void take_store(struct probers *probers, const struct conf_fleet *conf)
{
	if (probers->prefix || open_store(probers, conf))
		return;
	log_error("health_shared: %s", "out of memory");
	close_store(probers);
}

/* ---- a site ---------------------------------------------------------------------------------- */

static void share(struct probers *probers, const struct upstream *upstream)
{
	const struct conf_upstream *conf = upstream->conf;
	struct probing_terms terms = {.lease_ms = probers->site->conf->fleet.lease_ms,
		.interval_ms = conf->health_interval_ms,
		.timeout_ms = conf->health_timeout_ms};
	struct shared_upstream *shared = find(probers, upstream->state);
	char name[LOCK_NAME_BYTES];

	shared_upstream_name(conf, name);
	if (shared && strcmp(shared->name, name) == 0) {
		shared->is_seen = true;
		shared_upstream_change(shared, &terms);
		return;
	}
	shared = shared_upstream_new(probers, upstream, &terms);
	if (!shared) {
		log_error("upstream %s: health_shared: %s", conf->name, "out of memory");
		return;
	}
	shared->is_seen = true;
	shared->next = probers->first;
	probers->first = shared;
	shared_upstream_ask(shared);
}

/* Those that the site does not have, or not by this lock. */
static void drop_unseen(struct probers *probers)
{
	struct shared_upstream **at = &probers->first;

	while (*at) {
		struct shared_upstream *shared = *at;
		if (shared->is_seen) {
			at = &shared->next;
			continue;
		}
		*at = shared->next;
		shared_upstream_free(shared);
	}
}

static bool is_shared(const struct upstream *upstream)
{
	return upstream->conf->health_shared && upstream->conf->health_path;
}

static bool shares_any(const struct site *site)
{
	bool has_any = false;

	for (size_t i = 0; i < site->conf->upstream_count; i++)
		has_any |= is_shared(site->upstreams[i]);
	return has_any && site->conf->fleet.store.text;
}

static void share_all(struct probers *probers, const struct site *site)
{
	for (struct shared_upstream *shared = probers->first; shared; shared = shared->next)
		shared->is_seen = false;
	probers->locks.silence_ms = SILENCE_MS > site->conf->fleet.store_timeout_ms * 2
					    ? SILENCE_MS
					    : site->conf->fleet.store_timeout_ms * 2;
	for (size_t i = 0; probers->prefix && i < site->conf->upstream_count; i++) {
		if (is_shared(site->upstreams[i]))
			share(probers, site->upstreams[i]);
	}
	drop_unseen(probers);
}

/* A store is closed while the site that it was opened for is held: if the connection is lost as the
 * locks are released, the log names that site's store. */
void probers_commit(struct probers *probers, struct site *site)
{
	struct site *before = probers->site;
	bool has_any = shares_any(site);

	if (!has_any || !has_store(probers, site))
		close_store(probers);
	probers->site = has_any ? site_hold(site) : NULL;
	if (has_any)
		take_store(probers, &site->conf->fleet);
	share_all(probers, site);
	for (struct shared_upstream *shared = probers->first; shared; shared = shared->next)
		shared_upstream_look(shared);
	checks_share(probers->checks, probers->first ? &probers->sharing : NULL);
	if (before)
		site_release(before);
}

/* ---- its life -------------------------------------------------------------------------------- */

struct probers *probers_new(struct loop *loop, struct checks *checks, const char *default_name)
{
	struct probers *probers = calloc(1, sizeof(*probers));
	uint64_t drawn = 0;

	if (!probers)
		return NULL;
	probers->loop = loop;
	probers->checks = checks;
	probers->default_name = default_name;
	probers->sharing = (struct check_sharing){is_mine, probed, probers};
	if (getrandom(&drawn, sizeof(drawn), 0) != sizeof(drawn))
		drawn = clock_monotonic_ns() ^ (uint64_t)getpid() << 32;
	snprintf(
		probers->instance, sizeof(probers->instance), "%016llx", (unsigned long long)drawn);
	probers->stage.run = send_all;
	loop_add_stage(loop, LOOP_WRITE, &probers->stage);
	return probers;
}

void probers_leave(struct probers *probers)
{
	if (!probers)
		return;
	probers->is_leaving = true;
	for (struct shared_upstream *shared = probers->first; shared; shared = shared->next) {
		probing_leave(&shared->probing);
		shared_upstream_ask(shared);
	}
}

void probers_free(struct probers *probers)
{
	if (!probers)
		return;
	checks_share(probers->checks, NULL);
	close_store(probers);
	loop_finish_turn(probers->loop); /* answers that are on their way */
	if (probers->is_made) {
		store_link_end(&probers->link);
		locks_end(&probers->locks);
	}
	if (probers->site)
		site_release(probers->site);
	free(probers);
}

/* ---- health share --------------------------------------------------------------------------- */

/* See probers.h. */

bool health_share_begin(struct daemon *daemon)
{
#ifdef HAVE_REDIS
	daemon->probers = probers_new(&daemon->node.loop, daemon->checks,
		fleet_members(daemon->node.fleet)->default_name);
	if (!daemon->probers)
		log_error("health_shared: %s", strerror(ENOMEM));
	return daemon->probers != NULL;
#else
	(void)daemon;
	return true;
#endif
}

void health_share_commit(struct daemon *daemon)
{
#ifdef HAVE_REDIS
	probers_commit(daemon->probers, daemon->site);
#else
	(void)daemon;
#endif
}

void health_share_leave(struct daemon *daemon)
{
#ifdef HAVE_REDIS
	probers_leave(daemon->probers);
#else
	(void)daemon;
#endif
}

void health_share_end(struct daemon *daemon)
{
#ifdef HAVE_REDIS
	probers_free(daemon->probers);
#endif
	daemon->probers = NULL;
}
