/*
 * Upstreams and their servers, as all workers share them: who is asked next, who is left out.
 *
 *   upstream --balance--> server --addresses--> one of them (a name has several, and they change)
 *                            |- in flight, failures in a row, left out until
 *                            `- idle connections: a list a worker, touched by that worker only
 *
 * A server that fails max_fails times in a row is left out for fail_timeout, then twice that, up to
 * fail_timeout_max; one success forgets it all. When all are left out, all are asked: a wrong guess
 * must not take the service down.
 */
#ifndef RELAY_UPSTREAM_H
#define RELAY_UPSTREAM_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "conf/conf.h"
#include "queue/run_queue.h"
#include "relay/pace.h"

struct server_connection;
struct upstream;

#define SERVER_ADDRESSES     16
#define UPSTREAM_SERVERS_MAX 64 /* a mask of those tried fits a word */

struct server_address {
	struct sockaddr_storage socket;
	socklen_t len;
};

/* One worker's idle connections to a server, last used first. Alone on its cache line. */
struct server_idle {
	struct server_connection *first, *last;
	uint32_t count;
	int32_t current_weight; /* round robin's state of this worker */
} __attribute__((aligned(64)));

struct server {
	struct upstream *upstream;
	const struct conf_server *conf;
	unsigned index;
	pthread_mutex_t addresses_lock; /* guards the addresses; held for a copy only */
	struct server_address addresses[SERVER_ADDRESSES];
	unsigned address_count;
	atomic_uint next_address;
	_Alignas(64) atomic_uint in_flight;
	atomic_uint fails;             /* in a row */
	atomic_uint interval_ms;       /* it was left out for, last */
	_Atomic uint64_t out_until_ms; /* 0: in */
	atomic_bool unhealthy;         /* by active checks */
	struct server_idle *idle;      /* [workers] */
};

struct upstream {
	atomic_uint holders;
	const struct conf *conf_held;
	const struct conf_upstream *conf;
	unsigned workers;
	struct server *servers;
	size_t server_count;
	struct queue *queue;
	struct run_queue *run_queue;
	/* The keys of the run queue, which a reload changes in place. The main thread's. */
	struct upstream_bounds {
		uint32_t max_in_flight, floor, ceiling, quantum;
		uint64_t pace_amount, pace_per_ns;
		uint32_t shed_target_ms, shed_interval_ms;
	} bounds;
	struct pace
		*_Atomic pace; /* NULL: none yet. Made by the main thread, never changed after */
};

/* Made for `workers` workers, held once; holds the snapshot. `before`: the one of that name that it
 * replaces, or NULL; its pace goes on. NULL without memory. */
struct upstream *upstream_new(const struct conf *conf, const struct conf_upstream *description,
	const struct upstream *before, unsigned workers, struct queue *queue);
struct upstream *upstream_hold(struct upstream *upstream);
/* The last one frees it; its idle connections must be closed by then. */
void upstream_release(struct upstream *upstream);

/* Would a new snapshot's upstream be the same but for its bounds? Then the old one serves on. */
bool upstream_same(const struct upstream *upstream, const struct conf_upstream *description);

/* The bounds of a new snapshot (max_in_flight, pace, quantum) take effect. Main thread only. False
 * without memory; the old ones stay. */
bool upstream_configure(struct upstream *upstream, const struct conf_upstream *description);

/*
 * The server to ask for one more exchange and takes a place of it (server_done gives it back).
 * `tried`: a mask of indexes not to take again. `hash`: for balance = hash (rendezvous hashing, so
 * that a server's absence moves only its own callers). NULL when none is left to try.
 */
struct server *upstream_pick(
	struct upstream *upstream, unsigned worker, uint64_t tried, uint64_t hash, uint64_t now_ms);
void server_done(struct server *server);

/* A place at this very server; false if max_in_flight leaves none. server_done gives it back. */
bool server_take_place(struct server *server);

/* Is it in, or the only one? */
bool server_may_serve(struct server *server, uint64_t now_ms);

/* How it went, for the passive check. */
void server_succeeded(struct server *server);
void server_failed(struct server *server, const char *why, uint64_t now_ms);

/* One of its addresses, another at each call. False when the name has none (yet). */
bool server_address(struct server *server, struct server_address *address);
void server_set_addresses(
	struct server *server, const struct server_address *addresses, unsigned count);

#endif
