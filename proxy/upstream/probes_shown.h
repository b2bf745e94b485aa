/*
 * The results of active health checks, to be shown by any thread: of a server, and which node of
 * the fleet probes the servers of an upstream with health_shared.
 */
#ifndef UPSTREAM_PROBES_SHOWN_H
#define UPSTREAM_PROBES_SHOWN_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#define PROBE_SAW_BYTES  96
#define PROBE_NODE_BYTES 128 /* a node's name; as the session of a lock allows, at most */

/* The last probe of a server. */
struct server_finding {
	bool is_known;             /* there was one */
	bool is_up;                /* what it and those before it mean; not the single answer */
	bool is_unshared;          /* of health_shared: the prober does not know the server */
	uint64_t since_ms;         /* milliseconds since 1970: it is up, or down, since then */
	uint64_t checked_ms;       /* monotonic: the probe's end */
	char saw[PROBE_SAW_BYTES]; /* what came of it */
	char by[PROBE_NODE_BYTES]; /* the node that probed; "": this one */
};

/* A node's part in health_shared. */
enum probes_role {
	PROBES_UNSHARED, /* health_shared = off */
	PROBES_WAITING,  /* no result yet */
	PROBES_PROBER,   /* this node probes for all */
	PROBES_FOLLOWER, /* another does */
	PROBES_ALONE,    /* each node probes for itself, as the results are too old */
	PROBES_ROLES,
};

struct probes_sight {
	enum probes_role role;
	bool is_store_there;
	uint64_t heard_ms; /* monotonic: when the results were published; 0: none were */
	uint64_t fence;    /* of the prober's lock; 0: none is known */
	char prober[PROBE_NODE_BYTES]; /* "": none is known */
};

/* Embedded in the state of an upstream. */
struct probes_shown {
	pthread_mutex_t lock;
	struct probes_sight sight;
};

void probes_shown_init(struct probes_shown *shown);
void probes_shown_end(struct probes_shown *shown);
/* Any thread. */
void probes_shown_set(struct probes_shown *shown, const struct probes_sight *sight);
void probes_shown_read(struct probes_shown *shown, struct probes_sight *sight);

/* `prober`, `follower`, `alone`, `waiting`, `unshared` */
const char *probes_role_name(enum probes_role role);

#endif
