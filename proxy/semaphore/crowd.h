/*
 * How many connections use a semaphore, and whether one of them gets no slot: what they must know
 * of each other so that none starves, and for shares while the broker is away.
 *
 *   NAME/holder-n   exclusive: the n-th of those that use it, the lowest number that was free
 *   NAME/wait       exclusive to one that has less than its share and finds no free slot: those
 * that have more give some back
 *
 * No semaphore's own queues are called so, as its name has no '/'. Where the broker does not allow
 * these queues, nothing is known, and slots stay with those that have them.
 */
#ifndef SEMAPHORE_CROWD_H
#define SEMAPHORE_CROWD_H

#include "semaphore/holder.h"

/* That are counted at most; more count as that many. */
#define CROWD_MOST 100

struct crowd {
	uint32_t number; /* ours; 0: none */
	uint32_t last;   /* the highest that was seen */
	uint32_t count;  /* 0: unknown */
	bool waits;      /* NAME/wait is ours, */
	bool hears;      /* or another's */
};

/* Joins and counts. BROKER_LOST, or BROKER_DONE, also when the broker does not allow it. */
enum broker_result crowd_join(struct crowd *crowd, struct holder *holder);

/* We need no slot any more, and have no share: the others do not count us. BROKER_LOST, or
 * BROKER_DONE, also when the broker does not allow it. */
enum broker_result crowd_leave(struct crowd *crowd, struct holder *holder);

/* Does another wait? With `counts`, how many are there, too. BROKER_DONE, or as the broker's
 * `probe`. */
enum broker_result crowd_look(struct crowd *crowd, struct holder *holder, bool counts);

/* Says that we wait, or do no more. BROKER_LOST, or BROKER_DONE, also when another waits, for whom
 * as much is given back. */
enum broker_result crowd_wait(struct crowd *crowd, struct holder *holder, bool waits);

#endif
