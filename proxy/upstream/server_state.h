/*
 * The state of upstreams and their servers that outlives one configuration: a reload keeps it.
 *
 *   states --by name--> upstream_state: run queue (places, who waits), pace
 *                         `--by address--> server_state: in flight, addresses, failures,
 *                                          idle connections
 *
 * The settings are not here: each site has upstreams and servers of its own (upstream/upstream.h),
 * made of its own snapshot, which hold these states. So a reload can't forget a setting, and can't
 * forget what is in flight. A state lives as long as any site, pin or exchange holds it, and is
 * found again by its name until then, also when a configuration in between did not have it.
 */
#ifndef UPSTREAM_SERVER_STATE_H
#define UPSTREAM_SERVER_STATE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/log_pace.h"
#include "conf/conf.h"
#include "queue/run_queue.h"
#include "upstream/probes_shown.h"
#include "upstream/semaphore_slots.h"
#include "upstream/server_addresses.h"

struct connection_waiter;
struct pace;
struct server_connection;
struct upstream_states;

/* One worker's connections to an address of a server: those that offer a place
 * (upstream/server_pool.h), and how many exchanges have one. Those that carry something are first,
 * then those that are idle, last used first. Alone on its cache line. */
struct server_idle {
	struct server_connection *first, *last;
	uint32_t count; /* of idle ones */
	/* In the list of the first slot, for all: */
	int32_t current_weight; /* round robin's state of this worker, */
	uint32_t turn;          /* and that of the addresses */
	bool shared;            /* under the upstream's lock, and others may take of them */
	bool yields;            /* one of them ends for another worker's exchange */
	/* Written by this worker only; relaxed: others read `busy` for a choice. */
	atomic_uint busy;
	uint32_t peaks[2]; /* of busy, in this period and the one before */
	uint64_t period;
	uint64_t ahead_ms; /* the next connection before one is needed, not before that time */
} __attribute__((aligned(64)));

#define SERVER_FAILURE_BYTES 128

struct server_failure {
	uint64_t at_ms; /* monotonic; 0: there was none */
	char why[SERVER_FAILURE_BYTES];
};

/* The operator's setting for it; the first after a start. */
enum server_mode {
	SERVER_ENABLED,
	SERVER_DRAINING, /* sessions that are bound to it continue, no other is sent there */
	SERVER_DISABLED, /* nobody is; what is in flight ends */
	SERVER_MODES,
};

struct server_state {
	struct server_state *next; /* of the upstream's */
	struct upstream_state *upstream;
	unsigned holders; /* guarded by the states' lock */
	uint32_t bound;   /* requests at once that it allows; 0: any number. Guarded, too */
	char *address;    /* as written: what identifies it, with */
	unsigned repeat;  /* how many of that address precede it */
	unsigned slots;   /* for addresses: 1, unless it is a name */
	pthread_mutex_t finding_lock;  /* held for a copy only */
	struct server_finding finding; /* of active checks; guarded */
	struct server_failure failure; /* of an exchange, the last; guarded */
	struct server_addresses addresses;
	_Alignas(64) atomic_uint in_flight;
	atomic_uint max_connections;          /* 0: no bound */
	atomic_uint connections;              /* open, whatever for: upstream/server_pool.h */
	atomic_uint streams;                  /* responses without end, tunnels: in no in_flight */
	atomic_uint fails;                    /* in a row */
	_Atomic uint64_t responses, failures; /* since the start */
	atomic_uint interval_ms;              /* it was left out for, last */
	_Atomic uint64_t out_until_ms;        /* 0: in */
	atomic_bool unhealthy;                /* by active checks */
	atomic_bool listed;                   /* the configuration in force has it */
	atomic_uint mode;                     /* enum server_mode */
	atomic_uint places;                   /* of a connection with many, lately; 0: unknown */
	atomic_uint weight;                   /* an operator's setting; 0: the file's */
	struct log_pace failure_lines;
	unsigned workers;
	struct server_idle *idle; /* [slots][workers] */
};

struct upstream_state {
	struct upstream_state *next;
	struct upstream_states *states;
	unsigned holders; /* guarded by the states' lock */
	char *name;
	struct server_state *servers;
	struct run_queue *run_queue;
	atomic_bool has_capacity;         /* a server of it bounds its requests (upstream.c) */
	atomic_uint streams;              /* responses without end (exchange/endless.h) */
	atomic_uint unplaced;             /* events sent beyond its places (exchange/turn.h) */
	pthread_mutex_t connections_lock; /* of servers with a bound: upstream/server_pool.h */
	struct connection_waiter *first_waiter, *last_waiter; /* guarded by it */
	uint64_t line_numbers;                                /* given so far; guarded, too */
	atomic_uint waiting;                                  /* how many these are */
	struct pace *_Atomic
		pace; /* NULL: none yet. Set once, by a commit; continues while it is off */
	struct semaphore_slots semaphore;
	struct probes_shown probes;   /* of active checks that the fleet shares */
	_Atomic uint64_t probes_sent; /* by this node, for any check; since the start */
};

/* All of a daemon; `workers` is how many it has. NULL without memory. */
struct upstream_states *upstream_states_new(struct queue *queue, unsigned workers);
/* No holder of a state is left. NULL is ignored. */
void upstream_states_free(struct upstream_states *states);

/* The state of the upstream of that name, made with `config` when there is none; held once. NULL
 * without memory. Main thread; so is server_state_get. */
struct upstream_state *upstream_state_get(
	struct upstream_states *states, const char *name, const struct run_queue_config *config);
/* Any thread. */
struct upstream_state *upstream_state_hold(struct upstream_state *state);
void upstream_state_release(struct upstream_state *state);
/* Does nobody hold it but the one that asks? Only upstream_state_get makes that untrue again. */
bool upstream_state_is_last(struct upstream_state *state);

/* The state of the upstream's server at that address, the `repeat`th of it; held once. It holds
 * the upstream's. NULL without memory. */
struct server_state *server_state_get(
	struct upstream_state *upstream, const struct conf_address *address, unsigned repeat);
/* Any thread. The last one frees it; its idle connections must be closed by then. */
struct server_state *server_state_hold(struct server_state *state);
void server_state_release(struct server_state *state);

/* Calls visit for each server of the upstream, with the states' lock held: it must not call back.
 */
void upstream_state_each_server(struct upstream_state *upstream,
	void (*visit)(void *ctx, struct server_state *server), void *ctx);

/* The last results of active checks. Any thread. */
void server_state_note_finding(struct server_state *state, const struct server_finding *finding);
void server_state_read_finding(struct server_state *state, struct server_finding *finding);

/* The last failure of an exchange at the server. Any thread. */
void server_state_note_failure(struct server_state *state, const char *why, uint64_t now_ms);
void server_state_read_failure(struct server_state *state, struct server_failure *failure);

#endif
