/*
 * A semaphore's slots at the broker. Slot n of NAME, from 1 on, is a pair of queues:
 *
 *   NAME-n-A   durable: there is such a slot
 *   NAME-n-B   exclusive to the connection of the one that holds the slot
 *
 * The number of slots is that of A queues without a gap, from 1 on. A queue behind a gap is a
 * stray: no holder comes to it, as the search ascends and ends at the first one that is missing.
 */
#ifndef SEMAPHORE_SLOTS_H
#define SEMAPHORE_SLOTS_H

#include "semaphore/broker.h"

/* Of a semaphore at most. Also where each search ends. */
#define SLOTS_MOST 10000

/* The largest distance behind the last slot that a search for strays covers. */
#define SLOTS_GAP_MOST 10000

/* The name of a queue: a semaphore's has at most 64 characters. */
#define SLOTS_QUEUE_BYTES 96

enum slots_half { SLOTS_A = 'A', SLOTS_B = 'B' };

struct slots {
	struct broker *broker;
	const char *name; /* borrowed */
};

/* Writes the queue's name. `number` is from 1 on. */
void slots_name_queue(const struct slots *slots, uint32_t number, enum slots_half half,
	char queue[static SLOTS_QUEUE_BYTES]);

/* Counts the slots, to `*max`. BROKER_DONE, or as the broker's `probe`. */
enum broker_result slots_count(const struct slots *slots, uint32_t *max);

/* Numbers of slots. */
struct slots_set {
	uint64_t bits[(SLOTS_MOST + SLOTS_GAP_MOST) / 64 + 1];
	uint32_t count;
};

bool slots_set_has(const struct slots_set *set, uint32_t number);
/* One that is there already is not counted twice, and one that is not there is ignored. */
void slots_set_add(struct slots_set *set, uint32_t number);
void slots_set_remove(struct slots_set *set, uint32_t number);
/* The next number below `number`, 0: none. */
uint32_t slots_set_below(const struct slots_set *set, uint32_t number);
/* Above every number of a set. */
#define SLOTS_SET_END (SLOTS_MOST + SLOTS_GAP_MOST + 1)

/*
 * Adds to `found` the numbers of the queues of this half that are there, from `first` up to `last`,
 * and behind it until `gap` in a row (SLOTS_GAP_MOST at most) are missing. BROKER_DONE, or as the
 * broker's `probe`; then `found` lacks some.
 */
enum broker_result slots_find(const struct slots *slots, enum slots_half half, uint32_t first,
	uint32_t last, uint32_t gap, struct slots_set *found);

#endif
