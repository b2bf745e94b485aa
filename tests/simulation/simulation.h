/*
 * A simulated fleet. Each node has the real leases (fleet/lease.c, hand.c, batch.c) and the real
 * way to connect again (store/store_link.c), on a clock of its own; the store runs the real
 * function. Between them there is only time, of which events are a heap:
 *
 *   request --> node --> lease_way.take: decided here
 *                `-- lease_ask --half a round trip--> store --half a round trip--> lease_answer
 *
 * Mirrored here, as the originals need a worker: what fleet.c does with a question, and when
 * fleet_part.c takes a store for silent.
 */
#ifndef TESTS_SIMULATION_SIMULATION_H
#define TESTS_SIMULATION_SIMULATION_H

#include "tests/simulation/simulated_callers.h"
#include "tests/simulation/lua_store.h"
#include "tests/unit/fleet/lease_node.h"

#define LATENCIES_MOST 1024
#define BUCKET_US      100000 /* of what is counted over time */
#define WAITS          128
#define SILENCE_US     1000000 /* as fleet_part.c */
#define CONNECT_US     1000000 /* as redis_peer.h */

struct settings {
	uint32_t nodes, callers;
	uint32_t spread; /* nodes that a caller's requests reach; 0: all */
	double exponent, rate, seconds;
	double burst_s, pause_s; /* requests come in bursts; pause_s 0: evenly */
	uint64_t quota, window_us;
	double away_at_s, away_s; /* the store is away */
	double deaths_s;          /* a node dies and another joins, so often; 0: never */
	uint64_t timeout_us;      /* store_timeout */
	double service_us;        /* of the store, for a call */
	uint64_t seed;
};

struct simulation;
typedef void run_event(struct simulation *simulation, void *arg, uint64_t number);

struct step {
	uint64_t at_us, order; /* of events at the same time */
	run_event *run;
	void *arg;
	uint64_t number;
};

struct heap {
	struct step *all;
	size_t count, size;
	uint64_t order;
};

/* What happened within BUCKET_US. */
struct bucket {
	uint32_t asked, admitted, refused, unavailable, calls;
};

struct simulated_node {
	struct lease_node lease;
	struct store_link link;
	struct simulation *simulation;
	double speed;                  /* of its clock */
	uint64_t offset_us;            /* of its clock */
	uint64_t timer_us;             /* when its timers are looked at; UINT64_MAX: never */
	uint64_t sent_us, answered_us; /* the last bytes: they keep their order */
	uint64_t life;                 /* connections that it has had */
	struct call *in_flight, **in_flight_end;
	struct simulated_node *next; /* once it is dead */
};

struct simulation {
	struct settings settings;
	struct heap heap;
	struct random random;
	struct store *store;
	struct callers callers;
	struct stats *stats;
	struct simulated_node **nodes, *dead;
	uint64_t *asked; /* by caller */
	double latencies_us[LATENCIES_MOST];
	unsigned latency_count;
	uint64_t now_us, store_free_us, store_busy_us;
	struct bucket *buckets;
	size_t bucket_count;
	uint64_t waits[WAITS]; /* verdicts by their time: 0, and from 1 us on, 15 % more each */
	uint64_t connected;
	uint64_t connected_us[3]; /* half, 99 % and all nodes since the store is back */
};

/* Runs it at that time. */
void simulation_at(
	struct simulation *simulation, uint64_t at_us, run_event *run, void *arg, uint64_t number);
struct bucket *simulation_bucket(struct simulation *simulation);
bool simulation_store_is_away(const struct simulation *simulation);
/* Half a round trip. */
uint64_t simulation_draw_way(struct simulation *simulation);

/* A node that connects; `stats`: it counts there. */
struct simulated_node *simulated_node_new(struct simulation *simulation, struct stats_block *stats,
	void (*went_on)(struct lease_node *node, struct question *question, bool answered));
/* It is gone, with what it has on lease. Events of it may still come. */
void simulated_node_kill(struct simulated_node *node);
/* Its clock is now's. */
void simulated_node_set_time(struct simulated_node *node);
/* After each event of it: what it asks is sent, and its next timer is an event. */
void simulated_node_end_turn(struct simulated_node *node);

#endif
