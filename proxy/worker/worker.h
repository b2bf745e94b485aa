/*
 * A worker: one thread, its loop (loop/loop.h), its own listening sockets, its own connections on
 * both sides. It shares with the others only what is atomic or immutable, the queue and the
 * upstreams.
 *
 *   other workers --tickets---> messages of its loop
 *   main thread ---commands-->
 *
 *   a round:  streams are read and acted on -> messages -> requests and responses are written
 */
#ifndef WORKER_WORKER_H
#define WORKER_WORKER_H

#include <event2/event.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/slice.h"
#include "gate/authority.h"
#include "loop/loop.h"
#include "net/stream.h"
#include "queue/queue.h"
#include "stats/stats.h"
#include "worker/node.h"

struct busiest_rows;
struct conf_secret;
struct usage_counts;

/* The requests of the main thread and other workers to a worker; asked twice before it is done is
 * once. */
enum worker_command {
	WORKER_SITE = 1 << 0,        /* a new site is current */
	WORKER_DRAIN = 1 << 1,       /* finish what is there, accept nothing */
	WORKER_STOP = 1 << 2,        /* cut all and end */
	WORKER_ACCEPT = 1 << 3,      /* a listener at its bound may accept again */
	WORKER_PING = 1 << 4,        /* show that it turns: daemon/manager.h */
	WORKER_SEEN = 1 << 5,        /* show that it is in no call that began before */
	WORKER_CONNECTIONS = 1 << 7, /* connections were taken over, or are free: server_pool.h */
	WORKER_HAND_OVER = 1 << 6,  /* leave the bindings that are handed over to another process */
	WORKER_GIVE_WAY = 1 << 8,   /* close an idle connection for a new one: listen/give_way.h */
	WORKER_SPARE = 1 << 9,      /* close idle connections to servers: site/spare.h */
	WORKER_LISTEN = 1 << 10,    /* all has started: accept clients */
	WORKER_OWNERS = 1 << 11,    /* sessions have other owners: ownership/owners.h */
	WORKER_DELAYED = 1 << 13,   /* what requests wait for may be free: exchange/delay_line.h */
	WORKER_ADDRESSES = 1 << 12, /* a server's name has lost an address: server_addresses.h */
};

/* A name for a request that no other has: 16 hex digits that the worker drew at its start, and a
 * count of 12 more. */
#define WORKER_REQUEST_ID_BYTES 28

/* Parts that have something to do at a turn's end. */
#define WORKER_TURN_ENDS 6

/* The part of a worker that other threads write and read. */
struct worker_inbox {
	struct message command;
	atomic_uint commands;            /* asked for, not yet taken; not 0: `command` is posted */
	_Atomic uint64_t reloads_seen;   /* daemon.reloads when it last took a site */
	_Atomic uint64_t pings_answered; /* daemon.manager.pings that it had */
	_Atomic uint64_t spare_answered; /* node.spare.questions that it had */
};

/* The wall clock's time as last read, and its date. */
struct worker_wall {
	uint64_t ns, turn_ns; /* worker_wall_ns, and the turn that it was read in */
	uint64_t date_second;
	char date[32]; /* IMF-fixdate */
};

/* The work of its parts at the end of each turn. */
struct worker_turn_ends {
	void (*run[WORKER_TURN_ENDS])(struct worker *worker);
	unsigned count;
};

/* Memory of the parts of a worker. Each belongs to a room above, whose header has its struct and
 * the function that finds it; zeroed before the part is made. */
enum worker_memory {
	PART_SITE,       /* site/site_use.h */
	PART_UPSTREAM,   /* upstream/server_connection.h */
	PART_LISTEN,     /* listen/listener.h */
	PART_OWNERSHIP,  /* ownership/owner_use.h */
	PART_EXCHANGE,   /* exchange/exchange.h */
	PART_TUNNEL,     /* tunnel/passage.h */
	PART_HTTP1,      /* http1/downstream.h */
	PART_HTTP2,      /* http2/h2_connection.h */
	PART_CHANNELS,   /* channels/channels_part.h */
	PART_WEBSOCKETS, /* websocket/sockets.h */
	PART_GATEWAYS,   /* gateway/gateway.h */
	PART_FLEET,      /* fleet/question.h */
	WORKER_PARTS,
};

struct worker {
	struct node *node;
	unsigned index;
	pthread_t thread;
	struct loop loop;
	struct stream_loop streams;
	struct buffer_pool blocks;
	void *memory[WORKER_PARTS];
	struct route_scratch *route_scratch;
	struct loop_stage write_stage;          /* of requests and responses, at the round's end */
	struct questions questions;             /* of verdicts that come later */
	struct loop_stage fleet_stage;          /* outlives its part in the fleet */
	const struct conf_secret *fleet_secret; /* of the site in force; other nodes have it, too */
	const struct worker_part *const *parts;
	struct worker_turn_ends turn_ends;

	struct worker_inbox inbox;
	bool draining, stopping;
	bool checks_waits; /* daemon/wait_check.h */
	uint64_t drain_began_ms;
	struct worker_wall wall;
	struct clock_cache clock;
	char request_id[WORKER_REQUEST_ID_BYTES]; /* the next one's */
	uint64_t trace_seeds[2];                  /* of the ids of traces; zeroed: not seeded yet */
	char path_scratch[3 * 65536];
	struct stats_block *stats;    /* this worker's counters */
	struct usage_counts *usage;   /* NULL: it is not kept */
	struct busiest_rows *busiest; /* and the callers of each limit that it has most of */
};

/*
 * The work of a higher unit on the worker's thread; each call may be NULL. The parts of a worker
 * are called in the order of their list (daemon/worker_parts.c), and freed in the opposite one.
 */
struct worker_part {
	enum worker_memory memory; /* what it owns, of so many bytes; 0 bytes: nothing */
	size_t bytes;
	bool (*make)(struct worker *worker, void *site); /* false: no memory. Main thread */
	void (*begin)(struct worker *worker);            /* its thread begins */
	void (*take_site)(struct worker *worker);        /* its site is another one */
	void (*command)(struct worker *worker, unsigned commands);
	void (*end_turn)(struct worker *worker);
	bool (*give_up)(struct worker *worker); /* a descriptor; false: it has none to spare */
	bool (*is_done)(const struct worker *worker); /* drained: has it nothing left to do? */
	void (*end)(struct worker *worker);           /* its thread is about to end */
	void (*free)(struct worker *worker);          /* and has. Main thread */
	const char *work; /* with is_done: what it has left when it is not, for the log */
};

/* Makes it, with its loop and wake-up, and its parts (ended by NULL), which begin with this site.
 * NULL with a line in the log. */
struct worker *worker_new(
	struct node *node, unsigned index, void *site, const struct worker_part *const *parts);
/* Its thread has ended. */
void worker_free(struct worker *worker);

/* The thread's body: runs until it is stopped or drained. */
void *worker_main(void *worker);

/* Its site is another one: its parts look at what that changes. */
void worker_site_taken(struct worker *worker);

/* Has its parts give up a descriptor of a connection that is not needed any more. False: no part
 * has one. */
bool worker_give_up(struct worker *worker);

/* Any thread. */
void worker_command(struct worker *worker, unsigned commands);

/* The monotonic time of this turn. */
static inline uint64_t worker_now_ns(struct worker *worker)
{
	return loop_now_ns(&worker->loop);
}
static inline uint64_t worker_now_ms(struct worker *worker)
{
	return loop_now_ms(&worker->loop);
}

/* Counts worker->request_id up, in place. */
void worker_next_request_id(struct worker *worker);

/* Adds one to a counter of the node's own: STATS_CONNECTIONS, ... */
static inline void worker_count(struct worker *worker, unsigned slot)
{
	stats_add(&stats_row(worker->stats, STATS_NODE, 0)[slot], 1);
}

#endif
