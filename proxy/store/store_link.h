/*
 * A worker's way to the store: it is looked for again when it is lost, after a while that grows and
 * is never quite the same.
 *
 *   OFF --store_link_open--> CONNECTING --ready--> READY --lost--> WAITING --> CONNECTING ...
 *
 * CONNECTING asks the Sentinels first, where there are any (sentinel.h), and goes to the primary
 * that they name; the way leads elsewhere as soon as they name another one. All of it belongs to
 * the worker's thread.
 *
 * A Redis Cluster (cluster.h) is READY as soon as one of its primaries is. store_link_has says
 * whether that of a slot is; elsewhere the slot does not matter.
 */
#ifndef STORE_STORE_LINK_H
#define STORE_STORE_LINK_H

#include "store/cluster.h"
#include "store/sentinel.h"
#include "store/store_server.h"

enum store_state { STORE_OFF, STORE_CONNECTING, STORE_READY, STORE_WAITING };

struct stream_loop;
struct tls_client;

struct store_link {
	struct loop *loop;
	enum store_state state;
	struct names *names;
	struct store_where *where;
	struct stream_loop *streams; /* for TLS: the owner sets it before it opens the store */
	struct store_server server;
	struct sentinel sentinel;
	struct cluster *cluster; /* NULL: it is none */
	uint64_t seed;
	struct deadline timer; /* WAITING: to connect again */
	struct backoff backoff;
	char why[256];             /* the last failure */
	unsigned reported;         /* of the failures in a row */
	bool has_reported_lasting; /* one of these has a reason that lasts */
	/* READY has begun or ended, slots have come or gone, or (`why` may be another) it could not
	 * be had again. `failed`: the failure is to be reported: the first in a row, or one with
	 * another reason than the one before; three at most, and one that lasts. */
	void (*changed)(struct store_link *store, bool failed);
	/* Of a cluster: a node has said so in place of an answer. */
	void (*redirected)(struct store_link *store, enum redirect_kind kind);
	/* As that of store_server.h; the owner sets it, NULL: no receiver. */
	void (*refused)(struct store_link *store, struct trouble_mark *mark, const char *why);
};

/* Zeroed memory becomes a store that is OFF. `seed`: of the jitter. False without memory. */
bool store_link_init(struct store_link *store, struct loop *loop, uint64_t seed,
	void (*changed)(struct store_link *store, bool failed),
	void (*redirected)(struct store_link *store, enum redirect_kind kind));
/* Nothing of it is on the loop any more. */
void store_link_end(struct store_link *store);
/* Connects, and again as long as it is open; with these settings of TLS (NULL: without). False
 * without memory: it is OFF. */
bool store_link_open(
	struct store_link *store, const struct conf_fleet *conf, struct tls_client *tls);
/* Is it open to what `conf` says, and with the same TLS? */
bool store_link_is_of(const struct store_link *store, const struct conf_fleet *conf,
	const struct tls_client *tls);
/* Takes what `conf` says of times, of a store that is the same (store_link_is_of). */
void store_link_take_times(struct store_link *store, const struct conf_fleet *conf);
/* Cuts the connection, which fails all calls, and is OFF. */
void store_link_close(struct store_link *store);
/* May calls for the slot be sent? */
bool store_link_has(const struct store_link *store, uint16_t slot);
/* And for all slots? */
bool store_link_has_all(const struct store_link *store);

/* Is it a reason that waiting does not change? A wrong password, a user who may not do this,
 * another database, a key of somebody else. */
bool store_why_is_lasting(const char *why);

/* When the oldest call was sent that is not answered, of those for the same primary, or of all;
 * UINT64_MAX: there is none. */
uint64_t store_link_oldest_ms(const struct store_link *store, uint16_t slot);
uint64_t store_link_oldest_of_all_ms(const struct store_link *store);
/* Cuts connections on which calls are not answered that were sent then, or before, and connects
 * again later. */
void store_link_drop_silent(struct store_link *store, uint64_t before_ms);

/* As those of store_server.h. */
bool store_link_send(struct store_link *store, struct store_call *call);
void store_link_flush(struct store_link *store);

#endif
