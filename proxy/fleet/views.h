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
#ifndef FLEET_VIEWS_H
#define FLEET_VIEWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash_table.h"
#include "fleet/rule.h"
#include "throttle/throttle.h"

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

#endif
