#include "fleet/store_link.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/container.h"

enum { WAIT_FIRST_MS = 50, WAIT_MOST_MS = 5000 };

/* ---- states ---------------------------------------------------------------------------------- */

static uint64_t next_random(struct store_link *store)
{
	/* xorshift64 (Marsaglia 2003) */
	store->random ^= store->random << 13;
	store->random ^= store->random >> 7;
	store->random ^= store->random << 17;
	return store->random;
}

/* Half of a time that doubles, and a random part of the other half: nodes that lost the store at
 * once do not come back at once. */
static void wait_to_connect(struct store_link *store)
{
	unsigned doublings = store->failures < 7 ? store->failures : 7;
	uint64_t most_ms = (uint64_t)WAIT_FIRST_MS << doublings;
	uint64_t now_ms = loop_now_ms(store->loop);

	if (most_ms > WAIT_MOST_MS)
		most_ms = WAIT_MOST_MS;
	store->failures++;
	deadline_clear(&store->timer);
	deadline_set(&store->timer, now_ms + most_ms / 2 + next_random(store) % (most_ms / 2 + 1),
		now_ms);
}

static void lose(struct store_link *store, const char *why)
{
	bool is_first = store->state == STORE_READY || store->failures == 0;

	snprintf(store->why, sizeof(store->why), "%s", why);
	store->state = STORE_WAITING;
	wait_to_connect(store);
	if (is_first)
		store->changed(store);
}

void store_link_drop(struct store_link *store, const char *why)
{
	redis_peer_drop(&store->server.peer, why);
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
	store->failures = 0;
	store->changed(store);
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
	if (store->where->sentinel)
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
		store_link_drop(store, "the Sentinels name another primary");
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
	void (*changed)(struct store_link *store))
{
	*store = (struct store_link){.loop = loop, .random = seed | 1, .changed = changed};
	store->names = names_new(loop->base);
	if (!store->names)
		return false;
	store_server_init(&store->server, loop, store->names, on_server_changed);
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

bool store_link_open(struct store_link *store, const struct conf_fleet *conf)
{
	assert(store->state == STORE_OFF);
	store->where = store_where_new(conf);
	if (!store->where)
		return false;
	store->failures = 0;
	connect_store(store);
	return true;
}

bool store_link_is_of(const struct store_link *store, const struct conf_fleet *conf)
{
	return store->state != STORE_OFF && store_where_is(store->where, conf);
}

void store_link_close(struct store_link *store)
{
	store->state = STORE_OFF;
	deadline_clear(&store->timer);
	sentinel_close(&store->sentinel);
	store_server_close(&store->server);
	store_where_free(store->where);
	store->where = NULL;
}

/* ---- calls ----------------------------------------------------------------------------------- */

bool store_link_send(struct store_link *store, struct store_call *call)
{
	return store_server_send(&store->server, call);
}

void store_link_flush(struct store_link *store)
{
	store_server_flush(&store->server);
}
