#include "store/store_link.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/container.h"

/* ---- states ---------------------------------------------------------------------------------- */

static void wait_to_connect(struct store_link *store)
{
	uint64_t now_ms = loop_now_ms(store->loop);

	deadline_clear(&store->timer);
	deadline_set(&store->timer, now_ms + backoff_next_ms(&store->backoff), now_ms);
}

bool store_why_is_lasting(const char *why)
{
	static const char *const kinds[] = {"WRONGPASS", "NOAUTH", "NOPERM", "WRONGTYPE", "ERR ",
		"certificate ", "name does not match", "self-signed certificate",
		"unable to get local issuer certificate"};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (strncmp(why, kinds[i], strlen(kinds[i])) == 0)
			return true;
	}
	return false;
}

/* A store that does not answer, and then does not let us in, has two reasons. Some change with each
 * try: the bound is for these. One that lasts is reported beyond it, once: a store that starts
 * again has the others first, and this one needs an operator. */
static bool is_to_report(struct store_link *store, const char *why)
{
	enum { REPORTED_MOST = 3 };
	bool lasts = store_why_is_lasting(why);

	if (store->state == STORE_READY || store->backoff.failures == 0) {
		store->reported = 0;
		store->has_reported_lasting = false;
	} else if (strcmp(why, store->why) == 0 ||
		   (store->reported >= REPORTED_MOST && (!lasts || store->has_reported_lasting))) {
		return false;
	}
	store->reported++;
	store->has_reported_lasting |= lasts;
	return true;
}

static void lose(struct store_link *store, const char *why)
{
	bool reports = is_to_report(store, why);

	snprintf(store->why, sizeof(store->why), "%s", why);
	store->state = STORE_WAITING;
	wait_to_connect(store);
	store->changed(store, reports);
}

/* ---- connecting ------------------------------------------------------------------------------ */

static void on_server_changed(struct store_server *server)
{
	struct store_link *store = CONTAINER_OF(server, struct store_link, server);

	if (!server->is_ready) {
		lose(store, server->peer.why);
		return;
	}
	store->state = STORE_READY;
	store->backoff.failures = 0;
	store->changed(store, false);
}

static void on_cluster_changed(struct cluster *cluster, const char *why)
{
	struct store_link *store = cluster->whose;

	store->state = cluster_has_any(cluster) ? STORE_READY : STORE_CONNECTING;
	if (why)
		snprintf(store->why, sizeof(store->why), "%s", why);
	store->changed(store, why != NULL);
}

static void on_refused(struct store_server *server, const char *why)
{
	struct store_link *store = CONTAINER_OF(server, struct store_link, server);

	if (store->refused)
		store->refused(store, &server->refusals, why);
}

static void on_cluster_refused(struct cluster *cluster, struct trouble_mark *mark, const char *why)
{
	struct store_link *store = cluster->whose;

	if (store->refused)
		store->refused(store, mark, why);
}

static void on_redirected(struct cluster *cluster, enum redirect_kind kind)
{
	struct store_link *store = cluster->whose;

	store->redirected(store, kind);
}

static void connect_to(struct store_link *store, const char *host, uint16_t port)
{
	deadline_clear(&store->timer);
	store->state = STORE_CONNECTING;
	store_server_open(&store->server, host, port, store->where);
}

static void connect_store(struct store_link *store)
{
	store->state = STORE_CONNECTING;
	if (store->cluster)
		cluster_open(store->cluster, store->where);
	else if (store->where->sentinel)
		sentinel_ask(&store->sentinel, store->where);
	else
		connect_to(store, store->where->hosts[0].name, store->where->hosts[0].port);
}

/* The answer of a Sentinel, or its report of another primary, which may come at any time. */
static void on_found(struct sentinel *sentinel)
{
	struct store_link *store = CONTAINER_OF(sentinel, struct store_link, sentinel);
	const struct redis_peer *peer = &store->server.peer;

	if (peer->is_open && peer->port == sentinel->port &&
		strcmp(peer->host, sentinel->host) == 0)
		return;
	if (peer->is_open)
		redis_peer_drop(&store->server.peer, "the Sentinels name another primary");
	connect_to(store, sentinel->host, sentinel->port);
}

static void on_not_found(struct sentinel *sentinel)
{
	struct store_link *store = CONTAINER_OF(sentinel, struct store_link, sentinel);

	if (store->state == STORE_CONNECTING && !store->server.peer.is_open)
		lose(store, sentinel->peer.why);
}

static void on_timer(struct deadline *deadline)
{
	connect_store(CONTAINER_OF(deadline, struct store_link, timer));
}

bool store_link_init(struct store_link *store, struct loop *loop, uint64_t seed,
	void (*changed)(struct store_link *store, bool failed),
	void (*redirected)(struct store_link *store, enum redirect_kind kind))
{
	*store = (struct store_link){.loop = loop,
		.backoff = {.random = seed | 1},
		.seed = seed,
		.changed = changed,
		.redirected = redirected};
	store->names = names_new(loop->base);
	if (!store->names)
		return false;
	store_server_init(&store->server, loop, store->names, on_server_changed);
	store->server.refused = on_refused;
	sentinel_init(&store->sentinel, loop, store->names, on_found, on_not_found);
	deadline_init(&store->timer, loop->base, on_timer);
	return true;
}

void store_link_end(struct store_link *store)
{
	store_link_close(store);
	store_server_end(&store->server);
	sentinel_end(&store->sentinel);
	deadline_end(&store->timer);
	names_free(store->names);
	store->names = NULL;
}

bool store_link_open(
	struct store_link *store, const struct conf_fleet *conf, struct tls_client *tls)
{
	assert(store->state == STORE_OFF);
	store->where = store_where_new(conf, tls);
	if (store->where)
		store->where->streams = store->streams;
	if (store->where && conf->cluster)
		store->cluster = cluster_new(
			store->loop, store->names, store->seed, on_cluster_changed, on_redirected);
	if (!store->where || (conf->cluster && !store->cluster)) {
		store_where_free(store->where);
		store->where = NULL;
		return false;
	}
	if (store->cluster) {
		store->cluster->whose = store;
		store->cluster->refused = on_cluster_refused;
	}
	store->backoff.failures = 0;
	connect_store(store);
	return true;
}

bool store_link_is_of(
	const struct store_link *store, const struct conf_fleet *conf, const struct tls_client *tls)
{
	return store->state != STORE_OFF && store_where_is(store->where, conf, tls);
}

void store_link_take_times(struct store_link *store, const struct conf_fleet *conf)
{
	store->where->timeout_ms = conf->store_timeout_ms;
}

void store_link_close(struct store_link *store)
{
	store->state = STORE_OFF;
	deadline_clear(&store->timer);
	sentinel_close(&store->sentinel);
	store_server_close(&store->server);
	cluster_free(store->cluster);
	store->cluster = NULL;
	store_where_free(store->where);
	store->where = NULL;
}

/* ---- calls ----------------------------------------------------------------------------------- */

bool store_link_has(const struct store_link *store, uint16_t slot)
{
	return store->state == STORE_READY &&
	       (!store->cluster || cluster_has(store->cluster, slot));
}

bool store_link_has_all(const struct store_link *store)
{
	return store->state == STORE_READY && (!store->cluster || cluster_has_all(store->cluster));
}

bool store_link_send(struct store_link *store, struct store_call *call)
{
	if (store->cluster)
		return cluster_send(store->cluster, call);
	call->sent_ms = loop_now_ms(store->loop);
	return store_server_send(&store->server, call);
}

void store_link_flush(struct store_link *store)
{
	if (store->cluster)
		cluster_flush(store->cluster);
	else
		store_server_flush(&store->server);
}

uint64_t store_link_oldest_ms(const struct store_link *store, uint16_t slot)
{
	const struct store_call *first = store->server.unanswered;

	if (store->cluster)
		return cluster_oldest_ms(store->cluster, slot);
	return first ? first->sent_ms : UINT64_MAX;
}

uint64_t store_link_oldest_of_all_ms(const struct store_link *store)
{
	return store->cluster ? cluster_oldest_of_all_ms(store->cluster)
			      : store_link_oldest_ms(store, 0);
}

void store_link_drop_silent(struct store_link *store, uint64_t before_ms)
{
	static const char why[] = "no answer in time";

	if (store->cluster)
		cluster_drop_silent(store->cluster, before_ms, why);
	else if (store_link_oldest_ms(store, 0) <= before_ms)
		redis_peer_drop(&store->server.peer, why);
}
