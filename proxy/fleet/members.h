/*
 * The nodes of the fleet, as this one knows them: each holds a lease in the store (join.lua), which
 * its first worker renews three times in the lease's length. A reader on any thread sees the
 * store's last answer.
 */
#ifndef FLEET_MEMBERS_H
#define FLEET_MEMBERS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "conf/conf.h"
#include "store/cluster_map.h"
#include "store/store_link.h"

/* ---- standing ------------------------------------------------------------------------------- */

/*
 * Among how many nodes a limit is divided when the store is away, by what a node was told as a
 * member while it was there. Pure; private to the fleet.
 *
 * Shares add up to the quota if no two nodes count differently in the wrong direction. A node that
 * joins has none until the others must have learned of it: they ask three times in the length of a
 * lease, so after one. A node that returns after its own lease ended keeps to what it knew before,
 * or to more, for as long. Fewer members count only when they have been fewer for a lease: a store
 * that has lost its memory knows those that have renewed theirs since, of all.
 */

struct standing {
	uint64_t last_ms, since_ms; /* when it last asked, and first without a gap; monotonic */
	uint64_t fewer_ms;          /* since when there are fewer than `nodes`, */
	unsigned fewer;             /* at most so many; 0: there are not */
	bool has_asked;
	unsigned nodes; /* that divide a limit; 0: it has no share */
};

/* The store has answered what was asked at `asked_ms`: there are so many members, with this one.
 * Returns standing.nodes. */
unsigned standing_note(
	struct standing *standing, uint64_t asked_ms, uint64_t lease_ms, unsigned count);

/* ---- members -------------------------------------------------------------------------------- */

#define MEMBERS_NAME_BYTES CONF_NODE_BYTES

/* The part that all threads of the process share. */
struct members {
	pthread_mutex_t lock;
	char default_name[MEMBERS_NAME_BYTES];
	char name[MEMBERS_NAME_BYTES];   /* that it joined by; "": it has not */
	uint64_t process;                /* larger than those of processes before it */
	char *lines;                     /* join.lua's answer; NULL: none yet */
	uint64_t answered_ns;            /* monotonic */
	atomic_uint count;               /* of live nodes, then; without the lock */
	char *primaries;                 /* cluster_describe's; NULL: the store is no cluster */
	uint64_t store;                  /* whose epochs are known, by members_store_id */
	uint64_t epochs[1 + SLOT_PARTS]; /* of its parts; 0: none */
};

/* The identity of a store: where it is, and the prefix of its keys. */
uint64_t members_store_id(const char *store, const char *prefix);
/* The epoch that an answer of this part of the store had last, to any worker; 0: none was had. */
uint64_t members_epoch(struct members *members, uint64_t store, unsigned part);
void members_learn_epoch(struct members *members, uint64_t store, unsigned part, uint64_t epoch);
/* The store's primaries, to be displayed; takes the text, which may be NULL. */
void members_note_primaries(struct members *members, char *primaries);

void members_init(struct members *members);
void members_end(struct members *members);

/* The first worker's part: one call at a time. */
struct joining {
	struct members *members;
	struct loop *loop;
	struct store_link *store;
	struct store_call call;
	struct deadline timer;
	const char *prefix; /* of the store's keys; not owned */
	char name[MEMBERS_NAME_BYTES];
	uint64_t lease_ms;
	uint64_t asked_ms;
	bool is_asked;     /* the call is on its way */
	bool is_preparing; /* `before` has not done all yet */
	struct standing standing;
	/* Before each call, NULL: nothing. False: it has more to do, which it may only if it
	 * `may_wait`, and calls joining_go_on later. */
	bool (*before)(struct joining *joining, bool may_wait);
	/* After each call: whether it was answered; NULL: nothing. */
	void (*after)(struct joining *joining, bool is_answered);
	char command[768];
};

void joining_init(struct joining *joining, struct members *members, struct loop *loop,
	struct store_link *store);
/* Joins as the node of this name (NULL: the default), or renews its lease, and continues as long as
 * the store is READY. `prefix` stays until the store is closed. */
void joining_begin(
	struct joining *joining, const char *prefix, const char *name, uint64_t lease_ms);
/* All is done that had to be before the call: it is sent, or reported as not answered. */
void joining_go_on(struct joining *joining);
/* Leaves, as far as the store can be reached. The node stays if a later process has joined by its
 * name, as after an upgrade. */
void joining_leave(struct joining *joining);
void joining_end(struct joining *joining);

#endif
