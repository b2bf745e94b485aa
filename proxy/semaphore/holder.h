/*
 * The slots of a semaphore that one connection to the broker holds.
 *
 *   search, from 1 on:   A missing --> all slots are taken, as there are no more
 *                        B there   --> held, by whomever: the next one
 *                        else      --> declare B, exclusive: RESOURCE_LOCKED --> the next one
 *                                      then A once more: gone --> B is deleted, it never counts
 *
 * A slot is given back by deleting its B, and by the end of the connection, however that comes. One
 * whose A is gone was removed by an administrator: it is used no more, but held until what it was
 * used for has ended (holder_give), so that `sluice semaphore wait` knows.
 *
 * As slots are removed in descending order, a look at the highest one that is held is a look at all
 * of them; each look is also at another of them in turn, at both of its queues, in case that they
 * were lost in another way.
 */
#ifndef SEMAPHORE_HOLDER_H
#define SEMAPHORE_HOLDER_H

#include "semaphore/slots.h"

/* Of those that others took between the look and the declaration, a search bears so many. */
#define HOLDER_TRIES 4

struct holder {
	struct slots slots;
	struct slots_set held;    /* B is ours; removed ones, too */
	struct slots_set removed; /* and of these A is gone */
	uint32_t max;             /* slots that there are, as was seen last */
	uint32_t turn;            /* the one that was looked at in turn last */
	uint32_t glance;          /* and of those of others, by holder_glance */
	uint64_t messages;        /* sent to the broker so far */
};

/* Begins without a slot and counts those that there are, to `max`. BROKER_REFUSED, with the reason
 * in the broker's `why`, when a queue in the place of a slot is another connection's own. `name` is
 * borrowed. */
enum broker_result holder_begin(struct holder *holder, struct broker *broker, const char *name);

/* Slots that may be used: held, and not removed. */
static inline uint32_t holder_usable(const struct holder *holder)
{
	return holder->held.count - holder->removed.count;
}

/* Searches for `count` slots more. Less are found when all others are held: the caller comes again
 * later. BROKER_REFUSED: a B could not be declared, for another reason than that it is held; those
 * that were found until then count. */
enum broker_result holder_take(struct holder *holder, uint32_t count);

/* Looks at an eighth of the slots that this holder does not have (four at least), others each time:
 * `*is_free`: one of them has no holder, so that a search is worth its messages. BROKER_DONE, or as
 * the broker's `probe`; then `*is_free` is false. */
enum broker_result holder_glance(struct holder *holder, bool *is_free);

/* Looks which slots are removed, and whether there are as many as before: five messages, and when
 * something has changed, all slots are looked at. */
enum broker_result holder_check(struct holder *holder);

/* Gives back `count` slots, removed ones first, then those of the highest numbers. */
enum broker_result holder_give(struct holder *holder, uint32_t count);

/* ---- crowd ---------------------------------------------------------------------------------- */

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
