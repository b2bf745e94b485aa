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
#ifndef FLEET_STANDING_H
#define FLEET_STANDING_H

#include <stdbool.h>
#include <stdint.h>

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

#endif
