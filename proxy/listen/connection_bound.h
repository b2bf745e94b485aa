/*
 * A bound on open connections, which several workers take places of (listen/listener.c).
 */
#ifndef LISTEN_CONNECTION_BOUND_H
#define LISTEN_CONNECTION_BOUND_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/log_pace.h"

/* The bound of one [listener], over its binds and all workers, or of the whole process. */
struct connection_bound {
	struct connection_bound *next;
	char *name;       /* the listener's; NULL: the process's */
	unsigned holders; /* its bindings; the main thread's to count */
	atomic_uint connections;
	atomic_bool waiting;  /* some worker's listener is at the bound */
	atomic_bool wanted;   /* it asks the other workers for a place (listen/give_way.h) */
	atomic_uint gave_way; /* idle connections that were closed for others, and */
	_Atomic uint64_t next_line_ms;       /* when the log may report it again */
	struct log_pace refused_headers;     /* of proxies */
	struct log_pace refused_connections; /* by limits */
};

#endif
