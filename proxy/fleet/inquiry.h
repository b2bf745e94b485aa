/*
 * An operator's questions to the store about callers: what they have used, and to forget that.
 *
 *   asker's thread: inquiry_begin --> worker's thread --> calls of the store
 *                          done <------------------------- answers
 *
 * Nothing is taken by a look. Of a limit with fleet = lease, what nodes have on lease counts as
 * used, and is not forgotten. Of one with fleet = relaxed, what nodes have published counts, and is
 * forgotten; what their own tables have is not (admin forgets that of this node).
 */
#ifndef FLEET_INQUIRY_H
#define FLEET_INQUIRY_H

#include <stdbool.h>
#include <stdint.h>

#include "conf/conf.h"
#include "fleet/batch.h"
#include "store/store_server.h"
#include "fleet/way.h"
#include "loop/deadline.h"
#include "loop/message.h"
#include "throttle/throttle.h"

#define INQUIRY_MOST 16 /* limits */

struct authority;
struct loop;
struct worker;

struct inquiry_limit {
	const struct conf_limit *limit;
	struct throttle_key caller; /* as all nodes name it */
	uint64_t cost;              /* 0: is anything free? */
	struct rule rule;
	unsigned part;                   /* of the store */
	struct throttle_outcome outcome; /* of an answer, before anything was forgotten */
};

struct inquiry;

struct inquiry_call {
	struct store_call call;
	struct inquiry *inquiry;
	struct batch batch;           /* of FLEET_FUNCTIONS */
	enum fleet_function function; /* of the limits that it asks about, */
	unsigned part;                /* and where these are kept */
	char *command;                /* of INQUIRY_RELAXED; NULL: none yet */
};

/* Those of fleet = relaxed have a function of their own. */
#define INQUIRY_RELAXED FLEET_FUNCTIONS

/* Zeroed, then the first members are the asker's to set. It stays in place until `done`. */
struct inquiry {
	bool forgets;
	unsigned count;
	struct inquiry_limit limits[INQUIRY_MOST]; /* whose snapshot stays until then */
	void (*done)(struct inquiry *inquiry);     /* on the asker's thread */

	bool is_answered; /* of done: all outcomes are set; else the store did not answer */
	struct message message;
	struct worker *worker;
	struct loop *asker;
	unsigned under_way;
	struct deadline silence; /* of the store; the worker's */
	struct inquiry_call calls[INQUIRY_MOST];
	unsigned call_count;
};

/* Does the store know the callers of this limit of the fleet, and not each node its own? `number`:
 * of the limit in the node's table. Any thread. */
bool inquiry_is_of_store(
	struct authority *fleet, const struct conf_limit *limit, uint32_t number, uint64_t now_ns);

/* `worker` has not ended. `asker`: the loop of the thread that calls it. If the worker ends, it is
 * done without an answer, unless the asker's loop has ended, too. */
void inquiry_begin(struct inquiry *inquiry, struct worker *worker, struct loop *asker);
/* Frees what it has, but not itself. It is done, or the worker has ended. */
void inquiry_end(struct inquiry *inquiry);

#endif
