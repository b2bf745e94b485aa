/*
 * A worker's connection to the store, by hiredis: it is made again when it is lost, after a while
 * that grows and is never quite the same, and the store's function is loaded before anything else
 * is said. Calls are answered in the order in which they were sent.
 *
 *   OFF --store_link_open--> CONNECTING --function loaded--> READY --lost--> WAITING --> CONNECTING
 * ...
 *
 * hiredis owns the socket, and the events on it are this unit's (redis_events.c). All of it belongs
 * to the worker's thread.
 */
#ifndef FLEET_STORE_LINK_H
#define FLEET_STORE_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conf/conf.h"
#include "loop/deadline.h"
#include "loop/loop.h"

struct store_link;
struct redisAsyncContext;

/* Something that is asked of the store, embedded in its owner. */
struct store_call {
	const char *command; /* in Redis's protocol; must stay until it is answered */
	size_t len;
	/* The answer's bytes, or NULL: it failed, and whether the store has done it is unknown. */
	void (*answered)(struct store_call *call, const char *bytes, size_t len);
	struct store_link *store;
	bool is_again; /* sent a second time: the first time the function was not there */
};

enum store_state { STORE_OFF, STORE_CONNECTING, STORE_READY, STORE_WAITING };

struct store_link {
	struct loop *loop;
	enum store_state state;
	struct redisAsyncContext *redis; /* CONNECTING, READY */
	struct deadline timer;           /* to connect again; of connecting */
	char *host, *user, *password;    /* user and password: NULL: none */
	uint16_t port;
	uint32_t database;
	bool has_unsent;
	unsigned failures; /* in a row */
	uint64_t random;
	char why[160]; /* the last failure */
	/* READY has begun or ended, or a failure is to be told: the first of them in a row. */
	void (*changed)(struct store_link *store);
};

/* Zeroed memory becomes a store that is OFF. `seed`: of the jitter. */
void store_link_init(struct store_link *store, struct loop *loop, uint64_t seed,
	void (*changed)(struct store_link *store));
/* Connects, and again as long as it is open. False without memory: it is OFF. */
bool store_link_open(struct store_link *store, const struct conf_fleet *conf);
/* Is it open to what `conf` says? */
bool store_link_is_of(const struct store_link *store, const struct conf_fleet *conf);
/* Cuts the connection, which fails all calls, and is OFF. */
void store_link_close(struct store_link *store);
/* Cuts it and connects again later. */
void store_link_drop(struct store_link *store, const char *why);

/* Sends it; `answered` comes later, never from within. False: it is not READY, or without memory;
 * nothing was sent. */
bool store_link_send(struct store_link *store, struct store_call *call);
/* Writes what was sent, at the end of each round: not from within `answered` or `changed`. It may
 * turn out here that the connection is lost. */
void store_link_flush(struct store_link *store);

#endif
