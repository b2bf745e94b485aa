/*
 * `fleet = relaxed`: each node decides by its own table and by what all nodes have published of a
 * caller (relaxed.lua). A worker's publications, and their times; relaxed_way.h is how requests are
 * judged by it. Private to the fleet; all of it belongs to a worker's thread.
 *
 *   request --> view of its caller --reserve--> judged by the node's table (reserve.h)
 *                  |  ^
 *         admitted |  | what all nodes have admitted in the window, less what this one has
 *                  v  |
 *                store: at most one call at a time, of the callers that were asked about since the
 *                last; half of publish_interval after the last one, or at once where a caller is
 *                asked about that was not for as long
 *
 * The bound. P is half of publish_interval, T the longest round trip of a call and its wait for the
 * one before. What is admitted at x is known to the store at x + P + T; a node that is asked about
 * a caller at t knows what the store knew at t - P - T, or, in the first 2 T after a pause, what it
 * knew before that pause. So when a node admits, what it does not know of was sent to other nodes
 * or workers within 2 P + 2 T, and no window holds more than
 *
 *   quota + rate x (publish_interval + 2 T) + rate x 2 T x (workers that the caller begins to ask)
 *
 * where the rate is what the caller sends to all nodes. The store counts what is published for one
 * slot longer than a node's table could: what this node's table still counts is in the sum, too, so
 * that the difference is never less than what the others have.
 *
 * Without the store the ladder decides (rung.h): the quota less this node's share is reserved, for
 * store_down = local. What is admitted meanwhile is published when the store is back, unless it has
 * left the window. A call whose answer is lost is published again, and may count twice. A node that
 * is killed takes what it has not published with it, at most what it was sent in P + T.
 *
 * Memory: of a worker at most VIEWS_MOST callers. One more, while all of these wait to be
 * published, is judged as without the store.
 */
#ifndef FLEET_RELAXED_H
#define FLEET_RELAXED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "store/store_link.h"
#include "fleet/rule.h"
#include "throttle/throttle.h"
#include "base/hash_table.h"

/* ---- views ---------------------------------------------------------------------------------- */

/*
 * A worker's copy of the counts that the nodes publish (relaxed.h): of each, what all nodes
 * together had admitted when the store last said so, and what this worker has admitted since it
 * last said that. One worker's; it knows no store, and time is passed in.
 *
 *   views_find --> view --> due, a list in the order in which they were asked for --> published
 *
 * There are at most so many as the node remembers callers; one that has nothing to publish and was
 * not asked for longest is used again.
 */

struct view {
	struct hash_link link;
	struct view *older, *newer; /* in the order of their last use */
	struct view *next_due;
	struct throttle_key caller; /* as all nodes name it */
	struct throttle_key here;   /* and as this node's table does */
	const char *limit;          /* its name, as long as the worker */
	uint32_t number;            /* of the limit in the node's table */
	unsigned site;              /* under which `number` and `here` are right */
	struct rule rule;
	int64_t fresh;     /* admitted and not published */
	uint64_t given;    /* given back of what was published, and that not published */
	uint64_t taken_ns; /* when fresh was last published: what is younger is in it */
	uint64_t reserved; /* of the quota, by what others have admitted */
	uint64_t asked_ns; /* when that was asked; 0: never */
	uint64_t falls_ns; /* when the oldest that counts ends */
	bool is_due;       /* in the list */
	bool is_away;      /* in a call that is on its way */
};

struct views {
	struct throttle_seed seed;
	struct hash_table hashed;
	struct view *oldest, *newest;
	struct view *due, **due_end;
};

/* Draws the seed by which callers are scattered: what all nodes name them by is no secret. False:
 * the system gives no random bytes. */
bool views_init(struct views *views);
void views_end(struct views *views);

/* The view of a caller of a limit, which is the one last used; a new one has nothing. NULL: without
 * memory, or there are `most` and the one that was not asked for longest has something to publish.
 */
struct view *views_find(
	struct views *views, struct throttle_key caller, const char *limit, size_t most);

/* It is to be published or asked for. */
void views_put_due(struct views *views, struct view *view);
/* The first that is; NULL: none. */
struct view *views_take_due(struct views *views);

/* ---- relaxed -------------------------------------------------------------------------------- */

/* ---- relaxed call --------------------------------------------------------------------------- */

/* A call of the store's function for limits with fleet = relaxed (relaxed.lua). Private to the
 * fleet. */

#define RELAXED_AT_ONCE 256 /* callers in a call */

/* All that counts is at most as much. */
#define RELAXED_ALL (UINT64_C(1) << 53)

/* One caller of a limit; all in a call differ. */
struct relaxed_part {
	struct throttle_key caller; /* as all nodes name it */
	const char *limit;
	const struct rule *rule;
	uint64_t more, less; /* admitted, and given back; both 0: it only asks */
};

/* Composes a call of 1 to RELAXED_AT_ONCE parts; the answer has two integers for each: what counts,
 * and in how many microseconds the oldest of that counts no more. The caller frees `*command`.
 * False without memory. */
bool relaxed_compose(const struct relaxed_part *parts, unsigned count, const char *prefix,
	char **command, size_t *len);

/* ---- relaxed -------------------------------------------------------------------------------- */

struct worker;

/* Of one caller. Not their difference: what is given back is of older admissions. */
struct relaxed_units {
	uint64_t more, less; /* admitted, given back */
};

/* A worker's part. */
struct relaxing {
	struct worker *worker;
	struct store_link *store;
	struct views views;
	struct store_call call;
	struct deadline timer;
	struct view *sent[RELAXED_AT_ONCE];          /* those of the call that is on its way */
	struct relaxed_units units[RELAXED_AT_ONCE]; /* and how much of each it publishes */
	unsigned sent_count;                         /* 0: none is on its way */
	uint64_t sent_ns, sent_ms;                   /* the last one */
	uint64_t due_ms;                             /* the next one, */
	bool is_scheduled;                           /* if it has a time */
	bool has_failed;                             /* the last one, though the store was there */
	unsigned site;                               /* changes with the limits' numbers */
	char *command;
	const char *prefix; /* of the store's keys; not owned; NULL: none */
};

/* The worker's loop and `store` outlive it. False: the system gives no random bytes. */
bool relaxing_init(struct relaxing *relaxing, struct worker *worker, struct store_link *store);
/* The site is another one, in which limits have other numbers. */
void relaxing_take_site(struct relaxing *relaxing);
/* The store is READY. `prefix` stays until it is closed. */
void relaxing_begin(struct relaxing *relaxing, const char *prefix);
/* Publishes the present counts, as far as the store can be reached. */
void relaxing_leave(struct relaxing *relaxing);
void relaxing_end(struct relaxing *relaxing);

/* Has the store answered the last call, or has it still time to? */
bool relaxing_hears(const struct relaxing *relaxing);

/* What is known of a caller of a limit; NULL: nothing can be (relaxed.h). */
struct view *relaxing_view(
	struct relaxing *relaxing, struct throttle_key caller, const char *limit);
/* A request asks for this caller. */
void relaxing_ask(struct relaxing *relaxing, struct view *view);
/* So many units were charged of it on this node (below 0: given back of what was taken then). */
void relaxing_note(struct relaxing *relaxing, struct view *view, int64_t units, uint64_t taken_ns);

#endif
