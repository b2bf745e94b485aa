#include "daemon/shared_upstream.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/container.h"
#include "base/log.h"
#include "fleet/probing.h"
#include "site/site.h"
#include "config.h"
#include "daemon/daemon.h"
#include "semaphore/keeping.h"

/* A lock is remembered for so long after its lease: a prober that comes back then may continue if
 * nobody has taken it. */
#define KEEP_MS 60000
/* An upstream has no more (conf/options_upstream.c); what says more is not read further. */
#define SERVERS_MOST 64

/* ---- its lock -------------------------------------------------------------------------------- */

/* FNV-1a (Fowler, Noll, Vo), over the text with its NUL. */
static uint64_t hash_text(uint64_t hash, const char *text)
{
	for (const char *c = text;; c++) {
		hash = (hash ^ (unsigned char)*c) * 0x100000001b3u;
		if (!*c)
			return hash;
	}
}

void shared_upstream_name(const struct conf_upstream *conf, char name[static LOCK_NAME_BYTES])
{
	char times[64], plain[16 + 1];
	uint64_t hash = 0xcbf29ce484222325u;
	const char *shown = conf->name;

	snprintf(times, sizeof(times), "%" PRIu64 " %" PRIu64, conf->health_interval_ms,
		conf->health_timeout_ms);
	hash = hash_text(hash, conf->health_path);
	hash = hash_text(hash, conf->health_host ? conf->health_host : "");
	hash = hash_text(hash, times);
	/* A long name, or one that no lock may have, is replaced by its digest. */
	snprintf(plain, sizeof(plain), "%016" PRIx64, hash_text(hash, conf->name));
	if (!lock_name_is_valid(shown) || strlen(shown) > LOCK_NAME_BYTES - sizeof("health::") - 16)
		shown = plain;
	snprintf(name, LOCK_NAME_BYTES, "health:%.40s:%016" PRIx64, shown, hash);
}

static bool is_store_there(const struct shared_upstream *shared)
{
	const struct probers *probers = shared->probers;
	unsigned part = probers->link.cluster ? lock_part_of(shared->name) : 0;

	return probers->prefix && store_link_has(&probers->link, slot_of_part(part));
}

static struct upstream *upstream_of(const struct shared_upstream *shared)
{
	return site_upstream_of(shared->probers->site, shared->state);
}

/* ---- what is shown --------------------------------------------------------------------------- */

static void log_role(const struct shared_upstream *shared, const struct probes_sight *sight)
{
	const char *name = shared->state->name;

	switch (sight->role) {
	case PROBES_PROBER:
		log_info("upstream %s: this node probes its servers for the fleet", name);
		break;
	case PROBES_FOLLOWER:
		log_info("upstream %s: node %s probes its servers", name, sight->prober);
		break;
	case PROBES_ALONE:
		log_warn("upstream %s: %s; this node probes its servers for itself", name,
			sight->is_store_there ? "no node has published recent results"
					      : "the store is away");
		break;
	case PROBES_WAITING:
	case PROBES_UNSHARED:
	case PROBES_ROLES:
		break;
	}
}

/* Nothing is logged of a prober that waits for the store to say whether it still is one. */
static bool is_logged(const struct shared_upstream *shared, const struct probes_sight *sight)
{
	const struct probes_sight *logged = &shared->logged;
	bool is_in_doubt = sight->role == PROBES_FOLLOWER && shared->probing.fence > 0;

	return is_in_doubt ||
	       (logged->role == sight->role && (sight->role != PROBES_FOLLOWER ||
						       strcmp(logged->prober, sight->prober) == 0));
}

void shared_upstream_look(struct shared_upstream *shared)
{
	const struct probing *probing = &shared->probing;
	struct probes_sight sight = {.is_store_there = is_store_there(shared),
		.heard_ms = probing->heard_fence > 0 ? probing->heard_ms : 0,
		.fence = probing->heard_fence};

	sight.role = probing_role(probing, clock_monotonic_ms(), sight.is_store_there);
	probing_node_of(probing->prober, sight.prober);
	probes_shown_set(&shared->state->probes, &sight);
	if (is_logged(shared, &sight))
		return;
	log_role(shared, &sight);
	shared->logged = sight;
	if (sight.role == PROBES_PROBER || sight.role == PROBES_ALONE)
		checks_hurry(shared->probers->checks, shared->state);
}

bool shared_upstream_is_mine(struct shared_upstream *shared, const struct server *server)
{
	struct server_finding finding;

	server_state_read_finding(server->state, &finding);
	return probing_is_mine(&shared->probing, finding.checked_ms, finding.is_unshared,
		clock_monotonic_ms(), is_store_there(shared));
}

/* ---- publishing ------------------------------------------------------------------------------ */

static uint64_t ago(uint64_t now_ms, uint64_t then_ms)
{
	return now_ms > then_ms ? now_ms - then_ms : 0;
}

/* A unix socket is another server on each node. */
static bool is_shared(const struct server *server)
{
	return server->conf->address.kind != CONF_ADDRESS_UNIX;
}

static void write_server(struct findings_writer *writer, const struct server *server)
{
	struct server_finding finding;

	server_state_read_finding(server->state, &finding);
	struct findings_line line = {
		.is_known = finding.is_known && !*finding.by,
		.is_up = finding.is_up,
		.since_ago_ms = ago(clock_wall_ns() / CLOCK_NS_PER_MS, finding.since_ms),
		.checked_ago_ms = ago(clock_monotonic_ms(), finding.checked_ms),
		.addresses_id = server_addresses_sum(&server->state->addresses),
		.address = slice_of(server->conf->address.text),
		.saw = slice_of(finding.saw),
	};
	findings_add(writer, &line); /* without room others probe it themselves */
}

static void write_value(struct shared_upstream *shared, const struct findings_head *head)
{
	struct findings_writer writer = {.at = shared->value, .size = sizeof(shared->value)};
	const struct upstream *upstream = upstream_of(shared);

	if (!upstream || !findings_begin(&writer, head))
		return;
	for (size_t i = 0; i < upstream->server_count; i++) {
		if (is_shared(&upstream->servers[i]))
			write_server(&writer, &upstream->servers[i]);
	}
	shared->ask.value = shared->value;
	shared->ask.value_len = writer.len;
}

void shared_upstream_ask(struct shared_upstream *shared)
{
	struct findings_head head;

	shared->is_urgent = shared->is_asked;
	if (shared->is_asked)
		return;
	shared->ask.lease_ms = shared->probing.terms.lease_ms;
	shared->ask.value = NULL;
	if (probing_ask(&shared->probing, &shared->ask, &head))
		write_value(shared, &head);
	shared->is_asked = true;
	locks_ask(&shared->probers->locks, &shared->ask);
}

/* ---- what others published ------------------------------------------------------------------- */

static void set_unshared(struct server *server, bool is_unshared)
{
	struct server_finding finding;

	server_state_read_finding(server->state, &finding);
	finding.is_unshared = is_unshared;
	server_state_note_finding(server->state, &finding);
}

/* Of two findings the later one counts: this node may have probed meanwhile. */
static void take_line(
	struct shared_upstream *shared, struct server *server, const struct findings_line *line)
{
	uint64_t published_ms = shared->probing.heard_ms;
	uint64_t wall_ms = clock_wall_ns() / CLOCK_NS_PER_MS;
	struct server_finding before, now = {.is_known = true, .is_up = line->is_up};

	set_unshared(server, false);
	server_state_read_finding(server->state, &before);
	now.checked_ms = ago(published_ms, line->checked_ago_ms);
	if (!line->is_known || (before.is_known && before.checked_ms >= now.checked_ms))
		return;
	now.since_ms = ago(wall_ms, line->since_ago_ms + ago(clock_monotonic_ms(), published_ms));
	snprintf(now.saw, sizeof(now.saw), "%.*s", (int)line->saw.len, line->saw.at);
	probing_node_of(shared->probing.prober, now.by);
	checks_take(server, &now);
}

static bool find_line(
	struct findings_reader reader, struct server *server, struct findings_line *line)
{
	struct slice address = slice_of(server->conf->address.text);
	uint64_t id = server_addresses_sum(&server->state->addresses);

	for (unsigned i = 0; i < SERVERS_MOST && findings_read_line(&reader, line); i++) {
		if (line->addresses_id == id && slice_equal(line->address, address))
			return true;
	}
	return false;
}

static void take_findings(struct shared_upstream *shared, struct findings_reader reader)
{
	struct upstream *upstream = upstream_of(shared);
	struct findings_line line;

	for (size_t i = 0; upstream && i < upstream->server_count; i++) {
		struct server *server = &upstream->servers[i];
		if (find_line(reader, server, &line))
			take_line(shared, server, &line);
		else
			set_unshared(server, true);
	}
}

static void on_answer(struct lock_ask *ask, const struct lock_answer *answer)
{
	struct shared_upstream *shared = CONTAINER_OF(ask, struct shared_upstream, ask);
	struct findings_reader reader;
	enum probing_outcome outcome = probing_take(&shared->probing, ask, answer, &reader);

	shared->is_asked = false;
	if (outcome == PROBING_HEARD)
		take_findings(shared, reader);
	shared_upstream_look(shared);
	if (answer->status != LOCK_UNKNOWN &&
		(shared->is_urgent || outcome == PROBING_ELECTED || outcome == PROBING_OVER))
		shared_upstream_ask(shared);
}

/* ---- its life -------------------------------------------------------------------------------- */

static void set_tick(struct shared_upstream *shared)
{
	uint64_t now_ms = loop_now_ms(shared->probers->loop);

	deadline_clear(&shared->tick);
	deadline_set(&shared->tick, now_ms + probing_period_ms(&shared->probing.terms), now_ms);
}

static void on_tick(struct deadline *deadline)
{
	struct shared_upstream *shared = CONTAINER_OF(deadline, struct shared_upstream, tick);

	shared_upstream_look(shared);
	shared_upstream_ask(shared);
	shared->is_urgent = false; /* the next tick is soon enough */
	set_tick(shared);
}

struct shared_upstream *shared_upstream_new(
	struct probers *probers, const struct upstream *upstream, const struct probing_terms *terms)
{
	struct shared_upstream *shared = calloc(1, sizeof(*shared));

	if (!shared)
		return NULL;
	shared->probers = probers;
	shared->state = upstream_state_hold(upstream->state);
	shared_upstream_name(upstream->conf, shared->name);
	shared->ask = (struct lock_ask){.kind = LOCK_OF_PROBES,
		.name = shared->name,
		.session = probers->self,
		.keep_ms = KEEP_MS,
		.done = on_answer};
	probing_begin(&shared->probing, terms, probers->self, clock_monotonic_ms());
	deadline_init(&shared->tick, probers->loop->base, on_tick);
	set_tick(shared);
	if (probers->is_leaving)
		probing_leave(&shared->probing);
	return shared;
}

void shared_upstream_change(struct shared_upstream *shared, const struct probing_terms *terms)
{
	shared->probing.terms = *terms;
	set_tick(shared);
	shared_upstream_ask(shared);
}

/* The store releases the lock, although nobody waits for its answer. */
static void give_up(struct shared_upstream *shared)
{
	struct locks *locks = &shared->probers->locks;

	locks_cancel(locks, &shared->ask);
	if (shared->probing.fence == 0 || !is_store_there(shared))
		return;
	probing_leave(&shared->probing);
	shared->is_asked = false;
	shared_upstream_ask(shared);
	locks_send(locks);
	locks_cancel(locks, &shared->ask);
}

void shared_upstream_free(struct shared_upstream *shared)
{
	const struct probes_sight none = {.role = PROBES_UNSHARED};

	give_up(shared);
	deadline_end(&shared->tick);
	probes_shown_set(&shared->state->probes, &none);
	upstream_state_release(shared->state);
	free(shared);
}

/* ---- semaphores ----------------------------------------------------------------------------- */

/* See shared_upstream.h. */

bool semaphores_begin(struct daemon *daemon)
{
#ifdef HAVE_RABBITMQ
	daemon->keeping = keeping_new(&daemon->node.loop);
	if (!daemon->keeping)
		log_error("semaphores: %s", strerror(ENOMEM));
	return daemon->keeping != NULL;
#else
	(void)daemon;
	return true;
#endif
}

void semaphores_commit(struct daemon *daemon)
{
#ifdef HAVE_RABBITMQ
	keeping_commit(daemon->keeping, daemon->site);
#else
	(void)daemon;
#endif
}

void semaphores_end(struct daemon *daemon)
{
#ifdef HAVE_RABBITMQ
	keeping_free(daemon->keeping);
#endif
	daemon->keeping = NULL;
}
