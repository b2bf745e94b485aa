/*
 * One connection to a Redis or to a Sentinel, by hiredis: its name is looked up, its addresses are
 * tried one after the other, and it is let in with a user and a password. It is not made again when
 * it is lost.
 *
 *   redis_peer_open --> name --> addresses --> AUTH, enter() --> ... --> lost(), once
 *
 * hiredis owns the socket, and the events on it are those of redis_events.c. All of it belongs to
 * the worker's thread.
 */
#ifndef STORE_REDIS_PEER_H
#define STORE_REDIS_PEER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "loop/deadline.h"
#include "loop/loop.h"
#include "net/names.h"

#define REDIS_HOST_BYTES 254 /* of a name or an address, with its NUL */
#define REDIS_TRIED_MOST 4   /* addresses of a name */
#define REDIS_CONNECT_MS 1000

struct redisAsyncContext;
struct redis_peer;

struct redis_peer_calls {
	/* A connection has begun: what the owner sends first. */
	void (*enter)(struct redis_peer *peer);
	/* It is lost, or could not be had; peer->why has the reason. It is closed. */
	void (*lost)(struct redis_peer *peer);
};

struct redis_peer {
	const struct redis_peer_calls *calls;
	struct loop *loop;
	struct names *names;
	struct redisAsyncContext *redis; /* NULL: none yet */
	struct name_lookup *lookup;
	struct deadline timer; /* until redis_peer_entered */
	char host[REDIS_HOST_BYTES];
	uint16_t port;
	const char *user, *password; /* not owned; NULL: none */
	struct sockaddr_storage tried[REDIS_TRIED_MOST];
	unsigned tried_count, next;
	unsigned first; /* of them that is tried, kept over openings */
	bool is_open;
	/* TLS, with whose settings for a host of what name; NULL: none */
	struct tls_client *tls_settings; /* not owned */
	bool tls_has_name;               /* the settings' name is that of each host */
	struct tls_client *tls;          /* of the host of the last opening; held */
	struct stream_loop *streams;
	struct tls_bridge *bridge; /* as long as `redis` is */
	char why[160];
};

/* Zeroed memory becomes a peer that is closed. */
void redis_peer_init(struct redis_peer *peer, const struct redis_peer_calls *calls,
	struct loop *loop, struct names *names);
/* From the next opening on, by TLS with these settings, which must stay until it is closed; with
 * NULL, without. */
void redis_peer_use_tls(struct redis_peer *peer, struct stream_loop *streams,
	struct tls_client *settings, bool has_name);
/* Begins to connect a closed one. `user` and `password` must stay until it is closed. Whatever
 * fails is reported by lost(), later and never from within. */
void redis_peer_open(struct redis_peer *peer, const char *host, uint16_t port, const char *user,
	const char *password);
/* All that was to be said first has been answered: there is no more deadline. */
void redis_peer_entered(struct redis_peer *peer);
/* Closes it and calls lost(); a closed one is ignored. Pending calls get NULL. */
void redis_peer_drop(struct redis_peer *peer, const char *why);
/* Closes it without a word; a closed one is ignored. Pending calls get NULL. */
void redis_peer_close(struct redis_peer *peer);
/* Its timer ends with it: nothing of it is on the loop any more. */
void redis_peer_end(struct redis_peer *peer);

/* The peer whose connection this is, NULL when it has been closed. */
struct redis_peer *redis_peer_of(const struct redisAsyncContext *redis);

#endif
