/*
 * Exchanges, workers, the queue and the gate as they are, between a client and a server of the
 * test's, and with time in its hands:
 *
 *   request --> exchange_begin ... queue_enter (noted) ... --> exchange_forward: `serve` is called
 *      client: a connection's list of exchanges            job_answer, job_end
 *
 * A world has hosts, a worker each. One thread runs them all (world_turn, world_pass), or each has
 * a thread of its own.
 */
#ifndef UNIT_EXCHANGE_ASKING_WORLD_H
#define UNIT_EXCHANGE_ASKING_WORLD_H

#include <stdio.h>
#include <stdlib.h>

#include "../gate/fake_authority.h"
#include "exchange/exchange.h"
#include "http1/downstream.h"
#include "listen/listener.h"
#include "worker/node.h"

#define HOSTS_MOST    3
#define CLIENTS_MOST  48
#define JOBS_MOST     6000
#define CLIENT_DEPTH  5 /* requests in a pipeline */
#define SESSIONS_MOST 4

enum job_route { ROUTE_STRICT, ROUTE_WRITES, ROUTE_FREE, ROUTE_TABLE, ROUTE_SHALLOW, ROUTE_NARROW };
#define JOB_ROUTES 4 /* those that the random test draws from */
#define ALL_ROUTES (ROUTE_NARROW + 1)

struct world;

/* cmocka's own way out is for one thread only. */
static inline void hold_to(bool is_so, const char *what)
{
	if (is_so)
		return;
	fprintf(stderr, "asking: %s\n", what);
	abort();
}

/* A request. */
struct job {
	struct exchange *exchange; /* NULL: over */
	struct peer *peer;
	enum job_route route;
	unsigned session;
	bool is_write, ends_here; /* OPTIONS with Max-Forwards: 0 */
	uint64_t place;           /* its position among all that entered the queue; 0: none yet */
	bool in_service, answered, complete, loose; /* loose: its session was closed under it */
	bool asked;
	enum fake_word said; /* the last word that counted, once it was asked */
	uint64_t account;    /* what it was served for; 0: none */
	struct fake_authority *by;
	unsigned status; /* of its answer; 0: cut */
	const char *outcome;
};

/* A client's connection. */
struct peer {
	struct downstream d; /* wait_check looks at it */
	struct host *host;
	bool busy, closed, behind; /* behind: takes no response of a server */
};

struct host {
	struct world *world;
	struct worker *worker;
	struct listener listener;
	struct peer peers[CLIENTS_MOST];
	unsigned peer_count;
	struct job *jobs;
	unsigned job_count;
	unsigned live, served, refused, unavailable, cut, other;
};

struct world {
	struct node node;
	struct site *site;
	const struct conf *conf; /* of the first site: the listeners' */
	struct upstream_states *states;
	struct roster *roster;
	uint64_t now_ns, serial;
	uint64_t seed; /* of threads */
	_Atomic uint64_t places;
	struct fake_authority fakes[2];
	struct host hosts[HOSTS_MOST];
	unsigned host_count;
	bool is_alone; /* one thread: messages and time are the test's */
	void (*serve)(struct job *job);
	_Atomic int in_service[ALL_ROUTES][SESSIONS_MOST];
};

/* Which authority the route's limits have: of fakes[authority]; -1: the table. */
void world_open(struct world *world, unsigned hosts, int authority, bool is_alone);
void world_reload(struct world *world, int authority);
/* All is over: fails the test if anything is left. */
void world_close(struct world *world);

/* At most CLIENTS_MOST at a time. */
struct peer *peer_new(struct host *host);
/* NULL: its connection takes no more. */
struct job *peer_request(struct peer *peer, enum job_route route, unsigned session, bool is_write);
struct job *peer_request_options(struct peer *peer, enum job_route route, unsigned session);
/* A body of so many bytes is to come on its stream. */
struct job *peer_request_body(struct peer *peer, enum job_route route, unsigned bytes);
void peer_leave(struct peer *peer);

/* In service: the head of the response is there; all of it. */
void job_answer(struct job *job);
void job_end(struct job *job);

struct job *job_of(const struct exchange *exchange);

/* For a fake: whose question it is. job_asked: and it must be asked as it should be. */
struct job *job_of_question(const struct authority_question *question);
struct job *job_asked(const struct authority_question *question);
/* It is admitted at once. */
struct job *job_admitted(const struct authority_question *question);
struct session_key job_session(const struct job *job);

/* Delivers all messages of one thread's world; lets time pass first. */
void world_turn(struct world *world);
void world_pass(struct world *world, uint64_t ms);

/* Fails if an exchange waits for nothing. */
void world_check_waits(struct world *world);

#endif
