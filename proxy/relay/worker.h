/*
 * A worker: one thread, one libevent base, its own listening sockets, its own connections on both
 * sides. It shares with the others only what is atomic or immutable, the queue and the upstreams.
 *
 *   other workers --tickets--> mailbox --eventfd--> loop turn: callbacks, then rounds of streams
 *   main thread --commands-->                       that were woken, then graves
 *
 *   a round:  read all -> act on each -> tickets that came ready here -> write all
 *
 * Objects that end in a callback are buried: freed at the end of the turn, since callbacks up the
 * stack may still look at them.
 */
#ifndef RELAY_WORKER_H
#define RELAY_WORKER_H

#include <event2/event.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/slice.h"
#include "net/stream.h"
#include "queue/queue.h"
#include "relay/site.h"

struct downstream;
struct exchange;
struct listener;
struct relay;
struct server_connection;

/* A worker's hold on a site, counted without atomics: one for being current, one an exchange. */
struct site_use {
	struct site *site;
	struct worker *worker;
	uint64_t count;
};

/* Freed at the end of the turn. */
struct grave {
	struct grave *next;
	void (*free)(struct worker *worker, struct grave *grave);
};

enum worker_order {
	WORKER_SITE = 1 << 0,   /* a new site is current */
	WORKER_DRAIN = 1 << 1,  /* finish what is there, accept nothing */
	WORKER_STOP = 1 << 2,   /* cut all and end */
	WORKER_ACCEPT = 1 << 3, /* a listener at its bound may accept again */
};

/* Counts of one worker, written by it alone and summed by whoever asks; relaxed atomics. */
struct worker_counts {
	_Atomic uint64_t connections, requests, admitted, refused, denied, shed;
	_Atomic uint64_t responses[6]; /* by class; [0] unused */
	_Atomic uint64_t upstream_failures, retries, client_gone, malformed;
};

/* A name for a request that no other has: 16 hex digits that the worker drew at its start, and a
 * count of 12 more. */
#define WORKER_REQUEST_ID_BYTES 28

struct worker {
	struct relay *relay;
	unsigned index;
	pthread_t thread;
	struct event_base *base;
	struct stream_loop streams;
	struct buffer_pool blocks;
	struct site_use *use; /* of the current site */
	struct route_scratch *route_scratch;
	struct listener *listeners;
	struct downstream *downstreams; /* all client connections */
	uint64_t exchange_count;        /* alive, those whose client left included */
	struct exchange *orphans;       /* their clients are gone, their responses still to come */
	struct exchange *spare_exchanges;
	unsigned spare_exchange_count;
	struct grave *graves;
	struct server_connection *unsent, **unsent_end; /* with requests to write, */
	struct downstream *unflushed, **unflushed_end;  /* with responses: at the round's end */
	struct ticket *ready; /* dispatched to us by ourselves, newest first */

	/* from other threads */
	struct ticket *_Atomic mail;
	atomic_uint orders;
	struct site *_Atomic next_site;
	_Atomic uint64_t reloads_seen; /* relay.reloads when it last took a site */
	int wake_fd;
	struct event *wake_event;

	uint64_t now_ns, now_ms; /* monotonic; read once a turn */
	bool now_known;
	bool draining, stopping;
	uint64_t date_second;
	char date[32]; /* IMF-fixdate */
	struct clock_cache clock;
	char request_id[WORKER_REQUEST_ID_BYTES]; /* the next one's */
	char path_scratch[3 * 65536];
	struct worker_counts counts;
};

/* The worker that the calling thread is, or NULL. */
struct worker *worker_current(void);

/* Makes it, with its loop and wake-up, held on `site`. NULL with a line in the log. */
struct worker *worker_new(struct relay *relay, unsigned index, struct site *site);
/* Its thread has ended. */
void worker_free(struct worker *worker);

/* The thread's body: turns until told to stop or drained. */
void *worker_main(void *worker);

/* Any thread. */
void worker_order(struct worker *worker, unsigned orders);
void worker_mail(struct worker *worker, struct ticket *ticket);
void worker_site(struct worker *worker, struct site *site);

uint64_t worker_now_ns_slow(struct worker *worker);
static inline uint64_t worker_now_ns(struct worker *worker)
{
	return worker->now_known ? worker->now_ns : worker_now_ns_slow(worker);
}
static inline uint64_t worker_now_ms(struct worker *worker)
{
	worker_now_ns(worker);
	return worker->now_ms;
}

/* The clock of the throttles: monotonic since start, on the wall's base, so that it goes on after
 * a restart. Read anew: a limit is promised over true times, and a turn may be long. */
uint64_t worker_throttle_ns(const struct worker *worker);

/* The wall's time of this turn, for dates. */
uint64_t worker_wall_ns(struct worker *worker);

/* Counts worker->request_id up, in place. */
void worker_next_request_id(struct worker *worker);

/* `Sun, 06 Nov 1994 08:49:37 GMT` */
struct slice worker_date(struct worker *worker);

void worker_bury(struct worker *worker, struct grave *grave,
	void (*free_it)(struct worker *worker, struct grave *grave));

struct site_use *site_use_hold(struct site_use *use);
void site_use_release(struct site_use *use);

static inline void worker_count(_Atomic uint64_t *count)
{
	/* relaxed: one writer, readers take any recent value */
	atomic_store_explicit(
		count, atomic_load_explicit(count, memory_order_relaxed) + 1, memory_order_relaxed);
}

#endif
