/*
 * One Redis that keeps what the fleet counts: a connection (redis_peer.h) on which it is asked
 * whether it is a primary, has the store's functions loaded, and then takes calls. Calls are
 * answered in the order in which they were sent. With a quorum, WAIT follows each call, and what
 * too few replicas have in time is answered with NULL.
 *
 *   closed --store_server_open--> SELECT, ROLE, CLUSTER INFO, FUNCTION LOAD --> ready --> lost
 *                                               `-- there already: is it the same? --'
 */
#ifndef STORE_STORE_SERVER_H
#define STORE_STORE_SERVER_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/redis_peer.h"
#include "store/store_where.h"

/* ---- trouble -------------------------------------------------------------------------------- */

/*
 * Why a node is without its store, for people: the last errors of its workers, and their beginning.
 * Any worker notes what it finds; a reader on any thread sees it until all of them are well again.
 *
 *   worker: connection lost, or a call refused --trouble_note(why)--+--> trouble_look: admin
 *           connected, or a call answered ------trouble_note(NULL)--'
 */

#define TROUBLE_BYTES 256

/* The part that all threads of the process share. */
struct trouble {
	pthread_mutex_t lock;
	unsigned count;    /* of marks that are set */
	uint64_t since_ns; /* when the first of them was; monotonic */
	char why[TROUBLE_BYTES];
};

/* A worker's own, zeroed: one for its connection, one for its calls. */
struct trouble_mark {
	bool is_set;
};

struct trouble_sight {
	unsigned count; /* 0: all is well, as far as the workers know */
	uint64_t since_ns;
	char why[TROUBLE_BYTES]; /* the last of them, in words; printable ASCII */
};

void trouble_init(struct trouble *trouble);
void trouble_end(struct trouble *trouble);
/* Sets the mark, and notes `why`; NULL: clears it. `now_ns` is monotonic. Any thread. */
void trouble_note(
	struct trouble *trouble, struct trouble_mark *mark, const char *why, uint64_t now_ns);
/* A copy. Any thread. */
void trouble_look(struct trouble *trouble, struct trouble_sight *sight);

/* ---- store server --------------------------------------------------------------------------- */

struct store_server;

/* Something that is asked of the store, embedded in its owner, who sets the first five. */
struct store_call {
	const char *command; /* in Redis's protocol; must stay until it is answered */
	size_t len;
	/* The answer's bytes, or NULL: it failed, and whether the store has done it is unknown. */
	void (*answered)(struct store_call *call, const char *bytes, size_t len);
	uint16_t slot;     /* of its keys (cluster_map.h) */
	bool is_lone;      /* need not reach replicas */
	bool is_again;     /* sent a second time: the first time the function was not there */
	bool is_awaited;   /* the answer to the first time's WAIT is still to come */
	bool may_fail;     /* an error is no trouble: its user may not be allowed to ask this */
	bool is_asking;    /* behind ASKING: of a slot that is on its way to this node */
	uint8_t redirects; /* so often it was sent elsewhere */
	uint64_t begun_ms, sent_ms; /* by its loop; sent_ms: the last time */
	struct store_call *next;    /* of those that its server has not answered */
};

/* A call as it is before it is sent. */
static inline struct store_call store_call_of(const char *command, size_t len, uint16_t slot,
	void (*answered)(struct store_call *call, const char *bytes, size_t len))
{
	return (struct store_call){
		.command = command, .len = len, .answered = answered, .slot = slot};
}

/* The differences if the server is a node of a Redis Cluster. */
struct store_server_cluster {
	/* The answer of CLUSTER INFO. Returns why the node cannot be used now, or NULL. */
	const char *(*informed)(struct store_server *server, const char *info);
	/* An error in place of an answer. True: the node has not done the call, which is its
	 * sender's again, and stays unanswered. */
	bool (*redirected)(struct store_server *server, struct store_call *call, const char *error);
};

struct store_server {
	struct redis_peer peer;
	const struct store_server_cluster *cluster; /* NULL: it is of none */
	uint32_t database;
	unsigned quorum, quorum_ms; /* replicas that must have each call, within; 0: none */
	unsigned unloaded;          /* functions */
	bool is_ready;
	bool lacks_replicas;
	bool may_not_load; /* its user, functions */
	bool has_held;
	char *held; /* an answer, or an error, until it is known how many replicas have it */
	size_t held_len, held_size;
	bool held_is_error;
	bool has_unsent;
	struct store_call *unanswered, **unanswered_end;
	/* It is ready, or (is_ready is false) lost: peer.why. */
	void (*changed)(struct store_server *server);
	/* Set by the owner, NULL: no receiver. It has answered a call with an error, or, with NULL,
	 * answers again or is lost. The mark is for trouble_note. */
	void (*refused)(struct store_server *server, const char *why);
	struct trouble_mark refusals;
};

/* Zeroed memory becomes a server that is closed. */
void store_server_init(struct store_server *server, struct loop *loop, struct names *names,
	void (*changed)(struct store_server *server));
/* As redis_peer_open, with what `where` says, which must stay until it is closed. */
void store_server_open(struct store_server *server, const char *host, uint16_t port,
	const struct store_where *where);
/* Without `changed`: calls get NULL. */
void store_server_close(struct store_server *server);
/* Closes it too. */
void store_server_end(struct store_server *server);

/* Sends it; `answered` comes later, never from within. False: it is not ready, or without memory;
 * nothing was sent. */
bool store_server_send(struct store_server *server, struct store_call *call);
/* Writes what was sent, at the end of each round: not from within `answered` or `changed`. It may
 * turn out here that the connection is lost. */
void store_server_flush(struct store_server *server);

#endif
