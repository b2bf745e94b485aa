/*
 * Listening sockets. A binding is one `bind` of the configuration with its sockets: one a worker
 * (SO_REUSEPORT spreads connections over them), or a single one that all accept from (unix sockets
 * and those that systemd passed in). A listener is a worker's part in a binding.
 *
 *   [listener public] bind a, b -> binding a -> socket of worker 0, of worker 1, ...
 *                               -> binding b -> ...
 *
 *   ACCEPTING --drain, or its bind is gone--> RETIRING (new connections are kept out,
 *        |                                       |      those that stand are accepted)
 *        `--------------- stop --> CLOSED <--all have come
 *
 * Closing a listening socket resets what waits in its backlog, and handshakes that the client has
 * finished and the kernel has not, with the requests that were sent already. So a listener retires:
 * it is closed when the kernel has no handshake under way with its address and its backlog is
 * empty, or RETIRE_MAX_MS after it began (in a drain, within shutdown_timeout). Each worker waits
 * for all handshakes of the address: the kernel does not show which of its sockets they belong to.
 * If the system can't show them (no netlink), the listener is closed when no client connected for
 * BLIND_QUIET_MS. If it cannot stop new connections (an old kernel, without root), there may never
 * be such a moment under load: then a client that connects when RETIRE_MAX_MS is over may be reset.
 *
 * When file descriptors run out (idle connections to servers are closed first: site/spare.h) or
 * max_connections is reached, a connection that carries nothing gives way (listen/give_way.h).
 * Where there is none, the listener stops accepting and leaves clients in the backlog, until a
 * connection has closed or is idle; it never spins.
 */
#ifndef LISTEN_LISTENER_H
#define LISTEN_LISTENER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "conf/conf.h"
#include "listen/connection_bound.h"
#include "listen/handshake_phase.h"
#include "listen/idle_list.h"
#include "loop/deadline.h"
#include "net/acceptor.h"
#include "site/spare.h"
#include "worker/worker.h"

struct accepted;
struct client_entry;
struct site_use;

/* Made by the main thread, and freed by it when it is closed and no worker has a listener of it. */
struct binding {
	struct binding *next;
	char *text;                  /* as in the configuration: what identifies it over reloads */
	char *unix_path;             /* to be removed at the end; NULL when it is not ours */
	bool is_borrowed;            /* the path is still that of the process before */
	int *sockets;                /* [workers]; -1 once its worker took it */
	struct listener **listeners; /* [workers], for each worker's part; NULL once it took it */
	unsigned workers;
	bool closed;         /* no longer in the configuration: no worker makes a listener of it */
	atomic_uint holders; /* listeners that workers made of it */
	int *given; /* [workers] the sockets' descriptors, for an upgrade; -1: it has one already */
	bool handed_over; /* another process has it; set before the workers get the message */
	struct connection_bound *bound;
	bool is_shared;         /* workers accept from one socket, which wakes all of them */
	atomic_uint making_way; /* that: 1 + the worker that makes room for the next client, or 0 */
};

/* All that the process listens on, and how many clients it takes. */
struct listening {
	struct binding *bindings;
	struct binding *prepared; /* of a reload that is not committed yet */
	pthread_mutex_t lock;     /* guards the two lists; workers look during a reload */
	struct connection_bound *bounds;
	struct connection_bound descriptors; /* clients, within the descriptors there are: */
	unsigned descriptor_limit, clients_max;
	atomic_bool reported_descriptors;
	atomic_uint deaf; /* listeners that the system does not let accept clients */
};

/* The receiver of clients: of accepted connections, after the handshake if there is one. */
struct protocol {
	const char *name; /* in ALPN (RFC 7301) */
	uint64_t bit;     /* enum conf_protocol: a listener's `protocols` allow it */
	/* The answer to a client that speaks the protocol without the handshake that it
	 * needs; NULL: none. */
	const char *plain_answer;
	/* Takes it over; listener_connection_closed is due at its end. */
	void (*take_client)(
		struct worker *worker, struct listener *listener, struct accepted *accepted);
	/* The same for one without a handshake, whose first bytes show whether it speaks this
	 * protocol; if not, another one has it. NULL: take_client. */
	void (*take_plain)(
		struct worker *worker, struct listener *listener, struct accepted *accepted);
	/* The same as take_client, when some was read already: it gets the buffer. NULL: it takes
	 * no such client. */
	void (*take_begun)(struct worker *worker, struct listener *listener,
		struct accepted *accepted, struct buffer *first);
	/* Closes one that only lingers, for one that comes. False: there is none. */
	bool (*give_way)(struct listener *listener);
	/* One of this worker's that is idle and has a place of the bound (NULL: there is none), and
	 * its end. */
	struct idle_link *(*find_idle)(struct worker *worker, const struct connection_bound *bound);
	void (*close_idle)(struct idle_link *link);
};

/* A worker's. Lives until its connections have ended. */
struct listener {
	struct acceptor acceptor;
	struct deadline retry; /* file descriptors ran out, or it is deaf */
	struct deadline again; /* no place was free: looks again */
	struct deadline quiet; /* RETIRING: looks whether anybody may still come */
	uint64_t came_ms;      /* RETIRING: when a client connected last, or handshakes were over */
	uint64_t quiet_ms;     /* RETIRING: it is closed when no client connected for this time */
	uint64_t retire_max_ms; /* RETIRING: when it ends although there is no quiet */
	struct listener *next;
	struct worker *worker;
	struct binding *binding;
	/* The first is that of connections whose handshake chooses none; ended by NULL. */
	const struct protocol *const *protocols;
	const struct conf_listener *conf;
	struct site_use *use;              /* holds conf, and: */
	struct certificates *certificates; /* of new connections; NULL: they are plain */
	bool retiring, closed;
	bool is_deaf;        /* the system does not let it accept clients; `retry` is set */
	bool had_handshakes; /* RETIRING: when last asked, or not asked yet */
	bool is_empty;       /* no client waited when last asked */
	uint64_t connections;
	struct handshake_list handshakes; /* of those, which are no clients yet */
	struct spare_question spare;      /* no descriptor is free for one that comes */
	struct idle_list idle;            /* http1/idle.h */
	struct idle_list idle_http2;      /* http2/h2_linger.h */
	struct downstream *oldest_lingering, *newest_lingering; /* http1/linger.h */
	unsigned lingering;
	struct idle_list unproven; /* of the internal listener: exchange/hop.h */
	unsigned unproven_count;
};

/* A worker's memory of its listeners. */
struct listen_part {
	struct listener *listeners;
};

static inline struct listen_part *listen_part(const struct worker *worker)
{
	return worker->memory[PART_LISTEN];
}

static inline struct listening *node_listening(const struct node *node)
{
	return node->shared[NODE_LISTENING];
}

/* Makes this worker's listeners those of its current site; of new ones, one of `protocols` (ended
 * by NULL, which outlive the listeners) takes each client. */
void listeners_update(struct worker *worker, const struct protocol *const *protocols);
/* Closes them as soon as what has arrived is accepted. */
void listeners_retire(struct worker *worker);
bool listeners_are_closed(const struct worker *worker);
/* Closes those of which another process has the sockets, too, with all that waits in them. */
void listeners_hand_over(struct worker *worker);
/* Closes them now. */
void listeners_close(struct worker *worker);
void listeners_resume(struct worker *worker);
void listeners_free(struct worker *worker);

/* The protocol of this name, if the listener allows it; else NULL. For a NULL name: the first that
 * it allows. */
const struct protocol *listener_protocol(const struct listener *listener, const char *name);

/* A client of this listener's, which counts among the node's, has left; its entry (or NULL) is
 * freed. */
void listener_client_gone(struct listener *listener, struct client_entry *entry);

/* A connection of this listener has closed; its entry (or NULL) is freed. */
void listener_connection_closed(struct listener *listener, struct client_entry *entry);

#endif
