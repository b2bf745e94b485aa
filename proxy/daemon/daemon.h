/*
 * The daemon: the whole running proxy.
 *
 *   main thread: signals, reload, drain, names, health checks, idle timers
 *   workers:     everything that a request meets
 */
#ifndef DAEMON_DAEMON_H
#define DAEMON_DAEMON_H

#include <event2/event.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/container.h"
#include "base/log.h"
#include "conf/conf.h"
#include "daemon/certificate_watch.h"
#include "daemon/failure_lines.h"
#include "daemon/growth.h"
#include "daemon/manager.h"
#include "daemon/signals.h"
#include "listen/listener.h"
#include "queue/queue.h"
#include "site/certificates.h"
#include "site/site.h"
#include "worker/node.h"
#include "worker/worker.h"

/* ---- queue deadline ------------------------------------------------------------------------- */

/*
 * The time at which the queue next has something to expire, and the main loop's timer for it.
 *
 *   any thread: an exchange waits --note--> earliest deadline --arm, each turn--> timer -->
 * queue_expire
 */

struct daemon;

struct queue_deadline {
	struct event *timer;    /* NULL: not begun */
	_Atomic uint64_t at_ns; /* monotonic; QUEUE_NEVER */
};

/* False without memory. Main thread, as queue_deadline_end. */
bool queue_deadline_begin(struct daemon *daemon);
void queue_deadline_end(struct daemon *daemon);

/* The queue's `timer_changed` (queue/queue.h); `ctx` is the daemon. Wakes the main loop when the
 * deadline (monotonic) is earlier than the known one. Any thread. */
void queue_deadline_note(void *ctx, uint64_t deadline_ns);

/* Arms the timer. Main thread, after each turn of its loop. */
void queue_deadline_arm(struct daemon *daemon);

/* ---- daemon --------------------------------------------------------------------------------- */

struct checks;
struct handover;
struct keeping;
struct probers;
struct reload;
struct resolver;
struct roster;
struct upgrade;
struct usage;

/*
 * A part of a higher room that runs beside the daemon, on the main thread's loop or threads of its
 * own. `open` is called before privileges are dropped, `start` when all workers serve, `close` when
 * they have ended or the start failed. open and start write a line to the error log when they
 * return false, which ends the start. What it inherits (NULL: nothing) `open` takes as its own; for
 * an upgrade, `give` adds its listening sockets (false: no memory) and `hand_over` leaves the one
 * of an address to the new process. `load` reads the configuration again for a reload, which must
 * not wait: a snapshot held once, or NULL with the errors.
 */
struct daemon_service {
	bool (*open)(void *ctx, const struct conf *conf, struct handover *inherited);
	bool (*start)(void *ctx, struct daemon *daemon);
	void (*close)(void *ctx);
	bool (*give)(void *ctx, struct handover *to);
	void (*hand_over)(void *ctx, const char *address);
	struct conf *(*load)(void *ctx, struct conf_errors *errors);
	void *ctx;
	char *const *arguments; /* an upgrade starts these: the binary's path, ..., NULL */
};

struct daemon {
	struct node node;           /* what the workers know of it */
	struct listening listening; /* node_listening(&node) */
	struct roster *roster; /* the operators' settings for single callers; the main thread's to
				  change */
	struct upstream_states *states;
	const struct daemon_service *service;
	uint64_t started_ns;           /* monotonic */
	struct site *site;             /* current; the main thread's hold */
	const struct conf *begun_with; /* settings that take effect only at the start are of this
					  one; a hold */
	struct manager manager;        /* the service manager's part in it */
	struct resolver *resolver;
	struct checks *checks;
	struct keeping *keeping; /* daemon/shared_upstream.h */
	struct probers *probers; /* daemon/probers.h */
	struct signals signals;
	struct event *stop_timer;   /* daemon/signals.h */
	struct reload *reload;      /* prepared, waiting for names; or NULL */
	struct event *reload_timer; /* commits it */
	bool reload_waits;          /* one was asked for while two processes have the table */
	struct handover *inherited; /* at the start, from the process before; else NULL */
	struct upgrade *upgrade;    /* the next process is starting; or NULL */
	unsigned ended_pause_ms;    /* until it is looked again what an ended process had */
	struct event *predecessor;  /* sees the end of the process before; or NULL */
	int successor;              /* shows the next process our end; or -1 */
	struct queue_deadline queue_deadline;
	struct usage *usage;  /* NULL: it is not kept */
	struct growth growth; /* of the throttles' table */
	struct failure_lines failure_lines;
	struct certificate_watch watch;
	struct certificates_terms tls;
	_Atomic uint64_t reloads; /* how often limits were changed, or their table grew */
	uint64_t reloads_collected;
	bool draining;      /* the drain */
	bool handed_over;   /* because another process has taken over */
	bool was_signalled; /* because of a signal */
	int exit_status;
};

/* Serves `conf` (the hold passes over) until a signal stops it. Returns the exit status: 0 after a
 * drain, 1 when it could not start (the log has the reason) or was cut by shutdown_timeout. */
int daemon_run(struct conf *conf, const struct daemon_service *service);

/* The time of the throttles now (throttle/throttle.h). Any thread. */
uint64_t daemon_throttle_ns(const struct daemon *daemon);

/* The bound on what send queues hold is that of `conf`. */
void daemon_bound_sends(struct daemon *daemon, const struct conf *conf);

static inline struct daemon *daemon_of(const struct worker *worker)
{
	return CONTAINER_OF(worker->node, struct daemon, node);
}

/* Wakes the main thread: a worker has ended, or has taken a new site. Any thread. */
void daemon_tell_main(struct daemon *daemon);

#endif
