/*
 * A node: one sluice process, as its workers know it. What they share with each other and with the
 * main thread; the rest of the process is the main thread's (daemon.h).
 */
#ifndef WORKER_NODE_H
#define WORKER_NODE_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/clock.h"
#include "base/log_pace.h"
#include "loop/loop.h"
#include "loop/message.h"
#include "net/tls_client.h"
#include "spool/store.h"

struct authority;
struct log;
struct queue;
struct stats;
struct throttle_table;
struct worker;

/* Notes a failure without a line in the log: the main thread counts them after a while
 * (daemon/failure_lines.h). */
struct failure_note {
	struct message message;  /* to the main thread */
	atomic_bool is_reported; /* a look is due, or will be by the message */
};

/* Unexpected clients of the internal listener (exchange/hop.h). */
struct node_hops {
	struct log_pace strangers; /* that do not have the secret */
	struct log_pace unread;    /* of nodes with other listeners, or of another version */
};

/* Descriptors that idle connections to servers hold (site/spare.h). */
struct node_spare {
	_Atomic uint64_t questions;    /* of workers that lack one, to all the others */
	_Atomic uint64_t closed;       /* connections, for any that lacked one */
	_Atomic uint64_t next_line_ms; /* when the log may report it again */
};

/* Memory of what waits to be sent to the clients of WebSockets (frames/shared_frame.h), a frame
 * that waits on several counted once. */
struct node_sends {
	_Atomic uint64_t bytes, most; /* most: socket_queue_total_bytes, 0: no bound */
};

/* Memory of messages of clients that are not passed on yet (websocket/message.h). */
struct node_unfinished {
	_Atomic uint64_t bytes, most; /* most: socket_gather_total_bytes, 0: no bound */
};

/* State that rooms above share over all workers; each room's header has the struct and the function
 * that finds it. NULL: there is none. */
enum node_shared {
	NODE_LISTENING,  /* listen/listener.h */
	NODE_OWNERS,     /* of sessions, ownership/owners.h */
	NODE_DELAYS,     /* exchange/delay_line.h */
	NODE_PUBLISHING, /* channels/publish.h */
	NODE_SHARED,
};

struct node {
	struct loop loop; /* the main thread's */
	struct log *log;
	struct throttle_table *throttles;
	atomic_uint store_links; /* workers that are connected to the fleet's store */
	struct authority *fleet; /* over limits of the fleet; NULL: built without */
	struct queue *queue;
	void *shared[NODE_SHARED];
	struct stats *stats;
	struct spool_store store; /* of the bodies that are kept for slow clients */
	struct worker **workers;
	unsigned worker_count;
	struct clock_anchor anchor; /* the throttles' clock, and steps of the wall's */
	struct failure_note failures;
	struct node_hops hops;
	struct tls_client_slot links_tls; /* of connections to other nodes; empty: plain */
	struct log_pace http2_floods;     /* connections that are closed for one */
	struct log_pace tls_on_plain;     /* connections that begin with TLS where none is spoken */
	struct node_spare spare;
	struct node_sends sends;
	struct node_unfinished unfinished;
	uint64_t socket_ids; /* what the ids of this process's WebSockets begin with; never 0 */
	_Atomic uint64_t sockets; /* WebSockets whose messages are read, over all workers */
	atomic_uint clients;      /* open connections, over all workers */
	atomic_uint running;      /* workers that have not ended */
	atomic_bool stopping;     /* nothing new begins: lame duck, then the drain */
};

/* Makes every worker look again whether it is done. Any thread. */
void node_wake_workers(struct node *node);

/* Has every worker run these commands (enum worker_command). Any thread. */
void node_command_workers(struct node *node, unsigned commands);

/* There is a failure without a line: of a server, or of `hops`. Any thread. */
void node_note_failure(struct node *node);

#endif
